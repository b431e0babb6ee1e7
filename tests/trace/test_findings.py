"""Findings: on simulated kernels whose faults are known, on a real recording, and on what is odd or missing."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from tileops.trace import Finding, Timeline, TraceError
from tileops.trace.findings.roles import has_word
from tileops.trace.recording import Recording

from . import synthetic
from .known_truth import RULES, Kernel, case, timeline
from .synthetic import Builder, empty, gemm, hostile, nested, troubled, waves

# Drawn once the rules were fixed. benchmarks/findings.py prints the same figures, for as many cases as are wanted.
FIRST, CASES = 3_000_000, 100
# A good build on whole waves.
GOOD = Kernel(ctas=48, latency=900, seed=5)


def rules(found: list[Finding]) -> list[str]:
    return [finding.rule for finding in found]


def costly(found: list[Finding]) -> list[str]:
    return [finding.rule for finding in found if finding.win]


def with_meta(made: Timeline, **meta) -> Timeline:
    return replace(made, meta={**made.meta, **meta})


@pytest.mark.parametrize("rule", RULES)
def test_precision_and_recall(rule):
    hits = missed = false = 0
    others: list[str] = []
    for seed in range(FIRST, FIRST + CASES):
        made = case(rule, seed)
        found = set(rules(made.timeline.findings()))
        hits += rule in found & made.there
        missed += rule in made.there - found
        false += rule in found & made.not_there
        others += sorted((found & made.not_there) - {rule})
    assert hits >= CASES / 5  # else the cases show nothing
    assert hits / (hits + missed) >= 0.95
    assert hits / (hits + false) >= 0.95
    assert len(others) <= 0.05 * CASES, others


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("no-overlap", {"ring": 1, "built": 1}),
        ("consumer-starved", {"issue": 900.0}),
        ("producer-held-back", {"between": 400.0}),
        ("tail-wave", {"ctas": 20}),
        ("shallow-pipeline", {"ring": 2, "latency": 1800.0}),
        ("long-prologue", {"prologue": 9000.0}),
        ("long-epilogue", {"epilogue": 9000.0}),
        ("dominating-lane", {"consumers": 2, "second": 0.4}),
        ("cta-imbalance", {"heavy": 0.2, "heavier": 1.6}),
        ("sm-imbalance", {"slow_sms": 0.25, "slower": 1.5}),
        ("slow-outliers", {"outliers": 0.03, "outlier": 5.0, "iterations": 300}),
    ],
)
def test_each_fault_is_the_first_finding_and_a_good_build_has_none(rule, fault):
    assert costly(timeline(GOOD).findings()) == []
    first = timeline(replace(GOOD, **fault)).findings()[0]
    assert first.rule == rule
    assert 0.05 <= first.win < 1
    assert first.evidence in ("strong", "weak")


def recorded() -> Timeline:
    with resources.as_file(resources.files("tileops") / "recordings" / "gemm_h200.tltrace") as path:
        return Recording.load(path).decode()


def test_a_good_gemm_on_an_h200_has_no_finding():
    assert recorded().findings() == []
    assert recorded().findings(depth=4) == []


def test_its_last_wave_is_found_if_less_is_asked_for():
    (found,) = recorded().findings(minimum=0.02)
    assert (found.rule, found.evidence) == ("tail-wave", "strong")
    assert found.win == pytest.approx(1 - 512 / (4 * 132))


# -- evidence


def starved(**more) -> Kernel:
    return replace(GOOD, issue=900.0, **more)


def first(made: Timeline, **options) -> Finding:
    return made.findings(**options)[0]


def test_an_edge_and_a_small_disturbance_are_strong_evidence():
    found = first(timeline(starved()))
    assert (found.rule, found.evidence) == ("consumer-starved", "strong")
    assert "0.4%" in found.reason


def test_a_disturbance_that_is_not_known_or_not_small_makes_it_provisional():
    made = timeline(starved())
    for perturbation in (None, {}, {"ratio": "1"}, {"ratio": math.nan}, {"ratio": True}, 1.0):
        found = first(with_meta(made, perturbation=perturbation))
        assert (found.evidence, "was not measured" in found.reason) == ("provisional", True)
    found = made.findings()[0]
    large = with_meta(made, perturbation={"ratio": 1 + 0.6 * found.win})
    assert (first(large).evidence, large.findings()[-1].rule) == ("provisional", "disturbed")


def test_roles_that_names_alone_tell_are_weak_evidence():
    kernel = replace(GOOD, between=400.0)
    by_edge, by_name = (timeline(replace(kernel, back_edge=back)) for back in (True, False))
    assert (first(by_edge).evidence, first(by_edge).reason.count("wait and")) == ("weak", 0)
    assert (first(by_name).evidence, "wait and compute" in first(by_name).reason) == ("weak", True)
    told = {"wait": ["acquire", "wait"], "compute": ["mma"]}
    assert first(by_name, roles=told).evidence == "strong"


def test_without_a_computing_range_a_producer_is_not_held_back():
    made = timeline(replace(GOOD, between=400.0))
    assert "producer-held-back" not in rules(made.findings(roles={"compute": ["fma"]}))


def test_ctas_that_lost_events_make_it_provisional_and_half_of_them_leave_it_out():
    builder = lambda lost: _starved_by_hand(lost)  # noqa: E731
    assert first(builder(0)).rule == "consumer-starved"
    some = first(builder(2))
    assert (some.rule, some.evidence) == ("consumer-starved", "provisional")
    assert "50%" not in some.reason
    assert "lost events" in some.reason
    assert "consumer-starved" not in rules(builder(5).findings())
    (dropped,) = [finding for finding in builder(5).findings() if finding.rule == "dropped-events"]
    assert "nothing is concluded about consumer" in dropped.seen


def _starved_by_hand(lost: int) -> Timeline:
    """Eight CTAs whose consumer waits for two thirds of the time; so many of them lost events of it."""
    builder = Builder((8, 1, 1), ("producer", "consumer"))
    builder.sm, builder.begin_ns = np.arange(8), np.zeros(8)
    for cta in range(8):
        for k in range(20):
            at = 900 * k
            load = builder.slice(cta, "producer", "tma", "tma", at, at + 890)
            wait = builder.slice(cta, "consumer", "barrier", "wait", at + 300, at + 895)
            builder.slice(cta, "consumer", "wgmma", "mma", at + 895, at + 1195)
            builder.flow(load, wait, k)
        if cta < lost:
            builder.lost[cta, "consumer"] = 30
    return with_meta(builder.build(), perturbation={"ratio": 1.001})


def test_what_is_seen_has_its_figures():
    found = first(_starved_by_hand(0))
    # 595 cycles, of which 110 are a wait's own.
    assert found.figures["waits"] == pytest.approx(20 * 485 / (19 * 900 + 1195))
    assert found.win == found.figures["waits"]
    assert found.ranges == (("producer", "tma", "tma"), ("consumer", "barrier", "wait"))
    assert found.ctas == ()


def test_the_ctas_where_it_is_worst_are_named():
    made = timeline(replace(GOOD, heavy=0.1, heavier=2.0))
    found = first(made)
    assert found.rule == "cta-imbalance"
    slowest = np.argsort(-made.ctas.cycles, kind="stable")[:4]
    assert {*found.ctas[:4]} == {*slowest.tolist()}


# -- what the data does not support


def test_nothing_is_said_of_waves_where_clocks_ctas_or_sms_are_not_known():
    made = timeline(replace(GOOD, ctas=20))
    assert costly(made.findings()) == ["tail-wave"]
    assert costly(with_meta(made, target="c").findings()) == []
    assert costly(replace(made, grid=(40, 1, 1)).findings()) == []  # half of the CTAs were chosen
    assert costly(replace(made, axis_error_ns=1e6).findings()) == []
    nothing = np.full(20, np.nan)
    ctas = {name: made.ctas.codes(name) for name in made.ctas.column_names}
    blind = replace(made, ctas=type(made.ctas)({**ctas, "begin_ns": nothing, "end_ns": nothing, "ghz": nothing}))
    assert costly(blind.findings()) == []


def test_a_loop_without_a_steady_state_has_no_prologue():
    builder = Builder((2, 1, 1), ("main",))
    for cta in range(2):
        for k in range(5):
            builder.slice(cta, "main", "main", "body", 9000 + 100 * k, 9090 + 100 * k)
    assert "long-prologue" not in rules(builder.build().findings())


def test_a_kernel_that_computes_all_the_time_holds_nobody_back():
    assert costly(timeline(replace(GOOD, compute=3000.0)).findings()) == []


def test_a_slow_computation_is_found_if_it_is_said_how_fast_it_could_be():
    made = timeline(replace(GOOD, compute=3000.0))
    found = first(made, least_cycles={"mma": 1000})
    assert (found.rule, found.evidence) == ("producer-held-back", "strong")
    (mma,) = made.summary().ranges.where(name="mma")
    assert found.win == pytest.approx(mma.share * (1 - 1000 / mma.mean), abs=0.05)
    assert costly(made.findings(least_cycles={"mma": 2990})) == []


@pytest.mark.parametrize(
    ("least", "says"),
    [({"gemm": 5}, "names 'gemm', but the ranges are acquire, tma, arrive, wait"),
     ({"mma": 0}, "must be a number of cycles above 0, got 0"), ({"mma": "1"}, "above 0, got '1'"),
     ({"mma": math.inf}, "above 0, got inf"), ({"mma": True}, "above 0, got True")],
)  # fmt: skip
def test_least_cycles_that_are_none(least, says):
    with pytest.raises(TraceError, match=says):
        timeline(GOOD).findings(least_cycles=least)


def test_a_mark_that_takes_no_time_is_not_too_short():
    made = timeline(GOOD)
    (arrive,) = made.summary().ranges.where(name="arrive")
    assert arrive.max == 0
    assert made.findings() == []


@pytest.mark.parametrize("make", [empty, gemm, hostile, nested, troubled, waves], ids=lambda make: make.__name__)
@pytest.mark.parametrize("meta", [{}, {"perturbation": {"ratio": 1.01}, "probe": {"plain": 15.0, "payload": 22.0}}])
def test_odd_timelines(make, meta):
    found = with_meta(make(), **meta).findings(minimum=0.0)
    for finding in found:
        assert finding.seen
        assert finding.next
        assert finding.reason
        assert 0 <= finding.win <= 1
        assert json.loads(json.dumps(finding.as_dict()))["rule"] == finding.rule
        assert finding.rule in str(finding)


def test_ctas_without_an_event_in_common():
    builder = Builder((4, 1, 1), ("main",), cycles=1000)
    builder.unfinished |= {0, 1, 2, 3}
    assert costly(builder.build().findings()) == []


# -- arguments


def test_findings_come_by_their_win_and_above_the_minimum():
    made = timeline(replace(GOOD, between=400.0, epilogue=6000.0, ctas=20, tiny=10.0))
    found = made.findings()
    assert [finding.win for finding in found] == sorted((finding.win for finding in found), reverse=True)
    assert len(costly(found)) == 3
    assert rules(found)[-1] == "too-short-to-measure"
    least = found[2].win
    assert costly(made.findings(minimum=least + 1e-9)) == costly(found)[:2]
    assert rules(made.findings(minimum=1.0)) == ["too-short-to-measure"]


@pytest.mark.parametrize("minimum", [-0.1, 1.1, math.nan, "5%", None, True])
def test_a_minimum_that_is_no_share(minimum):
    with pytest.raises(TraceError, match="minimum must be a share of the kernel's span, from 0 to 1"):
        timeline(GOOD).findings(minimum=minimum)


@pytest.mark.parametrize(
    ("roles", "says"),
    [({"idle": ["x"]}, "there is no role 'idle': name words for wait, load, compute"),
     ({"wait": "acquire"}, "the words of 'wait' must be a collection of texts"),
     ({"wait": [1]}, "the words of 'wait' must be a collection of texts")],
)  # fmt: skip
def test_roles_that_are_none(roles, says):
    with pytest.raises(TraceError, match=says):
        timeline(GOOD).findings(roles=roles)


def test_a_depth_that_is_none():
    with pytest.raises(ValueError, match="depth must be the number of the pipeline's stages"):
        timeline(GOOD).findings(depth=0)


@pytest.mark.parametrize(
    ("name", "has"),
    [("wait", True), ("wait full", True), ("wait_full", True), ("waitFull", True), ("WaitFull", True), ("WAIT", True),
     ("wait0", True), ("await", False), ("waiting", False), ("", False), ("mma", False)],
)  # fmt: skip
def test_words_in_names(name, has):
    assert has_word(name, frozenset({"wait"})) is has


def test_a_single_slow_stage_of_synthetic_gemm_is_explained():
    found = with_meta(synthetic.gemm(stages=1, iterations=40), perturbation={"ratio": 1.001}).findings()
    # Its eight CTAs lie on SMs up to the 127th.
    assert costly(found) == ["tail-wave", "no-overlap"]
