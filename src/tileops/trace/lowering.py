"""From a PrimFunc with markers to one that records, or to one without a trace of them.

Everything is read from the IR: which markers there are, whether every range is ended exactly once on every path, and
how deep ranges nest. The result of :func:`lower` carries a site table (see ``sites.py``) and three kinds of opaque
calls that the injected source in ``device/`` defines; TileLang's own passes need to understand none of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import tilelang.language as T
from tilelang import tvm

from .errors import TraceError, TraceWarning
from .markers import DAG, DEFAULT_GROUP, RANGE_BEGIN, RANGE_END, RECORD, GroupMark, Marker
from .pipelined import is_pipelined, sequence, tied
from .sites import ATTRIBUTE, BEGIN, END, INSTANT, Edge, Group, Range, SiteTable
from .slots import MAX_SITES, WORD_BYTES, layout

tirx = tvm.tirx

ROOT_BLOCK = "tilelang_root"
DEFAULT_THREADS = 128  # what TileLang launches on CUDA where T.Kernel is given no `threads`
IMPORT_SOURCE = "pragma_import_c"


def strip(func: Any) -> Any:
    """See :meth:`tileops.trace.namespace.Trace.strip`."""
    _analyze(_prim_func(func))
    return func.with_body(_without_markers(func.body))


def lower(func: Any, max_events: int) -> Any:
    """See :meth:`tileops.trace.namespace.Trace.lower`."""
    func = _prim_func(func)
    if isinstance(max_events, bool) or not isinstance(max_events, int) or max_events < 1:
        raise TraceError(f"max_events must be an int of at least 1 (events per CTA and group), got {max_events!r}")
    if ATTRIBUTE in (func.attrs or {}):
        raise TraceError("this PrimFunc records already: lower or finalize it once")
    target = _target()
    found = _analyze(func)
    sites = _Sites(found)
    launch = _Launch.of(func)
    body = _rewritten(tied(func.body) if target == "cuda" else func.body, sites)
    table = _table(func, found, sites, target, max_events)
    if target == "cuda":
        _warn_of_moved_ranges(found)

    slots = tirx.decl_buffer((launch.ctas, table.line_words), "int64", name=_unused_name(func, "slots"))
    handle = tirx.Var(f"{slots.name}_handle", "handle")
    body = _with_open_and_close(body, table, launch, slots)
    lowered = tirx.PrimFunc(
        [*func.params, handle], body, func.ret_type, {**dict(func.buffer_map.items()), handle: slots}, func.attrs
    )
    return lowered.with_attr(ATTRIBUTE, table.to_json())


def _prim_func(func: Any) -> Any:
    if not isinstance(func, tirx.PrimFunc):
        raise TraceError(f"expected a TileLang PrimFunc (what @T.prim_func makes), got {type(func).__name__}")
    return func


def _target() -> str:
    """``"c"`` or ``"cuda"``: what is being built for. TileLang makes its target current while a jit factory runs."""
    current = tvm.target.Target.current(allow_none=True)
    kind = "cuda" if current is None else str(current.kind.name)
    if kind not in ("c", "cuda"):
        raise TraceError(f"tracing supports the targets cuda and c, not {kind}: build with traced=False there")
    return kind


# ---------------------------------------------------------------------------------------------------------------------
# Reading the markers


@dataclass
class _Found:
    """What the walk over a kernel's body saw, in program order."""

    markers: list[Marker] = field(default_factory=list)
    depth: dict[int, int] = field(default_factory=dict)  # a range's identity -> its depth
    moved: dict[int, str] = field(default_factory=dict)  # a range's identity -> a tile operation that it encloses
    ended: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class _Open:
    """A range that is open at some point: its begin, and how many pipelined loops were around that."""

    begin: Marker
    pipelines: int


_Paths = tuple[_Open, ...] | None  # the ranges open at a point; None where no path leads there


