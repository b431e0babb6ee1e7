"""From a PrimFunc with markers to one that records, or to one without a trace of them.

The result of :func:`lower` carries a site table (see ``sites.py``) and three kinds of opaque calls that the injected
source in ``device/`` defines; TileLang's own passes need to understand none of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import tilelang.language as T
from tilelang import tvm

from .errors import TraceError, TraceWarning
from .markers import DAG, DEFAULT_GROUP, RANGE_BEGIN, RANGE_END, RECORD, Marker, author
from .paths import Found, read
from .pipelined import sequence, tied
from .sites import ATTRIBUTE, BEGIN, END, INSTANT, Edge, Group, Range, SiteTable
from .slots import MAX_SITES, WORD_BYTES, layout

tirx = tvm.tirx

ROOT_BLOCK = "tilelang_root"
IMPORT_SOURCE = "pragma_import_c"
LAUNCH_THREADS = "tl.launch_threads"
DEFAULT_THREADS = 128  # what TileLang launches on CUDA where T.Kernel is given no `threads`
SCHEDULE = "tl.ws_schedule"
KINDS = {RANGE_BEGIN: BEGIN, RANGE_END: END, RECORD: INSTANT}
PAYLOAD_SUFFIX = {"i": "_i32", "u": "_i32", "f": "_f32"}


def strip(func: Any) -> Any:
    """See :meth:`tileops.trace.namespace.Trace.strip`."""
    read(_prim_func(func))
    return func.with_body(_without_markers(func.body))


def lower(func: Any, max_events: int) -> Any:
    """See :meth:`tileops.trace.namespace.Trace.lower`."""
    func = _prim_func(func)
    if isinstance(max_events, bool) or not isinstance(max_events, int) or max_events < 1:
        raise TraceError(
            f"{author()}: max_events must be an int of at least 1 (events per CTA and group), got {max_events!r}"
        )
    target = _target()
    found = read(func)
    launch = _Launch.of(func)
    sites = _Sites(found)
    if target == "cuda":
        _check_leads(found, launch)
        body = _recording(tied(func.body), sites)
        _warn(found)
    else:
        body = _recording(func.body, sites)
    table = sites.table(func, found, target, max_events)

    lines = _Lines.of(launch, func, target)
    slots = tirx.decl_buffer(lines.shape(table.line_words), "int64", name=_unused_name(func, "slots"))
    rows = [T.address_of(slots[lines.index(group.layout.offset, table.line_words)]) for group in table.groups]
    body = _opened_and_closed(body, table, launch, rows)
    handle = tirx.Var(f"{slots.name}_handle", "handle")
    lowered = tirx.PrimFunc(
        [*func.params, handle], body, func.ret_type, {**dict(func.buffer_map.items()), handle: slots}, func.attrs
    )
    return lowered.with_attr(ATTRIBUTE, table.to_json())


def _prim_func(func: Any) -> Any:
    if not isinstance(func, tirx.PrimFunc):
        raise TraceError(f"{author()}: expected what @T.prim_func makes, a PrimFunc, got {type(func).__name__}")
    if ATTRIBUTE in (func.attrs or {}):
        raise TraceError(f"{author()}: this PrimFunc records already: lower or finalize it once")
    return func


def _target() -> str:
    """``"c"`` or ``"cuda"``: what is being built for. TileLang makes its target current while a jit factory runs."""
    current = tvm.target.Target.current(allow_none=True)
    kind = "cuda" if current is None else str(current.kind.name)
    if kind not in ("c", "cuda"):
        raise TraceError(
            f"{author()}: tracing supports the targets cuda and c, not {kind}: build with traced=False there"
        )
    return kind


def _check_leads(found: Found, launch: _Launch) -> None:
    """Catches a lead outside the block where T.Kernel was given no threads, so that the marker could not tell."""
    for marker in found.markers:
        if marker.group.lead >= launch.threads:
            raise TraceError(
                f"{marker.group.where}: group {marker.group.name!r}: lead {marker.group.lead} is outside the block; "
                f"the block has threads 0 to {launch.threads - 1}"
            )


def _warn(found: Found) -> None:
    for marker in found.markers:
        text = None
        if marker.identity in found.moved:
            text = (
                f"range {marker.name!r} may not bracket what was written: TileLang moves "
                f"{found.moved[marker.identity]} in a kernel with T.Pipelined. Specialize warps by hand where a range "
                "has to be exact."
            )
        elif marker in found.guarded and marker.kind in (RANGE_BEGIN, RECORD):
            text = (
                f"{marker.what} stands beside the `if` that guards the body of a T.Pipelined loop, and records only "
                "in iterations that it lets through: anything else there keeps TileLang from specializing warps."
            )
        if text is not None:
            warnings.warn_explicit(text, TraceWarning, marker.file, marker.line)


# ---------------------------------------------------------------------------------------------------------------------
# Markers to calls


class _Sites:
    """Numbers ranges, groups and sites. Markers that follow each other directly share one site, hence one record."""

    def __init__(self, found: Found):
        self.groups: dict[str, int] = {}
        self._leads: list[int] = []
        self._payloads: list[bool] = []
        self._ranges: list[Range] = []
        self._range_of: dict[int, int] = {}  # a begin's or record's identity -> position in ranges
        self._sites: list[tuple[tuple[str, int], ...]] = []
        for marker in found.markers:
            if marker.kind == DAG:
                continue
            group = self._group(marker.group.name, marker.group.lead)
            self._payloads[group] |= marker.payload != ""
            if marker.kind != RANGE_END:
                self._range_of[marker.identity] = len(self._ranges)
                depth = found.depth.get(marker.identity, 0)
                instant, where = marker.kind == RECORD, (marker.file, marker.line)
                self._ranges.append(Range(marker.name, marker.lane, group, depth, marker.payload, instant, *where))
        if not self.groups:
            self._group(DEFAULT_GROUP, 0)  # no marker at all: record when and where the CTAs ran

    def _group(self, name: str, lead: int) -> int:
        if name not in self.groups:
            self.groups[name] = len(self.groups)
            self._leads.append(lead)
            self._payloads.append(False)
        return self.groups[name]

    def new_site(self, markers: Sequence[Marker]) -> int:
        """The number of the site at which ``markers`` share a record."""
        if max(len(self._sites), len(self._ranges) - 1) >= MAX_SITES:
            raise TraceError(f"{markers[0].where}: a kernel can hold {MAX_SITES} markers; this one has more")
        self._sites.append(
            tuple((KINDS[m.kind], self._range_of[m.token if m.kind == RANGE_END else m.identity]) for m in markers)
        )
        return len(self._sites) - 1

    def table(self, func: Any, found: Found, target: str, max_events: int) -> SiteTable:
        """The kernel's site table, once all sites are numbered."""
        places = layout(self._payloads, max_events, writers=1)
        return SiteTable(
            kernel=str(func.attrs["global_symbol"]) if func.attrs and "global_symbol" in func.attrs else "kernel",
            target=target,
            max_events=max_events,
            groups=tuple(Group(*group) for group in zip(self.groups, self._leads, places)),
            ranges=tuple(self._ranges),
            sites=tuple(self._sites),
            edges=tuple(Edge(m.name, m.lane, m.shift) for m in found.markers if m.kind == DAG),
        )


