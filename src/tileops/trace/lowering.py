"""From a PrimFunc with markers to one that records, or to one without a trace of them.

The result of :func:`lower` carries a site table (see ``sites.py``) and three kinds of opaque calls that the injected
source in ``device/`` defines; TileLang's own passes need to understand none of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import tilelang.language as T
import torch
from tilelang import tvm
from tilelang.contrib.nvcc import have_tma

from .batches import batched, is_recording
from .carried import carried
from .choice import Choice, check_keep
from .copies import Copies, copies, on_their_own_rows
from .errors import TraceError, TraceWarning
from .markers import DAG, DEFAULT_GROUP, RANGE_BEGIN, RANGE_END, RECORD, Marker, author
from .occurrences import occurrences
from .paths import Found, read
from .pipelined import only_markers, sequence, statements, tied
from .placing import Move, Plan, placed_in_what_is_generated
from .sites import ATTRIBUTE, BEGIN, END, INSTANT, Edge, Group, Range, SiteTable, markers_comment
from .slots import MAX_SITES, WORD_BYTES, layout

tirx = tvm.tirx

ROOT_BLOCK = "tilelang_root"
IMPORT_SOURCE = "pragma_import_c"
LAUNCH_THREADS = "tl.launch_threads"
DEFAULT_THREADS = 128  # what TileLang launches on CUDA where T.Kernel is given no `threads`
SCHEDULE = "tl.ws_schedule"
SWIZZLE = "threadblock_swizzle_pattern"  # the attribute that T.use_swizzle leaves
MOST_EVENTS = 1 << 24  # a row of a quarter of a gigabyte; sizes are then far from the 32 bits that TIR counts with
MAY_FAIL = (tirx.BufferLoad, tirx.Call, tirx.Div, tirx.FloorDiv, tirx.Mod, tirx.FloorMod)
KINDS = {RANGE_BEGIN: BEGIN, RANGE_END: END, RECORD: INSTANT}
PAYLOAD_SUFFIX = {"int32": "_i32", "float32": "_f32"}  # by type; a float constant comes as its bits


def strip(func: Any) -> Any:
    """See :meth:`tileops.trace.namespace.Trace.strip`."""
    read(_prim_func(func))
    return func.with_body(_without_markers(func.body))


def lower(func: Any, max_events: int, keep: str = "first", ctas: Any = None, said_by: str = "") -> Any:
    """See :meth:`tileops.trace.namespace.Trace.lower`."""
    func = _prim_func(func)
    check_keep(str(author()), keep)
    if isinstance(max_events, np.integer):
        max_events = int(max_events)
    if isinstance(max_events, bool) or not isinstance(max_events, int) or max_events < 1:
        raise TraceError(
            f"{author()}: max_events must be an int of at least 1 (events per CTA and group), got {max_events!r}"
        )
    if max_events > MOST_EVENTS:
        raise TraceError(
            f"{author()}: max_events can be {MOST_EVENTS:,} at most (events per CTA and group), got {max_events:,}: "
            'keep="last" keeps the last ones of more'
        )
    target = _target()
    found = read(func)
    around = copies(func.body) if _has_tma() else Copies()
    producers: frozenset[str] = frozenset()
    if around.places:
        func, producers = on_their_own_rows(func, around)
        found = read(func)
    launch = _Launch.of(func)
    sites = _Sites(found, occurrences(func.body, launch.threads_x), producers)
    if target != "c":
        _check_leads(found, launch)
    _warn(found, around)
    body, stored = batched(_chosen(_recording(tied(carried(func.body)), sites)))
    choice = _choice(ctas, launch, target, said_by)
    table = sites.table(func, found, target, max_events, keep == "last", choice, stored)
    if table.keep_last:
        _warn_of_arrows(found, table)

    slots = _slots(launch, func, table, target)
    plan = Plan(around.buffers, tuple(sites.moves(found, around))) if around.places else None
    body = _opened_and_closed(body, table, launch, slots, producers, plan.comment if plan else "")
    if plan:
        placed_in_what_is_generated()
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
    """``"c"`` or ``"cuda"``: what is being built for; empty where that is decided later.

    TileLang makes a target current only while it calls a ``jit`` factory that was given one and that holds its
    ``@T.prim_func`` itself. So what is lowered has to be right for both, and the target is used where it is known.
    """
    current = tvm.target.Target.current(allow_none=True)
    kind = "" if current is None else str(current.kind.name)
    if kind not in ("", "c", "cuda"):
        raise TraceError(
            f"{author()}: tracing supports the targets cuda and c, not {kind}: build with traced=False there"
        )
    return kind


def _has_tma() -> bool:
    """Whether what is built for can specialize warps: copies go to a producer by TMA. True where that is unknown."""
    current = tvm.target.Target.current(allow_none=True)
    if current is not None:
        return bool(have_tma(current))
    return not torch.cuda.is_available() or torch.cuda.get_device_capability() >= (9, 0)


def _check_leads(found: Found, launch: _Launch) -> None:
    """Catches a lead outside the block where T.Kernel was given no threads, so that the marker could not tell."""
    for marker in found.markers:
        if marker.group.lead >= launch.threads:
            raise TraceError(
                f"{marker.group.where}: group {marker.group.name!r}: lead {marker.group.lead} is outside the block; "
                f"the block has threads 0 to {launch.threads - 1}"
            )


def _warn(found: Found, around: Copies) -> None:
    for marker in found.markers:
        if marker in found.guarded and marker.kind in (RANGE_BEGIN, RECORD):
            _warn_at(
                marker,
                f"{marker.what} stands beside the `if` that guards the body of a T.Pipelined loop, and records only "
                "in iterations that it lets through: anything else there keeps TileLang from specializing warps",
            )
        if marker.identity in found.moved:
            _warn_at(
                marker,
                f"{marker.what} may not bracket what was written: in a kernel with T.Pipelined, TileLang moves "
                f"{found.moved[marker.identity]}. Specialize warps by hand where a range has to be exact",
            )
        elif marker.identity in found.left and marker.identity not in around.places:
            _warn_at(
                marker,
                f"{marker.what} may hold less than was written: out of a T.Pipelined loop's iteration TileLang moves "
                f"{' and '.join(found.left[marker.identity])}, to a producer's warps or to another iteration. A range "
                "around copies alone that stands in the loop itself, under no condition, goes with them",
            )
    for marker in around.empty:
        _warn_at(
            marker,
            f"{marker.what} is empty: it holds no statement, or values only, which TileLang computes where they are "
            "needed: put it around a T.copy, a T.gemm or a store",
        )


def _warn_at(marker: Marker, text: str) -> None:
    warnings.warn_explicit(text, TraceWarning, marker.file, marker.line)


# ---------------------------------------------------------------------------------------------------------------------
# Markers to calls


class _Sites:
    """Numbers ranges, groups and sites. Markers that follow each other directly share one site, hence one record."""

    def __init__(self, found: Found, totals: dict[int, int | None], producers: frozenset[str]):
        self.producers = producers
        self.groups: dict[str, int] = {}
        self._leads: list[int] = []
        self._payloads: list[bool] = []
        self._ranges: list[Range] = []
        self._range_of: dict[int, int] = {}  # a begin's or record's identity -> position in ranges
        self._sites: list[tuple[tuple[str, int], ...]] = []
        self._site_of: dict[int, int] = {}  # by identity, of the producer's markers: each has its own
        for marker in found.markers:
            if marker.kind == DAG:
                continue
            group = self._group(marker.group.name, marker.group.lead)
            self._payloads[group] |= marker.payload != ""
            if marker.kind != RANGE_END:
                self._range_of[marker.identity] = len(self._ranges)
                depth = found.depth.get(marker.identity, 0)
                instant, where = marker.kind == RECORD, (marker.file, marker.line)
                total = totals.get(marker.identity)
                self._ranges.append(
                    Range(marker.name, marker.lane, group, depth, marker.payload, instant, *where, total)
                )
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
        self._sites.append(
            tuple((KINDS[m.kind], self._range_of[m.token if m.kind == RANGE_END else m.identity]) for m in markers)
        )
        if markers[0].group.name in self.producers:
            (marker,) = markers
            self._site_of[marker.identity] = len(self._sites) - 1
        return len(self._sites) - 1

    def moves(self, found: Found, around: Copies) -> Iterator[Move]:
        """The producer's sites and where they belong, in the author's order."""
        for marker in found.markers:
            place = around.places.get(marker.identity)
            if place is not None:
                site = self._site_of[marker.identity]
                yield Move(site, place.copy, place.behind, marker.token, marker.what, marker.file, marker.line)

    def table(
        self, func: Any, found: Found, target: str, max_events: int, keep_last: bool, choice: Choice,
        stored: dict[int, int],
    ) -> SiteTable:  # fmt: skip
        """The kernel's site table, once all sites are numbered."""
        if max(len(self._sites), len(self._ranges)) > MAX_SITES:
            raise TraceError(f"{author()}: a kernel can hold {MAX_SITES} markers; this one has {len(self._sites)}")
        # A ring finds a record's place with a mask.
        places = layout(self._payloads, 1 << (max_events - 1).bit_length() if keep_last else max_events)
        return SiteTable(
            kernel=str(func.attrs["global_symbol"]) if func.attrs and "global_symbol" in func.attrs else "kernel",
            target=target,
            max_events=max_events,
            groups=tuple(Group(*group) for group in zip(self.groups, self._leads, places)),
            ranges=tuple(self._ranges),
            sites=tuple(self._sites),
            edges=tuple(Edge(m.name, m.lane, m.shift) for m in found.markers if m.kind == DAG),
            keep_last=keep_last,
            choice=choice,
            stored=tuple(stored.get(site, 1) for site in range(len(self._sites))),
        )


