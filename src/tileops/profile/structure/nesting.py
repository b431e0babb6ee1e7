"""Events inside events: on one thread, two durations are apart, or one holds the other."""

from __future__ import annotations

import numpy as np


def depths(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How many of the other intervals each one stands in.

    Args:
        begin: of N intervals of one thread, in order, of equal ones the longer first.
        end: of the same.

    Returns:
        N depths; 0 for the outermost.
    """
    # Of those that began no later, the ones that have not ended.
    ended = np.searchsorted(np.sort(end), begin, side="right")
    index = np.arange(len(begin))
    # An interval of no length ends where it begins: it must not count as one that has ended before itself.
    empty_before = np.append(0, np.cumsum(begin == end))[:-1]
    last_empty = np.searchsorted(begin[begin == end], begin, side="right") - empty_before
    return np.maximum(index - ended + last_empty, 0)


def parents(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The interval that each one stands directly in, or -1; the arguments are those of :func:`depths`."""
    depth = depths(begin, end)
    return _deepest(begin, end, depth, begin, depth)


def innermost(begin: np.ndarray, end: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """The innermost interval at each of M moments, or -1; the arguments are those of :func:`depths`."""
    depth = depths(begin, end)
    return _deepest(begin, end, depth, moment, np.full(len(moment), int(depth.max(initial=-1)) + 1))


def _deepest(
    begin: np.ndarray, end: np.ndarray, depth: np.ndarray, moment: np.ndarray, below: np.ndarray
) -> np.ndarray:
    """Of the intervals less deep than ``below``, the deepest that holds each moment.

    Ends are not compared: the clocks' rounding lets an operator end a nanosecond behind the one that called it.
    """
    found = np.full(len(moment), -1)
    for level in range(int(depth.max(initial=-1)), -1, -1):
        members = np.flatnonzero(depth == level)
        place = np.searchsorted(begin[members], moment, side="right") - 1
        candidate = members[np.maximum(place, 0)]
        holds = (place >= 0) & (end[candidate] > moment) & (below > level) & (found < 0)
        found[holds] = candidate[holds]
    return found