def _analyze(func: Any) -> _Found:
    """Collects the markers and checks that every range is ended exactly once on every path.

    Raises:
        TraceError: with the marker's file and line.
    """
    found = _Found()
    state = _walk(func.body, (), found, loops=[], pipelines=0)
    for left in state or ():
        raise TraceError(f"{left.begin.where}: range {left.begin.name!r} is never ended{_hint(left.begin, found)}")
    leads: dict[str, GroupMark] = {}
    for marker in found.markers:
        first = leads.setdefault(marker.group.name, marker.group)
        if first.lead != marker.group.lead:
            raise TraceError(
                f"{marker.group.file or marker.file}:{marker.group.line or marker.line}: group {first.name!r} has lead "
                f"{marker.group.lead} here and lead {first.lead} at {first.file}:{first.line}: one group, one lead"
            )
    names = sorted({m.name for m in found.markers if m.kind == RANGE_BEGIN})
    for marker in found.markers:
        if marker.kind == DAG:
            for end in (marker.name, marker.lane):
                if end not in names:
                    there = ", ".join(map(repr, names)) or "none"
                    raise TraceError(f"{marker.where}: dag names no range {end!r}; the kernel's ranges: {there}")
    return found


def _walk(stmt: Any, state: _Paths, found: _Found, loops: list[tuple[_Open, ...]], pipelines: int) -> _Paths:
    """Follows the statement from ``state`` and returns the ranges open behind it.

    Args:
        stmt: a TIR statement, or None.
        state: the ranges open before it.
        found: filled in.
        loops: for each loop around, the ranges that were open at its begin.
        pipelines: how many ``T.Pipelined`` loops are around.
    """
    if stmt is None or state is None and not _has_marker(stmt):
        return state
    if isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            state = _walk(part, state, found, loops, pipelines)
        return state
    if isinstance(stmt, tirx.Evaluate):
        return _walk_evaluate(stmt, state, found, loops, pipelines)
    if isinstance(stmt, tirx.IfThenElse):
        then = _walk(stmt.then_case, state, found, loops, pipelines)
        other = _walk(stmt.else_case, state, found, loops, pipelines)
        return _merged(then, other, found)
    if isinstance(stmt, (tirx.For, tirx.While)):
        _check_loop_kind(stmt)
        inside = pipelines + (1 if is_pipelined(stmt) else 0)
        after = _walk(stmt.body, state, found, [*loops, state or ()], inside)
        _check_iteration(state or (), after, found)
        return state
    if isinstance(stmt, tirx.SBlockRealize):
        return _walk(stmt.block, state, found, loops, pipelines)
    if isinstance(stmt, tirx.SBlock):
        state = _walk(stmt.init, state, found, loops, pipelines)
    return _walk(getattr(stmt, "body", None), state, found, loops, pipelines)


def _walk_evaluate(stmt: Any, state: _Paths, found: _Found, loops: list[tuple[_Open, ...]], pipelines: int) -> _Paths:
    marker = Marker.of(stmt)
    if marker is None:
        name = _call_name(stmt)
        if name.endswith(("thread_return", "ret")):
            return None  # Ranges may be open here: they end with the thread.
        if name.endswith(("break_loop", "continue_loop")):
            for left in (state or ())[len(loops[-1]) if loops else 0 :]:
                raise TraceError(
                    f"{left.begin.where}: range {left.begin.name!r} is still open where its loop is left by "
                    f"{'break' if 'break' in name else 'continue'}: end it before"
                )
            return None
        if name.startswith("tl.tileop."):
            for around in state or ():
                if around.pipelines == pipelines:
                    found.moved.setdefault(around.begin.identity, name.removeprefix("tl.tileop."))
        return state
    found.markers.append(marker)
    if marker.kind == RANGE_BEGIN:
        same_row = [o for o in state or () if (o.begin.group, o.begin.lane) == (marker.group, marker.lane)]
        found.depth[marker.identity] = len(same_row)
        return None if state is None else (*state, _Open(marker, pipelines))
    if marker.kind == RANGE_END and state is not None:
        if all(o.begin.identity != marker.token for o in state):
            again = "is ended twice on one path" if marker.token in found.ended else "is not open here"
            raise TraceError(f"{marker.where}: range {marker.name!r} {again}")
        found.ended.add(marker.token)
        return tuple(o for o in state if o.begin.identity != marker.token)
    return state


