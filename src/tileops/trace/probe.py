"""What a record costs, measured with markers on the device that records.

A kernel runs loops of one to four operations that depend on each other, each loop twice: as it is, and with a record
ahead of each operation. As the recorder stores records in batches (``batches.py``), what one costs depends on whether
it is held back, or stored, alone or with others. So the clock reads themselves are looked at: from one to the next lies
what the first one's record costs, and the operation between them, which the loop without records tells.

A group with payloads writes wider records than one without. The kernel has a group of each kind, and one launch
measures both.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import TraceError
from .own_memory import in_own_memory
from .slots import SPARE_RECORDS
from .timeline import Table

ITERATIONS = 64
LARGEST = 1 + SPARE_RECORDS
RECORDS = [*range(1, LARGEST + 1)]  # records an iteration: the sizes of a batch
EVENTS = 2 * (sum(RECORDS) * ITERATIONS + 4 * LARGEST)  # of a group: two passes, two ranges around each loop
LAUNCHES = 5
PLAIN, PAYLOAD = "plain", "payload"


@dataclass(frozen=True)
class ProbeCost:
    """Cycles that one record costs its warp.

    Attributes:
        plain: without a payload, in a group that has none: the mean of two that are stored together.
        payload: with a payload, likewise.
        behind: for either kind, what lies behind a record's clock read if it is held back, and if it is stored alone,
            as the second, the third or the fourth of a batch: (5,) each.
    """

    plain: float
    payload: float
    behind: dict[str, tuple[float, ...]]


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
_compiling = threading.local()


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

    found: dict[str, list[list[float]]] = {PLAIN: [], PAYLOAD: []}
    # TileLang compiles for the current device and launches on it.
    with torch.cuda.device(device) if target == "cuda" else contextlib.nullcontext():
        kernel = _kernel(target)
        table = SiteTable.from_json(str(kernel.prim_func.attrs[ATTRIBUTE]))
        x = in_own_memory(device, lambda: torch.zeros(1, device=device))
        for _ in range(LAUNCHES):
            timeline = fetch(in_own_memory(device, lambda: kernel(x))[-1], table, {}).decode()
            for group, launches in found.items():
                launches.append(_behind(timeline.slices.where(group=group), timeline.instants.where(group=group)))
    behind = {group: tuple(np.median(launches, axis=0).tolist()) for group, launches in found.items()}
    plain, payload = ((behind[group][0] + behind[group][2]) / 2 for group in (PLAIN, PAYLOAD))
    if min(plain, payload) <= 0:
        raise TraceError(f"measuring it gave {plain:.1f} and {payload:.1f} cycles, which cannot be")
    return ProbeCost(plain, payload, {group: tuple(max(c, 0.0) for c in costs) for group, costs in behind.items()})


def _behind(slices: Table, instants: Table) -> list[float]:
    """Cycles behind a clock read whose record is held back, and is the last of a batch of one to four."""
    # Of both passes the second: the first one brings the loops' code into the instruction cache.
    iteration = [float(slices.where(name=f"empty {count}").duration[1]) / ITERATIONS for count in RECORDS]
    operation = (iteration[-1] - iteration[0]) / (LARGEST - 1)
    held: list[np.ndarray] = []
    last: list[float] = []
    for count in RECORDS:
        columns = [instants.where(name=f"record {nth} of {count}").time[ITERATIONS:] for nth in range(count)]
        times = np.stack(columns, axis=1)
        held += [following - times[:, nth] - operation for nth, following in enumerate(times.T[1:])]
        around = iteration[count - 1] - (count - 1) * operation  # the last operation, and the loop's own
        last.append(float(np.median(times[1:, 0] - times[:-1, -1])) - around)
    return [float(np.median(np.concatenate(held))), *last]


def _kernel(target: str) -> Any:
    """The measuring kernel, compiled for tracing."""
    import tilelang

    from .namespace import trace

    outputs = trace.out_idx(1, True)
    everything: dict[str, Any] = {"keep": "first", "ctas": slice(None)}  # whatever trace.enable was told
    _compiling.on = True
    try:
        if target == "cuda":
            return tilelang.compile(trace.lower(probe(32), EVENTS, **everything), out_idx=outputs)
        with tilelang.tvm.target.Target("c"):
            func = trace.lower(probe(1), EVENTS, **everything)
        return tilelang.compile(func, out_idx=outputs, target="c", execution_backend="cython")
    finally:
        _compiling.on = False


def is_compiling() -> bool:
    """Whether this thread compiles the measuring kernel, which nothing else is to record."""
    return getattr(_compiling, "on", False)


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
                    for _pass in T.serial(2):
                        for count in RECORDS:
                            with trace.range(f"empty {count}"):
                                for _i in T.serial(ITERATIONS):
                                    for _nth in [*range(count)]:
                                        value = T.call_extern("float32", "tileops_probe_step", value)
                            with trace.range(f"marked {count}"):
                                for i in T.serial(ITERATIONS):
                                    for nth in [*range(count)]:
                                        trace.record(f"record {nth} of {count}", payload=i if kind == PAYLOAD else None)
                                        value = T.call_extern("float32", "tileops_probe_step", value)
            y[0] = value

    return probe
