"""Verdicts on workloads whose answer is known, several times each; needs a GPU of compute capability 9.0.

    python benchmarks/profile_verdicts.py [--rounds 5] [--repeats 20] [--save DIR]

A line a workload: the verdict that it should get, those it got and how strong, and for calls of 100 µs and more how far
times in the profile are from CUDA events. First of the same calls, which have events around them while they are
profiled: that tells how well they are measured. Then of calls that follow each other without a profiler, as the report
has them: a GPU at its power limit lowers its clock for these, and each of them takes longer. --save keeps the last
round's reports and traces.
"""

from __future__ import annotations

import argparse
import collections
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tilelang
import tilelang.language as T
import torch

from tileops.kernels.gemm.dense import build_gemm, default_config
from tileops.profile import profile
from tileops.profile.columns import ON_GPU, Trace
from tileops.profile.reading import read_trace

SIDE = 8192
ELEMENTS = 1 << 28
TINY, LINKS = 1 << 12, 500
FMA_ELEMENTS, FMA_STEPS, ACCUMULATORS, THREADS = 1 << 22, 1024, 16, 256
# Tiles so small that the tensor cores wait for operands, and nothing loads ahead.
TERRIBLE = {"block_m": 64, "block_n": 16, "block_k": 32, "stages": 1, "consumers": 1, "panel": 0}
EVENTS_FROM_NS, MOST_KERNELS = 100e3, 3  # which calls are held against events
SLEEP = "spin_kernel"  # what torch.cuda._sleep launches
AHEAD_CYCLES = 4_000_000  # 2 ms at 2 GHz, for the host to hand over an event and a call


@dataclass(frozen=True)
class Workload:
    """Something to profile, and what bounds it."""

    name: str
    expected: str
    work: Callable[[], object]
    dtype: str
    flops: float | None = None
    bytes_moved: float | None = None