def _merged(then: _Paths, other: _Paths, found: _Found) -> _Paths:
    if then is None or other is None:
        return other if then is None else then
    ahead, behind = {o.begin.identity for o in then}, {o.begin.identity for o in other}
    for one in (*then, *other):
        if (one.begin.identity in ahead) != (one.begin.identity in behind):
            raise TraceError(
                f"{one.begin.where}: range {one.begin.name!r} is started or ended in one arm of an `if` and left open "
                "on the other path: end it on every path, exactly once"
            )
    return then


def _check_iteration(before: tuple[_Open, ...], after: _Paths, found: _Found) -> None:
    if after is None:
        return
    outer, inner = {o.begin.identity for o in before}, {o.begin.identity for o in after}
    for left in after:
        if left.begin.identity not in outer:
            raise TraceError(
                f"{left.begin.where}: range {left.begin.name!r} is started in a loop and not ended in the same "
                f"iteration{_hint(left.begin, found)}"
            )
    for gone in before:
        if gone.begin.identity not in inner:
            raise TraceError(
                f"{gone.begin.where}: range {gone.begin.name!r} is started before a loop and ended inside it, so that "
                "it would end once an iteration: end it behind the loop"
            )


def _hint(begin: Marker, found: _Found) -> str:
    return "" if begin.identity in found.ended else ": no range_end takes its token"


def _check_loop_kind(loop: Any) -> None:
    if isinstance(loop, tirx.For) and loop.kind in (tirx.ForKind.PARALLEL, tirx.ForKind.VECTORIZED):
        marker = _first_marker(loop.body)
        if marker is not None:
            kind = "T.Parallel" if loop.kind == tirx.ForKind.PARALLEL else "T.vectorized"
            raise TraceError(
                f"{marker.where}: {marker.kind.split('_')[0]} {marker.name!r} stands inside {kind}, whose iterations "
                "are spread over threads: put it around the loop"
            )


def _call_name(stmt: Any) -> str:
    value = stmt.value
    return value.op.name if isinstance(value, tirx.Call) and isinstance(value.op, tvm.ir.Op) else ""


def _first_marker(stmt: Any) -> Marker | None:
    first: list[Marker] = []

    def visit(node: Any) -> None:
        if not first and isinstance(node, tirx.Evaluate):
            marker = Marker.of(node)
            if marker is not None:
                first.append(marker)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return first[0] if first else None


def _has_marker(stmt: Any) -> bool:
    return _first_marker(stmt) is not None


def _warn_of_moved_ranges(found: _Found) -> None:
    for marker in found.markers:
        if marker.kind == RANGE_BEGIN and marker.identity in found.moved:
            warnings.warn_explicit(
                f"range {marker.name!r} encloses T.{found.moved[marker.identity]} in a kernel with T.Pipelined: where "
                "TileLang specializes warps it moves copies and fills away from markers, and the range may be empty or "
                "include waits. Specialize by hand to place markers exactly.",
                TraceWarning,
                marker.file,
                marker.line,
            )


# ---------------------------------------------------------------------------------------------------------------------
# Numbering them


