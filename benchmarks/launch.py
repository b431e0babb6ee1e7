"""From launch to Timeline with the production GEMM: time, agreement with torch.profiler, size as a file.

    python benchmarks/launch.py [--save DIR]

For each shape: what tracing costs (stripped and traced builds in turn), the kernel's duration by torch.profiler beside
its span by the Timeline, milliseconds from launch to decoded Timeline, and the recording's bytes an event. ``--save``
keeps the recordings.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = ((4096, 4096, 4096), (2048, 2048, 2048), (128, 2112, 7168))
LAUNCHES = 11


def profiled_us(run: Any) -> float:
    """The kernel's duration in one launch, by torch.profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    return sum(event.device_time_total for event in profiler.key_averages() if "gemm" in event.key)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", metavar="DIR", help="keep the recordings here")
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    import torch

    from tileops.kernels.gemm import build_gemm
    from tileops.kernels.gemm.dense import default_config
    from tileops.trace import trace

    print(torch.cuda.get_device_name())
    for m, n, k in SHAPES:
        a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        b = torch.randn(n, k, device="cuda", dtype=torch.float16)
        stripped, traced = (build_gemm(m, n, k, traced=on)(**default_config(m, n, k)) for on in (False, True))
        print(f"\n{m}x{n}x{k}: {trace.perturbation(stripped, traced, (a, b), 40)}")
        latest: list[Any] = []

        def run() -> None:
            latest[:] = traced(a, b)  # noqa: B023

        pairs = []
        for _ in range(LAUNCHES):
            duration = profiled_us(run)
            timeline = trace.decode(traced, latest[1])
            pairs.append((duration, float(np.nanmax(timeline.ctas.end_ns)) / 1e3, timeline.axis_error_ns))
        duration, span, error = np.median(pairs, axis=0)
        gaps = [duration - span for duration, span, _ in pairs]
        print(f"  by torch.profiler {duration:.2f} us, by the Timeline {span:.2f} us (axis error {error:.0f} ns)")
        print(f"  profiler less Timeline: {min(gaps):.2f} to {max(gaps):.2f} us over {LAUNCHES} launches")

        times = []
        for _ in range(LAUNCHES):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            run()
            timeline = trace.decode(traced, latest[1])
            times.append((time.perf_counter() - begin) * 1e3)
        print(f"  launch to Timeline {np.median(times):.1f} ms ({min(times):.1f} to {max(times):.1f}): {timeline}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(options.save or folder) / f"gemm_{m}x{n}x{k}.tltrace"
            size = trace.fetch(traced, latest[1]).save(path).stat().st_size
        print(f"  as a file: {size:,} bytes, {size / timeline.recorded:.2f} an event")


if __name__ == "__main__":
    main()
