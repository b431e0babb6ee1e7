"""A Timeline laid out on tracks, for viewers that draw what nests and cannot draw what overlaps.

Tracks are a tree: the GPU, its SMs, the CTAs that ran on each, and the lanes of each CTA. Times are whole nanoseconds
on the GPU's axis, rounded to the nearest: what is nested before is nested after. A lane whose ranges cross each other,
as ``trace.range_start`` and ``range_end`` allow it, gets as many tracks as it takes for those on each to nest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..errors import TraceError
from ..timeline import Table, Timeline

# Slices that are laid out at once, or those of one CTA if it has more.
_BLOCK = 1 << 16
# A time that whole numbers still hold with room to add to it: 73 years.
_LATEST_NS = 2.0**61


class Lane(NamedTuple):
    """A track of a CTA. ``copy`` counts from 0 the tracks that one lane takes."""

    cta: int
    group: str
    lane: str
    copy: int

    @property
    def title(self) -> str:
        """What people read."""
        return f"{self.group} / {self.lane}" + (f" ({self.copy + 1})" if self.copy else "")


class Cta(NamedTuple):
    """A CTA that finished: its row in ``timeline.ctas``, and its times in nanoseconds."""

    row: int
    number: int
    sm: int
    begin: int
    end: int


@dataclass(frozen=True)
class Block:
    """Some CTAs with all that is on their tracks.

    Attributes:
        ctas: these CTAs, by number.
        lanes: their tracks, CTA by CTA in the same order.
        slices: (n,) rows of ``timeline.slices``, track by track, by begin; what contains others comes before these.
        track: (n,) the position of each one's track in ``lanes``.
        level: (n,) how many of its track are around it.
        start, end: (n,) in nanoseconds.
        instants: (m,) rows of ``timeline.instants``, track by track, by time.
        instants_track, time: (m,) their tracks, and times in nanoseconds.
        flows: (f,) rows of ``timeline.flows``.
        src, dst: (f,) the positions in ``slices`` of what each connects.
        at_begin: (f,) whether the destination begins after the source does. Viewers take for the source of an arrow
            what comes first: it then arrives at the destination's begin, else, where that was waiting, at its end.
    """

    ctas: list[Cta]
    lanes: list[Lane]
    slices: np.ndarray
    track: np.ndarray
    level: np.ndarray
    start: np.ndarray
    end: np.ndarray
    instants: np.ndarray
    instants_track: np.ndarray
    time: np.ndarray
    flows: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    at_begin: np.ndarray

    def by_cta(self) -> list[tuple[Cta, list[Lane]]]:
        """The CTAs, each with its lanes."""
        lanes = {cta: list(of_cta) for cta, of_cta in itertools.groupby(self.lanes, key=lambda lane: lane.cta)}
        return [(cta, lanes.get(cta.number, [])) for cta in self.ctas]

    @cached_property
    def order(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) and (n,): where the begins and the ends of ``slices`` stand among all 2 n of them, track by track.

        On each track this is the order of time, and an end belongs to the last begin that has none yet.
        """
        return _word(self.level)


class Counter(NamedTuple):
    """How many of something there are: ``value[i]`` from ``time[i]`` (ns) on; times ascend."""

    name: str
    time: np.ndarray
    value: np.ndarray


def check_axis(timeline: Timeline) -> None:
    """Refuses a Timeline whose events have no nanoseconds, or some that no launch has.

    Raises:
        TraceError: saying which formats do without.
    """
    finished = timeline.ctas["finished"].astype(bool)
    times = [timeline.slices["start_ns"], timeline.slices["duration_ns"], timeline.instants["time_ns"]]
    times += [timeline.ctas[column][finished] for column in ("begin_ns", "end_ns")]
    if not all(np.isfinite(column).all() for column in times):
        raise TraceError(
            "this timeline has times in cycles only, since its readings of the GPU's timer span no time, and this "
            "format has one axis in nanoseconds for all CTAs: export it as parquet, csv, json or html, which have the "
            "cycles"
        )
    first, last = (min(c.min(initial=0) for c in times), max(c.max(initial=0) for c in times))
    if first < 0 or last > _LATEST_NS:
        raise TraceError(
            f"this timeline goes from {first:.3g} to {last:.3g} ns, which no launch does: its recording is damaged; "
            "parquet, csv, json and html have what it says all the same"
        )


