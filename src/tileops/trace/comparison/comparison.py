"""Two kernels, or one kernel before and after a change: what of the difference is more than noise."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import TraceError
from ..findings import Finding
from ..statistics import Summary
from ..timeline import Timeline
from .verdict import FASTER, NOISE, SLOWER, UNKNOWN, Verdict, judge

MINIMUM = 0.01
# Of what as_dict gives: raised where a key that is there means something else, or goes.
VERSION = 1


@dataclass(frozen=True)
class RangeChange:
    """What changed of a range.

    Attributes:
        group, lane, name: which one.
        count_before, count_after: whole occurrences a launch, over all CTAs; medians over the launches of a side.
        verdict: on its cycles a CTA: the total of its whole occurrences.
    """

    group: str
    lane: str
    name: str
    count_before: float
    count_after: float
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Attributes:
        before, after: the launches, as given.
        minimum: changes below it count as noise.
        span: the verdict on nanoseconds from the first CTA's begin to the last one's end; its CTAs are those CTAs'
            cycles.
        ranges: a line each, those first that changed the kernel most: by the change of their cycles a CTA.
        gone, new: findings that more than half of one side's launches have, and not so the other's.
        clock_before, clock_after: the SMs' clock in GHz, medians; NaN where it is not known.
        caution: what makes the comparison less than it seems: other grids, devices, buffers, dropped events.
    """

    before: tuple[Timeline, ...]
    after: tuple[Timeline, ...]
    minimum: float
    span: Verdict
    ranges: tuple[RangeChange, ...]
    gone: tuple[Finding, ...]
    new: tuple[Finding, ...]
    clock_before: float
    clock_after: float
    caution: tuple[str, ...]

    def regression(self) -> float:
        """How much slower the kernel became, as a share: 0 where that is noise or unknown, or it became faster."""
        return self.span.change if self.span.verdict == SLOWER else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The comparison as what JSON has; its schema is described in ``docs/comparing.md``."""
        return {
            "format": "tileops.trace.comparison",
            "version": VERSION,
            "launches": {"before": len(self.before), "after": len(self.after)},
            "minimum": self.minimum,
            "span_ns": _plain(self.span),
            "clock_ghz": {"before": _number(self.clock_before), "after": _number(self.clock_after)},
            "ranges": [
                {
                    "group": change.group, "lane": change.lane, "name": change.name,
                    "count_before": change.count_before, "count_after": change.count_after,
                    "cycles": _plain(change.verdict),
                }
                for change in self.ranges
            ],
            "findings": {
                "gone": [finding.as_dict() for finding in self.gone],
                "new": [finding.as_dict() for finding in self.new],
            },
            "caution": list(self.caution),
        }  # fmt: skip

    def __str__(self) -> str:
        from .text import text

        return text(self)

    __repr__ = __str__


def compare(
    before: Timeline | Sequence[Timeline], after: Timeline | Sequence[Timeline], minimum: float = MINIMUM
) -> Comparison:
    """Compares two kernels, or one kernel before and after a change.

    Give several launches a side, as separate recordings: only they tell how far launches of the same kernel scatter.
    Four a side make a change strong evidence (chance puts all of one side's before all of the other's once in 35).

    Args:
        before: the Timeline, or Timelines of repeated launches.
        after: likewise.
        minimum: a change smaller than this share counts as noise.

    Returns:
        The kernel's span and each range's cycles a CTA, with a verdict each, and the findings that came and went.

    Raises:
        TraceError: if a side holds no launch, or ``minimum`` is no share.
    """
    sides = (_side(before, "before"), _side(after, "after"))
    if isinstance(minimum, bool) or not isinstance(minimum, (int, float)) or not 0 <= minimum < 1:
        raise TraceError(f"compare: minimum must be a share, from 0 to less than 1, got {minimum!r}")
    summaries = tuple([timeline.summary() for timeline in side] for side in sides)
    paired = len({_ctas(timeline) for side in sides for timeline in side}) == 1
    gone, new = _findings(sides)
    return Comparison(
        before=sides[0], after=sides[1], minimum=float(minimum), span=_span(sides, summaries, paired, minimum),
        ranges=_ranges(sides, summaries, paired, minimum), gone=gone, new=new, clock_before=_clock(sides[0]),
        clock_after=_clock(sides[1]), caution=tuple(_caution(sides, paired)),
    )  # fmt: skip


def _side(given: Any, name: str) -> tuple[Timeline, ...]:
    side = (given,) if isinstance(given, Timeline) else tuple(given)
    if not side or not all(isinstance(one, Timeline) for one in side):
        raise TraceError(f"compare: {name} must be a Timeline or several, got {given!r}")
    return side


def _ctas(timeline: Timeline) -> tuple[Any, ...]:
    """The grid, and which of its CTAs were recorded."""
    return (*timeline.grid, timeline.ctas["cta"].tobytes())


def _span(
    sides: tuple[tuple[Timeline, ...], ...], summaries: tuple[list[Summary], ...], paired: bool, minimum: float
) -> Verdict:
    """The verdict on the kernel's span: its launches by their spans, its CTAs by their cycles."""
    of_ctas = [
        [np.where(timeline.ctas["finished"], timeline.ctas["cycles"].astype(float), np.nan) for timeline in side]
        for side in sides
    ]
    spans = [[np.array([summary.span_ns]) for summary in side] for side in summaries]
    by_launch = judge(spans[0], spans[1], False, minimum)
    by_cta = judge(of_ctas[0], of_ctas[1], paired, minimum)
    found = dataclasses.replace(by_launch, low=by_cta.low, high=by_cta.high, agree=by_cta.agree)
    if min(map(len, sides)) >= 2 or abs(found.change) < minimum or found.verdict == UNKNOWN:
        return found
    # One launch's span is one number. Of equal grids, the CTAs say whether it changed; of others nothing does.
    slower_or_faster = SLOWER if found.change > 0 else FASTER
    if paired:
        verdict = slower_or_faster if by_cta.verdict == slower_or_faster else NOISE
        return dataclasses.replace(found, verdict=verdict, reason=by_cta.reason)
    reason = "with one launch on a side, how launches scatter is not known"
    return dataclasses.replace(found, verdict=slower_or_faster, reason=reason)


