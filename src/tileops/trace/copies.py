"""Ranges around copies alone, in the pipelined loop that TileLang may split into a producer's and a consumer's.

Where it specializes warps by itself, TileLang makes two loops of the first ``T.Pipelined`` one: copies into shared
memory stand in the producer's, all else in the consumer's, opaque calls included. No statement of TIR can follow a copy
to the other side (TileLang 0.1.15: a copy has to be a bare statement to be recognized, and only what stands ahead of a
copy is ever taken along). So what brackets copies alone is found here, gets a row and a thread of its own, and is moved
in the generated source (``placing.py``), where both sides exist.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import tilelang.language as T
from tilelang import tvm

from .markers import DAG, RANGE_BEGIN, RANGE_END, RECORD, SYMBOL, GroupMark, Marker, markers_in
from .paths import TILE_OP, specializes
from .pipelined import WRITE_MASK, beside_guard, guard_of, only_markers, statements

tirx = tvm.tirx

STAGES = "num_stages"
LAUNCHED_LEAD = 0  # of the launched threads the first one: where TileLang specializes warps, one of the producer's


@dataclass(frozen=True)
class Place:
    """Where a marker belongs: ahead of one of a loop's copies, or behind it."""

    copy: int
    behind: bool


@dataclass(frozen=True)
class Copies:
    """A pipelined loop's copies into shared memory and the markers around them.

    Attributes:
        buffers: the buffers that the loop's copies fill, in order.
        places: a marker's identity to where it belongs; all markers of ranges that hold copies and nothing else.
        empty: the begins of ranges in the loop that hold no statement.
    """

    buffers: tuple[str, ...] = ()
    places: dict[int, Place] = field(default_factory=dict)
    empty: tuple[Marker, ...] = ()


def copies(body: Any) -> Copies:
    """What a kernel's body holds of them; nothing where TileLang can't specialize its warps."""
    loop = _first_pipelined(body) if specializes(body) else None
    if loop is None or int(loop.annotations[STAGES]) < 1:
        return Copies()
    return _Reader(_parts(loop)).found()


def on_their_own_rows(func: Any, found: Copies) -> tuple[Any, frozenset[str]]:
    """A PrimFunc with the markers of ``found`` in groups of their own, and the names of these groups.

    Such a group is recorded by the first thread that is launched, wherever the author's lead is. A group that has no
    other markers keeps its name.
    """
    markers = [marker for marker in markers_in(func.body) if marker.kind != DAG]
    taken = {marker.group.name for marker in markers}
    staying = {marker.group.name for marker in markers if marker.identity not in found.places}
    names: dict[str, str] = {}
    for marker in markers:
        name = marker.group.name
        if marker.identity in found.places and name not in names:
            names[name] = _unused(f"{name} (producer)", taken) if name in staying else name

    def moved(stmt: Any) -> Any:
        marker = Marker.of(stmt)
        if marker is None or marker.identity not in found.places:
            return None
        group = GroupMark(names[marker.group.name], LAUNCHED_LEAD, marker.group.file, marker.group.line)
        text = json.dumps(asdict(replace(marker, group=group)), sort_keys=True)
        return tirx.Evaluate(T.call_extern("int32", SYMBOL, text, *stmt.value.args[2:]))

    body = tirx.stmt_functor.ir_transform(func.body, None, moved, ["tirx.Evaluate"])
    return func.with_body(body), frozenset(names.values())


@dataclass
class _Open:
    """A range that is open while the loop's statements are read."""

    begin: Marker
    inside: list[tuple[Marker, int]] = field(default_factory=list)  # records, and how many copies are ahead of them
    first: int = 0
    copies: int = 0
    others: int = 0


