"""GPU memory in which no tensor of the program ever lies.

PyTorch hands out again what was freed, with what is in it. A program that reads memory which nobody has written ends
otherwise when a recorder's slots lay there before. TileLang 0.1.14's example ``dsa_sparse_finetune/sparse_mla_bwd.py``
adds to a tensor that it never clears: on an H200 it ended well in 3 of 3 runs, and in none of 3 that were traced.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .launching import is_capturing

Made = TypeVar("Made")


def in_own_memory(device: Any, make: Callable[[], Made]) -> Made:
    """Makes tensors on a CUDA device in memory of their own.

    What was freed of it goes to tensors that are made so, and to others only where there is no memory left. Where
    PyTorch's pools have no ``use_on_oom``, while a CUDA graph is captured, and where only memory is left that PyTorch
    keeps for the program, it is memory like any other.

    Args:
        device: as PyTorch takes it.
        make: makes them. What else it does should be short: in the meantime PyTorch frees none of the program's memory
            that is cached, for no thread. It is called once more if there is no memory.
    """
    import torch

    device = torch.device(device)
    if device.type != "cuda" or _inside.on or not _can_be_apart() or is_capturing():
        return make()
    number = torch.cuda.current_device() if device.index is None else device.index
    idle = _idle.setdefault(number, [])
    try:
        pool = idle.pop()
    except IndexError:
        with torch.cuda.device(number):  # which a pool belongs to
            pool = torch.cuda.MemPool(use_on_oom=True)
    _inside.on = True
    try:
        with torch.cuda.use_mem_pool(pool, number):
            return make()
    except torch.cuda.OutOfMemoryError:
        pass
    finally:
        _inside.on = False
        idle.append(pool)
    return make()


class _Inside(threading.local):
    on = False


_inside = _Inside()
# Of each GPU, the pools that no thread takes memory from at the moment: PyTorch lets one take from a pool at a time.
_idle: dict[int, list[Any]] = {}


@functools.cache
def _can_be_apart() -> bool:
    """Whether PyTorch has pools that other tensors may use as a last resort."""
    import torch

    pool = getattr(torch.cuda, "MemPool", None)
    return torch.cuda.is_available() and pool is not None and "use_on_oom" in inspect.signature(pool).parameters
