"""Which call on the host started what on the GPU."""

from __future__ import annotations

import re

import numpy as np

from ..columns import ON_GPU, RUNTIME, UNKNOWN, Trace

# cudaLaunchKernel, cuLaunchKernel, their Ex and ExC forms and cooperative kin, graphs, and HIP's.
_LAUNCH = re.compile(r"^(?:cuda|cu|hip|hipExt)(?:Module)?(?:LaunchKernel|LaunchCooperativeKernel|GraphLaunch)")
_SYNC = re.compile(r"^(?:cuda|cu|hip)(?:Device|Stream|Event|Ctx|Context)Synchronize")
# These return when the copy has been made, unlike their Async forms.
_BLOCKING_COPY = re.compile(
    r"^(?:cuda|hip)Memcpy(?:2D|3D|ToSymbol|FromSymbol)?(?:_ptds)?$|^cuMemcpy[DH]to[DH](?:_v2)?$"
)


def launch_calls(trace: Trace) -> np.ndarray:
    """Indices of the events that launch kernels or graphs."""
    return _named(trace, _LAUNCH)


def sync_calls(trace: Trace) -> np.ndarray:
    """Indices of the events in which the host waits for a GPU."""
    return np.sort(np.concatenate([_named(trace, _SYNC), _named(trace, _BLOCKING_COPY)]))


def gpu_events(trace: Trace) -> np.ndarray:
    """Indices of the kernels, copies and memsets."""
    return np.flatnonzero(np.isin(trace.events["kind"], ON_GPU))


def callers(trace: Trace, started: np.ndarray) -> np.ndarray:
    """The call that started each of these events.

    Args:
        trace: the trace.
        started: indices of N events on GPUs.

    Returns:
        N indices of runtime or driver calls; -1 where the trace has none of that correlation id.
    """
    events = trace.events
    calls = np.flatnonzero((events["kind"] == RUNTIME) & (events["correlation"] != UNKNOWN))
    # A call of the runtime and the driver's under it share an id: the outer one began first.
    ids, first = np.unique(events["correlation"][calls], return_index=True)
    wanted = events["correlation"][started]
    if not len(ids):
        return np.full(len(started), -1)
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    known = (ids[place] == wanted) & (wanted != UNKNOWN)
    return np.where(known, calls[first[place]], -1)


def _named(trace: Trace, pattern: re.Pattern[str]) -> np.ndarray:
    matching = [index for index, name in enumerate(trace.names) if pattern.match(name)]
    return np.flatnonzero((trace.events["kind"] == RUNTIME) & np.isin(trace.events["name"], matching))
