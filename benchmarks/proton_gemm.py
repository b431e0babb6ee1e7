"""What markers cost a GEMM and its host: Triton's Proton in a Gluon kernel, beside tileops in the production kernel.

    python benchmarks/proton_gemm.py [--rounds N] [--all-warps]

Both shapes of ``gemm.py``, fp16, A row-major and B transposed. The Gluon kernel has the production kernel's tiles and
stages. It is not specialized: every warp waits, multiplies and loads. It has two scopes an iteration, ``dot`` and
``load``, hence four markers; the production kernel has six in the producer and four in each consumer, neighbours among
them sharing a record. Proton records the first warp of each warpgroup, which is as many as tileops does in the
consumers; with ``--all-warps`` all of them, its default. Its buffers are large enough to drop nothing.

Times are of the kernels alone, replayed from CUDA graphs: what Proton does on the host around a launch is left out, and
counted in the seconds from a launch to the parsed trace. Needs Triton 3.6 or newer; says so and ends without.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gemm import SHAPES, Problem, interleaved, relative_error, repeats_for, spread

BUFFERS = ("shared", "global")
WARPS_A_GROUP = 4
SCOPES = 2  # an iteration
MARKER_BYTES = 8  # in Proton's buffer
LAUNCHES = 2
HOST_SAMPLES = 2


@dataclass
class Gluon:
    """The Gluon kernel for one problem, with its configuration and what it is called with."""

    problem: Problem
    config: dict[str, int]
    all_warps: bool

    def __post_init__(self) -> None:
        import proton_gemm_kernel
        import torch
        from triton.experimental.gluon import language as gl
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

        self.kernel = proton_gemm_kernel.gemm
        m, n, k = self.problem.shape
        block_m, block_n, block_k = (self.config[f"block_{axis}"] for axis in "mnk")
        self.warps = WARPS_A_GROUP * self.config["consumers"]
        rows, columns, self.tiles = -(-m // block_m), -(-n // block_n), -(-k // block_k)
        self.ctas = rows * columns
        self.c = torch.empty(m, n, dtype=self.problem.a.dtype, device="cuda")

        def descriptor(tensor: Any, block: list[int]) -> Any:
            layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16)
            return TensorDescriptor.from_tensor(tensor, block, layout)

        self.arguments = (
            descriptor(self.problem.a, [block_m, block_k]),
            descriptor(self.problem.b, [block_n, block_k]),
            descriptor(self.c, [block_m, block_n]),
            rows, columns, self.tiles, self.config["stages"], max(1, self.config["panel"]), self.warps,
        )  # fmt: skip

    @property
    def recorded_warps(self) -> list[int]:
        """The warps that Proton records."""
        return list(range(0, self.warps, 1 if self.all_warps else WARPS_A_GROUP))

    def mode(self, buffer: str) -> Any:
        """Proton's mode: a buffer with twice the room that is needed."""
        import triton.profiler as proton

        needed = MARKER_BYTES * 2 * SCOPES * self.tiles * len(self.recorded_warps)
        chosen = {"sampling_strategy": "selective", "sampling_options": ",".join(map(str, self.recorded_warps))}
        return proton.mode.Default(
            buffer_type=buffer, buffer_size=2 << (needed - 1).bit_length(), **({} if self.all_warps else chosen)
        )

    def launch(self) -> Any:
        """Compiles, if need be, and launches as Triton does; returns the compiled kernel."""
        return self.kernel[(self.ctas,)](*self.arguments, num_warps=self.warps)

    def forget(self) -> None:
        """Has the next launch load the kernel again: only then does a session of Proton learn of its scopes."""
        self.kernel.device_caches.clear()

    def bare(self, compiled: Any) -> Callable[[], None]:
        """What launches a compiled kernel and nothing else."""
        run = compiled[(self.ctas, 1, 1)]
        return lambda: run(*self.arguments)


def instrumented(gluon: Gluon, buffer: str) -> Any:
    """The kernel with Proton's markers, compiled in a session that is over when this returns."""
    import torch
    import triton.profiler as proton

    with tempfile.TemporaryDirectory() as folder:
        proton.start(f"{folder}/proton", data="trace", backend="instrumentation", mode=gluon.mode(buffer))
        try:
            gluon.forget()
            compiled = gluon.launch()
            torch.cuda.synchronize()
        finally:
            proton.finalize()
    return compiled


def lend_scratch(size: int) -> None:
    """Gives instrumented kernels one buffer of ``size`` bytes when no session does."""
    import torch
    from triton.runtime import _allocation

    scratch = torch.empty(size, dtype=torch.uint8, device="cuda")

    def allocate(wanted: int, _alignment: int, _stream: int | None) -> Any:
        assert wanted <= size, f"{wanted} bytes of scratch wanted, {size} there"
        return scratch

    _allocation.set_profile_allocator(allocate)


