"""Reads a kernel's markers and follows its paths: is every range ended exactly once on each of them?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tilelang import tvm

from .errors import TraceError
from .markers import DAG, RANGE_BEGIN, RANGE_END, RECORD, Marker, markers_in
from .pipelined import WRITE_MASK, beside_guard, fills_shared_memory, is_pipelined

tirx = tvm.tirx

LEAVES_LOOP = {"tirx.break_loop": "break", "tirx.continue_loop": "continue"}
LEAVES_KERNEL = ("tirx.ret", "tirx.thread_return")
SPECIALIZED_BY_HAND = "warp_specialize"  # the attribute that T.ws leaves
TILE_OP = "tl.tileop."
SPREAD_LOOPS = {tirx.ForKind.PARALLEL: "T.Parallel", tirx.ForKind.VECTORIZED: "T.vectorized"}


@dataclass
class Found:
    """What a kernel's body holds.

    Attributes:
        markers: all of them, in program order.
        depth: a range's identity to the number of ranges of its group and lane around it.
        moved: a range's identity to what TileLang may move across its begin or end, ahead of a ``T.Pipelined`` loop.
        left: a range's identity to what TileLang takes out of it, in such a loop; in order, without values.
        guarded: markers that record only in iterations that the guard beside them lets through.
    """

    markers: list[Marker] = field(default_factory=list)
    depth: dict[int, int] = field(default_factory=dict)
    moved: dict[int, str] = field(default_factory=dict)
    left: dict[int, dict[str, None]] = field(default_factory=dict)
    guarded: list[Marker] = field(default_factory=list)


def read(func: Any) -> Found:
    """Collects a kernel's markers and checks them.

    Raises:
        TraceError: with the marker's file and line.
    """
    reader = _Reader(func.body)
    for left in reader.follow(func.body, ()) or ():
        raise TraceError(f"{left.begin.where}: range {left.begin.name!r} is never ended{reader.hint(left.begin)}")
    _check_leads(reader.found.markers)
    _check_edges(reader.found.markers)
    return reader.found


def specializes(body: Any) -> bool:
    """Whether TileLang may specialize a kernel's warps by itself."""
    found: list[bool] = []

    def visit(node: Any) -> None:
        by_hand = isinstance(node, tirx.AttrStmt) and node.attr_key == SPECIALIZED_BY_HAND
        if by_hand or (is_pipelined(node) and fills_shared_memory(node)):
            found.append(not by_hand)

    tirx.stmt_functor.post_order_visit(body, visit)
    return bool(found) and all(found)


def _check_leads(markers: Iterable[Marker]) -> None:
    leads: dict[str, Marker] = {}
    for marker in markers:
        first = leads.setdefault(marker.group.name, marker)
        if first.group.lead != marker.group.lead:
            raise TraceError(
                f"{_where_lead(marker)}: group {marker.group.name!r} has lead {marker.group.lead} here and lead "
                f"{first.group.lead} at {_where_lead(first)}: one group, one lead"
            )


def _where_lead(marker: Marker) -> str:
    return marker.group.where or marker.where


def _check_edges(markers: list[Marker]) -> None:
    ranges = {marker.name for marker in markers if marker.kind == RANGE_BEGIN}
    records = {marker.name for marker in markers if marker.kind == RECORD}
    for marker in markers:
        for end in (marker.name, marker.lane) if marker.kind == DAG else ():
            if end not in ranges:
                aside = " (it is a record)" if end in records else ""
                there = ", ".join(map(repr, sorted(ranges))) or "none"
                raise TraceError(f"{marker.where}: dag names no range {end!r}{aside}; the kernel's ranges: {there}")


@dataclass(frozen=True)
class _Open:
    """A range that is open at some point of the kernel.

    Attributes:
        begin: its begin.
        pipelines: how many pipelined loops are around that.
        behind: what stands ahead of it and may be moved behind it, into the code of the first pipelined loop.
    """

    begin: Marker
    pipelines: int
    behind: str


_Paths = tuple[_Open, ...] | None  # the ranges open at a point; None where no path leads there