def _recording(body: Any, sites: _Sites) -> Any:
    """The body with each run of neighbouring markers of one group, at most one of them with a payload, as a call."""

    def call(run: list[tuple[Marker, Any]]) -> Any:
        markers = [marker for marker, _ in run]
        name, arguments = "tileops_mark", [sites.groups[markers[0].group.name], sites.new_site(markers), len(run)]
        for marker, stmt in run:
            if marker.payload:
                name += PAYLOAD_SUFFIX[str(stmt.value.args[2].dtype)]
                arguments.append(stmt.value.args[2])
        return tirx.Evaluate(T.call_extern("int32", name, *arguments))

    def rewritten(parts: list[Any]) -> list[Any]:
        made: list[Any] = []
        run: list[tuple[Marker, Any]] = []
        for part in [*parts, None]:
            marker = Marker.of(part)
            if marker is not None and marker.kind == DAG:
                continue
            if marker is not None and marker.group.name in sites.producers:  # on its way to somewhere else
                made.append(call([(marker, part)]))
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


def _chosen(body: Any) -> Any:
    """The body with every ``if`` whose arms are one recording call each as one call that chooses its site."""

    def branch(stmt: Any) -> Any:
        then, other = _call_of(stmt.then_case), _call_of(stmt.else_case)
        if then is None or other is None or str(other.args[0].value) != "tileops_mark":
            return None
        name, group, site, events, *payload = then.args
        if int(group) != int(other.args[1]) or not all(map(_cannot_fail, payload)):
            return None
        site, events = (T.Select(stmt.condition, *pair) for pair in ((site, other.args[2]), (events, other.args[3])))
        return tirx.Evaluate(T.call_extern("int32", str(name.value), group, site, events, *payload))

    return tirx.stmt_functor.ir_transform(body, None, branch, ["tirx.IfThenElse"])