def blocks(timeline: Timeline) -> Iterator[Block]:
    """Lays a Timeline that has nanoseconds out, some CTAs at a time."""
    lanes = joined(timeline.slices, timeline.instants, "lane")
    groups = joined(timeline.slices, timeline.instants, "group")
    ctas = _ctas(timeline)
    numbers = np.array([cta.number for cta in ctas], dtype=np.int64)
    tables = [_ByCta(table, numbers) for table in (timeline.slices, timeline.instants, timeline.flows)]
    first = 0
    while first < len(ctas):
        filled = tables[0].first[first:] - tables[0].first[first] >= _BLOCK
        behind = first + (int(filled.argmax()) if filled.any() else len(ctas) - first)
        yield _block(timeline, ctas[first:behind], [table.rows(first, behind) for table in tables], groups, lanes)
        first = behind


def counters(timeline: Timeline) -> list[Counter]:
    """CTAs resident, and hand-offs in flight: left and not arrived; one that arrives before it left counts for none."""
    ctas = _ctas(timeline)
    flows = timeline.flows
    spans = [
        ("CTAs resident", [cta.begin for cta in ctas], [cta.end for cta in ctas]),
        ("hand-offs in flight", whole_ns(flows["start_ns"]), whole_ns(flows["end_ns"])),
    ]
    return [_counter(name, np.asarray(up), np.asarray(down)) for name, up, down in spans]


def whole_ns(times: np.ndarray) -> np.ndarray:
    """Times as whole nanoseconds."""
    return np.rint(times).astype(np.int64)


