"""On means correct, as far as generated source and machine code show it without a GPU."""

from __future__ import annotations

import re
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tilelang.language as T

from tileops.trace import TraceError, TraceWarning, trace
from tileops.trace.sites import ATTRIBUTE, SiteTable

from . import marked, specified
from .building import (
    AMPERE,
    HOPPER,
    body,
    calls,
    joined,
    line_of,
    lowered,
    no_trace,
    source,
    target_of,
    traced_source,
    tvm,
    without_tracing,
)
from .sass import compiled_kernels

FLOAT = "float32"
SECOND = "template <int A, int B> __device__ int tl_second(int x, int y) { return y * A + x * B; }\n"
SAME = [
    *((make, HOPPER) for make in marked.PIPELINED),
    *((make, AMPERE) for make in (marked.pipelined, marked.guarded, marked.indirect, marked.scheduled)),
]


def table_of(func: Any) -> SiteTable:
    return SiteTable.from_json(str(func.attrs[ATTRIBUTE]))


def recorded_by(func: Any, arch: str = HOPPER) -> list[list[str]]:
    """The events of each recording call, in the order of the generated source: ``begin copy``, ``instant done`` …

    Of a call that chooses its site while it runs, those of the first choice.
    """
    table = table_of(func)
    names = [[f"{kind} {table.ranges[index].name}" for kind, index in site] for site in table.sites]
    sites = (re.match(r"tileops_mark\w*\(\d+,(?:\(\(.*?\)\?)?(\d+)", call) for call in calls(source(func, arch)))
    return [names[int(site[1])] for site in sites if site is not None]


# ---------------------------------------------------------------------------------------------------------------------
# What TileLang makes of a kernel stays the same


@pytest.mark.parametrize(("make", "arch"), SAME, ids=lambda value: getattr(value, "__name__", value))
def test_tracing_adds_its_calls_to_a_pipelined_kernel_and_changes_nothing(make: Callable[..., Any], arch: str) -> None:
    traced = traced_source(make(trace), arch)
    assert len(calls(traced)) > 3
    assert without_tracing(traced) == body(source(make(no_trace), arch)).rstrip()


@pytest.mark.parametrize("make", [marked.pipelined, marked.guarded, marked.persistent, marked.indirect])
def test_hopper_still_specializes_warps_around_markers(make: Callable[..., Any]) -> None:
    text = body(traced_source(make(trace)))
    assert "__launch_bounds__(256, 1)" in text  # 128 of the author's threads and as many producers
    assert "tl::tma_load" in text
    assert "mbarrier" in text
    # Of the recorders, the producer's alone is used on its side.
    names = [group.name for group in table_of(lowered(make(trace))).groups]
    producer = text[text.index("if (((int)threadIdx.x) < 128)") : text.index("} else {")]
    assert {names[int(group)] for group in re.findall(r"tileops_mark\w*\((\d+)", producer)} == {"main (producer)"}


def test_registers_are_still_reallocated_between_warpgroups() -> None:
    text = body(source(lowered(gemm(trace))))
    assert "__launch_bounds__(384, 1)" in text
    assert "tl::warpgroup_reg_dealloc<24>" in text
    assert "tl::warpgroup_reg_alloc<240>" in text


