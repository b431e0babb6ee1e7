"""Instrumented twins without a GPU: what is built, what is passed on, what is told."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilelang
import tilelang.language as T
import torch
import tvm_ffi
from tilelang import tvm

from tileops.trace import TraceError, TraceWarning, trace
from tileops.trace.auto import building, twin
from tileops.trace.auto.compilation import first_error
from tileops.trace.auto.notes import meant, refusals_in
from tileops.trace.auto.rewrite import instrument
from tileops.trace.launching import site_table
from tileops.trace.recording import Recording
from tileops.trace.sites import AUTO_ATTRIBUTE, SiteTable

from . import corpus, kernels
from .kernels import KERNELS
from .running import slots
from .test_corpus import without_tracing

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def lowered(func: Any) -> str:
    target = tvm.target.Target(HOPPER)
    with target:
        return str(tilelang.lower(func, target=target).kernel_source)


def without_slots(source: str) -> str:
    """Source less the parameters that an instrumented build has."""
    for name in ("slots_1", "slots"):
        for parameter in (f"int64_t* __restrict__ {name}", f"int {name}_words"):
            source = source.replace(f", {parameter}", "").replace(f"{parameter}, ", "")
    return source


# Building -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_the_added_parameter_changes_nothing_else(name: str) -> None:
    func = KERNELS[name]()
    with building.instrumenting("ops", None):
        source = lowered(building.with_slots(func, "ops", None))
    assert without_slots(without_tracing(source)) == lowered(func)


def test_builds_differ_by_what_they_record() -> None:
    func = kernels.elementwise()
    attributes = {str(building.with_slots(func, level, events).attrs[AUTO_ATTRIBUTE])
                  for level in ("ops", "all") for events in (None, 7)}  # fmt: skip
    assert len(attributes) == 4
    assert AUTO_ATTRIBUTE not in (func.attrs or {})


def test_the_name_slots_may_be_taken() -> None:
    @T.prim_func
    def main(slots: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=16) as bx:
            b[bx] = slots[bx]

    func = building.with_slots(main, "ops", None)
    assert [func.buffer_map[param].name for param in func.params] == ["slots", "b", "slots_"]


@pytest.fixture
def users() -> list[str]:
    """A user's own callback: notes what it sees and adds a comment."""
    seen: list[str] = []

    def callback(source: Any, target: Any) -> str:
        seen.append(str(source))
        return f"// the user's\n{source}"

    tilelang.register_cuda_postproc(callback)
    return seen


def test_a_user_s_callback_runs_and_is_back(users: list[str]) -> None:
    func = kernels.elementwise()
    with building.instrumenting("ops", None):
        source = lowered(building.with_slots(func, "ops", None))
        plain = lowered(func)
    assert "the user's" in source
    assert "tileops_open" in source
    assert "the user's" in plain
    assert "tileops" not in plain
    assert "tileops_auto" in users[0]
    assert "the user's" in lowered(func)
    assert len(users) == 3


def test_without_a_user_s_callback_none_is_left() -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inside"):
            with building.instrumenting("ops", None):
                raise RuntimeError("inside")
        assert tvm_ffi.get_global_func(building.CALLBACK, allow_missing=True) is None


def test_what_cannot_be_instrumented_is_left_as_it_is() -> None:
    source = corpus.text("elementwise", "sm_90a", "0.1.15")
    at = source.rindex("{\n", 0, source.index("extern __shared__")) + 2
    broken = source[:at] + "  tileops_auto(0, (&(slots[0])));\n  B[0] = 1; B[1] = 2;\n" + source[at:]
    made = building.fill(broken, "ops", None)
    (reason,) = refusals_in(made).values()
    assert "holds more than one statement" in reason
    found = meant(broken, "add_kernel")
    assert found is not None
    assert made.partition("\n")[2] == found.source


# Twins --------------------------------------------------------------------------------------------------------------


@pytest.mark.nvcc
def test_a_twin_is_built_beside_its_kernel() -> None:
    plain = tilelang.compile(kernels.gemm_dynamic(), out_idx=[-1], target=HOPPER)
    source = plain.get_kernel_source()
    made = trace.instrument(plain, level="roles")
    assert made.reason == ""
    assert made.plain is plain
    assert made.name == "matmul"
    assert [group.name for group in made.table.groups] == ["producer", "consumer 0", "consumer 1"]
    assert site_table(made.compiled) == made.table
    assert site_table(plain) is None
    assert plain.get_kernel_source() == source
    assert tilelang.compile(kernels.gemm_dynamic(), out_idx=[-1], target=HOPPER).get_kernel_source() == source
    # From the cache, where no callback runs, it still knows its sites.
    again = trace.instrument(kernels.gemm_dynamic(), level="roles", out_idx=2, target=HOPPER)
    assert again.table == made.table


