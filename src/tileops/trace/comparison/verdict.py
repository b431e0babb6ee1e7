"""Whether two sets of measurements differ, or only scatter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# Of the CTAs, so many must have changed alike before one launch a side says anything.
_AGREE = 0.9
# A verdict that chance gives more often than this is a weak one.
_CHANCE = 0.05

FASTER, SLOWER, NOISE, UNKNOWN = "faster", "slower", "noise", "unknown"


@dataclass(frozen=True)
class Verdict:
    """What two sets of measurements say of each other.

    Attributes:
        before, after: medians over the launches of a side.
        change: ``after`` over ``before``, less 1: 0.03 is 3% more time.
        low, high: the middle 80% of the CTAs' own changes; of CTAs that cannot be told apart, NaN.
        agree: the share of CTAs that changed in the direction of ``change``.
        verdict: ``"slower"``, ``"faster"``, ``"noise"`` or ``"unknown"``.
        evidence: ``"strong"``, ``"weak"`` or ``"provisional"``.
        reason: why that verdict, and why its evidence is no stronger.
    """

    before: float
    after: float
    change: float
    low: float
    high: float
    agree: float
    verdict: str
    evidence: str
    reason: str


def judge(before: list[np.ndarray], after: list[np.ndarray], paired: bool, minimum: float) -> Verdict:
    """Compares what the CTAs of some launches took with what those of others took.

    A launch counts by the mean of its CTAs. Several launches a side differ if all of one side lie on one side of all
    of the other: with n and m launches of the same kernel that happens by chance in 2·n!·m!/(n+m)! of all cases (each
    order of n+m values is as likely as any other). Of one launch a side only its CTAs can say something: they must
    have changed alike.

    Args:
        before: for each launch, (CTAs,) how long each CTA took, NaN where that is not known.
        after: likewise.
        paired: whether the n-th CTA of one is the n-th of every other: the launches have one grid.
        minimum: a smaller change is noise.
    """
    of_before, of_after = (np.array([_mean(values) for values in side]) for side in (before, after))
    one, other = (float(np.median(side)) if len(side) else math.nan for side in (of_before, of_after))
    if one == other == 0:
        return Verdict(one, other, 0.0, math.nan, math.nan, math.nan, NOISE, "strong", "no time on either side")
    change = other / one - 1 if one > 0 else math.nan
    if not math.isfinite(change):
        where = [side for side, value in (("before", one), ("after", other)) if not value > 0]
        reason = f"nothing of it was recorded {' and '.join(where)}"
        return Verdict(one, other, math.nan, math.nan, math.nan, math.nan, UNKNOWN, "provisional", reason)
    low, high, agree = _ctas(before, after, paired, change)
    differs, evidence, reason = _differs(of_before, of_after, agree)
    if abs(change) < minimum:
        differs, reason = False, f"less than {minimum:.1%}"
    verdict = NOISE if not differs else SLOWER if change > 0 else FASTER
    return Verdict(one, other, change, low, high, agree, verdict, evidence, reason)


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _ctas(before: list[np.ndarray], after: list[np.ndarray], paired: bool, change: float) -> tuple[float, float, float]:
    """The middle 80% of the CTAs' changes, and the share of CTAs that changed in the direction of the whole."""
    if paired:
        one, other = _of_ctas(before), _of_ctas(after)
        known = np.isfinite(one) & np.isfinite(other) & (one > 0)
        changes = other[known] / one[known] - 1
        if not len(changes):
            return math.nan, math.nan, math.nan
        low, high = np.percentile(changes, [10, 90])
        return float(low), float(high), float(np.mean(changes * change > 0))
    one, other = (np.sort(values[np.isfinite(values)]) for values in (np.concatenate(before), np.concatenate(after)))
    # Of all pairs of a CTA before and one after, those that changed in that direction.
    behind = np.searchsorted(one, other, side="left").sum() / (len(one) * len(other))
    ahead = 1 - np.searchsorted(one, other, side="right").sum() / (len(one) * len(other))
    return math.nan, math.nan, float(behind if change > 0 else ahead)


def _of_ctas(side: list[np.ndarray]) -> np.ndarray:
    """(CTAs,) each CTA's median over the launches of a side; NaN where none of them knows it."""
    values = np.stack(side)
    medians = np.full(values.shape[1], np.nan)
    known = np.isfinite(values).any(axis=0)
    medians[known] = np.nanmedian(values[:, known], axis=0)
    return medians


def _differs(before: np.ndarray, after: np.ndarray, agree: float) -> tuple[bool, str, str]:
    """Whether two sides differ, how strong that is, and why."""
    if min(len(before), len(after)) >= 2:
        apart = before.max() < after.min() or after.max() < before.min()
        if not apart:
            return False, "strong", "launches of both sides lie among each other"
        orders = math.comb(len(before) + len(after), len(before)) / 2
        evidence = "strong" if 1 / orders <= _CHANCE else "weak"
        return True, evidence, f"no launch of one side lies among the other's, which chance does once in {orders:,.0f}"
    share = f"{agree:.0%} of the CTAs changed that way"
    if agree >= _AGREE:
        return True, "provisional", f"{share}, but with one launch on a side, how launches scatter is not known"
    return False, "provisional", f"only {share}"
