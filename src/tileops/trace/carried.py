"""Markers at a loop's end and at its begin, made neighbours.

A loop whose body begins with one marker and ends with another runs them back to back, once an iteration, with nothing
between but the loop's own count. Markers that stand next to each other share a record, so the begin's is moved to the
end of the iteration before: an iteration of ``acquire | load | arrive`` then takes three records instead of four.

What is recorded stays what was written. The first iteration's begin is recorded ahead of the loop, and the last
iteration's end alone: no event is made up or left out. The begin is read a few cycles early, by the loop's count.
"""

from __future__ import annotations

from typing import Any

from tilelang import tvm

from .markers import DAG, Marker
from .pipelined import is_pipelined, sequence, statements

tirx = tvm.tirx


def carried(body: Any) -> Any:
    """A kernel's body with the begin of every loop that allows it carried to the end of the iteration before."""

    def loop(stmt: Any) -> Any:
        if stmt.kind not in (tirx.ForKind.SERIAL, tirx.ForKind.UNROLLED) or is_pipelined(stmt):
            return None
        if stmt.thread_binding is not None or not _at_least_two(stmt) or _leaves_early(stmt.body):
            return None
        parts = statements(stmt.body)
        bindings, begin, middle, end = _split(parts)
        if not begin or not end or not middle or not _may_share(begin, end):
            return None
        names = {binding.var for binding in bindings}
        if any(_reads_memory_or(marker, names) for marker in begin):
            return None
        last = stmt.min + stmt.extent - 1
        first = [tirx.stmt_functor.substitute(marker, {stmt.loop_var: stmt.min}) for marker in begin]
        following = [tirx.stmt_functor.substitute(marker, {stmt.loop_var: stmt.loop_var + 1}) for marker in begin]
        either = tirx.IfThenElse(stmt.loop_var < last, sequence([*end, *following]), sequence(end))
        inside = sequence([*bindings, *middle, either])
        made = tirx.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, inside, None, stmt.annotations, stmt.step)
        return sequence([*first, made])

    return tirx.stmt_functor.ir_transform(body, None, loop, ["tirx.For"])


def _at_least_two(loop: Any) -> bool:
    constant = isinstance(loop.extent, tirx.IntImm) and int(loop.extent) >= 2
    return constant and (loop.step is None or (isinstance(loop.step, tirx.IntImm) and int(loop.step) == 1))


def _leaves_early(body: Any) -> bool:
    found: list[bool] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Call) and getattr(node.op, "name", "").endswith(("break_loop", "continue_loop")):
            found.append(True)

    tirx.stmt_functor.post_order_visit(body, visit)
    return bool(found)


def _split(parts: list[Any]) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """A body as its leading bindings, the markers behind them, the rest, and the markers at its end."""
    at = next((i for i, part in enumerate(parts) if not isinstance(part, tirx.Bind)), len(parts))
    first = next((i for i in range(at, len(parts)) if not _is_marker(parts[i])), len(parts))
    last = next((i for i in range(len(parts), first, -1) if not _is_marker(parts[i - 1])), first)
    return parts[:at], parts[at:first], parts[first:last], parts[last:]


def _is_marker(stmt: Any) -> bool:
    marker = Marker.of(stmt)
    return marker is not None and marker.kind != DAG


def _may_share(begin: list[Any], end: list[Any]) -> bool:
    """Whether the markers can take one record: of one group, and one payload at most, at the begin."""
    markers = [Marker.of(stmt) for stmt in (*begin, *end)]
    groups = {marker.group.name for marker in markers if marker is not None}
    payloads = [marker.payload != "" for marker in markers if marker is not None]
    return len(groups) == 1 and sum(payloads) <= 1 and not any(payloads[len(begin) :])


def _reads_memory_or(marker: Any, names: set[Any]) -> bool:
    """Whether a marker's payload reads memory, which may end with the loop, or one of ``names``."""
    found: list[bool] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad) or (isinstance(node, tirx.Var) and any(node.same_as(n) for n in names)):
            found.append(True)

    tirx.stmt_functor.post_order_visit(marker, visit)
    return bool(found)