def _recording(body: Any, sites: _Sites) -> Any:
    """The body with each run of neighbouring markers of one group, at most one of them with a payload, as a call."""

    def call(run: list[tuple[Marker, Any]]) -> Any:
        markers = [marker for marker, _ in run]
        name, arguments = "tileops_mark", [sites.groups[markers[0].group.name], sites.new_site(markers), len(run)]
        for marker, stmt in run:
            if marker.payload:
                name += PAYLOAD_SUFFIX[marker.payload]
                arguments.append(stmt.value.args[2])
        return tirx.Evaluate(T.call_extern("int32", name, *arguments))

    def rewritten(parts: list[Any]) -> list[Any]:
        made: list[Any] = []
        run: list[tuple[Marker, Any]] = []
        for part in [*parts, None]:
            marker = Marker.of(part)
            if marker is not None and marker.kind == DAG:
                continue
            if run and not (marker and _share([one for one, _ in run], marker)):
                made.append(call(run))
                run = []
            if marker is not None:
                run.append((marker, part))
            elif part is not None:
                made.append(part)
        return made

    return _marker_runs(body, rewritten)


def _share(run: list[Marker], marker: Marker) -> bool:
    same_group = run[0].group.name == marker.group.name
    return same_group and not (marker.payload and any(one.payload for one in run))


