"""GPU memory in which no tensor of the program ever lies.

PyTorch hands out again what was freed, with what is in it. A program that reads memory which nobody has written ends
otherwise when a recorder's slots lay there before. TileLang 0.1.14's example ``dsa_sparse_finetune/sparse_mla_bwd.py``
adds to a tensor that it never clears: on an H200 it ended well in 3 of 3 runs, and in none of 3 that were traced.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Iterator
from typing import Any

from .launching import is_capturing


@contextlib.contextmanager
def own_memory(device: Any) -> Iterator[None]:
    """Lets this thread's tensors on a CUDA device come from memory of their own, while inside.

    What was freed of it goes to tensors that are made inside, and to others only where there is no memory left. Where
    PyTorch's pools have no ``use_on_oom``, and while a CUDA graph is captured, it is memory like any other.

    Args:
        device: a tensor's ``torch.device``, or a GPU's number; nothing is done for the CPU.
    """
    import torch

    number = device if isinstance(device, int) else device.index
    if number is None or _inside.on or not _can_be_apart() or is_capturing():
        yield
        return
    idle = _idle.setdefault(number, [])
    try:
        pool = idle.pop()
    except IndexError:
        pool = torch.cuda.MemPool(use_on_oom=True)
    _inside.on = True
    try:
        with torch.cuda.use_mem_pool(pool, number):
            yield
    finally:
        _inside.on = False
        idle.append(pool)


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