def gemm(trace: Any) -> Any:
    """256 threads, so that TileLang adds one producer warpgroup and reallocates registers."""

    @T.prim_func
    def main(a: T.Tensor((1024, 1024), "float16"), b: T.Tensor((1024, 1024), "float16"),
             c: T.Tensor((1024, 1024), "float16")):  # fmt: skip
        with T.Kernel(8, 8, threads=256) as (bx, by):
            a_tile = T.alloc_shared((128, 64), "float16")
            b_tile = T.alloc_shared((64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float")
            trace.record("first")
            T.clear(acc)
            for ki in T.Pipelined(16, num_stages=3):
                with trace.range("copy", payload=ki):
                    T.copy(a[by * 128, ki * 64], a_tile)
                    T.copy(b[ki * 64, bx * 128], b_tile)
                with trace.range("mma"):
                    T.gemm(a_tile, b_tile, acc)
            trace.record("after")
            T.copy(acc, c[by * 128, bx * 128])
            trace.record("last")

    return main


@pytest.mark.parametrize("arch", [HOPPER, AMPERE])
def test_a_range_around_a_gemm_in_a_pipelined_loop_holds_that_alone(arch: str) -> None:
    lines = [line.strip() for line in body(source(lowered(marked.indirect(trace), arch), arch)).splitlines()]
    lines = lines[lines.index("} else {") :] if arch == HOPPER else lines  # the consumer's side
    begin = next(i for i, line in enumerate(lines) if line.startswith("tileops_mark"))
    end = next(i for i in range(begin + 1, len(lines)) if lines[i].startswith("tileops_mark"))
    inside = "\n".join(lines[begin:end])
    assert "mma" in inside
    for other in ("mbarrier[", "cp_async", "tma_load", "__syncthreads"):
        assert other not in inside


def test_markers_of_a_specialized_kernel_stand_in_the_order_that_was_written() -> None:
    events = [event for events in recorded_by(lowered(marked.pipelined(trace))) for event in events]
    assert events == [
        "instant first", "begin clear", "end clear", "instant before", "begin loop",
        "begin copy", "instant between copies", "end copy",  # on the producer's side, which comes first
        "instant loop's first", "instant only in the first turn",
        "begin mma", "end mma", "instant loop's last",
        "end loop", "instant after", "begin store", "end store", "instant last",
    ]  # fmt: skip


def test_one_thread_records_a_persistent_kernel_s_tiles_on_both_sides_of_the_split() -> None:
    # Were the begin, ahead of the split, left to the thread of that number, it would be a producer's: its next turn
    # begins before the consumer has ended the last one.
    text = traced_source(marked.persistent(trace))
    assert recorded_by(lowered(marked.persistent(trace))) == [
        ["begin tile"], ["begin copy"], ["end copy"], ["begin mma"], ["end mma"], ["end tile", "begin tile"]
    ]  # fmt: skip
    opened = [call.split(",")[4:6] for call in calls(text) if call.startswith("tileops_open")]
    assert opened == [["0", "128"], ["0", "0"]]  # its own, and the producer's
    assert "threadIdx" not in "".join(calls(text))


# ---------------------------------------------------------------------------------------------------------------------
# Warnings


def warned(func: Any) -> dict[int, str]:
    """The warnings of a build, by line."""
    with target_of(HOPPER), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace.lower(func, 256)
    assert all(issubclass(one.category, TraceWarning) for one in caught)
    assert {one.filename for one in caught} <= {marked.__file__, __file__}
    lines = sorted({one.lineno for one in caught})
    return {line: "; ".join(str(one.message) for one in caught if one.lineno == line) for line in lines}


def test_ranges_that_may_not_bracket_what_was_written_are_named_with_their_lines() -> None:
    found = warned(marked.pipelined(trace))
    expected = {
        line_of(marked, 'with trace.range("clear"):', after="def pipelined"): "T.fill",
        line_of(marked, 'with trace.range("loop"):', after="def pipelined"): "T.fill",
    }
    assert found.keys() == expected.keys()
    for line, what in expected.items():
        assert what in found[line]
        assert "T.Pipelined" in found[line]


def test_markers_beside_the_guard_of_a_pipelined_loop_are_named_with_their_lines() -> None:
    found = warned(marked.guarded(trace))
    turn = line_of(marked, 'with trace.range("turn"):', after="def guarded")
    assert found.keys() == {turn}
    assert "lets through" in found[turn]
    assert "T.copy into 'a_tile' and T.copy into 'b_tile'" in found[turn]


@pytest.mark.parametrize("make", [marked.first_and_last, marked.serial_loops, marked.branches, marked.on_the_cpu])
def test_other_kernels_give_no_warning(make: Callable[..., Any]) -> None:
    assert warned(make(trace)) == {}


def test_kernels_specialized_by_hand_give_no_warning() -> None:
    assert warned(specialized_by_hand()) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        specified.build_gemm(256, 256, 256, traced=True).get_tir()


def specialized_by_hand() -> Any:
    @T.prim_func
    def main(a: T.Tensor((256, 256), "float16"), b: T.Tensor((256, 256), "float16")):
        with T.Kernel(4, 4, threads=256) as (bx, by):
            tile = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(128)
            with T.ws(1):
                with trace.group("producer", lead=128):
                    with trace.range("load"):
                        T.tma_copy(a[by * 64, bx * 64], tile, barrier=full)
                        T.barrier_arrive(full)
            with T.ws(0):
                with trace.group("consumer", lead=0):
                    with trace.range("wait"):
                        T.barrier_wait(full, 0)
                    with trace.range("store"):
                        T.copy(tile, b[by * 64, bx * 64])

    return main


# ---------------------------------------------------------------------------------------------------------------------
# The launch


def test_rows_are_numbered_by_the_blocks_that_the_author_sees() -> None:
    @T.prim_func
    def main(a: T.Tensor((64, 64), FLOAT), b: T.Tensor((64, 64), FLOAT)):
        with T.Kernel(8, 8, threads=64) as (bx, by):
            tx = T.get_thread_binding()
            T.use_swizzle(4)
            trace.record("x", payload=bx)
            b[by * 8, tx] = a[bx * 8, tx]

    text = body(traced_source(main))
    assert text.index("const dim3 blockIdx = tl::rasterization2DRow") < text.index("tileops_open")


def test_a_marker_ahead_of_the_swizzle_is_recorded_too() -> None:
    @T.prim_func
    def main(a: T.Tensor((64, 64), FLOAT), b: T.Tensor((64, 64), FLOAT)):
        with T.Kernel(8, 8, threads=64) as (bx, by):
            trace.record("early")
            T.use_swizzle(4)
            b[by * 8, T.get_thread_binding()] = a[bx * 8, T.get_thread_binding()]

    text = body(traced_source(main))
    assert text.index("tileops_open") < text.index("tileops_mark") < text.index("const dim3 blockIdx")


def test_rows_beyond_32_bits_are_addressed_with_64() -> None:
    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
        with T.Kernel(65536, 60, threads=32) as (bx, by):
            trace.record("x")
            b[bx % 64] = a[by]

    (opened,) = (call for call in calls(traced_source(main, max_events=1024)) if "open" in call)
    assert "int64_t" in opened
    assert table_of(lowered(main, max_events=1024)).line_words * 65536 * 60 > 1 << 31


def symbolic() -> Any:
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def main(a: T.Tensor((m, n), FLOAT), b: T.Tensor((m, n), FLOAT)):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 16), threads=32) as (bx, by):
            with trace.range("row", payload=by):
                b[by * 16, bx * 32 + T.get_thread_binding()] = a[by * 16, bx * 32 + T.get_thread_binding()]

    return main


