"""From recorded slots to a Timeline, in whole-column operations.

Nothing loops over events. Headers are read for all CTAs at once; records then go through in blocks of CTAs, so small
that a block's columns stay in the processor's cache. Read it in the order of the data: :mod:`.rows` (headers),
:mod:`.records`, :mod:`.events` of each kind, begins paired with their ends (:mod:`.pairing`), :mod:`.times`,
:mod:`.flows`, :mod:`.blocks` that go through all of these, :mod:`.tables`.

The buffer is not trusted. A row is read only if its header says that it was closed; then whatever the recorder
guarantees is checked (counts, sites, order of times, one end for each begin), so that memory that something else
wrote to is refused instead of drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..axis import fit_axis
from ..errors import TraceError
from ..sites import SiteTable
from ..timeline import Timeline
from .blocks import Block
from .columns import Columns, joined
from .rows import Rows
from .site_arrays import Sites
from .tables import ctas_table, flows_table, instants_table, rows_table, slices_table

__all__ = ["decode_lines"]

# Of 2**14 to 2**20 this decodes fastest: more does not fit into the cache of a core, less is lost on calls.
_BLOCK_RECORDS = 1 << 16


def decode_lines(
    lines: np.ndarray, table: SiteTable, meta: dict[str, Any] | None = None, cost: np.ndarray | None = None
) -> Timeline:
    """Decodes slots.

    Args:
        lines: (recorded CTAs, words) of 64-bit integers: the ``slots`` buffer on the host. Words behind the last record
            of a row may be anything, and so may the rows of CTAs that did not finish.
        table: the kernel's site table.
        meta: what is known of the launch, kept in ``Timeline.meta``.
        cost: (sites,) cycles that lie behind the clock read of a site's record, to be taken out of the ranges that hold
            them, see :class:`.times.Times`. ``None`` leaves the times as recorded.

    Raises:
        TraceError: if the buffer cannot come from a launch of that kernel.
    """
    if lines.ndim != 2 or lines.shape[1] != table.line_words or lines.dtype not in (np.int64, np.uint64):
        raise TraceError(
            f"slots must be (CTAs, {table.line_words}) 64-bit words for kernel {table.kernel!r}, "
            f"got {lines.shape} of {lines.dtype}"
        )
    sites = Sites.of(table)
    if cost is not None:
        sites = replace(sites, in_turn=True)
    rows = Rows.read(lines.view(np.uint64), table)
    sm = np.zeros_like(rows.sm) if table.target == "c" else rows.sm
    axis = fit_axis(sm, rows.clock, rows.timer, rows.zero, rows.finished)
    if table.choice.kind != "all":
        axis = replace(axis, ctas=rows.number)
    collected = Columns(int(rows.stored.sum()) * sites.most_begins)
    marks, arrows, recorded = [], [], np.zeros_like(rows.attempted)
    for part in rows.blocks(_BLOCK_RECORDS):
        block = Block.decode(part, sites, collected.length, cost)
        collected.append(block.slices)
        marks.append(block.instants)
        arrows.append(block.flows)
        recorded[part.first_line : part.first_line + len(part.lines)] = block.recorded
    slices = slices_table(collected.columns(), sites, axis)
    instants = instants_table(joined(marks), sites, axis)
    dropped = rows.attempted - recorded
    return Timeline(
        slices=slices,
        instants=instants,
        flows=flows_table(joined(arrows), slices),
        rows=rows_table(recorded, dropped, rows),
        ctas=ctas_table(recorded, dropped, rows, axis),
        grid=rows.grid,
        groups=sites.vocabularies["group"],
        axis_error_ns=axis.error_ns,
        never_fired=_never_fired(slices["site"], instants["site"], rows),
        meta={
            "kernel": table.kernel,
            "target": table.target,
            "max_events": table.max_events,
            "keep": "last" if table.keep_last else "first",
            **(meta or {}),
        },
    )


def _never_fired(slices: np.ndarray, instants: np.ndarray, rows: Rows) -> tuple[str, ...]:
    """Markers without a single event, in launches of which nothing is missing. Takes the sites of what was recorded."""
    if not rows.finished.all() or rows.lost.any() or rows.table.choice.kind != "all":
        return ()
    fired = np.zeros(len(rows.table.ranges), dtype=bool)
    fired[instants] = True
    for first in range(0, len(slices), _BLOCK_RECORDS):
        if fired.all():
            break
        fired[slices[first : first + _BLOCK_RECORDS]] = True
    return tuple(
        f"{'record' if r.instant else 'range'} {r.name!r} at {r.where}"
        for r, seen in zip(rows.table.ranges, fired)
        if not seen
    )
