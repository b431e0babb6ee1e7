"""What a marker costs on this GPU, beside Triton's Proton.

    python benchmarks/markers.py [--launches N]

Loops of one warp with 1, 2, 4 or 8 records an iteration and one operation that cannot be removed between them; cycles
a record, net of the loop without records. The recording kernel measures itself with ranges around both loops. Proton
runs an equivalent loop of enter_scope/exit_scope, measured with clock64 around it (needs Triton 3.6).
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

ITERATIONS = 256


def recording_loop(records: int, payload: bool) -> Any:
    """A kernel with an empty loop and one with ``records`` records an iteration, each in a range, run twice."""
    import tilelang
    import tilelang.language as T

    from tileops.trace import trace
    from tileops.trace.lowering import device_source

    step_source = device_source("probe_gap.h")
    steps = list(range(records))  # a Python list is unrolled; TileLang turns a range into a loop

    @T.prim_func
    def loop(x: T.Tensor((1,), "float32"), y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128) as _:
            T.import_source(step_source)
            value = T.alloc_var("float32", init=x[0])
            with trace.group("probe", lead=0):
                for _round in T.serial(2):
                    with trace.range("empty"):
                        for _i in T.serial(ITERATIONS):
                            for _step in steps:
                                value = T.call_extern("float32", "tileops_probe_step", value)
                    with trace.range("marked"):
                        for i in T.serial(ITERATIONS):
                            for step in steps:
                                trace.record(f"r{step}", payload=i if payload else None)
                                value = T.call_extern("float32", "tileops_probe_step", value)
            y[0] = value

    func = trace.lower(loop, 2 * (records * ITERATIONS + 4))
    return tilelang.compile(func, out_idx=trace.out_idx(1, True))


def cycles_a_record(records: int, payload: bool, launches: int) -> np.ndarray:
    import torch

    from tileops.trace import trace

    kernel = recording_loop(records, payload)
    x = torch.zeros(1, device="cuda")
    costs = []
    for _ in range(launches):
        slices = trace.decode(kernel, kernel(x)[1]).slices
        empty, marked = (slices.where(name=name).duration[1] for name in ("empty", "marked"))
        costs.append((marked - empty) / (records * ITERATIONS))
    return np.array(costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=21, help="launches a figure (default %(default)s)")
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    import torch

    print(f"{torch.cuda.get_device_name()}: cycles a record, median (and 10% to 90% of {options.launches} launches)")
    for payload in (False, True):
        for records in (1, 2, 4, 8):
            costs = cycles_a_record(records, payload, options.launches)
            low, middle, high = np.percentile(costs, [10, 50, 90])
            kind = "32-bit payload" if payload else "no payload"
            print(f"  tileops, {kind}, {records} an iteration: {middle:6.2f} ({low:.2f} to {high:.2f})", flush=True)
    try:
        import proton_loop
    except ImportError as error:
        print(f"  Proton: not measured ({error})")
        return
    for buffer in ("shared", "global"):
        for pairs in (1, 2, 4):
            low, middle, high = np.percentile(
                proton_loop.cycles_a_record(pairs, buffer, options.launches), [10, 50, 90]
            )
            print(
                f"  Proton, {buffer} buffer, {2 * pairs} an iteration: {middle:6.2f} ({low:.2f} to {high:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