class _Sites:
    """Numbers ranges, groups and sites. Markers that follow each other directly share one site, hence one record."""

    def __init__(self, found: _Found):
        self.groups: dict[str, int] = {}
        self.leads: list[int] = []
        self.payloads: list[bool] = []
        self.ranges: list[Range] = []
        self.of: dict[int, int] = {}  # a begin's or record's identity -> position in ranges
        self.sites: list[tuple[tuple[str, int], ...]] = []
        for marker in found.markers:
            if marker.kind == DAG:
                continue
            if marker.group.name not in self.groups:
                self._add_group(marker.group.name, marker.group.lead)
            group = self.groups[marker.group.name]
            self.payloads[group] |= marker.payload != ""
            if marker.kind != RANGE_END and marker.identity not in self.of:
                self.of[marker.identity] = len(self.ranges)
                instant = marker.kind == RECORD
                depth = 0 if instant else found.depth[marker.identity]
                where = marker.file, marker.line
                self.ranges.append(Range(marker.name, marker.lane, group, depth, marker.payload, instant, *where))
        if not self.groups:
            self._add_group(DEFAULT_GROUP, 0)  # no marker at all: record when and where the CTAs ran

    def _add_group(self, name: str, lead: int) -> None:
        self.groups[name] = len(self.groups)
        self.leads.append(lead)
        self.payloads.append(False)

    def new_site(self, markers: Sequence[Marker]) -> int:
        """The number of the site at which ``markers`` share a record."""
        kinds = {RANGE_BEGIN: BEGIN, RANGE_END: END, RECORD: INSTANT}
        events = tuple(
            (kinds[m.kind], self.of[m.token if m.kind == RANGE_END else m.identity]) for m in markers
        )
        if len(self.sites) == MAX_SITES:
            raise TraceError(f"{markers[0].where}: a kernel can hold {MAX_SITES} marker sites; this is one more")
        self.sites.append(events)
        return len(self.sites) - 1


def _rewritten(body: Any, sites: _Sites) -> Any:
    """The body with each run of neighbouring markers of one group replaced by a recording call."""

    def call(run: list[tuple[Marker, Any]]) -> Any:
        markers = [marker for marker, _ in run]
        group = sites.groups[markers[0].group.name]
        name, arguments = "tileops_mark", [group, sites.new_site(markers), len(run)]
        for marker, stmt in run:
            if marker.payload:
                name += {"i": "_i32", "f": "_f32"}[marker.payload]
                arguments.append(stmt.value.args[2])
        return tirx.Evaluate(T.call_extern("int32", name, *arguments))

    def several(stmt: Any) -> Any:
        parts: list[Any] = []
        run: list[tuple[Marker, Any]] = []

        def flush() -> None:
            if run:
                parts.append(call(run))
                run.clear()

        for part in stmt.seq:
            marker = Marker.of(part)
            if marker is None:
                flush()
                parts.append(part)
            elif marker.kind != DAG:
                payloads = sum(m.payload != "" for m, _ in run) + (marker.payload != "")
                if run and (run[0][0].group.name != marker.group.name or payloads > 1):
                    flush()
                run.append((marker, part))
        flush()
        return sequence(parts)

    def single(stmt: Any) -> Any:
        marker = Marker.of(stmt)
        if marker is None:
            return None
        return tirx.Evaluate(0) if marker.kind == DAG else call([(marker, stmt)])

    body = tirx.stmt_functor.ir_transform(body, None, several, ["tirx.SeqStmt"])
    return tirx.stmt_functor.ir_transform(body, None, single, ["tirx.Evaluate"])


def _without_markers(body: Any) -> Any:
    def several(stmt: Any) -> Any:
        kept = [part for part in stmt.seq if Marker.of(part) is None]
        return None if len(kept) == len(stmt.seq) else sequence(kept)

    def single(stmt: Any) -> Any:
        return tirx.Evaluate(0) if Marker.of(stmt) is not None else None

    body = tirx.stmt_functor.ir_transform(body, None, several, ["tirx.SeqStmt"])
    return tirx.stmt_functor.ir_transform(body, None, single, ["tirx.Evaluate"])


