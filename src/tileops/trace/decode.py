"""From recorded slots to a Timeline, in whole-column operations.

Nothing loops over events. Headers are read for all CTAs at once; their records then go through in blocks of CTAs, so
small that a block's columns stay in the processor's cache: a million events took 110 ms in one piece, most of it for
fresh memory, and 25 ms in blocks. Read it in the order of the data: headers, records, events of each kind, begins
paired with their ends, tables.

The buffer is not trusted. A row is read only if its header says that it was closed; then whatever the recorder
guarantees is checked (counts, sites, order of times, one end for each begin), so that memory that something else
wrote to is refused instead of drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .axis import Axis, fit_axis
from .errors import TraceError
from .sites import BEGIN, END, INSTANT, SiteTable
from .slots import (
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

_PAYLOADS = {"": PAYLOAD_NONE, "i": PAYLOAD_INT, "f": PAYLOAD_FLOAT}
_BLOCK_RECORDS = 1 << 16
# A launch lasts less than this, see slots.py.
_LONGEST = 1 << (SITE_SHIFT - 1)
# In a kernel that TileLang split, how much earlier than the thread that opens a row another thread of its CTA may
# record. They start together; this is 2 s at 2 GHz, for whatever may hold one of them up.
_SKEW = 1 << 32
# A clock slower than 1 MHz is not believed; a row shorter than the second figure (cycles) says nothing of its clock.
_SLOWEST_NS, _SHORT = 1000, 1000


def decode_lines(lines: np.ndarray, table: SiteTable, meta: dict[str, Any] | None = None) -> Timeline:
    """Decodes slots.

    Args:
        lines: (CTAs, words) of 64-bit integers: the ``slots`` buffer on the host. Words behind the last record of a
            row may be anything, and so may the rows of CTAs that did not finish.
        table: the kernel's site table.
        meta: what is known of the launch, kept in ``Timeline.meta``.

    Raises:
        TraceError: if the buffer cannot come from a launch of that kernel.
    """
    if lines.ndim != 2 or lines.shape[1] < table.line_words or lines.dtype.kind not in "iu" or lines.itemsize != 8:
        raise TraceError(
            f"slots must be (CTAs, {table.line_words}) 64-bit words for kernel {table.kernel!r}, "
            f"got {lines.shape} of {lines.dtype}"
        )
    sites = _Sites.of(table)
    rows = _Rows.read(lines.view(np.uint64), table)
    sm = np.zeros_like(rows.sm) if table.target == "c" else rows.sm
    axis = fit_axis(sm, rows.clock, rows.timer, rows.zero, rows.finished)
    blocks: list[_Block] = []
    for part in rows.blocks():
        blocks.append(_Block.decode(part, sites, axis, first_slice=sum(len(block.slices["cta"]) for block in blocks)))
    recorded = np.concatenate([block.recorded for block in blocks])
    dropped = rows.attempted - recorded
    texts = sites.vocabularies
    return Timeline(
        slices=_joined([block.slices for block in blocks], texts),
        instants=_joined([block.instants for block in blocks], texts),
        flows=_joined([block.flows for block in blocks], {
            "src": texts["name"], "dst": texts["name"], "src_group": texts["group"], "dst_group": texts["group"]
        }),
        rows=_rows_table(recorded, dropped, rows),
        ctas=_ctas_table(recorded, dropped, rows, axis),
        grid=rows.grid,
        groups=texts["group"],
        axis_error_ns=axis.error_ns,
        never_fired=_never_fired(blocks, rows),
        meta={"kernel": table.kernel, "target": table.target, "max_events": table.max_events, **(meta or {})},
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Headers


@dataclass
class _Rows:
    """What the headers of some CTAs' rows say. A group's row is one strip a writer.

    Counts are zero in CTAs that did not finish; times are cycles since the CTA's begin.
    """

    table: SiteTable
    lines: np.ndarray
    first_cta: int
    grid: tuple[int, int, int]
    # (strips,)
    group: np.ndarray
    start: np.ndarray  # words from the begin of the line
    # (CTAs, strips)
    stored: np.ndarray  # records to read
    strip_begin: np.ndarray  # no record of the strip is earlier
    strip_end: np.ndarray  # none is later
    # (CTAs, groups)
    closed: np.ndarray
    attempted: np.ndarray  # events
    overflowed: np.ndarray
    end: np.ndarray
    # (CTAs,)
    finished: np.ndarray
    sm: np.ndarray
    zero: np.ndarray  # the clock at the CTA's begin
    # (CTAs, readings)
    clock: np.ndarray
    timer: np.ndarray

    @classmethod
    def read(cls, lines: np.ndarray, table: SiteTable) -> _Rows:
        places = [group.layout for group in table.groups]
        strips = [(g, w, p.offset + w * p.row_words, p.capacity) for g, p in enumerate(places) for w in range(p.writers)]
        group, writer, start, capacity = np.array(strips, dtype=np.int64).T
        first, second = np.flatnonzero(writer == 0), writer == 1
        header = lines[:, start[:, None] + np.arange(HEADER_WORDS)]
        state, count = _halves(header[..., WORD_STATE])
        events, sm = _halves(header[..., WORD_EVENTS])
        begin, begin_ns = header[:, first, WORD_BEGIN], header[:, first, WORD_BEGIN_NS]
        end, end_ns = header[..., WORD_END], header[..., WORD_END_NS]
        opened = ((state == STATE_OPEN) | (state == STATE_DONE))[:, first]
        closed = (state == STATE_DONE)[:, first]
        finished = closed.all(axis=1)
        # A second strip was written only if some thread behind the split recorded; what an earlier launch left there
        # ended before this one began.
        used = finished[:, None] & (state == STATE_DONE) & ~(second & (end_ns < begin_ns[:, group]))
        count, events = np.where(used, count, 0), np.where(used, events, 0)
        end, end_ns = np.where(used, end, end[:, first[group]]), np.where(used, end_ns, end_ns[:, first[group]])
        length, length_ns = (end - begin[:, group]).view(np.int64), (end_ns - begin_ns[:, group]).view(np.int64)
        later = (begin - begin[:, :1]).view(np.int64)  # than the first group's begin

        # The CTA begins with its first row, or with a record that a thread behind the split made just before that.
        early = later.min(axis=1)
        for strip in np.flatnonzero(second & (count > 0).any(axis=0)):
            record = (lines[:, start[strip] + HEADER_WORDS] - begin[:, group[strip]]) << np.uint64(64 - SITE_SHIFT)
            skew = np.where(count[:, strip] > 0, record.view(np.int64) >> (64 - SITE_SHIFT), 0)
            early = np.minimum(early, later[:, group[strip]] + skew)
        strip_begin = (later - early[:, None])[:, group]
        strip_end = strip_begin + length
        rows = cls(
            table=table, lines=lines, first_cta=0, grid=(0, 0, 0), group=group, start=start,
            stored=np.minimum(count, capacity), strip_begin=np.where(second, 0, strip_begin), strip_end=strip_end,
            closed=closed, attempted=np.add.reduceat(events, first, axis=1),
            overflowed=np.logical_or.reduceat(count > capacity, first, axis=1),
            end=np.maximum.reduceat(strip_end, first, axis=1), finished=finished,
            sm=np.where(opened.any(axis=1), sm[np.arange(len(sm)), first[opened.argmax(axis=1)]], -1).astype(np.int32),
            zero=begin[:, 0] + early.view(np.uint64),
            clock=np.concatenate([begin, end], axis=1), timer=np.concatenate([begin_ns, end_ns], axis=1),
        )  # fmt: skip
        rows.refuse(used & (events < count), "it counts fewer events than records")
        rows.refuse(used & ((length < 0) | (length_ns < 0)), "it ends before it begins")
        rows.refuse(used & ((length >= _LONGEST) | (np.abs(later) >= _LONGEST)[:, group]), "it lasts for days")
        rows.refuse(used & (length_ns > (length + _SHORT) * _SLOWEST_NS), "its clock stood still")
        rows.refuse(used & second & (strip_begin > _SKEW), "it holds a record from long before its begin")
        if table.target != "c":
            rows.refuse(used & (sm != sm[:, :1]), "its SM is not that of the CTA's other rows")
        return replace(rows, grid=rows.check_grid(header[:, first][..., [WORD_GRID_XY, WORD_GRID_Z]], opened))

    def check_grid(self, words: np.ndarray, opened: np.ndarray) -> tuple[int, int, int]:
        """The grid that all opened rows name; ``words`` are (CTAs, groups, 2)."""
        kernel = self.table.kernel
        if not opened.any():
            raise TraceError(f"no CTA of kernel {kernel!r} opened its rows: this buffer holds no launch of it")
        xy, z = (int(word) for word in words[opened][0])
        grid = (xy & 0xFFFFFFFF, xy >> 32, z)
        if grid[0] * grid[1] * grid[2] != len(words):
            raise TraceError(f"slots of kernel {kernel!r} hold {len(words)} CTAs but were recorded on a grid of {grid}")
        self.refuse(opened & (words != [xy, z]).any(axis=2), "its grid is not that of the other rows")
        return grid

    def refuse(self, bad: np.ndarray, why: str) -> None:
        """Raises for the first true in ``bad``: (CTAs, groups) or (CTAs, strips)."""
        if bad.any():
            cta, column = (int(index) for index in np.argwhere(bad)[0])
            group = self.table.groups[column if bad.shape[1] == len(self.table.groups) else self.group[column]].name
            raise TraceError(
                f"these slots are not what a launch of kernel {self.table.kernel!r} left: the row of CTA "
                f"{self.first_cta + cta}, group {group!r}, is damaged: {why}"
            )

    def blocks(self) -> Iterator[_Rows]:
        """The CTAs in order, in blocks of about ``_BLOCK_RECORDS`` records."""
        block = np.cumsum(self.stored.sum(axis=1)) // _BLOCK_RECORDS
        edges = [*np.flatnonzero(np.diff(block, prepend=-1)).tolist(), len(block)]
        for first, behind in zip(edges, edges[1:]):
            ctas = slice(first, behind)
            yield replace(
                self, first_cta=first, lines=self.lines[ctas], stored=self.stored[ctas],
                strip_begin=self.strip_begin[ctas], strip_end=self.strip_end[ctas], closed=self.closed[ctas],
                attempted=self.attempted[ctas], overflowed=self.overflowed[ctas], end=self.end[ctas],
                finished=self.finished[ctas], sm=self.sm[ctas], zero=self.zero[ctas], clock=self.clock[ctas],
                timer=self.timer[ctas],
            )  # fmt: skip


    def cta_of(self, events: _Events) -> np.ndarray:
        """The CTA of each event."""
        per_cta = events.per_row.reshape(self.closed.shape).sum(axis=1)
        return np.repeat(np.arange(self.first_cta, self.first_cta + len(per_cta), dtype=np.int32), per_cta)


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
    payload: np.ndarray | None  # uint32; None if no group has payloads
    row_start: np.ndarray  # (CTAs * groups + 1,) position of each row's first record

    @classmethod
    def read(cls, rows: _Rows, sites: _Sites) -> _Records:
        places = [rows.table.groups[group].layout for group in rows.group]
        widths = rows.stored.max(axis=0, initial=0)
        # One rectangle for all strips, each as wide as its fullest row, has the records in their final order.
        words = np.empty((len(rows.lines), widths.sum()), dtype=np.uint64)
        with_payload = any(place.record_words == 2 for place in places)
        payload = np.zeros(words.shape, dtype=np.uint32) if with_payload else None
        column = 0
        for place, start, width in zip(places, (rows.start + HEADER_WORDS).tolist(), widths.tolist()):
            source = rows.lines[:, start : start + width * place.record_words]
            part = slice(column, column + width)
            np.subtract(source[:, :: place.record_words], rows.zero[:, None], out=words[:, part])
            if payload is not None and place.record_words == 2:
                payload[:, part] = source[:, 1::2]
            column += width
        if (rows.stored == widths).all():
            words, payload = words.reshape(-1), None if payload is None else payload.reshape(-1)
        else:
            nth = np.arange(column) - np.repeat(np.cumsum(widths) - widths, widths)
            held = nth < np.repeat(rows.stored, widths, axis=1)
            words, payload = words[held], None if payload is None else payload[held]
        site = (words >> np.uint64(SITE_SHIFT)).view(np.int64)
        time = (words & np.uint64((1 << SITE_SHIFT) - 1)).view(np.int64)
        start = np.append(0, np.cumsum(rows.stored))
        _check_records(time, site, start, rows, sites)

        first = np.flatnonzero(np.diff(rows.group, prepend=-1))
        row_start = np.append(start[:-1].reshape(rows.stored.shape)[:, first], start[-1])
        if len(first) < len(places) and _runs_back(time, row_start).any():
            # Two writers of a row recorded at once. Rows laid behind each other make one key of row and time.
            taken = (rows.end + 1).reshape(-1)
            order = np.argsort(time + np.repeat(np.cumsum(taken) - taken, np.diff(row_start)), kind="stable")
            time, site, payload = time[order], site[order], None if payload is None else payload[order]
        return cls(time, site, payload, row_start)


def _runs_back(time: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """For each record but the last, whether the next one is earlier; never where the next one starts a new run."""
    back = time[1:] < time[:-1]
    back[starts[(starts > 0) & (starts < len(time))] - 1] = False
    return back


def _check_records(time: np.ndarray, site: np.ndarray, start: np.ndarray, rows: _Rows, sites: _Sites) -> None:
    """Refuses strips whose records are out of order, outside the strip's span, or of sites that are not its group's."""

    def refuse_strips_of(records: np.ndarray, why: str) -> None:
        if records.any():
            bad = np.zeros(rows.stored.size, dtype=bool)
            bad[np.searchsorted(start, np.flatnonzero(records), side="right") - 1] = True
            rows.refuse(bad.reshape(rows.stored.shape), why)

    refuse_strips_of(_runs_back(time, start), "its times run backwards")
    held = rows.stored > 0
    first, last = start[:-1].reshape(held.shape)[held], start[1:].reshape(held.shape)[held] - 1
    outside = np.zeros(held.shape, dtype=bool)
    outside[held] = (time[first] < rows.strip_begin[held]) | (time[last] > rows.strip_end[held])
    rows.refuse(outside, "it holds a record from outside its span")
    own = np.repeat(np.tile(rows.group.astype(np.uint16), len(rows.stored)), rows.stored.reshape(-1))
    refuse_strips_of(sites.group_of.take(site, mode="clip") != own, "it names a site that is not its group's")


# ---------------------------------------------------------------------------------------------------------------------
# Events


@dataclass(frozen=True)
class _Sites:
    """The site table as arrays."""

    vocabularies: dict[str, tuple[str, ...]]
    codes: dict[str, np.ndarray]  # column -> (ranges,) its value for each range
    group_of: np.ndarray  # (sites + 1,) the last for numbers that are no site's
    count: dict[str, np.ndarray]  # kind -> (sites,) events of that kind in a record
    first: dict[str, np.ndarray]  # kind -> (sites,) position in `ranges` of the first of them
    ranges: dict[str, np.ndarray]  # kind -> position in SiteTable.ranges
    edges: tuple[tuple[int, int, int], ...]  # names of source and destination, and shift

    @classmethod
    def of(cls, table: SiteTable) -> _Sites:
        texts = {
            "group": tuple(group.name for group in table.groups),
            "lane": tuple(dict.fromkeys(r.lane for r in table.ranges)),
            "name": tuple(dict.fromkeys(r.name for r in table.ranges)),
        }
        lane, name = ({text: code for code, text in enumerate(texts[column])} for column in ("lane", "name"))
        codes = {
            "group": np.array([r.group for r in table.ranges], dtype=np.uint16),
            "lane": np.array([lane[r.lane] for r in table.ranges], dtype=np.uint16),
            "name": np.array([name[r.name] for r in table.ranges], dtype=np.uint16),
            "payload_kind": np.array([_PAYLOADS[r.payload] for r in table.ranges], dtype=np.uint8),
            "depth": np.array([r.depth for r in table.ranges], dtype=np.int16),
            "site": np.arange(len(table.ranges), dtype=np.uint16),
        }
        group_of = [*(table.ranges[site[0][1]].group for site in table.sites), 0xFFFF]
        count, first, ranges = {}, {}, {}
        for kind in (BEGIN, END, INSTANT):
            of_site = [[index for event, index in site if event == kind] for site in table.sites]
            count[kind] = np.array([len(indices) for indices in of_site], dtype=np.int64)
            first[kind] = np.cumsum(count[kind]) - count[kind]
            ranges[kind] = np.array([index for indices in of_site for index in indices], dtype=np.int64)
        edges = tuple((name[edge.src], name[edge.dst], edge.shift) for edge in table.edges)
        return cls(texts, codes, np.array(group_of, dtype=np.uint16), count, first, ranges, edges)


@dataclass
class _Events:
    """All events of one kind, by CTA, group and time."""

    record: np.ndarray  # position in the records
    range: np.ndarray  # position in SiteTable.ranges
    per_row: np.ndarray  # (CTAs * groups,) how many there are

    @classmethod
    def of(cls, kind: str, records: _Records, sites: _Sites) -> _Events:
        count, first, ranges = sites.count[kind], sites.first[kind], sites.ranges[kind]
        most = int(count.max(initial=0))
        if most == 0 or len(records.site) == 0:
            record = index = np.empty(0, dtype=np.int64)
        elif most == 1:
            record = np.flatnonzero((count == 1).take(records.site))
            index = ranges.take(first, mode="clip").take(records.site.take(record))
        else:
            each = count.take(records.site)
            record = np.repeat(np.arange(len(each)), each)
            nth = np.arange(len(record)) - np.repeat(np.cumsum(each) - each, each)
            index = ranges.take(first.take(records.site.take(record)) + nth)
        return cls(record, index, np.diff(np.searchsorted(record, records.row_start)))


def _end_records(begins: _Events, ends: _Events, rows: _Rows) -> np.ndarray:
    """For each begin the record of its end, or -1 where there is none.

    A range's n-th begin in a row belongs to its n-th end. Where two threads record a row, one may run ahead, so that
    a range's next begin comes before its end; where one does, begins and ends must alternate.
    """
    in_turn = len(begins.record) == len(ends.record) and bool(
        (begins.range == ends.range).all()
        and (begins.per_row == ends.per_row).all()
        and (begins.record <= ends.record).all()
        and (ends.record[:-1] <= begins.record[1:]).all()
    )
    if in_turn:
        return ends.record  # No range holds another one: they are paired as they stand.

    # Bring both in the order of range, row and time. (16-bit keys: a radix sort.)
    begin_order = np.argsort(begins.range.astype(np.uint16), kind="stable")
    end_order = np.argsort(ends.range.astype(np.uint16), kind="stable")
    begin, end = begins.record[begin_order], ends.record[end_order]
    row = np.arange(len(begins.per_row))
    begin_row = np.repeat(row, begins.per_row)[begin_order]
    begin_key = begins.range[begin_order] * len(row) + begin_row
    end_key = ends.range[end_order] * len(row) + np.repeat(row, ends.per_row)[end_order]
    if np.array_equal(begin_key, end_key):
        partner, whole = np.arange(len(begin)), np.ones(len(begin), dtype=bool)
    else:
        nth = np.arange(len(begin)) - np.searchsorted(begin_key, begin_key)
        partner = np.searchsorted(end_key, begin_key) + nth
        whole = partner < np.searchsorted(end_key, begin_key, side="right")
    found = np.full(len(begin), -1, dtype=np.int64)
    found[whole] = end[partner[whole]]

    # One thread cannot begin a range again before it ended it, nor end what it did not begin. Of two threads, one may
    # have had no room left for the begins.
    one_writer = np.tile([group.layout.writers == 1 for group in rows.table.groups], len(rows.closed))
    wrong = whole & (found < begin)
    wrong[:-1] |= (begin_key[1:] == begin_key[:-1]) & (~whole[:-1] | (found[:-1] > begin[1:]))
    wrong_rows = np.zeros(len(row), dtype=bool)
    wrong_rows[begin_row[wrong]] = True
    wrong_rows &= one_writer
    unbegun = ends.per_row > np.bincount(begin_row[whole], minlength=len(row))
    wrong_rows |= unbegun & (one_writer | ~rows.overflowed.reshape(-1))
    rows.refuse(wrong_rows.reshape(rows.closed.shape), "its ranges do not begin and end in turn")
    by_time = np.empty_like(found)
    by_time[begin_order] = found
    return by_time


# ---------------------------------------------------------------------------------------------------------------------
# Tables


@dataclass
class _Block:
    """The decoded events of some CTAs, as columns of the Timeline's tables."""

    slices: dict[str, np.ndarray]
    instants: dict[str, np.ndarray]
    flows: dict[str, np.ndarray]
    recorded: np.ndarray  # (CTAs, groups) events
    fired: np.ndarray  # (ranges,) whether there is an event of it

    @classmethod
    def decode(cls, rows: _Rows, sites: _Sites, axis: Axis, first_slice: int) -> _Block:
        records = _Records.read(rows, sites)
        begins, ends, instants = (_Events.of(kind, records, sites) for kind in (BEGIN, END, INSTANT))
        shape = rows.closed.shape
        recorded = (begins.per_row + ends.per_row + instants.per_row).reshape(shape)
        held = np.where(rows.overflowed, recorded < rows.attempted, recorded == rows.attempted)
        rows.refuse(~held, "its records do not hold the events that it counts")

        start, stop, cut = _spans(begins, ends, records, rows)
        cta = rows.cta_of(begins)
        start_ns, stop_ns = axis.nanoseconds(cta, start), axis.nanoseconds(cta, stop)
        slices = {
            "cta": cta,
            **_codes(begins, sites, "group", "lane", "name"),
            "start": start,
            "duration": stop - start,
            "payload": _payloads(begins, records, sites),
            **_codes(begins, sites, "payload_kind", "depth"),
            "start_ns": start_ns,
            "duration_ns": stop_ns - start_ns,
            "cut": cut,
            **_codes(begins, sites, "site"),
        }
        flows = _flows(slices, slice(rows.first_cta, rows.first_cta + len(rows.lines)), first_slice, sites)
        flows["start_ns"] = axis.nanoseconds(flows["cta"], flows["start"])
        flows["end_ns"] = axis.nanoseconds(flows["cta"], flows["end"])
        time, cta = records.time[instants.record], rows.cta_of(instants)
        marks = {
            "cta": cta,
            **_codes(instants, sites, "group", "lane", "name"),
            "time": time,
            "payload": _payloads(instants, records, sites),
            **_codes(instants, sites, "payload_kind"),
            "time_ns": axis.nanoseconds(cta, time),
            **_codes(instants, sites, "site"),
        }
        ranges = len(sites.codes["site"])
        fired = np.bincount(begins.range, minlength=ranges) + np.bincount(instants.range, minlength=ranges) > 0
        return cls(slices, marks, flows, recorded, fired)


