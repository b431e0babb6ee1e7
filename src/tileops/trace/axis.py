"""One nanosecond axis for the whole GPU.

An SM's ``clock64`` counts cycles at a rate of its own (0.35 to 1.98 GHz on an H200) from a start of its own, tens of
millions of cycles from its neighbour's; ``%globaltimer`` is the same on all SMs within one step of 32 ns. Every row
reads both at its begin and its end, and lines through these readings turn cycles into nanoseconds. No frequency is ever
assumed.

A step is 1.6% of a CTA of 2 µs, so readings are taken together as far as they agree. Three models are tried: one rate
for all SMs, a rate for each SM, and for each SM a rate that changes from reading to reading. The first that explains
the readings up to the timer's rounding is kept: the fewer rates, the more readings each is averaged from. Of 132 SMs
with one CTA of 2 µs each, the rate of all together is known to 0.05% (rms), each by itself to 0.7%.

The third is what a busy GPU needs. A GEMM of 190 µs took the SMs of an H200 from 1.42 to 1.69 GHz, faster where the
tensor cores rested; straight lines were off by 1.7 µs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# A model explains the readings if this part of them is this near, in steps of the timer. Rounding leaves them all
# within half a step; but a cache miss between reading clock and timer puts single ones far off.
_MOST, _NEAR = 0.9, 0.75
# Clock and timer are read one after the other, so a finer step than this (ns) says nothing.
_FINEST_NS = 32
# Where the rate changes, readings within so many steps are averaged, since rounding makes a rate between near ones of
# little worth. With 64 steps the axis of the GEMM above was off by 180 ns, with 16 by 49 ns, with 8 by 47 ns.
_APART = 16
# Nanoseconds are rounded to this, so that sums and differences of them are exact in float64 (for 52 days), and what
# lies within a CTA in cycles lies within it in nanoseconds, to the last bit.
_GRID_NS = 2.0**-10


@dataclass(frozen=True)
class Axis:
    """Where cycles lie in nanoseconds, from the first CTA's begin.

    Attributes:
        zero: (CTAs,) where each CTA begins on the polyline, in cycles; NaN where it did not finish.
        knots: (n,) the polyline's knots, in cycles, ascending. The SMs' clocks are laid one behind the other.
        knots_ns: (n,) their nanoseconds.
        error_ns: how far the axis is from the timer where both were read, at most: the largest distance of a reading,
            and half a step for what the timer itself rounds away. NaN where nothing is known.
        ctas: (CTAs,) the numbers of the CTAs, ascending; ``None`` where they are 0, 1, ...
    """

    zero: np.ndarray
    knots: np.ndarray
    knots_ns: np.ndarray
    error_ns: float
    ctas: np.ndarray | None = None

    def nanoseconds(self, cta: np.ndarray, cycles: np.ndarray) -> np.ndarray:
        """The axis's time of ``cycles`` since the begin of ``cta``, by its number; both (events,)."""
        line = cta if self.ctas is None else np.searchsorted(self.ctas, cta)
        return np.rint(self._at(self.zero.take(line) + cycles) / _GRID_NS) * _GRID_NS

    def ghz(self, cycles: np.ndarray) -> np.ndarray:
        """(CTAs,) the measured rate of each CTA's clock, over its first ``cycles``."""
        cycles = np.maximum(cycles, 1)
        took = self._at(self.zero + cycles) - self._at(self.zero)
        return cycles / np.where(took > 0, took, np.nan)

    def _at(self, cycles: np.ndarray) -> np.ndarray:
        return np.interp(cycles, self.knots, self.knots_ns)


