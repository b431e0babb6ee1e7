"""One nanosecond axis for the whole GPU.

An SM's ``clock64`` counts cycles at a rate that changes with load (0.35 to 1.98 GHz on an H200) from a start of its
own, tens of millions of cycles from its neighbour's; ``%globaltimer`` is the same on all SMs within one step of 32 ns.
Every row reads both at its begin and its end, and straight lines through these readings turn cycles into nanoseconds.

A step is 1.6% of a CTA of 2 µs, so readings are taken together as far as they agree. Three models are tried: one rate
for all SMs, a rate for each SM, a line for each CTA. The first that explains the readings up to the timer's rounding
is kept: the fewer rates, the more readings each is averaged from. SMs under one clock generator agree; SMs of different
rates do not, and a clock that changed during the launch fails the second model too. No frequency is ever assumed.

Of 132 SMs with one CTA of 2 µs each, the rate of all together is known to 0.05% (rms), each by itself to 0.7%.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# A model explains the readings if this part of them is this near, in steps of the timer. Rounding leaves them all
# within half a step; but a cache miss between reading clock and timer puts single ones far off.
_MOST, _NEAR = 0.9, 0.75
# Clock and timer are read one after the other, so a finer step than this (ns) says nothing.
_FINEST_NS = 32
# Nanoseconds are rounded to this, so that sums and differences of them are exact in float64 (for 52 days), and what
# lies within a CTA in cycles lies within it in nanoseconds, to the last bit.
_GRID_NS = 2.0**-10


@dataclass(frozen=True)
class Axis:
    """Where CTAs lie in nanoseconds, from the first one's begin.

    Attributes:
        begin_ns: (CTAs,) each CTA's begin; NaN where it did not finish.
        ns_per_cycle: (CTAs,) the measured length of a cycle on its SM; NaN where it did not finish.
        error_ns: how far the axis is from the timer, at most: the largest distance of a reading, and half a step of
            the timer for what the timer itself rounds away.
    """

    begin_ns: np.ndarray
    ns_per_cycle: np.ndarray
    error_ns: float

    def nanoseconds(self, cta: np.ndarray, cycles: np.ndarray) -> np.ndarray:
        """The axis's time of ``cycles`` since the begin of ``cta``; both (events,)."""
        return self.begin_ns.take(cta) + _rounded(cycles * self.ns_per_cycle.take(cta))


def fit_axis(sm: np.ndarray, clock: np.ndarray, timer: np.ndarray, zero: np.ndarray, finished: np.ndarray) -> Axis:
    """Fits the axis.

    Args:
        sm: (CTAs,) whose clock a CTA read.
        clock: (CTAs, readings) that clock, uint64; it may wrap.
        timer: (CTAs, readings) the timer at the same moments, uint64 nanoseconds.
        zero: (CTAs,) the clock at each CTA's begin, uint64.
        finished: (CTAs,) whether the CTA's readings are there.

    Returns:
        The axis. All NaN where the readings span no time: then nothing is known of the clock.
    """
    nan = np.full(len(finished), np.nan)
    at = np.flatnonzero(finished)
    if len(at) == 0:
        return Axis(nan, nan, float("nan"))
    sm = np.unique(sm[at], return_inverse=True)[1].reshape(-1)
    # Differences from a reading of the same counter are small enough for float64; the raw counters are not.
    origin = np.zeros(int(sm.max()) + 1, dtype=np.uint64)
    origin[sm] = clock[at, 0]
    x = (clock[at] - origin[sm][:, None]).view(np.int64)
    y = (timer[at] - timer[at[0], 0]).view(np.int64)
    y -= y.min()
    step = int(np.gcd.reduce(y, axis=None))

    together, each = np.zeros(len(at), dtype=np.int64), np.arange(len(at))
    rate = np.full(len(at), np.nan)
    for line_of, rate_of in ((sm, together), (sm, sm), (each, each)):
        rate, offset, residual = _fit_lines(x, y, line_of, rate_of, rate)
        if np.isnan(rate).any():
            return Axis(nan, nan, float("nan"))
        if np.quantile(np.abs(residual), _MOST) <= _NEAR * max(step, _FINEST_NS):
            break
    begin_ns, ns_per_cycle = nan.copy(), nan.copy()
    begin_ns[at] = offset + (zero[at] - origin[sm]).view(np.int64) * rate
    begin_ns[at] -= begin_ns[at].min()
    ns_per_cycle[at] = rate
    return Axis(_rounded(begin_ns), ns_per_cycle, float(np.abs(residual).max() + step / 2))


def _fit_lines(
    x: np.ndarray, y: np.ndarray, line_of: np.ndarray, rate_of: np.ndarray, otherwise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least squares of y = offset + rate * x.

    Args:
        x: (CTAs, readings) cycles.
        y: (CTAs, readings) nanoseconds.
        line_of: (CTAs,) CTAs of the same number have one offset.
        rate_of: (CTAs,) CTAs of the same number have one rate; each of these holds whole lines.
        otherwise: (CTAs,) the rate where the readings span no time.

    Returns:
        Rate and offset of each CTA, (CTAs,) both, and the readings' distances from their lines, (CTAs, readings).
    """
    readings = np.bincount(line_of) * x.shape[1]
    mean_x = (np.bincount(line_of, x.sum(axis=1)) / readings)[line_of]
    mean_y = (np.bincount(line_of, y.sum(axis=1)) / readings)[line_of]
    dx, dy = x - mean_x[:, None], y - mean_y[:, None]
    spread = np.bincount(rate_of, (dx * dx).sum(axis=1))[rate_of]
    together = np.bincount(rate_of, (dx * dy).sum(axis=1))[rate_of]
    rate = np.where((spread > 0) & (together > 0), together / np.where(spread > 0, spread, 1), otherwise)
    return rate, mean_y - rate * mean_x, dy - rate[:, None] * dx


def _rounded(nanoseconds: np.ndarray) -> np.ndarray:
    return np.rint(nanoseconds / _GRID_NS) * _GRID_NS
