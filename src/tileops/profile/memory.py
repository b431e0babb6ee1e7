"""What ``profile_memory`` recorded: growth, churn, the peak and what held it, by operator and by line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import LABEL, OP, PYTHON, UNKNOWN, Trace
from .structure.nesting import innermost

CPU = "CPU"
# Frames that allocate on behalf of somebody else's line.
_NOT_THE_USERS = ("torch/", "<built-in", "nn.Module: ", "<string>", "contextlib.py", "threading.py")


@dataclass(frozen=True)
class Holder:
    """Memory by where it was allocated.

    Attributes:
        name: of the operator, label or line.
        count: of allocations.
        bytes: in sum.
    """

    name: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Growth:
    """Memory over the passages of a label, such as the steps of a loop.

    Attributes:
        label: its name; for the profiler's steps, ``ProfilerStep``.
        at_end: bytes allocated at the end of each passage.
        per_passage: bytes that a passage adds, fitted by least squares over all but the first.
        grows: whether each of them adds something.
    """

    label: str
    at_end: list[int]
    per_passage: float
    grows: bool


@dataclass(frozen=True)
class Memory:
    """A device's memory over a trace; bytes are what PyTorch's allocator gave out.

    Attributes:
        device: ``CPU`` or ``GPU 0`` and so on.
        allocations, frees: counts.
        churn_bytes: allocated in sum.
        begin_bytes, end_bytes, peak_bytes: allocated before the first event, after the last, and at most.
        reserved_bytes: held by the caching allocator at most; None where there is none.
        peak_ns: when, from the trace's first event.
        holders: by operator, what was allocated within the trace and still held at the peak; the largest first.
        by_operator, by_line: allocations by the innermost operator resp. by the user's line. Lines need a trace made
            ``with_stack``.
        growth: over the passages of labels.
        timeline: at most 512 pairs of a moment (ns) and the bytes allocated, the most of each stretch of time.
    """

    device: str
    allocations: int
    frees: int
    churn_bytes: int
    begin_bytes: int
    end_bytes: int
    peak_bytes: int
    reserved_bytes: int | None
    peak_ns: int
    holders: list[Holder]
    by_operator: list[Holder]
    by_line: list[Holder]
    growth: list[Growth]
    timeline: list[tuple[int, int]]


def memory(trace: Trace) -> list[Memory]:
    """The memory of each device that the trace has allocations of."""
    found = []
    key = trace.allocations["device_type"].astype(np.int64) * 4096 + trace.allocations["device"]
    for value in np.unique(key):
        found.append(_of(trace, trace.allocations[key == value]))
    return found


def _of(trace: Trace, own: np.ndarray) -> Memory:
    # The allocator's own total, where the file has it: on the host, and in old traces, it has not always.
    told = (own["total"] != UNKNOWN).all() and (own["total"] > 0).any()
    running = own["total"] if told else np.cumsum(own["bytes"])
    begin = int(running[0] - own["bytes"][0])
    peak = int(np.argmax(running))
    gets = own["bytes"] > 0
    operators = _enclosing(trace, own, (OP,), ())
    operators = np.where(operators >= 0, operators, _enclosing(trace, own, (LABEL,), ()))
    lines = _enclosing(trace, own, (PYTHON,), _NOT_THE_USERS)
    reserved = int(own["reserved"].max())
    return Memory(
        device=CPU if own["device_type"][0] == 0 else f"GPU {own['device'][0]}",
        allocations=int(np.count_nonzero(gets)),
        frees=int(np.count_nonzero(own["bytes"] < 0)),
        churn_bytes=int(own["bytes"][gets].sum()),
        begin_bytes=begin,
        end_bytes=int(running[-1]),
        peak_bytes=max(int(running[peak]), begin),
        reserved_bytes=reserved if reserved > 0 else None,
        peak_ns=int(own["time"][peak]) - trace.start,
        holders=_holders(trace, _held(own, peak), own, operators),
        by_operator=_holders(trace, gets, own, operators),
        by_line=_holders(trace, gets, own, lines) if (lines >= 0).any() else [],
        growth=_growth(trace, own["time"], running, begin),
        timeline=_timeline(own["time"] - trace.start, running),
    )


def _enclosing(trace: Trace, own: np.ndarray, kinds: tuple[int, ...], without: tuple[str, ...]) -> np.ndarray:
    """The name (an index) of the innermost event of these kinds that each allocation stands in, or -1."""
    events = trace.events
    unwanted = [index for index, name in enumerate(trace.names) if name.startswith(without)] if without else []
    holders = np.flatnonzero(np.isin(events["kind"], kinds) & ~np.isin(events["name"], unwanted))
    found = np.full(len(own), -1)
    for track in np.unique(own["track"]):
        mine, around = own["track"] == track, holders[events["track"][holders] == track]
        if len(around):
            begin = events["begin"][around]
            at = innermost(begin, begin + events["duration"][around], own["time"][mine])
            found[mine] = np.where(at >= 0, events["name"][around[at]], -1)
    return found


def _held(own: np.ndarray, peak: int) -> np.ndarray:
    """Which of the allocations are still held after that event."""
    held = np.zeros(len(own), bool)
    # What happened to each address last decides: it was given out, or it was given back.
    last = peak - np.unique(own["address"][peak::-1], return_index=True)[1]
    held[last[own["bytes"][last] > 0]] = True
    return held


def _holders(trace: Trace, chosen: np.ndarray, own: np.ndarray, names: np.ndarray, most: int = 10) -> list[Holder]:
    groups, place = np.unique(names[chosen], return_inverse=True)
    sizes, counts = np.bincount(place, own["bytes"][chosen]), np.bincount(place)
    return [
        Holder(trace.names[groups[i]] if groups[i] >= 0 else "(outside)", int(counts[i]), int(sizes[i]))
        for i in np.argsort(-sizes, kind="stable")[:most].tolist()
    ]


def _growth(trace: Trace, time: np.ndarray, running: np.ndarray, begin: int) -> list[Growth]:
    labels = trace.events[trace.events["kind"] == LABEL]
    names = [("ProfilerStep" if name.startswith("ProfilerStep#") else name) for name in trace.names]
    passages: dict[str, list[int]] = {}
    for name, end in zip(labels["name"].tolist(), (labels["begin"] + labels["duration"]).tolist()):
        passages.setdefault(names[name], []).append(end)
    found = []
    for label, ends in passages.items():
        if len(ends) < 3:
            continue
        place = np.searchsorted(time, np.sort(ends), side="right") - 1
        at_end = np.where(place >= 0, running[place], begin)
        slope = float(np.polyfit(np.arange(len(at_end) - 1), at_end[1:].astype(float), 1)[0])
        found.append(Growth(label, at_end.tolist(), slope, bool((np.diff(at_end[1:]) > 0).all())))
    return found


def _timeline(time: np.ndarray, running: np.ndarray, points: int = 512) -> list[tuple[int, int]]:
    if len(time) <= points:
        return list(zip(time.tolist(), running.tolist()))
    edges = np.linspace(0, len(time), points + 1).astype(np.int64)[:-1]
    return list(zip(time[edges].tolist(), np.maximum.reduceat(running, edges).tolist()))
