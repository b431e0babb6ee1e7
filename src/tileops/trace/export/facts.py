"""What is known of a launch and of a CTA as a whole, for formats that hang it on something."""

from __future__ import annotations

from typing import Any

from ..timeline import Timeline
from ..told import perturbation, record_cost


def launch_facts(timeline: Timeline) -> dict[str, Any]:
    """The launch, as named texts and numbers. What its meta does not say is left out, but for kernel and device."""
    meta = timeline.meta
    facts: dict[str, Any] = {"kernel": str(meta.get("kernel") or "kernel"), "device": str(meta.get("device") or "GPU")}
    for name in ("date", "host", "rank", "launch"):
        value = meta.get(name)
        if isinstance(value, str) or (isinstance(value, int) and 0 <= value < 1 << 63):  # a file can say anything
            facts[name] = value
    return facts | {
        "grid": " × ".join(map(str, timeline.grid)),
        "CTAs": len(timeline.ctas),
        "CTAs unfinished": len(timeline.unfinished),
        "events recorded": timeline.recorded,
        "events dropped": timeline.dropped,
        "axis error ns": float(timeline.axis_error_ns),
        "cost of a record": record_cost(meta),
        "perturbation": perturbation(meta),
    }


def cta_facts(timeline: Timeline, row: int) -> dict[str, Any]:
    """A CTA, by its row in ``timeline.ctas``."""
    ctas = timeline.ctas
    facts: dict[str, Any] = {name: int(ctas[name][row]) for name in ("x", "y", "z", "sm", "cycles")}
    facts["ghz"] = float(ctas["ghz"][row])
    return facts | {f"events {name}": int(ctas[name][row]) for name in ("recorded", "dropped")}
