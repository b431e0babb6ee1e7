"""The size of ``slots``, told ahead of the launch: what is said is what is allocated."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tileops.trace import TraceError, capacity, trace

from .building import T, cpu_kernel


def by_dimensions() -> Any:
    n, m = T.dynamic("n"), T.dynamic("m")

    @T.prim_func
    def main(a: T.Tensor((n, m), "float32"), b: T.Tensor((m,), "float32"), c: T.Tensor((n, m), "float32")):
        with T.Kernel(T.ceildiv(n, 4), m, threads=1) as (bx, by):
            with trace.range("copy"):
                c[bx * 4, by] = a[bx * 4, by] + b[by]

    return main


def constant() -> Any:
    @T.prim_func
    def main(a: T.Tensor((8,), "float32"), b: T.Tensor((8,), "float32")):
        with T.Kernel(4, 2, threads=1) as (bx, by):
            with trace.range("copy", payload=bx):
                b[bx * 2 + by] = a[bx * 2 + by]

    return main


@pytest.mark.parametrize(("make", "shapes"), [
    (constant, [(8,)]), (by_dimensions, [(4, 3), (3,)]), (by_dimensions, [(9, 1), (1,)]),
    (by_dimensions, [(1, 17), (17,)]),
])  # fmt: skip
@pytest.mark.parametrize("ctas", [None, [0, 3], slice(1, None, 2)])
def test_what_is_said_is_what_is_allocated(make: Any, shapes: list[tuple[int, ...]], ctas: Any) -> None:
    kernel = cpu_kernel(make, max_events=100, ctas=ctas)
    inputs = [torch.ones(shape) for shape in shapes]
    said = trace.slots_bytes(kernel, inputs)
    slots = kernel(*inputs)[-1]
    assert said == slots.numel() * slots.element_size()
    assert trace.decode(kernel, slots).meta["slots_bytes"] == said


def test_an_expression_of_dimensions_is_worked_out() -> None:
    """On a GPU ``slots`` has a line a CTA, so that its extent is an expression; no launch is needed to tell it."""
    from tilelang import tvm

    kernel = cpu_kernel(by_dimensions, max_events=10)
    func = kernel.prim_func
    n, m = (func.buffer_map[func.params[0]].shape[axis] for axis in (0, 1))
    slots = tvm.tirx.decl_buffer((tvm.tirx.floordiv(n + 3, 4) * tvm.tirx.max(m, 5), 16), "int64")
    buffers = {**dict(func.buffer_map.items()), func.params[-1]: slots}

    class Compiled:
        prim_func = tvm.tirx.PrimFunc(func.params, func.body, func.ret_type, buffers, func.attrs)
        out_idx = (-2, -1)

    assert trace.slots_bytes(Compiled(), [torch.ones(9, 2), torch.ones(2)]) == 3 * 5 * 16 * 8
    assert trace.slots_bytes(Compiled(), [torch.ones(9, 7), torch.ones(7)]) == 3 * 7 * 16 * 8


def test_what_cannot_be_told_is_an_error() -> None:
    kernel = cpu_kernel(by_dimensions, max_events=10)
    with pytest.raises(TraceError, match="does not follow from these 0 inputs"):
        trace.slots_bytes(kernel, [])
    with pytest.raises(TraceError, match="not built for tracing"):
        trace.slots_bytes(cpu_kernel(constant, traced=False), [torch.ones(8)])


@pytest.mark.parametrize(("size", "text"), [
    (0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (5_234_000, "5.2 MB"), (99_949, "99.9 kB"),
    (99_950, "100 kB"), (999_499, "999 kB"), (999_600, "1.0 MB"), (143_771_000_000, "144 GB"),
    (2_000_000_000_000, "2000 GB"), (None, "an unknown number of bytes"),
])  # fmt: skip
def test_sizes_as_text(size: int | None, text: str) -> None:
    assert capacity.human(size) == text
