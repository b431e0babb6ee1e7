"""The production GEMM on a Hopper GPU: speed against cuBLAS, the cost of tracing, and errors.

    python benchmarks/gemm.py            # both shapes, every layout and type
    python benchmarks/gemm.py --quick    # fewer rounds
    python benchmarks/gemm.py --tune     # which configuration is fastest for each shape

Times come from CUDA events. Every round times all contenders in an order drawn anew, behind a kernel that keeps the
GPU busy until the host has queued them all, so that neither the host's speed nor a drifting clock favours one of
them. Ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import numpy as np

SHAPES = ((4096, 4096, 4096), (128, 2112, 7168))
# Beyond the two that issue targets name: what the choice of a configuration has to cover as well.
OTHER_SHAPES = ((2048, 2048, 2048), (1024, 1024, 1024), (16, 8192, 8192))
LAYOUTS = {"NN": (False, False), "NT": (False, True), "TN": (True, False), "TT": (True, True)}
L2_FLUSH_BYTES = 256 << 20
# About 2 ms at 1.8 GHz: the host queues a round in less.
SLEEP_CYCLES = 4_000_000


def say(text: str = "") -> None:
    print(text, flush=True)


# ---------------------------------------------------------------------------------------------------------------------
# Problems and clocks


@dataclass(frozen=True)
class Problem:
    """One multiplication with its operands and what it should give."""

    shape: tuple[int, int, int]
    a: Any
    b: Any
    trans_a: bool
    trans_b: bool

    @classmethod
    def random(cls, shape: tuple[int, int, int], dtype: Any, trans_a: bool = False, trans_b: bool = True) -> Problem:
        import torch

        m, n, k = shape
        generator = torch.Generator(device="cuda").manual_seed(m * 31 + n * 7 + k)
        a = torch.randn((k, m) if trans_a else (m, k), generator=generator, device="cuda").to(dtype)
        b = torch.randn((n, k) if trans_b else (k, n), generator=generator, device="cuda").to(dtype)
        return cls(shape, a, b, trans_a, trans_b)

    def operands(self) -> tuple[Any, Any]:
        """Views of shape (m, k) and (k, n)."""
        return (self.a.T if self.trans_a else self.a), (self.b.T if self.trans_b else self.b)

    def cublas(self) -> Any:
        import torch

        return torch.matmul(*self.operands())

    def exact(self) -> Any:
        a, b = self.operands()
        return a.double() @ b.double()


def relative_error(got: Any, exact: Any) -> float:
    """The Frobenius norm of the error over that of the exact product."""
    return float((got.double() - exact).norm() / exact.norm())


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int, repeats: int, cold: bool) -> dict[str, np.ndarray]:
    """Microseconds a call, one figure a round, of each contender.

    Args:
        calls: name to what launches it.
        rounds: how many figures to take.
        repeats: launches behind each other that one figure averages; 1 if ``cold``.
        cold: whether L2 is flushed before each launch.
    """
    import torch

    flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.uint8, device="cuda") if cold else None
    order = random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(3):
        for call in calls.values():
            call()
    torch.cuda.synchronize()
    for _ in range(rounds):
        names = list(calls)
        order.shuffle(names)
        events = {name: (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for name in names}
        torch.cuda._sleep(SLEEP_CYCLES)
        for name in names:
            if flush is not None:
                flush.zero_()
            else:
                calls[name]()  # the caches as a launch of its own leaves them
            begin, end = events[name]
            begin.record()
            for _ in range(1 if cold else repeats):
                calls[name]()
            end.record()
        torch.cuda.synchronize()
        for name, (begin, end) in events.items():
            times[name].append(begin.elapsed_time(end) * 1e3 / (1 if cold else repeats))
    return {name: np.array(values) for name, values in times.items()}


def spread(values: np.ndarray) -> str:
    """Median, and the range that holds the middle 80%."""
    low, middle, high = np.percentile(values, [10, 50, 90])
    return f"{middle:8.3f} ({low:.3f} to {high:.3f})"


def repeats_for(shape: tuple[int, int, int]) -> int:
    """Launches a figure: short kernels are averaged, since an event costs about a microsecond."""
    return 1 if np.prod(shape, dtype=float) > 1e10 else 10


# ---------------------------------------------------------------------------------------------------------------------
# The report


def report(quick: bool, rounds: int) -> None:
    import torch

    from tileops.kernels.gemm import build_gemm, default_config
    from tileops.trace import trace

    say(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {rounds} rounds")
    for shape in SHAPES:
        for dtype in (torch.float16,) if quick else (torch.float16, torch.bfloat16):
            name = str(dtype).removeprefix("torch.")
            config = default_config(*shape)
            stripped = build_gemm(*shape, name, traced=False)(**config)
            traced = build_gemm(*shape, name, traced=True)(**config)
            problem = Problem.random(shape, dtype)
            a, b = problem.a, problem.b
            calls: dict[str, Callable[[], Any]] = {
                "stripped": lambda kernel=stripped, a=a, b=b: kernel(a, b),  # type: ignore[misc]
                "traced": lambda kernel=traced, a=a, b=b: kernel(a, b),  # type: ignore[misc]
                "cuBLAS": problem.cublas,
            }
            say(f"\n{'x'.join(map(str, shape))} {name} NT, {config}")
            output, slots = traced(a, b)
            say(f"  traced output bit-identical to the stripped one: {bool(torch.equal(stripped(a, b), output))}")
            timeline = trace.decode(traced, slots)
            say(
                f"  events expected {events_of(shape, config)}, decoded {2 * len(timeline.slices)}, "
                f"dropped {timeline.dropped}"
            )
            for cold in (False, True):
                times = interleaved(calls, rounds, repeats_for(shape), cold)
                say(f"  {'L2 flushed' if cold else 'L2 warm'}, microseconds, median (middle 80%)")
                for contender, values in times.items():
                    rate = 2 * np.prod(shape, dtype=float) / np.median(values) / 1e6
                    say(f"    {contender:9s}{spread(values)}   {rate:6.1f} TFLOP/s")
                say(f"    cuBLAS / stripped {spread(times['cuBLAS'] / times['stripped'])}")
                say(f"    traced / stripped {spread(times['traced'] / times['stripped'])}")
    say("\nerror against float64, norm of the difference over norm of the product; ours, then cuBLAS's")
    errors(((4096, 4096, 4096), (1000, 1016, 1048)) if not quick else ((1000, 1016, 1048),))


def events_of(shape: tuple[int, int, int], config: dict[str, int]) -> int:
    """Events that the traced kernel records: two a range, see the markers in ``dense.py``."""
    m, n, k = shape
    ctas = -(-m // config["block_m"]) * -(-n // config["block_n"])
    tiles = -(-k // config["block_k"])
    return 2 * ctas * (3 * tiles + config["consumers"] * (2 * tiles + 2))


def errors(shapes: tuple[tuple[int, int, int], ...]) -> None:
    import torch

    from tileops.ops import GemmOp

    for shape, dtype, (layout, (trans_a, trans_b)) in itertools.product(
        shapes, (torch.float16, torch.bfloat16), LAYOUTS.items()
    ):
        problem = Problem.random(shape, dtype, trans_a, trans_b)
        exact = problem.exact()
        ours = relative_error(GemmOp(*shape, dtype, trans_a, trans_b)(problem.a, problem.b), exact)
        cublas = relative_error(problem.cublas(), exact)
        label = f"{'x'.join(map(str, shape))} {str(dtype).removeprefix('torch.')} {layout}"
        say(f"  {label:36s} {ours:.3e}  {cublas:.3e}")


# ---------------------------------------------------------------------------------------------------------------------
# Tuning: compiled in parallel, measured one by one in a process that may be lost to a configuration that hangs

Shape = tuple[int, int, int]
Config = dict[str, int]
_FIELDS = ("block_m", "block_n", "block_k", "stages", "consumers", "panel")


def candidates(shape: Shape) -> list[Config]:
    def configs(*rows: tuple[int, ...], **more: int) -> list[Config]:
        return [{**dict(zip(_FIELDS, row)), **more} for row in rows]

    wide = (
        (128, 256, 64, 4, 2, 8), (256, 128, 64, 4, 2, 8), (128, 256, 64, 4, 2, 16), (256, 128, 64, 4, 2, 4),
        (128, 256, 64, 4, 2, 4), (128, 256, 64, 4, 2, 0), (256, 128, 64, 4, 2, 16), (256, 128, 64, 4, 2, 0),
        (128, 256, 64, 3, 2, 8), (256, 128, 64, 3, 2, 8), (128, 256, 32, 8, 2, 8), (128, 256, 128, 2, 2, 8),
        (256, 192, 64, 3, 2, 8), (256, 160, 64, 4, 2, 8), (128, 192, 64, 5, 2, 8), (192, 128, 64, 5, 1, 8),
        (128, 128, 64, 6, 2, 8), (128, 128, 64, 6, 1, 8), (128, 128, 64, 4, 1, 8), (128, 128, 128, 3, 2, 8),
    )  # fmt: skip
    narrow = (
        (64, 64, 128, 6, 1, 0), (64, 64, 64, 12, 1, 0), (64, 64, 128, 4, 1, 0), (64, 64, 128, 6, 1, 8),
        (64, 32, 128, 8, 1, 0), (64, 32, 64, 12, 1, 0), (64, 32, 128, 4, 1, 0), (64, 48, 128, 7, 1, 0),
        (64, 96, 128, 5, 1, 0), (64, 128, 128, 4, 1, 0), (64, 128, 64, 8, 1, 0), (64, 16, 128, 10, 1, 0),
        (128, 32, 128, 5, 2, 0), (128, 32, 64, 10, 2, 0), (128, 32, 128, 5, 1, 0), (128, 48, 128, 4, 2, 0),
        (128, 64, 64, 8, 2, 0), (128, 64, 128, 4, 2, 0), (128, 64, 128, 4, 1, 0), (128, 16, 128, 6, 2, 0),
        (128, 128, 64, 6, 2, 0),
    )  # fmt: skip
    if shape == SHAPES[0]:
        return [
            *configs(*wide),
            *configs((128, 256, 64, 4, 2, 8), (256, 128, 64, 4, 2, 8), store_columns=0),
            *configs((128, 256, 64, 4, 2, 8), (256, 128, 64, 4, 2, 8), store_columns=64),
        ]
    if shape == SHAPES[1]:
        return [*configs(*narrow), *configs((64, 64, 128, 6, 1, 0), store_columns=0)]
    if shape[0] < 64:
        return configs(*narrow[:6], narrow[9])
    return configs(wide[0], wide[1], wide[14], wide[16], narrow[0], narrow[9], narrow[17])


def label(config: Config) -> str:
    tile = f"{config['block_m']:3d}x{config['block_n']:3d}x{config['block_k']:3d}"
    store = config.get("store_columns")
    text = f"{tile} stages {config['stages']:2d} consumers {config['consumers']} panel {config['panel']:2d}"
    return text if store is None else f"{text} store {store}"


def _compile(shape: Shape, config: Config) -> float:
    """Puts a kernel into TileLang's cache on disk; returns the seconds that took."""
    from tileops.kernels.gemm import build_gemm

    begin = time.perf_counter()
    build_gemm(*shape)(**config)
    return time.perf_counter() - begin


