"""Tables for the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from tileops.trace.timeline import Timeline


def range_table(timeline: Timeline) -> Table:
    """A Timeline's ranges, one a row: how often, how long, and how much of the CTA's time."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("group", "lane", "range"):
        table.add_column(heading, no_wrap=True)
    for heading in ("count", "mean cycles", "of the CTA's time"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in timeline.summary().ranges:
        # Text, since names may hold what rich takes for markup.
        names = [Text(text) for text in (row.group, row.lane, row.name)]
        table.add_row(*names, f"{row.count:,}", f"{row.mean:,.0f}", f"{row.share:.1%}")
    return table