def _without_markers(body: Any) -> Any:
    return _marker_runs(body, lambda parts: [part for part in parts if Marker.of(part) is None])


def _marker_runs(body: Any, rewritten: Any) -> Any:
    """The body with its statement lists that hold markers, also those of one statement, as ``rewritten`` makes them."""

    def several(stmt: Any) -> Any:
        return sequence(rewritten(list(stmt.seq))) if any(Marker.of(part) for part in stmt.seq) else None

    def single(stmt: Any) -> Any:
        return sequence(rewritten([stmt])) if Marker.of(stmt) else None

    body = tirx.stmt_functor.ir_transform(body, None, several, ["tirx.SeqStmt"])
    return tirx.stmt_functor.ir_transform(body, None, single, ["tirx.Evaluate"])


# ---------------------------------------------------------------------------------------------------------------------
# The launch


@dataclass(frozen=True)
class _Launch:
    """A kernel's launch as TIR knows it.

    Attributes:
        blocks, extents: block variables and the grid's extents along x, y and z.
        threads, threads_x: the author's threads in a block, and along x.
    """

    blocks: tuple[Any, Any, Any]
    extents: tuple[Any, Any, Any]
    threads: int
    threads_x: int

    @classmethod
    def of(cls, func: Any) -> _Launch:
        blocks: list[Any] = [0, 0, 0]
        extents: list[Any] = [1, 1, 1]
        roots: list[Any] = []

        def visit(node: Any) -> None:
            if isinstance(node, tirx.SBlock) and SCHEDULE in node.annotations:
                raise TraceError("tracing takes no kernel with T.annotate_ws_schedule: build it with traced=False")
            if isinstance(node, tirx.SBlock) and node.name_hint == ROOT_BLOCK:
                roots.append(node)
            if isinstance(node, tirx.For) and node.thread_binding is not None:
                tag = str(node.thread_binding.thread_tag)
                if tag.startswith("blockIdx."):
                    axis = "xyz".index(tag[-1])
                    blocks[axis], extents[axis] = node.loop_var, node.extent

        tirx.stmt_functor.post_order_visit(func.body, visit)
        if len(roots) != 1:
            raise TraceError(
                f"{author()}: tracing takes a PrimFunc with one `with T.Kernel(...)`; this one has {len(roots)}"
            )
        threads = [int(extent) for extent in roots[0].annotations.get(LAUNCH_THREADS, [DEFAULT_THREADS, 1, 1])]
        return cls((*blocks,), (*extents,), threads[0] * threads[1] * threads[2], threads[0])  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Lines:
    """Where CTAs' lines lie in ``slots``: ``slots`` has at least one for each CTA, in order.

    Attributes:
        cta: the CTA's linear number, x fastest. 64 bits, since the number of words before its line may need them.
        sizes: the shape of ``slots`` but for its last dimension.
        per_entry: lines in an entry of the last dimension.
    """

    cta: Any
    sizes: tuple[Any, ...]
    per_entry: int = 1

    @classmethod
    def of(cls, launch: _Launch, func: Any, target: str) -> _Lines:
        blocks, extents = ([tirx.Cast("int64", tirx.convert(e)) for e in part] for part in (launch.blocks, launch.extents))
        cta = blocks[0] + extents[0] * (blocks[1] + extents[1] * blocks[2])
        ctas = tvm.arith.Analyzer().simplify(tirx.const(1) * launch.extents[0] * launch.extents[1] * launch.extents[2])
        if target == "cuda" or isinstance(ctas, tirx.IntImm):
            return cls(cta, (ctas,))
        return cls(cta, *_plain_bound(launch.extents, func))

    def shape(self, line_words: int) -> list[Any]:
        """The shape of ``slots``."""
        if self.per_entry == 1:
            return [*self.sizes, line_words]
        return [*self.sizes, self.per_entry * line_words]

    def index(self, offset: int, line_words: int) -> tuple[Any, ...]:
        """Where the word at ``offset`` of the CTA's line lies."""
        ahead, within = self.cta, tirx.const(offset, "int64")
        if self.per_entry > 1:
            ahead, within = self.cta // self.per_entry, self.cta % self.per_entry * line_words + offset
        indices = [within]
        for size in self.sizes[:0:-1]:
            indices.insert(0, ahead % size)
            ahead = ahead // size
        return (ahead, *indices)


