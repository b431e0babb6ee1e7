"""The script that docs/walkthrough.md traces, and the program that makes the page's pictures."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tileops.trace.auto.rewrite import instrument
from tileops.trace.export.html import export_html
from tileops.trace.recording import Recording

from .corpus import generated

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "pipelined_gemm.py"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return module(SCRIPT)


@pytest.mark.parametrize(
    ("step", "consumers"),
    [
        ({}, ["consumer"]),
        ({"stages": 3}, ["consumer"]),
        ({"stages": 4, "threads": 256, "block_n": 256}, ["consumer 0", "consumer 1"]),
    ],
)
def test_each_step_has_a_producer_and_its_consumers(
    step: dict[str, int], consumers: list[str], script: ModuleType
) -> None:
    made = instrument(generated(lambda: script.matmul.get_tir(4096, 4096, 4096, **step), "sm_90a"), "slots")
    assert made.table.kernel == "matmul_kernel"
    assert [group.name for group in made.table.groups] == ["producer", *consumers]
    names = {found.name for found in made.table.ranges}
    assert names >= {"acquire As, Bs", "load As, Bs", "wait As, Bs", "gemm Cl", "wait wgmma", "store C"}
    assert {(edge.src, edge.dst) for edge in made.table.edges} == {
        ("load As, Bs", "wait As, Bs"), ("gemm Cl", "acquire As, Bs")
    }  # fmt: skip


def test_the_script_never_mentions_tileops() -> None:
    assert "tileops" not in SCRIPT.read_text()


def test_the_script_says_that_it_needs_a_gpu(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--stages", "3"])
    with pytest.raises(SystemExit, match="needs an NVIDIA GPU"):
        script.main()


@pytest.mark.gpu(capability=(9, 0))
def test_one_stage_is_found_not_to_overlap(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tileops", "trace", "run", "--output", str(tmp_path / "out"), str(SCRIPT)]
    done = subprocess.run([*command, "--stages", "1"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if "TFLOP/s" in line] == ["this", "torch.matmul"]
    timeline = Recording.load(tmp_path / "out" / "matmul_kernel.tltrace").decode()
    assert (timeline.groups, timeline.dropped) == (("producer", "consumer"), 0)
    assert timeline.findings(flops=2 * 4096**3)[0].rule == "no-overlap"


def test_pictures_show_the_names_of_their_span() -> None:
    pictures = module(ROOT / "benchmarks" / "pictures.py")
    timeline = Recording.load(ROOT / "tests" / "recordings" / "gemm_one-stage.tltrace").decode()
    (row,) = timeline.ctas.where(cta=5)
    whole = pictures.cycles_of(timeline, 5, None)
    assert whole == (0, row.cycles)
    low, high = pictures.cycles_of(timeline, 5, (1.0, 3.0))
    assert high - low == pytest.approx(2000 * row.ghz, rel=0.01)
    every = {*timeline.slices.where(cta=5)["name"], *timeline.instants.where(cta=5)["name"]}
    assert {*pictures.names_in(timeline, 5, *whole)} == every
    assert {"mma", "wait"} <= {*pictures.names_in(timeline, 5, low, high)} < every


def test_a_picture_is_saved(browser: Any, tmp_path: Path) -> None:
    pictures = module(ROOT / "benchmarks" / "pictures.py")
    timeline = Recording.load(ROOT / "tests" / "recordings" / "gemm_one-stage.tltrace").decode()
    address = export_html(timeline, tmp_path / "page.html").as_uri()
    pictures.save(browser, f"{address}#cta=5&unit=ns&span=5000_9000", ["mma", "wait"], tmp_path / "out.png", 700)
    begin = (tmp_path / "out.png").read_bytes()[:20]
    assert begin[:8] == b"\x89PNG\r\n\x1a\n"
    assert 1000 < int.from_bytes(begin[16:20], "big") <= 1400
