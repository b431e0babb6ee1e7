"""How a loop's iterations differ: by number, over all CTAs, with prologue, steady state and epilogue told apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..timeline import PAYLOAD_INT, Table, Timeline
from .distribution import over, percentile_of_each
from .numbering import Numbering, runs
from .ranges import cta_cycles

PROLOGUE, STEADY, EPILOGUE, UNTOLD = PHASES = ("prologue", "steady", "epilogue", "untold")
OCCURRENCE, PAYLOAD = NUMBERED = ("occurrence", "payload")
# How far from the steady ones a period may be, as a part of theirs.
NEAR = 0.25
_MIDDLE = (5, 95)  # percentiles
# A loop of fewer iterations has no steady state that could be told from its ends.
FEWEST = 6


@dataclass(frozen=True)
class _Numbered:
    """The slices of one range with the number of their iteration.

    Attributes:
        positions: (n,) of the slices.
        place: (n,) the iteration of each, as a position in ``numbers``.
        numbers: (iterations,) ascending.
        by: whether the numbers are occurrences or payloads.
    """

    positions: np.ndarray
    place: np.ndarray
    numbers: np.ndarray
    by: int


def iteration_table(timeline: Timeline, numbering: Numbering) -> Table:
    """One row an iteration of each range that some CTA entered more than once.

    An iteration's number is the payload, if payloads are integers that go up by one from one occurrence to the next in
    each CTA, and are the same ones in different CTAs (no more of them than twice what a CTA has). Else it is the
    occurrence in its CTA, from 0; rows whose first events a ring has lost are then left out.

    Phases follow from an iteration's period, the median time to the next one's start (of the last one: from the one
    before). Steady is a period that is no further than a quarter from what those of the middle half span, from their
    5th to their 95th percentile: where a ring is the limit, short and long periods take turns. Prologue is what comes
    ahead of the first steady iteration, epilogue what follows the last one. They are untold for fewer than six
    iterations, where CTAs have different numbers of them, and where the medians of the middle half's own halves differ
    by more than a quarter: then there is no steady state.

    Returns:
        By range, then number: ``group``, ``lane``, ``name``, ``iteration``, ``by`` (``"occurrence"`` or
        ``"payload"``), ``phase`` (``"prologue"``, ``"steady"``, ``"epilogue"`` or ``"untold"``), ``count`` (of slices
        that are not cut), and in cycles ``start`` (mean, since the CTA's begin), ``period`` (median), and of the
        duration ``mean``, ``min``, ``p50``, ``p95`` and ``max``.
    """
    parts = []
    for number in range(len(numbering)):
        numbered = _numbered(timeline, numbering, number)
        if numbered is not None:
            parts.append({"range": np.full(len(numbered.numbers), number), **_columns(timeline, numbered)})
    nothing: dict[str, np.ndarray] = dict.fromkeys(_COLUMNS, np.empty(0))
    nothing |= dict.fromkeys(("range", "by", "phase"), np.empty(0, dtype=np.int64))
    of_range, *columns = (np.concatenate([part[name] for part in parts or [nothing]]) for name in ("range", *_COLUMNS))
    return numbering.table(dict(zip(_COLUMNS, columns)), of_range, {"by": NUMBERED, "phase": PHASES})


_COLUMNS = ("iteration", "by", "phase", "count", "start", "period", "mean", "min", "p50", "p95", "max")


def _numbered(timeline: Timeline, numbering: Numbering, number: int) -> _Numbered | None:
    """The iterations of a range, None if no CTA entered it twice."""
    slices, positions = timeline.slices, numbering.positions(number)
    cta = slices.codes("cta").take(positions)
    starts = runs(cta)
    entered = np.diff(np.append(starts, len(cta)))
    if entered.max(initial=0) < 2:
        return None
    payload = _counting(slices, positions, starts, int(entered.max()))
    if payload is not None:
        least = payload.min()
        seen = np.bincount(payload - least) > 0
        place = (np.cumsum(seen) - 1)[payload - least]
        return _Numbered(positions, place, np.flatnonzero(seen) + least, NUMBERED.index(PAYLOAD))
    occurrence = np.arange(len(cta)) - np.repeat(starts, entered)
    if timeline.meta.get("keep") == "last":
        rows = timeline.rows
        of_group = rows.codes("group") == numbering.keys["group"][number]
        lost = rows.codes("cta")[of_group & (rows.codes("dropped") > 0)]
        whole = ~np.isin(cta, lost)
        positions, occurrence = positions[whole], occurrence[whole]
    return _Numbered(positions, occurrence, np.arange(occurrence.max(initial=-1) + 1), NUMBERED.index(OCCURRENCE))


def _counting(slices: Table, positions: np.ndarray, starts: np.ndarray, most: int) -> np.ndarray | None:
    """The payloads of slices in order, if they count iterations."""
    if (slices[positions[:64]].codes("payload_kind") != PAYLOAD_INT).any():
        return None
    part = slices[positions]
    if (part.codes("payload_kind") != PAYLOAD_INT).any():
        return None
    payload = part.codes("payload").astype(np.int64)
    step = np.diff(payload) == 1
    step[starts[1:] - 1] = True
    return payload if step.all() and np.ptp(payload) < 2 * most else None


def _columns(timeline: Timeline, numbered: _Numbered) -> dict[str, np.ndarray]:
    slices, positions, place = timeline.slices, numbered.positions, numbered.place
    count = len(numbered.numbers)
    start, cut = slices.codes("start").take(positions), slices.codes("cut").take(positions)
    cta, duration = slices.codes("cta").take(positions), slices.codes("duration").take(positions)
    entered = np.bincount(place, minlength=count)
    following = (cta[1:] == cta[:-1]).nonzero()[0]
    last = int(place[following].max(initial=-1)) + 1  # of most loops the last iteration has no next one
    period = np.full(count, np.nan)
    period[:last] = percentile_of_each(start[following + 1] - start[following], place[following], last, [50])[0]
    if cut.any():
        place, duration = place[~cut], duration[~cut]
    whole = np.bincount(place, minlength=count)
    low, median, high, top = percentile_of_each(duration, place, count, [0, 50, 95, 100])
    return {
        "iteration": numbered.numbers,
        "by": np.full(count, numbered.by),
        "phase": _phases(period, entered),
        "count": whole,
        "start": over(np.bincount(numbered.place, start, minlength=count), entered),
        "period": period,
        "mean": over(np.bincount(place, duration, minlength=count), whole),
        "min": low,
        "p50": median,
        "p95": high,
        "max": top,
    }


def _phases(period: np.ndarray, entered: np.ndarray) -> np.ndarray:
    """The phase of each iteration, as positions in :data:`PHASES`."""
    count = len(period)
    untold = np.full(count, PHASES.index(UNTOLD))
    if count < FEWEST or (entered != entered[0]).any():
        return untold
    period = np.append(period[:-1], period[-2])
    middle = period[count // 4 : count - count // 4]
    one, other = (np.median(half) for half in np.array_split(middle, 2))
    if abs(one - other) > NEAR * min(one, other):
        return untold
    low, high = np.percentile(middle, _MIDDLE)
    near = np.flatnonzero((period >= (1 - NEAR) * low) & (period <= (1 + NEAR) * high))
    phases = np.full(count, PHASES.index(STEADY))
    phases[: near[0]], phases[near[-1] + 1 :] = PHASES.index(PROLOGUE), PHASES.index(EPILOGUE)
    return phases


def phase_table(timeline: Timeline, iterations: Table) -> Table:
    """One row a group: how long the average CTA is in its prologue, its steady state and its epilogue.

    The steady state of a group begins where the first of its loop's ranges starts its first steady iteration, and ends
    with the last one. The loop is made of the group's ranges that have the most iterations.

    Args:
        timeline: the Timeline.
        iterations: what :func:`iteration_table` made of it.

    Returns:
        Groups whose phases can be told: ``group``, ``iterations``, ``first`` and ``last`` (steady iterations), and in
        mean cycles ``prologue`` (from the CTA's begin), ``steady``, ``epilogue`` (to its end).
    """
    finished = int(timeline.ctas.codes("finished").sum())
    cycles = cta_cycles(timeline) / finished if finished else np.nan
    rows = []
    group, steady = iterations.codes("group"), iterations.codes("phase") == PHASES.index(STEADY)
    for code in np.unique(group):
        own = np.flatnonzero(group == code)
        loops = np.split(own, runs(_pairs(iterations, own))[1:])
        longest = max(len(loop) for loop in loops)
        of_loop = [loop[steady[loop]] for loop in loops if len(loop) == longest]
        if not all(len(loop) for loop in of_loop):
            continue
        begin = min(iterations.codes("start")[loop[0]] for loop in of_loop)
        end = max(iterations.codes("start")[loop[-1]] + iterations.codes("mean")[loop[-1]] for loop in of_loop)
        first = min(iterations.codes("iteration")[loop[0]] for loop in of_loop)
        last = max(iterations.codes("iteration")[loop[-1]] for loop in of_loop)
        rows.append((code, longest, first, last, begin, end - begin, cycles - end))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 7).T
    names = ("group", "iterations", "first", "last", "prologue", "steady", "epilogue")
    table = dict(zip(names, columns))
    table |= {name: table[name].astype(np.int64) for name in names[:4]}
    return Table(table, {"group": timeline.slices.vocabulary("group")})


def _pairs(iterations: Table, rows: np.ndarray) -> np.ndarray:
    """One integer for the lane and name of each row."""
    return iterations.codes("lane")[rows] * (1 + len(iterations.vocabulary("name"))) + iterations.codes("name")[rows]
