"""Which CTAs record what was found: device code, slots and timelines agree, and mistakes are told."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tilelang
import torch
from tilelang import tvm

from tileops.trace import TraceError, capacity, trace
from tileops.trace.auto import building
from tileops.trace.auto.block import Block, Build, control_words
from tileops.trace.auto.compilation import Compilation
from tileops.trace.auto.notes import refusals_in
from tileops.trace.auto.rewrite import instrument
from tileops.trace.auto.syntax import UnreadableError
from tileops.trace.choice import Choice
from tileops.trace.sites import AUTO_ATTRIBUTE, tables_in

from ..building import joined, source
from ..sass import compiled_kernels
from . import corpus, kernels
from .test_corpus import without_tracing
from .test_mixed import halves
from .test_twin import HOPPER, lowered, without_slots

CHOICES = [
    Choice(),
    Choice("list", (0,)),
    Choice("list", (2, 3, 11, 40)),
    Choice("list", (30,)),
    *(Choice("stride", (start, -1 if stop is None else start + stop, step))
      for start, stop, step in itertools.product((0, 1, 7), (None, 1, 5, 30), (1, 2, 9))),
    *(Choice("ends", ends) for ends in itertools.product((1, 4, 12), (0, 1, 5))),
    Choice("per SM", (1,)), Choice("per SM", (9,)), Choice("per SM", (64,)),
]  # fmt: skip
COMPILER = shutil.which("g++") or shutil.which("clang++")
EIGHTH = Choice("stride", (0, -1, 8))


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_device_code_and_host_agree(tmp_path: Path) -> None:
    """What the generated expressions say of each CTA of grids of many sizes, run as C++."""
    assert COMPILER is not None
    cases = []
    for number, choice in enumerate(CHOICES):
        choice.check()
        chosen, line = choice.source("cta", "ctas")
        cases.append(
            f"for (u64 ctas = 1; ctas < 40; ++ctas) for (u64 cta = 0; cta < ctas; ++cta) if ({chosen}) {{\n"
            f'  const u64 line = {line};\n  std::printf("{number} %llu %llu %llu\\n", ctas, cta, line);\n}}'
        )
    text = "#include <cstdio>\ntypedef unsigned long long u64;\nint main() {\n" + "\n".join(cases) + "\n}\n"
    (tmp_path / "cases.cpp").write_text(text)
    subprocess.run([COMPILER, "-Wall", "-o", tmp_path / "cases", tmp_path / "cases.cpp"], check=True)
    done = subprocess.run([tmp_path / "cases"], capture_output=True, text=True, check=True)
    made = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    expected = [
        (number, ctas, cta, line)
        for number, choice in enumerate(CHOICES)
        for ctas in range(1, 40)
        for line, cta in enumerate(choice.numbers(ctas).tolist())
    ]
    assert made == expected


@pytest.mark.parametrize("choice", CHOICES)
def test_slots_have_a_line_for_each(choice: Choice) -> None:
    for ctas in range(1, 40):
        assert choice.line_count(ctas) == int(tvm.arith.Analyzer().simplify(tvm.tirx.const(0) + choice.lines(ctas)))
        assert choice.line_count(ctas) >= max(len(choice.numbers(ctas)), 1)


def test_the_source_and_its_table_know_the_choice() -> None:
    text = corpus.text("gemm", "sm_90a", "0.1.15")
    made = instrument(text, "slots", lines="room", choice=EIGHTH)
    assert made.table.choice == EIGHTH
    assert instrument(text, "slots").table.choice == Choice()
    assert without_tracing(made.source) == text
    assert "tileops_number = tileops_cta / 8;" in made.source
    recorded = next(line for line in made.source.splitlines() if "tileops_recorded =" in line)
    assert recorded.endswith("&& tileops_number < (unsigned long long)(room);")


@pytest.mark.nvcc
def test_it_compiles(compile_cubin: Callable[..., Path]) -> None:
    words, text = control_words(0x7F0000000000), corpus.text("elementwise", "sm_90a", "0.1.15")
    choices = {
        "stride": EIGHTH, "list": Choice("list", (1, 5)), "ends": Choice("ends", (4, 4)),
        "per_sm": Choice("per SM", (528,)),
    }  # fmt: skip
    sources = {
        name: instrument(text, f"{words}[0]", lines=f"{words}[1]", choice=choice).source
        for name, choice in choices.items()
    }
    assert compiled_kernels(compile_cubin(joined(sources))) == {*choices}


def test_builds_differ_by_their_choice() -> None:
    func = kernels.elementwise()
    texts = {str(building.with_slots(func, "ops", None, choice).attrs[AUTO_ATTRIBUTE]) for choice in (None, *CHOICES)}
    assert len(texts) == len(CHOICES) + 1
    with building.instrumenting("ops", None, EIGHTH):
        text = lowered(building.with_slots(func, "ops", None, EIGHTH))
    assert tables_in(text)[0].choice == EIGHTH
    assert without_slots(without_tracing(text)) == lowered(func)


def test_markers_and_what_is_found_record_the_same_ctas() -> None:
    with tvm.target.Target(HOPPER):
        func = trace.lower(halves(), ctas=slice(None, None, 8))
    text = source(func)
    assert instrument(text, "found").table.choice == EIGHTH
    assert instrument(text, "found", choice=EIGHTH).table.choice == EIGHTH
    with pytest.raises(UnreadableError, match="its own markers say which CTAs record: leave ctas out"):
        instrument(text, "found", choice=Choice())


def test_a_twin_takes_memory_for_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []

    def compile_(func: Any, out_idx: Any = None, **_: Any) -> Any:
        text = building.fill(lowered(func), "ops", None, Choice.of(slice(3, None, 100), lambda: 0))
        assert refusals_in(text) == {}
        built.append(lambda *inputs: built.append([tuple(one.shape) for one in inputs]))
        built[0].prim_func, built[0].out_idx, built[0].get_kernel_source = func, out_idx, lambda: text
        return built[0]

    monkeypatch.setattr(tilelang, "compile", compile_)
    monkeypatch.setattr("tileops.trace.capacity.cuda_device", lambda *_: "cpu")
    monkeypatch.setattr("tileops.trace.capacity.check_fits", lambda *_: None)
    twin = trace.instrument(kernels.elementwise(), out_idx=[2], ctas=slice(3, None, 100))
    assert twin.reason == ""
    _, slots = twin.record(torch.zeros(1), torch.zeros(1))
    assert twin.table.choice == Choice("stride", (3, -1, 100))
    ctas = 32 * 128
    assert slots.shape == (len(range(3, ctas, 100)), twin.table.line_words)


def test_a_block_takes_memory_for_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileops.trace.auto.block._current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr("tileops.trace.capacity.check_fits", lambda *_: None)
    monkeypatch.setattr("tileops.trace.launching.is_capturing", lambda: False)
    block = Block(trace, launch=1, ctas=[0, 5])
    text = corpus.text("doubled", "sm_90a", "0.1.15")
    behind = ("blockIdx.x", "threadIdx.x", "threadIdx.y", "threadIdx.z")
    _, recorder = block._instrumented(text, behind, torch.zeros(2, dtype=torch.int64))
    build = Build("double_kernel", Compilation(), home=0, recorders={0: recorder})
    block._before(build, (0, 16, 256, 1, 1))
    assert build.recording is not None
    given = build.recording.slots
    assert given.shape == (2, recorder.table.line_words)
    assert recorder.control.tolist() == [given.data_ptr(), 2]
    assert recorder.table.choice == Choice("list", (0, 5))


def test_mistakes_are_told() -> None:
    with pytest.raises(TraceError, match="instrument: ctas: 'one per sm' is unknown"):
        trace.instrument(kernels.doubled(), ctas="one per sm")
    with pytest.raises(TraceError, match="auto: ctas must be a list of CTAs' numbers"):
        with trace.auto(ctas=5):
            pass
    table = instrument(corpus.text("doubled", "sm_90a", "0.1.15"), "slots", choice=Choice("list", (16,))).table
    with pytest.raises(TraceError, match="ctas: the grid has CTAs 0 to 15, and none of them is chosen"):
        capacity.lines(16, table)
    assert capacity.lines(17, table) == 1
    if not torch.cuda.is_available():
        twin = trace.instrument(kernels.doubled(), ctas="one per SM")
        assert "its number of SMs is unknown: give a list or a slice" in twin.reason


@pytest.mark.nvcc
def test_ctas_that_no_launch_has_are_told_when_the_twin_is_built() -> None:
    for func in (kernels.doubled(), kernels.two_steps()):
        with pytest.raises(TraceError, match=r"ctas: the grid has CTAs 0 to (7|15), and none of them is chosen"):
            trace.instrument(func, ctas=[500], target=HOPPER)
    assert trace.instrument(kernels.gemm_dynamic(), ctas=[500], target=HOPPER, out_idx=[2]).tables  # told by a launch