def joined(one: Table, other: Table, column: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """The texts of a column that two tables have, each once, and for each table where its vocabulary's are in these."""
    texts = tuple(dict.fromkeys([*one.vocabulary(column), *other.vocabulary(column)]))
    place = {text: at for at, text in enumerate(texts)}
    of_one, of_other = (
        np.array([place[t] for t in table.vocabulary(column)], dtype=np.int64) for table in (one, other)
    )
    return texts, of_one, of_other


# ---------------------------------------------------------------------------------------------------------------------


def _ctas(timeline: Timeline) -> list[Cta]:
    """The CTAs that finished, by number; nothing of others is decoded."""
    ctas = timeline.ctas
    rows = np.flatnonzero(ctas["finished"])
    rows = rows[np.argsort(ctas["cta"][rows], kind="stable")]
    columns = [ctas["cta"][rows], ctas["sm"][rows], whole_ns(ctas["begin_ns"][rows]), whole_ns(ctas["end_ns"][rows])]
    return [Cta(*values) for values in zip(rows.tolist(), *(column.tolist() for column in columns))]


def _counter(name: str, up: np.ndarray, down: np.ndarray) -> Counter:
    """How many spans from ``up`` to ``down`` there are at a time."""
    forward = up < down
    time = np.concatenate([up[forward], down[forward]])
    times, at = np.unique(time, return_inverse=True)
    change = np.bincount(at, np.repeat([1.0, -1.0], len(time) // 2), minlength=len(times))
    value = np.cumsum(change).astype(np.int64)
    moved = np.diff(value, prepend=0) != 0
    return Counter(name, times[moved], value[moved])


class _ByCta:
    """The rows of a table, CTA by CTA.

    Attributes:
        first: (CTAs + 1,) how many rows the CTAs before have.
    """

    def __init__(self, table: Table, numbers: np.ndarray):
        of_row = table["cta"]
        self._order: np.ndarray | None = None
        known = np.isin(of_row, numbers)
        if (np.diff(of_row) < 0).any() or not known.all():
            self._order = np.argsort(of_row, kind="stable")
            self._order = self._order[known[self._order]]
            of_row = of_row[self._order]
        self.first = np.append(np.searchsorted(of_row, numbers), len(of_row))

    def rows(self, first: int, behind: int) -> np.ndarray:
        """The rows of CTAs ``first`` to before ``behind``."""
        chosen = np.arange(self.first[first], self.first[behind])
        return chosen if self._order is None else self._order[chosen]


def _block(
    timeline: Timeline,
    ctas: list[Cta],
    rows: list[np.ndarray],
    groups: tuple[tuple[str, ...], np.ndarray, np.ndarray],
    lanes: tuple[tuple[str, ...], np.ndarray, np.ndarray],
) -> Block:
    slices, instants, flows = rows
    numbers = np.array([cta.number for cta in ctas])

    def keys(table: Table, chosen: np.ndarray, which: int) -> np.ndarray:
        cta = np.searchsorted(numbers, table["cta"][chosen])
        group, lane = groups[which][table.codes("group")[chosen]], lanes[which][table.codes("lane")[chosen]]
        return (cta * len(groups[0]) + group) * len(lanes[0]) + lane

    slice_keys, instant_keys = keys(timeline.slices, slices, 1), keys(timeline.instants, instants, 2)
    found = np.unique(np.concatenate([slice_keys, instant_keys]))

    # Slices, track by track.
    order = np.argsort(slice_keys, kind="stable")
    slices, track = slices[order], np.searchsorted(found, slice_keys[order])
    started, took = timeline.slices["start_ns"][slices], timeline.slices["duration_ns"][slices]
    start, end = whole_ns(started), whole_ns(started + took)
    level = timeline.slices["depth"][slices].astype(np.int64)
    copy = np.zeros(len(slices), dtype=np.int64)
    crossing = np.isin(track, _disordered(track, level, start, end))
    if crossing.any():
        copy[crossing], level[crossing] = _apart(track[crossing], start[crossing], end[crossing])
        within = (np.where(crossing, column, 0) for column in (level, -end, start))  # the others' order is right
        order = np.lexsort((*within, copy, track))
        slices, track, copy, level, start, end = (c[order] for c in (slices, track, copy, level, start, end))

    # A lane's further tracks stand behind its first.
    copies = np.ones(len(found), dtype=np.int64)
    np.maximum.at(copies, track, copy + 1)
    begins = np.cumsum(copies) - copies
    names = []
    for key, count in zip(found.tolist(), copies.tolist()):
        rest, lane = divmod(key, len(lanes[0]))
        cta, group = divmod(rest, len(groups[0]))
        names += [Lane(ctas[cta].number, groups[0][group], lanes[0][lane], number) for number in range(count)]

    order = np.argsort(slices)
    src, dst = (order[np.searchsorted(slices[order], timeline.flows[end][flows])] for end in ("src_slice", "dst_slice"))
    time = whole_ns(timeline.instants["time_ns"][instants])
    order = np.lexsort((time, instant_keys))
    return Block(
        ctas=ctas, lanes=names, slices=slices, track=begins[track] + copy, level=level, start=start, end=end,
        instants=instants[order], instants_track=begins[np.searchsorted(found, instant_keys[order])],
        time=time[order], flows=flows, src=src, dst=dst, at_begin=start[dst] > start[src],
    )  # fmt: skip


def _word(level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where begins and ends stand, of slices in the order of their begins, by how many are around each.

    A slice ends before the next one that has as few or fewer around it; a track begins with one that has none. What
    ends in the same place ends from the inside out.
    """
    count = len(level)
    before = np.append(0, level[:-1] + 1)[:count]  # open behind the slice before
    closed = np.cumsum(before - level)
    begin = np.arange(count) + closed
    end = np.empty(count, dtype=np.int64)
    behind = np.append(begin, 2 * count)  # where the next slice begins
    open_then = np.append(level, 0)  # and how many stay open there
    for depth in np.unique(level).tolist():
        stops = np.append(np.flatnonzero(level <= depth), count)
        own = level[stops[:-1]] == depth
        stop = stops[1:][own]
        end[stops[:-1][own]] = behind[stop] - 1 - (depth - open_then[stop])
    return begin, end


def _disordered(track: np.ndarray, level: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The tracks on which slices do not nest as their levels say."""
    if len(track) == 0:
        return track
    step = np.diff(level, prepend=-1)
    first = np.diff(track, prepend=-1) > 0
    wrong = np.where(first, level != 0, step > 1) | (level < 0)
    bad = np.unique(track[wrong])
    fine = ~np.isin(track, bad)
    of, begin_end = track[fine], _word(level[fine])
    times, tracks = np.empty(2 * len(of), dtype=np.int64), np.empty(2 * len(of), dtype=np.int64)
    for at, values in zip(begin_end, (start[fine], end[fine])):
        times[at], tracks[at] = values, of
    back = (np.diff(times) < 0) & (np.diff(tracks) == 0)
    return np.union1d(bad, tracks[1:][back])


def _apart(track: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Copy and level of slices whose tracks they do not nest on: each goes to the first copy that it nests on."""
    copy, level = np.zeros(len(track), dtype=np.int64), np.zeros(len(track), dtype=np.int64)
    order = np.lexsort((-end, start, track))
    stacks: list[list[int]] = []
    previous = -1
    for at, of, begun, ended in zip(*(column.tolist() for column in (order, track[order], start[order], end[order]))):
        if of != previous:
            stacks, previous = [], of
        for number in range(len(stacks) + 1):
            if number == len(stacks):
                stacks.append([])
            around = stacks[number]
            while around and around[-1] <= begun:
                around.pop()
            if not around or around[-1] >= ended:
                copy[at], level[at] = number, len(around)
                around.append(ended)
                break
    return copy, level