class _Reader:
    def __init__(self, body: Any):
        self.found = Found()
        self._ended: set[int] = set()
        self._loops: list[tuple[_Open, ...]] = []  # for each loop around, the ranges open at its begin
        self._pipelines = 0
        # Ahead of the first pipelined loop TileLang moves whatever only one side of the split needs.
        self._ahead = specializes(body)
        self._movable = ""

    def follow(self, stmt: Any, state: _Paths) -> _Paths:
        """Follows a statement from the ranges open before it to those open behind it."""
        if stmt is None or (state is None and not markers_in(stmt)):
            return state
        if isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                state = self.follow(part, state)
            return state
        if isinstance(stmt, tirx.Evaluate):
            marker = Marker.of(stmt)
            return self._call(stmt, state) if marker is None else self._marker(marker, state)
        if isinstance(stmt, tirx.BufferStore):
            return self._pass(stmt, f"stores to {stmt.buffer.name!r}", state)
        if isinstance(stmt, tirx.IfThenElse):
            return _merged(self.follow(stmt.then_case, state), self.follow(stmt.else_case, state))
        if isinstance(stmt, tirx.While) or (isinstance(stmt, tirx.For) and stmt.thread_binding is None):
            return self._loop(stmt, state)
        if isinstance(stmt, tirx.SBlockRealize):
            return self.follow(stmt.block, state)
        return self.follow(getattr(stmt, "body", None), state)

    def hint(self, begin: Marker) -> str:
        """What to add where a range is left open."""
        return "" if begin.identity in self._ended else ": no range_end takes its token"

    def _marker(self, marker: Marker, state: _Paths) -> _Paths:
        self.found.markers.append(marker)
        if marker.kind == RANGE_BEGIN:
            row = marker.group.name, marker.lane
            around = [one for one in state or () if (one.begin.group.name, one.begin.lane) == row]
            self.found.depth[marker.identity] = len(around)
            opened = _Open(marker, self._pipelines, self._movable if self._ahead else "")
            return None if state is None else (*state, opened)
        if marker.kind == RANGE_END and state is not None:
            if all(one.begin.identity != marker.token for one in state):
                fault = "is ended twice on one path" if marker.token in self._ended else "is not open here"
                raise TraceError(f"{marker.where}: range {marker.name!r} {fault}")
            self._ended.add(marker.token)
            return tuple(one for one in state if one.begin.identity != marker.token)
        return state

    def _call(self, stmt: Any, state: _Paths) -> _Paths:
        name = getattr(getattr(stmt.value, "op", None), "name", "")
        if name in LEAVES_KERNEL:
            return None  # Ranges may be open here: they end with the thread.
        if name in LEAVES_LOOP:
            self._check_turn(state or (), f"where its loop is left by {LEAVES_LOOP[name]}")
            return None
        if name.startswith(TILE_OP):
            return self._pass(stmt, f"T.{name.removeprefix(TILE_OP)}{_into(stmt.value)}", state)
        return state

    def _pass(self, stmt: Any, what: str, state: _Paths) -> _Paths:
        """Notes the ranges whose begin or end TileLang may move a statement across."""
        if self._ahead:
            self._movable = what
            for one in state or ():
                self.found.moved.setdefault(one.begin.identity, what)
        elif self._pipelines and fills_shared_memory(stmt):
            for one in state or ():
                if one.pipelines == self._pipelines:
                    self.found.left.setdefault(one.begin.identity, {})[what] = None
        return state

    def _loop(self, loop: Any, state: _Paths) -> _Paths:
        if isinstance(loop, tirx.For) and loop.kind in SPREAD_LOOPS:
            for marker in markers_in(loop.body):
                raise TraceError(
                    f"{marker.where}: {marker.kind.split('_')[0]} {marker.name!r} stands inside "
                    f"{SPREAD_LOOPS[loop.kind]}, whose iterations are spread over threads: put it around the loop"
                )
        pipelined = is_pipelined(loop)
        if pipelined:
            for one in (state or ()) if self._ahead and self._pipelines == 0 else ():
                if one.behind:
                    self.found.moved.setdefault(one.begin.identity, one.behind)
            self._ahead = False
            self.found.guarded += [marker for part in beside_guard(loop) for marker in markers_in(part)]
        self._pipelines += pipelined
        self._loops.append(state or ())
        after = self.follow(loop.body, state)
        if after is not None:
            self._check_turn(after, "at the end of an iteration")
        self._loops.pop()
        self._pipelines -= pipelined
        return state

    def _check_turn(self, now: tuple[_Open, ...], where: str) -> None:
        """Checks that a loop's iteration leaves the ranges open that it found open."""
        before = self._loops[-1] if self._loops else ()
        for left in now:
            if left not in before:
                raise TraceError(
                    f"{left.begin.where}: range {left.begin.name!r} is started in a loop and still open {where}"
                    f"{self.hint(left.begin)}: end it in the same iteration, on every path"
                )
        for gone in before:
            if gone not in now:
                raise TraceError(
                    f"{gone.begin.where}: range {gone.begin.name!r} is started before a loop and ended inside it, so "
                    "that other iterations or the way out would end it again: end it behind the loop"
                )


def _into(call: Any) -> str:
    """Which shared buffer a tile operation writes, to be put behind its name."""
    regions = (arg for arg in call.args if getattr(getattr(arg, "op", None), "name", "") == "tl.region")
    buffers = [region.args[0].buffer for region in regions if int(region.args[1]) & WRITE_MASK]
    return next((f" into {buffer.name!r}" for buffer in buffers if str(buffer.scope()).startswith("shared")), "")


def _merged(then: _Paths, other: _Paths) -> _Paths:
    """The ranges open behind an ``if``, from those at the end of its arms."""
    if then is None or other is None:
        return other if then is None else then
    for one in (*then, *other):
        if one not in then or one not in other:
            raise TraceError(
                f"{one.begin.where}: range {one.begin.name!r} is started or ended in one arm of an `if` and left as it "
                "was on the other path: end it on every path, exactly once"
            )
    return then
