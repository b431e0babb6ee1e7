"""Operations counted by a program, where nobody gave them."""

from __future__ import annotations

from collections.abc import Callable


def count_flops(work: Callable[[], object]) -> float | None:
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
