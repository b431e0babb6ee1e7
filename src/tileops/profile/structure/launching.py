"""What launching costs the host, and whether the GPU had work waiting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..columns import KERNEL, UNKNOWN, Trace
from .artifacts import long_first_launches
from .links import callers, launch_calls

# A kernel of less than this is smaller than what a launch takes the host: 2 to 10 µs, with the framework around it.
SMALL_NS = 10_000
# So many small kernels in a row, on a stream, are a pipeline worth fusing or capturing in a graph.
PIPELINE = 20


@dataclass(frozen=True)
class Launches:
    """The launch calls of a trace.

    Attributes:
        calls: by name, how often.
        count: in sum.
        cpu_ns, median_ns, longest_ns: their time on the host.
        kernels: launched by them, if the trace links them.
        kernel_ns: the kernels' time on GPUs.
        ratio: ``cpu_ns / kernel_ns``; None without kernels.
        latency_ns: from a launch call's beginning to its kernel's, the median.
    """

    calls: dict[str, int]
    count: int
    cpu_ns: int
    median_ns: int
    longest_ns: int
    kernels: int
    kernel_ns: int
    ratio: float | None
    latency_ns: int | None


@dataclass(frozen=True)
class Queue:
    """Kernels that were launched and had not begun.

    Attributes:
        device: its number.
        deepest: the most at once.
        mean: over the time from the first launch to the last kernel's beginning.
        empty_share: of that time, how much of it nothing waited.
        history: at most 512 pairs of a moment (ns) and the depth from it on, the largest of each stretch of time.
    """

    device: int
    deepest: int
    mean: float
    empty_share: float
    history: list[tuple[int, int]]


@dataclass(frozen=True)
class Pipeline:
    """Small kernels in a row.

    Attributes:
        device, stream: where.
        begin_ns, span_ns: when the first one began, from the trace's first event, and until the last one's end.
        kernels: their number.
        busy_ns: they ran.
        median_ns: of their durations.
        names: how many different ones; few of them, often, are a loop.
    """

    device: int
    stream: int
    begin_ns: int
    span_ns: int
    kernels: int
    busy_ns: int
    median_ns: int
    names: int


def launches(trace: Trace) -> Launches:
    """The launch calls' figures."""
    events = trace.events
    calls = _outer(trace, launch_calls(trace))
    names, counts = np.unique(events["name"][calls], return_counts=True)
    kernels = np.flatnonzero(events["kind"] == KERNEL)
    called = callers(trace, kernels)
    linked = np.isin(called, calls)
    duration = events["duration"][calls]
    kernel_ns = int(events["duration"][kernels].sum())
    waits = events["begin"][kernels[linked]] - events["begin"][called[linked]]
    return Launches(
        calls={trace.names[name]: int(count) for name, count in zip(names.tolist(), counts)},
        count=len(calls),
        cpu_ns=int(duration.sum()),
        median_ns=int(np.median(duration)) if len(calls) else 0,
        longest_ns=int(duration.max(initial=0)),
        kernels=int(np.count_nonzero(linked)),
        kernel_ns=kernel_ns,
        ratio=float(duration.sum()) / kernel_ns if kernel_ns and len(calls) else None,
        latency_ns=int(np.median(waits)) if len(waits) else None,
    )


def launch_time(trace: Trace, device: int) -> int:
    """What the calls that launched kernels on one GPU took the host, in ns, without those that loaded modules."""
    events = trace.events
    kernels = np.flatnonzero((events["kind"] == KERNEL) & (events["device"] == device))
    calls = np.intersect1d(callers(trace, kernels), _outer(trace, launch_calls(trace)))
    return int(events["duration"][np.setdiff1d(calls, long_first_launches(trace))].sum())


def _outer(trace: Trace, calls: np.ndarray) -> np.ndarray:
    """Launch calls without those that others make: the driver's under the runtime's, of the same correlation id."""
    ids = trace.events["correlation"][calls]
    first = np.unique(ids, return_index=True)[1]
    return calls[np.sort(np.append(first[ids[first] != UNKNOWN], np.flatnonzero(ids == UNKNOWN)))]


def queues(trace: Trace) -> list[Queue]:
    """The depth of each GPU's queue over time."""
    events = trace.events
    kernels = np.flatnonzero(events["kind"] == KERNEL)
    called = callers(trace, kernels)
    kernels, called = kernels[called >= 0], called[called >= 0]
    found = []
    for device in np.unique(events["device"][kernels]):
        own = events["device"][kernels] == device
        begin = events["begin"][kernels[own]]
        # A call that returns later than its kernel begins never left one waiting.
        launched = np.minimum((events["begin"] + events["duration"])[called[own]], begin)
        moments = np.concatenate([launched, begin])
        order = np.lexsort((np.repeat([1, 0], len(begin)), moments))
        depth = np.maximum(np.cumsum(np.repeat([1, -1], len(begin))[order]), 0)
        moments = moments[order]
        lasting = np.diff(moments)
        whole = int(lasting.sum())
        mean = float((depth[:-1] * lasting).sum() / whole) if whole else 0.0
        empty = float(lasting[depth[:-1] == 0].sum() / whole) if whole else 1.0
        found.append(Queue(int(device), int(depth.max(initial=0)), mean, empty, _history(moments - trace.start, depth)))
    return found


def pipelines(trace: Trace) -> list[Pipeline]:
    """Rows of at least 20 kernels under 10 µs each, the longest first."""
    events = trace.events
    kernels = np.flatnonzero(events["kind"] == KERNEL)
    key = events["device"][kernels].astype(np.int64) << 32 | (events["stream"][kernels].astype(np.int64) & 0xFFFFFFFF)
    found = []
    for value in np.unique(key):
        own = events[kernels[key == value]]
        small = own["duration"] < SMALL_NS
        edges = np.flatnonzero(np.diff(np.concatenate([[False], small, [False]]).astype(np.int8)))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist()):
            if last - first >= PIPELINE:
                row = own[first:last]
                ends = row["begin"] + row["duration"]
                found.append(
                    Pipeline(
                        int(row["device"][0]),
                        int(row["stream"][0]),
                        int(row["begin"][0]) - trace.start,
                        int(ends.max() - row["begin"][0]),
                        last - first,
                        int(row["duration"].sum()),
                        int(np.median(row["duration"])),
                        len(np.unique(row["name"])),
                    )
                )
    return sorted(found, key=lambda pipeline: -pipeline.kernels)


def _history(moments: np.ndarray, depth: np.ndarray, points: int = 512) -> list[tuple[int, int]]:
    if len(moments) <= points:
        return list(zip(moments.tolist(), depth.tolist()))
    edges = np.linspace(0, len(moments), points + 1).astype(np.int64)[:-1]
    return list(zip(moments[edges].tolist(), np.maximum.reduceat(depth, edges).tolist()))