def _spans(
    begins: _Events, ends: _Events, records: _Records, rows: _Rows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Begin and end of every slice, and whether it is cut.

    A range without an end is cut at its row's last record if the row overflowed, else (the thread returned inside the
    range) at the row's end.
    """
    end_record = _end_records(begins, ends, rows)
    start, stop, cut = records.time[begins.record], records.time[end_record], end_record < 0
    if cut.any():
        last = records.time[np.maximum(records.row_start[1:] - 1, 0)]
        row_end = np.where(rows.overflowed.reshape(-1), last, rows.end.reshape(-1))
        stop[cut] = np.repeat(row_end, begins.per_row)[cut]
    # The two ends of a range may be recorded by two threads, at the same moment: a range is never shorter than nothing.
    return start, np.maximum(stop, start), cut


def _codes(events: _Events, sites: _Sites, *columns: str) -> dict[str, np.ndarray]:
    return {column: sites.codes[column].take(events.range) for column in columns}


def _payloads(events: _Events, records: _Records, sites: _Sites) -> np.ndarray:
    """Payloads as float64, which holds every 32-bit integer and float32 exactly; NaN where there is none."""
    values = np.full(len(events.range), np.nan)
    if records.payload is not None:
        bits, kind = records.payload[events.record], sites.codes["payload_kind"].take(events.range)
        np.copyto(values, bits.view(np.int32), where=kind == PAYLOAD_INT)
        np.copyto(values, bits.view(np.float32), where=kind == PAYLOAD_FLOAT)
    return values


_FLOW_COLUMNS: dict[str, Any] = {
    "cta": np.int32, "src": np.uint16, "dst": np.uint16, "src_group": np.uint16, "dst_group": np.uint16,
    "src_slice": np.int64, "dst_slice": np.int64, "occurrence": np.int64, "start": np.int64, "end": np.int64,
}  # fmt: skip


def _flows(slices: dict[str, np.ndarray], ctas: slice, first_slice: int, sites: _Sites) -> dict[str, np.ndarray]:
    """Pairs the n-th ``src`` of a CTA with its (n + shift)-th ``dst``, for each pair of groups that hold them.

    An arrow needs both of its slices whole. It arrives at the end of a ``dst`` that was waiting for it, else at its
    start. ``first_slice`` is the Timeline's position of the first of these slices.
    """
    cta, start, cut = slices["cta"] - ctas.start, slices["start"], slices["cut"]
    parts: list[dict[str, Any]] = [dict.fromkeys(_FLOW_COLUMNS, np.empty(0, dtype=np.int64))]

    def occurrences(name: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """For each group that has ranges of that name: the group, its slices of them, and each CTA's first of those."""
        of_name = sites.codes["name"] == name
        for group in np.unique(sites.codes["group"][of_name]).tolist():
            of_both = of_name & (sites.codes["group"] == group)
            at = np.flatnonzero(of_both.take(slices["site"]))
            yield group, at, np.searchsorted(cta[at], np.arange(ctas.stop - ctas.start + 1))

    for src_name, dst_name, shift in sites.edges:
        for src_group, src, src_first in occurrences(src_name):
            for dst_group, dst, dst_first in occurrences(dst_name):
                nth = np.arange(len(src)) - src_first[cta[src]]
                partner = dst_first[cta[src]] + nth + shift
                made = np.flatnonzero((partner >= dst_first[cta[src]]) & (partner < dst_first[cta[src] + 1]))
                made = made[~(cut[src[made]] | cut[dst[partner[made]]])]
                src_slice, dst_slice = src[made], dst[partner[made]]
                left, begun = start[src_slice] + slices["duration"][src_slice], start[dst_slice]
                parts.append({
                    "cta": slices["cta"][src_slice], "src": src_name, "dst": dst_name, "src_group": src_group,
                    "dst_group": dst_group, "src_slice": src_slice + first_slice, "dst_slice": dst_slice + first_slice,
                    "occurrence": nth[made], "start": left,
                    "end": np.where(begun < left, begun + slices["duration"][dst_slice], begun),
                })  # fmt: skip
    length = [len(part["cta"]) for part in parts]
    flows = {
        column: np.concatenate([np.broadcast_to(part[column], n).astype(dtype, copy=False) for part, n in zip(parts, length)])
        for column, dtype in _FLOW_COLUMNS.items()
    }
    if len(parts) > 2:
        by_cta = np.argsort(flows["cta"], kind="stable")
        flows = {column: values[by_cta] for column, values in flows.items()}
    return flows


