"""Whose time it was: kernels to labels and operators, operators to those they stand in.

The table has PyTorch's columns. "Self CPU" of an operator is its time on the host without the operators, labels and
calls inside it; "Self CUDA" is the time of the kernels and copies that it launched itself, not through another
operator. A kernel's row has its own time on the GPU.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..columns import KINDS, LABEL, ON_GPU, OP, RUNTIME, Trace
from .intervals import length, merge
from .links import callers, gpu_events
from .nesting import innermost, parents

# The labels that a label stands in, and its own name.
_Path = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A line of the summary table: all events of one name and kind.

    Attributes:
        name: of the operator, call, label or kernel.
        kind: what it is.
        calls: how often.
        self_cpu_ns, cpu_total_ns: on the host, without and with what stands inside; 0 for kernels.
        self_cuda_ns, cuda_total_ns: on GPUs, launched by itself and by all that stands inside. None without GPU
            activity in the trace.
    """

    name: str
    kind: str
    calls: int
    self_cpu_ns: int
    cpu_total_ns: int
    self_cuda_ns: int | None
    cuda_total_ns: int | None


@dataclass(frozen=True)
class Label:
    """A ``record_function`` label, at its place among the others.

    Attributes:
        path: the labels that it stands in, and its own name, from the outside in.
        calls: how often it was entered.
        cpu_ns: on the host, in sum.
        gpu_ns: of the kernels and copies launched inside it, in sum; None without GPU activity.
        self_gpu_ns: of those that no label inside it has.
        kernels: how many these are, with those of labels inside it.
        by_time: of these, how many were launched from another thread (autograd's, for one) while the label was open:
            that they belong to it is likely, not certain.
        first_ns, median_ns: of its durations on the host.
        kernel_names: the three kernels that took most of its time.
    """

    path: tuple[str, ...]
    calls: int
    cpu_ns: int
    gpu_ns: int | None
    self_gpu_ns: int | None
    kernels: int
    by_time: int
    first_ns: int
    median_ns: int
    kernel_names: tuple[str, ...]


@dataclass(frozen=True)
class Instance:
    """One passage through a label.

    Attributes:
        begin_ns, cpu_ns: on the host.
        gpu_ns: kernels and copies launched inside it, in sum.
        span_ns: from the first of them to the last one's end; 0 if there are none.
        kernels: their number.
        launch_ns: the launch calls' time on the host.
    """

    begin_ns: int
    cpu_ns: int
    gpu_ns: int
    span_ns: int
    kernels: int
    launch_ns: int


@dataclass(frozen=True)
class _Host:
    """The events of the host that hold others: per thread, with their parents.

    Attributes:
        index: into the trace's events, thread by thread.
        parent: into ``index``, or -1.
        owner: of each event on a GPU (in their order), the event in ``index`` that launched it, or -1.
        active: indices of the events on GPUs.
    """

    index: np.ndarray
    parent: np.ndarray
    owner: np.ndarray
    active: np.ndarray


def table(trace: Trace) -> list[Row]:
    """The summary table, by self CUDA time; without GPU activity, by self CPU time."""
    events = trace.events
    host = _host(trace, (OP, LABEL, RUNTIME))
    duration = events["duration"]
    inside = np.zeros(len(host.index), np.int64)
    held = host.parent >= 0
    np.add.at(inside, host.parent[held], duration[host.index[held]])
    self_cpu = np.maximum(duration[host.index] - inside, 0)
    # A call's own kernels count for the operator around it, as in PyTorch's table.
    is_call = np.append(events["kind"][host.index] == RUNTIME, False)  # the last is that of owner -1
    owner = host.owner.copy()
    by_call = is_call[owner]
    owner[by_call] = host.parent[owner[by_call]]
    self_gpu = np.zeros(len(host.index), np.int64)
    np.add.at(self_gpu, owner[owner >= 0], duration[host.active[owner >= 0]])
    gpu_total = _totals(self_gpu, host.parent)

    has_gpu = trace.has_gpu_activity
    rows = []
    kinds = events["kind"][host.index].astype(np.int64)
    keys, group = np.unique(kinds << 32 | _unnumbered(trace)[events["name"][host.index]], return_inverse=True)
    # Of a name inside itself, only the outer one counts.
    outer = ~_within_same(host.parent, group)

    def per_group(values: np.ndarray) -> np.ndarray:
        return np.bincount(group, values, len(keys)).astype(np.int64)

    sums = (
        np.bincount(group, minlength=len(keys)), per_group(self_cpu), per_group(duration[host.index] * outer),
        per_group(self_gpu), per_group(gpu_total * outer),
    )  # fmt: skip
    for key, calls, own, total, own_gpu, all_gpu in zip(keys.tolist(), *(column.tolist() for column in sums)):
        gpu = (own_gpu, all_gpu) if has_gpu else (None, None)
        name = trace.names[key & 0xFFFFFFFF]
        # As PyTorch's table has it.
        name = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        rows.append(Row(name, KINDS[key >> 32], calls, own, total, *gpu))
    for kind in ON_GPU:
        own_events = events[events["kind"] == kind]
        names, group = np.unique(own_events["name"], return_inverse=True)
        calls_of, times = np.bincount(group), np.bincount(group, own_events["duration"])
        for name, calls, time in zip(names.tolist(), calls_of.tolist(), times.tolist()):
            rows.append(Row(trace.names[name], KINDS[kind], calls, 0, 0, int(time), int(time)))
    rows.sort(key=lambda row: (-(row.self_cuda_ns or 0), -row.self_cpu_ns, row.name))
    return rows