def _cannot_fail(expression: Any) -> bool:
    """Whether an expression may be evaluated where the author did not ask for it: no memory read, no division."""
    found: list[bool] = []

    def visit(node: Any) -> None:
        found.append(isinstance(node, MAY_FAIL))

    tirx.stmt_functor.post_order_visit(expression, visit)
    return not any(found)


def _call_of(stmt: Any) -> Any:
    """The recording call that a statement is, or ``None``."""
    if not isinstance(stmt, tirx.Evaluate) or not isinstance(stmt.value, tirx.Call):
        return None
    call = stmt.value
    is_extern = isinstance(call.op, tvm.ir.Op) and call.op.name == "tirx.call_extern"
    return call if is_extern and str(call.args[0].value).startswith("tileops_mark") else None


def _share(run: list[Marker], marker: Marker) -> bool:
    same_group = run[0].group.name == marker.group.name
    return same_group and not (marker.payload and any(one.payload for one in run))


def _marker_runs(body: Any, rewritten: Any) -> Any:
    """The body with its statement lists that hold markers, also those of one statement, as ``rewritten`` makes them."""

    def several(stmt: Any) -> Any:
        return sequence(rewritten(list(stmt.seq))) if any(Marker.of(part) for part in stmt.seq) else None

    def single(stmt: Any) -> Any:
        return sequence(rewritten([stmt])) if Marker.of(stmt) else None

    body = tirx.stmt_functor.ir_transform(body, None, several, ["tirx.SeqStmt"])
    return tirx.stmt_functor.ir_transform(body, None, single, ["tirx.Evaluate"])