def fma_function(elements: int = FMA_ELEMENTS, steps: int = FMA_STEPS) -> Any:
    """Each thread multiplies and adds in 16 independent chains of float32."""

    @T.prim_func
    def fma(a: T.Tensor((elements,), "float32"), out: T.Tensor((elements,), "float32")):
        with T.Kernel(elements // THREADS, threads=THREADS) as block:
            thread = T.get_thread_binding(0)
            chain = T.alloc_local((ACCUMULATORS,), "float32")
            for i in T.unroll(ACCUMULATORS):
                chain[i] = a[block * THREADS + thread] + T.float32(0.001) * i
            for _ in T.serial(steps):
                for i in T.unroll(ACCUMULATORS):
                    chain[i] = chain[i] * T.float32(0.999) + T.float32(0.001)
            for i in T.unroll(ACCUMULATORS - 1):
                chain[0] += chain[i + 1]
            out[block * THREADS + thread] = chain[0]

    return fma


def workloads() -> list[Workload]:
    """All of them, with their operands on the GPU."""
    half = {"device": "cuda", "dtype": torch.float16}
    a, b = torch.randn(SIDE, SIDE, **half), torch.randn(SIDE, SIDE, **half)
    x, y, z = (torch.randn(ELEMENTS, **half) for _ in range(3))
    gemm = build_gemm(SIDE, SIDE, SIDE)(**default_config(SIDE, SIDE, SIDE))
    terrible = build_gemm(SIDE, SIDE, SIDE)(**TERRIBLE)
    fma = tilelang.compile(fma_function(), out_idx=[1])
    single = torch.randn(FMA_ELEMENTS, device="cuda")
    tiny = torch.zeros(TINY, device="cuda")

    def chain() -> None:
        for _ in range(LINKS):
            tiny.add_(1.0)

    product = {"flops": 2.0 * SIDE**3, "bytes_moved": 3.0 * SIDE**2 * 2, "dtype": "float16"}
    tensor, io = "tensor-core bound", "IO-bound"
    return [
        Workload("torch GEMM", tensor, lambda: a @ b.T, **product),
        Workload("TileLang GEMM", tensor, lambda: gemm(a, b), **product),
        Workload("copy", io, lambda: y.copy_(x), "float16", None, 2.0 * ELEMENTS * 2),
        Workload("add", io, lambda: torch.add(x, y, out=z), "float16", float(ELEMENTS), 3.0 * ELEMENTS * 2),
        Workload(
            "TileLang FMAs", "CUDA-core bound", lambda: fma(single), "float32",
            2.0 * FMA_ELEMENTS * FMA_STEPS * ACCUMULATORS, 2.0 * FMA_ELEMENTS * 4,
        ),
        Workload(
            f"{LINKS} tiny kernels", "launch-overhead bound", chain, "float32", float(LINKS * TINY),
            2.0 * LINKS * TINY * 4,
        ),
        Workload("TileLang GEMM, tiny tile", "inconclusive underperformance", lambda: terrible(a, b), **product),
    ]  # fmt: skip


def same_calls(workload: Workload, repeats: int) -> float:
    """The GPU time of calls in a profile over that between CUDA events around the same calls, less 1.

    A kernel that does nothing for a while, on a stream of its own, comes ahead of each call: by its end the host has
    handed over the call and both events.
    """
    side, around = torch.cuda.Stream(), []

    def between_events() -> None:
        with torch.cuda.stream(side):
            torch.cuda._sleep(AHEAD_CYCLES)
        torch.cuda.current_stream().wait_stream(side)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        workload.work()
        last.record()
        around.append((first, last))

    report = profile(
        {workload.name: between_events}, flops=workload.flops, bytes_moved=workload.bytes_moved, dtype=workload.dtype,
        repeats=repeats,
    )  # fmt: skip
    torch.cuda.synchronize()
    # The profiled calls are the last ones.
    events = [first.elapsed_time(last) * 1e6 for first, last in around[-repeats:]]
    return float(np.median(behind_sleeps(read_trace(report.trace)) / events)) - 1


def behind_sleeps(trace: Trace) -> np.ndarray:
    """From the start to the end of what ran on the GPU behind each kernel that does nothing: nanoseconds."""
    ran = trace.of(*ON_GPU)
    sleeps = np.array([SLEEP in name for name in trace.names])[ran["name"]]
    calls = [ran[first + 1 : last] for first, last in itertools.pairwise([*np.flatnonzero(sleeps), len(ran)])]
    spans = [(call["begin"] + call["duration"]).max() - call["begin"][0] if len(call) else 0 for call in calls]
    return np.array(spans)


def spread(values: list[float]) -> str:
    return f"{min(values):+.1%} to {max(values):+.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    wrong = 0
    for workload in workloads():
        found: collections.Counter[tuple[str, str]] = collections.Counter()
        from_same, from_followed, report = [], [], None
        for _ in range(arguments.rounds):
            report = profile(
                {workload.name: workload.work}, flops=workload.flops, bytes_moved=workload.bytes_moved,
                dtype=workload.dtype, repeats=arguments.repeats,
            )  # fmt: skip
            verdict, candidate = report.verdicts[0], report.candidates[0]
            found[verdict.bound, verdict.strength] += 1
            if candidate.gpu and candidate.call and candidate.gpu.median_ns >= EVENTS_FROM_NS:
                if (candidate.kernels or 0) > MOST_KERNELS:
                    continue  # the gaps between them are no kernel's time
                from_same.append(same_calls(workload, arguments.repeats))
                from_followed.append(candidate.gpu.median_ns / candidate.call.median_ns - 1)
        got = ", ".join(f"{bound} ({strength}) {count}×" for (bound, strength), count in found.most_common())
        right = {bound for bound, _ in found} == {workload.expected}
        wrong += not right
        apart = f"; from CUDA events {spread(from_followed)} following each other" if from_followed else ""
        apart += f", {spread(from_same)} around the same calls" if from_same else ""
        print(
            f"{'ok   ' if right else 'WRONG'} {workload.name}: {got}; expected {workload.expected}{apart}", flush=True
        )
        if report is not None and (arguments.save or not right):
            for text in report.verdicts[0].evidence:
                print(f"        {text}")
        if report is not None and arguments.save:
            report.save(str(arguments.save / workload.name.replace(" ", "_").replace(",", "")))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