def _plain_bound(extents: Sequence[Any], func: Any) -> tuple[tuple[Any, ...], int]:
    """Plain dimensions of the kernel's tensors, and a number, whose product is at least that of ``extents``.

    TileLang's adapter for the CPU allocates no output with an expression in its shape.
    """
    plain = {dim for buffer in func.buffer_map.values() for dim in buffer.shape if isinstance(dim, tirx.Var)}
    sizes: list[Any] = []
    factor = 1
    for extent in extents:
        if isinstance(extent, (int, tirx.IntImm)):
            factor *= int(extent)
            continue
        bounds = ((size, times) for size in plain for times in (1, 2, 4, 8) if _proven(extent <= times * size, plain))
        found = next(bounds, None)
        if found is None:
            raise TraceError(
                f"{author()}: the CPU target allocates `slots` by the tensors' dimensions, and none of them bounds the "
                f"grid's extent {extent}: give a tensor that extent as a dimension, or make it a constant"
            )
        sizes.append(found[0])
        factor *= found[1]
    return tuple(sizes), factor


def _proven(condition: Any, sizes: set[Any]) -> bool:
    analyzer = tvm.arith.Analyzer()
    for size in sizes:
        analyzer.bind(size, tvm.ir.Range.from_min_extent(1, 1 << 30))  # with more, sums might overflow
    return bool(analyzer.can_prove(condition))


def _opened_and_closed(body: Any, table: SiteTable, launch: _Launch, rows: list[Any]) -> Any:
    """The body with the recorder's source injected, and every group's row opened at the start of the block.

    Closing it is up to a destructor, and to a call at the block's end on the CPU target.
    """
    cuda = table.target == "cuda"
    opens, closes = [], []
    for number, (group, row) in enumerate(zip(table.groups, rows)):
        arguments = [number, group.layout.capacity, group.layout.record_words * WORD_BYTES]
        if cuda:
            arguments += [group.lead, launch.threads_x]
        else:
            closes.append(tirx.Evaluate(T.call_extern("int32", "tileops_close", number)))
        opens.append(tirx.Evaluate(T.call_extern("int32", "tileops_open", *arguments, row, *launch.extents)))
    source = device_source("recorder.cuh" if cuda else "recorder_cpu.h")
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


def device_source(name: str) -> str:
    return (resources.files("tileops.trace") / "device" / name).read_text(encoding="utf-8")


def _unused_name(func: Any, name: str) -> str:
    taken = {buffer.name for buffer in func.buffer_map.values()} | {param.name for param in func.params}
    while name in taken or f"{name}_handle" in taken:
        name += "_"
    return name
