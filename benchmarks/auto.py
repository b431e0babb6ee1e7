"""Instruments kernels that nobody annotated: are outputs the same, what does it cost, is there a timeline?

    python benchmarks/auto.py [--kernel NAME]... [--level LEVEL]... [--save DIR]

For each kernel and level it prints one line: whether the outputs equal those of the unmodified kernel bit for bit (or,
where two runs of that one differ, by how much more), the time traced over untraced (both builds in turn, replayed from
CUDA graphs, the median of the rounds' ratios and the middle 80%), the compile time added (both builds compiled in turn
with the cache off), and what the timeline holds. ``--save`` keeps the recordings. It exits with 1 if an output differs
or a kernel has no timeline.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
ROUNDS, COMPILATIONS = 30, 3
LEVELS = ("roles", "ops")


@dataclass(frozen=True)
class Case:
    """A kernel: what makes its PrimFunc, its outputs' positions, its inputs' shapes, and those that it changes."""

    make: Callable[[], Any]
    out_idx: list[int]
    inputs: list[tuple[tuple[int, ...], str]]
    changed: tuple[int, ...] = ()


def cases() -> dict[str, Case]:
    sys.path.insert(0, str(ROOT / "tests" / "trace" / "auto"))
    import kernels as k

    def gemm(n: int, **options: Any) -> Case:
        shapes = [((n, n), "float16")] * 2
        return Case(lambda: k.gemm(n, n, n, **options), [2], shapes)

    qkv = [((1, 4096, 16, 128), "float16")] * 3
    attention = Case(lambda: k.attention(1, 16, 4096, 128, threads=256), [3], qkv)
    return {
        "gemm 4096": gemm(4096),
        "gemm 4096, 256 threads": gemm(4096, threads=256, block_n=256, stages=4),
        "gemm 4096, swizzled, staged": gemm(4096, threads=256, swizzle=10, staged=True),
        "gemm 4096, nt": gemm(4096, trans_b=True, threads=256),
        "gemm 1024, one stage": gemm(1024, stages=0),
        "gemm dynamic": Case(k.gemm_dynamic, [2], [((2000, 1024), "float16"), ((1024, 1024), "float16")]),
        "gemm split-K": Case(
            k.gemm_split_k, [], [((256, 4096), "float16"), ((4096, 256), "float16"), ((256, 256), "float32")], (2,)
        ),
        "gemm persistent": Case(k.gemm_persistent, [2], [((1024, 1024), "float16")] * 2),
        "gemm by hand": Case(k.by_hand, [2], [((4096, 4096), "float16")] * 2),
        "attention": attention,
        "elementwise": Case(k.elementwise, [2], [((4096, 4096), "float32")] * 2),
        "in place": Case(k.doubled, [], [((4096,), "float32")], (0,)),
        "softmax": Case(k.softmax, [1], [((1024, 1024), "float32")]),
        "layer norm": Case(k.layernorm, [1, 2, 3], [((1024, 2048), "float32")]),
    }


def inputs_of(case: Case) -> list[Any]:
    import torch

    torch.manual_seed(0)
    made = [torch.randn(shape, device="cuda", dtype=getattr(torch, dtype)) for shape, dtype in case.inputs]
    return [tensor.zero_() if at in case.changed and len(made) > 1 else tensor for at, tensor in enumerate(made)]


def outputs_of(run: Callable[..., Any], case: Case) -> list[Any]:
    """All that a launch returns or changes."""
    inputs = inputs_of(case)
    made = run(*inputs)
    returned = list(made) if isinstance(made, (list, tuple)) else [] if made is None else [made]
    return [tensor.clone() for tensor in [*returned, *(inputs[at] for at in case.changed)]]


def worst(one: list[Any], other: list[Any]) -> float:
    return max(float((a.float() - b.float()).abs().max()) for a, b in zip(one, other))


def agreement(plain: Any, recording: Any, case: Case) -> tuple[bool, str]:
    import torch

    expected, again, found = (outputs_of(run, case) for run in (plain, plain, recording))
    assert len(expected) == len(found) > 0
    if all(torch.equal(a, b) for a, b in zip(expected, found)):
        return True, "outputs equal"
    itself, traced = worst(expected, again), worst(expected, found)
    return 0 < traced <= 4 * itself, f"outputs differ by {traced:.3g}, two runs untraced by {itself:.3g}"


def compile_seconds(case: Case, level: str) -> tuple[float, float]:
    """Medians of compiling plainly, and of the ratio of an instrumented compilation to it."""
    import tilelang

    from tileops.trace import trace

    plain, ratios = [], []
    tilelang.disable_cache()
    try:
        for _ in range(COMPILATIONS):
            begin = time.perf_counter()
            tilelang.compile(case.make(), out_idx=case.out_idx or None)
            middle = time.perf_counter()
            trace.instrument(case.make(), level=level, out_idx=case.out_idx or None)
            end = time.perf_counter()
            plain.append(middle - begin)
            ratios.append((end - middle) / (middle - begin))
    finally:
        tilelang.enable_cache()
    return float(np.median(plain)), float(np.median(ratios))


def check(name: str, case: Case, level: str, options: argparse.Namespace) -> bool:
    import tilelang

    from tileops.trace import trace
    from tileops.trace.perturbation import measure

    plain = tilelang.compile(case.make(), out_idx=case.out_idx or None)
    twin = trace.instrument(plain, level=level)
    if twin.reason:
        print(f"{name:28} {level:6} NO TIMELINE: {twin.reason}", flush=True)
        return False
    good, same = agreement(plain, lambda *inputs: twin.record(*inputs)[0], case)
    inputs = inputs_of(case)
    for _ in range(3):
        _, slots = twin.record(*inputs)
    recording = trace.fetch(twin.compiled, slots)
    timeline = recording.decode()
    cost = measure(plain, lambda *given: twin.compiled(*given, slots.view(-1)), inputs, ROUNDS)
    seconds, added = compile_seconds(case, level) if options.compile else (float("nan"), float("nan"))
    problems = [
        f"{len(timeline.unfinished)} CTAs unfinished" if len(timeline.unfinished) else "",
        f"{timeline.dropped} events dropped" if timeline.dropped else "",
        f"never fired: {'; '.join(timeline.never_fired)}" if timeline.never_fired else "",
    ]
    said = ", ".join(problem for problem in problems if problem)
    print(
        f"{name:28} {level:6} {same}; traced/untraced {cost.ratio:.3f} ({cost.low:.3f} to {cost.high:.3f}), "
        f"{cost.stripped_us:.1f} us untraced; compile {seconds:.1f} s, x{added:.2f}; "
        f"{len(timeline.ctas)} CTAs, {len(timeline.slices)} slices, {len(timeline.flows)} arrows, "
        f"roles {', '.join(timeline.groups)}{'; ' + said if said else ''}",
        flush=True,
    )
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        stem = "".join(letter if letter.isalnum() else "_" for letter in f"{name}_{level}")
        recording.save(options.save / f"{stem}.tltrace")
    return good and not said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", help="only kernels whose name holds this")
    parser.add_argument("--level", action="append", choices=("roles", "ops", "all"))
    parser.add_argument("--save", type=Path, metavar="DIR")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="time compilations too")
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    bad = []
    for name, case in cases().items():
        if options.kernel and not any(part in name for part in options.kernel):
            continue
        for level in options.level or LEVELS:
            try:
                good = check(name, case, level, options)
            except Exception as error:  # the next kernel may do better
                print(f"{name:28} {level:6} FAILED: {type(error).__name__}: {str(error).strip()[:500]}", flush=True)
                good = False
            bad += [] if good else [f"{name} at level {level}"]
    print(f"bad: {'; '.join(bad)}" if bad else "all good")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
