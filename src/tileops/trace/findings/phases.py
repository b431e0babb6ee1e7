"""Rules about what comes ahead of a loop's steady state, and behind it."""

from __future__ import annotations

from collections.abc import Iterator

from .facts import Facts
from .finding import Finding

# The production GEMM of 64 iterations on an H200 spends 4.6% of a CTA's time ahead of its steady state and 5.3% behind
# it. Less than this is no finding, whatever minimum is asked for.
LONG = 0.1


def phases(facts: Facts) -> Iterator[Finding]:
    """A long prologue, a long epilogue: of the group that has most to do, of those that hand nothing on.

    A producer is always done early.
    """
    producers = {facts.group_of(edge.src) for edge in facts.edges}
    told = [row for row in facts.summary.phases if row.group not in producers]
    if not told or facts.cycles <= 0:
        return
    row = max(told, key=lambda row: _works(facts, row.group))
    if not facts.supported({row.group}):
        return
    average = row.prologue + row.steady + row.epilogue
    at_once = max(facts.summary.load["resident"].tolist(), default=1)
    doubt = f"up to {at_once} CTAs share an SM, and one may run while another does this" if at_once > 1 else ""
    for rule, cycles, where, next_ in (
        ("long-prologue", row.prologue, f"ahead of the steady state, which begins with iteration {row.first}",
         "start the first loads earlier, keep what comes ahead of them short, or give a CTA more iterations"),
        ("long-epilogue", row.epilogue, f"behind the steady state, which ends with iteration {row.last}",
         "let the epilogue overlap with the next tile (a persistent kernel), or give a CTA more iterations"),
    ):  # fmt: skip
        share = cycles / average
        if share >= max(facts.minimum, LONG):
            yield facts.finding(
                rule,
                seen=f"{row.group} is {cycles:,.0f} cycles, {share:.0%} of a CTA's time, {where} of {row.iterations}",
                win=share,
                groups={row.group},
                doubt=doubt,
                next=next_,
                figures={"cycles": cycles, "share": share, "iterations": row.iterations},
                ranges=tuple(facts.names[number] for number in facts.of_group(row.group)),
            )


def _works(facts: Facts, group: str) -> float:
    """How long a group works in ranges that do not wait."""
    own = [number for number in facts.of_group(group) if number not in facts.waits]
    return float(facts.summary.ranges["self"][own].sum())