def test_a_symbolic_grid_needs_no_check_around_the_recorder() -> None:
    # A bounds check would put the recorder into a block of its own, out of the markers' sight.
    lines = [line for line in body(traced_source(symbolic())).splitlines() if "tileops_open" in line]
    assert [len(line) - len(line.lstrip()) for line in lines] == [2]
    func = lowered(symbolic())
    slots = func.buffer_map[func.params[-1]]
    assert not isinstance(slots.shape[0], tvm.tirx.IntImm)


def test_an_added_parameter_takes_a_name_that_is_free() -> None:
    @T.prim_func
    def main(slots: T.Tensor((64,), FLOAT), slots_: T.Tensor((64,), FLOAT)):
        with T.Kernel(4, threads=16) as bx:
            trace.record("x")
            slots_[bx] = slots[bx]

    func = lowered(main)
    names = [func.buffer_map[param].name for param in func.params]
    assert len(set(names)) == 3
    assert names[:2] == ["slots", "slots_"]
    assert len(calls(source(func))) == 3


def test_the_author_s_own_source_is_kept() -> None:
    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
        with T.Kernel(4, threads=16) as bx:
            T.import_source("__device__ int own_function() { return 3; }")
            trace.record("x", payload=T.call_extern("int32", "own_function"))
            b[bx] = a[bx]

    text = traced_source(main)
    assert text.index("own_function() {") > text.index("namespace tileops_trace")


