"""How often a comparison says that a kernel changed which did not, and whether it sees what did; on a Hopper GPU.

    python benchmarks/comparing.py [--launches 8]

The same GEMM is recorded in several launches, those of a second one (three stages instead of four) between them. All
ways to part the first one's launches into two halves are compared, and all pairs of single launches: every change
reported is a false one. Then the two kernels are compared.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

SHAPE = (1536, 2816, 4096)
CONFIG = {"block_m": 128, "block_n": 256, "block_k": 64, "consumers": 2, "panel": 0}
WARM_UPS = 10


def launches(count: int) -> dict[int, list[Any]]:
    """For each number of stages, so many Timelines, recorded in turn."""
    import torch

    from tileops.kernels.gemm.dense import build_gemm
    from tileops.trace import trace

    m, n, k = SHAPE
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(n, k, device="cuda", dtype=torch.float16)
    kernels = {stages: build_gemm(m, n, k, "float16", traced=True)(**CONFIG, stages=stages) for stages in (4, 3)}
    made: dict[int, list[Any]] = {stages: [] for stages in kernels}
    for number in range(WARM_UPS + count):
        for stages, kernel in kernels.items():
            _, slots = kernel(a, b)
            if number >= WARM_UPS:
                made[stages].append(trace.decode(kernel, slots))
    return made


def report(name: str, pairs: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> None:
    """Prints how often launches of one kernel were said to differ."""
    from tileops.trace.comparison import compare

    spans: Counter[str] = Counter()
    ranges: Counter[str] = Counter()
    for before, after in pairs:
        made = compare(before, after)
        spans[made.span.verdict] += 1
        ranges.update(change.verdict.verdict for change in made.ranges)
    wrong = [counts["slower"] + counts["faster"] for counts in (spans, ranges)]
    total = [sum(counts.values()) for counts in (spans, ranges)]
    print(f"{name}: span {wrong[0]} of {total[0]} said to have changed, ranges {wrong[1]} of {total[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=8, help="of each kernel (default %(default)s)")
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    from tileops.trace.comparison import compare

    made = launches(options.launches)
    same = made[4]
    half = len(same) // 2
    halves = [
        ([same[i] for i in chosen], [same[i] for i in range(len(same)) if i not in chosen])
        for chosen in itertools.combinations(range(len(same)), half)
        if 0 in chosen
    ]
    report(f"one kernel, {half} launches against {len(same) - half}", halves)
    report("one kernel, a launch against another", [([one], [other]) for one, other in itertools.combinations(same, 2)])
    print(f"\nfour stages, then three\n{compare(same, made[3])}")


if __name__ == "__main__":
    main()