def fake_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, produced: Any) -> list[Any]:
    """Puts a fake build in the place of the one that needs a GPU; returns what it is called with."""
    made = instrument(corpus.text(name, "sm_90a", "0.1.15"), "slots")
    called: list[Any] = []

    def launch(*inputs: Any) -> Any:
        called.append(inputs)
        lines = torch.from_numpy(slots(made.source, made.table).view("int64"))
        inputs[-1].view(-1, made.table.line_words)[:1] = lines
        return produced

    def built(func: Any, *_: Any) -> Any:
        fake = _Fake(launch)
        fake.prim_func, fake.out_idx = building.with_slots(func, "ops", None), [2]
        fake.get_kernel_source = lambda: made.source
        return fake

    monkeypatch.setattr(twin, "_built", built)
    monkeypatch.setattr(twin, "grids", lambda func: [[1, 1, 1]])
    monkeypatch.setattr(twin.capacity, "cuda_device", lambda *_: "cpu")
    monkeypatch.setattr(twin.capacity, "check_fits", lambda *_: None)
    monkeypatch.setattr("tileops.trace.namespace._probe_meta", lambda *_: {"error": "no GPU"})
    trace.enable(str(tmp_path), plotlyjs="cdn", dumps=2)
    trace.disable()
    return called


class _Fake(SimpleNamespace):
    def __init__(self, launch: Any):
        super().__init__()
        self.launch = launch

    def __call__(self, *inputs: Any) -> Any:
        return self.launch(*inputs)

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _switch_back() -> Iterator[None]:
    yield
    trace.enable()
    trace.disable()


