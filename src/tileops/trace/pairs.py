"""Two records of a straight piece of code, stored together.

A store reads its registers some 25 cycles after it was issued, and the next clock read wants the same registers, since
the compiler has no reason to take others. So a marker that stores at once makes the one behind it wait: 30 cycles a
record in a loop on an H200. Of two markers that always run one after the other, the first one therefore keeps its
record in registers, and the second one stores both, from different registers: half the waits, half the bounds checks
(``benchmarks/markers.py``).

That holds only where nothing can come between the two: both stand in one list of statements, and what lies between
them holds no marker of their group and leaves neither the loop nor the kernel. In a ``T.Pipelined`` loop nothing is
paired, since TileLang runs a part of its body for the next iteration first.
"""

from __future__ import annotations

from typing import Any

from tilelang import tvm

from .paths import LEAVES_KERNEL, LEAVES_LOOP
from .pipelined import is_pipelined

tirx = tvm.tirx

MARK = "tileops_mark"
HELD, PAIRED = "tileops_mark_held", "tileops_mark_paired"


def paired(body: Any) -> Any:
    """A kernel's body with its recording calls made pairs wherever two of a group follow each other."""

    def statements_of(stmt: Any) -> Any:
        return _paired(stmt) if isinstance(stmt, tirx.SeqStmt) else None

    def keep(stmt: Any) -> Any:
        return stmt if isinstance(stmt, tirx.For) and is_pipelined(stmt) else None

    return tirx.stmt_functor.ir_transform(body, keep, statements_of, ["tirx.SeqStmt", "tirx.For"])


def _paired(stmts: Any) -> Any:
    made = list(stmts.seq)
    waiting: dict[int, int] = {}  # group -> where its first half stands
    for at, stmt in enumerate(made):
        group = _marks(stmt)
        if group is None:
            groups, leaves = _inside(stmt)
            for other in list(waiting):
                if leaves or other in groups:
                    del waiting[other]
        elif group in waiting:
            first = waiting.pop(group)
            made[first], made[at] = _renamed(made[first], HELD), _renamed(stmt, PAIRED)
        else:
            waiting[group] = at
    return tirx.SeqStmt(made)


def _marks(stmt: Any) -> int | None:
    """The group of the recording call that a statement is."""
    if not isinstance(stmt, tirx.Evaluate) or not _is_recording(stmt.value):
        return None
    return int(stmt.value.args[1])


def _is_recording(node: Any) -> bool:
    is_extern = isinstance(node, tirx.Call) and getattr(node.op, "name", "") == "tirx.call_extern"
    return is_extern and str(node.args[0].value).startswith(MARK)


def _inside(stmt: Any) -> tuple[set[int], bool]:
    """The groups that record somewhere inside a statement, and whether it can leave the list that it stands in."""
    groups: set[int] = set()
    leaves: list[bool] = []

    def visit(node: Any) -> None:
        if _is_recording(node):
            groups.add(int(node.args[1]))
        elif isinstance(node, tirx.Call) and getattr(node.op, "name", "") in (*LEAVES_KERNEL, *LEAVES_LOOP):
            leaves.append(True)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return groups, bool(leaves)


def _renamed(stmt: Any, name: str) -> Any:
    call = stmt.value
    suffix = str(call.args[0].value).removeprefix(MARK)
    arguments = [tirx.StringImm(name + suffix), *call.args[1:]]
    return tirx.Evaluate(tirx.Call(call.dtype, call.op, arguments))