def _joined(parts: list[dict[str, np.ndarray]], vocabularies: dict[str, tuple[str, ...]]) -> Table:
    return Table({column: np.concatenate([part[column] for part in parts]) for column in parts[0]}, vocabularies)


def _rows_table(recorded: np.ndarray, dropped: np.ndarray, rows: _Rows) -> Table:
    ctas, groups = recorded.shape
    columns = {
        "cta": np.repeat(np.arange(ctas, dtype=np.int32), groups),
        "group": np.tile(np.arange(groups, dtype=np.uint16), ctas),
        "recorded": recorded.reshape(-1),
        "dropped": dropped.reshape(-1),
        "finished": rows.closed.reshape(-1),
    }
    return Table(columns, {"group": [group.name for group in rows.table.groups]})


def _ctas_table(recorded: np.ndarray, dropped: np.ndarray, rows: _Rows, axis: Axis) -> Table:
    number = np.arange(len(recorded), dtype=np.int32)
    cycles = np.where(rows.finished, rows.end.max(axis=1), 0)
    return Table(
        {
            "cta": number,
            "x": number % rows.grid[0],
            "y": number // rows.grid[0] % rows.grid[1],
            "z": number // (rows.grid[0] * rows.grid[1]),
            "sm": rows.sm,
            "begin_ns": axis.begin_ns,
            "end_ns": axis.nanoseconds(number, cycles),
            "cycles": cycles,
            "ghz": 1.0 / axis.ns_per_cycle,
            "recorded": recorded.sum(axis=1),
            "dropped": dropped.sum(axis=1),
            "finished": rows.finished,
        }
    )


def _never_fired(blocks: list[_Block], rows: _Rows) -> tuple[str, ...]:
    """Markers without a single event, in launches of which nothing is missing."""
    if not rows.finished.all() or rows.overflowed.any():
        return ()
    fired = np.logical_or.reduce([block.fired for block in blocks])
    return tuple(
        f"{'record' if r.instant else 'range'} {r.name!r} at {r.where}"
        for r, seen in zip(rows.table.ranges, fired)
        if not seen
    )