def fit_axis(sm: np.ndarray, clock: np.ndarray, timer: np.ndarray, zero: np.ndarray, finished: np.ndarray) -> Axis:
    """Fits the axis.

    Args:
        sm: (CTAs,) whose clock a CTA read.
        clock: (CTAs, readings) that clock, uint64; it may wrap.
        timer: (CTAs, readings) the timer at the same moments, uint64 nanoseconds.
        zero: (CTAs,) the clock at each CTA's begin, uint64: the first of its readings.
        finished: (CTAs,) whether the CTA's readings are there.

    Returns:
        The axis; all of its times are NaN where the readings span no time.
    """
    nothing = Axis(np.full(len(finished), np.nan), np.zeros(1), np.full(1, np.nan), float("nan"))
    at = np.flatnonzero(finished)
    if len(at) == 0:
        return nothing
    sm = np.unique(sm[at], return_inverse=True)[1].reshape(-1)
    sms = int(sm.max()) + 1
    # Differences from a reading of the same counter are small enough for float64; the raw counters are not.
    origin = np.zeros(sms, dtype=np.uint64)
    origin[sm] = clock[at, 0]
    cycles = (clock[at] - origin[sm][:, None]).view(np.int64).astype(np.float64)
    ns = (timer[at] - timer[at[0], 0]).view(np.int64)
    step = max(int(np.gcd.reduce(ns, axis=None)), 1)
    first, last = np.full(sms, np.inf), np.full(sms, -np.inf)
    np.minimum.at(first, sm, cycles.min(axis=1))
    np.maximum.at(last, sm, cycles.max(axis=1) + 1)
    moved = np.cumsum(last - first + 1) - last  # to behind the SM before
    readings = _Readings(
        sm=np.repeat(sm, cycles.shape[1]),
        cycles=(cycles + moved[sm][:, None]).reshape(-1),
        ns=ns.reshape(-1).astype(np.float64),
        first=first + moved,
        last=last + moved,
    )

    one_rate = readings.rates(np.zeros(sms, dtype=np.int64), otherwise=np.full(sms, np.nan))
    if np.isnan(one_rate).any():
        return nothing
    own_rates = readings.rates(np.arange(sms), otherwise=one_rate)
    resolution = max(step, _FINEST_NS)
    for model in ("one rate", "own rates", "changing rates"):
        if model == "changing rates":
            knots, knots_ns = readings.polylines(_APART * resolution / one_rate[0], own_rates)
        else:
            knots, knots_ns = readings.lines(one_rate if model == "one rate" else own_rates)
        off = np.abs(readings.ns - np.interp(readings.cycles, knots, knots_ns))
        if np.quantile(off, _MOST) <= _NEAR * resolution:
            break
    on_polyline = np.full(len(finished), np.nan)
    on_polyline[at] = (zero[at] - origin[sm]).view(np.int64) + moved[sm]
    begin_ns = np.interp(on_polyline[at], knots, knots_ns).min()
    return Axis(on_polyline, knots, knots_ns - begin_ns, float(off.max()) + step / 2)


@dataclass
class _Readings:
    """Readings of clock and timer, and the models of them.

    Attributes:
        sm, cycles, ns: (readings,) which clock was read, where on the polyline, and the timer.
        first, last: (SMs,) the part of the polyline that is the SM's.
    """

    sm: np.ndarray
    cycles: np.ndarray
    ns: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def rates(self, clock: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """(SMs,) nanoseconds a cycle, by least squares with an offset for each SM.

        Args:
            clock: (SMs,) SMs of the same number have one rate.
            otherwise: (SMs,) the rate of SMs whose readings span no time.
        """
        off, off_ns = self.cycles - self._mean(self.cycles)[self.sm], self.ns - self._mean(self.ns)[self.sm]
        spread = np.bincount(clock[self.sm], off * off)[clock]
        together = np.bincount(clock[self.sm], off * off_ns)[clock]
        return np.where((spread > 0) & (together > 0), together / np.where(spread > 0, spread, 1), otherwise)

    def lines(self, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Knots of a straight line for each SM, through the mean of its readings."""
        knots = np.stack([self.first, self.last], axis=1)
        knots_ns = self._mean(self.ns)[:, None] + rate[:, None] * (knots - self._mean(self.cycles)[:, None])
        return knots.reshape(-1), knots_ns.reshape(-1)

    def polylines(self, apart: float, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Knots of a polyline for each SM, through means of its readings that are about ``apart`` cycles apart.

        An SM whose readings all lie within that gets a straight line of its ``rate``.
        """
        order = np.argsort(self.cycles, kind="stable")
        sm, x, y, weight = self.sm[order], self.cycles[order], self.ns[order], np.ones(len(order))
        # First readings between the same multiples of `apart` are averaged, then means that are near all the same.
        for near in (False, True):
            parted = np.diff(x) > apart / 2 if near else np.diff(x // apart) > 0
            starts = np.flatnonzero(np.append(True, parted | (np.diff(sm) > 0)))
            total = np.add.reduceat(weight, starts)
            x, y = np.add.reduceat(x * weight, starts) / total, np.add.reduceat(y * weight, starts) / total
            sm, weight = sm[starts], total
        # The first and the last part go on to where the SM's readings begin and end.
        sms = np.arange(len(rate))
        head, tail = np.searchsorted(sm, sms), np.searchsorted(sm, sms, side="right") - 1
        several = head < tail
        knots, knots_ns = [x], [y]
        for end, knot, other in ((self.first, head, head + several), (self.last, tail, tail - several)):
            slope = np.where(several, (y[other] - y[knot]) / np.where(several, x[other] - x[knot], 1), rate)
            knots.append(end)
            knots_ns.append(y[knot] + slope * (end - x[knot]))
        x, y, sm = np.concatenate(knots), np.concatenate(knots_ns), np.concatenate([sm, sms, sms])
        order = np.argsort(x, kind="stable")
        x, y, above = x[order], y[order], sm[order] * (np.ptp(y) + 1)
        return x, np.maximum.accumulate(y + above) - above  # never back, whatever readings say

    def _mean(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.sm, values) / np.bincount(self.sm)
