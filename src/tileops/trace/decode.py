"""From recorded slots to a Timeline, in whole-column operations.

Nothing loops over events. Headers are read for all CTAs at once; records then go through in blocks of CTAs, so small
that a block's columns stay in the processor's cache. Read it in the order of the data: headers, records, events of
each kind, begins paired with their ends, tables.

The buffer is not trusted. A row is read only if its header says that it was closed; then whatever the recorder
guarantees is checked (counts, sites, order of times, one end for each begin), so that memory that something else
wrote to is refused instead of drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from .axis import Axis, fit_axis
from .errors import TraceError
from .sites import BEGIN, END, INSTANT, SiteTable
from .slots import (
    COUNT_LIMIT,
    HEADER_WORDS,
    SITE_SHIFT,
    STATE_DONE,
    STATE_OPEN,
    WORD_BEGIN,
    WORD_BEGIN_NS,
    WORD_END,
    WORD_END_NS,
    WORD_EVENTS,
    WORD_GRID_XY,
    WORD_GRID_Z,
    WORD_STATE,
)
from .timeline import PAYLOAD_FLOAT, PAYLOAD_INT, PAYLOAD_NONE, Table, Timeline

_KINDS = (BEGIN, END, INSTANT)
_PAYLOADS = {"": PAYLOAD_NONE, "i": PAYLOAD_INT, "u": PAYLOAD_INT, "f": PAYLOAD_FLOAT}
_PAYLOAD_TYPES = {"i": np.int32, "u": np.uint32, "f": np.float32}
# Of 2**14 to 2**20 this decodes fastest: more does not fit into the cache of a core, less is lost on calls.
_BLOCK_RECORDS = 1 << 16
# A launch lasts less than this, see slots.py.
_LONGEST = 1 << (SITE_SHIFT - 1)
# A clock slower than 1 MHz is not believed; a row shorter than the second figure (cycles) says nothing of its clock.
_SLOWEST_NS, _SHORT = 1000, 1000
_LAST_SM = 0xFFFF


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
            them, see :class:`_Times`. ``None`` leaves the times as recorded.

    Raises:
        TraceError: if the buffer cannot come from a launch of that kernel.
    """
    if lines.ndim != 2 or lines.shape[1] != table.line_words or lines.dtype not in (np.int64, np.uint64):
        raise TraceError(
            f"slots must be (CTAs, {table.line_words}) 64-bit words for kernel {table.kernel!r}, "
            f"got {lines.shape} of {lines.dtype}"
        )
    sites = _Sites.of(table)
    if cost is not None:
        sites = replace(sites, in_turn=True)
    rows = _Rows.read(lines.view(np.uint64), table)
    sm = np.zeros_like(rows.sm) if table.target == "c" else rows.sm
    axis = fit_axis(sm, rows.clock, rows.timer, rows.zero, rows.finished)
    if table.choice.kind != "all":
        axis = replace(axis, ctas=rows.number)
    collected = _Columns(int(rows.stored.sum()) * sites.most_begins)
    marks, arrows, recorded = [], [], np.zeros_like(rows.attempted)
    for part in rows.blocks():
        block = _Block.decode(part, sites, collected.length, cost)
        collected.append(block.slices)
        marks.append(block.instants)
        arrows.append(block.flows)
        recorded[part.first_line : part.first_line + len(part.lines)] = block.recorded
    slices = _slices(collected.columns(), sites, axis)
    instants = _instants(_joined(marks), sites, axis)
    dropped = rows.attempted - recorded
    return Timeline(
        slices=slices,
        instants=instants,
        flows=_flows_table(_joined(arrows), slices),
        rows=_rows_table(recorded, dropped, rows),
        ctas=_ctas_table(recorded, dropped, rows, axis),
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


# ---------------------------------------------------------------------------------------------------------------------
# Headers


@dataclass
class _Rows:
    """What the headers of some CTAs' rows say. Counts are zero in CTAs that did not finish."""

    table: SiteTable
    lines: np.ndarray
    first_line: int
    grid: tuple[int, int, int]
    # (CTAs, groups)
    closed: np.ndarray
    attempted: np.ndarray  # events
    count: np.ndarray  # records attempted
    stored: np.ndarray  # records to read
    lost: np.ndarray  # records that did not fit
    begin: np.ndarray  # cycles since the CTA's begin
    end: np.ndarray
    # (CTAs,)
    number: np.ndarray  # of the CTA in its grid
    finished: np.ndarray
    sm: np.ndarray
    zero: np.ndarray  # the clock at the CTA's begin
    # (CTAs, readings)
    clock: np.ndarray
    timer: np.ndarray

    @classmethod
    def read(cls, lines: np.ndarray, table: SiteTable) -> _Rows:
        start = np.array([group.layout.offset for group in table.groups])
        capacity = np.array([group.layout.capacity for group in table.groups])
        header = lines[:, start[:, None] + np.arange(HEADER_WORDS)]
        grid, number = _launched(header, table)
        lines, header = lines[: len(number)], header[: len(number)]
        state, count = _halves(header[..., WORD_STATE])
        events, sm = _halves(header[..., WORD_EVENTS])
        clock, timer = header[..., [WORD_BEGIN, WORD_END]], header[..., [WORD_BEGIN_NS, WORD_END_NS]]
        opened, closed = (state == STATE_OPEN) | (state == STATE_DONE), state == STATE_DONE
        finished = closed.all(axis=1)
        used = np.broadcast_to(finished[:, None], closed.shape)
        count, events = np.where(used, count, 0), np.where(used, events, 0)
        # The CTA begins with the first of its rows.
        later = (clock[..., 0] - clock[:, :1, 0]).view(np.int64)
        begin = later - later.min(axis=1, keepdims=True)
        length = (clock[..., 1] - clock[..., 0]).view(np.int64)
        length_ns = (timer[..., 1] - timer[..., 0]).view(np.int64)
        rows = cls(
            table=table, lines=lines, first_line=0, grid=grid, closed=closed, attempted=events, count=count,
            stored=np.minimum(count, capacity), lost=np.maximum(count - capacity, 0), begin=begin, end=begin + length,
            number=number, finished=finished,
            sm=np.where(opened.any(axis=1), sm[np.arange(len(sm)), opened.argmax(axis=1)], -1),
            zero=clock[:, 0, 0] + later.min(axis=1).view(np.uint64),
            clock=clock.reshape(len(lines), 2 * len(start)), timer=timer.reshape(len(lines), 2 * len(start)),
        )  # fmt: skip
        rows.refuse(used & (events < count), "it counts fewer events than records")
        rows.refuse(used & ((length < 0) | (length_ns < 0)), "it ends before it begins")
        rows.refuse(used & ((length >= _LONGEST) | (np.abs(later) >= _LONGEST)), "it lasts for days")
        if table.target != "c":  # there the scheduler may take the thread away between the two readings
            rows.refuse(used & (length_ns > (length + _SHORT) * _SLOWEST_NS), "its clock stood still")
            rows.refuse(opened & (sm > _LAST_SM), "there is no such SM")
            rows.refuse(used & (sm != sm[:, :1]), "its SM is not that of the CTA's other rows")
        x, y, z = grid
        other = (header[..., WORD_GRID_XY] != x | y << 32) | (header[..., WORD_GRID_Z] != z)
        rows.refuse(opened & other, "its grid is not that of the other rows")
        return rows.of_lines(_first_of_each_sm(rows)) if table.choice.kind == "per SM" else rows

    def refuse(self, bad: np.ndarray, why: str) -> None:
        """Raises for the first row of (CTAs, groups) that is bad."""
        if bad.any():
            cta, group = (int(index) for index in np.argwhere(bad)[0])
            raise TraceError(
                f"these slots are not what a launch of kernel {self.table.kernel!r} left: the row of CTA "
                f"{self.number[cta]}, group {self.table.groups[group].name!r}, is damaged: {why}"
            )

    def of_lines(self, chosen: Any) -> _Rows:
        """The rows of some of the lines."""
        return replace(self, **{n: value[chosen] for n, value in vars(self).items() if isinstance(value, np.ndarray)})

    def blocks(self) -> Iterator[_Rows]:
        """The CTAs in order, in blocks of about ``_BLOCK_RECORDS`` records."""
        block = np.cumsum(self.stored.sum(axis=1)) // _BLOCK_RECORDS
        edges = [*np.flatnonzero(np.diff(block, prepend=-1)).tolist(), len(block)]
        for first, behind in pairwise(edges):
            yield replace(self.of_lines(slice(first, behind)), first_line=first)

    def per_cta(self, per_row: np.ndarray) -> np.ndarray:
        """Counts of rows added up to counts of CTAs."""
        return per_row.reshape(self.closed.shape).sum(axis=1)


def _launched(header: np.ndarray, table: SiteTable) -> tuple[tuple[int, int, int], np.ndarray]:
    """The grid that was launched, by the first row that was opened, and the numbers of the CTAs that have a line."""
    kernel, states = table.kernel, _halves(header[..., WORD_STATE])[0]
    opened = (states == STATE_OPEN) | (states == STATE_DONE)
    if not opened.any():
        if table.choice.kind == "all":
            raise TraceError(f"no CTA of kernel {kernel!r} opened its rows: this buffer holds no launch of it")
        raise TraceError(
            f"none of the CTAs of kernel {kernel!r} that were chosen opened its rows: either the grid of "
            "this launch has none of them (build with another `ctas`), or this buffer holds no launch of it"
        )
    first = header[opened][0]
    xy, z = int(first[WORD_GRID_XY]), int(first[WORD_GRID_Z])
    grid = (xy & 0xFFFFFFFF, xy >> 32, z)
    ctas, lines = grid[0] * grid[1] * grid[2], len(header)
    if table.choice.kind == "all" and ctas != lines:
        raise TraceError(f"slots of kernel {kernel!r} hold {lines} CTAs but were recorded on a grid of {grid}")
    if not 0 < ctas < 1 << 62:
        raise TraceError(f"slots of kernel {kernel!r} were recorded on a grid of {grid}, which no launch has")
    number = table.choice.numbers(ctas, most=lines + 1)
    if len(number) > lines:
        raise TraceError(
            f"slots of kernel {kernel!r} hold {lines} CTAs where more of a grid of {grid} were to be recorded"
        )
    return grid, number.astype(np.int32) if ctas < 1 << 31 else number


def _first_of_each_sm(rows: _Rows) -> np.ndarray:
    """The lines of the CTAs that began first on their SM, in order; those that opened no row are on none."""
    began = np.flatnonzero(rows.sm >= 0)
    by_time = began[np.lexsort((rows.timer[began, 0], rows.sm[began]))]
    return np.sort(by_time[np.unique(rows.sm[by_time], return_index=True)[1]])


def _halves(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high 32 bits, as int64."""
    return (words & np.uint64(0xFFFFFFFF)).view(np.int64), (words >> np.uint64(32)).view(np.int64)


# ---------------------------------------------------------------------------------------------------------------------
# Records


@dataclass
class _Records:
    """The records of some CTAs, by CTA, group and time."""

    time: np.ndarray  # int64, cycles since the CTA's begin
    site: np.ndarray  # int64
    facts: np.ndarray  # of the site, see _Sites
    payload: np.ndarray | None  # uint32; None if no group has payloads
    start: np.ndarray  # (CTAs * groups + 1,) position of each row's first record

    @classmethod
    def read(cls, rows: _Rows, sites: _Sites) -> _Records:
        places = [group.layout for group in rows.table.groups]
        widths = rows.stored.max(axis=0, initial=0)
        # One rectangle for all groups, each as wide as its fullest row, has the records in their final order.
        words = np.empty((len(rows.lines), widths.sum()), dtype=np.uint64)
        with_payload = any(place.record_words == 2 for place in places)
        payload = np.zeros(words.shape, dtype=np.uint32) if with_payload else None
        column = 0
        for number, (place, width) in enumerate(zip(places, widths.tolist())):
            first = place.offset + HEADER_WORDS
            source = rows.lines[:, first : first + width * place.record_words]
            source = source.reshape(len(rows.lines), width, place.record_words)
            if rows.table.keep_last and rows.lost[:, number].any():
                # A ring: its oldest record stands where the next one would go.
                oldest = rows.count[:, number] - rows.stored[:, number]
                nth_at = (oldest[:, None] + np.arange(width)) % place.capacity
                source = np.take_along_axis(source, nth_at[..., None], axis=1)
            part = slice(column, column + width)
            np.subtract(source[..., 0], rows.zero[:, None], out=words[:, part])
            if payload is not None and place.record_words == 2:
                payload[:, part] = source[..., 1]
            column += width
        if (rows.stored == widths).all():
            words, payload = words.reshape(-1), None if payload is None else payload.reshape(-1)
        else:
            nth = np.arange(column) - np.repeat(np.cumsum(widths) - widths, widths)
            held = nth < np.repeat(rows.stored, widths, axis=1)
            words, payload = words[held], None if payload is None else payload[held]
        site = (words >> np.uint64(SITE_SHIFT)).view(np.int64)
        time = (words & np.uint64((1 << SITE_SHIFT) - 1)).view(np.int64)
        facts = sites.facts.take(site, mode="clip")
        records = cls(time, site, facts, payload, np.append(0, np.cumsum(rows.stored)))
        records.check(rows)
        return records

    def check(self, rows: _Rows) -> None:
        """Refuses rows whose records are out of order, outside the row's span, or of another group's sites."""
        held = rows.stored > 0
        first, last = self.start[:-1].reshape(held.shape)[held], self.start[1:].reshape(held.shape)[held] - 1
        back = self.time[1:] < self.time[:-1]
        back[last[:-1]] = False  # from one row to the next
        self._refuse(back, "its times run backwards", rows)
        outside = np.zeros(held.shape, dtype=bool)
        outside[held] = (self.time[first] < rows.begin[held]) | (self.time[last] > rows.end[held])
        rows.refuse(outside, "it holds a record from outside its span")
        group = np.tile(np.arange(held.shape[1], dtype=np.uint32), len(held))
        foreign = self.facts >> len(_KINDS) != np.repeat(group, np.diff(self.start))
        self._refuse(foreign, "it names a site that is not its group's", rows)

    def _refuse(self, bad: np.ndarray, why: str, rows: _Rows) -> None:
        if bad.any():
            bad_rows = np.zeros(rows.stored.size, dtype=bool)
            bad_rows[np.searchsorted(self.start, np.flatnonzero(bad), side="right") - 1] = True
            rows.refuse(bad_rows.reshape(rows.stored.shape), why)


# ---------------------------------------------------------------------------------------------------------------------
# Events


@dataclass(frozen=True)
class _Sites:
    """The site table as arrays."""

    vocabularies: dict[str, tuple[str, ...]]
    codes: dict[str, np.ndarray]  # column -> (ranges,) its value for each range
    payload_type: np.ndarray  # (ranges,) position in _PAYLOAD_TYPES, or -1
    facts: np.ndarray  # (sites + 1,) a bit for each kind of events in a record, above them the group; last, no site
    most: int  # events in a record
    in_turn: bool  # whether the order within a record matters: one may end a range and begin it again
    count: dict[str, np.ndarray]  # kind -> (sites,) events of that kind in a record
    first: dict[str, np.ndarray]  # kind -> (sites,) position in the next two of the first of them
    ranges: dict[str, np.ndarray]  # kind -> position in SiteTable.ranges
    turns: dict[str, np.ndarray]  # kind -> position among the events of the record
    total: np.ndarray  # (ranges,) how often a CTA passes it, -1 where that depends on data; 0 for instants
    edges: tuple[tuple[int, int, int], ...]  # codes of the source's and the destination's name, and shift

    @classmethod
    def of(cls, table: SiteTable) -> _Sites:
        texts = {
            "group": tuple(group.name for group in table.groups),
            "lane": tuple(dict.fromkeys(r.lane for r in table.ranges)),
            "name": tuple(dict.fromkeys(r.name for r in table.ranges)),
        }
        lane, name = ({text: code for code, text in enumerate(texts[column])} for column in ("lane", "name"))
        codes: dict[str, np.ndarray] = {
            "group": np.array([r.group for r in table.ranges], dtype=np.uint16),
            "lane": np.array([lane[r.lane] for r in table.ranges], dtype=np.uint16),
            "name": np.array([name[r.name] for r in table.ranges], dtype=np.uint16),
            "payload_kind": np.array([_PAYLOADS[r.payload] for r in table.ranges], dtype=np.uint8),
            "depth": np.array([r.depth for r in table.ranges], dtype=np.int16),
        }
        types = list(_PAYLOAD_TYPES)
        payload_type = np.array([types.index(r.payload) if r.payload else -1 for r in table.ranges], dtype=np.int8)
        groups = [table.ranges[site[0][1]].group for site in table.sites]
        kinds = [sum(1 << bit for bit, kind in enumerate(_KINDS) if kind in dict(site)) for site in table.sites]
        facts = np.array([*(g << len(_KINDS) | k for g, k in zip(groups, kinds)), 0xFFFFFFFF], dtype=np.uint32)
        count, first, ranges, turns = {}, {}, {}, {}
        most = max((len(site) for site in table.sites), default=1)
        in_turn = any({(END, i) for kind, i in site if kind == BEGIN} & set(site) for site in table.sites)
        for kind in _KINDS:
            count[kind] = np.array([sum(event == kind for event, _ in site) for site in table.sites], dtype=np.int64)
            first[kind] = np.cumsum(count[kind]) - count[kind]
            events = [(i, turn) for site in table.sites for turn, (event, i) in enumerate(site) if event == kind]
            ranges[kind], turns[kind] = np.array(events, dtype=np.int64).reshape(-1, 2).T.copy()
        edges = tuple((name[edge.src], name[edge.dst], edge.shift) for edge in table.edges)
        total = [0 if r.instant else -1 if r.total is None else r.total for r in table.ranges]
        return cls(
            texts, codes, payload_type, facts, most, in_turn, count, first, ranges, turns,
            np.array(total, dtype=np.int64), edges,
        )  # fmt: skip

    @property
    def most_begins(self) -> int:
        """The most begins that share a record."""
        return int(self.count[BEGIN].max(initial=0))


@dataclass
class _Events:
    """All events of one kind, by CTA, group and time."""

    record: np.ndarray  # position in the records
    moment: np.ndarray  # the same; but where what happens within a record matters, it tells the events apart
    range: np.ndarray  # position in SiteTable.ranges
    per_row: np.ndarray  # (CTAs * groups,) how many there are

    @classmethod
    def of(cls, kind: str, records: _Records, sites: _Sites) -> _Events:
        count, first, ranges, turns = sites.count[kind], sites.first[kind], sites.ranges[kind], sites.turns[kind]
        if len(ranges) == 0:
            none = np.empty(0, dtype=np.int64)
            return cls(none, none, none, np.zeros(len(records.start) - 1, dtype=np.int64))
        record = np.flatnonzero((records.facts & (1 << _KINDS.index(kind))).astype(bool))
        site = records.site.take(record)
        event = first.take(site)
        if count.max() > 1:
            each = count.take(site)
            record = np.repeat(record, each)
            event = np.repeat(event - np.cumsum(each) + each, each) + np.arange(len(record))
        moment = record * sites.most + turns.take(event) if sites.in_turn else record
        return cls(record, moment, ranges.take(event), np.diff(np.searchsorted(record, records.start)))


def _end_records(begins: _Events, ends: _Events, rows: _Rows) -> np.ndarray:
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


# ---------------------------------------------------------------------------------------------------------------------
# Blocks


@dataclass
class _Block:
    """The decoded events of some CTAs, as columns of the Timeline's tables."""

    slices: dict[str, np.ndarray]
    instants: dict[str, np.ndarray]
    flows: dict[str, np.ndarray]
    recorded: np.ndarray  # (CTAs, groups) events

    @classmethod
    def decode(cls, rows: _Rows, sites: _Sites, first_slice: int, cost: np.ndarray | None) -> _Block:
        """Decodes a block of CTAs; ``first_slice`` is the Timeline's position of its first slice."""
        records = _Records.read(rows, sites)
        begins, ends, instants = (_Events.of(kind, records, sites) for kind in _KINDS)
        orphans = np.zeros(rows.closed.size, dtype=np.int64)
        if rows.table.keep_last and rows.lost.any():
            ends, orphans = _without_orphans(begins, ends, rows)
        recorded = (begins.per_row + ends.per_row + instants.per_row).reshape(rows.closed.shape)
        missing = rows.attempted - recorded - orphans.reshape(recorded.shape)
        saturated = (rows.lost > 0) & (rows.attempted == COUNT_LIMIT)
        rows.refuse(
            ((missing < rows.lost) & ~saturated) | (missing > rows.lost * sites.most),
            "its records do not hold the events that it counts",
        )

        times = _Times.of(records, (begins, ends, instants), cost)
        slices = _spans(begins, ends, records, times, rows)
        slices |= _codes(begins, records, rows, sites)
        marks = {"time": times.instant, **_codes(instants, records, rows, sites)}
        flows = _flows(begins, slices["cut"], rows, sites, first_slice)
        return cls(slices, marks, flows, recorded)


def _without_orphans(begins: _Events, ends: _Events, rows: _Rows) -> tuple[_Events, np.ndarray]:
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
    left = _Events(ends.record[kept], ends.moment[kept], ends.range[kept], ends.per_row - orphans)
    return left, orphans


@dataclass
class _Times:
    """When the events of each record happened, in cycles since the CTA's begin.

    As recorded, or with the recorder's own cost taken out. Then the gap between two records of a row is shortened by
    what the first of them cost, to no less than nothing, so that a range loses the cost of all records inside it and
    none gets a negative duration. Ranges keep their begins as measured where no other range of the row is open, and lie
    as much earlier within one that is: what was nested stays nested, and rows do not drift apart.

    Attributes:
        begin: (begins,) of these events.
        instant: (instants,) of these.
        end: (records,) of ranges that end there and began in an earlier record.
        behind: (records,) when a range that is still open behind the record has it.
    """

    begin: np.ndarray
    instant: np.ndarray
    end: np.ndarray
    behind: np.ndarray

    @classmethod
    def of(cls, records: _Records, events: tuple[_Events, _Events, _Events], cost: np.ndarray | None) -> _Times:
        """The times of a block's records; ``events`` are its begins, ends and instants."""
        begins, _, instants = events
        time, count = records.time, len(records.time)
        if cost is None or count == 0:
            return cls(time.take(begins.record), time.take(instants.record), time, time)
        nth = np.arange(count)
        first = np.zeros(count, dtype=bool)
        first[records.start[:-1][np.diff(records.start) > 0]] = True
        gap = np.append(0, np.diff(time) - cost.take(records.site[:-1]))
        passed = np.cumsum(np.where(first, 0, np.maximum(gap, 0)))

        # All events one after the other, and how many ranges of its row are open where each of them happens.
        order = np.argsort(np.concatenate([of_kind.moment for of_kind in events]), kind="stable")
        record = np.concatenate([of_kind.record for of_kind in events])[order]
        change = np.repeat([1, -1, 0], [len(of_kind.record) for of_kind in events])[order]
        opened = np.cumsum(change) - change
        rows_first = np.searchsorted(record, records.start)[np.searchsorted(records.start, record, side="right") - 1]
        outermost = opened == opened[rows_first]

        # What happens where nothing is open is an anchor: it stays where it was measured, and what follows it until
        # the next one moves towards it.
        anchors = first.copy()
        anchors[record[outermost]] = True
        at = np.maximum.accumulate(np.where(anchors, nth, 0))
        before = np.where(first, nth, np.append(0, at[:-1]))
        end, behind = (time[anchor] + np.floor(passed - passed[anchor]).astype(np.int64) for anchor in (before, at))
        anchor = record[np.maximum.accumulate(np.where(outermost, np.arange(len(record)), 0))]
        of_event = np.empty_like(record)
        of_event[order] = np.where(anchor == record, time[record], end[record])
        return cls(of_event[: len(begins.record)], of_event[len(record) - len(instants.record) :], end, behind)


def _spans(begins: _Events, ends: _Events, records: _Records, times: _Times, rows: _Rows) -> dict[str, np.ndarray]:
    """Start and duration of every slice, and whether it is cut.

    A range without an end is cut at its row's last record if the row lost its later ones, else (the thread returned
    inside the range) at the row's end.
    """
    end_record = _end_records(begins, ends, rows)
    cut = end_record < 0
    start, stop = times.begin, times.end[end_record]
    if times.end is not records.time:
        np.maximum(stop, start, out=stop)  # one that begins and ends in the same record has no duration
    if cut.any():
        held = np.flatnonzero(np.diff(records.start))
        last = records.start[held + 1] - 1
        row_end = rows.end.reshape(-1).copy()
        row_end[held] += times.behind[last] - records.time[last]
        if not rows.table.keep_last:
            overflowed = np.flatnonzero(rows.lost)
            row_end[overflowed] = times.behind[records.start[overflowed + 1] - 1]
        stop[cut] = np.maximum(np.repeat(row_end, begins.per_row)[cut], start[cut])
    return {"start": start, "duration": stop - start, "cut": cut}


def _codes(events: _Events, records: _Records, rows: _Rows, sites: _Sites) -> dict[str, np.ndarray]:
    """CTA, site and payload. A payload is kept as float64, which holds every 32-bit integer and float32 exactly."""
    columns: dict[str, np.ndarray] = {
        "cta": np.repeat(rows.number, rows.per_cta(events.per_row)),
        "site": events.range.astype(np.uint16),
    }
    if records.payload is not None:
        bits, type_of = records.payload.take(events.record), sites.payload_type.take(events.range)
        payload = np.full(len(bits), np.nan)
        for number, dtype in enumerate(_PAYLOAD_TYPES.values()):
            if (sites.payload_type == number).any():
                np.copyto(payload, bits.view(dtype), where=type_of == number)
        columns["payload"] = payload
    return columns


def _flows(begins: _Events, cut: np.ndarray, rows: _Rows, sites: _Sites, first_slice: int) -> dict[str, np.ndarray]:
    """Pairs the n-th ``src`` of a CTA with its (n + shift)-th ``dst``, for each pair of groups that hold them.

    An arrow needs both of its slices whole.
    """
    ctas_first_slice = np.append(0, np.cumsum(rows.per_cta(begins.per_row)))
    parts = [(np.empty(0, dtype=np.int64),) * 3]

    def slices_of(name: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """For each group with ranges of that name, its slices of them.

        And for each CTA, where its own begin among these, the number of its first one, and whether that is known.
        """
        of_name = sites.codes["name"] == name
        for group in np.unique(sites.codes["group"][of_name]):
            chosen = of_name & (sites.codes["group"] == group)
            at = np.flatnonzero(chosen.take(begins.range))
            first = np.searchsorted(at, ctas_first_slice)
            lost = (rows.lost[:, group] > 0) & rows.table.keep_last
            total = sites.total[chosen]
            number = np.where(lost, total.sum() - np.diff(first), 0)
            yield at, first, number, ~lost | ((total >= 0).all() & (number >= 0))

    for src_name, dst_name, shift in sites.edges:
        for src, src_first, src_number, src_known in slices_of(src_name):
            for dst, dst_first, dst_number, dst_known in slices_of(dst_name):
                # Counted within what the rows hold, the same arrow may have another shift in each CTA.
                shifts = src_number + shift - dst_number
                skipped = np.maximum(-shifts, 0)
                made = np.maximum(np.minimum(np.diff(src_first), np.diff(dst_first) - shifts) - skipped, 0)
                made = np.where(src_known & dst_known, made, 0)
                nth = np.arange(made.sum()) - np.repeat(np.cumsum(made) - made - skipped, made)
                src_slice = src.take(np.repeat(src_first[:-1], made) + nth)
                dst_slice = dst.take(np.repeat(dst_first[:-1] + shifts, made) + nth)
                occurrence = nth + np.repeat(src_number, made)
                if cut.any():
                    whole = ~(cut[src_slice] | cut[dst_slice])
                    src_slice, dst_slice, occurrence = src_slice[whole], dst_slice[whole], occurrence[whole]
                parts.append((src_slice, dst_slice, occurrence))
    src_slice, dst_slice, occurrence = (np.concatenate(column) for column in zip(*parts))
    if len(parts) > 2:
        order = np.argsort(src_slice, kind="stable")
        src_slice, dst_slice, occurrence = src_slice[order], dst_slice[order], occurrence[order]
    return {"src_slice": src_slice + first_slice, "dst_slice": dst_slice + first_slice, "occurrence": occurrence}


# ---------------------------------------------------------------------------------------------------------------------
# Tables


class _Columns:
    """Columns that grow up to a known bound, in one piece of memory.

    Fresh memory costs more than decoding into it. One large piece comes in large pages (on a virtual machine a million
    events took 26 ms instead of 40), and of what is never written to none comes at all.
    """

    def __init__(self, bound: int):
        self.length = 0
        self._bound = -(-bound // 8) * 8  # keeps the columns aligned
        self._columns: dict[str, np.ndarray] = {}

    def append(self, columns: dict[str, np.ndarray]) -> None:
        """Adds rows."""
        if not self._columns:
            widths = [values.itemsize for values in columns.values()]
            memory = np.empty(self._bound * sum(widths), dtype=np.uint8)
            starts = self._bound * (np.cumsum(widths) - widths)
            for (name, values), start, width in zip(columns.items(), starts, widths):
                self._columns[name] = memory[start : start + self._bound * width].view(values.dtype)
        first, behind = self.length, self.length + len(next(iter(columns.values())))
        for name, values in columns.items():
            self._columns[name][first:behind] = values
        self.length = behind

    def columns(self) -> dict[str, np.ndarray]:
        """The rows added."""
        return {name: column[: self.length] for name, column in self._columns.items()}


def _joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}


# Columns that follow from others are made when they are first read.


def _of_site(values: np.ndarray, table: Table) -> np.ndarray:
    return values.take(table["site"])


def _nanoseconds(axis: Axis, column: str, table: Table) -> np.ndarray:
    return axis.nanoseconds(table["cta"], table[column])


def _duration_ns(axis: Axis, table: Table) -> np.ndarray:
    return axis.nanoseconds(table["cta"], table["start"] + table["duration"]) - table["start_ns"]


def _no_payload(table: Table) -> np.ndarray:
    return np.full(len(table), np.nan)


def _slices(columns: dict[str, np.ndarray], sites: _Sites, axis: Axis) -> Table:
    of_site = {column: partial(_of_site, values) for column, values in sites.codes.items()}
    return Table(
        {
            "cta": columns["cta"],
            "group": of_site["group"],
            "lane": of_site["lane"],
            "name": of_site["name"],
            "start": columns["start"],
            "duration": columns["duration"],
            "payload": columns.get("payload", _no_payload),
            "payload_kind": of_site["payload_kind"],
            "depth": of_site["depth"],
            "start_ns": partial(_nanoseconds, axis, "start"),
            "duration_ns": partial(_duration_ns, axis),
            "cut": columns["cut"],
            "site": columns["site"],
        },
        sites.vocabularies,
    )


def _instants(columns: dict[str, np.ndarray], sites: _Sites, axis: Axis) -> Table:
    of_site = {column: partial(_of_site, values) for column, values in sites.codes.items()}
    return Table(
        {
            "cta": columns["cta"],
            "group": of_site["group"],
            "lane": of_site["lane"],
            "name": of_site["name"],
            "time": columns["time"],
            "payload": columns.get("payload", _no_payload),
            "payload_kind": of_site["payload_kind"],
            "time_ns": partial(_nanoseconds, axis, "time"),
            "site": columns["site"],
        },
        sites.vocabularies,
    )


def _flows_table(columns: dict[str, np.ndarray], slices: Table) -> Table:
    """Flows, as far as the slices that they connect know them.

    A flow arrives at the end of a slice that was waiting for it, else at its start.
    """
    names, groups = slices.vocabulary("name"), slices.vocabulary("group")
    return Table(
        {
            "cta": partial(_of_slice, slices, "cta", "src_slice"),
            "src": partial(_of_slice, slices, "name", "src_slice"),
            "dst": partial(_of_slice, slices, "name", "dst_slice"),
            "src_group": partial(_of_slice, slices, "group", "src_slice"),
            "dst_group": partial(_of_slice, slices, "group", "dst_slice"),
            **columns,
            "start": partial(_left, slices, ""),
            "end": partial(_arrived, slices, ""),
            "start_ns": partial(_left, slices, "_ns"),
            "end_ns": partial(_arrived, slices, "_ns"),
        },
        {"src": names, "dst": names, "src_group": groups, "dst_group": groups},
    )


def _of_slice(slices: Table, column: str, end: str, flows: Table) -> np.ndarray:
    return slices.codes(column).take(flows[end])


def _left(slices: Table, unit: str, flows: Table) -> np.ndarray:
    src = flows["src_slice"]
    return slices["start" + unit].take(src) + slices["duration" + unit].take(src)


def _arrived(slices: Table, unit: str, flows: Table) -> np.ndarray:
    dst = flows["dst_slice"]
    begun = slices["start" + unit].take(dst)
    return np.where(begun < flows["start" + unit], begun + slices["duration" + unit].take(dst), begun)


def _rows_table(recorded: np.ndarray, dropped: np.ndarray, rows: _Rows) -> Table:
    ctas, groups = recorded.shape
    columns: dict[str, np.ndarray] = {
        "cta": np.repeat(rows.number, groups),
        "group": np.tile(np.arange(groups, dtype=np.uint16), ctas),
        "recorded": recorded.reshape(-1),
        "dropped": dropped.reshape(-1),
        "finished": rows.closed.reshape(-1),
    }
    return Table(columns, {"group": [group.name for group in rows.table.groups]})


def _ctas_table(recorded: np.ndarray, dropped: np.ndarray, rows: _Rows, axis: Axis) -> Table:
    number = rows.number
    cycles = np.where(rows.finished, rows.end.max(axis=1), 0)
    columns: dict[str, np.ndarray] = {
        "cta": number,
        "x": number % rows.grid[0],
        "y": number // rows.grid[0] % rows.grid[1],
        "z": number // (rows.grid[0] * rows.grid[1]),
        "sm": rows.sm.astype(np.int32),
        "begin_ns": axis.nanoseconds(number, np.zeros_like(cycles)),
        "end_ns": axis.nanoseconds(number, cycles),
        "cycles": cycles,
        "ghz": axis.ghz(cycles),
        "recorded": recorded.sum(axis=1),
        "dropped": dropped.sum(axis=1),
        "finished": rows.finished,
    }
    return Table(columns)


def _never_fired(slices: np.ndarray, instants: np.ndarray, rows: _Rows) -> tuple[str, ...]:
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
