"""How the launch's CTAs lie on the SMs."""

from __future__ import annotations

import numpy as np

from ..timeline import Table, Timeline
from .numbering import runs


def load_table(timeline: Timeline) -> Table:
    """One row an SM that ran CTAs which finished.

    Returns:
        ``sm``, ``ctas``, ``cycles`` (of its CTAs, added up), ``resident`` (CTAs at once, at most; overlaps within the
        nanosecond axis's error do not count), ``begin_ns`` and ``end_ns`` (of its first and its last CTA), ``busy_ns``
        (with a CTA on it), ``share`` (that over the launch's span). Times are NaN where the clock is not known.
    """
    ctas = timeline.ctas[timeline.ctas.codes("finished")]
    order = np.lexsort((ctas.codes("begin_ns"), ctas.codes("sm")))
    sm, begin, end = (ctas.codes(name)[order] for name in ("sm", "begin_ns", "end_ns"))
    starts = runs(sm)
    if len(starts) == 0:
        return Table(dict.fromkeys(_COLUMNS, np.empty(0)))
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(sm))))
    span = launch_span_ns(timeline)
    busy, resident = np.full(len(starts), np.nan), np.zeros(len(starts), dtype=np.int64)
    if np.isfinite(span):
        apart = number * (2 * span + 1)  # the SMs' times, laid one behind the other
        covered = np.maximum.accumulate(end + apart)
        before = np.append(-np.inf, covered[:-1])
        before[starts] = -np.inf
        new = np.maximum(covered - np.maximum(begin + apart, before), 0)
        busy = np.bincount(number, new)
        error = timeline.axis_error_ns if np.isfinite(timeline.axis_error_ns) else 0.0
        leaves = np.maximum(end - error, begin)
        left = np.sort(leaves + apart)
        # CTAs that have begun by each begin, less those that have left by then.
        at_once = np.arange(1, len(sm) + 1) - np.searchsorted(left, begin + apart, side="right")
        resident = np.maximum.reduceat(np.maximum(at_once, 1), starts)
    else:
        resident[:] = 0
    columns = (
        sm[starts],
        np.diff(np.append(starts, len(sm))),
        np.add.reduceat(ctas.codes("cycles")[order], starts),
        resident,
        np.minimum.reduceat(begin, starts),
        np.maximum.reduceat(end, starts),
        busy,
        busy / span if span > 0 else np.full(len(starts), np.nan),
    )
    return Table(dict(zip(_COLUMNS, columns)))


_COLUMNS = ("sm", "ctas", "cycles", "resident", "begin_ns", "end_ns", "busy_ns", "share")


def launch_span_ns(timeline: Timeline) -> float:
    """Nanoseconds from the first CTA's begin to the last one's end; NaN where no clock is known for all of them."""
    ctas = timeline.ctas
    finished = ctas.codes("finished")
    begin, end = ctas.codes("begin_ns")[finished], ctas.codes("end_ns")[finished]
    return float(end.max() - begin.min()) if len(end) else float("nan")
