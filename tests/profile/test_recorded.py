"""Traces of an H200, PyTorch 2.11: what the reader says of them, against the file's own events, added up by hand.

``benchmarks/profile_verdicts.py --save`` made them: twenty calls of one callable each, in labels.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tileops.profile import ProfileError, read_trace, report_on

RECORDINGS = Path(__file__).with_name("recordings")
NAMES = sorted(path.name.partition(".")[0] for path in RECORDINGS.glob("*.json.gz"))
CALLS = 20


SIDE, ELEMENTS = 8192, 1 << 28
PRODUCT = (2 * SIDE**3, 3 * SIDE**2 * 2, "float16")
# Of one call: operations, bytes and type, as the benchmark has them, and what it must be found to be bound by. That the
# tiny tile's kernel uses tensor cores, its name does not say: 94 TFLOP/s are much for ordinary cores, and little for
# these.
KNOWN = {
    "torch_GEMM": (*PRODUCT, "tensor-core bound", "strong"),
    "TileLang_GEMM": (*PRODUCT, "tensor-core bound", "strong"),
    "TileLang_GEMM_tiny_tile": (*PRODUCT, "CUDA-core bound", "provisional"),
    "copy": (None, 2 * ELEMENTS * 2, "float16", "IO-bound", "strong"),
    "add": (ELEMENTS, 3 * ELEMENTS * 2, "float16", "IO-bound", "strong"),
    "TileLang_FMAs": (2 * (1 << 22) * 1024 * 16, 2 * (1 << 22) * 4, "float32", "CUDA-core bound", "strong"),
}


def events(name: str) -> list[dict[str, Any]]:
    with gzip.open(RECORDINGS / f"{name}.json.gz", "rt") as file:
        return json.load(file)["traceEvents"]


def test_they_are_there() -> None:
    assert NAMES == ["TileLang_FMAs", "TileLang_GEMM", "TileLang_GEMM_tiny_tile", "add", "copy", "torch_GEMM"]


@pytest.mark.parametrize("name", NAMES)
def test_kernels_and_labels_add_up(name: str) -> None:
    report = report_on(read_trace(RECORDINGS / f"{name}.json.gz"))
    on_gpu = [event for event in events(name) if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    total = sum(event["dur"] for event in on_gpu)
    assert len(on_gpu) >= CALLS
    rows = {(row.name, row.kind): row for row in report.structure.table}
    for kernel in {event["name"] for event in on_gpu}:
        alike = [event["dur"] for event in on_gpu if event["name"] == kernel]
        (row,) = (row for (found, kind), row in rows.items() if found == kernel and kind != "label")
        assert row.calls == len(alike)
        assert row.self_cuda_ns == pytest.approx(1000 * sum(alike), rel=1e-6)
    label = rows[name.replace("_", " ").replace(" tiny tile", ", tiny tile"), "label"]
    assert label.calls == CALLS
    assert label.cuda_total_ns == pytest.approx(1000 * total, rel=0.05)
    assert report.missing == []


@pytest.mark.parametrize("name", NAMES)
def test_what_dominates_is_named(name: str) -> None:
    report = report_on(read_trace(RECORDINGS / f"{name}.json.gz"))
    busy: dict[str, float] = {}
    for event in events(name):
        if event.get("cat") in ("kernel", "gpu_memcpy"):
            busy[event["name"]] = busy.get(event["name"], 0) + event["dur"]
    first = max(busy, key=lambda one: busy[one])
    assert report.answers[0].question == "What dominates?"
    assert first[:12] in report.answers[0].text
    assert f"{100 * busy[first] / sum(busy.values()):.0f}% of the time on GPUs" in report.answers[0].text


@pytest.mark.parametrize("name", NAMES)
def test_what_bounds_a_part_whose_work_is_known(name: str) -> None:
    trace = read_trace(RECORDINGS / f"{name}.json.gz")
    flops, moved, dtype, bound, strength = KNOWN[name]
    label = name.replace("_", " ").replace(" tiny tile", ", tiny tile")
    report = report_on(
        trace, flops={label: flops} if flops else None, bytes_moved={label: moved}, dtype=dtype
    )  # fmt: skip
    verdict, whole = report.verdicts
    assert (verdict.name, verdict.bound, verdict.strength) == (label, bound, strength)
    assert whole.name == "GPU 0"
    # The label's GPU time, by hand: each call's kernels, in the order of the file.
    on_gpu = [event for event in events(name) if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    a_call = sum(event["dur"] for event in on_gpu) / CALLS
    assert verdict.rates.gbps == pytest.approx(moved / a_call / 1e3, rel=0.03)
    # The kernel by a part of its name gives the same, where a call has one.
    if len(on_gpu) == CALLS and name != "copy":
        part = on_gpu[0]["name"][:20]
        (by_kernel, _) = report_on(trace, bytes_moved={part: moved}, dtype=dtype).verdicts
        assert by_kernel.name == on_gpu[0]["name"]
        assert by_kernel.rates.gbps == pytest.approx(verdict.rates.gbps, rel=0.02)


def test_a_part_that_is_not_there_or_not_alone() -> None:
    trace = read_trace(RECORDINGS / "TileLang_GEMM.json.gz")
    with pytest.raises(
        ProfileError, match=r"no label and no kernel 'softmax'; it has 'TileLang GEMM', .*'gemm_kernel'"
    ):
        report_on(trace, flops={"softmax": 1})
    with pytest.raises(ProfileError, match="'e' is part of several names"):
        report_on(trace, flops={"e": 1})
    with pytest.raises(ProfileError, match="above 0"):
        report_on(trace, flops={"gemm_kernel": -1})
    with pytest.raises(ProfileError, match="no type"):
        report_on(trace, flops={"gemm_kernel": 1}, dtype="flaot16")


def test_the_command_that_a_report_recommends_can_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    from tileops.cli.main import main

    report = report_on(read_trace(RECORDINGS / "torch_GEMM.json.gz"))
    program, *arguments = shlex.split(report.verdicts[0].command.replace(" N", " 1e12"))
    assert program == "tileops"
    assert main(arguments) == 0
    assert "torch GEMM: " in capsys.readouterr().out
