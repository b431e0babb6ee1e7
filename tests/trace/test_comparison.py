"""Comparing launches: changes that were made are found, and those that were not are not."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tileops.trace import Timeline, TraceError
from tileops.trace.comparison import Comparison, Verdict, compare
from tileops.trace.comparison.verdict import judge

from . import known_truth, synthetic
from .known_truth import Kernel

BASE = Kernel(sms=8, ctas=16, iterations=24)


def launches(kernel: Kernel, count: int, first: int = 0) -> list[Timeline]:
    """So many launches of a kernel, each with its own scatter."""
    return [known_truth.timeline(replace(kernel, seed=first + number)) for number in range(count)]


def of(comparison: Comparison, name: str) -> Verdict:
    (found,) = (change.verdict for change in comparison.ranges if change.name == name)
    return found


def crowd(mean: float, scatter: float, count: int, seed: int) -> np.ndarray:
    return mean * (1 + scatter * np.random.default_rng(seed).standard_normal(count))


@pytest.mark.parametrize("factor", [0.8, 0.9, 1.1, 1.25])
def test_a_change_is_found_where_it_was_made(factor: float) -> None:
    made = compare(launches(BASE, 4), launches(replace(BASE, compute=BASE.compute * factor), 4, first=50))
    found = of(made, "mma")
    assert found.change == pytest.approx(factor - 1, abs=0.02)
    assert found.verdict == ("slower" if factor > 1 else "faster")
    assert found.evidence == "strong"
    assert found.low <= found.change <= found.high
    assert found.agree == 1
    assert of(made, "epilogue").verdict == "noise"


def test_the_kernels_own_times_are_compared() -> None:
    before, after = launches(BASE, 3), launches(replace(BASE, compute=900), 3, first=9)
    made = compare(before, after)
    spans = [np.median([np.ptp([*t.ctas.begin_ns, *t.ctas.end_ns]) for t in side]) for side in (before, after)]
    assert (made.span.before, made.span.after) == pytest.approx(spans)
    assert made.span.change == pytest.approx(spans[1] / spans[0] - 1)
    assert made.regression() == made.span.change
    assert compare(after, before).regression() == 0
    # Six launches can be put in 20 orders of three and three, ten if the sides may be swapped.
    assert (made.span.evidence, made.span.reason.rpartition(" ")[2]) == ("weak", "10")


def test_ranges_are_totals_of_a_cta() -> None:
    timeline = launches(BASE, 1)[0]
    made = compare(timeline, timeline)
    for change in made.ranges:
        slices = timeline.slices.where(group=change.group, lane=change.lane, name=change.name)
        total = np.bincount(slices.cta, slices.duration, minlength=len(timeline.ctas))
        assert change.verdict.before == change.verdict.after == pytest.approx(total.mean())
        assert change.count_before == change.count_after == len(slices)
        assert change.verdict.change == 0


def test_launches_of_one_kernel_do_not_differ() -> None:
    """Of all verdicts on 40 pairs of four launches each, chance gives one in 35."""
    verdicts = []
    for seed in range(40):
        kernel = replace(BASE, ctas=8, iterations=12, jitter=0.1)
        made = compare(launches(kernel, 4, first=1000 * seed), launches(kernel, 4, first=1000 * seed + 500))
        verdicts += [made.span, *(change.verdict for change in made.ranges)]
    wrong = sum(verdict.verdict not in ("noise", "unknown") for verdict in verdicts)
    assert wrong / len(verdicts) < 2 / 35


def test_one_launch_a_side_is_provisional() -> None:
    slower = compare(*launches(BASE, 1), *launches(replace(BASE, compute=700), 1, first=5))
    assert (slower.span.verdict, slower.span.evidence) == ("slower", "provisional")
    assert "one launch" in slower.span.reason
    same = compare(*launches(replace(BASE, jitter=0.2), 1), *launches(replace(BASE, jitter=0.2), 1, first=5), minimum=0)
    assert of(same, "mma").verdict == "noise"
    assert "of the CTAs" in of(same, "mma").reason


def test_other_grids_are_compared_as_crowds() -> None:
    made = compare(launches(BASE, 4), launches(replace(BASE, ctas=24, compute=750), 4, first=7))
    assert of(made, "mma").verdict == "slower"
    assert of(made, "mma").agree == 1
    assert math.isnan(of(made, "mma").low)
    assert any("other grids" in sentence for sentence in made.caution)


def test_findings_come_and_go() -> None:
    starved = replace(BASE, issue=900)
    made = compare(launches(BASE, 2), launches(starved, 2, first=3))
    assert [finding.rule for finding in made.new] == [f.rule for f in known_truth.timeline(starved).findings()]
    assert made.new
    assert not made.gone
    back = compare(launches(starved, 2, first=3), launches(BASE, 2))
    assert [finding.rule for finding in back.gone] == [finding.rule for finding in made.new]
    assert not back.new


def test_what_is_on_one_side_alone() -> None:
    more = replace(BASE, between_is_range=True)
    made = compare(launches(BASE, 2), launches(more, 2))
    keys = [(change.group, change.lane, change.name) for change in compare(*2 * [launches(BASE, 1)]).ranges]
    added = [change for change in made.ranges if (change.group, change.lane, change.name) not in keys]
    assert added
    for change in added:
        assert change.count_before == 0 < change.count_after
        assert (change.verdict.verdict, change.verdict.reason) == ("unknown", "nothing of it was recorded before")
    assert made.ranges[0] in added


def test_cautions() -> None:
    before = launches(BASE, 1)[0]
    after = replace(before, meta={**before.meta, "device": "another"})
    assert any("another" in sentence for sentence in compare(before, after).caution)
    lost = known_truth.timeline(replace(BASE, dropped=0.3))
    assert any("dropped" in sentence for sentence in compare(before, lost).caution)
    assert not compare(before, before).caution


def test_nothing_known() -> None:
    made = compare(synthetic.empty(), synthetic.empty())
    assert (made.span.verdict, made.span.change) == ("noise", 0)
    assert made.ranges == ()
    assert made.regression() == 0
    assert compare(synthetic.troubled(), synthetic.troubled()).ranges


def test_as_json_and_text() -> None:
    made = compare(launches(BASE, 4), launches(replace(BASE, compute=700), 4, first=20))
    text = json.dumps(made.as_dict(), allow_nan=False)
    read = json.loads(text)
    assert (read["format"], read["version"]) == ("tileops.trace.comparison", 1)
    assert read["span_ns"]["change"] == made.span.change
    assert len(read["ranges"]) == len(made.ranges)
    printed = str(made)
    assert f"{made.span.change:+.1%}" in printed
    assert "4 launches before and 4 launches after" in printed
    assert "mma" in printed


@pytest.mark.parametrize("side", [[], ["x"], None, 3])
def test_sides_are_checked(side: object) -> None:
    with pytest.raises((TraceError, TypeError)):
        compare(side, synthetic.empty())


@pytest.mark.parametrize("minimum", [-0.1, 1, True, "1%"])
def test_the_minimum_is_checked(minimum: object) -> None:
    with pytest.raises(TraceError, match="minimum"):
        compare(synthetic.empty(), synthetic.empty(), minimum=minimum)


def test_verdicts_by_hand() -> None:
    apart = judge([crowd(100, 0, 9, 0)] * 2, [crowd(110, 0, 9, 0)] * 2, True, 0.01)
    assert (apart.verdict, apart.evidence) == ("slower", "weak")
    assert apart.change == pytest.approx(0.1)
    among = judge([np.full(9, 100.0), np.full(9, 112.0)], [np.full(9, 110.0), np.full(9, 120.0)], True, 0.01)
    assert among.verdict == "noise"
    small = judge([np.full(9, 100.0)] * 4, [np.full(9, 100.5)] * 4, True, 0.01)
    assert (small.verdict, small.reason) == ("noise", "less than 1.0%")
    half = np.where(np.arange(10) % 2, 100.0, np.nan)
    assert judge([half], [half * 2], True, 0.01).change == 1
    zero = judge([np.zeros(3)], [np.zeros(3)], True, 0.01)
    assert (zero.verdict, zero.change) == ("noise", 0)