def _without_markers(body: Any) -> Any:
    """The body without its markers, and without an ``if`` or a loop around nothing else.

    An empty ``if`` would vanish later, but TileLang would count it when it plans a pipelined loop.
    """

    def visit(stmt: Any) -> Any:
        if isinstance(stmt, tirx.SeqStmt):
            return sequence([_without_markers(part) for part in stmt.seq if not only_markers(part)])
        return tirx.Evaluate(0) if Marker.of(stmt) else None

    return tirx.stmt_functor.ir_transform(body, visit, None, ["tirx.SeqStmt", "tirx.Evaluate"])


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
        if SCHEDULE in roots[0].annotations:
            raise TraceError(
                f"{author()}: tracing takes no kernel with T.annotate_ws_schedule: build it with traced=False"
            )
        threads = [int(extent) for extent in roots[0].annotations.get(LAUNCH_THREADS, [DEFAULT_THREADS, 1, 1])]
        return cls((*blocks,), (*extents,), threads[0] * threads[1] * threads[2], threads[0])

    @property
    def cta(self) -> Any:
        """The CTA's linear number, x fastest; of 64 bits, since the number of words before its line may need them."""
        (x, y, z), (size_x, size_y, _) = (map(_as_int64, part) for part in (self.blocks, self.extents))
        return x + size_x * (y + size_y * z)

    @property
    def ctas(self) -> Any:
        """How many CTAs the grid has."""
        return self.extents[0] * self.extents[1] * self.extents[2]


def _slots(launch: _Launch, func: Any, table: SiteTable, target: str) -> Any:
    """The added output: at least a line of words for each CTA that is recorded."""
    lines = tvm.arith.Analyzer().simplify(tirx.const(1) * table.choice.lines(launch.ctas))
    shape: tuple[Any, ...] = (lines, table.line_words)
    if not isinstance(lines, tirx.IntImm) and (target == "c" or not (target or torch.cuda.is_available())):
        sizes, factor = _plain_bound(launch.extents, func)
        if sizes:
            shape = *sizes, factor * table.line_words
        elif target:
            raise TraceError(
                f"{author()}: the CPU target allocates `slots` by the tensors' dimensions, and these do not bound the "
                f"grid's extents {launch.extents}: give a tensor such an extent as a dimension, or make it a constant"
            )
    return tirx.decl_buffer(shape, "int64", name=_unused_name(func, "slots"))


def _choice(ctas: Any, launch: _Launch, target: str, said_by: str) -> Choice:
    """A choice of CTAs, if the grid has one of them; made by the author, or ``said_by`` another call."""
    try:
        choice = Choice.of(ctas, lambda: multiprocessors(target))
    except TraceError as error:
        raise TraceError(f"{author()}: {error}") from None
    total = tvm.arith.Analyzer().simplify(tirx.const(1) * launch.ctas)
    if isinstance(total, tirx.IntImm):
        beyond = [number for number in choice.numbers_of_kind if choice.kind == "list" and number >= int(total)]
        if beyond or len(choice.numbers(int(total))) == 0:
            of = f" of {said_by}" if said_by else ""
            raise TraceError(f"{author()}: ctas{of}: the grid has CTAs 0 to {int(total) - 1}, got {ctas!r}")
    return choice


def multiprocessors(target: str) -> int:
    """How many SMs the device has that a kernel is built for.

    Raises:
        TraceError: if that is not known here.
    """
    if target == "c" or not (target or torch.cuda.is_available()):
        return 1  # the CPU target's blocks run one after the other in one thread
    if not torch.cuda.is_available():
        raise TraceError("ctas: without the GPU here, its number of SMs is unknown: give a list or a slice")
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def _warn_of_arrows(found: Found, table: SiteTable) -> None:
    totals: dict[str, bool] = {}
    for r in table.ranges:
        if not r.instant:
            totals[r.name] = totals.get(r.name, True) and r.total is not None
    for marker in found.markers:
        if marker.kind == DAG and not (totals[marker.name] and totals[marker.lane]):
            _warn_at(
                marker,
                f"dag({marker.name!r}, {marker.lane!r}) gets no arrows in rows that overflow: what they keep with "
                'keep="last" is numbered from the end, and how often these ranges run depends on data',
            )


