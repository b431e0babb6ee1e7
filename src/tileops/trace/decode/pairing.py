"""Begins and ends of ranges: which belong together, and which lost their partner."""

from __future__ import annotations

import numpy as np

from .events import Events
from .rows import Rows


def end_records(begins: Events, ends: Events, rows: Rows) -> np.ndarray:
    """For each begin the record of its end, or -1 where there is none.

    One thread records a row, so within a row the begins and ends of a range alternate, starting with a begin.
    """
    balanced = np.array_equal(begins.per_row, ends.per_row)
    if balanced and np.array_equal(begins.range, ends.range) and _alternate(begins.moment, ends.moment):
        return ends.record  # No range holds another one: they are paired as they stand.

    # Bring both into the order of range, then moment. (16-bit keys: a radix sort.)
    begin_order = np.argsort(begins.range.astype(np.uint16), kind="stable")
    end_order = np.argsort(ends.range.astype(np.uint16), kind="stable")
    begin, end = begins.moment.take(begin_order), ends.moment.take(end_order)
    begin_range, end_range = begins.range.take(begin_order), ends.range.take(end_order)
    found = np.full(len(begin), -1, dtype=np.int64)
    # With as many begins as ends in each row, none can belong to another row's.
    if balanced and np.array_equal(begin_range, end_range) and _alternate(begin, end, begin_range):
        found[begin_order] = ends.record.take(end_order)
        return found

    # Some range has no end, or the row is damaged: look for each begin's next end.
    row = np.arange(len(begins.per_row))
    begin_row, end_row = np.repeat(row, begins.per_row)[begin_order], np.repeat(row, ends.per_row)[end_order]
    moments = max(begin.max(initial=0), end.max(initial=0)) + 1
    partner = np.searchsorted(end_range * moments + end, begin_range * moments + begin)
    whole = partner < len(end)
    at = partner[whole]
    whole[whole] = (end_range[at] == begin_range[whole]) & (end_row[at] == begin_row[whole])
    wrong = np.zeros(len(row), dtype=bool)
    again = (begin_range[1:] == begin_range[:-1]) & (begin_row[1:] == begin_row[:-1])
    wrong[begin_row[:-1][again & (~whole[:-1] | (partner[1:] == partner[:-1]))]] = True
    wrong |= ends.per_row > np.bincount(begin_row[whole], minlength=len(row))
    rows.refuse(wrong.reshape(rows.closed.shape), "its ranges do not begin and end in turn")
    found[begin_order[whole]] = ends.record[end_order[partner[whole]]]
    return found


def _alternate(begin: np.ndarray, end: np.ndarray, of: np.ndarray | None = None) -> bool:
    """Whether each end stands between its begin and the next one, of the same range if ``of`` is given."""
    before_next = end[:-1] <= begin[1:]
    if of is not None:
        before_next |= of[:-1] != of[1:]
    return bool((begin <= end).all() and before_next.all())


def without_orphans(begins: Events, ends: Events, rows: Rows) -> tuple[Events, np.ndarray]:
    """The ends whose begins a ring has not overwritten, and for each row how many others there were.

    A range's begins and ends alternate: only the first end of a range in a row can have lost its begin.
    """
    row = np.arange(len(ends.per_row))
    ranges = len(rows.table.ranges)
    begin_of = np.repeat(row, begins.per_row) * ranges + begins.range
    end_of = np.repeat(row, ends.per_row) * ranges + ends.range
    which, first_end = np.unique(end_of, return_index=True)
    begun, first_begin = np.unique(begin_of, return_index=True)
    at = np.searchsorted(begun, which)
    known = at < len(begun)
    known[known] = begun[at[known]] == which[known]
    lost_begin = ~known
    lost_begin[known] = ends.moment[first_end[known]] < begins.moment[first_begin[at[known]]]
    lost_begin &= (rows.lost.reshape(-1) > 0)[which // ranges] if ranges else True
    kept = np.ones(len(ends.record), dtype=bool)
    kept[first_end[lost_begin]] = False
    orphans = np.bincount(which[lost_begin] // max(ranges, 1), minlength=len(row))
    left = Events(ends.record[kept], ends.moment[kept], ends.range[kept], ends.per_row - orphans)
    return left, orphans
