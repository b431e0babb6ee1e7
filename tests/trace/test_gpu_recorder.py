"""What only a GPU can show of the recorder: known durations, full rows of both kinds, chosen CTAs, failed launches."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileops.trace import Timeline, TraceWarning, trace

pytestmark = pytest.mark.gpu(capability=(9, 0))

SPIN = r"""
static __device__ __forceinline__ long long seen_clock() {
  long long now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

// Spins for a number of cycles, and tells how far above that it got.
static __device__ __forceinline__ int spin_above(long long cycles) {
  const long long begin = seen_clock();
  long long seen;
  do {
    seen = seen_clock() - begin;
  } while (seen < cycles);
  return (int)(seen - cycles);
}
"""


def compiled(func: Any, **options: Any) -> Any:
    import tilelang

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        return tilelang.compile(trace.lower(func, **options), out_idx=trace.out_idx(1, True))


def spinning(cycles: int, times: int = 1, ctas: int = 1) -> Any:
    """Every CTA spins ``times`` times for ``cycles``, in a range ``spin``, and records what it saw above that."""
    import tilelang.language as T

    @T.prim_func
    def kernel(x: T.Tensor((1,), "float32"), y: T.Tensor((1,), "float32")):
        with T.Kernel(ctas, threads=32) as bx:
            T.import_source(SPIN)
            with trace.group("spinner", lead=0):
                above = T.alloc_var("int32")
                for i in T.serial(times):
                    with trace.range("spin", payload=i):
                        above = T.call_extern("int32", "spin_above", T.int64(cycles))
                    trace.record("above", payload=above)
                    with trace.range("after", payload=i):
                        above = T.call_extern("int32", "spin_above", T.int64(50))
            if bx == 0:
                y[0] = x[0]

    return kernel


def launched(kernel: Any) -> Timeline:
    import torch

    x = torch.ones(1, device="cuda")
    kernel(x)
    return trace.decode(kernel, kernel(x)[1])


def test_a_range_longer_than_32_bits_of_cycles_is_exact() -> None:
    cycles = (1 << 32) + 12345
    timeline = launched(compiled(spinning(cycles), max_events=64))
    (spin,) = timeline.slices.where(name="spin")
    (above,) = timeline.instants
    assert timeline.dropped == 0
    assert 0 <= spin.duration - (cycles + above.payload) < 200
    assert spin.duration_ns == pytest.approx(spin.duration / timeline.ctas["ghz"][0], rel=1e-3)


def test_clocks_that_pass_a_multiple_of_32_bits_go_on() -> None:
    # 300 spins of 10 ms or so: the lower half of the clock runs over at least once.
    timeline = launched(compiled(spinning(20_000_000, times=300), max_events=2048))
    spins = timeline.slices.where(name="spin")
    assert spins.start[-1] > 1 << 32
    assert (np.diff(spins.start) >= 20_000_000).all()
    error = spins.duration - 20_000_000 - timeline.instants.payload
    assert (error >= 0).all()
    assert np.median(error) < 200


def test_a_ring_keeps_the_last_events_and_counts_the_others() -> None:
    """The same launch with room for all, for the first and for the last events: they agree where they overlap."""
    times, capacity = 100, 64
    whole = launched(compiled(spinning(300, times, ctas=4), max_events=1024))
    first = launched(compiled(spinning(300, times, ctas=4), max_events=capacity, keep="first"))
    last = launched(compiled(spinning(300, times, ctas=4), max_events=capacity, keep="last"))
    assert whole.dropped == 0
    assert whole.recorded == 4 * 5 * times
    for timeline in (first, last):
        assert timeline.recorded + timeline.dropped == whole.recorded
        assert timeline.dropped > 0
    for cta in range(4):
        payloads = {
            name: timeline.slices.where(cta=cta, name="spin").payload.tolist()
            for name, timeline in (("whole", whole), ("first", first), ("last", last))
        }
        count = len(payloads["first"])
        assert payloads["whole"] == list(range(times))
        assert payloads["first"] == payloads["whole"][:count]
        kept = len(payloads["last"])
        assert abs(kept - count) <= 1
        assert payloads["last"] == payloads["whole"][-kept:]
    assert last.slices["duration"].min() >= 50
    assert not last.slices["cut"].any()


@pytest.mark.parametrize(
    ("ctas", "expected"),
    [
        ([5, 2, 999], [2, 5, 999]),
        (slice(None, None, 100), [*range(0, 1000, 100)]),
        (slice(990, None), [*range(990, 1000)]),
    ],
    ids=["list", "every hundredth", "last ten"],
)
def test_chosen_ctas_alone_are_recorded(ctas: Any, expected: list[int]) -> None:
    kernel = compiled(spinning(200, times=2, ctas=1000), max_events=16, ctas=ctas)
    timeline = launched(kernel)
    assert timeline.grid == (1000, 1, 1)
    assert timeline.ctas["cta"].tolist() == expected
    assert timeline.slices.where(name="spin")["cta"].tolist() == [cta for cta in expected for _ in range(2)]
    assert timeline.dropped == 0
    assert not len(timeline.unfinished)


def test_a_million_ctas_take_a_few_megabytes() -> None:
    import torch

    kernel = compiled(spinning(50, ctas=1_000_000), max_events=64, ctas="first and last wave")
    x = torch.ones(1, device="cuda")
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    assert trace.slots_bytes(kernel, [x]) < 8e6
    timeline = trace.decode(kernel, kernel(x)[1])
    assert timeline.ctas["cta"].tolist() == [*range(sms), *range(1_000_000 - sms, 1_000_000)]
    assert timeline.ctas["begin_ns"][-1] > timeline.ctas["end_ns"][0]


def test_one_cta_per_sm() -> None:
    """Also where an SM has room for more, so that the first 132 CTAs do not reach all of them."""
    import torch

    timeline = launched(compiled(spinning(20_000, ctas=2000), max_events=16, ctas="one per SM"))
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    assert len(timeline.ctas) == sms
    assert len(np.unique(timeline.ctas["sm"])) == sms


def test_outputs_of_unrecorded_ctas_are_the_same() -> None:
    import torch

    from tileops.kernels.gemm.dense import build_gemm, default_config

    a, b = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
    config = default_config(512, 512, 512)
    plain = build_gemm(512, 512, 512, traced=False)(**config)(a, b)
    assert torch.equal(build_gemm(512, 512, 512, traced=True)(**config)(a, b)[0], plain)


def test_known_answers_with_the_cost_taken_out() -> None:
    """Nested ranges: with ``compensate``, an outer range is nearer to what its inner ones and it spent."""
    import tilelang.language as T

    inner = 8

    @T.prim_func
    def kernel(x: T.Tensor((1,), "float32"), y: T.Tensor((1,), "float32")):
        with T.Kernel(4, threads=32) as bx:
            T.import_source(SPIN)
            with trace.group("spinner", lead=0):
                total = T.alloc_var("int32")
                for _ in T.serial(10):
                    total = 0
                    with trace.range("outer"):
                        for _i in T.serial(inner):
                            with trace.range("inner"):
                                total += T.call_extern("int32", "spin_above", T.int64(400))
                    trace.record("total", payload=total)
            if bx == 0:
                y[0] = x[0]

    import torch

    made = compiled(kernel, max_events=1024)
    x = torch.ones(1, device="cuda")
    made(x)
    slots = made(x)[1]
    plain, compensated = trace.decode(made, slots), trace.decode(made, slots, compensate=True)
    truth = inner * 400 + plain.instants["payload"]
    cost = max(plain.meta["probe"]["behind"]["payload"])
    over, left = (t.slices.where(name="outer").duration - truth for t in (plain, compensated))
    assert (compensated.slices.duration >= 0).all()
    assert (compensated.slices.duration <= plain.slices.duration).all()
    # An inner range's end shares its record with the next one's begin. The loop's and the spins' overhead stay.
    assert 0.5 * inner * cost <= np.median(over - left) <= (inner + 2) * cost
    assert np.abs(np.median(left)) < np.abs(np.median(over))


@pytest.mark.parametrize("fault", ["trap", "assert"])
def test_a_failed_launch_says_that_its_events_are_lost(fault: str, tmp_path: Path) -> None:
    """In a process of its own, since a failed launch takes the process's CUDA context with it."""
    body = 'T.call_extern("int32", "give_up")' if fault == "trap" else "T.device_assert(x[0] < 0)"
    program = f"""
        import tilelang, tilelang.language as T, torch
        from tileops.trace import TraceError, trace

        @T.prim_func
        def kernel(x: T.Tensor((1,), "float32"), y: T.Tensor((1,), "float32")):
            with T.Kernel(2, threads=32) as bx:
                T.import_source('#define give_up() asm volatile("trap;")\\n')
                with trace.range("before"):
                    y[0] = x[0]
                {body}

        made = tilelang.compile(trace.lower(kernel, 16), out_idx=trace.out_idx(1, True))
        try:
            trace.decode(made, made(torch.ones(1, device="cuda"))[1])
        except TraceError as error:
            print(error)
    """
    script = tmp_path / "fails.py"  # TileLang reads a kernel's source
    script.write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert "failed on the device" in done.stdout, done.stdout + done.stderr[-2000:]
    assert "what was recorded is lost" in done.stdout