def _measure_forever(pipe: Any, rounds: int) -> None:
    """In a process of its own: takes (shape, config) and answers with (times, error), or with what went wrong."""
    import torch

    from tileops.kernels.gemm import build_gemm

    problem, exact = None, None
    pipe.send("ready")
    while True:
        shape, config = pipe.recv()
        try:
            if problem is None or problem.shape != shape:
                problem = Problem.random(shape, torch.float16)
                exact = problem.exact()
            kernel = build_gemm(*shape)(**config)
            a, b = problem.a, problem.b
            # Twice, and on other data than the output buffer holds from before: a race shows as a difference.
            error = max(relative_error(kernel(a, b), exact) for _ in range(2))
            calls = {"ours": lambda: kernel(a, b), "cuBLAS": problem.cublas}  # noqa: B023
            warm = interleaved(calls, rounds, repeats_for(shape), cold=False)
            cold = interleaved(calls, rounds // 2, 1, cold=True)
            pipe.send({"error": error, "warm": warm, "cold": cold})
        except Exception as failure:
            pipe.send(_first_line(failure))


class Measurer:
    """The measuring process, started again when a configuration hangs or breaks it."""

    def __init__(self, rounds: int, patience_s: float):
        self._rounds, self._patience_s = rounds, patience_s
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._pipe: Any = None

    def measure(self, shape: Shape, config: Config) -> dict[str, Any] | str:
        if self._process is None:
            self._pipe, theirs = self._context.Pipe()
            self._process = self._context.Process(target=_measure_forever, args=(theirs, self._rounds), daemon=True)
            self._process.start()
            theirs.close()
            if self._answer(120) != "ready":
                self.stop()
                return "the measuring process did not start"
        self._pipe.send((shape, config))
        answer = self._answer(self._patience_s)
        if isinstance(answer, str):
            self.stop()  # an error on the GPU stays with the process
        return answer

    def _answer(self, seconds: float) -> Any:
        try:
            return self._pipe.recv() if self._pipe.poll(seconds) else f"no answer within {seconds:.0f} s"
        except (EOFError, OSError):
            return "the measuring process died"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(20)
            self._process = None


def _compile_all(jobs: list[tuple[Shape, Config]], workers: int, limit_s: float) -> set[int]:
    """Fills TileLang's cache with all kernels; returns the positions of those that cannot be built.

    What a lost process or the limit leaves undone is compiled where it is measured.
    """
    refused = set()
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    futures = {pool.submit(_compile, *job): index for index, job in enumerate(jobs)}
    try:
        for done, future in enumerate(as_completed(futures, timeout=limit_s), 1):
            shape, config = jobs[futures[future]]
            try:
                say(f"  {done:3d}/{len(jobs)} {future.result():5.1f} s  {shape} {label(config)}")
            except BrokenProcessPool as failure:
                say(f"  a compiling process was lost: {failure}")
                break
            except Exception as failure:
                refused.add(futures[future])
                say(f"  {done:3d}/{len(jobs)} FAILED {shape} {label(config)}: {_first_line(failure)}")
    except FutureTimeoutError:
        say("  out of time for compiling; going on with what there is")
        for process in list(pool._processes.values()):
            process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    return refused


def _first_line(failure: BaseException) -> str:
    lines = str(failure).splitlines() or [""]
    return f"{type(failure).__name__}: {lines[0][:200]}"


def tune(budget_s: float, rounds: int) -> None:
    """Compiles and measures the candidates of every shape; prints each as it comes, then tables sorted by time."""
    begin = time.monotonic()
    jobs = [(shape, config) for shape in (*SHAPES, *OTHER_SHAPES) for config in candidates(shape)]
    workers = max(1, min(14, (os.cpu_count() or 2) - 1))
    say(f"compiling {len(jobs)} kernels with {workers} processes")
    refused = _compile_all(jobs, workers, budget_s / 2)
    say(f"compiled after {time.monotonic() - begin:.0f} s; measuring")
    measurer = Measurer(rounds, patience_s=40)
    results: dict[Shape, list[tuple[float, str]]] = {}
    for index, (shape, config) in enumerate(jobs):
        if index in refused:
            continue
        if time.monotonic() - begin > budget_s:
            say("  out of time; the rest is not measured")
            break
        answer = measurer.measure(shape, config)
        if isinstance(answer, str):
            say(f"  FAILED {shape} {label(config)}: {answer}")
            continue
        warm, cold = answer["warm"], answer["cold"]
        line = (
            f"{np.median(warm['ours']):8.2f} us, {np.median(warm['cuBLAS'] / warm['ours']):.3f} of cuBLAS warm; "
            f"{np.median(cold['ours']):8.2f} us, {np.median(cold['cuBLAS'] / cold['ours']):.3f} cold; "
            f"error {answer['error']:.1e}{'  WRONG' if not answer['error'] < 1e-3 else ''}"
        )
        say(f"  {shape} {label(config)}: {line}")
        results.setdefault(shape, []).append((float(np.median(warm["ours"])), f"{label(config)}  {line}"))
    measurer.stop()
    for shape, rows in results.items():
        say(f"\n{'x'.join(map(str, shape))} float16 NT, fastest first")
        for _, text in sorted(rows):
            say(f"  {text}")
    say(f"\n{time.monotonic() - begin:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, one type")
    parser.add_argument("--rounds", type=int, help="rounds a measurement (default 200, with --quick 30)")
    parser.add_argument("--tune", action="store_true", help="try many configurations for each shape")
    parser.add_argument("--budget", type=float, default=420, help="seconds that --tune may take (default 420)")
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    if options.rounds is not None and options.rounds < 2:
        parser.error("--rounds must be at least 2")
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("this benchmark needs a Hopper GPU", file=sys.stderr)
        return 1
    if options.tune:
        tune(options.budget, options.rounds or 30)
    else:
        report(options.quick, options.rounds or (30 if options.quick else 200))
    return 0


if __name__ == "__main__":
    sys.exit(main())
