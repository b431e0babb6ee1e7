#!/usr/bin/env python3
"""Profile a TileLang kernel beside PyTorch's with torch.profiler; needs PyTorch and TileLang alone.

    python profile_template.py                        compare the two, write out/trace.json.gz
    python profile_template.py --loop                 some steps of a loop, a trace for each repetition
    python profile_template.py --memory               allocations too
    python profile_template.py --source               look for tensor cores in the source that TileLang generated
    python profile_template.py --plain                the calls alone, for a profiler that is started from outside

To profile your own work, change three places: `build_tilelang`, `make_work` and `step_of_the_loop`.

Without a GPU the kernel is TileLang's for the CPU target, if there is a C++ compiler, and what stays unknown is said.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import shutil
import socket
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

TILELANG, TORCH = "tilelang_kernel", "torch_ref"
# Tiles of the GPU's kernel: 96 KiB of shared memory, which every GPU since Ampere has for a block.
BLOCK_M, BLOCK_N, BLOCK_K, STAGES = 128, 128, 64, 3
CPU_BLOCK = 32
# What must not be in a measured region: it belongs to the first call.
FIRST_CALL = re.compile(r"cuModuleLoad|cuLibraryLoad|cudaLibraryLoad|cuLink|hipModuleLoad|(cuda|hip)Malloc|cuMemAlloc")
# How the profiler names Python's frames.
PYTHON = re.compile(r".+\(\d+\): |<built-in |nn\.Module: ")
# Marks of the tensor cores' path, and of what usually stands beside it. TileLang hides most behind its own headers.
MARKS = {
    "tensor cores": r"wgmma|tcgen05|mma_sync|mma\.sync|ldmatrix|tl::gemm_|tl_templates/\w+/gemm|__builtin_amdgcn_mfma",
    "TMA": r"tma_load|tma_store|CUtensorMap",
    "mbarriers": r"mbarrier|\bBarrier\b",
    "asynchronous copies": r"cp_async",
    "warps that only load": r"warpgroup_reg_(?:de)?alloc|setmaxnreg",
}


@dataclass
class Work:
    """What is compared: callables without arguments by label, and what a call of each needs at least."""

    candidates: dict[str, Callable[[], torch.Tensor]]
    kernel: Any  # TileLang's, None where it cannot be built
    operands: tuple[torch.Tensor, torch.Tensor]
    flops: float
    bytes_moved: float
    build_s: float
    first_s: dict[str, float]  # the first call of each, until the device was done


def cpu_function(m: int, n: int, k: int, dtype: str) -> Any:
    """C = A·B for TileLang's CPU target, which has neither shared memory nor T.gemm."""
    import tilelang.language as T

    @T.prim_func
    def on_cpu(a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype), c: T.Tensor((m, n), dtype)):
        with T.Kernel(n // CPU_BLOCK, m // CPU_BLOCK, threads=1) as (bx, by):
            a_tile = T.alloc_local((CPU_BLOCK, CPU_BLOCK), dtype)
            b_tile = T.alloc_local((CPU_BLOCK, CPU_BLOCK), dtype)
            c_tile = T.alloc_local((CPU_BLOCK, CPU_BLOCK), dtype)
            T.clear(c_tile)
            for step in T.serial(k // CPU_BLOCK):
                T.copy(a[by * CPU_BLOCK, step * CPU_BLOCK], a_tile)
                T.copy(b[step * CPU_BLOCK, bx * CPU_BLOCK], b_tile)
                for i, p, j in T.grid(CPU_BLOCK, CPU_BLOCK, CPU_BLOCK):
                    c_tile[i, j] += a_tile[i, p] * b_tile[p, j]
            T.copy(c_tile, c[by * CPU_BLOCK, bx * CPU_BLOCK])

    return on_cpu


def gpu_function(m: int, n: int, k: int, dtype: str) -> Any:
    """C = A·B for a GPU, summed in float32."""
    import tilelang.language as T

    @T.prim_func
    def on_gpu(a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype), c: T.Tensor((m, n), dtype)):
        with T.Kernel(n // BLOCK_N, m // BLOCK_M, threads=256) as (bx, by):
            a_tile = T.alloc_shared((BLOCK_M, BLOCK_K), dtype)
            b_tile = T.alloc_shared((BLOCK_K, BLOCK_N), dtype)
            c_tile = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.clear(c_tile)
            for step in T.Pipelined(k // BLOCK_K, num_stages=STAGES):
                T.copy(a[by * BLOCK_M, step * BLOCK_K], a_tile)
                T.copy(b[step * BLOCK_K, bx * BLOCK_N], b_tile)
                T.gemm(a_tile, b_tile, c_tile)
            T.copy(c_tile, c[by * BLOCK_M, bx * BLOCK_N])

    return on_gpu


def build_tilelang(m: int, n: int, k: int, dtype: str, device: str) -> Any:
    """Builds the kernel, ready to be called as `c = kernel(a, b)`."""
    import tilelang

    if device == "cpu":
        function = cpu_function(m, n, k, dtype)
        return tilelang.compile(function, out_idx=[2], target="c", execution_backend="cython")
    return tilelang.compile(gpu_function(m, n, k, dtype), out_idx=[2])


def make_work(m: int, n: int, k: int, dtype: str, device: str) -> Work:
    """Operands and candidates, the TileLang kernel built and its result checked against PyTorch's."""
    kind = getattr(torch, dtype)
    a, b = torch.randn(m, k, dtype=kind, device=device), torch.randn(k, n, dtype=kind, device=device)
    candidates: dict[str, Callable[[], torch.Tensor]] = {TORCH: lambda: a @ b}
    began, kernel = time.perf_counter(), None
    if device == "cuda" or os.environ.get("CXX") or any(map(shutil.which, ("g++", "clang++", "c++"))):
        kernel = build_tilelang(m, n, k, dtype, device)
        candidates = {TILELANG: lambda: kernel(a, b), **candidates}
    build_s = time.perf_counter() - began
    results, first_s = {}, {}
    for label, call in candidates.items():
        began = time.perf_counter()
        results[label] = call()
        wait(device)
        first_s[label] = time.perf_counter() - began
    if kernel is not None:
        # The error of a sum of k products in float32, rounded to the type once.
        tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-4}[dtype]
        torch.testing.assert_close(results[TILELANG], results[TORCH], rtol=tolerance, atol=tolerance * k**0.5)
    bytes_moved = float((m * k + k * n + m * n) * a.element_size())
    return Work(candidates, kernel, (a, b), 2.0 * m * n * k, bytes_moved, build_s, first_s)


def step_of_the_loop(work: Work) -> torch.Tensor:
    """One step, labelled inside: change it to yours, a training step or a forward pass."""
    label = TILELANG if work.kernel is not None else TORCH
    with record_function("forward_pass"):
        with record_function(label):
            hidden = work.candidates[label]()
        with record_function("attention_block"):
            return torch.softmax(hidden, -1) @ work.operands[1].T


def candidates() -> dict[str, Callable[[], torch.Tensor]]:
    """The candidates alone, for `tileops profile profile_template.py:candidates`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    side = default_size(device)
    return make_work(side, side, side, default_dtype(device), device).candidates


def default_size(device: str) -> int:
    return 4096 if device == "cuda" else 128


def default_dtype(device: str) -> str:
    return "float16" if device == "cuda" else "float32"


def wait(device: str) -> None:
    """Until the device has done all it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def time_alone(call: Callable[[], object], device: str, calls: int) -> float:
    """Seconds a call takes when calls follow each other, without a profiler."""
    if device == "cuda":
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(calls):
            call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1e3 / calls
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls


def activities(device: str) -> list[ProfilerActivity]:
    """CPU and, where there is a GPU, CUDA: without the latter a trace has the host's side only."""
    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]


def recording(arguments: argparse.Namespace) -> dict[str, bool]:
    """The profiler's options for memory: what is allocated, by operators on which shapes, called from which line."""
    return dict.fromkeys(("profile_memory", "record_shapes", "with_stack"), arguments.memory)


def on_gpu(event: Any) -> bool:
    return event.device_type == DeviceType.CUDA


def is_kernel(event: Any) -> bool:
    """Whether an event is work on the GPU, and not the shadow of a label on its timeline."""
    annotation = getattr(event, "is_user_annotation", False) or event.name.startswith("ProfilerStep")
    return on_gpu(event) and not annotation and event.name not in (TILELANG, TORCH, "forward_pass", "attention_block")


def durations(prof: Any, label: str, gpu: bool) -> list[float]:
    """Seconds of each passage of a label: on the GPU from its first kernel to its last, else on the host."""
    found = [event for event in prof.events() if event.name == label and on_gpu(event) == gpu]
    found.sort(key=lambda event: event.time_range.start)
    return [event.time_range.elapsed_us() / 1e6 for event in found]


def print_table(prof: Any, arguments: argparse.Namespace, device: str) -> None:
    key = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    print(f"\nSummary table, sorted by {key}")
    averages = prof.key_averages()
    if arguments.memory:  # which needs Python's frames, and these would fill the table
        for row in [row for row in averages if PYTHON.match(row.key)]:
            averages.remove(row)
    print(averages.table(sort_by=key, row_limit=arguments.rows))
    if arguments.memory:
        print("Python's frames were recorded: times on the host are longer than without --memory")
        key = "self_cuda_memory_usage" if device == "cuda" else "self_cpu_memory_usage"
        print(f"\nAllocations, sorted by {key}")
        print(averages.table(sort_by=key, row_limit=arguments.rows))


def print_doubts(prof: Any, labels: list[str], device: str) -> None:
    """What says that the warm-up was not enough, and which activity is missing."""
    loads = sorted({event.name for event in prof.events() if FIRST_CALL.search(event.name)})
    if loads:
        print(f"DOUBT: {', '.join(loads)} inside the trace: work of a first call. Warm up longer, then profile again.")
    gpu = any(map(on_gpu, prof.events()))
    for label in labels:
        taken = durations(prof, label, gpu)
        if len(taken) > 2 and taken[0] > 1.5 * statistics.median(taken[1:]):
            times = taken[0] / statistics.median(taken[1:])
            print(f"DOUBT: the first {label} in the trace took {times:.1f} times the others' median: leave it out.")
    if device == "cpu":
        print("UNKNOWN without a GPU: times on a GPU, launch overhead, gaps between kernels, what bounds the kernel.")
    elif not gpu:
        print(
            "UNKNOWN: CUPTI recorded nothing (missing, not permitted, or taken by another profiler): the kernels' "
            "times, launches and gaps. Times of calls are by CUDA events and hold."
        )


def export(prof: Any, path: Path, arguments: argparse.Namespace) -> None:
    """Writes the trace, and a copy of it where TensorBoard's plugin looks: a profiler exports once only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    prof.export_chrome_trace(str(path))
    print(f"wrote {path}")
    if arguments.tensorboard:
        arguments.tensorboard.mkdir(parents=True, exist_ok=True)
        name = f"{socket.gethostname()}_{os.getpid()}.{time.time_ns() // 1_000_000}.pt.trace.json.gz"
        shutil.copy(path, arguments.tensorboard / name)
        print(f"wrote {arguments.tensorboard / name}")


def record_allocations(arguments: argparse.Namespace, device: str) -> contextlib.AbstractContextManager[Any]:
    """With --memory on a GPU: leaves the allocator's snapshot, also when the region runs out of memory."""
    if not (arguments.memory and device == "cuda"):
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def recorded() -> Any:
        # As many events as a file of some tens of MB holds.
        torch.cuda.memory._record_memory_history(max_entries=100_000)
        try:
            yield
        finally:
            path = arguments.output / "memory_snapshot.pickle"
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                torch.cuda.memory._dump_snapshot(str(path))
                print(f"wrote {path}")
            except (RuntimeError, OSError) as error:  # the report is worth more than the snapshot
                print(f"PyTorch cannot write the allocator's snapshot: {error}")
            torch.cuda.memory._record_memory_history(enabled=None)

    return recorded()


def export_memory_timeline(prof: Any, arguments: argparse.Namespace, device: str) -> None:
    """Writes the profiler's memory timeline, where this PyTorch still has it: 2.13 calls it outdated."""
    path = arguments.output / "memory_timeline.json"
    if not hasattr(prof, "export_memory_timeline"):
        print("This PyTorch has no export_memory_timeline: the allocator's snapshot has replaced it (GPU only).")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        prof.export_memory_timeline(str(path), device="cuda:0" if device == "cuda" else "cpu")
    print(f"wrote {path}")


def print_first_calls(work: Work) -> None:
    """What is paid once, apart from all that follows."""
    if work.kernel is None:
        print("No C++ compiler (g++, clang++, c++ or $CXX): PyTorch alone, and nothing about the TileLang kernel")
    else:
        print(f"Compile time: {work.build_s:.2f} s (little where TileLang's cache had the kernel)")
    for label, seconds in work.first_s.items():
        print(f"First call of {label}: {seconds * 1e3:.2f} ms")


def print_source(work: Work, arguments: argparse.Namespace) -> None:
    if work.kernel is None:
        return
    source = work.kernel.get_kernel_source()
    path = arguments.output / "kernel_source.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    print(f"\nwrote {path}; in it:")
    for what, pattern in MARKS.items():
        found = sorted({match[0] for match in re.finditer(pattern, source)})
        print(f"  {what}: {', '.join(found) or 'no sign'}")
    print("  The source alone proves nothing about what was compiled, nor how well it runs.")


def compare(work: Work, arguments: argparse.Namespace, device: str) -> None:
    """Both candidates: first calls, warm-ups, times without a profiler, then one profile with the two in turns."""
    for call in work.candidates.values():
        for _ in range(arguments.warmup):
            call()
    wait(device)
    if arguments.plain:
        for _ in range(arguments.repeats):
            for call in work.candidates.values():
                call()
        wait(device)
        return

    alone: dict[str, list[float]] = {label: [] for label in work.candidates}
    for _ in range(arguments.repeats):
        for label, call in work.candidates.items():  # in turns, so that clocks and heat are the same for both
            alone[label].append(time_alone(call, device, arguments.calls))

    with record_allocations(arguments, device), profile(activities=activities(device), **recording(arguments)) as prof:
        for _ in range(arguments.repeats):
            for label, call in work.candidates.items():
                with record_function(label):
                    call()
        wait(device)

    print_table(prof, arguments, device)
    print(f"Of a call: {work.flops:.4g} FLOP, {work.bytes_moved:.4g} bytes at least")
    for label in work.candidates:
        print_rates(label, "by itself", statistics.median(alone[label]), work, arguments)
        if spans := durations(prof, label, gpu=True):
            print_rates(label, "on the GPU, profiled", statistics.median(spans), work, arguments)
    print_doubts(prof, list(work.candidates), device)
    export(prof, arguments.output / "trace.json.gz", arguments)
    if arguments.memory:
        export_memory_timeline(prof, arguments, device)


def print_rates(label: str, where: str, seconds: float, work: Work, arguments: argparse.Namespace) -> None:
    tflops, gbps = work.flops / seconds / 1e12, work.bytes_moved / seconds / 1e9
    line = f"{label} {where}: {seconds * 1e6:.1f} µs, {tflops:.4g} TFLOP/s, {gbps:.4g} GB/s"
    for rate, peak, unit in ((tflops, arguments.peak_tflops, "TFLOP/s"), (gbps, arguments.peak_gbps, "GB/s")):
        line += f", {rate / peak:.1%} of {peak:g} {unit}" if peak else ""
    print(line)


def loop(work: Work, arguments: argparse.Namespace, device: str) -> None:
    """Some steps of a loop: of each repetition `wait` are skipped, `warmup` thrown away and `active` recorded."""
    repetitions = 0

    def ready(prof: Any) -> None:
        nonlocal repetitions
        wait(device)
        print_table(prof, arguments, device)
        steps = [event for event in prof.events() if event.name.startswith("ProfilerStep") and not on_gpu(event)]
        for number, event in enumerate(sorted(steps, key=lambda event: event.time_range.start)):
            print(f"step {number} of repetition {repetitions}: {event.time_range.elapsed_us():.1f} µs on the host")
        kernels = [event.time_range.elapsed_us() for event in prof.events() if is_kernel(event)]
        if kernels:
            per_step = sum(kernels) / arguments.active
            print(f"GPU: {per_step:.1f} µs in {len(kernels) / arguments.active:.1f} kernels and copies a step")
        print_doubts(prof, ["forward_pass"], device)
        # A file for each repetition: none grows with the loop.
        export(prof, arguments.output / f"steps_{repetitions}.json.gz", arguments)
        repetitions += 1

    plan = schedule(
        wait=arguments.wait, warmup=arguments.warmup_steps, active=arguments.active, repeat=arguments.repeat
    )
    steps = (arguments.wait + arguments.warmup_steps + arguments.active) * arguments.repeat
    # That each repetition's events are dropped after it is what bounds the profile.
    warnings.filterwarnings("ignore", message=".*Profiler clears events")
    with (
        record_allocations(arguments, device),
        profile(activities=activities(device), schedule=plan, on_trace_ready=ready, **recording(arguments)) as prof,
    ):
        for _ in range(steps):
            step_of_the_loop(work)
            prof.step()


def folder(text: str) -> Path:
    """A folder, checked before what takes long: it is there, or can be made."""
    path = Path(text)
    there = next((place for place in (path, *path.parents) if os.path.lexists(place)), path)
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is a file, and a folder is wanted")
    if not os.access(there, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{there} cannot be written")
    return path


def option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cuda", "cpu"), default=default, help="default here: %(default)s")
    for name, what in (("m", "rows of A"), ("n", "columns of B"), ("k", "columns of A")):
        parser.add_argument(f"--{name}", type=int, help=f"{what}: 4096 unless given, 128 on a CPU")
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), help="of a GPU's operands; a CPU's are float32")
    parser.add_argument("--warmup", type=int, default=10, help="calls before anything is measured (%(default)s)")
    parser.add_argument("--repeats", type=int, default=20, help="measured calls of each candidate (%(default)s)")
    parser.add_argument("--calls", type=int, default=10, help="calls in a row for a time by itself (%(default)s)")
    parser.add_argument("--rows", type=int, default=20, help="of the summary table (%(default)s)")
    parser.add_argument("--output", type=folder, default="out", help="folder for the traces (%(default)s)")
    parser.add_argument("--tensorboard", type=folder, metavar="DIR", help="a log folder for TensorBoard too")
    parser.add_argument("--memory", action="store_true", help="record allocations, and write their timeline")
    parser.add_argument("--plain", action="store_true", help="only call, without a profiler: for ncu and the like")
    parser.add_argument("--source", action="store_true", help="write the generated source, and what it shows")
    parser.add_argument("--peak-tflops", type=float, help="what the GPU can do, for the type")
    parser.add_argument("--peak-gbps", type=float, help="what its memory can do")
    steps = parser.add_argument_group("with --loop")
    steps.add_argument("--loop", action="store_true", help="profile steps of a loop by a schedule")
    steps.add_argument("--wait", type=int, default=1, help="steps left alone (%(default)s)")
    steps.add_argument("--warmup-steps", type=int, default=1, help="steps profiled and thrown away (%(default)s)")
    steps.add_argument("--active", type=int, default=3, help="steps recorded (%(default)s)")
    steps.add_argument("--repeat", type=int, default=2, help="repetitions of these (%(default)s)")
    arguments = parser.parse_args(argv)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU: leave --device out, or choose cpu")
    if arguments.device == "cpu" and arguments.dtype:
        parser.error("--dtype is for a GPU: on a CPU the operands are float32")
    arguments.dtype = arguments.dtype or default_dtype(arguments.device)
    blocks = (BLOCK_M, BLOCK_N, BLOCK_K) if arguments.device == "cuda" else (CPU_BLOCK,) * 3
    for name, block in zip("mnk", blocks):
        size = getattr(arguments, name)
        size = default_size(arguments.device) if size is None else size
        if size < 1 or size % block:
            parser.error(f"--{name} {size}: the kernel's blocks need a multiple of {block}, and one at least")
        setattr(arguments, name, size)
    for name in ("warmup", "repeats", "calls", "rows", "active", "repeat"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be 1 at least")
    if arguments.wait < 0 or arguments.warmup_steps < 0:
        parser.error("--wait and --warmup-steps must be 0 at least")
    for name in ("peak_tflops", "peak_gbps"):
        peak = getattr(arguments, name)
        if peak is not None and not 0 < peak < math.inf:
            parser.error(f"{option(name)} must be a number above 0")
        if peak is not None and (arguments.loop or arguments.plain):
            parser.error(f"{option(name)} goes with neither --loop nor --plain, which print no rates")
    for name in ("loop", "memory", "tensorboard"):
        if arguments.plain and getattr(arguments, name):
            parser.error(f"--{name} needs the profiler that --plain leaves out")
    for name in ("wait", "warmup_steps", "active", "repeat"):
        if not arguments.loop and getattr(arguments, name) != parser.get_default(name):
            parser.error(f"{option(name)} goes with --loop")
    return arguments


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    device, sizes = arguments.device, (arguments.m, arguments.n, arguments.k)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"Objective: where does the time of C = A·B go, {'×'.join(map(str, sizes))}, {arguments.dtype}, on {name}?")
    work = make_work(*sizes, arguments.dtype, device)
    print_first_calls(work)
    if arguments.source:
        print_source(work, arguments)
    if arguments.loop:
        for _ in range(arguments.warmup):  # compilation belongs before the schedule, not into its warm-up
            step_of_the_loop(work)
        wait(device)
        loop(work, arguments, device)
    else:
        compare(work, arguments, device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
