"""Kernels whose authors placed markers: these stay as they are, and what is found in the source stands beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilelang
import tilelang.language as T
import torch
from tilelang import tvm

from tileops.trace import TraceError, TraceWarning, trace
from tileops.trace.auto import building, mixed, syntax
from tileops.trace.auto.block import Block, Build
from tileops.trace.auto.compilation import Compilation
from tileops.trace.auto.operations import LEVELS
from tileops.trace.auto.rewrite import Instrumented, instrument
from tileops.trace.auto.syntax import UnreadableError
from tileops.trace.decode import decode_lines
from tileops.trace.launching import added_parameters, arguments, site_table
from tileops.trace.lowering import device_source
from tileops.trace.recording import Recording
from tileops.trace.sites import ATTRIBUTE, BEGIN, END, SiteTable, markers_in, tables_in

from ..building import joined, lowered, source
from ..sass import compiled_kernels
from .running import recorders, sequence, slots
from .test_corpus import ADDED, without_tracing
from .test_twin import HOPPER

HALF, FLOAT = "float16", "float32"


def gemm(m: int = 1024, n: int = 1024, k: int = 1024, tile: int = 128, block_k: int = 64) -> Any:
    """A pipelined GEMM with markers, one of them with the name of an operation that is found as well."""

    @T.prim_func
    def matmul(A: T.Tensor((m, k), HALF), B: T.Tensor((k, n), HALF), C: T.Tensor((m, n), HALF)):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            As = T.alloc_shared((tile, block_k), HALF)
            Bs = T.alloc_shared((block_k, tile), HALF)
            Cl = T.alloc_fragment((tile, tile), FLOAT)
            with trace.range("mainloop"):
                T.clear(Cl)
                for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=3):
                    T.copy(A[by * tile, ko * block_k], As)
                    T.copy(B[ko * block_k, bx * tile], Bs)
                    with trace.range("gemm Cl", lane="math", payload=ko):
                        T.gemm(As, Bs, Cl)
            with trace.range("out"):
                T.copy(Cl, C[by * tile, bx * tile])

    return matmul


def halves(n: int = 1024, swizzled: bool = False, early: bool = False) -> Any:
    """B = 2·A and C = 3·A, each in a range of its own."""

    @T.prim_func
    def scale(A: T.Tensor((n, 128), FLOAT), B: T.Tensor((n, 128), FLOAT), C: T.Tensor((n, 128), FLOAT)):
        with T.Kernel(n // 8, 8, threads=128) as (bx, by):
            if early:
                trace.record("start")
            if swizzled:
                T.use_swizzle(4)
            with trace.range("twice"):
                for i in T.Parallel(128):
                    B[bx * 8 + by, i] = A[bx * 8 + by, i] * 2.0
            with trace.range("thrice"):
                for i in T.Parallel(128):
                    C[bx * 8 + by, i] = A[bx * 8 + by, i] * 3.0

    return scale


def stepped(k: int = 512) -> Any:
    """A GEMM without a pipeline, each step in a range."""

    @T.prim_func
    def matmul(A: T.Tensor((128, k), HALF), B: T.Tensor((k, 128), HALF), C: T.Tensor((128, 128), HALF)):
        with T.Kernel(1, threads=128) as _:
            As = T.alloc_shared((128, 64), HALF)
            Bs = T.alloc_shared((64, 128), HALF)
            Cl = T.alloc_fragment((128, 128), FLOAT)
            T.clear(Cl)
            for ko in T.serial(k // 64):
                with trace.range("step", payload=ko):
                    T.copy(A[0, ko * 64], As)
                    T.copy(B[ko * 64, 0], Bs)
                    T.gemm(As, Bs, Cl)
            T.copy(Cl, C)

    return matmul


def by_hand() -> Any:
    """The project's own GEMM with its markers, finalized."""
    from tileops.kernels.gemm.dense import build_gemm

    config = {"block_m": 128, "block_n": 256, "stages": 4, "consumers": 2, "panel": 8}
    with tvm.target.Target(HOPPER):
        return build_gemm(4096, 4096, 4096, traced=True).get_tir(**config)


MARKED: dict[str, Callable[[], Any]] = {
    "gemm": lambda: lowered(gemm()),
    "by_hand": by_hand,
    "halves": lambda: lowered(halves()),
    "stepped": lambda: lowered(stepped()),
    "swizzled": lambda: lowered(halves(swizzled=True)),
}


@cache
def marked(name: str) -> tuple[Any, str]:
    """A PrimFunc that records its markers, and what TileLang generates from it."""
    func = MARKED[name]()
    return func, source(func)


