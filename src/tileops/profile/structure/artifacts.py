"""What does not belong into a measured region: waits, and work that a warm-up should have done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..columns import LABEL, OP, OVERHEAD, PYTHON, RUNTIME, Trace
from .attribution import Instance
from .intervals import covered, merge
from .links import callers, gpu_events, launch_calls, sync_calls
from .nesting import innermost

COMPILATION, MODULE_LOAD, FIRST_ALLOCATION, PROFILER = "compilation", "module load", "first allocation", "profiler"
# A launch that loads its kernel's module first, as CUDA does lazily: the trace shows a long launch call, and no load.
FIRST_LAUNCH = "first launch"
# The first launch under a profiler takes 0.3 to 0.4 ms on an H200 for the profiler's sake; a queue that is full keeps a
# launch waiting while the GPU works.
_LONG_LAUNCH_NS, _LONG_LAUNCH, _IDLE = 1_000_000, 20.0, 0.5
_OF_CALLS = (
    (COMPILATION, re.compile(r"^nvrtc|^nvPTXCompiler|^hiprtc|^cuLinkC|^cuLinkAdd")),
    (MODULE_LOAD, re.compile(r"^(?:cu|cuda|hip)(?:Module|Library)Load|^cudaGetFuncBySymbol|^cuLibraryGetKernel")),
    (
        FIRST_ALLOCATION,
        re.compile(
            r"^(?:cuda|hip)(?:Malloc|Free)(?!Async)|^(?:cuda|hip)(?:HostAlloc|HostMalloc|HostRegister)|"
            r"^cuMem(?:Alloc|Free|Create|Map)(?!Async)|^cudaMallocManaged"
        ),
    ),
)
# Functions that Python's frames show where the trace was made with_stack.
_OF_PYTHON = re.compile(
    r"tilelang/(?:jit|engine|cache)/.*(?:compile|lower)|triton/compiler/compiler\.py\(\d+\): compile|"
    r"torch/_inductor/.*(?:compile_fx|codecache)|torch/utils/cpp_extension\.py.*(?:load|_jit_compile)|"
    r"torch/_dynamo/convert_frame\.py"
)
_OF_OVERHEAD = (
    (COMPILATION, re.compile(r"Driver Compiler")),
    (MODULE_LOAD, re.compile(r"Lazy Function Loading|Runtime Triggered Module Loading")),
    # A full command buffer is a full launch queue, and no overhead of the profiler's.
    (PROFILER, re.compile(r"^(?!Command Buffer Full)")),
)
# The first passage stands out if it took so much more than the median of the others...
_TIMES = 1.5
# ...and so many of their median deviations: 5 is beyond what scatter does in a handful of passages.
_DEVIATIONS = 5.0


@dataclass(frozen=True)
class Synchronization:
    """A call in which the host waited for a GPU, with work to launch still before it.

    Attributes:
        call: its name.
        inside: the operator or label that it stands in, the innermost; empty if none.
        count: how often.
        total_ns, longest_ns: the host waited.
    """

    call: str
    inside: str
    count: int
    total_ns: int
    longest_ns: int


@dataclass(frozen=True)
class Artifact:
    """Work that a warm-up should have done.

    Attributes:
        kind: ``compilation``, ``module load``, ``first allocation``, ``first launch`` or ``profiler``.
        name: of the call or function.
        count: how often.
        total_ns: on the host.
        first_ns: when it first happened, from the trace's first event.
    """

    kind: str
    name: str
    count: int
    total_ns: int
    first_ns: int


@dataclass(frozen=True)
class Outlier:
    """A label whose first passage took longer than the others.

    Attributes:
        label: its name.
        first_ns, median_ns: the first passage, and the others' median.
        calls: passages.
    """

    label: str
    first_ns: int
    median_ns: int
    calls: int


def unexpected_syncs(trace: Trace) -> list[Synchronization]:
    """Waits that were followed by further launches of the same thread, by the time they took.

    The wait at the end of a region is what measuring needs; one that has work behind it empties the GPU's queue.
    """
    events = trace.events
    syncs, launched = sync_calls(trace), launch_calls(trace)
    keep = np.zeros(len(syncs), bool)
    for track in np.unique(events["track"][syncs]):
        own = events["track"][syncs] == track
        mine = launched[events["track"][launched] == track]
        last = events["begin"][mine].max(initial=-1)
        first = events["begin"][mine].min(initial=np.iinfo(np.int64).max)
        # Before the first launch there is nothing of this region to wait for.
        keep |= own & (events["begin"][syncs] < last) & (events["begin"][syncs] > first)
    syncs = syncs[keep]
    inside = enclosing(trace, syncs)
    groups: dict[tuple[int, int], list[int]] = {}
    for index, around in zip(syncs.tolist(), inside.tolist()):
        groups.setdefault((int(events["name"][index]), around), []).append(int(events["duration"][index]))
    found = [
        Synchronization(trace.names[name], trace.names[around] if around >= 0 else "", len(took), sum(took), max(took))
        for (name, around), took in groups.items()
    ]
    return sorted(found, key=lambda sync: -sync.total_ns)


def enclosing(trace: Trace, indices: np.ndarray) -> np.ndarray:
    """The names (indices) of the innermost operator or label that each of these events stands in, or -1."""
    events = trace.events
    holders = np.flatnonzero(np.isin(events["kind"], (OP, LABEL)))
    found = np.full(len(indices), -1)
    for track in np.unique(events["track"][indices]):
        own = holders[events["track"][holders] == track]
        mine = events["track"][indices] == track
        begin = events["begin"][own]
        at = innermost(begin, begin + events["duration"][own], events["begin"][indices[mine]])
        if len(own):
            found[mine] = np.where(at >= 0, events["name"][own[np.maximum(at, 0)]], -1)
    return found


def artifacts(trace: Trace) -> list[Artifact]:
    """Compilations, module loads and allocations from the driver inside the trace, and what the profiler itself took.

    The most expensive come first.
    """
    groups = _grouped(trace, np.ones(len(trace.events), bool))
    launched = long_first_launches(trace)
    for name in np.unique(trace.events["name"][launched]).tolist():
        groups[FIRST_LAUNCH, name] = launched[trace.events["name"][launched] == name]
    return _listed(trace, groups)


def inside(trace: Trace, label: str) -> list[Artifact]:
    """Those that fall inside passages of a label, without the profiler's own and those that may be."""
    events = trace.events
    passages = events[(events["kind"] == LABEL) & (events["name"] == _index(trace, label))]
    union = merge(passages["begin"], passages["begin"] + passages["duration"])
    held = np.isin(events["track"], passages["track"])
    held &= covered(union, events["begin"], events["begin"] + np.maximum(events["duration"], 1)) > 0
    return [artifact for artifact in _listed(trace, _grouped(trace, held)) if artifact.kind != PROFILER]


