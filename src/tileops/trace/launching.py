"""What the host knows of a traced kernel and of its launch, and what CUDA allows at the moment."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from typing import Any

from .. import __version__
from .errors import TraceError
from .sites import ATTRIBUTE, AUTO_ATTRIBUTE, SiteTable, tables_in

# What CUDA says of a kernel that trapped, failed an assert or accessed memory that is not there. PyTorch 2.8 and newer
# raise these as AcceleratorError; before that, and from TileLang's launch, they are told by their texts alone.
_FAILED = re.compile(
    r"unspecified launch failure|device-side assert|illegal (memory access|address|instruction)|misaligned address|"
    r"hardware stack error|invalid (address space|program counter)|launch timed out|"
    r"CUDA_ERROR_(LAUNCH_FAILED|LAUNCH_TIMEOUT|ASSERT|ILLEGAL_\w+|MISALIGNED_ADDRESS|HARDWARE_STACK_ERROR|INVALID_PC)"
)
# What PyTorch raises as AcceleratorError too, of a device that is well.
_NOT_FAILED = re.compile(r"captur|out of memory")


def site_table(compiled: Any, kernel: str = "") -> SiteTable | None:
    """The site table that a compiled kernel carries, or ``None`` if it was not built for tracing.

    Args:
        compiled: the compiled kernel.
        kernel: which of its ``__global__`` functions, where it has several that record; by their names.

    Raises:
        TraceError: if ``compiled`` is no compiled kernel, or has no such function.
    """
    func = getattr(compiled, "prim_func", None)
    if func is None:
        raise TraceError(
            "expected a compiled kernel (what a tilelang.jit factory returns when called), got "
            f"{type(compiled).__name__}"
        )
    attrs = func.attrs or {}
    if AUTO_ATTRIBUTE in attrs:  # its sites were found in the source that TileLang generated
        return _named([*tables_in(compiled.get_kernel_source()).values()], kernel)
    text = attrs.get(ATTRIBUTE)
    return None if text is None else _parsed(str(text))


def _named(tables: list[SiteTable], kernel: str) -> SiteTable | None:
    found = [table for table in tables if kernel in ("", table.kernel)]
    if len(found) > 1 or (tables and not found):
        names = ", ".join(repr(table.kernel) for table in tables)
        raise TraceError(f"this build records several kernels: say which, with kernel=: {names}; got {kernel!r}")
    return found[0] if found else None


def traced_table(compiled: Any, kernel: str = "") -> SiteTable:
    """Like :func:`site_table`, of a kernel that has to be built for tracing.

    Raises:
        TraceError: if it is not, or has no such function.
    """
    table = site_table(compiled, kernel)
    if table is None:
        raise TraceError("this kernel was not built for tracing: build it with traced=True")
    return table


@lru_cache(maxsize=128)
def _parsed(text: str) -> SiteTable:
    return SiteTable.from_json(text)


def device_name(slots: Any) -> str:
    """The device that a tensor lies on, as people call it."""
    import torch

    if slots.is_cuda:
        return str(torch.cuda.get_device_name(slots.device))
    return platform.processor() or platform.machine()


def arguments(compiled: Any) -> str:
    """A kernel's tensors, such as ``A float16[4096, 64], B float16[64, K]``: its name for each, type and shape.

    The tensors that records go to, the last ones, are left out.
    """
    return tensors(compiled.prim_func, without_last=added_parameters(compiled.prim_func))


def tensors(func: Any, without_last: int = 0) -> str:
    """The tensors among a PrimFunc's parameters, as :func:`arguments` writes them; the last few can be left out."""
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    kept = buffers[: len(buffers) - without_last]
    return ", ".join(f"{buffer.name} {buffer.dtype}[{', '.join(map(str, buffer.shape))}]" for buffer in kept)


def returns_slots(compiled: Any) -> bool:
    """Whether a compiled kernel's last output is ``slots``: whether its author's markers record."""
    func = getattr(compiled, "prim_func", None)
    return func is not None and ATTRIBUTE in (func.attrs or {})


def parted(produced: Any) -> tuple[Any, Any]:
    """What such a kernel returns: what it returns untraced, a tensor for one output and a list for several; slots."""
    outputs = list(produced) if isinstance(produced, (list, tuple)) else [produced]
    slots = outputs.pop()
    return (outputs[0] if len(outputs) == 1 else outputs), slots


def added_parameters(func: Any) -> int:
    """How many parameters a PrimFunc has for records, behind its author's."""
    attrs = func.attrs or {}
    text = str(attrs.get(AUTO_ATTRIBUTE, "0"))
    return int(text.split()[0]) + (ATTRIBUTE in attrs)


def launch_meta(compiled: Any, slots: Any) -> dict[str, Any]:
    """What a recording keeps of its kernel's arguments, and what :func:`host_meta` says."""
    return host_meta(slots, arguments(compiled))


def host_meta(slots: Any, arguments: str) -> dict[str, Any]:
    """What a recording keeps of its kernel's arguments, of where, when and on what it was made, and of its ``slots``.

    ``rank`` is there only where processes have ranks.
    """
    number = rank()
    return {
        "arguments": arguments,
        "device": device_name(slots),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": {"tileops": __version__, **{name: metadata.version(name) for name in ("tilelang", "torch")}},
        "slots_bytes": slots.numel() * slots.element_size(),
        "host": platform.node(),
        **({} if number is None else {"rank": number}),
    }


def rank() -> int | None:
    """This process's number among those that were launched together, as ``torchrun`` says it; None without that."""
    text = os.environ.get("RANK", "")
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def is_capturing() -> bool:
    """Whether PyTorch's current CUDA stream is capturing a graph: kernels are then noted down and do not run."""
    import torch

    # A capture needs CUDA to be initialized; a PyTorch without CUDA cannot even be asked.
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def failed_launch_told(kernel: str) -> Iterator[None]:
    """Turns the error that CUDA raises after a kernel failed on the device into one that says what that means.

    Raises:
        TraceError: from that error.
    """
    import torch

    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        text = str(error)
        from_device = isinstance(error, getattr(torch, "AcceleratorError", ())) and not _NOT_FAILED.search(text)
        if not from_device and not _FAILED.search(text):
            raise
        raise TraceError(
            f"the launch of kernel {kernel!r}, or one before it, failed on the device: {text.strip().splitlines()[0]}\n"
            "CUDA then gives this process no access to the device's memory any more, so what was recorded is lost. "
            "Run the same launch in a new process under compute-sanitizer, which names the thread and the address, or "
            "with T.thread_return() in place of the trap: a thread that returns closes its rows."
        ) from error
