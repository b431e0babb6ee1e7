"""Calls before the measured region: until compilation is over and times have settled."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ProfileError
from .device import Device

# Times have settled when the median of the last five differs by less from that of the five before.
TOLERANCE = 0.05
_WINDOW = 5
MOST = 200
# Work that takes long has fewer warm-ups, but never fewer than were asked for.
SECONDS = 10.0


@dataclass(frozen=True)
class Warmup:
    """What it took.

    Attributes:
        first_ns: the first call, until the device was done: compilation, module loads and allocations are in it.
        count: of calls, with the first.
        settled: whether times had settled.
        typical_ns: the median of the last five calls, each until the device was done.
    """

    first_ns: float
    count: int
    settled: bool
    typical_ns: float


def warm_up(work: Callable[[], object], device: Device, least: int) -> Warmup:
    """Calls until times settle, at least so many times.

    Raises:
        ProfileError: if a call only returns what would do the work.
    """
    taken: list[float] = []
    started = time.monotonic()
    settled = False
    while len(taken) < least or not settled:
        if len(taken) >= least and (len(taken) >= MOST or time.monotonic() - started > SECONDS):
            break
        device.wait()
        began = time.perf_counter_ns()
        returned = work()
        device.wait()
        if not taken:
            _refuse_the_lazy(returned)
        taken.append(float(time.perf_counter_ns() - began))
        settled = has_settled(taken[1:])
    return Warmup(taken[0], len(taken), settled, statistics.median(taken[-_WINDOW:]))


def has_settled(taken: list[float]) -> bool:
    """Whether the last times are like those before them."""
    if len(taken) < 2 * _WINDOW:
        return False
    before, last = statistics.median(taken[-2 * _WINDOW : -_WINDOW]), statistics.median(taken[-_WINDOW:])
    return abs(last - before) <= TOLERANCE * before


def _refuse_the_lazy(returned: object) -> None:
    """Coroutines and generators: to make one takes a microsecond, and that is not the work's time."""
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()  # or Python warns that nobody awaited it
        raise ProfileError("it returns an awaitable and leaves the work to be done: run it, with asyncio.run(...)")
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise ProfileError("it returns a generator and leaves the work to be done: run it, with list(...) for one")