def _as_int64(value: Any) -> Any:
    return tirx.const(value, "int64") if isinstance(value, int) else tirx.Cast("int64", value)


def _plain_bound(extents: Sequence[Any], func: Any) -> tuple[tuple[Any, ...], int]:
    """Plain dimensions of the kernel's tensors, and a number, whose product is at least that of ``extents``.

    TileLang's adapter for the CPU allocates no output with an expression in its shape. Empty if there are none.
    """
    plain = [*dict.fromkeys(d for b in func.buffer_map.values() for d in b.shape if isinstance(d, tirx.Var))]
    sizes: list[Any] = []
    factor = 1
    for extent in extents:
        if isinstance(extent, (int, tirx.IntImm)):
            factor *= int(extent)
            continue
        bounds = ((size, times) for size in plain for times in (1, 2, 4, 8) if _proven(extent <= times * size, plain))
        found = next(bounds, None)
        if found is None:
            return (), 0
        sizes.append(found[0])
        factor *= found[1]
    return tuple(sizes), factor


def _proven(condition: Any, sizes: list[Any]) -> bool:
    analyzer = tvm.arith.Analyzer()
    for size in sizes:
        analyzer.bind(size, tvm.ir.Range.from_min_extent(1, 1 << 30))  # with more, sums might overflow
    return bool(analyzer.can_prove(condition))


def _opened_and_closed(
    body: Any, table: SiteTable, launch: _Launch, slots: Any, producers: frozenset[str], comment: str
) -> Any:
    """The body with the recorder's source injected, and every group's row opened at its start and closed at its end."""
    grid = [extent if isinstance(extent, int) else tirx.Cast("int32", extent) for extent in launch.extents]
    recorded, line = table.choice.place(launch.cta, _as_int64(launch.ctas))
    line = tirx.Select(recorded, line, tirx.const(0, "int64"))
    opens, closes = [], []
    for number, group in enumerate(table.groups):
        place = group.layout
        row = slots.access_ptr("w", offset=line * table.line_words + place.offset)
        threads_x = 0 if group.name in producers else launch.threads_x
        arguments = [
            number, place.capacity, place.record_words * WORD_BYTES, int(table.keep_last), group.lead, threads_x,
            row, tirx.Cast("int32", recorded), *grid,
        ]  # fmt: skip
        opens.append(tirx.Evaluate(T.call_extern("int32", "tileops_open", *arguments)))
        closes.append(tirx.Evaluate(T.call_extern("int32", "tileops_close", number)))
    cuda, cpu = device_source("recorder.cuh"), device_source("recorder_cpu.h")
    source = f"#ifdef __CUDACC__\n{cuda}#else\n#define TILEOPS_GROUPS {len(table.groups)}\n{cpu}#endif\n"
    source = f"{markers_comment(table)}\n{source}"

    def wrapped(stmt: Any) -> Any:
        """T.use_swizzle gives blocks other numbers behind it: rows are opened there, if no marker stands ahead."""
        parts = statements(stmt)
        for at, part in enumerate(parts):
            if isinstance(part, tirx.AttrStmt) and part.attr_key == SWIZZLE:
                inside = tirx.AttrStmt(part.node, part.attr_key, part.value, wrapped(part.body))
                return sequence([*parts[:at], inside, *parts[at + 1 :]])
            if _records(part):
                break
        return sequence([*opens, *parts, *closes])

    def root(block: Any) -> Any:
        if block.name_hint != ROOT_BLOCK:
            return None
        annotations = dict(block.annotations.items())
        annotations[IMPORT_SOURCE] = comment + source + str(annotations.get(IMPORT_SOURCE, ""))
        return tirx.SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, wrapped(block.body), block.init,
            block.alloc_buffers, block.match_buffers, annotations,
        )  # fmt: skip

    return tirx.stmt_functor.ir_transform(body, None, root, ["tirx.SBlock"])


def _records(stmt: Any) -> bool:
    found: list[bool] = []

    def visit(node: Any) -> None:
        found.append(is_recording(node))

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return any(found)


def device_source(name: str) -> str:
    """A file of the recorder's source."""
    return (resources.files("tileops.trace") / "device" / name).read_text(encoding="utf-8")


def _unused_name(func: Any, name: str) -> str:
    taken = {buffer.name for buffer in func.buffer_map.values()} | {param.name for param in func.params}
    while name in taken or f"{name}_handle" in taken:
        name += "_"
    return name