def _table(func: Any, found: _Found, sites: _Sites, target: str, max_events: int) -> SiteTable:
    places = layout(sites.payloads, max_events, writers=1)
    name = str(func.attrs["global_symbol"]) if func.attrs and "global_symbol" in func.attrs else "kernel"
    return SiteTable(
        kernel=name,
        target=target,
        max_events=max_events,
        groups=tuple(Group(name, sites.leads[at], places[at]) for name, at in sites.groups.items()),
        ranges=tuple(sites.ranges),
        sites=tuple(sites.sites),
        edges=tuple(Edge(m.name, m.lane, m.shift) for m in found.markers if m.kind == DAG),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The launch


@dataclass(frozen=True)
class _Launch:
    """A kernel's launch as TIR knows it: block variables and grid extents along x, y, z, and threads along x."""

    blocks: tuple[Any, Any, Any]
    extents: tuple[Any, Any, Any]
    threads_x: int

    @classmethod
    def of(cls, func: Any) -> _Launch:
        blocks: list[Any] = [0, 0, 0]
        extents: list[Any] = [1, 1, 1]
        roots: list[Any] = []

        def visit(node: Any) -> None:
            if isinstance(node, tirx.SBlock) and node.name_hint == ROOT_BLOCK:
                roots.append(node)
            if isinstance(node, tirx.For) and node.thread_binding is not None:
                tag = str(node.thread_binding.thread_tag)
                if tag.startswith("blockIdx."):
                    axis = "xyz".index(tag[-1])
                    blocks[axis], extents[axis] = node.loop_var, node.extent

        tirx.stmt_functor.post_order_visit(func.body, visit)
        if len(roots) != 1:
            raise TraceError(f"tracing takes a PrimFunc with one `with T.Kernel(...)`; this one has {len(roots)}")
        threads = roots[0].annotations.get("tl.launch_threads", [DEFAULT_THREADS])
        return cls((*blocks,), (*extents,), int(threads[0]))  # type: ignore[arg-type]

    @property
    def cta(self) -> Any:
        """The CTA's linear number, x fastest."""
        return self.blocks[0] + self.extents[0] * (self.blocks[1] + self.extents[1] * self.blocks[2])

    @property
    def ctas(self) -> Any:
        """How many CTAs the grid has."""
        return tvm.arith.Analyzer().simplify(self.extents[0] * self.extents[1] * self.extents[2] + tirx.const(0))


def _with_open_and_close(body: Any, table: SiteTable, launch: _Launch, slots: Any) -> Any:
    """The body with every group's row opened at the start of the block, and closed at its end where no destructor
    does (the CPU target), and with the recorder's source injected."""
    cuda = table.target == "cuda"
    opens, closes = [], []
    for number, group in enumerate(table.groups):
        place = group.layout
        row = T.address_of(slots[launch.cta, place.offset])
        arguments = [number, place.capacity, place.record_words * WORD_BYTES]
        if cuda:
            arguments += [group.lead, launch.threads_x]
        else:
            closes.append(tirx.Evaluate(T.call_extern("int32", "tileops_close", number)))
        opens.append(tirx.Evaluate(T.call_extern("int32", "tileops_open", *arguments, row, *launch.extents)))
    source = _device_source("recorder.cuh" if cuda else "recorder_cpu.h")
    if not cuda:
        source = f"#define TILEOPS_GROUPS {len(table.groups)}\n{source}"

    def root(block: Any) -> Any:
        if block.name_hint != ROOT_BLOCK:
            return None
        annotations = dict(block.annotations.items())
        annotations[IMPORT_SOURCE] = source + "\n" + str(annotations.get(IMPORT_SOURCE, ""))
        parts = list(block.body.seq) if isinstance(block.body, tirx.SeqStmt) else [block.body]
        return tirx.SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, sequence([*opens, *parts, *closes]),
            block.init, block.alloc_buffers, block.match_buffers, annotations,
        )  # fmt: skip

    return tirx.stmt_functor.ir_transform(body, None, root, ["tirx.SBlock"])


def _device_source(name: str) -> str:
    return (resources.files("tileops.trace") / "device" / name).read_text(encoding="utf-8")


def _unused_name(func: Any, name: str) -> str:
    taken = {buffer.name for buffer in func.buffer_map.values()} | {param.name for param in func.params}
    while name in taken or f"{name}_handle" in taken:
        name += "_"
    return name
