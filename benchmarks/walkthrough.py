"""Measures what docs/walkthrough.md says: one GEMM in three steps, and torch.matmul beside it, on a Hopper GPU.

    python benchmarks/walkthrough.py DIR

    one_stage      one stage, 128 threads, tiles of 128 x 128
    three_stages   three stages
    two_consumers  256 threads, tiles of 128 x 256, four stages

Two more builds are timed and not traced: six stages of the first tile, and three of the last. The kernel is that of
examples/pipelined_gemm.py, 4096^3 in float16. All that is timed runs in turn, in an order drawn anew for every round,
replayed from CUDA graphs: each build as it is, the steps instrumented at level ops, and torch.matmul.

Printed are medians and the middle 80% of the rounds, TFLOP/s, the rounds' ratios of traced over untraced, the medians
of the loop's ranges, the findings, and what a step won beside what the first finding of the one before had said. The
recordings that are kept, DIR/one_stage.tltrace and so on, know what tracing costs.

It exits with 1 if a result is wrong, a recording lacks something, or the first finding of one stage is not no-overlap.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
SIZE = 4096
FLOPS = 2 * SIZE**3
STEPS: dict[str, dict[str, int]] = {
    "one_stage": {"stages": 1},
    "three_stages": {"stages": 3},
    "two_consumers": {"stages": 4, "threads": 256, "block_n": 256},
}
UNTRACED: dict[str, dict[str, int]] = {
    "six_stages": {"stages": 6},
    "two_consumers, three": {"stages": 3, "threads": 256, "block_n": 256},
}
TORCH, TRACED = "torch.matmul", " traced"
LOOP = ("acquire As, Bs", "load As, Bs", "wait As, Bs", "gemm Cl", "wait wgmma", "store C")
ROUNDS = 100
WARM_UPS = 100  # launches ahead of the one that is recorded


def rounds_of(runs: dict[str, Callable[[], Any]], inputs: list[Any], rounds: int) -> dict[str, np.ndarray]:
    """Microseconds a launch of each, by round."""
    from tileops.trace.perturbation import BATCH_US, timer_of

    timer = timer_of(inputs)
    for run in runs.values():
        run()
    batches = {name: max(1, round(BATCH_US / timer(run, 3))) for name, run in runs.items()}
    for name, run in runs.items():
        timer(run, batches[name])  # captures its graph
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name in random.sample(list(runs), len(runs)):
            times[name].append(timer(runs[name], batches[name]))
    return {name: np.array(taken) for name, taken in times.items()}


def said(name: str, taken: np.ndarray) -> str:
    """One line of what a step takes."""
    low, middle, high = np.percentile(taken, [10, 50, 90])
    return f"{name:22} {middle:7.1f} us ({low:.1f} to {high:.1f})  {FLOPS / middle / 1e6:5.0f} TFLOP/s"


def cost_of(untraced: np.ndarray, traced: np.ndarray) -> Any:
    """What tracing costs, of rounds in which both ran."""
    from tileops.trace.perturbation import Perturbation

    low, ratio, high = (float(value) for value in np.percentile(traced / untraced, [10, 50, 90]))
    return Perturbation(ratio, low, high, float(np.median(untraced)), float(np.median(traced)), len(untraced))


def taken_by_ranges(timeline: Any) -> str:
    """The span, the clock, and the medians of the loop's ranges."""
    span = float(timeline.ctas["end_ns"].max() - timeline.ctas["begin_ns"].min()) / 1000
    clock = float(np.median(timeline.ctas["ghz"]))
    ranges = [(group, name) for group in timeline.groups for name in LOOP]
    found = [(group, name, timeline.slices.where(group=group, name=name)["duration"]) for group, name in ranges]
    medians = [f"{group} / {name} {np.median(cycles):,.0f}" for group, name, cycles in found if len(cycles)]
    return f"{span:.1f} us at {clock:.3f} GHz; cycles: {', '.join(medians)}"


