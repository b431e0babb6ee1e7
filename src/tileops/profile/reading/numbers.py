"""Timestamps from text to whole nanoseconds.

A trace counts microseconds since 1970, with three decimals: 19 digits. A double keeps 16, which at 1.7e15 µs is a step
of 250 ns, longer than most gaps between kernels. So the digits are read as integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import msgspec
import numpy as np

_LONGEST = 32
# What int64 holds, in ns: 292 years.
_LIMIT = Decimal(2**63 - 1)


def nanoseconds(texts: Sequence[bytes | msgspec.Raw]) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds as JSON has them, a number or a string, to nanoseconds; further digits are cut off.

    Args:
        texts: of N numbers.

    Returns:
        N int64, and N booleans: whether the text was a number that int64 holds.
    """
    if not texts:
        return np.zeros(0, np.int64), np.zeros(0, bool)
    alike = _alike(texts)
    if alike is not None:
        return alike, np.ones(len(texts), bool)
    texts = [bytes(text) for text in texts]
    column = np.array(texts, dtype=bytes)
    width = column.dtype.itemsize
    characters = np.ascontiguousarray(column.view(np.uint8).reshape(len(texts), width).T)
    value = np.zeros(len(texts), np.int64)
    decimals = np.zeros(len(texts), np.int64)
    digits = np.zeros(len(texts), np.int64)
    behind = np.zeros(len(texts), bool)
    plain = np.full(len(texts), width <= _LONGEST)
    for row in characters[:_LONGEST]:
        digit = row - np.uint8(ord("0"))
        is_digit = digit < 10
        point = row == ord(".")
        plain &= is_digit | (row == 0) | (point & ~behind)
        taken = is_digit & (decimals < 3)
        value = np.where(taken, value * 10 + digit, value)
        digits += taken
        decimals += taken & behind
        behind |= point
    value *= 10 ** (3 - decimals)
    plain &= (digits > 0) & (digits + 3 - decimals <= 18 + (value > 0))
    valid = plain.copy()
    for index in np.flatnonzero(~plain):
        exact = _exact(texts[index])
        valid[index] = exact is not None
        value[index] = exact or 0
    return value, valid


def _alike(texts: Sequence[bytes | msgspec.Raw]) -> np.ndarray | None:
    """Numbers that all have so many digits, a point and three more, as PyTorch writes them; None if these do not.

    Of 474,000 numbers, 5,000 at a time, it took 0.04 s, where the other way took 0.27.
    """
    width = len(bytes(texts[0]))
    joined = b"".join(texts)
    if not 5 <= width <= 20 or len(joined) != width * len(texts) or joined.count(b".") != len(texts):
        return None
    digits = np.frombuffer(joined, np.uint8).reshape(len(texts), width) - np.uint8(ord("0"))
    behind = digits[:, -3:]
    before = digits[:, : width - 4]
    is_point = digits[:, width - 4] == np.uint8((ord(".") - ord("0")) % 256)
    if not is_point.all() or before.max() > 9 or behind.max() > 9:
        return None
    value = np.zeros(len(texts), np.int64)
    for column in (*before.T, *behind.T):
        value *= 10
        value += column
    # 19 digits can be more than int64 holds, and then come out negative.
    return value if value.min() >= 0 else None


def _exact(text: bytes) -> int | None:
    """One number of any other form, such as ``-1``, ``1.5e3`` or ``"12"``."""
    try:
        number = Decimal(text.strip().strip(b'"').decode("ascii")) * 1000
    except (InvalidOperation, UnicodeDecodeError):
        return None
    return int(number) if number.is_finite() and abs(number) <= _LIMIT else None
