"""What every view says about the instrument itself: what a record costs, what tracing does to the kernel, its buffer.

The facts come from a recording's meta, which may come from a file: what is not as :meth:`Trace.fetch
<tileops.trace.namespace.Trace.fetch>` writes it counts as not known.
"""

from __future__ import annotations

import math
from typing import Any

from .capacity import human
from .perturbation import Perturbation


def told(meta: dict[str, Any]) -> list[str]:
    """One sentence each for a record's cost, the perturbation and, where it is known, the buffer's size."""
    parts = [record_cost(meta), perturbation(meta)]
    size = meta.get("slots_bytes")
    if isinstance(size, int) and not isinstance(size, bool):
        parts.append(f"trace buffer {human(size)}")
    return parts


def record_cost(meta: dict[str, Any]) -> str:
    """What one record costs its warp, or why that is not known."""
    probe = meta.get("probe")
    if not isinstance(probe, dict):
        return "cost of a record unknown: the recording does not say"
    if "error" in probe:
        return f"cost of a record unknown: {probe['error']}"
    plain, payload = probe.get("plain"), probe.get("payload")
    if not (_is_number(plain) and _is_number(payload)):
        return "cost of a record unknown: the recording does not say"
    where = f", measured on {probe['device']}" if "device" in probe else ""
    taken = ", taken out of all ranges" if meta.get("compensated") is True else ""
    return f"a record costs {plain:.0f} cycles ({payload:.0f} with a payload){_by_place(probe)}{where}{taken}"


def _by_place(probe: dict[str, Any]) -> str:
    """From what to what it costs, by whether it is held back or stored, where that is known and makes a difference."""
    behind = probe.get("behind")
    spans = []
    for kind in ("plain", "payload"):
        cycles = behind.get(kind) if isinstance(behind, dict) else None
        if not isinstance(cycles, (list, tuple)) or not cycles or not all(map(_is_number, cycles)):
            return ""
        spans.append(f"{min(cycles):.0f} to {max(cycles):.0f}")
    if all(span.split(" to ")[0] == span.split(" to ")[1] for span in spans):
        return ""
    return f", by its place {spans[0]} ({spans[1]})"


def perturbation(meta: dict[str, Any]) -> str:
    """How much slower tracing made the kernel, if that was measured."""
    stored = meta.get("perturbation")
    names = ("ratio", "low", "high", "stripped_us", "traced_us", "rounds")
    if not isinstance(stored, dict) or not all(_is_number(stored.get(name)) for name in names):
        return "perturbation not measured"
    return str(Perturbation(**{name: stored[name] for name in names}))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
