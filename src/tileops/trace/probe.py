"""What a record costs, measured with markers on the device that records.

A kernel runs the same loop twice, each time inside a range: with nothing but operations that depend on each other, and
with a record before each of these. The difference of the two ranges, shared among the records, is the cost: cycles that
the recording thread's warp spends on one record, net of the loop. A group with payloads writes wider records than one
without, so the kernel has a group of each kind, and one launch measures both.

The loop's two records are stored as a pair, as most records of a kernel are (``pairs.py``): the cost is half of a
pair's. ``benchmarks/markers.py`` measures records that have no partner, too.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import TraceError

ITERATIONS = 256
RECORDS = 2  # records an iteration
EVENTS = 2 * (RECORDS * ITERATIONS + 4)  # of a group: two passes, with a begin and an end each of two ranges
LAUNCHES = 5
PLAIN, PAYLOAD = "plain", "payload"


@dataclass(frozen=True)
class ProbeCost:
    """Cycles that one record costs its warp.

    Attributes:
        plain: without a payload, in a group that has none.
        payload: with a payload.
    """

    plain: float
    payload: float


def probe_cost(target: str, device: str) -> ProbeCost:
    """The cost of a record on this device: measured once per process, also where measuring fails.

    Args:
        target: ``"cuda"`` or ``"c"``.
        device: the device as PyTorch names it, such as ``"cuda:0"``.

    Raises:
        TraceError: if it cannot be measured here, saying why.
    """
    with _lock:  # of two threads that decode at the same time, one measures
        found = _found(target, device)
    if isinstance(found, str):
        raise TraceError(found)
    return found


_LONGEST = 300  # characters of a compiler's or driver's error
_lock = threading.Lock()


@functools.cache
def _found(target: str, device: str) -> ProbeCost | str:
    """The cost, or why there is none."""
    try:
        return _measured(target, device)
    except TraceError as error:
        return str(error)
    except Exception as error:  # of compilers and drivers: a timeline without the cost is better than no timeline
        text = (str(error).strip() or type(error).__name__).splitlines()[0]  # a compiler's has the whole source behind
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _measured(target: str, device: str) -> ProbeCost:
    import torch

    from .recording import fetch
    from .sites import ATTRIBUTE, SiteTable

    costs: dict[str, list[float]] = {PLAIN: [], PAYLOAD: []}
    # TileLang compiles for the current device and launches on it.
    with torch.cuda.device(device) if target == "cuda" else contextlib.nullcontext():
        kernel = _kernel(target)
        table = SiteTable.from_json(str(kernel.prim_func.attrs[ATTRIBUTE]))
        x = torch.zeros(1, device=device)
        for _ in range(LAUNCHES):
            slices = fetch(kernel(x)[-1], table, {}).decode().slices
            for group, found in costs.items():
                empty, marked = (slices.where(group=group, name=name).duration for name in ("empty", "marked"))
                if len(empty) != 2 or len(marked) != 2:
                    raise TraceError("the kernel that measures it recorded nothing")
                found.append(float(marked[1] - empty[1]) / (ITERATIONS * RECORDS))
    plain, payload = (float(np.median(costs[group])) for group in (PLAIN, PAYLOAD))
    if min(plain, payload) <= 0:
        raise TraceError(f"measuring it gave {plain:.1f} and {payload:.1f} cycles, which cannot be")
    return ProbeCost(plain, payload)


def _kernel(target: str) -> Any:
    """The measuring kernel, compiled for tracing."""
    import tilelang

    from .namespace import trace

    outputs = trace.out_idx(1, True)
    if target == "cuda":
        return tilelang.compile(trace.lower(probe(32), EVENTS), out_idx=outputs)
    with tilelang.tvm.target.Target("c"):
        func = trace.lower(probe(1), EVENTS)
    return tilelang.compile(func, out_idx=outputs, target="c", execution_backend="cython")


def probe(threads: int) -> Any:
    """The measuring kernel's PrimFunc, for a block of so many threads."""
    import tilelang.language as T

    from .lowering import device_source
    from .namespace import trace

    source = device_source("probe_gap.h")

    @T.prim_func
    def probe(x: T.Tensor((1,), "float32"), y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=threads) as _:
            T.import_source(source)
            value = T.alloc_var("float32")
            value = x[0]
            for kind in (PLAIN, PAYLOAD):
                with trace.group(kind, lead=0):
                    # The first pass through the loops brings their code into the instruction cache.
                    for _round in T.serial(2):
                        with trace.range("empty"):
                            for _i in T.serial(ITERATIONS):
                                value = T.call_extern("float32", "tileops_probe_step", value)
                                value = T.call_extern("float32", "tileops_probe_step", value)
                        with trace.range("marked"):
                            for i in T.serial(ITERATIONS):
                                trace.record("first", payload=i if kind == PAYLOAD else None)
                                value = T.call_extern("float32", "tileops_probe_step", value)
                                trace.record("second", payload=i if kind == PAYLOAD else None)
                                value = T.call_extern("float32", "tileops_probe_step", value)
            y[0] = value

    return probe
