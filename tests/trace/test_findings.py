"""Findings: on simulated kernels whose faults are known, on a real recording, and on what is odd or missing."""

from __future__ import annotations

import functools
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
from .known_truth import RULES, Case, Kernel, case, real_win, run, timeline
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


@functools.cache
def found_in(rule: str, seed: int) -> tuple[Case, list[Finding]]:
    """A case and its findings, without what takes much memory: the timeline and the simulated ranges."""
    made = case(rule, seed)
    return replace(made, timeline=empty(), ran=replace(made.ran, ranges=[])), made.timeline.findings()


@pytest.mark.parametrize("rule", RULES)
def test_precision_and_recall(rule):
    hits = missed = false = 0
    others: list[str] = []
    for seed in range(FIRST, FIRST + CASES):
        made, findings = found_in(rule, seed)
        found = set(rules(findings))
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


# By how much what is won may exceed what the finding says: an epilogue costs the slowest CTA, which the kernel waits
# for, more than the average one.
BEYOND = {"long-epilogue": 0.02}


@pytest.mark.parametrize("rule", [rule for rule in RULES if real_win(GOOD, run(GOOD), rule) is not None])
def test_what_is_won_is_no_more_than_the_bound(rule):
    compared = 0
    for seed in range(FIRST, FIRST + CASES // 2):
        made, findings = found_in(rule, seed)
        for finding in findings:
            if finding.rule == rule and rule in made.there:
                won = real_win(made.kernel, made.ran, rule)
                assert won <= finding.win + BEYOND.get(rule, 0.005), (seed, finding)
                compared += 1
    assert compared >= CASES / 10


def test_a_second_stage_alone_wins_what_is_said_of_it():
    compared = 0
    for seed in range(FIRST, FIRST + CASES // 2):
        made, findings = found_in("no-overlap", seed)
        for finding in findings:
            if "second_stage" in finding.figures:
                won = 1 - run(replace(made.kernel, ring=2, built=2)).span / made.ran.span
                assert finding.figures["second_stage"] - 0.12 <= won <= finding.figures["second_stage"] + 0.005
                compared += 1
    assert compared >= CASES / 10


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
    # A wait need not take as much of its own.
    assert found.win == found.figures["waits_in_all"] == pytest.approx(20 * 595 / (19 * 900 + 1195))
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


def operands(
    names: str, ring: int, built: int, latency: int, issue: int = 60, compute: int = 600, between: int = 15,
    consumers: int = 1, ctas: int = 8, iterations: int = 40,
) -> Timeline:  # fmt: skip
    """A producer with a ring of its own for each operand; consumers wait for and compute with one after the other.

    ``ring`` of the ``built`` stages are used. The operands take turns at arriving late, so that each is waited for.
    """
    groups = [f"consumer {number}" for number in range(consumers)]
    builder = Builder((ctas, 1, 1), ("producer", *groups))
    builder.sm, builder.begin_ns = np.arange(ctas), np.zeros(ctas)
    for cta in range(ctas):
        time, now = 0, dict.fromkeys(groups, 0)
        freed: dict[tuple[str, int], int] = {}
        released: dict[tuple[str, int, str], int] = {}
        for turn in range(iterations):
            loads, landed = {}, {}
            for name in names:
                begin, time = time, max(time + 80, freed.get((name, turn - ring), 0) + 25)
                acquired = builder.slice(cta, "producer", "barrier", f"acquire {name}", begin, time)
                for group in groups:
                    if (name, turn - built, group) in released:
                        builder.flow(released[name, turn - built, group], acquired, turn - built)
                loads[name] = builder.slice(cta, "producer", "tma", f"load {name}", time, time + issue)
                time += issue
                landed[name] = time + (latency if (turn // 3 + names.index(name)) % 2 else latency // 2)
            for group in groups:
                for name in names:
                    begin, ready = now[group], max(now[group] + 90, landed[name] + 25)
                    builder.flow(loads[name], builder.slice(cta, group, "barrier", f"wait {name}", begin, ready), turn)
                    done = ready + compute
                    builder.slice(cta, group, "wgmma", f"mma {name}", ready, done)
                    released[name, turn, group] = builder.slice(
                        cta, group, "barrier", f"release {name}", done, done + 30
                    )
                    freed[name, turn] = max(freed.get((name, turn), 0), done + 30)
                    now[group] = done + 30 + between
    return with_meta(builder.build(), perturbation={"ratio": 1.001})


@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("consumer-starved", {"ring": 2, "built": 2, "latency": 9000}),
        ("consumer-starved", {"ring": 4, "built": 4, "latency": 900, "issue": 1500}),
        ("shallow-pipeline", {"ring": 2, "built": 4, "latency": 6000}),
        ("producer-held-back", {"ring": 4, "built": 4, "latency": 900, "between": 400}),
    ],
)
def test_operands_with_an_edge_each_make_one_finding_a_rule(rule, fault, consumers):
    one, two = (operands(names, consumers=consumers, **fault) for names in ("K", "KV"))
    assert rules(one.findings())[:1] == [rule]
    found = two.findings()
    assert [finding.rule for finding in found].count(rule) == 1, found
    assert len({finding.seen for finding in found}) == len(found)
    (joined,) = (finding for finding in found if finding.rule == rule)
    named = {name for _, _, name in joined.ranges}
    assert {"wait K", "wait V"} <= named
    # The waits of both are what the consumer loses.
    if rule != "producer-held-back":
        assert {"load K", "load V"} <= named
        waits = two.summary().ranges.where(group=joined.ranges[-1][0])
        both = sum(row.share for row in waits if row.name in ("wait K", "wait V"))
        assert 0.9 * both <= joined.win <= both


def test_two_computations_of_a_group_that_are_slow_make_one_finding():
    made = operands("KV", ring=4, built=4, latency=900, consumers=2)
    found = made.findings(least_cycles={"mma K": 300, "mma V": 300})
    assert [finding.rule for finding in found].count("producer-held-back") == 1


def test_short_ranges_are_named_by_what_their_records_take():
    builder = Builder((8, 1, 1), ("main",))
    for cta in range(8):
        builder.slice(cta, "main", "main", "clear", 0, 4)
        for k in range(40):
            at = 1000 * k
            builder.slice(cta, "main", "main", "body", at + 10, at + 900)
            builder.slice(cta, "main", "main", "tick", at + 910, at + 913)
    made = with_meta(builder.build(), probe={"plain": 15.0, "payload": 22.0})
    (found,) = [finding for finding in made.findings() if finding.rule == "too-short-to-measure"]
    # The clearing's two records are 0.1% of a CTA's time; those of the ticks, of 3 cycles each, are 3%.
    assert found.ranges == (("main", "main", "tick"),)
    once = with_meta(_entered_once(range(10)), probe={"plain": 15.0, "payload": 22.0})
    assert rules(once.findings()) == []
    # Many of them together are no longer negligible.
    often = with_meta(_entered_once(range(20)), probe={"plain": 15.0, "payload": 22.0})
    (found,) = often.findings()
    assert found.rule == "too-short-to-measure"


def _entered_once(times: range) -> Timeline:
    """CTAs of 40,000 cycles with so many short ranges of different names."""
    builder = Builder((8, 1, 1), ("main",), cycles=40_000)
    builder.sm, builder.begin_ns = np.arange(8), np.zeros(8)
    for cta in range(8):
        for number in times:
            builder.slice(cta, "main", "main", f"clear {number}", 100 * number, 100 * number + 4)
    return builder.build()


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