@cache
def both(name: str, level: str = "ops") -> Instrumented:
    return instrument(marked(name)[1], "found", level)


def table_of(func: Any) -> SiteTable:
    return SiteTable.from_json(str(func.attrs[ATTRIBUTE]))


def calls(text: str) -> list[str]:
    """The recorder's lines inside the kernel."""
    (kernel,) = syntax.functions(text)
    lines = text.encode()[kernel.start : kernel.end].decode().splitlines(keepends=True)
    return [line for line in lines if ADDED.fullmatch(line) and "(" in line and "const" not in line]


def recorder_of(line: str) -> int:
    return int(line.partition("(")[2].partition(",")[0].partition(")")[0])


# Source -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MARKED)
def test_a_source_tells_of_its_markers(name: str) -> None:
    func, text = marked(name)
    table = table_of(func)
    assert markers_in(text) == table
    kernel = syntax.parse(text)
    found = mixed.markers_of(text, kernel)
    assert found.table == table
    assert kernel.parameters[found.slots] == "slots"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", MARKED)
def test_markers_stay_and_what_is_found_has_rows_of_its_own(name: str, level: str) -> None:
    func, text = marked(name)
    own, made = table_of(func), both(name, level)
    made.table.check()
    assert without_tracing(made.source) == without_tracing(text)
    count = len(own.groups)
    assert [line for line in calls(made.source) if recorder_of(line) < count] == calls(text)
    assert made.table.groups[:count] == own.groups
    assert made.table.ranges[: len(own.ranges)] == own.ranges
    assert made.table.sites[: len(own.sites)] == own.sites
    assert made.table.stored[: len(own.stored)] == own.stored
    assert made.table.edges[: len(own.edges)] == own.edges
    assert len({group.name for group in made.table.groups}) == len(made.table.groups)
    assert len(made.table.ranges) > len(own.ranges)
    # The rows that what is found writes to begin at its own slots, and each has one recorder.
    opened = [line for line in calls(made.source) if line.strip().startswith("tileops_open")]
    assert all("tileops_line" in line for line in opened[: -count or None])
    assert sorted(map(recorder_of, opened)) == [*range(len(opened))]
    words = made.table.line_words - own.line_words
    assert f"(unsigned long long)(found) + {8 * words}ull * tileops_number" in made.source
    assert made.source.count(device_source("recorder.cuh")) == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", MARKED)
def test_both_are_in_one_sound_timeline(name: str, level: str) -> None:
    _, text = marked(name)
    made = both(name, level)
    timeline = decode_lines(slots(made.source, made.table), made.table)
    assert timeline.dropped == 0
    assert timeline.never_fired == ()
    assert not timeline.slices["cut"].any()
    own = table_of(marked(name)[0])
    alone = decode_lines(slots(text, own), own)
    groups = {group.name for group in own.groups}
    mine = [(row.group, row.lane, row.name, row.payload, row.depth) for row in timeline.slices if row.group in groups]
    assert mine == [(row.group, row.lane, row.name, row.payload, row.depth) for row in alone.slices]
    assert len(timeline.slices) > len(mine)


def test_a_marked_gemm_s_timeline_has_both() -> None:
    made = both("gemm")
    assert [group.name for group in made.table.groups] == ["main", "producer", "consumer"]
    timeline = decode_lines(slots(made.source, made.table), made.table)
    counts = Counter((row.group, row.name) for row in timeline.slices)
    assert counts["main", "mainloop"] == counts["main", "out"] == counts["consumer", "store C"] == 1
    for group, name in (("main", "gemm Cl"), ("consumer", "gemm Cl (auto)"), ("consumer", "wait As, Bs"),
                        ("producer", "load As, Bs"), ("producer", "acquire As, Bs")):  # fmt: skip
        numbers = [row.payload for row in timeline.slices if (row.group, row.name) == (group, name)]
        assert numbers == [*range(16)]
    edges = {(edge.src, edge.dst, edge.shift) for edge in made.table.edges}
    assert edges == {("load As, Bs", "wait As, Bs", 0), ("release As, Bs", "acquire As, Bs", 3)}


