"""Where the time of a launch goes, as one table: a row a range."""

from __future__ import annotations

import numpy as np

from .timeline import Table, Timeline

KEYS = ("group", "lane", "name")


def summarize(timeline: Timeline) -> Table:
    """Adds up the ranges of a Timeline over all its CTAs.

    Ranges that were cut, since their row was full, are left out: how long they took is not known.

    Args:
        timeline: what :meth:`tileops.trace.trace.decode` returned.

    Returns:
        One row for each group, lane and name, by group and lane, then by first occurrence, with the columns
        ``group``, ``lane``, ``name``, ``count`` (occurrences), ``mean`` (cycles), ``total`` (cycles) and ``share``
        (``total`` over the cycles of all finished CTAs: 0.25 means a quarter of the average CTA's time; NaN if these
        are unknown). Shares of ranges that run at the same time, or within each other, add up to more than one.
    """
    slices = timeline.slices[~timeline.slices["cut"]]
    codes = [slices.codes(key).astype(np.int64) for key in KEYS]
    sizes = [len(slices.vocabulary(key)) for key in KEYS]
    # One integer a range, that sorts by group, then lane.
    combined = (codes[0] * sizes[1] + codes[1]) * sizes[2] + codes[2]
    _, first, which = np.unique(combined, return_index=True, return_inverse=True)
    order = np.lexsort((first, codes[1][first], codes[0][first]))
    count = np.bincount(which, minlength=len(first))[order]
    total = np.bincount(which, weights=slices["duration"], minlength=len(first))[order]
    cycles = float(timeline.ctas["cycles"][timeline.ctas["finished"]].sum())
    columns = {key: slices.codes(key)[first[order]] for key in KEYS}
    columns |= {"count": count, "mean": total / np.maximum(count, 1), "total": total}
    columns["share"] = total / cycles if cycles > 0 else np.full(len(total), np.nan)
    return Table(columns, {key: slices.vocabulary(key) for key in KEYS})
