"""Instrumented twins without a GPU: what is built, what is passed on, what is told."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tilelang
import tilelang.language as T
import torch
import tvm_ffi
from tilelang import env, tvm

from tileops.trace import TraceError, TraceWarning, trace
from tileops.trace.auto import building, twin
from tileops.trace.auto.block import Block, Build, _ctas
from tileops.trace.auto.rewrite import instrument, refusal_in, without_placeholder
from tileops.trace.launching import site_table
from tileops.trace.sites import AUTO_ATTRIBUTE

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
    for name in ("int64_t* __restrict__ slots", "int slots_words"):
        source = source.replace(f", {name}", "").replace(f"{name}, ", "")
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
def users() -> Iterator[list[str]]:
    """A user's own callback: notes what it sees and adds a comment."""
    seen: list[str] = []

    def callback(source: Any, target: Any) -> str:
        seen.append(str(source))
        return f"// the user's\n{source}"

    tilelang.register_cuda_postproc(callback)
    yield seen
    tvm_ffi.remove_global_func(building.CALLBACK)


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
    broken = source[:at] + "  tileops_auto((&(slots[0])));\n  B[0] = 1; B[1] = 2;\n" + source[at:]
    made = building.fill(broken, "ops", None)
    assert "holds more than one statement" in refusal_in(made)
    assert made.partition("\n")[2] == without_placeholder(broken)[0]


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
    monkeypatch.setattr(twin, "grid", lambda func: [1, 1, 1])
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

    factory = tilelang.jit(out_idx=[1], target="c", execution_backend="cython")(add_one)
    made = trace.instrument(factory)
    with pytest.warns(TraceWarning, match="only CUDA"):
        assert torch.equal(made()(values), values + 1)
    assert made() is made()


def test_mistakes_are_told() -> None:
    with pytest.raises(TraceError, match=r"level must be one of 'roles', 'ops', 'all', got 'some'"):
        trace.instrument(kernels.gemm(), level="some")
    with pytest.raises(TraceError, match="launch must be a number of at least 1, or None, got 0"):
        trace.instrument(kernels.gemm(), launch=0)
    with pytest.raises(TraceError, match=r"expected a tilelang.jit function, a compiled kernel or a PrimFunc, got int"):
        trace.instrument(3)
    with pytest.raises(TraceError, match="out_idx: only a PrimFunc takes compile options"):
        trace.instrument(tilelang.jit(kernels.gemm), out_idx=[2])
    with pytest.raises(TraceError, match=r"auto: kernel must be a regular expression, got '\('"):
        with trace.auto(kernel="("):
            pass
    with pytest.raises(TraceError, match="auto: launch must be the number of a launch, 1 for the first, got 0"):
        with trace.auto(launch=0):
            pass


# trace.auto() --------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a block's builds go on where there is no GPU."""
    monkeypatch.setattr("tileops.trace.auto.block._new_control", lambda: torch.zeros(2, dtype=torch.int64))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr("tileops.trace.capacity.check_fits", lambda *_: None)
    monkeypatch.setattr("tileops.trace.auto.block.launching.is_capturing", lambda: False)


@pytest.mark.nvcc
@pytest.mark.usefixtures("no_gpu")
def test_a_block_instruments_what_is_built_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace.enable(str(tmp_path), plotlyjs="cdn")
    trace.disable()
    with trace.auto(launch=2, kernel="matmul") as block:
        assert not env.is_cache_enabled()
        kernel = tilelang.compile(kernels.gemm(), out_idx=[2], target=HOPPER)
        other = tilelang.compile(kernels.elementwise(), out_idx=[2], target=HOPPER)
    assert env.is_cache_enabled()
    assert tvm_ffi.get_global_func(building.CALLBACK, allow_missing=True) is None
    assert "tileops" in kernel.get_kernel_source()
    assert "tileops" not in other.get_kernel_source()
    assert "tileops" not in tilelang.compile(kernels.gemm(), out_idx=[2], target=HOPPER).get_kernel_source()
    (build,) = block.builds
    assert build.hooked
    host = kernel.get_host_source()
    name = next(part for part in host.split('"') if part.startswith("tileops.trace.auto.")).rpartition(".")[0]
    before, after = (tvm_ffi.get_global_func(f"{name}.{when}") for when in ("before", "after"))
    assert (
        host.index(f'"{name}.before"')
        < host.index("TVMFFIFunctionCall(matmul_kernel_packed")
        < host.index(f'"{name}.after"')
    )
    assert before(0, 0, 0, 1, 1, 256, 1, 1, 98304) is None  # the first launch: nothing is recorded
    assert build.slots is None
    assert after() is None
    before(0, 0, 0, 1, 1, 256, 1, 1, 98304)
    assert build.slots.shape == (1, build.table.line_words)
    assert build.control.tolist() == [build.slots.data_ptr(), 1]
    build.slots[:] = torch.from_numpy(slots(kernel.get_kernel_source(), build.table).view("int64"))
    monkeypatch.setattr("tileops.trace.launching.device_name", lambda _: "a GPU")
    after()
    assert build.control.tolist() == [0, 0]
    assert block.written == ["matmul_kernel"]
    assert [path.name for path in tmp_path.glob("*.tltrace")] == ["matmul_kernel.tltrace"]


def test_the_grid_is_found_among_a_launch_s_parameters() -> None:
    assert _ctas((32, 128, 128, 1, 1, 32768), True) == 32 * 128
    assert _ctas((7, 256, 1, 1), False) == 7
    assert _ctas((2, 3, 4, 64, 2, 1), False) == 24
    assert _ctas((2, 1, 1, 8, 2, 64, 1, 1), False) == 16  # clusters of two
    with pytest.raises(TraceError, match="parameters that are not known"):
        _ctas((256, 1, 1), False)


def test_a_hook_that_fails_does_not_stop_the_launch() -> None:
    table = instrument(corpus.text("doubled", "sm_90a", "0.1.15"), "slots").table
    build = Build("k", table, 1, False, torch.zeros(2, dtype=torch.int64))
    block = Block(trace, launch=1)
    with pytest.warns(TraceWarning, match="kernel 'k': no timeline: its launch has parameters that are not known"):
        block._guarded(block._before, build)(0, 1)


def test_a_block_says_what_it_left_out() -> None:
    with pytest.warns(TraceWarning, match="no kernel was built inside the block; those compiled before"):
        with trace.auto():
            pass
    if torch.cuda.is_available():
        return
    with pytest.warns(TraceWarning, match="kernel 'add_kernel' is left as it is: there is no GPU here"):
        with trace.auto():
            assert "tileops" not in lowered(kernels.elementwise())


def test_a_user_s_own_markers_are_enough() -> None:
    from ..building import target_of

    @T.prim_func
    def main(a: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=16) as bx:
            with trace.range("mine"):
                b[bx] = a[bx]

    with target_of("sm_90a"):
        func = trace.lower(main)
    with pytest.warns(TraceWarning, match="no kernel was built inside"):
        with trace.auto():
            assert lowered(func).count("tileops_open(0") == 1
