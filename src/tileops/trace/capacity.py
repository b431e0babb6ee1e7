"""The size of the ``slots`` buffer, told before a launch allocates it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .errors import TraceError
from .sites import SiteTable

# From this size on (bytes) it is said that a launch's buffer is large, also where it fits.
LARGE = 1 << 30


def slots_bytes(compiled: Any, inputs: Sequence[Any]) -> int:
    """See :meth:`tileops.trace.namespace.Trace.slots_bytes`; ``compiled`` was built for tracing."""
    from tilelang import tvm

    if not isinstance(inputs, (list, tuple)):
        raise TraceError(f"inputs must be a list of the kernel's arguments, got {type(inputs).__name__}")
    func = compiled.prim_func
    buffer = func.buffer_map[func.params[-1]]
    words = math.prod(evaluated(compiled, inputs, list(buffer.shape)))
    return words * tvm.DataType(buffer.dtype).bits // 8


def evaluated(compiled: Any, inputs: Sequence[Any], extents: Sequence[Any]) -> list[int]:
    """The values of expressions of a kernel's symbolic dimensions in a launch with these inputs.

    Raises:
        TraceError: if the inputs do not give them.
    """
    from tilelang import tvm

    if all(isinstance(extent, (int, tvm.tirx.IntImm)) for extent in extents):
        return [int(extent) for extent in extents]
    known = dict(dimensions(compiled.prim_func, compiled.out_idx, inputs))
    simplify = tvm.arith.Analyzer().simplify
    found = [simplify(tvm.tirx.stmt_functor.substitute(tvm.tirx.const(0) + extent, known)) for extent in extents]
    for extent in found:
        if not isinstance(extent, tvm.tirx.IntImm):
            raise TraceError(
                f"the size of the trace buffer cannot be told: its extent {extent} does not follow from these "
                f"{len(inputs)} inputs"
            )
    return [int(extent) for extent in found]


def dimensions(func: Any, outputs: Sequence[int], inputs: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    """The symbols that the inputs give a value: dimensions and strides of tensors, and numbers."""
    from tilelang import tvm

    made = {position % len(func.params) for position in outputs}
    given = [param for position, param in enumerate(func.params) if position not in made]
    for param, value in zip(given, inputs):
        buffer = func.buffer_map.get(param, None)
        if buffer is None:
            if isinstance(value, int):
                yield param, value
        elif hasattr(value, "stride"):
            pairs = [*zip(buffer.shape, value.shape), *zip(buffer.strides or (), value.stride())]
            yield from ((symbol, int(extent)) for symbol, extent in pairs if isinstance(symbol, tvm.tirx.Var))


def lines(ctas: int, table: SiteTable) -> int:
    """How many lines the slots of a launch of so many CTAs have.

    Raises:
        TraceError: if none of them is to be recorded.
    """
    if not len(table.choice.numbers(ctas, 1)):
        raise TraceError(f"ctas: the grid has CTAs 0 to {ctas - 1}, and none of them is chosen")
    return table.choice.line_count(ctas)


def cuda_device(inputs: Sequence[Any], table: SiteTable) -> Any:
    """The CUDA device that a launch with these inputs allocates on, or ``None``.

    Raises:
        TraceError: if it has to be on a GPU and there is none.
    """
    import torch

    for value in inputs:
        if isinstance(value, torch.Tensor) and value.is_cuda:
            return value.device
    if table.target != "cuda":
        return None
    if not torch.cuda.is_available():
        raise TraceError("this kernel is for CUDA, and PyTorch finds no GPU here: launch it where there is one")
    return torch.device("cuda", torch.cuda.current_device())


def free_bytes(device: Any) -> int:
    """What a tensor could take on a CUDA device: the device's free memory, and what PyTorch holds without using it."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def check_fits(size: int, device: Any, table: SiteTable) -> None:
    """Refuses a launch whose ``slots`` would not fit.

    Raises:
        TraceError: saying what is needed, what there is and what to change.
    """
    free = free_bytes(device)
    if size > free:
        raise TraceError(
            f"the trace buffer of this launch of kernel {table.kernel!r} takes {human(size)}, and {human(free)} are "
            f"free on {device}: {advice(table)}"
        )


def advice(table: SiteTable) -> str:
    """How to make ``slots`` smaller."""
    return (
        f"build the kernel with a smaller max_events (it is {table.max_events}), or let it record fewer CTAs: "
        'trace.finalize takes ctas="one per SM", ctas="first and last wave", a list, or ctas=slice(None, None, n) for '
        "every n-th"
    )


def human(size: int | None) -> str:
    """Bytes in the decimal unit that suits them."""
    if size is None:
        return "an unknown number of bytes"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= 0.9995 * scale:  # what would be rounded to 1000 of the smaller unit
            return f"{size / scale:.{1 if size < 99.95 * scale else 0}f} {unit}"
    return f"{size} bytes"
