"""Findings on recordings of the production GEMM on an H200: as it is, and built badly on purpose.

``benchmarks/faults.py`` made them. The two of ``matmul`` are of an unmodified TileLang GEMM that was instrumented
automatically, 4096 x 4096 x 4096 in fp16 with tiles of 128 by 256 by 64 and 256 threads.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileops
from tileops.trace import Table, Timeline, TraceError
from tileops.trace.findings.rates import FLOP_A_CYCLE, flop_a_cycle
from tileops.trace.recording import Recording

RECORDINGS = Path(__file__).parents[1] / "recordings"
SHIPPED = Path(tileops.__file__).parent / "recordings" / "gemm_h200.tltrace"
# Each with the operations of its launch: twelve rows of tiles of 128 by 256, of eleven or twelve columns.
FLOPS = 2 * 1536 * 2816 * 4096
FAULTS = {
    "one-stage": ("no-overlap", FLOPS),
    "slow-producer": ("consumer-starved", FLOPS),
    "slow-consumer": ("producer-held-back", FLOPS),
    "wave-and-a-bit": ("tail-wave", 2 * 1536 * 3072 * 4096),
}
GOOD = {
    RECORDINGS / "gemm_good.tltrace": FLOPS,
    RECORDINGS / "gemm_good-waves.tltrace": 3 * FLOPS,
    SHIPPED: 2 * 4096**3,
}


def recorded(name: str) -> Timeline:
    return Recording.load(RECORDINGS / f"gemm_{name}.tltrace").decode()


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_the_first_finding(name: str) -> None:
    rule, flops = FAULTS[name]
    timeline = recorded(name)
    assert timeline.findings(flops=flops)[0].rule == rule
    # Only a computation that is slow by itself looks like any other that keeps its producer waiting.
    without = [finding.rule for finding in timeline.findings()]
    assert without[:1] == ([] if name == "slow-consumer" else [rule])


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_builds_have_none(path: Path) -> None:
    timeline = Recording.load(path).decode()
    assert timeline.findings() == []
    assert timeline.findings(flops=GOOD[path]) == []


def test_the_rate_is_that_of_an_iteration() -> None:
    """By hand: an iteration of a CTA multiplies 128 by 64 by 256."""
    timeline = recorded("slow-consumer")
    starts = timeline.slices.where(group="consumer0", name="mma")["start"].reshape(132, 64)
    rate = 2 * 128 * 64 * 256 / np.diff(starts, axis=1).mean() / 4096
    assert 0.2 < rate < 0.4
    (found,) = timeline.findings(flops=FLOPS)
    assert found.figures["rate"] == pytest.approx(rate, rel=0.01)
    looped = (starts[:, -1] - starts[:, 0]).sum() / timeline.ctas["cycles"].sum()
    assert found.win == pytest.approx(looped * (1 - rate), abs=0.02)
    assert f"computes at {rate:.0%} of the tensor cores' rate" in found.seen
    assert ("consumer0", "barrier", "wait") in found.ranges


def test_waiting_costs_no_more_than_the_tensor_cores_rate_leaves() -> None:
    timeline = recorded("slow-producer")
    (found,) = timeline.findings()
    (bounded,) = timeline.findings(flops=FLOPS)
    assert bounded.figures["rate"] < 0.5
    assert bounded.win <= found.win
    assert bounded.win <= 1 - bounded.figures["rate"]
    # As if the tensor cores were busy all the same.
    assert timeline.findings(flops=FLOPS / bounded.figures["rate"]) == []


@pytest.mark.parametrize(("part", "speaks"), [(1.0, False), (0.95, False), (0.7, True), (0.3, True)])
def test_less_work_in_the_same_time_is_slower(part: float, speaks: bool) -> None:
    found = recorded("good").findings(flops=part * FLOPS)
    assert [finding.rule for finding in found] == (["producer-held-back"] if speaks else [])
    if speaks:
        assert found[0].figures["rate"] == pytest.approx(part, abs=0.02)
        assert found[0].win <= 1 - part


# Microseconds of that GEMM that is not traced, by the stages that it was built with.
MATMUL_US = {0: 437.3, 1: 419.7, 2: 239.5, 3: 201.8, 4: 202.0}


@pytest.mark.parametrize("flops", [None, 2.0 * 4096**3])
@pytest.mark.parametrize(("name", "stages"), [("one-group", 0), ("one-stage", 1)])
def test_more_stages_win_no_more_than_the_bound(name: str, stages: int, flops: float | None) -> None:
    timeline = Recording.load(RECORDINGS / f"matmul_{name}.tltrace").decode()
    found = timeline.findings(flops=flops)
    assert found[0].rule == "no-overlap"
    won = 1 - min(MATMUL_US.values()) / MATMUL_US[stages]
    # The bound is of use, too: it is no more than a seventh of the span above what was won.
    assert won <= found[0].win <= won + 0.15
    assert [finding.rule for finding in found].count("no-overlap") == 1


def test_a_second_stage_wins_about_what_is_said_of_it() -> None:
    timeline = Recording.load(RECORDINGS / "matmul_one-stage.tltrace").decode()
    (found,) = [finding for finding in timeline.findings() if finding.rule == "no-overlap"]
    won = 1 - MATMUL_US[2] / MATMUL_US[1]
    assert won <= found.figures["second_stage"] <= won + 0.05


@pytest.mark.parametrize("name", ["one-stage", "slow-producer", "slow-consumer", "wave-and-a-bit"])
def test_the_good_build_wins_no_more_than_the_bound(name: str) -> None:
    bad, good = recorded(name), recorded("good")
    # A wave and a bit does a twelfth more.
    work = FAULTS[name][1] / FLOPS
    won = 1 - _microseconds(good) * work / _microseconds(bad)
    (found, *_) = bad.findings(flops=FAULTS[name][1])
    assert won <= found.win, (won, found)


def _microseconds(timeline: Timeline) -> float:
    """Of the build that is not traced, where that was measured, else of the traced one."""
    measured = timeline.meta.get("perturbation")
    return measured["stripped_us"] if measured else timeline.summary().span_ns / 1000


@pytest.mark.parametrize("name", ["one-group", "one-stage"])
def test_what_runs_once_in_a_cta_is_not_too_short(name: str) -> None:
    timeline = Recording.load(RECORDINGS / f"matmul_{name}.tltrace").decode()
    short = [finding for finding in timeline.findings() if finding.rule == "too-short-to-measure"]
    # One group passes two barriers in each of its 64 iterations; with two of them there is a barrier a CTA.
    assert [finding.ranges for finding in short] == ([(("main", "main", "barrier"),)] if name == "one-group" else [])


def with_ctas(timeline: Timeline, **columns: Any) -> Timeline:
    table = {name: timeline.ctas[name].copy() for name in timeline.ctas.column_names}
    return replace(timeline, ctas=Table(table | columns))


def test_ctas_that_share_an_sm_share_its_tensor_cores() -> None:
    timeline = recorded("slow-consumer")
    (alone,) = timeline.findings(flops=FLOPS)
    shared = with_ctas(timeline, sm=timeline.ctas["sm"] // 2)
    (found,) = [one for one in shared.findings(flops=FLOPS) if one.rule == "producer-held-back"]
    assert found.figures["rate"] == pytest.approx(2 * alone.figures["rate"], rel=0.02)
    # Of four CTAs on an SM, it would have been more than an SM can.
    with pytest.raises(TraceError, match="is it the number of this launch"):
        with_ctas(timeline, sm=timeline.ctas["sm"] // 4).findings(flops=FLOPS)


def test_nothing_is_said_where_the_rate_is_not_known() -> None:
    timeline = recorded("slow-consumer")
    unknown = np.full(132, np.nan)
    clockless = with_ctas(timeline, ghz=unknown, begin_ns=unknown, end_ns=unknown)
    part = replace(timeline, grid=(11, 24, 1))  # half of the launch's CTAs were recorded
    for changed in (clockless, part):
        assert "producer-held-back" not in [finding.rule for finding in changed.findings(flops=FLOPS)]


@pytest.mark.parametrize("flops", [0, -1, float("nan"), float("inf"), True, "2*3", [1]])
def test_operations_that_are_none(flops: Any) -> None:
    with pytest.raises(TraceError, match="flops must be a number of operations above 0"):
        recorded("good").findings(flops=flops)


def test_operations_on_a_device_of_unknown_rate() -> None:
    timeline = recorded("good")
    for meta in ({**timeline.meta, "device": "NVIDIA H20"}, {}):
        with pytest.raises(TraceError, match=r"device of known rate \(A100, H100, H200\), not .*: give least_cycles"):
            replace(timeline, meta=meta).findings(flops=FLOPS)
    with pytest.raises(TraceError, match="give one of them"):
        timeline.findings(flops=FLOPS, least_cycles={"mma": 1024})


def test_rates_are_those_of_the_makers_figures() -> None:
    for name, tflops, sms, ghz in (("H100", 989.4, 132, 1.83), ("A100", 312, 108, 1.41)):
        assert tflops * 1e3 / sms / ghz == pytest.approx(FLOP_A_CYCLE[name], rel=0.001)
    for device, rate in (
        ("NVIDIA H200", 4096), ("NVIDIA H100 80GB HBM3", 4096), ("NVIDIA H100 PCIe", 4096),
        ("NVIDIA A100-SXM4-80GB", 2048), ("NVIDIA A10", None), ("NVIDIA RTX A1000", None), ("NVIDIA H20", None),
        ("", None), (None, None), (5, None),
    ):  # fmt: skip
        assert flop_a_cycle(device) == rate


def test_operations_that_no_gpu_does_are_refused() -> None:
    with pytest.raises(TraceError, match=r"times what the tensor cores of the SMs that ran can do"):
        recorded("good").findings(flops=2 * FLOPS)
