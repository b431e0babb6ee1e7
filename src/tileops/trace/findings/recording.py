"""Rules about the recording itself: what it cannot tell. They have no win, and no minimum applies."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .facts import Facts
from .finding import PROVISIONAL, STRONG, Finding

# A range that is shorter than so many records says more of the recorder than of the kernel.
_RECORDS = 2
# Of ranges that are too short, those are left out that records take so much of the CTAs' time for at most, together: a
# barrier or a clearing once a CTA. Nothing that these records hide, or add, is as much as what tracing changes the
# production GEMM's time by (1.4%), and it is less than a fifth of the win that makes a finding by default.
_NEGLIGIBLE = 0.01
# A kernel that tracing makes this much slower is another kernel.
_DISTURBED = 0.05
# Fewer lost events, of all or of a row, hide nothing: they are said beside what they concern.
_OF_ALL, _OF_A_ROW = 0.01, 0.1


def recording(facts: Facts) -> Iterator[Finding]:
    """Ranges too short to be measured, a disturbance, dropped events."""
    yield from _too_short(facts)
    yield from _disturbance(facts)
    yield from _dropped(facts)


def _too_short(facts: Facts) -> Iterator[Finding]:
    probe = facts.timeline.meta.get("probe")
    found = [probe.get(kind) for kind in ("plain", "payload")] if isinstance(probe, dict) else []
    costs = [float(cost) for cost in found if isinstance(cost, (int, float)) and math.isfinite(cost)]
    if len(costs) < 2:
        return
    ranges, payload = facts.summary.ranges, _with_payload(facts)
    limit = _RECORDS * np.where(payload, costs[1], costs[0])
    # A range that never takes any time is a point in time, made so on purpose.
    short = np.flatnonzero((ranges["count"] > 0) & (ranges["p50"] < limit) & (ranges["max"] > 0))
    # By what their records take, not by the ranges' own time: that is what was not measured.
    part = ranges["count"][short] * limit[short] / facts.cycles if facts.cycles > 0 else np.ones(len(short))
    order = np.argsort(part, kind="stable")
    short = np.sort(short[order[np.cumsum(part[order]) >= _NEGLIGIBLE]])
    if len(short):
        names = [facts.names[number] for number in short]
        yield Finding(
            rule="too-short-to-measure",
            seen=f"{', '.join(' / '.join(name) for name in names)}: half of the occurrences are shorter than "
            f"{_RECORDS} records take ({costs[0]:.0f} cycles each, {costs[1]:.0f} with a payload)",
            win=0.0,
            evidence=STRONG,
            reason="the cost of a record was measured on the device that recorded",
            next="put one range around several iterations, or decode with compensate=True and look at means only",
            figures={"record": costs[0], "record_with_payload": costs[1]},
            ranges=tuple(names),
        )


def _with_payload(facts: Facts) -> np.ndarray:
    """(ranges,) whether a range's group records payloads, so that all of its records are wide."""
    slices = facts.timeline.slices
    firsts = [facts.summary.numbering.positions(number)[:1] for number in range(len(facts.names))]
    kinds = [bool(slices[first].codes("payload_kind").any()) for first in firsts]
    wide = {group for (group, _, _), kind in zip(facts.names, kinds) if kind}
    return np.array([group in wide for group, _, _ in facts.names], dtype=bool)


def _disturbance(facts: Facts) -> Iterator[Finding]:
    if facts.disturbance >= _DISTURBED:
        yield Finding(
            rule="disturbed",
            seen=f"tracing changed this kernel's time by {facts.disturbance:.0%}: what the timeline shows is not the "
            "kernel alone",
            win=0.0,
            evidence=STRONG,
            reason="stripped and traced builds were run in turn",
            next="record fewer ranges, or choose CTAs (docs/choosing.md); compare with compensate=True",
            figures={"disturbance": facts.disturbance},
        )


def _dropped(facts: Facts) -> Iterator[Finding]:
    timeline, rows = facts.timeline, facts.timeline.rows
    if not timeline.dropped:
        return
    dropped, recorded = rows["dropped"], rows["recorded"]
    part = timeline.dropped / (timeline.dropped + timeline.recorded)
    worst = dropped / np.maximum(dropped + recorded, 1)
    if part < _OF_ALL and worst.max() < _OF_A_ROW:
        return
    bad = np.flatnonzero(dropped > 0)
    order = bad[np.argsort(-worst[bad], kind="stable")]
    groups = sorted(set(rows["group"][bad].tolist()))
    hidden = [group for group in groups if not facts.supported({group})]
    yield Finding(
        rule="dropped-events",
        seen=f"{timeline.dropped:,} events ({part:.0%}) were dropped, in rows of {', '.join(groups)}, up to "
        f"{worst.max():.0%} of a row" + (f"; nothing is concluded about {', '.join(hidden)}" if hidden else ""),
        win=0.0,
        evidence=STRONG if hidden else PROVISIONAL,
        reason="dropped events are counted exactly"
        + ("" if hidden else "; whether they would change a finding is not known"),
        next="build with a larger max_events, or choose what to record (docs/choosing.md)",
        figures={"dropped": timeline.dropped, "part": part, "worst_row": float(worst.max())},
        ctas=tuple(dict.fromkeys(rows["cta"][order].tolist()))[:8],
    )