@pytest.mark.parametrize("produced", [torch.ones(3), [torch.ones(3), torch.zeros(2)], None], ids=["one", "two", "none"])
def test_a_twin_returns_what_the_kernel_returns_and_writes(
    produced: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called = fake_gpu(monkeypatch, tmp_path, "gemm", produced)
    made = trace.instrument(kernels.gemm(), out_idx=[2])
    a, b = torch.zeros(2), torch.zeros(3)
    assert made(a, b) is produced
    assert called[0][:2] == (a, b)
    assert called[0][2].shape == (made.table.line_words,)
    assert made(a, b) is produced
    with pytest.warns(TraceWarning, match="dumped 2 launches of 'matmul' and stops"):
        assert made(a, b) is produced
    assert sorted(path.name for path in tmp_path.glob("*.tltrace")) == ["matmul-2.tltrace", "matmul.tltrace"]
    meta = Recording.load(tmp_path / "matmul.tltrace").meta
    assert meta["arguments"] == "A float16[1024, 1024], B float16[1024, 1024], C float16[1024, 1024]"
    assert meta["launch"] == 0


def test_what_tracing_costs_a_twin_is_in_its_recordings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called = fake_gpu(monkeypatch, tmp_path, "gemm", None)
    made = trace.instrument(kernels.gemm(), out_idx=[2])
    a, b = torch.zeros(2), torch.zeros(3)
    launched: list[Any] = []
    plain = _Fake(lambda *inputs: launched.append(inputs))
    plain.prim_func = kernels.gemm()
    found = trace.perturbation(plain, made, (a, b), rounds=2)
    assert all(inputs[0] is a and inputs[1] is b for inputs in [*called, *launched])
    assert len(called) > 2
    assert len(launched) > 2
    assert len({inputs[2].data_ptr() for inputs in called}) == 1  # always into the same slots
    made(a, b)
    assert Recording.load(tmp_path / "matmul.tltrace").meta["perturbation"]["ratio"] == found.ratio

    with pytest.raises(TraceError, match=r"the first kernel was built for tracing: .*\.plain"):
        trace.perturbation(made, plain, (a, b))
    with pytest.raises(TraceError, match=r"the second kernel was not built for tracing: .*or pass a twin"):
        trace.perturbation(plain, plain, (a, b))
    with pytest.raises(TraceError, match="call the function and its twin first, and pass what they return"):
        trace.perturbation(tilelang.jit(kernels.gemm), made, (a, b))
    with pytest.raises(TraceError, match="rounds must be an int of at least 1"):
        trace.perturbation(plain, made, (a, b), rounds=0)
    _, filled = made.record(a, b)
    assert len(trace.decode(made, filled).slices) == len(trace.decode(made.compiled, filled).slices) > 0
    with pytest.raises(TraceError, match="call the function and its twin first"):
        trace.perturbation(plain, trace.instrument(tilelang.jit(kernels.gemm)), (a, b))


def test_one_launch_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called = fake_gpu(monkeypatch, tmp_path, "gemm", "recorded")
    plain: list[Any] = []
    monkeypatch.setattr(tilelang, "compile", lambda *_, **__: lambda *inputs: plain.append(inputs) or "plain")
    made = trace.instrument(kernels.gemm(), launch=3, stem="mine", out_idx=[2])
    assert [made(1, 2) for _ in range(4)] == ["plain", "plain", "recorded", "plain"]
    assert (len(called), plain) == (1, [(1, 2)] * 3)
    assert [path.name for path in tmp_path.glob("*.tltrace")] == ["mine.tltrace"]


def test_a_kernel_that_cannot_be_instrumented_runs_and_is_named() -> None:
    def add_one() -> Any:
        @T.prim_func
        def add_one(a: T.Tensor((8,), "float32"), b: T.Tensor((8,), "float32")):
            with T.Kernel(1) as _:
                for i in T.serial(8):
                    b[i] = a[i] + 1.0

        return add_one

    made = trace.instrument(add_one(), out_idx=[1], target="c", execution_backend="cython")
    assert made.reason == "only CUDA kernels can be instrumented; its target is c"
    values = torch.arange(8.0)
    with pytest.warns(TraceWarning, match="kernel 'add_one' runs as it is, without a timeline: only CUDA"):
        assert torch.equal(made(values), values + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(made(values), values + 1)  # said once
    with pytest.raises(TraceError, match="no build that records: only CUDA"):
        made.record(values)
    with pytest.raises(TraceError, match="no build that records: only CUDA"):
        trace.perturbation(made.plain, made, (values,))

    factory = tilelang.jit(out_idx=[1], target="c", execution_backend="cython")(add_one)
    made = trace.instrument(factory)
    with pytest.warns(TraceWarning, match="only CUDA"):
        assert torch.equal(made()(values), values + 1)
    assert made() is made()


def test_mistakes_are_told() -> None:
    with pytest.raises(TraceError, match=r"level must be one of 'roles', 'ops', 'all', got 'some'"):
        trace.instrument(kernels.gemm(), level="some")
    with pytest.raises(TraceError, match="instrument: launch must be a number of at least 1, or None, got 0"):
        trace.instrument(kernels.gemm(), launch=0)
    with pytest.raises(TraceError, match=r"instrument: max_events must be a number of at least 1, or None, got 1\.5"):
        trace.instrument(kernels.gemm(), max_events=1.5)  # type: ignore[arg-type]
    for stem in (None, "a/b"):
        with pytest.raises(TraceError, match=f"stem must be a file name without folders, got {stem!r}"):
            trace.instrument(kernels.gemm(), stem=stem)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=r"expected a tilelang.jit function, a compiled kernel or a PrimFunc, got int"):
        trace.instrument(3)
    assert twin._outputs(kernels.gemm(), np.int64(-1)) == [2]
    for wrong in (3, -4, [0, 7], [True], "x", 1.0, {2: 3}.keys()):
        with pytest.raises(TraceError, match=r"out_idx: .* is no position of kernel 'matmul', which has 3 parameters"):
            trace.instrument(kernels.gemm(), out_idx=wrong, target=HOPPER)
    with pytest.raises(
        TraceError, match=r"out_idx: leave it out; only a PrimFunc takes arguments of tilelang\.compile"
    ):
        trace.instrument(tilelang.jit(kernels.gemm), out_idx=[2])
    with pytest.raises(TraceError, match=r"instrument: out_ix: neither instrument nor tilelang\.compile takes such an"):
        trace.instrument(kernels.gemm(), out_ix=[2])


def test_a_warning_is_at_the_line_that_called() -> None:
    """Also where an eager function's twin calls the kernel's."""

    @tilelang.jit(target="c", execution_backend="cython")
    def add_one(a: T.Tensor((8,), "float32"), b: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            for i in T.serial(8):
                b[i] = a[i] + 1.0

    values, sums = torch.arange(8.0), torch.empty(8)
    with pytest.warns(TraceWarning, match="only CUDA") as told:
        trace.instrument(add_one)(values, sums)
    assert torch.equal(sums, values + 1)
    assert [Path(one.filename) for one in told] == [Path(__file__)]


def test_what_does_not_compile_at_all_is_told_by_tilelang_alone() -> None:
    made = trace.instrument(kernels.gemm(), out_idx=[2], target="cuda -arch=sm_90a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it runs as it is would not be true
        with pytest.raises(Exception, match="is not supported") as raised:
            made(1, 2)
    assert not isinstance(raised.value, TraceWarning)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("// no error: here\n\nCompilation error:\nx.cu(3): warning: w\nx.cu(7): error: e\n", "x.cu(7): error: e"),
        ("#if one\n\nCompilation error:\nnvcc fatal   : no such\n\nCommand: nvcc", "nvcc fatal   : no such"),
        ("\nNo such target.\nMore of it", "No such target."),
        (" ", "RuntimeError"),
        ('Failed! [nvcc]\nsnprintf(x, "it failed with error: %s", e);\nif (error: 1) {', "Failed! [nvcc]"),
        ("Failed! " + "x" * 600, "Failed! " + "x" * 492 + "..."),
    ],
)  # fmt: skip
def test_of_what_a_compiler_says_the_reason_is_told(said: str, told: str) -> None:
    assert first_error(RuntimeError(said)) == told


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_a_launch_is_refused() -> None:
    table = SiteTable("k", "cuda", 4, (), (), (), ())
    with pytest.raises(TraceError, match="for CUDA, and PyTorch finds no GPU here"):
        twin.capacity.cuda_device((1.0,), table)
