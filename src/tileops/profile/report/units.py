"""Figures as people read them."""

from __future__ import annotations

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
UNKNOWN = "unknown"


def duration(ns: float | None) -> str:
    """Nanoseconds with three digits that count."""
    if ns is None:
        return UNKNOWN
    if ns == 0:
        return "0"
    for size, unit in _TIMES:
        if abs(ns) >= size or unit == "ns":
            return f"{_digits(ns / size)} {unit}"
    return UNKNOWN


def size(count: float | None) -> str:
    """Bytes."""
    if count is None:
        return UNKNOWN
    for unit, name in _SIZES:
        if abs(count) >= unit:
            return f"{_digits(count / unit)} {name}"
    return f"{count:,.0f} B"


def gpu(device: int) -> str:
    """A GPU by its number, where the trace has it."""
    return f"GPU {device}" if device >= 0 else "the GPU without a number"


def times(count: int) -> str:
    """How often."""
    return "once" if count == 1 else f"{count:,} times"


def share(part: float | None) -> str:
    """A part of a whole."""
    return UNKNOWN if part is None else f"{part:.1%}"


def number(value: float | None, unit: str = "") -> str:
    """A figure with three digits that count."""
    return UNKNOWN if value is None else f"{_digits(value)} {unit}".rstrip()


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