def differing(name: str, produced: Any, expected: Any) -> list[str]:
    """What is wrong with a step's result."""
    import torch

    good = torch.allclose(produced, expected, rtol=1e-2, atol=1e-1)
    return [] if good else [f"{name}: the result is not that of torch.matmul"]


def lacking(name: str, produced: Any, untraced: Any, expected: Any, timeline: Any) -> list[str]:
    """What is wrong with a traced step's result or its recording."""
    import torch

    wrong = differing(name, untraced, expected)
    if not torch.equal(produced, untraced):
        wrong.append(f"{name}: the instrumented kernel's result is another one")
    if timeline.dropped or len(timeline.unfinished):
        wrong.append(f"{name}: {timeline.dropped} events dropped, {len(timeline.unfinished)} CTAs unfinished")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    import torch

    if not torch.cuda.is_available():
        sys.exit("this program needs a Hopper GPU, and PyTorch finds none")
    sys.path.insert(0, str(ROOT / "examples"))
    from pipelined_gemm import matmul

    from tileops.trace import trace

    torch.manual_seed(0)
    a, b = inputs = [torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in range(2)]
    builds = {**STEPS, **UNTRACED}
    # All at once: a compilation takes seconds.
    compiled = matmul.par_compile([{"m": SIZE, "n": SIZE, "k": SIZE, **step} for step in builds.values()])
    kernels, twins, slots = dict(zip(builds, compiled)), {}, {}
    for name in STEPS:
        twins[name] = trace.instrument(kernels[name])
        if twins[name].reason:
            sys.exit(f"{name}: no timeline: {twins[name].reason}")
        _, slots[name] = twins[name].record(a, b)

    def launching(kernel: Any, *further: Any) -> Callable[[], Any]:
        return lambda: kernel(a, b, *further)

    runs = {name: launching(run) for name, run in {TORCH: torch.matmul, **kernels}.items()}
    for name in STEPS:
        runs[name + TRACED] = launching(twins[name].compiled, slots[name].view(-1))
    times = rounds_of(runs, inputs, ROUNDS)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; median and middle 80% of {ROUNDS} rounds")
    for name in (TORCH, *builds):
        print(said(name, times[name]))

    options.folder.mkdir(parents=True, exist_ok=True)
    expected, wrong = a @ b, []
    for name in UNTRACED:
        wrong += differing(name, kernels[name](a, b), expected)
    before, promised = "", 0.0
    for name in STEPS:
        cost = cost_of(times[name], times[name + TRACED])
        for _ in range(WARM_UPS):
            kernels[name](a, b)
        produced, recorded = twins[name].record(a, b)
        recording = trace.fetch(twins[name].compiled, recorded)
        # As trace.perturbation does it, which would run these two builds in turn, and not all of them.
        recording.meta["perturbation"] = asdict(cost)
        path = recording.save(options.folder / f"{name}.tltrace")
        timeline = recording.decode()
        print(f"\n{name}: {cost}")
        print(f"  traced/untraced {cost.ratio:.3f} ({cost.low:.3f} to {cost.high:.3f})")
        print(f"  {path}, {path.stat().st_size:,} bytes: {timeline}")
        print(f"  {taken_by_ranges(timeline)}")
        if before:
            won = 1 - float(np.median(times[name] / times[before]))
            print(f"  {won:.1%} less time than {before}, whose first finding said up to {promised:.1%}")
        findings = timeline.findings(flops=FLOPS)
        for finding in findings:
            print(f"  {finding}".replace("\n", "\n  "))
        before, promised = name, findings[0].win if findings else 0.0
        wrong += lacking(name, produced, kernels[name](a, b), expected, timeline)
        if name == "one_stage" and [finding.rule for finding in findings][:1] != ["no-overlap"]:
            wrong.append(f"{name}: its first finding is not no-overlap")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
