"""What only a GPU can show: that events arrive, in order, from the right threads, and that outputs do not change."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tileops.trace import Timeline, TraceWarning, trace
from tileops.trace.launching import traced_table

pytestmark = pytest.mark.gpu(capability=(9, 0))


def compiled(func: Any, traced: bool = True, outputs: int = 1, **options: Any) -> Any:
    import tilelang

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        finalized = trace.finalize(func, traced=traced, **options)
    return tilelang.compile(finalized, out_idx=trace.out_idx(outputs, traced))


def randoms(*shapes: tuple[int, ...], dtype: str = "float16") -> list[Any]:
    import torch

    return [torch.randn(shape, device="cuda", dtype=getattr(torch, dtype)) for shape in shapes]


def pipelined_gemm(m: int = 512, n: int = 512, k: int = 1024, stages: int = 3) -> Any:
    import tilelang.language as T

    @T.prim_func
    def gemm(a: T.Tensor((m, k), "float16"), b: T.Tensor((k, n), "float16"), c: T.Tensor((m, n), "float16")):
        with T.Kernel(n // 128, m // 128, threads=256) as (bx, by):
            a_tile = T.alloc_shared((128, 64), "float16")
            b_tile = T.alloc_shared((64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float")
            trace.record("begin")
            T.clear(acc)
            for ki in T.Pipelined(k // 64, num_stages=stages):
                with trace.range("copy", payload=ki):
                    T.copy(a[by * 128, ki * 64], a_tile)
                    T.copy(b[ki * 64, bx * 128], b_tile)
                with trace.range("mma", payload=-ki):
                    T.gemm(a_tile, b_tile, acc)
            trace.record("loop done")
            with trace.range("store"):
                T.copy(acc, c[by * 128, bx * 128])

    return gemm


def check_sane(timeline: Timeline) -> None:
    """What holds for every launch that finished and dropped nothing."""
    slices, ctas = timeline.slices, timeline.ctas
    assert timeline.dropped == 0
    assert not len(timeline.unfinished)
    assert timeline.never_fired == ()
    assert (slices.duration >= 0).all()
    assert (slices.start >= 0).all()
    assert (slices.start + slices.duration <= ctas.cycles[slices.cta]).all()
    assert (slices.start_ns >= ctas.begin_ns[slices.cta] - 1e-3).all()
    assert (slices.start_ns + slices.duration_ns <= ctas.end_ns[slices.cta] + 1e-3).all()
    assert ((ctas.ghz > 0.2) & (ctas.ghz < 2.6)).all()
    assert ((ctas.sm >= 0) & (ctas.sm < 132)).all()


@pytest.mark.parametrize("stages", [0, 2, 3])
def test_markers_around_and_inside_a_pipelined_loop_all_arrive_in_order(stages: int) -> None:
    import torch

    func = pipelined_gemm(stages=stages)
    a, b = randoms((512, 1024), (1024, 512))
    plain, traced = compiled(func, False), compiled(func)
    c, slots = traced(a, b)
    assert torch.equal(c, plain(a, b))
    timeline = trace.decode(traced, slots)
    check_sane(timeline)
    assert timeline.recorded == 16 * (1 + 16 * 4 + 1 + 2)
    # Where the loop is pipelined, TileLang moves the copies to a producer, which runs ahead.
    assert {*timeline.slices.where(name="copy").group.tolist()} == {"main" if stages == 0 else "main (producer)"}
    for cta in range(16):
        begin, done = timeline.instants.where(cta=cta).time
        copies, mmas = (timeline.slices.where(cta=cta, name=name) for name in ("copy", "mma"))
        assert copies.payload.tolist() == list(range(16))
        assert mmas.payload.tolist() == [-step for step in range(16)]
        copied, computed = (np.stack([one.start, one.start + one.duration], axis=1) for one in (copies, mmas))
        for ends in [copied, computed] if stages else [np.concatenate([copied, computed], axis=1)]:
            assert (np.diff(ends.reshape(-1)) >= 0).all()
        assert (copied[:, 0] <= computed[:, 1]).all()
        (store,) = timeline.slices.where(cta=cta, name="store").start
        assert begin <= computed.min() <= computed.max() <= done <= store


@pytest.mark.parametrize("capacity", [1, 2, 3, 17, 31, 32, 35, 36, 37])
def test_full_rows_keep_the_outputs_and_count_what_they_dropped(capacity: int) -> None:
    import torch

    func = pipelined_gemm()
    a, b = randoms((512, 1024), (1024, 512))
    traced = compiled(func, max_events=capacity)
    c, slots = traced(a, b)
    assert torch.equal(c, compiled(func, False)(a, b))
    timeline = trace.decode(traced, slots)
    assert timeline.recorded + timeline.dropped == 16 * 68
    events = np.where(timeline.rows.group == "main", 36, 32)  # the copies' are the producer's
    assert (timeline.rows.recorded >= np.minimum(capacity, events)).all()
    assert (timeline.dropped == 0) == (capacity >= 36 or bool((timeline.rows.recorded == events).all()))


def test_nothing_outside_a_row_is_written() -> None:
    """Rows that overflow leave every other word of the buffer as it was."""
    import torch

    traced = compiled(pipelined_gemm(), max_events=5)
    a, b = randoms((512, 1024), (1024, 512))
    slots = traced(a, b)[1]
    # The same memory again, filled with a pattern first: TileLang allocates the output from PyTorch's cache.
    shape, place = slots.shape, slots.data_ptr()
    slots.fill_(0x5A5A5A5A5A5A5A5A)
    del slots
    torch.cuda.synchronize()
    again = traced(a, b)[1]
    if again.data_ptr() != place or again.shape != shape:
        pytest.skip("the allocator chose another block")
    line = again.cpu().numpy()
    for group in traced_table(traced).groups:
        place = group.layout
        written = place.offset + 8 + 5 * place.record_words
        assert (line[:, written : place.end] == 0x5A5A5A5A5A5A5A5A).all()
    assert trace.decode(traced, again).rows.recorded.min() >= 5


def test_early_return_keeps_what_was_recorded() -> None:
    import tilelang.language as T

    @T.prim_func
    def func(x: T.Tensor((512,), "float32"), y: T.Tensor((512,), "float32")):
        with T.Kernel(8, threads=64) as bx:
            tx = T.get_thread_binding()
            with trace.group("g", lead=3):
                with trace.range("all"):
                    trace.record("seen", payload=-bx)
                    if bx >= 4:
                        T.thread_return()
                    y[bx * 64 + tx] = x[bx * 64 + tx] * 2.0

    traced = compiled(func)
    (x,) = randoms((512,), dtype="float32")
    y, slots = traced(x)
    timeline = trace.decode(traced, slots)
    assert (y[:256] == 2 * x[:256]).all()
    assert timeline.slices.cut.tolist() == [False] * 4 + [True] * 4
    assert timeline.instants.payload.tolist() == [-cta for cta in range(8)]
    assert timeline.dropped == 0


def test_payloads_and_threads_in_three_dimensions() -> None:
    import tilelang.language as T
    import torch

    @T.prim_func
    def func(x: T.Tensor((2, 3, 4), "int32"), y: T.Tensor((2, 3, 4), "int32")):
        with T.Kernel(4, 3, 2, threads=(8, 4, 2)) as (bx, by, bz):
            with trace.group("g", lead=37):
                trace.record("int", payload=bx + 10 * by + 100 * bz - 120)
                trace.record("float", payload=T.cast(bx, "float32") * 0.25 - 1.5)
                trace.record("big", payload=2**32 - 1)
            y[bz, by, bx] = x[bz, by, bx]

    traced = compiled(func)
    x = torch.arange(24, device="cuda", dtype=torch.int32).reshape(2, 3, 4)
    y, slots = traced(x)
    assert torch.equal(y, x)
    timeline = trace.decode(traced, slots)
    check_sane(timeline)
    assert timeline.grid == (4, 3, 2)
    ctas, marks = timeline.ctas, timeline.instants
    assert marks.where(name="int").payload.tolist() == (ctas.x + 10 * ctas.y + 100 * ctas.z - 120).tolist()
    assert marks.where(name="float").payload.tolist() == (ctas.x * 0.25 - 1.5).tolist()
    assert (marks.where(name="big").payload == 2**32 - 1).all()


def test_one_kernel_with_a_symbolic_grid_serves_several_shapes() -> None:
    import tilelang.language as T

    m = T.dynamic("m")

    @T.prim_func
    def func(x: T.Tensor((m, 64), "float32"), y: T.Tensor((m, 64), "float32")):
        with T.Kernel(T.ceildiv(m, 16), 2, threads=32) as (bx, by):
            tile = T.alloc_fragment((16, 32), "float32")
            with trace.range("copy", payload=bx * 2 + by):
                T.copy(x[bx * 16, by * 32], tile)
                T.copy(tile, y[bx * 16, by * 32])

    traced = compiled(func)
    for rows in (16, 48, 1, 333):
        (x,) = randoms((rows, 64), dtype="float32")
        y, slots = traced(x)
        assert (y == x).all()
        timeline = trace.decode(traced, slots)
        assert timeline.grid == (-(-rows // 16), 2, 1)
        expected = timeline.ctas.x * 2 + timeline.ctas.y
        assert timeline.slices.payload.tolist() == expected.tolist()


def test_run_writes_a_page_and_returns_the_output_alone(tmp_path: Any) -> None:
    import torch

    func = pipelined_gemm()
    a, b = randoms((512, 1024), (1024, 512))
    trace.enable(str(tmp_path))
    try:
        c = trace.run(compiled(func), (a, b), stem="gemm")
    finally:
        trace.disable()
    assert torch.equal(c, compiled(func, False)(a, b))
    assert (tmp_path / "gemm.html").stat().st_size > 100_000
