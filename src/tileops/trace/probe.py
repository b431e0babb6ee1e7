"""What a marker costs, measured with markers on the device that records.

A kernel runs the same loop twice, each inside a range: empty but for one operation that cannot be removed, and with
records around it. The difference of the two ranges, shared among the records, is the cost: cycles that the recording
thread's warp spends on one record, net of the loop.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import TraceError

ITERATIONS = 256
RECORDS = 2  # records an iteration: a range is two
LAUNCHES = 5


@dataclass(frozen=True)
class ProbeCost:
    """Cycles that one record costs its warp.

    Attributes:
        plain: without a payload.
        payload: with one.
        device: where it was measured.
    """

    plain: float
    payload: float
    device: str


@functools.cache
def probe_cost(target: str, device: str) -> ProbeCost:
    """The cost of a record on this device: measured once per process.

    Args:
        target: ``"cuda"`` or ``"c"``.
        device: the device as PyTorch names it, such as ``"cuda:0"``.
    """
    return ProbeCost(_measured(target, device, False), _measured(target, device, True), device)


def _measured(target: str, device: str, payload: bool) -> float:
    import torch

    from .recording import fetch
    from .sites import ATTRIBUTE, SiteTable

    kernel = _kernel(target, payload)
    table = SiteTable.from_json(str(kernel.prim_func.attrs[ATTRIBUTE]))
    x = torch.zeros(1, device=device)
    costs = []
    for _ in range(LAUNCHES):
        _, slots = kernel(x)
        slices = fetch(slots, table, {}).decode().slices
        empty, marked = (slices.where(name=name).duration for name in ("empty", "marked"))
        if len(empty) != 2 or len(marked) != 2:
            raise TraceError("measuring the cost of a marker recorded nothing")
        costs.append(float(marked[1] - empty[1]) / (ITERATIONS * RECORDS))
    return float(np.median(costs))


@functools.cache
def _kernel(target: str, payload: bool) -> Any:
    """The measuring kernel, compiled for tracing."""
    import tilelang
    import tilelang.language as T

    from .lowering import device_source
    from .namespace import trace

    gap = device_source("probe_gap.h")
    cuda = target == "cuda"

    @T.prim_func
    def probe(x: T.Tensor((1,), "float32"), y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32 if cuda else 1) as _:
            T.import_source(gap)
            with trace.group("probe", lead=0):
                # The first pass through the loops brings their code into the instruction cache.
                for _round in T.serial(2):
                    with trace.range("empty"):
                        for _i in T.serial(ITERATIONS):
                            T.call_extern("int32", "tileops_probe_gap")
                            T.call_extern("int32", "tileops_probe_gap")
                    with trace.range("marked"):
                        for i in T.serial(ITERATIONS):
                            trace.record("first", payload=i if payload else None)
                            T.call_extern("int32", "tileops_probe_gap")
                            trace.record("second", payload=i if payload else None)
                            T.call_extern("int32", "tileops_probe_gap")
            y[0] = x[0]

    events = 2 * (RECORDS * ITERATIONS + 4)
    if cuda:
        return tilelang.compile(trace.lower(probe, events), out_idx=trace.out_idx(1, True))
    with tilelang.tvm.target.Target("c"):
        func = trace.lower(probe, events)
    return tilelang.compile(func, out_idx=trace.out_idx(1, True), target="c", execution_backend="cython")
