"""How often ranges ran and how long they took: over the launch, by CTA, by SM."""

from __future__ import annotations

import numpy as np

from ..timeline import Table, Timeline
from .distribution import columns, over, spread
from .numbering import Numbering, runs


def range_table(timeline: Timeline, numbering: Numbering) -> Table:
    """One row a range, over all CTAs.

    Ranges that were cut are counted apart and in nothing else, since how long they took is not known.

    Returns:
        By group and lane, then by first occurrence: ``group``, ``lane``, ``name``, ``count``, ``cut``, and in cycles
        ``total``, ``mean``, ``min``, ``p50``, ``p95``, ``p99``, ``max`` (NaN where all were cut), ``self`` (the total
        without the ranges of the same lane inside) and ``share``: ``total`` over the cycles of all finished CTAs, so
        that 0.25 means a quarter of the average CTA's time; NaN if these are unknown. Shares of ranges that run at
        the same time, or within each other, add up to more than one.
    """
    slices, cut = timeline.slices, timeline.slices.codes("cut")
    rows, cuts = [], []
    for number in range(len(numbering)):
        positions = numbering.positions(number)
        whole = positions[~cut.take(positions)] if cut.any() else positions
        rows.append(spread(slices.codes("duration").take(whole)))
        cuts.append(len(positions) - len(whole))
    spreads = columns(rows)
    count = spreads.pop("count")
    cycles = cta_cycles(timeline)
    share = spreads["total"] / cycles if cycles > 0 else np.full(len(numbering), np.nan)
    own = spreads["total"] - _inside(numbering)
    return numbering.table(
        {"count": count, "cut": np.array(cuts, dtype=np.int64), **spreads, "self": own, "share": share}
    )


def cta_cycles(timeline: Timeline) -> float:
    """The cycles of all CTAs that finished, added up."""
    return float(timeline.ctas.codes("cycles")[timeline.ctas.codes("finished")].sum())


def _inside(numbering: Numbering) -> np.ndarray:
    """(ranges,) cycles that the ranges right inside a range's took, added up over its whole slices."""
    slices, lane_of = numbering.slices, numbering.lanes[0]
    inside = np.zeros(len(numbering))
    for block in numbering.blocks():
        part = slices[block]
        depth = part.codes("depth")
        if not depth.any():
            continue
        number = numbering.of_slice[block]
        lane = lane_of.take(number)
        order = np.argsort(lane.astype(np.uint16), kind="stable")  # by lane, CTA, start
        depth, number, lane = depth[order], number[order], lane[order]
        cta, start, cut = part.codes("cta")[order], part.codes("start")[order], part.codes("cut")[order]
        duration = part.codes("duration")[order]
        end, nth = start + duration, np.arange(len(order))
        for level in range(1, int(depth.max()) + 1):
            around = np.maximum.accumulate(np.where(depth == level - 1, nth, -1))
            child = np.flatnonzero((depth == level) & (around >= 0))
            parent = around[child]
            # A ring may have lost the range around this one; then what stands before it is another range.
            held = (cta[parent] == cta[child]) & (lane[parent] == lane[child]) & (end[child] <= end[parent])
            held &= ~cut[parent]
            child, parent = child[held], parent[held]
            inside += np.bincount(number[parent], duration[child], minlength=len(numbering))
    return inside


def cta_table(timeline: Timeline, numbering: Numbering) -> Table:
    """One row a range that a CTA entered.

    Returns:
        By range, then CTA: ``group``, ``lane``, ``name``, ``cta``, ``sm``, ``count``, ``cut``, ``total``, ``mean``
        and ``max`` (cycles; NaN where all were cut), ``share`` (``total`` over the CTA's cycles).
    """
    slices, ctas = timeline.slices, timeline.ctas
    parts: list[tuple[np.ndarray, ...]] = []
    for number in range(len(numbering)):
        positions = numbering.positions(number)
        cta, cut = slices.codes("cta").take(positions), slices.codes("cut").take(positions)
        duration = np.where(cut, 0, slices.codes("duration").take(positions))
        starts = runs(cta)
        parts.append(
            (
                np.full(len(starts), number),
                cta[starts],
                np.diff(np.append(starts, len(cta))),
                np.add.reduceat(cut, starts, dtype=np.int64),
                np.add.reduceat(duration, starts),
                np.maximum.reduceat(duration, starts),
            )
        )
    nothing = (np.empty(0, dtype=np.int64),) * 6
    of_range, cta, entered, cut, total, most = (np.concatenate(column) for column in zip(*(parts or [nothing])))
    count = entered - cut
    line = np.searchsorted(ctas.codes("cta"), cta)
    cycles = ctas.codes("cycles").take(line)
    return numbering.table(
        {
            "cta": cta,
            "sm": ctas.codes("sm").take(line),
            "count": count,
            "cut": cut,
            "total": total,
            "mean": over(total, count),
            "max": np.where(count > 0, most, np.nan),
            "share": over(total, cycles),
        },
        of_range,
    )


def sm_table(timeline: Timeline, numbering: Numbering, of_ctas: Table) -> Table:
    """One row a range on an SM; ``of_ctas`` is what :func:`cta_table` made.

    Returns:
        By range, then SM: ``group``, ``lane``, ``name``, ``sm``, ``ctas`` (that entered the range there), ``count``,
        ``cut``, ``total``, ``mean``, ``max`` (cycles), ``share`` (``total`` over the cycles of the SM's CTAs).
    """
    ctas, sm = timeline.ctas, of_ctas.codes("sm")
    number = np.zeros(len(of_ctas), dtype=np.int64)
    number[1:] = np.cumsum(np.any([np.diff(of_ctas.codes(key)) != 0 for key in numbering.keys], axis=0))
    order = np.lexsort((sm, number))
    number, sm = number[order], sm[order]
    starts = np.flatnonzero(np.append(True, (np.diff(number) != 0) | (np.diff(sm) != 0))[: len(order)])

    def added(column: str) -> np.ndarray:
        return np.add.reduceat(of_ctas.codes(column)[order], starts) if len(starts) else np.empty(0, dtype=np.int64)

    finished = ctas.codes("finished")
    known, place = np.unique(ctas.codes("sm")[finished], return_inverse=True)
    cycles = np.bincount(place, ctas.codes("cycles")[finished], minlength=len(known))
    of_sm = np.searchsorted(known, sm[starts])
    count, total = added("count"), added("total")
    most = np.fmax.reduceat(of_ctas.codes("max")[order], starts) if len(starts) else np.empty(0)
    return numbering.table(
        {
            "sm": sm[starts],
            "ctas": np.diff(np.append(starts, len(order))),
            "count": count,
            "cut": added("cut"),
            "total": total,
            "mean": over(total, count),
            "max": most,
            "share": over(total, cycles[of_sm] if len(known) else np.empty(0)),
        },
        number[starts],
    )
