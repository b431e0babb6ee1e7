"""Operations counted by a program, where nobody gave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .sources import kernels_of


def count_flops(work: Callable[[], object]) -> tuple[float | None, str]:
    """The operations of a call, a multiplication and an addition being two.

    Returns:
        What the counters saw, None if that is nothing; and a sentence on who counted and what that leaves out.
    """
    by_torch, by_tilelang = _by_torch(work), _by_tilelang(kernels_of(work))
    if by_tilelang:
        said = (
            f"TileLang's analyzer counted {by_tilelang:,.0f} operations, in T.gemm alone and in one launch of each "
            "kernel that the callable names."
        )
        if by_torch:
            said += f" PyTorch's flop counter saw {by_torch:,.0f} others."
        return by_tilelang + (by_torch or 0.0), said
    if by_torch:
        said = (
            f"PyTorch's flop counter counted {by_torch:,.0f} operations, in matrix products, convolutions and "
            "attention alone."
        )
        return by_torch, said
    return None, ""


def _by_tilelang(kernels: list[Any]) -> float | None:
    """What TileLang's analyzer sees in kernels' functions: T.gemm, in loops whose length is known."""
    total = 0.0
    for kernel in kernels:
        try:
            from tilelang.tools import Analyzer

            total += float(Analyzer(kernel.prim_func, None).ir_pass().total_flops)
        except Exception:  # sizes that are only known at a launch, and functions of forms it was not made for
            return None
    return total or None


def _by_torch(work: Callable[[], object]) -> float | None:
    """What PyTorch's flop counter sees of a call.

    It knows matrix products, convolutions and attention of PyTorch; it sees neither elementwise operators nor what runs
    outside PyTorch's dispatcher, such as TileLang's and Triton's kernels.

    Returns:
        The operations, a multiplication and an addition being two; None if it saw none.
    """
    from torch.utils.flop_counter import FlopCounterMode

    try:
        with FlopCounterMode(display=False) as counter:
            work()
    except (RuntimeError, NotImplementedError, TypeError):
        return None  # subclasses and custom operators that a dispatch mode cannot go through
    return float(counter.get_total_flops()) or None
