"""Records of a straight piece of code, stored together.

A store reads its registers some 25 cycles after it was issued, and the next clock read wants the same registers, since
the compiler has no reason to take others. So a marker that stores at once makes the one behind it wait: 26 cycles a
record in a loop on an H200. Of two to four markers that always run one after the other, all but the last therefore
keep their records in registers, and the last one stores all, from different registers: one wait and one bounds check
for all of them (``benchmarks/markers.py``).

That holds only where nothing can come between: they stand in one list of statements, and what lies between them holds
no marker of their group and leaves neither the loop nor the kernel. In a ``T.Pipelined`` loop nothing is held back,
since TileLang runs a part of its body for the next iteration first.
"""

from __future__ import annotations

from typing import Any

from tilelang import tvm

from .paths import LEAVES_KERNEL, LEAVES_LOOP
from .pipelined import is_pipelined
from .slots import SPARE_RECORDS

tirx = tvm.tirx

MARK = "tileops_mark"
# Each record that is held back takes two or three registers.
LARGEST = 1 + SPARE_RECORDS


def batched(body: Any) -> tuple[Any, dict[int, int]]:
    """A kernel's body with its recording calls in batches.

    Returns:
        The body, and for each site how many records are stored right behind its clock read: 0 where it is held back.
    """
    stored: dict[int, int] = {}

    def statements_of(stmt: Any) -> Any:
        return _batched(stmt) if isinstance(stmt, tirx.SeqStmt) else None

    def keep(stmt: Any) -> Any:
        return stmt if isinstance(stmt, tirx.For) and is_pipelined(stmt) else None

    def note(node: Any) -> None:
        if is_recording(node):
            name, sites = str(node.args[0].value), node.args[2]
            how = name.removeprefix(MARK).removeprefix("_")
            count = 0 if how.startswith("held") else int(how[5]) if how.startswith("store") else 1
            both = (sites.true_value, sites.false_value) if isinstance(sites, tirx.Select) else (sites,)
            stored.update((int(site), count) for site in both)

    body = tirx.stmt_functor.ir_transform(body, keep, statements_of, ["tirx.SeqStmt", "tirx.For"])
    tirx.stmt_functor.post_order_visit(body, note)
    return body, stored


def is_recording(node: Any) -> bool:
    """Whether a TIR node is a call that records."""
    is_extern = isinstance(node, tirx.Call) and getattr(node.op, "name", "") == "tirx.call_extern"
    return is_extern and str(node.args[0].value).startswith(MARK)


def _batched(stmts: Any) -> Any:
    made = list(stmts.seq)
    runs: dict[int, list[int]] = {}  # group -> where its calls stand that nothing has come between

    def close(group: int) -> None:
        run = runs.pop(group)
        count = -(-len(run) // LARGEST)
        for number in range(count):
            # Evenly, so that none is left alone.
            batch = run[number * len(run) // count : (number + 1) * len(run) // count]
            for position, at in enumerate(batch[:-1]):
                made[at] = _renamed(made[at], f"{MARK}_held{position}")
            if len(batch) > 1:
                made[batch[-1]] = _renamed(made[batch[-1]], f"{MARK}_store{len(batch)}")

    for at, stmt in enumerate(made):
        if isinstance(stmt, tirx.Evaluate) and is_recording(stmt.value):
            runs.setdefault(int(stmt.value.args[1]), []).append(at)
            continue
        groups, leaves = _inside(stmt)
        for group in list(runs):
            if leaves or group in groups:
                close(group)
    for group in list(runs):
        close(group)
    return tirx.SeqStmt(made)


def _inside(stmt: Any) -> tuple[set[int], bool]:
    """The groups that record somewhere inside a statement, and whether it can leave the list that it stands in."""
    groups: set[int] = set()
    leaves: list[bool] = []

    def visit(node: Any) -> None:
        if is_recording(node):
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
