"""How often a marker is passed, where the code alone says it.

Rows that keep their last records have lost the first ones, and with them the count of what came before. Where loops
have constant extents and nothing depends on data, the total is known when the kernel is built, so that the last
occurrence in a row still has its number, and arrows connect the right two.
"""

from __future__ import annotations

from typing import Any

from tilelang import tvm

from .markers import Marker
from .paths import LEAVES_KERNEL, LEAVES_LOOP

tirx = tvm.tirx

THREAD_INDEX = "tl.launch_thread_idx"  # what TileLang binds the thread variables to


def occurrences(body: Any, threads_x: int) -> dict[int, int | None]:
    """For each marker's identity, how often its group's lead passes it; ``None`` where that depends on data.

    Args:
        body: a kernel's body, with its markers.
        threads_x: the block's extent along x.
    """
    if _leaves_early(body):
        return {}
    totals: dict[int, int | None] = {}
    analyzer, substitute = tvm.arith.Analyzer(), tirx.stmt_functor.substitute
    threads: list[tuple[Any, int]] = []  # thread variables and their axes
    bound: dict[Any, Any] = {}  # other variables and their values

    def passed(condition: Any, lead: int, wanted: bool) -> bool | None:
        coordinates = (lead % threads_x, lead // threads_x, 0)
        lead_is = {var: tirx.const(coordinates[axis], var.dtype) for var, axis in threads}
        known = analyzer.simplify(substitute(substitute(condition, bound), lead_is))
        return (bool(int(known)) == wanted) if isinstance(known, tirx.IntImm) else None

    def visit(stmt: Any, times: int | None, guards: tuple[tuple[Any, bool], ...]) -> None:
        marker = Marker.of(stmt)
        if marker is not None:
            taken = [passed(condition, marker.group.lead, wanted) for condition, wanted in guards]
            total = 0 if False in taken else None if None in taken else times
            totals[marker.identity] = total
        elif isinstance(stmt, tirx.Bind):
            if getattr(getattr(stmt.value, "op", None), "name", "") == THREAD_INDEX:
                threads.append((stmt.var, int(stmt.value.args[0])))
            else:
                bound[stmt.var] = substitute(stmt.value, bound)
        elif isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                visit(part, times, guards)
        elif isinstance(stmt, tirx.For):
            if stmt.thread_binding is not None:
                tag = str(stmt.thread_binding.thread_tag)
                if tag.startswith("threadIdx."):
                    threads.append((stmt.loop_var, "xyz".index(tag[-1])))
                visit(stmt.body, times, guards)
            else:
                constant = times is not None and isinstance(stmt.extent, tirx.IntImm)
                visit(stmt.body, times * int(stmt.extent) if constant else None, guards)  # type: ignore[operator]
        elif isinstance(stmt, tirx.While):
            visit(stmt.body, None, guards)
        elif isinstance(stmt, tirx.IfThenElse):
            visit(stmt.then_case, times, (*guards, (stmt.condition, True)))
            if stmt.else_case is not None:
                visit(stmt.else_case, times, (*guards, (stmt.condition, False)))
        elif isinstance(stmt, tirx.SBlockRealize):
            visit(stmt.block, times, guards)
        elif hasattr(stmt, "body"):
            visit(stmt.body, times, guards)

    visit(body, 1, ())
    return totals


def _leaves_early(body: Any) -> bool:
    found: list[bool] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Call) and getattr(node.op, "name", "") in (*LEAVES_KERNEL, *LEAVES_LOOP):
            found.append(True)

    tirx.stmt_functor.post_order_visit(body, visit)
    return bool(found)
