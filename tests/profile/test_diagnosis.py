"""Verdicts: a table of cases on both sides of every threshold, and what must hold for all figures."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileops.profile.diagnosis import Measured, diagnose, ncu_command, rates
from tileops.profile.peaks import Ceilings

IO, CUDA, TENSOR, LAUNCH, OPEN = (
    "IO-bound", "CUDA-core bound", "tensor-core bound", "launch-overhead bound", "inconclusive underperformance",
)  # fmt: skip
# GB/s and TFLOP/s: round figures, so that what a case says can be checked in the head.
BANDWIDTH, MATRIX, VECTOR = 4000.0, 1000.0, 60.0
TIME = 100_000.0  # ns
# As the documents state them, not as the module does.
STRONG = {
    "datasheet": {"io": 0.70, "matrix": 0.60, "vector": 0.60},
    "measured": dict.fromkeys(("io", "matrix", "vector"), 0.80),
}
WEAK = {
    "datasheet": {"io": 0.55, "matrix": 0.45, "vector": 0.45},
    "measured": dict.fromkeys(("io", "matrix", "vector"), 0.65),
}
KEYS = {"io": "bandwidth", "matrix": "matrix", "vector": "vector"}
BOUND = {"io": IO, "matrix": TENSOR, "vector": CUDA}


def work(source="datasheet", io=0.1, matrix=None, vector=None, busy=0.95, tensor=None, dtype_has_matrix=True, **others):
    """A piece of work that reaches these parts of the peaks."""
    known = frozenset(KEYS.values()) if source == "measured" else frozenset()
    top = Ceilings("G", "float16", BANDWIDTH, MATRIX if dtype_has_matrix else None, VECTOR, known)
    rate = matrix * MATRIX if matrix is not None else vector * VECTOR if vector is not None else 0.3
    figures = {
        "gpu_ns": TIME, "low_ns": TIME * 0.99, "high_ns": TIME * 1.01, "repeats": 20,
        "wall_ns": TIME / busy if busy else None, "launch_ns": 0.05 * TIME, "host_ns": 0.2 * TIME, "kernels": 1,
        "flops": rate * TIME * 1e3, "bytes_moved": io * BANDWIDTH * TIME, "ceilings": top, "tensor_cores": tensor,
        "kernel": "void at::native::gemm<float>(int)", "cold_l2": True,
    }  # fmt: skip
    return Measured("case", **(figures | others))


CASES = []
for source, key in itertools.product(("datasheet", "measured"), ("io", "matrix", "vector")):
    strong, weak = STRONG[source][key], WEAK[source][key]
    for part, strength in (
        (strong * 1.02, "strong"), (strong * 1.10, "strong"), (strong * 0.98, "weak"), (weak * 1.02, "weak"),
        (weak * 0.98, None), (weak * 0.5, None),
    ):  # fmt: skip
        for tensor, busy, launching in itertools.product((True, False, None), (0.81, 0.99, None), (0.01, 0.79)):
            figures = {key: part, "tensor": tensor, "busy": busy, "launch_ns": launching * TIME}
            expected, sure = BOUND[key] if strength else OPEN, strength or "strong"
            if key == "matrix" and tensor is False:
                # The rate is far beyond what ordinary cores can do: the figures contradict each other.
                expected, sure = OPEN, "provisional"
            if key == "vector" and tensor is True:
                expected, sure = OPEN, "strong"
            elif key == "vector" and tensor is None and strength:
                sure = "provisional"
            CASES.append((source, figures, expected, sure))
            # A GPU type without tensor cores for it.
            if key == "vector" and tensor is None:
                figures = figures | {"dtype_has_matrix": False}
                CASES.append((source, figures, BOUND[key] if strength else OPEN, strength or "strong"))
# The GPU waits, whatever its kernels reach.
for busy, launching, part in itertools.product(
    (0.05, 0.49, 0.51, 0.79, 0.81, 1.0, None), (0.1, 0.79, 0.81, 0.99, 1.01, 5.6, 5.8), (0.1, 0.8)
):
    figures = {"busy": busy, "launch_ns": launching * TIME, "host_ns": None, "io": part}
    expected, sure = (IO, "strong") if part == 0.8 else (OPEN, "strong")
    # Of 1.0 the GPU is busy for 0.05 and idle for 0.95: 30% of that are 0.285, which is 5.7 times 0.05.
    explained = busy != 0.05 or launching > 5.7
    if (busy is None or busy < 0.8) and launching > 0.8 and explained:
        expected = LAUNCH
        sure = "provisional" if busy is None else "strong" if busy < 0.5 and launching >= 1 else "weak"
    elif busy is not None and busy < 0.8 and expected == OPEN:
        sure = "weak"
    CASES.append(("datasheet", figures, expected, sure))
    CASES.append(("datasheet", figures | {"host_ns": launching * TIME, "launch_ns": None}, expected, sure))
# Scatter, repeats and short times weaken what would be strong.
for (spread, weaker), (repeats, few), part in itertools.product(
    ((0.05, 0), (0.09, 0), (0.11, 1), (0.29, 1), (0.31, 2), (0.8, 2)), ((4, 2), (5, 0), (50, 0)), (0.85, 0.62)
):
    # Both quartiles on the faster side, so that no quartile falls below the threshold.
    figures = {"io": part, "repeats": repeats, "low_ns": TIME * (1 - spread), "high_ns": TIME}
    strength = ("strong", "weak", "provisional")[min((0 if part == 0.85 else 1) + max(weaker, few), 2)]
    CASES.append(("datasheet", figures, IO, strength))


@pytest.mark.parametrize(("source", "figures", "bound", "strength"), CASES)
def test_case(source, figures, bound, strength):
    verdict = diagnose(work(source, **figures))
    assert (verdict.bound, verdict.strength) == (bound, strength), verdict


def test_there_are_hundreds():
    assert len(CASES) > 350
    assert {case[2] for case in CASES} == {IO, CUDA, TENSOR, LAUNCH, OPEN}


def test_without_a_gpu():
    verdict = diagnose(Measured("cpu", host_ns=5e6, repeats=10))
    assert (verdict.bound, verdict.strength, verdict.proof) == ("no verdict", "none", False)
    assert verdict.evidence == ("No time on a GPU was measured, and each verdict rests on one.",)
    assert verdict.nature.startswith("no finding")
    why = diagnose(Measured("cpu", unmeasured="There is no GPU here.", again="tileops profile m:f"))
    assert why.evidence[0].endswith("There is no GPU here.")
    assert why.command == "tileops profile m:f"
    assert verdict.rates.tflops is None


def test_more_than_the_memory_gives_came_from_l2():
    verdict = diagnose(work(io=1.06, again="tileops profile m:f"))
    assert (verdict.bound, verdict.strength) == (IO, "provisional")
    assert any("served from L2" in text for text in verdict.evidence)
    assert verdict.command == "tileops profile m:f --cold-l2"
    assert diagnose(work(io=1.03)).strength == "strong"


def test_what_was_measured_can_be_passed_and_the_datasheet_cannot():
    """A copy reaches 4,000 GB/s; a program that only reads may reach more, up to what the memory has."""
    top = Ceilings("G", "float16", BANDWIDTH, MATRIX, VECTOR, frozenset(KEYS.values()), {"bandwidth": 1.2 * BANDWIDTH})
    assert diagnose(work("measured", io=1.15, ceilings=top)).strength == "strong"
    assert "served from L2" in str(diagnose(work("measured", io=1.3, ceilings=top)).evidence)
    top = replace(top, limits={"matrix": 1.2 * MATRIX})
    assert diagnose(work("measured", matrix=1.15, ceilings=top)).bound == TENSOR
    assert diagnose(work("measured", matrix=1.3, ceilings=top)).bound == OPEN


def test_operands_that_fit_into_a_warm_l2():
    small = work(io=0.75, cold_l2=False, l2_bytes=400e6)
    assert diagnose(small).strength == "provisional"
    assert diagnose(replace(small, cold_l2=True)).strength == "strong"
    assert diagnose(replace(small, l2_bytes=100e6)).strength == "strong"


def test_more_than_a_peak_cannot_be():
    for matrix, strength in ((1.03, "strong"), (1.07, "provisional")):
        verdict = diagnose(work(matrix=matrix))
        assert (verdict.bound == TENSOR) == (matrix == 1.03)
        assert verdict.strength == strength
    assert "cannot be" in diagnose(work(matrix=1.3)).evidence[0]


def test_both_limits():
    verdict = diagnose(work(io=0.75, matrix=0.62))
    assert (verdict.bound, verdict.strength) == (TENSOR, "weak")
    assert any("both limit it" in text for text in verdict.evidence)
    assert diagnose(work(io=0.92, matrix=0.46)).bound == IO
    assert diagnose(work(io=0.56, matrix=0.75)).bound == TENSOR


def test_unknowns_are_named_and_lead_to_a_command():
    no_flops = diagnose(work(flops=None))
    assert (no_flops.bound, no_flops.strength) == (OPEN, "provisional")
    assert "flops=" in no_flops.evidence[-1]
    no_peaks = diagnose(work(ceilings=Ceilings("", "float16")))
    assert no_peaks.command == "tileops profile peaks"
    assert "the GPU's peaks" in no_peaks.evidence[-1]
    far = diagnose(work(target="python bench.py --size 8"))
    assert far.command.startswith('ncu --set full --kernel-name "regex:gemm"')
    assert far.command.endswith("python bench.py --size 8")


def test_bytes_alone_are_enough_for_io():
    assert diagnose(work(io=0.9, flops=None)).bound == IO


def test_proof():
    assert diagnose(work("measured", io=0.91)).proof
    assert not diagnose(work("measured", io=0.89)).proof
    assert not diagnose(work("datasheet", io=0.95)).proof
    assert not diagnose(work("measured", io=0.95, counted=frozenset({"bytes"}))).proof
    assert diagnose(work("measured", matrix=0.95)).nature.startswith("proof")
    waiting = work(busy=0.2, launch_ns=2 * TIME)
    assert not diagnose(waiting).proof
    assert diagnose(replace(waiting, graph_ns=TIME * 1.1)).proof
    assert not diagnose(replace(waiting, graph_ns=TIME * 4.9)).proof
    # What a replay shows is strong, also where the figures alone are weak.
    weak = work(busy=0.6, launch_ns=0.9 * TIME)
    assert diagnose(weak).strength == "weak"
    assert (diagnose(replace(weak, graph_ns=TIME)).strength, diagnose(replace(weak, graph_ns=TIME)).proof) == (
        "strong",
        True,
    )
    # What is doubtful proves nothing.
    doubted = diagnose(work("measured", io=0.91, doubts=("A module was loaded.",)))
    assert (doubted.proof, doubted.strength) == (False, "provisional")
    assert "A module was loaded." in doubted.evidence
    assert doubted.nature.startswith("attribution")


def test_a_verdict_that_flips_between_the_quartiles_is_provisional():
    verdict = diagnose(work(io=0.56, low_ns=TIME * 0.96, high_ns=TIME * 1.04))
    assert (verdict.bound, verdict.strength) == (IO, "provisional")
    assert any("another" in text for text in verdict.evidence)


def test_short_times():
    assert diagnose(work(io=0.8, gpu_ns=1_999.0, low_ns=None, high_ns=None)).strength == "provisional"


def test_rates():
    found = rates(work(io=0.5, matrix=0.25, busy=0.5))
    assert found.gbps == pytest.approx(2000)
    assert found.tflops == pytest.approx(250)
    assert (found.bandwidth, found.matrix, found.busy) == pytest.approx((0.5, 0.25, 0.5))
    assert found.intensity == pytest.approx(125)
    assert found.spread == pytest.approx((250 / 1.01, 250 / 0.99))
    # 1e12 operations in a second, 1e9 bytes in a second
    second = rates(Measured("s", gpu_ns=1e9, flops=1e12, bytes_moved=1e9))
    assert (second.tflops, second.gbps) == (1.0, 1.0)


def test_commands_name_the_kernel_as_ncu_does():
    assert '"regex:gemm"' in ncu_command("void ns::gemm<a::B, 3>(int, c::D)", "python x.py")
    assert '"regex:pool"' in ncu_command("void at::native::(anonymous namespace)::pool<float>(int)", "python x.py")
    assert '"regex:main_kernel"' in ncu_command("main_kernel", "python x.py")
    assert "--kernel-name" not in ncu_command("", "python x.py")


def test_a_program_that_is_not_known_is_a_placeholder():
    known, unknown = (diagnose(work(io=0.1, matrix=0.1, target=target)) for target in ("python script.py", ""))
    assert known.bound == unknown.bound == OPEN
    assert known.command == unknown.command
    assert known.command.endswith(" --kill yes -o gemm python script.py")
    assert "placeholder" not in known.next_step
    assert "`python script.py` is a placeholder" in unknown.next_step
    again = "tileops profile module:function"
    uncounted = diagnose(work(flops=None, bytes_moved=None, target="python x.py", again=again))
    assert uncounted.command == f"{again} --flops N --bytes N"
    assert "`module:function` is a placeholder" in uncounted.next_step
    uncounted = diagnose(work(flops=None, bytes_moved=None, target="python x.py", again="tileops profile x:f"))
    assert uncounted.command == "tileops profile x:f --flops N --bytes N"
    assert "placeholder" not in uncounted.next_step


def test_first_calls_work_comes_before_all_else():
    cold = diagnose(work(busy=0.2, launch_ns=3 * TIME, doubts=("A module was loaded.",), cold=True))
    assert (cold.bound, cold.strength) == (LAUNCH, "provisional")
    assert cold.next_step.startswith("Warm up until")
    assert not diagnose(work(busy=0.2, launch_ns=3 * TIME, doubts=("Something.",))).next_step.startswith("Warm up")


def test_a_gpu_that_idles_for_other_reasons_needs_no_counts():
    """A loop that loads data: launching takes as long as the kernels, both next to nothing of the time."""
    verdict = diagnose(work(busy=0.01, launch_ns=TIME, host_ns=2 * TIME, flops=None, again="tileops profile m:f"))
    assert verdict.bound == OPEN
    assert "launching does not explain that" in " ".join(verdict.evidence)
    assert verdict.command == "tileops profile m:f --with-stack"
    assert "1.0% of the time" in " ".join(verdict.evidence)
    assert "less than 0.1% of" in " ".join(diagnose(work(busy=1e-5)).evidence)


def test_counts_are_asked_for_where_they_can_be_given():
    part = diagnose(work(flops=None, bytes_moved=None, part="tileops profile read t.json --of mm", again="x"))
    assert part.command == "tileops profile read t.json --of mm --flops N --bytes N"
    both = diagnose(work(flops=None, ceilings=Ceilings("", "float16"), again="tileops profile m:f"))
    assert both.command == "tileops profile m:f --flops N --bytes N"
    assert "`tileops profile peaks`" in both.next_step


def test_what_is_counted_is_said_in_plain_numbers():
    whole = diagnose(work(whole=True, repeats=1, busy=0.2, launch_ns=3 * TIME, kernels=1))
    assert "The trace has no steps that could be compared" in " ".join(whole.evidence)
    assert "The trace has 1 kernel or copy, of 100.0 µs on average." in whole.evidence
    assert "A call has 50 kernels and copies, of 2.0 µs on average." in (
        diagnose(work(busy=0.2, launch_ns=3 * TIME, kernels=50)).evidence
    )
    assert "There is only one repeat." in diagnose(work(repeats=1)).evidence
    assert "There are only 3 repeats." in diagnose(work(repeats=3)).evidence


def test_ncu_never_runs_this_profiler():
    verdict = diagnose(work(io=0.1, matrix=0.1, target="python -c x", again="tileops profile m:f"))
    assert verdict.command.endswith(" python -c x")
    assert "tileops profile" not in verdict.command
    assert "compete with ncu for CUPTI" in verdict.next_step


MAYBE = st.none() | st.floats(1e-3, 1e12)


@given(
    st.builds(
        Measured, name=st.just("x"), gpu_ns=MAYBE, low_ns=MAYBE, high_ns=MAYBE, repeats=st.integers(0, 30),
        wall_ns=MAYBE, launch_ns=MAYBE, host_ns=MAYBE, kernels=st.none() | st.integers(0, 9), flops=MAYBE,
        bytes_moved=MAYBE, tensor_cores=st.none() | st.booleans(), graph_ns=MAYBE, cold_l2=st.booleans(),
        l2_bytes=MAYBE, doubts=st.lists(st.just("D."), max_size=1).map(tuple),
        ceilings=st.builds(
            Ceilings, gpu=st.just("G"), dtype=st.just("float16"), bandwidth=MAYBE, matrix=MAYBE, vector=MAYBE,
            measured=st.sets(st.sampled_from(["bandwidth", "matrix", "vector"])).map(frozenset),
        ),
    )
)  # fmt: skip
def test_every_figure_gets_a_verdict(measured):
    verdict = diagnose(measured)
    if not measured.gpu_ns:
        assert (verdict.bound, verdict.strength) == ("no verdict", "none")
        return
    assert verdict.bound in (IO, CUDA, TENSOR, LAUNCH, OPEN)
    assert verdict.strength in ("strong", "weak", "provisional")
    assert verdict.evidence
    assert verdict.next_step
    assert verdict.nature.startswith("proof" if verdict.proof else "attribution")
    assert not (verdict.proof and verdict.strength != "strong")
    if verdict.bound == OPEN:
        assert verdict.command
    # Doubts never make it stronger.
    order = ("strong", "weak", "provisional")
    doubted = diagnose(replace(measured, doubts=(*measured.doubts, "Another.")))
    assert doubted.bound == verdict.bound
    assert order.index(doubted.strength) >= order.index(verdict.strength)
