"""What a finding is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

STRONG, WEAK, PROVISIONAL = "strong", "weak", "provisional"


@dataclass(frozen=True)
class Finding:
    """Something that costs time, or that keeps a recording from telling what does.

    Attributes:
        rule: which rule made it, such as ``"consumer-starved"``.
        seen: what was seen, in words with figures.
        win: at most what removing it could win, as a share of the kernel's span; 0 for what concerns the recording.
        evidence: ``"strong"``, ``"weak"`` or ``"provisional"``.
        reason: why the evidence is that strong, or no stronger.
        next: the next thing to try.
        figures: what ``seen`` says, by name: cycles unless the name says otherwise; shares are of the CTAs' time.
        ranges: the ranges concerned, as (group, lane, name).
        ctas: the CTAs where it is worst, the worst one first; empty where it is as bad in all.
        span_ns: from when to when, on the axis of the GPU; ``None`` where that is the whole launch, or not known.
    """

    rule: str
    seen: str
    win: float
    evidence: str
    reason: str
    next: str
    figures: dict[str, float] = field(default_factory=dict)
    ranges: tuple[tuple[str, str, str], ...] = ()
    ctas: tuple[int, ...] = ()
    span_ns: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The finding as what JSON has: a figure that is not known is ``None``."""
        figures = {name: value if math.isfinite(value) else None for name, value in self.figures.items()}
        return {**asdict(self), "figures": figures}

    def __str__(self) -> str:
        bound = f"up to {self.win:.1%} of the kernel" if self.win else "about the recording"
        seen = " ".join(self.seen.splitlines())  # names may hold anything
        return f"{self.rule} ({bound}; {self.evidence}): {seen}\n  evidence: {self.reason}\n  next: {self.next}"