def _unnumbered(trace: Trace) -> np.ndarray:
    """The index of each name; of the profiler's steps, the first one's for all."""
    index = np.arange(len(trace.names), dtype=np.int64)
    steps = [place for place, name in enumerate(trace.names) if name.startswith("ProfilerStep#")]
    index[steps] = steps[0] if steps else 0
    return index


def labels(trace: Trace) -> list[Label]:
    """The labels, an outer one before those inside it, by GPU time and then by time on the host."""
    events = trace.events
    host = _host(trace, (LABEL,))
    if not len(host.index):
        return []
    owner, by_time = _by_time(trace, host)
    paths: dict[tuple[str, ...], int] = {}
    path_of = np.zeros(len(host.index), np.int64)
    order = np.argsort(_depth_of(host.parent), kind="stable")
    place: dict[int, tuple[str, ...]] = {}
    for number in order.tolist():  # labels are people's: few, beside the events
        above = place[host.parent[number]] if host.parent[number] >= 0 else ()
        # The profiler numbers its steps; they are one label.
        name = trace.names[events["name"][host.index[number]]]
        place[number] = (*above, "ProfilerStep" if name.startswith("ProfilerStep#") else name)
        path_of[number] = paths.setdefault(place[number], len(paths))
    spelled = list(paths)
    heaviest = _heaviest(trace, host, owner, path_of, spelled)

    duration = events["duration"]
    gpu = duration[host.active]
    own = owner >= 0
    self_gpu, count, guessed = (np.zeros(len(host.index), np.int64) for _ in range(3))
    np.add.at(self_gpu, owner[own], gpu[own])
    np.add.at(count, owner[own], 1)
    np.add.at(guessed, owner[own], by_time[own])
    totals = [_totals(values, host.parent) for values in (self_gpu, count, guessed)]
    found = []
    for path, members in zip(spelled, _groups(path_of, len(spelled))):
        lengths = duration[host.index[members]]
        has_gpu = trace.has_gpu_activity
        found.append(
            Label(
                path=path,
                calls=len(members),
                cpu_ns=int(lengths.sum()),
                gpu_ns=int(totals[0][members].sum()) if has_gpu else None,
                self_gpu_ns=int(self_gpu[members].sum()) if has_gpu else None,
                kernels=int(totals[1][members].sum()),
                by_time=int(totals[2][members].sum()),
                first_ns=int(lengths[np.argmin(events["begin"][host.index[members]])]),
                median_ns=int(np.median(lengths)),
                kernel_names=heaviest[path],
            )
        )
    weight = {label.path: (-(label.gpu_ns or 0), -label.cpu_ns) for label in found}
    found.sort(
        key=lambda label: [
            (weight.get(label.path[: i + 1], (0, 0)), label.path[i]) for i in range(len(label.path))
        ]
    )  # fmt: skip
    return found


def instances(trace: Trace, name: str, outermost: bool = False) -> list[Instance]:
    """The passages through a label, in order.

    Args:
        trace: the trace.
        name: of the label; ``ProfilerStep`` for the profiler's steps. Inside itself it is part of the passage that it
            stands in.
        outermost: leaves out the passages that stand inside other labels.
    """
    events = trace.events
    prefix = "ProfilerStep#" if name == "ProfilerStep" else None
    numbers = [
        number for number, own in enumerate(trace.names) if own == name or (prefix and own.startswith(prefix))
    ]  # fmt: skip
    if not numbers:
        return []
    host = _host(trace, (LABEL,))
    owner, _ = _by_time(trace, host)
    named = np.isin(events["name"][host.index], numbers)
    chosen = named & (host.parent < 0) if outermost else named & ~_within_same(host.parent, named.astype(np.int64))
    # Kernels of labels inside it are its own.
    top = np.where(chosen, np.arange(len(host.index)), -1)
    for _ in range(int(_depth_of(host.parent).max(initial=0))):
        top = np.where((top < 0) & (host.parent >= 0), top[np.maximum(host.parent, 0)], top)
    belongs = np.where(owner >= 0, top[np.maximum(owner, 0)], -1)
    called = callers(trace, host.active)
    found = []
    launched = _groups(belongs, len(host.index))
    for index in np.flatnonzero(chosen)[np.argsort(events["begin"][host.index[chosen]], kind="stable")].tolist():
        mine = launched[index]
        own = events[host.active[mine]]
        calls = np.unique(called[mine])
        span = int((own["begin"] + own["duration"]).max() - own["begin"].min()) if len(own) else 0
        found.append(
            Instance(
                int(events["begin"][host.index[index]]),
                int(events["duration"][host.index[index]]),
                length(merge(own["begin"], own["begin"] + own["duration"])),
                span,
                len(own),
                int(events["duration"][calls[calls >= 0]].sum()),
            )
        )
    return found