def host_seconds(gluon: Gluon, buffer: str, launches: int) -> tuple[float, int]:
    """Seconds from the first of some launches to the parsed trace of all, and the markers in it.

    One launch goes ahead of them, which loads the kernel; its trace is written and parsed along with theirs.
    """
    import torch
    import triton.profiler as proton

    with tempfile.TemporaryDirectory() as folder:
        proton.start(f"{folder}/proton", data="trace", backend="instrumentation", mode=gluon.mode(buffer))
        try:
            gluon.forget()
            gluon.launch()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(launches):
                gluon.launch()
        finally:
            proton.finalize()
        with max(Path(folder).iterdir(), key=lambda path: path.stat().st_size).open() as file:
            parsed = json.load(file)
        seconds = time.perf_counter() - begin
    scopes = sum(event.get("ph") == "X" for event in parsed["traceEvents"])
    return seconds, 2 * scopes


def replayed(call: Callable[[], Any], launches: int) -> Callable[[], None]:
    """What replays some launches from a CUDA graph: one call on the host, whatever a launch costs there."""
    import torch

    for _ in range(2):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    return lambda: graph.replay()


def report(shape: tuple[int, int, int], rounds: int, all_warps: bool) -> None:
    import torch

    from tileops.kernels.gemm import build_gemm, default_config
    from tileops.trace import trace

    config = default_config(*shape)
    problem = Problem.random(shape, torch.float16)
    a, b = problem.a, problem.b
    print(f"\n{'x'.join(map(str, shape))}, {config}", flush=True)

    gluon = Gluon(problem, config, all_warps)
    gluon.forget()
    plain = gluon.launch()
    exact = problem.exact()
    print(f"  the Gluon kernel's relative error {relative_error(gluon.c, exact):.1e}")
    marked: dict[str, Any] = {}
    for buffer in BUFFERS:
        try:
            gluon.c.zero_()
            marked[buffer] = instrumented(gluon, buffer)
            print(f"  with Proton's markers, {buffer} buffer, {relative_error(gluon.c, exact):.1e}", flush=True)
        except Exception as error:
            print(f"  Proton, {buffer} buffer: not measured ({type(error).__name__}: {str(error)[:200]})", flush=True)
    # Behind the sessions, since each of them ends by taking the allocator away.
    lend_scratch(max([0, *(gluon.ctas * compiled.metadata.profile_scratch_size for compiled in marked.values())]))

    stripped, traced = (build_gemm(*shape, traced=on)(**config) for on in (False, True))
    launches = repeats_for(shape)
    calls = {
        "ours, stripped": replayed(lambda: stripped(a, b), launches),
        "ours, traced": replayed(lambda: traced(a, b), launches),
        "Gluon, plain": replayed(gluon.bare(plain), launches),
        **{f"Gluon, {buffer}": replayed(gluon.bare(compiled), launches) for buffer, compiled in marked.items()},
    }
    times = {name: values / launches for name, values in interleaved(calls, rounds, 1, cold=False).items()}
    print("  microseconds, and the ratio to the kernel without markers: median (middle 80%)")
    for name, values in times.items():
        base = times["ours, stripped" if name.startswith("ours") else "Gluon, plain"]
        ratio = "" if values is base else f"   ratio {spread(values / base)}"
        print(f"    {name:16s}{spread(values)}{ratio}", flush=True)

    print("  host, from a launch to the parsed trace")
    seconds = []
    for _ in range(LAUNCHES + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        timeline = trace.decode(traced, traced(a, b)[1])
        seconds.append(time.perf_counter() - begin)
    print(f"    ours            {np.median(seconds[1:]):8.4f} s a launch, {timeline.recorded:,} events")
    for buffer in marked:
        try:
            few, many = ([host_seconds(gluon, buffer, n) for _ in range(HOST_SAMPLES)] for n in (1, 1 + LAUNCHES))
        except Exception as error:
            print(f"    Gluon, {buffer}: not measured ({type(error).__name__}: {str(error)[:200]})", flush=True)
            continue
        one, more = (np.median([sample[0] for sample in samples]) for samples in (few, many))
        events = (many[0][1] - few[0][1]) // LAUNCHES
        expected = 2 * SCOPES * gluon.tiles * len(gluon.recorded_warps) * gluon.ctas
        print(
            f"    Gluon, {buffer:9s}{(more - one) / LAUNCHES:8.4f} s a launch, {events:,} events of {expected:,} made; "
            f"{one:.4f} s with the session's end", flush=True,
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of interleaved launches (default %(default)s)")
    parser.add_argument("--all-warps", action="store_true", help="have Proton record every warp")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be at least 2")
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("this benchmark needs a Hopper GPU", file=sys.stderr)
        return 1
    try:
        import proton_gemm_kernel  # noqa: F401
        import triton
    except Exception as error:  # an older Triton fails in many ways
        print(f"Proton: not measured, this needs Triton 3.6 or newer ({type(error).__name__}: {error})")
        return 0
    print(f"{torch.cuda.get_device_name()}, Triton {triton.__version__}, {options.rounds} rounds")
    for shape in SHAPES:
        report(shape, options.rounds, options.all_warps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