def test_schedules_of_specialization_are_refused() -> None:
    def schedule(a: Any) -> Any:
        from tilelang.language.warp_specialize import WSRole, WSSchedule, WSScope

        roles = [WSRole("all", warps_lo=0, warps_hi=4)]
        return WSSchedule(4, roles, [], [WSScope(WSScope.ROOT, {"all": []})])

    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
        with T.Kernel(4, threads=128) as bx:
            T.annotate_ws_schedule(schedule(a))
            trace.record("x")
            b[bx] = a[bx]

    with pytest.raises(TraceError, match="annotate_ws_schedule"):
        lowered(main)


# ---------------------------------------------------------------------------------------------------------------------
# The site table


def test_markers_side_by_side_share_a_record_and_keep_their_order() -> None:
    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
        with T.Kernel(4, threads=16) as bx:
            with trace.range("outer", payload=bx):
                with trace.range("inner", payload=bx + 1):
                    b[bx] = a[bx]
            with trace.group("other", lead=3):
                trace.record("elsewhere")
            trace.record("back")

    assert recorded_by(lowered(main)) == [
        ["begin outer"], ["begin inner"], ["end inner", "end outer"], ["instant elsewhere"], ["instant back"]
    ]  # fmt: skip


def test_the_table_says_where_markers_are_and_how_deep() -> None:
    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
        with T.Kernel(4, threads=16) as bx:
            with trace.group("g", lead=1):
                with trace.range("a"):
                    with trace.range("b", lane="other"):
                        with trace.range("c"):  # third
                            b[bx] = a[bx]
            with trace.group("g", lead=1):
                trace.record("d", payload=0.5)
            trace.dag("a", "c", shift=-1)

    table = table_of(lowered(main))
    third = line_of(__file__, "# third", after="def test_the_table_says")
    assert [(r.name, r.lane, r.depth, r.payload, r.instant) for r in table.ranges] == [
        ("a", "main", 0, "", False), ("b", "other", 0, "", False), ("c", "main", 1, "", False),
        ("d", "main", 0, "f", True),
    ]  # fmt: skip
    assert table.ranges[2].where == f"{__file__}:{third}"
    assert [(g.name, g.lead) for g in table.groups] == [("g", 1)]
    assert [(e.src, e.dst, e.shift) for e in table.edges] == [("a", "c", -1)]
    assert (table.kernel, table.target, table.max_events) == ("main", "cuda", 256)
    assert SiteTable.from_json(table.to_json()) == table


def test_too_many_markers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileops.trace.lowering.MAX_SITES", 3)
    with pytest.raises(TraceError, match=rf"^{__file__}:\d+: a kernel can hold 3 markers; this one has \d"):
        trace.lower(marked.serial_loops(trace))


def test_a_kernel_without_markers_still_records_its_ctas() -> None:
    table = table_of(lowered(marked.first_and_last(no_trace)))
    assert [(group.name, group.lead) for group in table.groups] == [("main", 0)]
    assert table.ranges == ()


# ---------------------------------------------------------------------------------------------------------------------
# Machine code


def spilled_bytes(nvcc: Path, folder: Path, text: str) -> dict[str, list[int]]:
    """What ptxas says of spills in kernels' source, by kernel: bytes stored and loaded."""
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    path = folder / "kernel.cu"
    path.write_text(text)
    command = [
        nvcc, "-cubin", "-std=c++17", "-w", "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v",
        "-I", TILELANG_TEMPLATE_PATH, "-I", CUTLASS_INCLUDE_DIR, "-o", folder / "kernel.cubin", path,
    ]  # fmt: skip
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, *parts = re.split(r"Compiling entry function '(\w+)'", done.stderr)
    return {name: [*map(int, re.findall(r"(\d+) bytes spill", said))] for name, said in zip(parts[::2], parts[1::2])}


