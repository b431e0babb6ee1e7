"""Labels and kernels of a trace as something to diagnose."""

from __future__ import annotations

import pytest

from tileops.profile import parts, report_on
from tileops.profile.structure import analyze

from .kineto import Maker


def passages(first: float = 50.0) -> Maker:
    """Six passages through a label, the first of which may take longer on the GPU; another label without kernels."""
    maker = Maker()
    for number in range(6):
        begin = 1000.0 * number
        maker.label("work", begin, 30)
        length = first if number == 0 else 50.0
        maker.launch(begin + 5, 4, begin + 20, length, "void ns::gemm<float>(int)")
        maker.launch(begin + 15, 6, begin + 25 + length, 40, "void ns::add<float>(int)")
        maker.label("host only", begin + 500, 30)
    return maker


def test_figures_of_a_label_are_those_of_a_passage(tmp_path):
    trace = passages().trace(tmp_path)
    found, left_out = parts.measured(trace, analyze(trace), "work", 1e9, 2e6, "float16")
    assert left_out == ""
    assert (found.gpu_ns, found.wall_ns, found.launch_ns, found.host_ns) == (90e3, 95e3, 10e3, 30e3)
    assert (found.repeats, found.kernels, found.kernel) == (6, 2, "void ns::gemm<float>(int)")
    assert (found.flops, found.bytes_moved, found.ceilings.gpu) == (1e9, 2e6, "H200 SXM")
    assert (found.cold, found.doubts) == (False, ())


def test_a_first_passage_that_stands_out_is_left_out_and_said(tmp_path):
    trace = passages(first=400.0).trace(tmp_path)
    found, left_out = parts.measured(trace, analyze(trace), "work", None, 2e6, "float16")
    assert (found.gpu_ns, found.high_ns, found.repeats) == (90e3, 90e3, 5)
    assert left_out == "Its first call in the profile took 440.0 µs on the GPU, the others 90.0: left out."
    assert left_out in report_on(trace, bytes_moved={"work": 2e6}).verdicts[0].evidence


def test_a_kernel_has_a_time_and_no_launching(tmp_path):
    trace = passages().trace(tmp_path)
    found, _ = parts.measured(trace, analyze(trace), "add", 1e6, None, "float16")
    assert (found.name, found.gpu_ns, found.repeats) == ("void ns::add<float>(int)", 40e3, 6)
    assert (found.launch_ns, found.host_ns, found.wall_ns) == (None, None, None)


def test_first_calls_work_inside_a_label_is_a_doubt(tmp_path):
    maker = passages()
    maker.call("cudaMalloc", 2020, 5)
    trace = maker.trace(tmp_path)
    found, _ = parts.measured(trace, analyze(trace), "work", None, 2e6, "float16")
    assert found.cold
    assert found.doubts == ("Inside it: first allocation (cudaMalloc, once).",)


def test_a_label_without_kernels_gets_no_verdict(tmp_path):
    verdict = report_on(passages().trace(tmp_path), flops={"host only": 1e6}).verdicts[0]
    assert (verdict.name, verdict.bound) == ("host only", "no verdict")
    assert "Nothing on a GPU was launched inside it" in verdict.evidence[0]


def test_the_peaks_of_gpus_that_differ_are_unknown(tmp_path):
    maker = passages()
    maker.frame["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200"}, {"id": 1, "name": "NVIDIA L40S"}]
    maker.launch(9000, 5, 9010, 5, device=1)
    trace = maker.trace(tmp_path)
    found, _ = parts.measured(trace, analyze(trace), "work", 1e9, 2e6, "float16")
    assert (found.ceilings.bandwidth, found.ceilings.matrix) == (None, None)


@pytest.mark.parametrize(("name", "size"), [("A100 40GB", 42e9), ("A100 80GB SXM", 85e9)])
def test_a_traces_memory_tells_variants_apart(tmp_path, name, size):
    maker = passages()
    maker.frame["deviceProperties"] = [{"id": 0, "name": "NVIDIA A100-SXM4-" + name[5:9], "totalGlobalMem": size}]
    trace = maker.trace(tmp_path)
    assert parts.measured(trace, analyze(trace), "work", 1e9, 2e6, "float16")[0].ceilings.gpu == name
