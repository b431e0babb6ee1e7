"""When a GPU had nothing to do, and whose doing that was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..columns import Trace
from .artifacts import first_call_work
from .intervals import covered, merge
from .links import callers, gpu_events, sync_calls

HOST_LATE, SYNCHRONIZATION, FIRST_CALL, OTHER_STREAM, QUEUED, UNLINKED = range(6)
CAUSES = {
    HOST_LATE: "host late",
    SYNCHRONIZATION: "synchronization",
    FIRST_CALL: "first call",
    OTHER_STREAM: "other stream",
    QUEUED: "already queued",
    UNLINKED: "unknown",
}
MEANING = {
    HOST_LATE: "the next launch came when the GPU had already run out of work",
    SYNCHRONIZATION: "the host waited for the GPU to finish, and launched only then",
    FIRST_CALL: "the host compiled, loaded a module or allocated from the driver: a warm-up should have done that",
    OTHER_STREAM: "the launch had been queued, and another stream of the GPU worked meanwhile",
    QUEUED: "the launch had been queued: what the GPU itself takes between kernels, or a wait for an event",
    UNLINKED: "the trace does not say which call launched what followed",
}
# A kernel that begins within twice the time that the quickest twentieth needs from its launch call has not waited in
# a queue, although the call may have returned before the GPU ran out of work.
_QUICK = 2.0
# Of a gap before a late launch, so much must be the work of a first call for that to be the cause.
_MOSTLY = 0.5


@dataclass(frozen=True)
class Gap:
    """A stretch of time.

    Attributes:
        begin_ns, duration_ns: when, from the trace's first event, and how long.
        cause: one of ``CAUSES``' texts.
        before, after: the names of what ran on the GPU before and after it.
        device, stream: where.
    """

    begin_ns: int
    duration_ns: int
    cause: str
    before: str
    after: str
    device: int
    stream: int


@dataclass(frozen=True)
class Gaps:
    """The gaps of a cause.

    Attributes:
        cause, meaning: in words.
        count: of gaps.
        total_ns, median_ns, longest_ns: their durations.
    """

    cause: str
    meaning: str
    count: int
    total_ns: int
    median_ns: int
    longest_ns: int


@dataclass(frozen=True)
class DeviceGaps:
    """Where a GPU, or a stream of it, was idle between its first and its last activity.

    Attributes:
        device: its number.
        stream: its number; None where all streams of the device are taken together.
        idle_ns: in sum.
        causes: by total time.
        longest: the ten longest.
    """

    device: int
    stream: int | None
    idle_ns: int
    causes: list[Gaps]
    longest: list[Gap]


def find_gaps(trace: Trace) -> tuple[list[DeviceGaps], list[DeviceGaps]]:
    """The gaps of each GPU as a whole, and those of each of its streams where it has several."""
    events, active = trace.events, gpu_events(trace)
    called = callers(trace, active)
    floor = _floor(trace, active, called)
    syncs = sync_calls(trace)
    cold = _busy(events[first_call_work(trace)])
    whole, apart = [], []
    for device in np.unique(events["device"][active]):
        on_device = np.flatnonzero(events["device"][active] == device)
        streams = np.unique(events["stream"][active[on_device]])
        busy = _busy(events[active[on_device]])
        whole.append(_of(trace, active[on_device], called[on_device], syncs, floor, busy, cold, int(device), None))
        if len(streams) > 1:
            for stream in streams:
                members = on_device[events["stream"][active[on_device]] == stream]
                apart.append(
                    _of(trace, active[members], called[members], syncs, floor, busy, cold, int(device), int(stream))
                )
    return whole, apart


def _busy(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return merge(chosen["begin"], chosen["begin"] + chosen["duration"])


def _floor(trace: Trace, active: np.ndarray, called: np.ndarray) -> float:
    """Nanoseconds from a launch call to the kernel's beginning, where nothing was in between."""
    known = called >= 0
    if not known.any():
        return 0.0
    taken = trace.events["begin"][active[known]] - trace.events["begin"][called[known]]
    taken = taken[taken >= 0]
    return float(np.percentile(taken, 5)) if len(taken) else 0.0


def _of(
    trace: Trace,
    active: np.ndarray,
    called: np.ndarray,
    syncs: np.ndarray,
    floor: float,
    busy: tuple[np.ndarray, np.ndarray],
    cold: tuple[np.ndarray, np.ndarray],
    device: int,
    stream: int | None,
) -> DeviceGaps:
    events = trace.events
    begin = events["begin"][active]
    end = np.maximum.accumulate(begin + events["duration"][active])
    after = np.flatnonzero(begin[1:] > end[:-1]) + 1
    first, last = end[after - 1], begin[after]
    lengths = last - first
    call = called[after]
    launched = events["begin"][np.maximum(call, 0)]
    returned = launched + events["duration"][np.maximum(call, 0)]

    cause = np.full(len(after), HOST_LATE)
    queued = (returned <= first) & (last - launched > _QUICK * floor)
    cause[queued] = QUEUED
    if stream is not None:
        cause[queued & (covered(busy, first, last) > 0)] = OTHER_STREAM
    waited = _waited(trace, syncs, call, first, launched)
    cause[~queued & waited] = SYNCHRONIZATION
    cause[~queued & (covered(cold, first, last) >= _MOSTLY * lengths)] = FIRST_CALL
    cause[call < 0] = UNLINKED

    # What ended last before the gap is not always what began last.
    ends = begin + events["duration"][active]
    latest = np.maximum.accumulate(np.where(ends == end, np.arange(len(ends)), 0))
    longest = [
        Gap(
            int(first[i]) - trace.start,
            int(lengths[i]),
            CAUSES[int(cause[i])],
            trace.names[events["name"][active[latest[after[i] - 1]]]],
            trace.names[events["name"][active[after[i]]]],
            device,
            int(events["stream"][active[after[i]]]),
        )
        for i in np.argsort(-lengths, kind="stable")[:10]
    ]
    causes = []
    for number, text in CAUSES.items():
        chosen = lengths[cause == number]
        if len(chosen):
            total, median, most = int(chosen.sum()), int(np.median(chosen)), int(chosen.max())
            causes.append(Gaps(text, MEANING[number], len(chosen), total, median, most))
    causes.sort(key=lambda gaps: -gaps.total_ns)
    return DeviceGaps(device, stream, int(lengths.sum()), causes, longest)


def _waited(trace: Trace, syncs: np.ndarray, call: np.ndarray, idle: np.ndarray, launched: np.ndarray) -> np.ndarray:
    """Whether the thread of each launch came from waiting for the GPU, which had run out of work by then."""
    events = trace.events
    waited = np.zeros(len(call), bool)
    for track in np.unique(events["track"][syncs]):
        own = syncs[events["track"][syncs] == track]
        ends = np.sort(events["begin"][own] + events["duration"][own])
        place = np.searchsorted(ends, launched, side="right") - 1
        same = (call >= 0) & (events["track"][np.maximum(call, 0)] == track)
        waited |= same & (place >= 0) & (ends[np.maximum(place, 0)] >= idle)
    return waited
