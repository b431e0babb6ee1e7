"""Protobuf's wire format for many messages at once.

The messages of a kind have the same fields, some of which some lack. Each field is a few columns of bytes, with a mask
for what a message does not have; the messages' bytes are then the masked rows, one behind the other. The 540,000
messages of a GEMM take 0.4 s of a processor, laid out and written, and 1.6 s as objects of protobuf's classes, without
laying them out (``benchmarks/export.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

VARINT, FIXED64, BYTES = 0, 1, 2


@dataclass(frozen=True)
class Columns:
    """A part of each of n messages.

    Attributes:
        content: (n, width) uint8.
        used: (n, width) which of them the message has.
    """

    content: np.ndarray
    used: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """(n,) bytes of each message."""
        return np.count_nonzero(self.used, axis=1)

    def where(self, present: np.ndarray) -> Columns:
        """The part, in the messages that have it; ``present`` is (n,)."""
        return Columns(self.content, self.used & present[:, None])

    def joined(self) -> bytes:
        """All messages."""
        return self.content[self.used].tobytes()


def varint(values: np.ndarray) -> Columns:
    """(n,) integers; negative ones as their two's complement of 64 bits, as protobuf has ``int64``."""
    values = np.asarray(values).astype(np.int64).view(np.uint64)
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    parts = values[:, None] >> np.arange(0, 7 * width, 7, dtype=np.uint64)
    used = parts > 0
    used[:, 0] = True
    content = (parts & np.uint64(0x7F)).astype(np.uint8)
    content[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
    return Columns(content, used)


def field(number: int, values: np.ndarray) -> Columns:
    """A field of integers or booleans."""
    return _tagged(number, VARINT, varint(values))


def fixed64(number: int, values: np.ndarray) -> Columns:
    """A field of 8 bytes: float64 or uint64."""
    content = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, 8)
    return _tagged(number, FIXED64, Columns(content, np.ones(content.shape, dtype=bool)))


def constant(count: int, content: bytes) -> Columns:
    """The same bytes in each of ``count`` messages."""
    shape = (count, len(content))
    return Columns(np.broadcast_to(np.frombuffer(content, dtype=np.uint8), shape), np.broadcast_to(np.True_, shape))


def together(parts: Sequence[Columns]) -> Columns:
    """Parts one behind the other."""
    return Columns(*(np.concatenate(arrays, axis=1) for arrays in zip(*((part.content, part.used) for part in parts))))


def message(number: int, parts: Sequence[Columns]) -> Columns:
    """A field that is a message, or bytes, of these parts."""
    content = together(parts)
    return _tagged(number, BYTES, together([varint(content.lengths), content]))


def repeated(number: int, values: np.ndarray, of: np.ndarray, count: int) -> Columns | None:
    """A repeated field of 8 bytes: ``values`` (m,) of the messages ``of`` (m,), ascending; None if there are none."""
    if len(of) == 0:
        return None
    nth = np.arange(len(of)) - np.searchsorted(of, of)
    most = int(nth.max()) + 1
    slots, used = np.zeros((count, most), dtype=values.dtype), np.zeros((count, most), dtype=bool)
    slots[of, nth], used[of, nth] = values, True
    return together([fixed64(number, slots[:, place]).where(used[:, place]) for place in range(most)])


def _tagged(number: int, kind: int, content: Columns) -> Columns:
    tag = varint(np.array([number << 3 | kind]))
    return together([constant(len(content.content), tag.joined()), content])
