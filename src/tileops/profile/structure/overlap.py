"""How host and GPUs shared the time, and what ran on which stream."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..columns import KERNEL, LABEL, MEMCPY, MEMSET, ON_GPU, OP, RUNTIME, Trace
from .intervals import length, merge, overlap
from .links import gpu_events, sync_calls

_COMMUNICATION = re.compile(r"^(?:nccl|rccl|ncclDev|mscclpp|all_?reduce_|nvshmem)", re.IGNORECASE)


@dataclass(frozen=True)
class Sharing:
    """The time between the first and the last event, on one GPU.

    Attributes:
        device: its number.
        name: what the trace calls it.
        wall_ns: from the first operator, call, label or event of a GPU to the last one's end.
        gpu_ns: something ran on the GPU.
        cpu_ns: an operator or a call ran on the host, without the calls that wait for the GPU.
        both_ns: of these two, the time in common.
        neither_ns: nothing ran on either.
        kernel_ns, copy_ns: kernels ran, copies or memsets ran.
        copy_hidden_ns: of ``copy_ns``, while kernels ran.
        communication_ns, communication_hidden_ns: kernels of NCCL or RCCL, and that while others ran.
    """

    device: int
    name: str
    wall_ns: int
    gpu_ns: int
    cpu_ns: int
    both_ns: int
    neither_ns: int
    kernel_ns: int
    copy_ns: int
    copy_hidden_ns: int
    communication_ns: int
    communication_hidden_ns: int


@dataclass(frozen=True)
class Stream:
    """A stream of a GPU.

    Attributes:
        device, stream: their numbers.
        kernels, copies: counts.
        busy_ns: it had something running.
        alone_ns: of that, while no other stream of the GPU had.
    """

    device: int
    stream: int
    kernels: int
    copies: int
    busy_ns: int
    alone_ns: int


def _union(events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return merge(events["begin"], events["begin"] + events["duration"])


def sharing(trace: Trace) -> list[Sharing]:
    """How each GPU and the host shared the time."""
    events = trace.events
    on_host = np.isin(events["kind"], (OP, RUNTIME))
    active = gpu_events(trace)
    if not len(active):
        return []
    host = _subtract(_union(events[on_host]), _union(events[sync_calls(trace)]))
    # Labels too: a step in which next to nothing was recorded is as long as it is.
    all_of_it = np.isin(events["kind"], (OP, RUNTIME, LABEL, *ON_GPU))
    begin = events["begin"][all_of_it]
    wall = int((begin + events["duration"][all_of_it]).max() - begin.min())
    communicating = np.isin(
        events["name"], [index for index, name in enumerate(trace.names) if _COMMUNICATION.match(name)]
    )
    found = []
    for device in np.unique(events["device"][active]):
        own = active[events["device"][active] == device]
        kernels, talk = own[events["kind"][own] == KERNEL], own[communicating[own]]
        copies = own[np.isin(events["kind"][own], (MEMCPY, MEMSET))]
        gpu, copy = _union(events[own]), _union(events[copies])
        others = _union(events[np.setdiff1d(kernels, talk)])
        both = overlap(gpu, host)
        found.append(
            Sharing(
                device=int(device),
                name=trace.device_name(int(device)),
                wall_ns=wall,
                gpu_ns=length(gpu),
                cpu_ns=length(host),
                both_ns=both,
                neither_ns=wall - length(gpu) - length(host) + both,
                kernel_ns=length(_union(events[kernels])),
                copy_ns=length(copy),
                copy_hidden_ns=overlap(copy, _union(events[kernels])),
                communication_ns=length(_union(events[talk])),
                communication_hidden_ns=overlap(_union(events[talk]), others),
            )
        )
    return found


def streams(trace: Trace) -> list[Stream]:
    """The streams in use, of each GPU the busiest first."""
    events, active, found = trace.events, gpu_events(trace), []
    for device in np.unique(events["device"][active]):
        own = active[events["device"][active] == device]
        for stream in np.unique(events["stream"][own]):
            mine = own[events["stream"][own] == stream]
            busy, rest = _union(events[mine]), _union(events[np.setdiff1d(own, mine)])
            kernels = int(np.count_nonzero(events["kind"][mine] == KERNEL))
            alone = length(busy) - overlap(busy, rest)
            found.append(Stream(int(device), int(stream), kernels, len(mine) - kernels, length(busy), alone))
    return sorted(found, key=lambda stream: (stream.device, -stream.busy_ns))


def _subtract(
    one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The moments of the one union that are not of the other."""
    if not len(one[0]) or not len(other[0]):
        return one
    # Between two neighbouring edges of either, a moment stands for all of them.
    edges = np.unique(np.concatenate([*one, *other]))
    begin, end = edges[:-1], edges[1:]
    keep = _holds(one, begin) & ~_holds(other, begin)
    return merge(begin[keep], end[keep])


def _holds(union: tuple[np.ndarray, np.ndarray], moment: np.ndarray) -> np.ndarray:
    index = np.searchsorted(union[0], moment, side="right") - 1
    return (index >= 0) & (union[1][np.maximum(index, 0)] > moment)
