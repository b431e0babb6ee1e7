"""Kernels whose authors placed markers, recorded together with what is found in their source.

Nothing of the author's changes: the markers keep their calls, their recorders and their rows, in the slots that their
build has anyway. What is found records into rows of its own, in other slots, with numbers of sites and groups behind
the author's. So no row has two writers, and the author's slots stay good for whoever else reads them. On the host the
two are laid side by side, each CTA's own rows behind its author's, and one site table tells of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..sites import SiteTable, markers_in
from .syntax import Kernel, Statement, UnreadableError, identifiers

OPEN, MARK = "tileops_open", "tileops_mark"
_SLOTS = 6  # which argument of OPEN is the row's address
BESIDE = " (auto)"  # behind a name that the author has taken
NO_MARKERS = SiteTable("", "cuda", 0, (), (), (), ())


@dataclass(frozen=True)
class Markers:
    """A kernel's own markers.

    Attributes:
        table: their site table; an empty one where there are none.
        slots: which of the kernel's parameters is their slots; -1 where there are none.
    """

    table: SiteTable = NO_MARKERS
    slots: int = -1


def markers_of(source: str, kernel: Kernel) -> Markers:
    """The markers that a kernel's author placed.

    Raises:
        UnreadableError: if their calls are not what their site table says.
    """
    table = markers_in(source)
    opened = [call for statement in kernel.statements for call in statement.calls if call.name == OPEN]
    if not opened:
        return Markers()
    if table is None:
        raise UnreadableError("its source does not tell what its markers are")
    slots = {name for call in opened for name in kernel.parameters if name in identifiers(call.arguments[_SLOTS])}
    if sorted(call.arguments[0] for call in opened) != sorted(map(str, range(len(table.groups)))) or len(slots) != 1:
        raise UnreadableError("the calls of its markers are not those that tileops.trace makes")
    return Markers(table, kernel.parameters.index(slots.pop()))


def is_mark(statement: Statement) -> bool:
    """Whether a statement is a marker's call."""
    return statement.kind == "expression" and any(call.name.startswith(MARK) for call in statement.calls)


def beside(name: str, taken: Iterable[str]) -> str:
    """A name for what was found, other than those that the author gave."""
    return f"{name}{BESIDE}" if name in taken else name


def joined(author_s: Any, found: Any) -> Any:
    """The author's slots and those of what was found as the one tensor that the kernel's site table describes."""
    import torch

    return torch.cat([author_s.reshape(len(found), -1), found], dim=1)


def address(pointer: Any) -> int:
    """The address that a launch's argument is, as TVM hands it to Python: a ``ctypes.c_void_p``."""
    return int(getattr(pointer, "value", pointer))


def tensor_at(start: int, shape: tuple[int, int], device: Any) -> Any:
    """A GPU's memory from an address on as an int64 tensor, without a copy."""
    import torch

    memory = {"shape": shape, "typestr": "<i8", "data": (start, False), "version": 3}
    return torch.as_tensor(_Memory(memory), device=device)


@dataclass(frozen=True)
class _Memory:
    __cuda_array_interface__: dict[str, Any]
