"""One nanosecond axis for the whole GPU.

An SM's ``clock64`` counts cycles at a rate that changes with load (0.35 to 1.98 GHz on an H200) from a start of its
own, tens of millions of cycles from its neighbour's; ``%globaltimer`` is the same on all SMs within one step of 32 ns.
Every CTA reads both at its begin and end. For each SM a straight line is fitted through all of its CTAs' readings: the
line gives the SM's measured clock, and averages the timer's steps away. How far readings lie from the lines, at most,
is the axis's error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Axis:
    """Where CTAs lie in nanoseconds, from the first one's begin.

    Attributes:
        begin_ns: (CTAs,) each CTA's begin; NaN where it did not finish.
        ns_per_cycle: (CTAs,) the measured length of a cycle on its SM; NaN where it did not finish.
        error_ns: how far a reading of the timer is from the fitted axis, at most.
    """

    begin_ns: np.ndarray
    ns_per_cycle: np.ndarray
    error_ns: float

    def nanoseconds(self, cta: np.ndarray, cycles: np.ndarray) -> np.ndarray:
        """The axis's time of ``cycles`` since the begin of ``cta``; both (events,)."""
        return self.begin_ns[cta] + cycles * self.ns_per_cycle[cta]


def fit_axis(
    clock_domain: np.ndarray,
    begin: np.ndarray,
    begin_ns: np.ndarray,
    end: np.ndarray,
    end_ns: np.ndarray,
    finished: np.ndarray,
) -> Axis:
    """Fits the axis.

    Args:
        clock_domain: (CTAs,) which clock a CTA read: its SM.
        begin, end: (CTAs,) that clock at the CTA's begin and end, uint64.
        begin_ns, end_ns: (CTAs,) the timer at the same moments, uint64.
        finished: (CTAs,) whether the CTA's readings are there.

    Returns:
        The axis. A domain whose readings span no time has no measurable clock: its CTAs get the others' mean.
    """
    ctas = len(finished)
    nothing = Axis(np.full(ctas, np.nan), np.full(ctas, np.nan), float("nan"))
    at = np.flatnonzero(finished)
    if len(at) == 0:
        return nothing
    _, domain = np.unique(np.broadcast_to(clock_domain, (ctas,))[at], return_inverse=True)
    domains = int(domain.max()) + 1
    # Differences from each domain's first reading are small enough for float64; the raw counters are not.
    first = np.zeros(domains, dtype=np.uint64)
    first[domain[::-1]] = begin[at][::-1]
    zero_ns = begin_ns[at].min()
    x = np.concatenate([(begin[at] - first[domain]).view(np.int64), (end[at] - first[domain]).view(np.int64)])
    y = np.concatenate([(begin_ns[at] - zero_ns).view(np.int64), (end_ns[at] - zero_ns).view(np.int64)])
    both = np.concatenate([domain, domain])
    points = np.bincount(both, minlength=domains)
    mean_x = np.bincount(both, x, domains) / points
    mean_y = np.bincount(both, y, domains) / points
    dx, dy = x - mean_x[both], y - mean_y[both]
    spread = np.bincount(both, dx * dx, domains)
    together = np.bincount(both, dx * dy, domains)
    slope = np.full(domains, np.nan)
    np.divide(together, spread, out=slope, where=(spread > 0) & (together > 0))
    if np.isnan(slope).all():
        return nothing
    slope = np.where(np.isnan(slope), np.nanmean(slope), slope)
    error = float(np.abs(dy - slope[both] * dx).max())
    begin_fitted = np.full(ctas, np.nan)
    begin_fitted[at] = mean_y[domain] + slope[domain] * (x[: len(at)] - mean_x[domain])
    begin_fitted -= np.nanmin(begin_fitted)
    per_cycle = np.full(ctas, np.nan)
    per_cycle[at] = slope[domain]
    return Axis(begin_fitted, per_cycle, error)