def first_call_work(trace: Trace) -> np.ndarray:
    """Indices of the events that a warm-up should have had."""
    groups = _grouped(trace, np.ones(len(trace.events), bool))
    members = [members for (kind, _), members in groups.items() if kind != PROFILER]
    return np.unique(np.concatenate([long_first_launches(trace), *members]))


def long_first_launches(trace: Trace) -> np.ndarray:
    """Indices of calls that launch a kernel for the first time, take very long, and leave the GPU idle meanwhile."""
    events, active = trace.events, gpu_events(trace)
    launches, called = launch_calls(trace), callers(trace, active)
    linked = np.isin(called, launches)
    if not linked.any():
        return np.zeros(0, np.int64)
    # The first launch of each name, in the order of the calls.
    order = np.argsort(events["begin"][called[linked]], kind="stable")
    first = np.unique(events["name"][active[linked]][order], return_index=True)[1]
    calls = np.unique(called[linked][order][first])
    begin, took = events["begin"][calls], events["duration"][calls]
    busy = covered(merge(events["begin"][active], events["begin"][active] + events["duration"][active]), begin,
                   begin + took)  # fmt: skip
    typical = float(np.median(events["duration"][launches]))
    return calls[(took >= _LONG_LAUNCH_NS) & (took > _LONG_LAUNCH * typical) & (busy <= _IDLE * took)]


def _index(trace: Trace, name: str) -> int:
    return trace.names.index(name) if name in trace.names else -1


def _grouped(trace: Trace, chosen: np.ndarray) -> dict[tuple[str, int], np.ndarray]:
    """Indices of the chosen events that are artifacts, by kind and name."""
    events = trace.events
    groups: dict[tuple[str, int], np.ndarray] = {}
    for kind, patterns in ((RUNTIME, _OF_CALLS), (OVERHEAD, _OF_OVERHEAD), (PYTHON, ((COMPILATION, _OF_PYTHON),))):
        members = np.flatnonzero((events["kind"] == kind) & chosen)
        for name in np.unique(events["name"][members]).tolist():
            matched = next((what for what, pattern in patterns if pattern.search(trace.names[name])), None)
            if matched is not None:
                groups[matched, name] = members[events["name"][members] == name]
    return groups


def _listed(trace: Trace, groups: dict[tuple[str, int], np.ndarray]) -> list[Artifact]:
    found = []
    for (kind, name), members in groups.items():
        events = trace.events[members]
        first = int(events["begin"].min()) - trace.start
        found.append(Artifact(kind, trace.names[name], len(members), int(events["duration"].sum()), first))
    return sorted(found, key=lambda artifact: -artifact.total_ns)


def outliers(trace: Trace) -> list[Outlier]:
    """Labels entered at least four times whose first passage stands out."""
    events = trace.events
    labels = events[events["kind"] == LABEL]
    found = []
    for name in np.unique(labels["name"]).tolist():
        took = labels["duration"][labels["name"] == name]
        if len(took) >= 4 and stands_out(took):
            found.append(Outlier(trace.names[name], int(took[0]), int(np.median(took[1:])), len(took)))
    return sorted(found, key=lambda outlier: outlier.median_ns - outlier.first_ns)


def stands_out(took: np.ndarray) -> bool:
    """Whether the first of some durations is much longer than the others."""
    median = float(np.median(took[1:]))
    deviation = float(np.median(np.abs(took[1:] - median)))
    return bool(took[0] > _TIMES * median and took[0] > median + _DEVIATIONS * deviation)


def first_passage(passages: Sequence[Instance]) -> str:
    """That the first of some passages took longer than the others, as the beginning of a sentence; else empty."""
    if len(passages) < 4:
        return ""
    for what, taken in (("on the GPU", [p.gpu_ns for p in passages]), ("on the host", [p.cpu_ns for p in passages])):
        if any(taken) and stands_out(np.array(taken)):
            median = float(np.median(taken[1:])) / 1000
            return f"Its first call in the profile took {taken[0] / 1000:.1f} µs {what}, the others {median:.1f}"
    return ""
