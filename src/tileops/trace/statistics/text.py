"""A summary as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from ..timeline import Table
from .summary import Summary


def text(summary: Summary) -> str:
    """The main tables of a summary, for people."""
    timeline = summary.timeline
    finished, all_ctas = int(timeline.ctas["finished"].sum()), len(timeline.ctas)
    parts = [f"{all_ctas:,} CTAs on {len(summary.load):,} SMs", f"{timeline.recorded:,} events"]
    if math.isfinite(summary.span_ns):
        parts.append(f"{summary.span_ns / 1000:,.2f} µs")
    lines = [f"{timeline.meta.get('kernel', 'kernel')}: {', '.join(parts)}"]
    if timeline.dropped:
        lines.append(f"{timeline.dropped:,} events were dropped: counts and totals are what is left")
    if finished < all_ctas:
        lines.append(f"{all_ctas - finished:,} CTAs did not finish: nothing of theirs is counted")
    lines += _section(
        "Ranges, in cycles", summary.ranges,
        {"group": str, "lane": str, "name": str, "count": _count, "cut": _count, "mean": _cycles, "p50": _cycles,
         "p95": _cycles, "p99": _cycles, "max": _cycles, "total": _cycles, "self": _cycles, "share": _percent},
    )  # fmt: skip
    lines += _section(
        "Lanes, in cycles", summary.lanes,
        {"group": str, "lane": str, "share": _percent, "gaps": _count, "gap_mean": _cycles, "gap_p95": _cycles,
         "gap_max": _cycles, "before": _cycles, "behind": _cycles},
    )  # fmt: skip
    lines += _section(
        "Groups at the same time", summary.group_overlaps, {"group": str, "other_group": str, "share": _percent}
    )
    lines += _section(
        "Phases, in cycles of the average CTA", summary.phases,
        {"group": str, "iterations": _count, "first": _count, "last": _count, "prologue": _cycles, "steady": _cycles,
         "epilogue": _cycles},
    )  # fmt: skip
    lines += _section(
        "Hand-offs, in cycles", summary.handoffs,
        {"src_group": str, "src": str, "dst_group": str, "dst": str, "count": _count, "p50": _cycles, "p95": _cycles,
         "max": _cycles, "waited": _percent, "depth_mean": "{:.2f}".format, "depth_max": _count, "built": _known},
    )  # fmt: skip
    return "\n".join(lines)


def _section(title: str, table: Table, shown: dict[str, Callable[[Any], str]]) -> Iterable[str]:
    """A title, and the table's columns that are shown, aligned; nothing for a table without rows."""
    if len(table) == 0:
        return []
    cells = [[name.replace("_", " "), *map(form, table[name].tolist())] for name, form in shown.items()]
    cells = [[_one_line(cell) for cell in column] for column in cells]
    widths = [max(map(len, column)) for column in cells]
    columns = [
        [cell.ljust(width) if form is str else cell.rjust(width) for cell in column]
        for column, width, form in zip(cells, widths, shown.values())
    ]
    rows = map("  ".join, zip(*columns))
    return ["", title, *(f"  {row.rstrip()}" for row in rows)]


def _one_line(cell: str) -> str:
    """Names may hold anything; what is no letter or sign is shown by its code."""
    cell = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in cell)
    return cell if len(cell) <= 40 else f"{cell[:39]}…"


def _count(value: float) -> str:
    return f"{value:,}"


def _known(value: int) -> str:
    return f"{value:,}" if value else "unknown"


def _cycles(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:,.0f}"


def _percent(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.1%}"
