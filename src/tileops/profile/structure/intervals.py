"""Sets of moments as arrays of intervals."""

from __future__ import annotations

import numpy as np


def merge(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The union of intervals: the fewest intervals that cover the same moments, in order.

    Args:
        begin: of N intervals, in any order.
        end: of the same.

    Returns:
        Beginnings and ends of at most N intervals, which neither overlap nor touch.
    """
    if not len(begin):
        return begin, end
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    first = np.append(True, begin[1:] > end[:-1])
    last = np.append(first[1:], True)
    return begin[first], end[last]


def length(intervals: tuple[np.ndarray, np.ndarray]) -> int:
    """How long they are together; of a union, how much time it covers."""
    return int((intervals[1] - intervals[0]).sum())


def overlap(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> int:
    """How much time two unions have in common."""
    return length(one) + length(other) - length(merge(*map(np.concatenate, zip(one, other))))


def covered(union: tuple[np.ndarray, np.ndarray], begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How much of each of N intervals a union covers."""
    return _covered_until(union, end) - _covered_until(union, begin)


def _covered_until(union: tuple[np.ndarray, np.ndarray], moment: np.ndarray) -> np.ndarray:
    begins, ends = union
    before = np.append(0, np.cumsum(ends - begins))
    index = np.searchsorted(begins, moment, side="right")
    if not len(begins):
        return np.zeros(len(moment), np.int64)
    # Of the interval that began last, only what lies before the moment.
    beyond = np.where(index > 0, np.maximum(ends[np.maximum(index - 1, 0)] - moment, 0), 0)
    return before[index] - beyond