def _host(trace: Trace, kinds: tuple[int, ...]) -> _Host:
    events = trace.events
    active = gpu_events(trace)
    called = callers(trace, active)
    owner = np.full(len(active), -1)
    index, parent, offset = [], [], 0
    # A label that a trace draws around kernels (gpu_user_annotation) is a copy of the one on the host.
    chosen = np.flatnonzero(np.isin(events["kind"], kinds))
    for track in np.unique(events["track"][chosen]):
        own = chosen[events["track"][chosen] == track]
        begin, end = events["begin"][own], events["begin"][own] + events["duration"][own]
        above = parents(begin, end)
        index.append(own)
        parent.append(np.where(above >= 0, above + offset, -1))
        mine = np.flatnonzero((called >= 0) & (events["track"][np.maximum(called, 0)] == track))
        at = innermost(begin, end, events["begin"][called[mine]])
        owner[mine] = np.where(at >= 0, at + offset, -1)
        offset += len(own)
    if not index:
        return _Host(np.zeros(0, np.int64), np.zeros(0, np.int64), owner, active)
    return _Host(np.concatenate(index), np.concatenate(parent), owner, active)


def _by_time(trace: Trace, host: _Host) -> tuple[np.ndarray, np.ndarray]:
    """Owners among labels; what another thread launched outside all labels goes to the one open on the main thread."""
    events = trace.events
    owner, by_time = host.owner.copy(), np.zeros(len(host.owner), bool)
    called = callers(trace, host.active)
    tracks, which = np.unique(events["track"][host.index], return_inverse=True)
    if not len(tracks):
        return owner, by_time
    # Autograd's threads may have labels too, such as NCCL's: the program's own are where most of their time is.
    outermost = np.where(host.parent < 0, events["duration"][host.index], 0)
    main = int(np.argmax(np.bincount(which, outermost)))
    free = np.flatnonzero((owner < 0) & (called >= 0))
    free = free[events["track"][called[free]] != tracks[main]]
    own = np.flatnonzero(which == main)
    begin = events["begin"][host.index[own]]
    at = innermost(begin, begin + events["duration"][host.index[own]], events["begin"][called[free]])
    owner[free] = np.where(at >= 0, own[np.maximum(at, 0)], -1)
    by_time[free] = at >= 0
    return owner, by_time


def _depth_of(parent: np.ndarray) -> np.ndarray:
    depth = np.zeros(len(parent), np.int64)
    above = parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[np.maximum(above, 0)], -1)
    return depth


def _totals(own: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Each one's value and those of all that stand inside it."""
    total, depth = own.copy(), _depth_of(parent)
    for level in range(int(depth.max(initial=0)), 0, -1):
        members = np.flatnonzero(depth == level)
        np.add.at(total, parent[members], total[members])
    return total


def _within_same(parent: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Whether one stands inside another of its group, at whatever distance."""
    within = np.zeros(len(parent), bool)
    above = parent
    while (above >= 0).any():
        within |= (above >= 0) & (group[np.maximum(above, 0)] == group)
        above = np.where(above >= 0, parent[np.maximum(above, 0)], -1)
    return within


def _heaviest(
    trace: Trace, host: _Host, owner: np.ndarray, path_of: np.ndarray, paths: list[_Path]
) -> dict[_Path, _Path]:
    """The three kernels that took most of each path's time, with those of the paths inside it."""
    own = owner >= 0
    launched = host.active[own]
    key = path_of[owner[own]] * len(trace.names) + trace.events["name"][launched]
    keys, place = np.unique(key, return_inverse=True)
    sums = np.bincount(place, trace.events["duration"][launched], len(keys))
    times: dict[_Path, Counter[int]] = {path: Counter() for path in paths}
    for pair, time in zip(keys.tolist(), sums.tolist()):
        path, name = divmod(pair, len(trace.names))
        times[paths[path]][name] += time
    for path in sorted(paths, key=len, reverse=True):
        if len(path) > 1:
            times[path[:-1]].update(times[path])
    return {
        path: tuple(trace.names[name] for name, time in counted.most_common(3) if time > 0)
        for path, counted in times.items()
    }


def _groups(keys: np.ndarray, count: int) -> list[np.ndarray]:
    """The indices of each of the keys 0 to ``count`` - 1, in order; other keys are left out."""
    order = np.argsort(keys, kind="stable")
    edges = np.searchsorted(keys[order], np.arange(count + 1))
    return [order[first:last] for first, last in pairwise(edges.tolist())]
