"""compute-sanitizer over the production GEMM, stripped and traced, over overflowing rows, and over planted errors.

    python benchmarks/sanitize.py [--tools memcheck racecheck initcheck] [--kernels NAME ...]

Each kernel runs in a process of its own, first without a tool, so that it is compiled, then under each tool. PyTorch's
caching allocator is off, since it hides errors: it hands out parts of larger allocations. Exits with 1 if something is
reported of a kernel that should be clean, or if a planted error is not seen; with 2 where there is no compute-sanitizer
or no GPU.

What is expected of initcheck: no kernel of ours reads the slots. The host copies whole rows of them, of which a launch
writes only a part; PyTorch may gather those in a kernel of its own. Both can be reported. They are counted apart, in
brackets, and only fail a kernel that is not traced.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TOOLS = ("memcheck", "racecheck", "initcheck")
DONE = "child done"
# Configurations of tiles like those of the two shapes of gemm.py.
WIDE = {"block_m": 128, "block_n": 256, "block_k": 64, "stages": 4, "consumers": 2, "panel": 16}
NARROW = {"block_m": 64, "block_n": 64, "block_k": 128, "stages": 6, "consumers": 1, "panel": 8}
GEMMS = {"512x512x512": ((512, 512, 512), WIDE), "128x256x512": ((128, 256, 512), NARROW)}

# Rows that overflow: far more records than room.
OVERFLOWING = {"ctas": 8, "warps": 3, "turns": 500, "max_events": 7}

# TileLang prints external calls by name, so a macro reaches the parameter that tracing adds to the kernel.
PLANTED_WRITE = "#define planted_write(word) (slots[word] = 1, 0)\n"
PLANTED_READ = "#define planted_read(word) ((int)slots[word])\n"
# Warps write different values to one word of shared memory and read it, without a barrier.
PLANTED_RACE = r"""
static __device__ __noinline__ int planted_race() {
  __shared__ volatile int word;
  word = threadIdx.x;
  return word;
}
"""
GAP = '#define sanitize_gap() asm volatile("" ::: "memory")\n'


# ---------------------------------------------------------------------------------------------------------------------
# The children


def multiplied(name: str, traced: bool) -> Callable[[str], None]:
    """Runs the production GEMM."""

    def child(tool: str) -> None:
        import torch

        from tileops.kernels.gemm import build_gemm
        from tileops.trace import trace

        (m, n, k), config = GEMMS[name]
        kernel = build_gemm(m, n, k, traced=traced)(**config)
        # Made on the host, so that no kernel but ours runs.
        generator = torch.Generator().manual_seed(0)
        a, b = (torch.randn(rows, k, generator=generator).half() for rows in (m, n))
        produced = kernel(a.cuda(), b.cuda())
        torch.cuda.synchronize()
        output = produced[0] if traced else produced
        if traced:
            timeline = trace.decode(kernel, produced[1])
            check(timeline.dropped == 0 and timeline.recorded > 0, f"{timeline}")
        if tool != "initcheck":  # which may not know what TMA has stored
            exact = a.double() @ b.double().T
            error = float((output.cpu().double() - exact).norm() / exact.norm())
            check(error < 1e-3, f"relative error {error}")

    return child


def overflowing(tool: str) -> None:
    """Runs a kernel that records far more than its rows hold."""
    import tilelang
    import tilelang.language as T
    import torch

    from tileops.trace import trace

    ctas, turns, max_events = (OVERFLOWING[name] for name in ("ctas", "turns", "max_events"))
    warps = list(range(OVERFLOWING["warps"]))

    @T.prim_func
    def func(x: T.Tensor((1,), "float32"), y: T.Tensor((ctas,), "float32")):
        with T.Kernel(ctas, threads=32 * len(warps)) as bx:
            T.import_source(GAP)
            tx = T.get_thread_binding()
            for warp in warps:
                if tx // 32 == warp:
                    with trace.group(f"warp{warp}", lead=32 * warp + 5):
                        for turn in T.serial(turns):
                            with trace.range("turn", payload=turn if warp else None):
                                T.call_extern("int32", "sanitize_gap")
                            trace.record("mark")
            y[bx] = x[0]

    kernel = tilelang.compile(trace.lower(func, max_events), out_idx=trace.out_idx(1, True))
    slots = kernel(torch.zeros(1).cuda())[1]
    timeline = trace.decode(kernel, slots)
    total = 3 * turns * len(warps) * ctas
    check(timeline.recorded + timeline.dropped == total and timeline.dropped > 0, f"{timeline}, {total} events made")


def planted(source: str, call: str, behind: bool) -> Callable[[str], None]:
    """Runs a traced kernel with an error in it.

    Args:
        source: defines ``call``.
        call: an external function of no argument, or of a position in the slots.
        behind: whether that is the first word behind them, else the last one of them, which no launch writes.
    """

    def child(tool: str) -> None:
        import tilelang
        import tilelang.language as T
        import torch

        from tileops.trace import trace

        def made(*arguments: int) -> Any:
            @T.prim_func
            def func(x: T.Tensor((1,), "int32"), y: T.Tensor((128,), "int32")):
                with T.Kernel(1, threads=128) as _:
                    T.import_source(source)
                    tx = T.get_thread_binding()
                    with trace.range("all"):
                        y[tx] = T.call_extern("int32", call, *arguments) + x[0]

            return trace.lower(func, 6)

        arguments: tuple[int, ...] = ()
        if call != "planted_race":
            first = made(0)
            shape = [int(extent) for extent in first.buffer_map[first.params[-1]].shape]
            words = shape[0] * shape[1]
            # An allocation begins at a multiple of 512 bytes, so this one has no neighbour right behind it.
            check(words * 8 % 512 != 0, f"slots of {shape} leave no gap")
            arguments = (words if behind else words - 1,)
        kernel = tilelang.compile(made(*arguments), out_idx=trace.out_idx(1, True))
        kernel(torch.zeros(1, dtype=torch.int32).cuda())
        torch.cuda.synchronize()

    return child


def check(holds: bool, what: str) -> None:
    if not holds:
        raise RuntimeError(what)


@dataclass(frozen=True)
class Kernel:
    """A kernel to run.

    Attributes:
        run: runs it, under the tool of that name.
        traced: whether it records, and its slots are copied to the host.
        seen_by: the tool that should see an error in it, or ``None`` if it should be clean.
    """

    run: Callable[[str], None]
    traced: bool = True
    seen_by: str | None = None


KERNELS = {
    **{f"stripped {name}": Kernel(multiplied(name, False), traced=False) for name in GEMMS},
    **{f"traced {name}": Kernel(multiplied(name, True)) for name in GEMMS},
    "overflowing rows": Kernel(overflowing),
    "planted write": Kernel(planted(PLANTED_WRITE, "planted_write", behind=True), seen_by="memcheck"),
    "planted race": Kernel(planted(PLANTED_RACE, "planted_race", behind=False), seen_by="racecheck"),
    "planted read": Kernel(planted(PLANTED_READ, "planted_read", behind=False), seen_by="initcheck"),
}


# ---------------------------------------------------------------------------------------------------------------------
# The tools


@dataclass(frozen=True)
class Result:
    """What a run gave.

    Attributes:
        own: errors reported of our kernels, or -1 if there is no count.
        elsewhere: those of PyTorch's kernels and of copies.
        finished: whether the process came to its end and found its results right.
        seconds: that it took.
        output: what it and the tool printed.
    """

    own: int
    elsewhere: int
    finished: bool
    seconds: float
    output: str

    def verdict(self, kernel: Kernel, tool: str) -> str:
        """``"ok"``, or what is wrong."""
        if self.own < 0:
            return "NO COUNT"
        if kernel.seen_by is not None:
            return "ok" if self.own else "NOT SEEN"
        if not self.finished:
            return "FAILED"
        excused = tool == "initcheck" and kernel.traced
        return "NOT CLEAN" if self.own or (self.elsewhere and not excused) else "ok"

    def excerpt(self, lines: int = 6) -> str:
        """The first report, else the end of the output."""
        found = [line for line in self.output.splitlines() if line.strip()]
        at = next((index for index, line in enumerate(found) if is_report(line)), max(0, len(found) - lines))
        return "\n".join(f"    {line[:150]}" for line in found[at : at + lines])


def is_report(line: str) -> bool:
    """Whether a line begins a report: such are indented by one blank, what belongs to them by more."""
    return bool(re.match(r"========= (Invalid|Misaligned|Uninit|Host API|Program hit|(Error|Warning): Race)", line))


def counted(output: str) -> tuple[int, int]:
    """Errors in our kernels and elsewhere, by what a tool printed; (-1, 0) without a count."""
    race = re.findall(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)", output)
    if race:
        return sum(map(int, race[-1])), 0
    totals = re.findall(r"ERROR SUMMARY: (\d+) error", output)
    if not totals:
        return -1, 0
    lines = output.splitlines()
    elsewhere = sum(
        line.startswith("========= Host API")
        or (line.startswith("========= Uninitialized") and "at::" in "".join(lines[at + 1 : at + 2]))
        for at, line in enumerate(lines)
    )
    return int(totals[-1]) - elsewhere, elsewhere


def find_sanitizer() -> str | None:
    """The path of compute-sanitizer."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [shutil.which("compute-sanitizer")]
    for home in filter(None, homes):
        places += [os.path.join(home, *parts, "compute-sanitizer") for parts in (("bin",), ("compute-sanitizer",))]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def run_child(command: list[str], limit_s: float) -> Result:
    """Runs a process, ends it and its children at the limit, and reads what it printed."""
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "TILELANG_PRINT_ON_COMPILATION": "0"}
    begin = time.monotonic()
    process = subprocess.Popen(
        command, env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\nno end within {limit_s:.0f} s"
    finished = process.returncode == 0 and DONE in output
    return Result(*counted(output), finished, time.monotonic() - begin, output)


def tool_command(sanitizer: str, tool: str) -> list[str]:
    # Calls that PyTorch or TileLang try and see fail are no errors of a kernel's; a launch that fails ends the child.
    command = [sanitizer, "--tool", tool, "--target-processes", "application-only", "--report-api-errors", "no"]
    if tool == "memcheck":
        command += ["--padding", "512"]  # else a write behind an allocation may hit the next one, unseen
    return [*command, "--show-backtrace", "no", "--print-limit", "100000"]


def report(sanitizer: str, tools: list[str], names: list[str], limit_s: float) -> bool:
    """Prints the table; returns whether everything is as it should be."""
    good = True
    version = subprocess.run([sanitizer, "--version"], capture_output=True, text=True).stdout.strip().splitlines()
    print(f"{sanitizer}, {version[-1] if version else 'unknown version'}")
    print(f"{'kernel':24s}{'tool':12s}{'errors':>8s}{'elsewhere':>11s}{'seconds':>9s}  verdict")
    for name in names:
        kernel = KERNELS[name]
        tools_of_it = [tool for tool in tools if kernel.seen_by in (None, tool)]
        if not tools_of_it:
            continue
        child = [sys.executable, os.path.abspath(__file__), "--child", name]
        alone = run_child([*child, "none"], limit_s)
        print(f"{name:24s}{'none':12s}{'':8s}{'':11s}{alone.seconds:9.1f}  {'ok' if alone.finished else 'FAILED'}")
        if not alone.finished and kernel.seen_by is None:
            good = False
            print(alone.excerpt())
            continue
        for tool in tools_of_it:
            result = run_child([*tool_command(sanitizer, tool), *child, tool], limit_s)
            verdict = result.verdict(kernel, tool)
            own = str(result.own) if result.own >= 0 else "?"
            elsewhere = f"({result.elsewhere})" if result.elsewhere else ""
            expected = "  (an error is planted)" if kernel.seen_by else ""
            print(f"{'':24s}{tool:12s}{own:>8s}{elsewhere:>11s}{result.seconds:9.1f}  {verdict}{expected}", flush=True)
            good = good and verdict == "ok"
            if verdict != "ok" or kernel.seen_by or result.elsewhere:
                print(result.excerpt())
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="only these tools")
    parser.add_argument(
        "--kernels", nargs="+", choices=list(KERNELS), default=list(KERNELS), metavar="NAME",
        help=f"only these kernels, of: {', '.join(KERNELS)}",
    )  # fmt: skip
    parser.add_argument("--limit", type=float, default=240, help="seconds that a run may take (default %(default)s)")
    parser.add_argument("--child", nargs=2, metavar=("NAME", "TOOL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, tool = options.child
        KERNELS[name].run(tool)
        print(DONE, flush=True)
        return 0
    import torch

    sanitizer = find_sanitizer()
    if sanitizer is None or not torch.cuda.is_available():
        print(f"this needs {'a CUDA GPU' if sanitizer else 'compute-sanitizer of the CUDA toolkit'}", file=sys.stderr)
        return 2
    return 0 if report(sanitizer, options.tools, options.kernels, options.limit) else 1


if __name__ == "__main__":
    sys.exit(main())
