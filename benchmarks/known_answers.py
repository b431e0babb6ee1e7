"""Ranges of known length: by how much a recorded duration differs from the one that the kernel saw itself.

    python benchmarks/known_answers.py [--launches N]

Four warps, each a group, spin for N cycles inside ranges, singly and in threes inside a longer range. The spin returns
the difference of the clock that it saw, which is recorded as the payload of a mark behind the range. The error is the
range's duration less that difference. It has two parts: the frame, the cycles from a clock read ahead of the spin to
its first read and from its last one to a read behind it, which the kernel also measures without any marker; and what
the recorder adds. The latter should lie within the cost of a record as the probe measures it, which is printed too.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

CYCLES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
# What spins side by side inside one longer range.
INNER = (300, 3000, 1000)
CTAS, WARPS, WARP = 4, 4, 32
# Passes through each loop. The first one brings the loop's code into the instruction cache, and is told apart.
PASSES = 9

# The clock is read by volatile instructions that clobber memory, as the recorder's are: neither nvcc nor ptxas moves
# volatile instructions past each other.
SOURCE = r"""
static __device__ __forceinline__ long long known_clock() {
  long long now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

// Looks at the upper half, so that ptxas keeps the reads 64 bits wide: the recorder's are, and the others are slower.
static __device__ __forceinline__ int known_since(long long begin) {
  const long long cycles = known_clock() - begin;
  return cycles < 0x7fffffff ? (int)cycles : 0x7fffffff;
}

static __device__ __forceinline__ int known_spin(int cycles) {
  const long long begin = known_clock();
  int seen;
  do {
    seen = known_since(begin);
  } while (seen < cycles);
  return seen;
}

// How much longer a spin takes than it says, between two clock reads and without any marker.
static __device__ __forceinline__ int known_frame(int cycles) {
  const long long before = known_clock();
  const int seen = known_spin(cycles);
  return known_since(before) - seen;
}
"""


def spinning(passes: int = PASSES) -> Any:
    """The kernel, with its markers: a PrimFunc from a (1,) float32 tensor to another."""
    import tilelang.language as T

    from tileops.trace import trace

    warps, cycles, inner = list(range(WARPS)), list(CYCLES), list(INNER)  # Python lists are unrolled

    # nvcc unrolls short loops, and each copy would run once and cold: `#pragma unroll 1` keeps it from that.
    @T.prim_func
    def spins(x: T.Tensor((1,), "float32"), y: T.Tensor((1,), "float32")):
        with T.Kernel(CTAS, threads=WARPS * WARP) as _:
            T.import_source(SOURCE)
            tx = T.get_thread_binding()
            seen = T.alloc_var("int32")
            begin = T.alloc_var("int64")
            for warp in warps:
                if tx // WARP == warp:
                    with trace.group(f"warp{warp}", lead=warp * WARP):
                        for n in cycles:
                            for _pass in T.unroll(passes, unroll_factor=1):
                                seen = T.call_extern("int32", "known_frame", n)
                                trace.record(f"frame {n}", payload=seen)
                            for _pass in T.unroll(passes, unroll_factor=1):
                                with trace.range(f"single {n}"):
                                    seen = T.call_extern("int32", "known_spin", n)
                                trace.record(f"seen single {n}", payload=seen)
                        for _pass in T.unroll(passes, unroll_factor=1):
                            with trace.range("outer"):
                                begin = T.call_extern("int64", "known_clock")
                                for n in inner:
                                    with trace.range(f"inner {n}"):
                                        seen = T.call_extern("int32", "known_spin", n)
                                    trace.record(f"seen inner {n}", payload=seen)
                                seen = T.call_extern("int32", "known_since", begin)
                            trace.record("seen outer", payload=seen)
            y[0] = x[0]

    return spins


def events(passes: int = PASSES) -> int:
    """Events of one group in one CTA."""
    return passes * (len(CYCLES) * (1 + 3) + 3 * (1 + len(INNER)))


@dataclass(frozen=True)
class Answers:
    """What was measured: equally long arrays, one entry a range.

    Attributes:
        group, name: of the range: ``"single N"``, ``"inner N"`` or ``"outer"``.
        nth: which pass through its loop; 0 is the one with cold code.
        seen: cycles that the kernel saw itself.
        duration: cycles between the range's two events.
        frames: for each N, the frame in every pass but the first, in cycles, from all groups and launches.
        cost: the probe's, of a record on this device.
    """

    group: np.ndarray
    name: np.ndarray
    nth: np.ndarray
    seen: np.ndarray
    duration: np.ndarray
    frames: dict[int, np.ndarray]
    cost: Any

    @property
    def error(self) -> np.ndarray:
        """Cycles that the range lasted longer than the kernel saw."""
        return self.duration - self.seen

    @property
    def warm(self) -> np.ndarray:
        """Whether the range's code had run before in the same loop."""
        return self.nth > 0

    @property
    def around(self) -> np.ndarray:
        """Cycles that each outer range but the first of its loop lasted longer than the spins inside it.

        What is left are the records of three ranges and three marks, three frames, and the clock's two reads.
        """
        blocks = (len(names()), PASSES)
        inner = [names().index(f"inner {n}") for n in INNER]
        return (
            self.duration.reshape(-1, *blocks)[:, -1, 1:] - self.seen.reshape(-1, *blocks)[:, inner, 1:].sum(axis=1)
        ).ravel()

    @property
    def frame(self) -> float:
        """The frame's median over everything, in cycles."""
        return float(np.median(np.concatenate(list(self.frames.values()))))


def cost_fields(cost: Any) -> dict[str, Any]:
    """Everything that the probe tells of a record's cost."""
    return dataclasses.asdict(cost) if dataclasses.is_dataclass(cost) and not isinstance(cost, type) else vars(cost)


def record_cycles(cost: Any) -> float:
    """The most that lies behind a record's clock read by any of the probe's figures, in cycles."""
    return float(max(cycles for kind in cost.behind.values() for cycles in kind))


def measure(launches: int = 5) -> Answers:
    """Runs the kernel and matches every range with what the kernel saw.

    Args:
        launches: how many, after one that is not counted.

    Raises:
        RuntimeError: if something is missing from a timeline, or does not match.
    """
    import tilelang
    import torch

    from tileops.trace import trace
    from tileops.trace.probe import probe_cost

    kernel = tilelang.compile(trace.lower(spinning(), events()), out_idx=trace.out_idx(1, True))
    x = torch.zeros(1, device="cuda")
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("group", "name", "nth", "seen", "duration")}
    frames: dict[int, list[np.ndarray]] = {n: [] for n in CYCLES}
    kernel(x)
    for _ in range(launches):
        timeline = trace.decode(kernel, kernel(x)[1])
        wanted = CTAS * WARPS * events()
        if timeline.dropped or timeline.recorded != wanted:
            raise RuntimeError(f"{timeline.recorded} events of {wanted} recorded, {timeline.dropped} dropped")
        for cta in range(CTAS):
            for group in (f"warp{warp}" for warp in range(WARPS)):
                slices = timeline.slices.where(cta=cta, group=group)
                instants = timeline.instants.where(cta=cta, group=group)
                for n in CYCLES:
                    frames[n].append(instants.where(name=f"frame {n}").payload[1:])
                for name in names():
                    ranges, marks = slices.where(name=name), instants.where(name=f"seen {name}")
                    if len(ranges) != PASSES or len(marks) != PASSES:
                        raise RuntimeError(f"{group}, {name}: {len(ranges)} ranges, {len(marks)} marks of {PASSES}")
                    columns["group"].append(np.full(PASSES, group))
                    columns["name"].append(np.full(PASSES, name))
                    columns["nth"].append(np.arange(PASSES))
                    columns["seen"].append(marks.payload.astype(np.int64))
                    columns["duration"].append(ranges.duration.astype(np.int64))
    return Answers(
        **{name: np.concatenate(values) for name, values in columns.items()},
        frames={n: np.concatenate(values) for n, values in frames.items()},
        cost=probe_cost("cuda", "cuda:0"),
    )


