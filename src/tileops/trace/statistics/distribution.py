"""What is said of many values: how they are spread."""

from __future__ import annotations

import numpy as np

PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}
SPREAD = ("count", "total", "mean", "min", "p50", "p95", "p99", "max")


def spread(values: np.ndarray) -> tuple[float, ...]:
    """Count, total, mean, min, p50, p95, p99 and max; all but the first two are NaN of no values.

    Percentiles are exact, and lie between two values as ``numpy.percentile`` has it by default (linear).
    """
    if len(values) == 0:
        return (0, 0.0, *[np.nan] * 6)
    total = float(values.sum())
    middle = np.percentile(values, list(PERCENTILES.values()))
    return (len(values), total, total / len(values), float(values.min()), *middle.tolist(), float(values.max()))


def columns(rows: list[tuple[float, ...]]) -> dict[str, np.ndarray]:
    """Columns of what :func:`spread` says of each row's values."""
    table = np.array(rows, dtype=np.float64).reshape(-1, len(SPREAD))
    named = dict(zip(SPREAD, table.T.copy()))
    named["count"] = named["count"].astype(np.int64)
    return named


def percentile_of_each(values: np.ndarray, of: np.ndarray, groups: int, percent: list[float]) -> np.ndarray:
    """(percentiles, groups) percentiles of the values of each group, NaN where it has none.

    Args:
        values: (n,) what to look at.
        of: (n,) the group of each.
        groups: how many there are.
        percent: which percentiles.
    """
    count = np.bincount(of, minlength=groups)
    if groups and count.min() == count.max() > 0 and (of[:groups] == np.arange(groups)).all():
        turns = of.reshape(-1, groups)
        if (turns == turns[0]).all():  # turn by turn, as iterations of CTAs that have as many each
            return np.asarray(np.percentile(values.reshape(-1, groups), percent, axis=0))
    ordered = values[np.lexsort((values, of))]
    first = np.cumsum(count) - count
    # The value at rank (n - 1) · p / 100, between its neighbours: numpy.percentile's default.
    rank = np.maximum(count - 1, 0) * (np.array(percent)[:, None] / 100)
    below = np.floor(rank).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    last = max(len(ordered) - 1, 0)
    if len(ordered) == 0:
        return np.full(rank.shape, np.nan)
    low, high = (ordered[np.minimum(first + at, last)].astype(np.float64) for at in (below, above))
    return np.where(count > 0, low + (high - low) * (rank - below), np.nan)


def over(total: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The quotient, NaN where it is by nothing."""
    return np.where(by > 0, total / np.maximum(by, 1), np.nan)