class _Reader:
    """Reads a loop's statements in order."""

    def __init__(self, parts: list[Any]):
        self._buffers: list[str] = []
        self._open: list[_Open] = []
        self._closed: list[tuple[_Open, Marker]] = []
        for part in parts:
            self._read(part)

    def found(self) -> Copies:
        places: dict[int, Place] = {}
        for one, end in self._closed:
            if one.copies and not one.others:
                last = one.first + one.copies - 1
                places[one.begin.identity], places[end.identity] = Place(one.first, False), Place(last, True)
                for record, ahead in one.inside:
                    # Of nested ranges the inner one is closed first, and says where.
                    behind = ahead > one.first
                    places.setdefault(record.identity, Place(ahead - 1 if behind else one.first, behind))
        empty = tuple(one.begin for one, _ in self._closed if not one.copies and not one.others and not one.inside)
        return Copies(tuple(self._buffers), places, empty)

    def _read(self, part: Any) -> None:
        marker = Marker.of(part)
        if marker is not None:
            self._mark(marker)
        elif only_markers(part):
            for one in self._open:  # whether it records is decided on the consumer's side
                one.others += 1
        elif not isinstance(part, tirx.Bind):  # a value is computed where it is needed
            buffer = copied_into(part)
            for one in self._open:
                one.copies += bool(buffer)
                one.others += not buffer
            self._buffers += [buffer] if buffer else []

    def _mark(self, marker: Marker) -> None:
        if marker.kind == RANGE_BEGIN:
            self._open.append(_Open(marker, first=len(self._buffers)))
        elif marker.kind == RECORD:
            for one in self._open:
                one.inside.append((marker, len(self._buffers)))
        elif marker.kind == RANGE_END:
            ended = next((one for one in self._open if one.begin.identity == marker.token), None)
            if ended is not None:
                self._open.remove(ended)
                self._closed.append((ended, marker))


def copied_into(stmt: Any) -> str:
    """The shared buffer that a statement fills from global memory and does nothing else; empty if it is no such one."""
    read: set[str] = set()
    filled: dict[str, None] = {}
    other: list[bool] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferStore):
            if _is_shared(node):
                filled.setdefault(node.buffer.name)
            else:
                other.append(True)
        elif isinstance(node, tirx.BufferLoad):
            read.add(str(node.buffer.scope()) or "global")

    if isinstance(stmt, tirx.Evaluate):
        name = getattr(getattr(stmt.value, "op", None), "name", "")
        regions = [arg for arg in getattr(stmt.value, "args", ()) if getattr(getattr(arg, "op", None), "name", "") ==
                   "tl.region"]  # fmt: skip
        if not name.startswith(TILE_OP):
            return ""
        for region in regions:
            if not int(region.args[1]) & WRITE_MASK:
                read.add(str(region.args[0].buffer.scope()) or "global")
            elif _is_shared(region.args[0]):
                filled.setdefault(region.args[0].buffer.name)
            else:
                return ""
    elif isinstance(stmt, tirx.For):
        tirx.stmt_functor.post_order_visit(stmt, visit)
    return next(iter(filled)) if len(filled) == 1 and read == {"global"} and not other else ""


def _is_shared(access: Any) -> bool:
    return str(access.buffer.scope()).startswith("shared")


def _first_pipelined(body: Any) -> Any:
    """The first loop with stages: the only one that TileLang looks at."""
    loops: list[Any] = []

    def visit(node: Any) -> bool:
        if isinstance(node, tirx.For) and STAGES in node.annotations:
            loops.append(node)
        return not loops

    tirx.stmt_functor.pre_order_visit(body, visit)
    return loops[0] if loops else None


def _parts(loop: Any) -> list[Any]:
    """A loop's statements; those inside its guard together with the markers beside it, which move in there."""
    parts = statements(loop.body)
    guard = guard_of(parts)
    if guard is None:
        return parts
    beside = beside_guard(loop)
    at = next(index for index, part in enumerate(parts) if part.same_as(guard))
    ahead = [part for part in parts[:at] if any(part.same_as(one) for one in beside)]
    return [*ahead, *statements(guard.then_case), *parts[at + 1 :]]


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    taken.add(name)
    return name