def names() -> list[str]:
    """The ranges' names."""
    return [*(f"single {n}" for n in CYCLES), *(f"inner {n}" for n in INNER), "outer"]


def row(label: str, values: np.ndarray) -> str:
    low, tenth, middle, ninetieth, high = np.percentile(values, [0, 10, 50, 90, 100])
    return f"  {label:22s}{len(values):6d}{low:8.0f}{tenth:8.0f}{middle:8.0f}{ninetieth:8.0f}{high:8.0f}"


def report(answers: Answers) -> None:
    error, warm = answers.error, answers.warm
    for field, value in cost_fields(answers.cost).items():
        print(f"  the probe's cost of a record, {field}: {value:.2f}" if isinstance(value, float) else
              f"  the probe's cost of a record, {field}: {value}")  # fmt: skip
    print(f"\ncycles{'':18s}{'count':>6s}{'min':>8s}{'10%':>8s}{'median':>8s}{'90%':>8s}{'max':>8s}")
    print("the frame, without a marker")
    for n, values in answers.frames.items():
        print(row(f"spin of {n}", values))
    print("error: duration less what the kernel saw, code in the cache")
    for name in names():
        print(row(name, error[warm & (answers.name == name)]))
    print(row("outer less inner spins", answers.around))
    print("the same, by group")
    for group in np.unique(answers.group):
        print(row(group, error[warm & (answers.group == group)]))
    print("the same, all")
    print(row("first pass of a loop", error[~warm]))
    print(row("later passes", error[warm]))
    print(row("less the frame", error[warm] - answers.frame))
    allowed = answers.frame + record_cycles(answers.cost)
    inside = float(((error[warm] >= 0) & (error[warm] <= allowed)).mean())
    print(f"\nallowed: 0 to {allowed:.1f} cycles, the median frame and the largest of the probe's costs")
    print(f"later passes' errors that lie there: {inside:.2%}")
    print(f"negative errors: {int((error < 0).sum())} of {len(error)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=11, help="launches measured (default %(default)s)")
    options = parser.parse_args()
    if options.launches < 1:
        parser.error("--launches must be at least 1")
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    import torch

    if not torch.cuda.is_available():
        print("this benchmark needs a CUDA GPU", file=sys.stderr)
        return 1
    print(f"{torch.cuda.get_device_name()}, {options.launches} launches, {CTAS} CTAs of {WARPS} groups")
    report(measure(options.launches))
    return 0


if __name__ == "__main__":
    sys.exit(main())
