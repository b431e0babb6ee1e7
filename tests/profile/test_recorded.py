"""Traces of an H200, PyTorch 2.11: what the reader says of them, against the file's own events, added up by hand.

``benchmarks/profile_verdicts.py --save`` made them: twenty calls of one callable each, in labels.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tileops.profile import read_trace, report_on

RECORDINGS = Path(__file__).with_name("recordings")
NAMES = sorted(path.name.partition(".")[0] for path in RECORDINGS.glob("*.json.gz"))
CALLS = 20


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
