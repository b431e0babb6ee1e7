"""Trace a GEMM, write its timeline and print where the time goes.

On a GPU of compute capability 9.0 that is the production kernel. Elsewhere it is a blocked GEMM on the CPU, and a
recording of the production kernel that comes with the package is rendered as well.
"""

from __future__ import annotations

import argparse
from importlib import resources
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tileops.cli.completion import completes_folders
from tileops.cli.tables import range_table
from tileops.trace import Timeline, TraceError, trace
from tileops.trace.told import told

if TYPE_CHECKING:
    import torch

HELP = "trace a GEMM and print where its time goes"

RECORDING = "gemm_h200"
# 128 tiles of 128 x 256: one for nearly every SM.
GPU_SIZE = 2048
# 16 blocks of 32 x 32.
CPU_SIZE = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    output = parser.add_argument(
        "--output", metavar="DIR", default="debug", help="folder for the timelines (default: debug)"
    )
    completes_folders(output)


def run(arguments: argparse.Namespace) -> int:
    """Traces, writes and prints; returns the exit status."""
    console = Console(highlight=False)
    trace.enable(output=arguments.output)
    try:
        with console.status("Loading TileLang"):
            import tilelang
            import torch

            tilelang.set_log_level("WARNING")
            hopper = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
        with console.status("Compiling and running the kernel"):
            timeline, difference = _trace_on_gpu() if hopper else _trace_on_cpu()
        _show(console, timeline, "demo_gemm")
        print(f"The result differs from PyTorch's by {difference:.2g} at most.\n")
        if not hopper:
            from tileops.trace.recording import Recording

            print("No GPU of compute capability 9.0 here: a recording of the production kernel follows.\n")
            with resources.as_file(resources.files("tileops") / "recordings" / f"{RECORDING}.tltrace") as path:
                timeline = Recording.load(path).decode()
            _show(console, timeline, f"demo_{RECORDING}")
        print("Open the pages in a browser.")
    finally:
        trace.disable()
    return 0


def _trace_on_gpu() -> tuple[Timeline, float]:
    import torch

    from tileops.kernels.gemm.dense import build_gemm, default_config

    m = n = k = GPU_SIZE
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(n, k, device="cuda", dtype=torch.float16)
    kernel = build_gemm(m, n, k, "float16", traced=True)(**default_config(m, n, k))
    return _launch(kernel, a, b, a @ b.T)


def _trace_on_cpu() -> tuple[Timeline, float]:
    import torch
    from tilelang.contrib.cc import get_cplus_compiler

    from tileops.kernels.gemm.blocked_cpu import build_gemm

    if get_cplus_compiler() is None:
        raise TraceError("TileLang's CPU target needs a C++ compiler: install g++, or name one in CXX")
    m = n = k = CPU_SIZE
    a, b = torch.randn(m, k), torch.randn(k, n)
    return _launch(build_gemm(m, n, k, traced=True)(), a, b, a @ b)


def _launch(kernel: Any, a: torch.Tensor, b: torch.Tensor, expected: torch.Tensor) -> tuple[Timeline, float]:
    """The second launch's Timeline (the first one loads code and touches memory), and the result's largest error."""
    kernel(a, b)
    c, slots = kernel(a, b)
    return trace.decode(kernel, slots), float((c.float() - expected.float()).abs().max())


def _show(console: Console, timeline: Timeline, stem: str) -> None:
    """Writes a Timeline's page, says where it is, and prints its table."""
    with console.status("Writing the timeline"):
        base = trace.dump(timeline, stem=stem)
    # Not through rich, which would break a long path into lines.
    print(f"{base}.html")
    meta = timeline.meta
    print(f"  {meta.get('kernel', 'kernel')} on {meta.get('device', 'an unknown device')}: ", end="")
    grid = " x ".join(map(str, timeline.grid))
    print(f"{len(timeline.ctas)} CTAs ({grid}), {timeline.recorded:,} events, {timeline.dropped} dropped")
    console.print(range_table(timeline))
    for text in told(timeline.meta):
        print(f"  {text}")
    print()
