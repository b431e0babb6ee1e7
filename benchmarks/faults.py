"""Records the production GEMM as it is and built badly on purpose, on a Hopper GPU: what findings have to tell apart.

    python benchmarks/faults.py DIR

    good            tiles in whole waves: as many CTAs as SMs
    one-stage       a ring of one stage: nothing is loaded while the consumers multiply
    slow-producer   the producer sleeps before each load
    slow-consumer   the consumers sleep before each multiplication
    wave-and-a-bit  a twelfth more CTAs than SMs
    good-waves      tiles in three whole waves

All of 128 x 256 tiles in float16, 64 steps along K. Behind ten launches five are recorded: the last one is kept, and
the first finding of each is printed. What tracing does is measured for those that do not sleep: those exist traced alone.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Any

K = 4096
CONFIG = {"block_m": 128, "block_n": 256, "block_k": 64, "stages": 4, "consumers": 2, "panel": 0}
SLEEP_NS = 1500  # a step of K takes some 560 ns
WARM_UPS, LAUNCHES = 10, 5
ROUNDS = 40  # of stripped against traced
SMS = (12, 11)  # rows and columns of tiles that make a CTA for each of 132 SMs


def slowed(compiled: Any, name: str, nanoseconds: int) -> Any:
    """A traced kernel whose threads sleep at each begin of the ranges of a name, in its lowered form."""
    import tilelang
    import tilelang.language as T
    from tilelang import tvm

    from tileops.kernels.gemm.dense import PASS_CONFIGS
    from tileops.trace import trace
    from tileops.trace.batches import is_recording
    from tileops.trace.launching import traced_table
    from tileops.trace.sites import BEGIN

    tirx = tvm.tirx
    table = traced_table(compiled)
    ranges = {at for at, found in enumerate(table.ranges) if found.name == name}
    sites = {site for site, events in enumerate(table.sites) if any(k == BEGIN and at in ranges for k, at in events)}
    assert sites, f"no range {name!r}"

    def recorded(site: Any) -> set[int]:
        """What a record's site can be: where a loop carries it, its first turn has another one."""
        if isinstance(site, tirx.Select):
            return recorded(site.true_value) | recorded(site.false_value)
        return {int(site)}

    def with_sleep(stmt: Any) -> Any:
        if is_recording(stmt.value) and recorded(stmt.value.args[2]) & sites:
            return tirx.SeqStmt([stmt, tirx.Evaluate(T.call_extern("int32", "__nanosleep", nanoseconds))])
        return stmt

    func = compiled.prim_func
    body = tirx.stmt_functor.ir_transform(func.body, None, with_sleep, ["tirx.Evaluate"])
    return tilelang.compile(func.with_body(body), out_idx=trace.out_idx(1, True), pass_configs=PASS_CONFIGS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    import torch

    from tileops.kernels.gemm.dense import build_gemm
    from tileops.trace import trace

    rows, columns = SMS

    def built(rows: int, columns: int, **changes: int) -> Any:
        shape = rows * CONFIG["block_m"], columns * CONFIG["block_n"], K
        traced, stripped = (build_gemm(*shape, "float16", traced=on)(**{**CONFIG, **changes}) for on in (True, False))
        return shape, traced, stripped

    shape, good, _ = built(rows, columns)
    kernels = {
        "good": built(rows, columns),
        "one-stage": built(rows, columns, stages=1),
        "slow-producer": (shape, slowed(good, "tma", SLEEP_NS), None),
        "slow-consumer": (shape, slowed(good, "mma", SLEEP_NS), None),
        "wave-and-a-bit": built(rows, columns + 1),
        "good-waves": built(rows, 3 * columns),
    }
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, ((m, n, k), kernel, stripped) in kernels.items():
        a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        b = torch.randn(n, k, device="cuda", dtype=torch.float16)
        if stripped is not None:
            print(f"\n{name}: {trace.perturbation(stripped, kernel, (a, b), ROUNDS)}")
        firsts: Counter[str] = Counter()
        for launch in range(WARM_UPS + LAUNCHES):
            c, slots = kernel(a, b)
            if launch >= WARM_UPS:
                findings = trace.decode(kernel, slots).findings(flops=2 * m * n * k)
                firsts[next((found.rule for found in findings if found.win > 0), "none")] += 1
        expected = a @ b.T
        error = float((c.float() - expected.float()).abs().max() / expected.float().abs().max())
        path = trace.fetch(kernel, slots).save(options.folder / f"gemm_{name}.tltrace")
        timeline = trace.decode(kernel, slots)
        span = float(timeline.ctas["end_ns"].max()) / 1000
        print(f"{name}: {span:.1f} us, error {error:.1e}, {path.stat().st_size:,} bytes; {timeline}")
        print(f"  first findings of {LAUNCHES} launches: {dict(firsts)}")
        for finding in timeline.findings(flops=2 * m * n * k):
            print(f"  {finding}".replace("\n", "\n  "))


if __name__ == "__main__":
    main()
