"""A comparison as text."""

from __future__ import annotations

import math

from .comparison import Comparison
from .verdict import NOISE, Verdict


def text(comparison: Comparison) -> str:
    """What changed, first the kernel, then its ranges, then its findings."""
    span = comparison.span
    launches = " and ".join(
        f"{len(side)} {'launch' if len(side) == 1 else 'launches'} {when}"
        for side, when in ((comparison.before, "before"), (comparison.after, "after"))
    )
    lines = [
        f"{comparison.after[0].meta.get('kernel', 'kernel')}: {launches}",
        f"kernel: {span.before / 1000:,.2f} µs before, {span.after / 1000:,.2f} µs after: {told(span)}: {span.reason}",
    ]
    lines += [f"caution: {sentence}" for sentence in comparison.caution]
    changed = [change for change in comparison.ranges if change.verdict.verdict != NOISE]
    quiet = len(comparison.ranges) - len(changed)
    width = max((len(_name(change.group, change.lane, change.name)) for change in changed), default=0)
    if changed:
        lines += ["", "Ranges, in cycles a CTA"]
    for change in changed:
        found = change.verdict
        before, after = (f"{value:>10,.0f}" if math.isfinite(value) else f"{'–':>10}"
                         for value in (found.before, found.after))  # fmt: skip
        name = _name(change.group, change.lane, change.name).ljust(width)
        lines.append(f"  {name} {before} {after}  {told(found)}")
    if quiet:
        lines.append(f"  {quiet} {'range' if quiet == 1 else 'ranges'} without a change that is more than noise")
    for title, findings in (("Findings that are gone", comparison.gone), ("New findings", comparison.new)):
        if findings:
            lines += ["", title]
            lines += [f"  {line}" for finding in findings for line in str(finding).splitlines()]
    return "\n".join(lines)


def told(verdict: Verdict) -> str:
    """A verdict in a line, without its reason."""
    if not math.isfinite(verdict.change):
        return verdict.reason
    spread = ""
    if math.isfinite(verdict.low):
        spread = f", 80% of CTAs {verdict.low:+.1%} to {verdict.high:+.1%}"
    return f"{verdict.change:+.1%}{spread}: {verdict.verdict}, {verdict.evidence}"


def _name(*parts: str) -> str:
    return " / ".join(" ".join(part.splitlines()) for part in parts)  # names may hold anything