def _ranges(
    sides: tuple[tuple[Timeline, ...], ...], summaries: tuple[list[Summary], ...], paired: bool, minimum: float
) -> tuple[RangeChange, ...]:
    totals = tuple([_totals(timeline, summary) for timeline, summary in zip(*side)] for side in zip(sides, summaries))
    keys = list(dict.fromkeys(key for side in totals for launch in side for key in launch))
    changes = []
    for key in keys:
        values = [
            [launch[key][0] if key in launch else np.full(len(timeline.ctas), np.nan)
             for launch, timeline in zip(side, launches)]
            for side, launches in zip(totals, sides)
        ]  # fmt: skip
        before, after = (
            float(np.median([launch[key][1] if key in launch else 0 for launch in side])) for side in totals
        )
        changes.append(RangeChange(*key, before, after, judge(values[0], values[1], paired, minimum)))

    def weight(change: RangeChange) -> float:
        """Cycles a CTA that it took more or less; first what is only there on one side."""
        found = change.verdict
        return -abs(found.after - found.before) if math.isfinite(found.change) else -math.inf

    return tuple(sorted(changes, key=weight))


def _totals(timeline: Timeline, summary: Summary) -> dict[tuple[str, str, str], tuple[np.ndarray, int]]:
    """For each range its whole cycles in each CTA, NaN where it has none that are whole, and its count."""
    table = summary.ctas
    line = np.searchsorted(timeline.ctas["cta"], table["cta"])
    found: dict[tuple[str, str, str], tuple[np.ndarray, int]] = {}
    keys = list(zip(*(table[key].tolist() for key in ("group", "lane", "name"))))
    total = np.where(table["count"] > 0, table["total"].astype(float), np.nan)
    starts = [at for at in range(len(keys)) if at == 0 or keys[at] != keys[at - 1]]
    for begin, end in zip(starts, [*starts[1:], len(keys)]):
        values = np.full(len(timeline.ctas), np.nan)
        values[line[begin:end]] = total[begin:end]
        found[keys[begin]] = values, int(table["count"][begin:end].sum())
    return found


def _findings(sides: tuple[tuple[Timeline, ...], ...]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Those of the first side alone and those of the second, each as the first launch that has it tells it."""
    made = []
    for side in sides:
        told: dict[Any, Finding] = {}
        count: Counter[Any] = Counter()
        for timeline in side:
            here = {_identity(finding): finding for finding in timeline.findings()}
            count.update(list(here))
            told = {**here, **told}
        made.append({key: finding for key, finding in told.items() if 2 * count[key] > len(side)})
    before, after = made
    return (
        tuple(finding for key, finding in before.items() if key not in after),
        tuple(finding for key, finding in after.items() if key not in before),
    )


def _identity(finding: Finding) -> Any:
    return finding.rule, tuple(sorted(finding.ranges))


def _clock(side: tuple[Timeline, ...]) -> float:
    known = np.concatenate([timeline.ctas["ghz"] for timeline in side])
    known = known[np.isfinite(known)]
    return float(np.median(known)) if len(known) else math.nan


def _caution(sides: tuple[tuple[Timeline, ...], ...], paired: bool) -> list[str]:
    """What makes a comparison less than it seems."""
    found = []
    for what, of in (("kernel", "kernels"), ("device", "devices"), ("target", "targets")):
        values = sorted({str(timeline.meta.get(what, "unknown")) for side in sides for timeline in side})
        if len(values) > 1:
            found.append(f"other {of}: {', '.join(values)}")
    if not paired:
        found.append("other grids, or other CTAs recorded: CTAs are compared as two crowds, not one by one")
    dropped = [sum(timeline.dropped for timeline in side) for side in sides]
    if any(dropped):
        found.append(f"events were dropped ({dropped[0]:,} before, {dropped[1]:,} after): totals are what is left")
    clocks = [_clock(side) for side in sides]
    if abs(clocks[1] / clocks[0] - 1) > 0.02:
        found.append(
            f"the SMs ran at {clocks[0]:.3f} GHz before and {clocks[1]:.3f} GHz after: that is in the span, and not in "
            "ranges, which are in cycles"
        )
    return found


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {name: _number(value) for name, value in dataclasses.asdict(verdict).items()}


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