def test_names_that_are_taken() -> None:
    assert [group.name for group in both("halves").table.groups] == ["main", "main (auto)"]
    own = table_of(marked("by_hand")[0])
    found = both("by_hand").table.groups[len(own.groups) :]
    assert [group.name.removesuffix(mixed.BESIDE) for group in found] == ["producer", "consumer 0", "consumer 1"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", MARKED)
def test_ranges_of_a_thread_nest(name: str, level: str) -> None:
    """What is found in a thread lies inside its author's range or outside, or holds it, as a stack shows."""
    made = both(name, level)
    threads = {thread for _, thread, _ in recorders(made.source, syntax.parse(made.source))}
    first = {recorder: (thread, more) for recorder, thread, more in recorders(made.source, syntax.parse(made.source))}
    for thread in threads:
        open_ranges: list[int] = []
        for recorder, site in sequence(made.source, thread):
            if first[recorder][0] != thread:
                continue
            for kind, number in made.table.sites[site + first[recorder][1]]:
                if kind == BEGIN:
                    open_ranges.append(number)
                elif kind == END:
                    assert open_ranges.pop() == number, made.table.ranges[number].name
        assert open_ranges == []


def test_operations_that_the_author_parts_are_two() -> None:
    plain = instrument(source(trace.strip(halves())), "found").table
    assert [r.name for r in plain.ranges] == ["store B, C"]
    own = table_of(marked("halves")[0])
    assert [r.name for r in both("halves").table.ranges[len(own.ranges) :]] == ["store B", "store C"]


@pytest.mark.parametrize("early", [False, True])
def test_blocks_have_the_numbers_that_the_author_s_rows_have(early: bool) -> None:
    """Behind T.use_swizzle a block has another number; rows that were opened ahead of it have the first one."""
    text = source(lowered(halves(swizzled=True, early=early)))
    swizzle, opened = text.index("const dim3 blockIdx ="), text.index("tileops_open(0, ")
    assert (opened < swizzle) == early
    block = next(line for line in instrument(text, "found").source.splitlines() if "tileops_block =" in line)
    assert ("rasterization" in block) != early


def test_what_does_not_fit_its_table_is_refused() -> None:
    text = marked("halves")[1]
    with pytest.raises(UnreadableError, match="its source does not tell what its markers are"):
        instrument(text.replace("// tileops.trace markers: ", "// "), "found")
    with pytest.raises(UnreadableError, match="the calls of its markers are not those that"):
        instrument(text.replace("tileops_open(0, ", "tileops_open(1, "), "found")


def test_a_ring_is_one_for_both() -> None:
    with tvm.target.Target(HOPPER):
        func = trace.lower(halves(), 100, keep="last")
    made = instrument(source(func), "found", max_events=100)
    assert made.table.keep_last
    assert {group.layout.capacity for group in made.table.groups} == {128}
    opened = [line for line in calls(made.source) if "tileops_open" in line]
    assert all(line.split(", ")[3] == "1" for line in opened)
    timeline = decode_lines(slots(made.source, made.table), made.table)
    assert [row.name for row in timeline.slices] == ["twice", "thrice", "store B", "store C"]


@pytest.mark.nvcc
def test_they_compile(compile_cubin: Callable[..., Path]) -> None:
    sources = {
        name: both(name).source.replace("(unsigned long long)(found)", "0x1000ull")
        for name in ("gemm", "by_hand", "swizzled")
    }
    with tvm.target.Target(HOPPER):
        func = trace.lower(gemm_of_two(), 64, keep="last")
    sources["ring_of_several_warpgroups"] = instrument(source(func), "0x1000ull").source
    assert "tileops_open_each" in sources["ring_of_several_warpgroups"]
    assert compiled_kernels(compile_cubin(joined(sources))) == {*sources}


def gemm_of_two() -> Any:
    """A pipelined GEMM of two consuming warpgroups, with a marker."""

    @T.prim_func
    def matmul(A: T.Tensor((512, 512), HALF), B: T.Tensor((512, 512), HALF), C: T.Tensor((512, 512), HALF)):
        with T.Kernel(4, 4, threads=256) as (bx, by):
            As = T.alloc_shared((128, 64), HALF)
            Bs = T.alloc_shared((64, 128), HALF)
            Cl = T.alloc_fragment((128, 128), FLOAT)
            T.clear(Cl)
            for ko in T.Pipelined(8, num_stages=2):
                T.copy(A[by * 128, ko * 64], As)
                T.copy(B[ko * 64, bx * 128], Bs)
                T.gemm(As, Bs, Cl)
            with trace.range("out"):
                T.copy(Cl, C[by * 128, bx * 128])

    return matmul


# Twins --------------------------------------------------------------------------------------------------------------


class _Build:
    """In place of a build that needs a GPU: both kinds of slots hold what the source would record."""

    def __init__(self, func: Any, out_idx: Any):
        self.prim_func = building.with_slots(func, "ops", None)
        self.out_idx = out_idx
        text = source(self.prim_func)
        self.source = building.fill(text, "ops", None)
        self.own = table_of(func)
        self.called: list[list[tuple[int, ...]]] = []

    def get_kernel_source(self) -> str:
        return self.source

    def __call__(self, *inputs: Any) -> Any:
        self.called.append([tuple(value.shape) for value in inputs])
        (table,) = tables_in(self.source).values()
        lines = torch.from_numpy(slots(self.source, table).view("int64"))
        words = self.own.line_words
        inputs[-1].view(1, -1)[:] = lines[:, words:]
        return ["b", "c", lines[:, :words].clone()]


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("tileops.trace.auto.twin.grids", lambda _: [[1, 1, 1]])
    monkeypatch.setattr("tileops.trace.capacity.cuda_device", lambda *_: "cpu")
    monkeypatch.setattr("tileops.trace.capacity.check_fits", lambda *_: None)
    monkeypatch.setattr("tileops.trace.namespace._probe_meta", lambda *_: {"error": "no GPU"})
    trace.enable(str(tmp_path), plotlyjs="cdn")
    trace.disable()
    return tmp_path


@pytest.mark.parametrize("finalized", [False, True])
def test_a_twin_returns_the_outputs_and_writes_both(
    finalized: bool, no_gpu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds: list[_Build] = []

    def built(func: Any, settings: Any, out_idx: Any, options: Any) -> _Build:
        builds.append(_Build(func, out_idx))
        return builds[-1]

    monkeypatch.setattr("tileops.trace.auto.twin._built", built)
    func = lowered(halves()) if finalized else halves()
    twin = trace.instrument(func, out_idx=[1, 2])
    assert twin.reason == ""
    a = torch.zeros(1024, 128)
    assert twin(a) == ["b", "c"]
    (build,) = builds
    (table,) = tables_in(build.source).values()
    assert build.called == [[(1024, 128), (table.line_words - build.own.line_words,)]]
    assert added_parameters(build.prim_func) == 2
    assert [buffer.name for buffer in build.prim_func.buffer_map.values()] == ["A", "B", "C", "slots", "slots_"]
    assert arguments(build).count(",") == 5  # three tensors of two dimensions
    (path,) = no_gpu.glob("*.tltrace")
    found = Recording.load(path)
    assert found.meta["arguments"] == arguments(build)
    names = [row.name for row in found.decode().slices]
    assert names == ["twice", "thrice", "store B", "store C"]


def test_the_outputs_of_a_build_with_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """TileLang allocates the author's slots, and not the ones that a twin passes in."""
    compiled: list[tuple[Any, Any]] = []

    def compile_(func: Any, out_idx: Any = None, **_: Any) -> Any:
        compiled.append((func, out_idx))
        raise RuntimeError("there is no GPU here")

    monkeypatch.setattr(tilelang, "compile", compile_)
    for func, out_idx in ((halves(), [1, 2]), (halves(), [-2, -1]), (lowered(halves()), [1, 2]),
                          (lowered(halves()), [-3, -2, -1])):  # fmt: skip
        twin = trace.instrument(func, out_idx=out_idx)
        assert twin.reason == "there is no GPU here"
        made, outputs = compiled.pop()
        assert outputs == [1, 2, 3]
        assert len(made.params) == 5
        with pytest.raises(RuntimeError):
            twin(torch.zeros(1024, 128))
        plain, outputs = compiled.pop()
        assert len(plain.params) == (4 if ATTRIBUTE in (func.attrs or {}) else 3)
        assert [position % len(plain.params) for position in outputs] == [*range(1, len(plain.params))]


def test_a_function_s_markers_need_no_finalize(monkeypatch: pytest.MonkeyPatch) -> None:
    """In eager style nothing could be finalized: a twin takes the markers as they are."""
    compiled: list[tuple[Any, Any]] = []

    def compile_(func: Any, out_idx: Any = None, **_: Any) -> Any:
        compiled.append((func, out_idx))
        raise RuntimeError("there is no GPU here")

    @tilelang.jit
    def add(A, B):
        N = T.const("N")
        A: T.Tensor[[N], FLOAT]
        B: T.Tensor[[N], FLOAT]
        C = T.empty((N,), FLOAT)
        with T.Kernel(N // 128, threads=128) as bx:
            with trace.range("add"):
                for i in T.Parallel(128):
                    C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]
        return C

    monkeypatch.setattr(tilelang, "compile", compile_)
    values = torch.zeros(1024)
    with pytest.raises(RuntimeError):
        trace.instrument(add)(values, values)
    (build, outputs), (plain, _) = compiled
    assert outputs == [2, 3]
    assert [r.name for r in table_of(build).ranges] == ["add"]
    assert len(build.params) - len(plain.params) == 2
    assert ATTRIBUTE not in plain.attrs


def test_what_the_kernel_itself_returns_comes_without_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    func = lowered(halves())

    class Plain:
        prim_func, adapter, out_idx = func, None, [1, 2, 3]
        execution_backend = target = target_host = pass_configs = compile_flags = None

        def __call__(self, *_: Any) -> Any:
            return ["b", "c", "slots"]

    def refuse(*_: Any) -> Any:
        raise UnreadableError("no build")

    monkeypatch.setattr("tileops.trace.auto.twin._built", refuse)
    twin = trace.instrument(Plain())
    with pytest.warns(TraceWarning, match="runs as it is, without a timeline: no build"):
        assert twin(1) == ["b", "c"]


def test_mistakes_in_markers_are_told() -> None:
    @T.prim_func
    def open_end(A: T.Tensor((64,), FLOAT)):
        with T.Kernel(1, threads=64) as _:
            trace.range_start("never ended")
            A[0] = 1.0

    with pytest.raises(TraceError, match=r"range 'never ended' is never ended"):
        trace.instrument(open_end)


@pytest.mark.nvcc
def test_a_twin_of_a_kernel_with_markers_is_built() -> None:
    twin = trace.instrument(halves(), out_idx=[1, 2], target=HOPPER)
    assert twin.reason == ""
    assert [group.name for group in twin.table.groups] == ["main", "main (auto)"]
    assert site_table(twin.compiled) == twin.table
    assert list(twin.compiled.out_idx) == [1, 2, 3]


# trace.auto() --------------------------------------------------------------------------------------------------------


def test_a_block_reads_the_author_s_slots_and_leaves_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = marked("halves")[1]
    own = table_of(marked("halves")[0])
    monkeypatch.setattr("tileops.trace.auto.block._current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr("tileops.trace.capacity.check_fits", lambda *_: None)
    monkeypatch.setattr("tileops.trace.launching.is_capturing", lambda: False)
    monkeypatch.setattr("tileops.trace.launching.device_name", lambda _: "a GPU")
    memory: dict[int, Any] = {}
    monkeypatch.setattr("tileops.trace.auto.block.tensor_at", lambda at, shape, device: memory[at].view(*shape))
    trace.enable(str(tmp_path), plotlyjs="cdn")
    trace.disable()
    block = Block(trace, launch=1)
    behind = ("blockIdx.x", "threadIdx.x", "threadIdx.y", "threadIdx.z")
    made, recorder = block._instrumented(text, behind, torch.zeros(2, dtype=torch.int64))
    build = Build("scale_kernel", Compilation(), home=0, recorders={0: recorder})
    lines = torch.from_numpy(slots(made, recorder.table).view("int64"))
    author_s = memory[4096] = lines[:, : own.line_words].contiguous()
    before = author_s.clone()
    parameters = syntax.parse(text).parameters
    given = [4096 if name == "slots" else 0 for name in parameters]
    block._before(build, (*given, 1, 128, 1, 1))
    assert build.recording is not None
    found_s = build.recording.slots
    assert found_s.shape == (1, recorder.table.line_words - own.line_words)
    found_s[:] = lines[:, own.line_words :]
    block._after(build, ())
    assert torch.equal(author_s, before)
    (path,) = tmp_path.glob("*.tltrace")
    found = Recording.load(path)
    assert [row.name for row in found.decode().slices] == ["twice", "thrice", "store B", "store C"]
    assert np.array_equal(found.lines[:, 0], before[:, 0].numpy().view("uint64"))


def test_addresses_come_as_pointers() -> None:
    import ctypes

    import tvm_ffi

    seen: list[int] = []
    name = "tileops.test.mixed.address"
    tvm_ffi.register_global_func(name, f=lambda pointer, number: seen.extend(map(mixed.address, (pointer, number))))
    try:
        tvm_ffi.get_global_func(name)(ctypes.c_void_p(0x7F00_0000_1000), 5)
    finally:
        tvm_ffi.remove_global_func(name)
    assert seen == [0x7F00_0000_1000, 5]


@pytest.mark.gpu
def test_memory_is_read_where_it_lies() -> None:
    values = torch.arange(12, device="cuda")
    there = mixed.tensor_at(values.data_ptr(), (3, 4), values.device)
    values[5] = 77
    assert there.tolist() == [[0, 1, 2, 3], [4, 77, 6, 7], [8, 9, 10, 11]]