def specified_gemm(traced: bool) -> Any:
    return specified.build_gemm(1024, 1024, 1024, traced=traced).get_tir()


def payloads() -> Any:
    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT), u: T.Tensor((64,), "uint32"), c: T.Tensor((64,), "int8"),
             h: T.Tensor((64,), "int16"), b: T.Tensor((64,), FLOAT)):  # fmt: skip
        with T.Kernel(4, threads=64) as bx:
            own = T.alloc_var("int32")
            own = 3
            real = T.alloc_var("float32")
            real = 3.0
            for i in T.serial(3):
                trace.record("loop index", payload=i)
                trace.record("negative", payload=-i)
                trace.record("uint32", payload=u[i])
                trace.record("int8", payload=c[i])
                trace.record("int16", payload=h[i])
                trace.record("bool", payload=i > 1)
                trace.record("equal", payload=i == 1)
                trace.record("float", payload=a[i])
                trace.record("cast", payload=T.cast(i, FLOAT) * 0.5)
                trace.record("variable", payload=own)
                trace.record("float variable", payload=real)
                trace.record("choice", payload=T.if_then_else(i > 1, i, bx))
                trace.record("template", payload=T.call_extern("int32", "tl_second<1, 2>", i, bx))
                trace.record("python", payload=-5)
                trace.record("large", payload=0xFFFFFFFF)
                trace.record("real", payload=1.5)
                trace.record("not a number", payload=float("nan"))
                trace.record("infinite", payload=float("-inf"))
                own += 1
            b[bx] = a[bx]
            T.import_source(SECOND)

    return main


def everything() -> Any:
    """Three dimensions of threads and of a symbolic grid, macros, an early return, hundreds of sites."""
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.macro
    def copied(a, b, at):
        with trace.range("macro", payload=at):
            b[at] = a[at]

    @T.prim_func
    def main(b: T.Tensor((m, n), FLOAT), a: T.Tensor((n,), FLOAT), c: T.Tensor((n,), FLOAT)):
        with T.Kernel(T.ceildiv(n, 16), T.ceildiv(m, 4), 2, threads=(8, 4, 2)) as (bx, by, bz):
            tx, ty, tz = T.get_thread_bindings()
            with trace.group("first", lead=0):
                trace.record("begin", payload=bx)
            with trace.group("last", lead=63):
                with trace.range("all", payload=bz):
                    copied(a, c, bx)
                    copied(a, c, by + tx)
                    for i in list(range(400)):
                        with trace.range(f"range {i}", lane=f"lane {i % 7}"):
                            b[by, i] = a[bx + tz]
                    if ty > bx:
                        trace.record("leaves")
                        T.thread_return()
                    b[bx, by] = a[bx]

    return main


def cluster() -> Any:
    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
        with T.Kernel(8, 2, threads=64, cluster_dims=2) as (bx, by):
            T.use_swizzle(4)
            with trace.range("sync", payload=T.block_rank_in_cluster()):
                T.cluster_sync()
            b[bx] = a[by]

    return main


@pytest.mark.nvcc
def test_recording_kernels_compile(compile_cubin: Callable[..., Path]) -> None:
    funcs = {
        "payloads": payloads(),
        "everything": everything(),
        "cluster": cluster(),
        "branches": marked.branches(trace),
    }
    sources = {name: traced_source(func) for name, func in funcs.items()}
    assert compiled_kernels(compile_cubin(joined(sources), "-O0")) == {*funcs}


@pytest.mark.nvcc
def test_tracing_spills_no_registers(nvcc: Path, tmp_path: Path) -> None:
    sources = {
        "by_hand": source(specified_gemm(False)),
        "by_hand_traced": source(specified_gemm(True)),
        "by_tilelang": source(gemm(no_trace)),
        "by_tilelang_traced": traced_source(gemm(trace)),
    }
    assert spilled_bytes(nvcc, tmp_path, joined(sources)) == {name: [0, 0] for name in sources}
