"""The rule about ranges that are slow at times."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

import numpy as np

from ..timeline import Table
from .facts import Facts
from .finding import Finding

# More than this part of the occurrences are no outliers.
_FEW = 0.05
# An outlier is beyond the upper quartile by so many times the middle half's width, and so many times the median.
_BEYOND, _TIMES = 3, 2
# Fewer occurrences have no outliers that could be told.
_LEAST = 40


def outliers(facts: Facts) -> Iterator[Finding]:
    """Ranges that take much longer than they mostly do: the one that loses most to it.

    Of ranges in loops the steady state is looked at. What waits in a producer waits for the consumer: that is not slow.
    """
    slices, ctas = facts.timeline.slices, facts.timeline.ctas
    if facts.cycles <= 0:
        return
    consumers = {number for edge in facts.edges for number in edge.dst}
    best: tuple[float, int, np.ndarray, np.ndarray, float] | None = None
    for number, (group, _, _) in enumerate(facts.names):
        if (number in facts.waits and number not in consumers) or not facts.supported({group}):
            continue
        positions = facts.steady_slices(number)
        if len(positions) < _LEAST:
            positions = facts.summary.numbering.positions(number)
            positions = positions[~slices.codes("cut").take(positions)]
        took = slices.codes("duration").take(positions)
        if len(took) < _LEAST:
            continue
        low, middle, high = np.percentile(took, [25, 50, 75])
        slow = took > max(high + _BEYOND * (high - low), _TIMES * middle)
        excess = float((took[slow] - middle).sum()) / facts.cycles
        if 0 < slow.mean() <= _FEW and excess >= facts.minimum and (best is None or excess > best[0]):
            best = excess, number, positions[slow], took[slow], middle
    if best is None:
        return
    win, number, positions, took, middle = best
    line = np.searchsorted(ctas.codes("cta"), slices.codes("cta").take(positions))
    slow_middle = float(np.median(took))
    part = len(positions) / int(facts.summary.ranges["count"][number])
    of_cta = np.bincount(line, took - middle, minlength=len(ctas))
    yield facts.finding(
        "slow-outliers",
        seen=f"{' / '.join(facts.names[number])} takes {middle:,.0f} cycles, but {slow_middle:,.0f} in {part:.1%} of "
        f"its occurrences, which is {win:.0%} of the CTAs' time",
        win=max(win, _of_the_launch(facts, of_cta)),
        groups={facts.group_of(number)},
        next="look at these occurrences: misses in L2 or the TLB, another kernel on the GPU, a clock that changed",
        figures={
            "lost": win,
            "median": middle,
            "slow_median": slow_middle,
            "slow_part": part,
            "longest": float(took.max()),
        },
        ranges=(facts.names[number],),
        ctas=facts.worst(of_cta),
        span_ns=_span(slices[positions]),
    )


def _of_the_launch(facts: Facts, of_cta: np.ndarray) -> float:
    """What the launch would win without so many cycles in each CTA, as a share of its span; 0 where that is not known.

    A kernel waits for its slowest CTA: outliers that meet in one cost more than their share of all CTAs' time.
    """
    ctas = facts.timeline.ctas
    begin, end, cycles = (ctas.codes(name) for name in ("begin_ns", "end_ns", "cycles"))
    if not facts.whole_launch or facts.timeline.meta.get("target") == "c" or not facts.summary.span_ns > 0:
        return 0.0
    order = np.argsort(begin, kind="stable")
    took = (end - begin)[order]
    without = took * (1 - of_cta / np.maximum(cycles, 1))[order]
    load = facts.summary.load
    slots = len(load) * int(load["resident"].max())
    before, after = (_span_on(slots, each) for each in (took, without))
    return 1 - after / before if before > 0 else 0.0


def _span_on(slots: int, took: np.ndarray) -> float:
    """The span of CTAs that begin in this order, each where one ends first."""
    free = [0.0] * slots
    for each in took.tolist():
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def _span(chosen: Table) -> tuple[float, float] | None:
    """From the first of some slices to the last one, on the GPU's axis, if that is known."""
    first, last = float(chosen["start_ns"].min()), float((chosen["start_ns"] + chosen["duration_ns"]).max())
    return (first, last) if math.isfinite(last - first) else None
