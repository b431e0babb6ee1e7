"""Findings: what a timeline says that a person would act on, one file a family of rules.

A finding is made only where the data supports it: pipelines where half of the CTAs have all events, phases where the
loop has a steady state, waves and balance where all CTAs were recorded and the clock is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..errors import TraceError
from ..timeline import Timeline
from .balance import lanes, launch
from .facts import Facts
from .finding import Finding
from .outliers import outliers
from .phases import phases
from .pipeline import pipeline
from .rates import FLOP_A_CYCLE, flop_a_cycle
from .recording import recording

MINIMUM = 0.05
# Of findings with the same win, the one of the earlier rule comes first.
RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (pipeline, launch, phases, outliers, lanes)


def find(
    timeline: Timeline,
    minimum: float = MINIMUM,
    depth: int | None = None,
    roles: Mapping[str, Collection[str]] | None = None,
    least_cycles: Mapping[str, float] | None = None,
    flops: float | None = None,
) -> list[Finding]:
    """All findings, those first that could win most; what concerns the recording comes last.

    Args, errors: as of :meth:`tileops.trace.Timeline.findings`.
    """
    if not _is_share(minimum):
        raise TraceError(f"findings: minimum must be a share of the kernel's span, from 0 to 1, got {minimum!r}")
    names = timeline.slices.vocabulary("name")
    for name, cycles in (least_cycles or {}).items():
        if name not in names:
            raise TraceError(f"findings: least_cycles names {name!r}, but the ranges are {', '.join(names)}")
        if isinstance(cycles, bool) or not isinstance(cycles, (int, float)) or not 0 < cycles < math.inf:
            raise TraceError(f"findings: least_cycles of {name!r} must be a number of cycles above 0, got {cycles!r}")
    if flops is not None:
        _check_flops(timeline, flops, least_cycles)
    facts = Facts(timeline, float(minimum), depth, roles, least_cycles, flops)
    found = [finding for rule in RULES for finding in rule(facts) if finding.win > 0]
    found += recording(facts)
    return sorted(found, key=lambda finding: -finding.win)


def _check_flops(timeline: Timeline, flops: Any, least_cycles: Mapping[str, float] | None) -> None:
    if isinstance(flops, bool) or not isinstance(flops, (int, float)) or not 0 < flops < math.inf:
        raise TraceError(f"findings: flops must be a number of operations above 0, got {flops!r}")
    if least_cycles:
        raise TraceError("findings: flops and least_cycles both say how long computations need: give one of them")
    device = timeline.meta.get("device", "an unknown device")
    if flop_a_cycle(device) is None:
        known = ", ".join(FLOP_A_CYCLE)
        raise TraceError(
            f"findings: flops needs a device of known rate ({known}), not {device}: give least_cycles instead"
        )


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


__all__ = ["Finding", "find"]
