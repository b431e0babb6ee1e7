"""From recorded slots to a Timeline, in whole-column operations.

No step loops over events, CTAs or sites: the only loops are over a kernel's groups and ``dag`` edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .axis import Axis, fit_axis
from .errors import TraceError
from .sites import BEGIN, END, INSTANT, SiteTable
from .slots import (
    CLOCK_BIAS,
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

_KINDS = {BEGIN: 0, END: 1, INSTANT: 2}
_PAYLOADS = {"": PAYLOAD_NONE, "i": PAYLOAD_INT, "f": PAYLOAD_FLOAT}


def decode_lines(lines: np.ndarray, table: SiteTable, meta: dict[str, Any] | None = None) -> Timeline:
    """Decodes slots.

    Args:
        lines: (CTAs, words) of 64-bit integers: the ``slots`` buffer on the host. Words behind the last record of a
            row may be anything.
        table: the kernel's site table.
        meta: what is known of the launch, kept in ``Timeline.meta``.

    Raises:
        TraceError: if the buffer cannot come from a launch of that kernel.
    """
    if lines.ndim != 2 or lines.shape[1] < table.line_words or lines.dtype.itemsize != 8:
        raise TraceError(
            f"slots must be (CTAs, {table.line_words}) 64-bit words for kernel {table.kernel!r}, "
            f"got {lines.shape} of {lines.dtype}"
        )
    lines = lines.view(np.uint64) if lines.dtype != np.uint64 else lines
    rows = [_read_rows(lines, table, group) for group in range(len(table.groups))]
    ctas = _Ctas.of(rows, len(lines))
    grid = _grid(rows, len(lines), table.kernel)
    events = _Events.of(rows, table, ctas)
    axis = fit_axis(
        np.where(table.target == "c", 0, ctas.sm), ctas.begin, ctas.begin_ns, ctas.end, ctas.end_ns, ctas.finished
    )
    slices = _slices(events, rows, table, ctas, axis)
    rows_table = _rows_table(events, rows, table)
    return Timeline(
        slices=slices,
        instants=_instants(events, table, axis),
        flows=_flows(slices, table, ctas, axis),
        rows=rows_table,
        ctas=_ctas_table(rows_table, ctas, grid, axis),
        grid=grid,
        groups=tuple(group.name for group in table.groups),
        axis_error_ns=axis.error_ns,
        never_fired=_never_fired(events, rows, table, ctas),
        meta={"kernel": table.kernel, "target": table.target, "max_events": table.max_events, **(meta or {})},
    )


# ---------------------------------------------------------------------------------------------------------------------
# Rows and CTAs


@dataclass
class _Rows:
    """One group's rows, a value a CTA: headers and records.

    ``time`` is a record's clock less its row's begin, ``cta`` its CTA; both ordered by CTA, then time.
    """

    finished: np.ndarray
    opened: np.ndarray
    sm: np.ndarray
    begin: np.ndarray
    begin_ns: np.ndarray
    end: np.ndarray
    end_ns: np.ndarray
    grid: np.ndarray
    attempted: np.ndarray  # events
    overflowed: np.ndarray
    records: np.ndarray  # records stored, a CTA
    cta: np.ndarray
    time: np.ndarray
    site: np.ndarray
    payload: np.ndarray | None


def _read_rows(lines: np.ndarray, table: SiteTable, group: int) -> _Rows:
    place = table.groups[group].layout
    first = lines[:, place.offset : place.offset + place.row_words]
    header = first[:, :HEADER_WORDS]
    state = _low(header[:, WORD_STATE])
    finished, opened = state == STATE_DONE, (state == STATE_DONE) | (state == STATE_OPEN)
    begin = header[:, WORD_BEGIN].copy()
    begin_ns = header[:, WORD_BEGIN_NS].copy()
    end = header[:, WORD_END].copy()
    end_ns = header[:, WORD_END_NS].copy()
    count = np.where(finished, _high(header[:, WORD_STATE]), 0)
    attempted = np.where(finished, _low(header[:, WORD_EVENTS]), 0)
    parts = [_read_records(first, place, count, begin)]
    overflowed = count > place.capacity
    stored = np.minimum(count, place.capacity)
    if place.writers == 2:
        # The second row was written only if some thread behind the split recorded; what an earlier launch left there
        # ended before this one began.
        second = lines[:, place.offset + place.row_words : place.offset + 2 * place.row_words]
        ended_ns = second[:, WORD_END_NS]
        used = finished & (_low(second[:, WORD_STATE]) == STATE_DONE) & (ended_ns >= begin_ns)
        more = np.where(used, _high(second[:, WORD_STATE]), 0)
        attempted = attempted + np.where(used, _low(second[:, WORD_EVENTS]), 0)
        parts.append(_read_records(second, place, more, begin))
        overflowed |= more > place.capacity
        stored = stored + np.minimum(more, place.capacity)
        later = used & (second[:, WORD_END] - begin > end - begin)
        end, end_ns = np.where(later, second[:, WORD_END], end), np.where(later, ended_ns, end_ns)
    cta, word, payload = (
        np.concatenate(column) if len(parts) > 1 else column[0] for column in zip(*parts)
    )
    elapsed = word + np.uint64(CLOCK_BIAS)
    site = (elapsed >> np.uint64(SITE_SHIFT)).astype(np.uint16)
    time = (elapsed & np.uint64((1 << SITE_SHIFT) - 1)).view(np.int64) - CLOCK_BIAS
    if len(parts) > 1 and len(parts[1][0]):
        order = np.lexsort((time, cta))
        cta, time, site, payload = cta[order], time[order], site[order], payload[order]
    return _Rows(
        finished=finished, opened=opened, sm=_high(header[:, WORD_EVENTS]).astype(np.int32), begin=begin,
        begin_ns=begin_ns, end=end, end_ns=end_ns, grid=header[:, [WORD_GRID_XY, WORD_GRID_Z]], attempted=attempted,
        overflowed=overflowed, records=stored, cta=cta, time=time, site=site,
        payload=payload if place.record_words == 2 else None,
    )  # fmt: skip


def _read_records(rows: np.ndarray, place: Any, count: np.ndarray, begin: np.ndarray) -> tuple[np.ndarray, ...]:
    """CTA, record less the row's begin, and payload bits of every record in ``rows``."""
    stored = np.minimum(count, place.capacity).astype(np.int64)
    most = int(stored.max(initial=0))
    words = rows[:, HEADER_WORDS : HEADER_WORDS + most * place.record_words]
    cta = np.repeat(np.arange(len(rows), dtype=np.int32), stored)
    full = bool((stored == most).all())
    record = words[:, :: place.record_words] - begin[:, None]
    held = None if full else np.arange(most)[None, :] < stored[:, None]
    record = record.reshape(-1) if held is None else record[held]
    if place.record_words == 1:
        return cta, record, np.empty(0, dtype=np.uint32)
    payload = words[:, 1::2].astype(np.uint32)
    return cta, record, payload.reshape(-1) if held is None else payload[held]


def _low(words: np.ndarray) -> np.ndarray:
    return (words & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _high(words: np.ndarray) -> np.ndarray:
    return (words >> np.uint64(32)).astype(np.int64)


@dataclass
class _Ctas:
    """One value a CTA, over all of its groups' rows."""

    finished: np.ndarray
    opened: np.ndarray
    sm: np.ndarray
    begin: np.ndarray  # the clock
    end: np.ndarray
    begin_ns: np.ndarray
    end_ns: np.ndarray

    @classmethod
    def of(cls, rows: list[_Rows], count: int) -> _Ctas:
        finished = np.logical_and.reduce([r.finished for r in rows])
        opened = np.logical_or.reduce([r.opened for r in rows])
        begin, end = rows[0].begin.copy(), rows[0].end.copy()
        begin_ns, end_ns = rows[0].begin_ns.copy(), rows[0].end_ns.copy()
        for row in rows[1:]:
            earlier = (row.begin - begin).view(np.int64) < 0
            begin[earlier], begin_ns[earlier] = row.begin[earlier], row.begin_ns[earlier]
            later = (row.end - end).view(np.int64) > 0
            end[later], end_ns[later] = row.end[later], row.end_ns[later]
        return cls(finished, opened, np.where(opened, rows[0].sm, -1), begin, end, begin_ns, end_ns)


def _grid(rows: list[_Rows], ctas: int, kernel: str) -> tuple[int, int, int]:
    opened = np.flatnonzero(rows[0].opened)
    if len(opened) == 0:
        raise TraceError(f"no CTA of kernel {kernel!r} opened its rows: this buffer holds no launch of it")
    xy, z = (int(word) for word in rows[0].grid[opened[0]])
    grid = (xy & 0xFFFFFFFF, xy >> 32, z)
    if grid[0] * grid[1] * grid[2] != ctas:
        raise TraceError(f"slots of kernel {kernel!r} hold {ctas} CTAs but were recorded on a grid of {grid}")
    return grid


# ---------------------------------------------------------------------------------------------------------------------
# Events


@dataclass
class _Events:
    """All events, ordered by CTA, group and time. ``time`` is in cycles since the CTA's begin."""

    kind: np.ndarray  # uint8
    range: np.ndarray  # uint16: position in SiteTable.ranges
    row: np.ndarray  # int64: CTA * groups + group
    time: np.ndarray  # int64
    payload: np.ndarray | None  # uint32
    per_row: np.ndarray  # events in each row

    @classmethod
    def of(cls, rows: list[_Rows], table: SiteTable, ctas: _Ctas) -> _Events:
        groups = len(rows)
        sizes = np.array([len(site) for site in table.sites], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        kinds = np.array([_KINDS[kind] for site in table.sites for kind, _ in site], dtype=np.uint8)
        ranges = np.array([index for site in table.sites for _, index in site], dtype=np.uint16)
        merged = bool((sizes > 1).any())
        columns: list[tuple[np.ndarray, ...]] = []
        per_row = np.zeros((len(rows[0].begin), groups), dtype=np.int64)
        for group, row in enumerate(rows):
            if len(row.site) and int(row.site.max()) >= len(sizes):
                raise TraceError(f"slots name site {int(row.site.max())} of {len(sizes)}: not a launch of this kernel")
            cta, time, site, payload = row.cta, row.time, row.site, row.payload
            shift = (row.begin - ctas.begin).view(np.int64)
            if shift.any():
                time = time + shift[cta]
            if merged and len(site) and int(sizes[site].max()) > 1:
                size = sizes[site]
                owner = np.repeat(np.arange(len(site)), size)
                event = first[site][owner] + (np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size))
                cta, time = cta[owner], time[owner]
                payload = None if payload is None else payload[owner]
            else:
                event = first[site] if merged else site
            per_row[:, group] = np.bincount(cta, minlength=len(per_row))
            columns.append((kinds[event], ranges[event], cta, time, payload))  # type: ignore[arg-type]
        return cls._interleaved(columns, per_row)

    @classmethod
    def _interleaved(cls, columns: list[tuple[np.ndarray, ...]], per_row: np.ndarray) -> _Events:
        """Brings the groups' events, each ordered by CTA and time, into the order of CTA, group and time."""
        ctas, groups = per_row.shape
        flat = per_row.reshape(-1)
        starts = (np.cumsum(flat) - flat).reshape(ctas, groups)
        total = int(flat.sum())
        kind = np.empty(total, np.uint8)
        index = np.empty(total, np.uint16)
        row = np.repeat(np.arange(ctas * groups, dtype=np.int64), flat)
        time = np.empty(total, np.int64)
        with_payload = any(column[4] is not None for column in columns)
        payload = np.zeros(total, np.uint32) if with_payload else None
        for group, (kinds, ranges, cta, times, bits) in enumerate(columns):
            if groups == 1:
                kind, index, time = kinds, ranges, times
                payload = bits if with_payload else None
                continue
            own = per_row[:, group]
            # starts less the events of this group in earlier CTAs: what to add to an event's own position.
            place = np.repeat(starts[:, group] - (np.cumsum(own) - own), own) + np.arange(len(cta))
            kind[place], index[place], time[place] = kinds, ranges, times
            if payload is not None and bits is not None:
                payload[place] = bits
        return cls(kind, index, row, time, payload, per_row)


def _slices(events: _Events, rows: list[_Rows], table: SiteTable, ctas: _Ctas, axis: Axis) -> Table:
    groups = len(table.groups)
    # Within a row the begins and ends of one static range alternate, since every path ends it exactly once before it
    # can begin again. So a stable sort by range puts an end right behind its begin. (16-bit keys: a radix sort.)
    order = np.argsort(events.range, kind="stable")
    kind, index, row = events.kind[order], events.range[order], events.row[order]
    is_begin = kind == _KINDS[BEGIN]
    paired = np.zeros(len(order), dtype=bool)
    if len(order):
        paired[:-1] = is_begin[:-1] & (kind[1:] == _KINDS[END]) & (index[1:] == index[:-1]) & (row[1:] == row[:-1])
    at = np.flatnonzero(is_begin)
    begin_event = order[at]
    whole = paired[at]
    end_event = order[np.minimum(at + 1, len(order) - 1)] if len(order) else at
    # back into the order of CTA, group and time
    end_of = np.full(len(events.kind), -1, dtype=np.int64)
    end_of[begin_event] = np.where(whole, end_event, -1)
    begin_event = np.flatnonzero(events.kind == _KINDS[BEGIN])
    end_event = end_of[begin_event]
    cut = end_event < 0
    start = events.time[begin_event]
    end = events.time[end_event]  # -1 reads the last event; replaced where cut
    row = events.row[begin_event]
    cta = (row // groups).astype(np.int32) if groups > 1 else row.astype(np.int32)
    if cut.any():
        end = np.where(cut, _cut_end(events, rows, ctas)[row], end)
    ranges = events.range[begin_event]
    columns = _common_columns(cta, ranges, table)
    start_ns = axis.nanoseconds(cta, start)
    payload, payload_kind = _payloads(events, begin_event, ranges, table)
    columns |= {
        "start": start,
        "duration": end - start,
        "payload": payload,
        "payload_kind": payload_kind,
        "depth": np.array([r.depth for r in table.ranges], dtype=np.int16)[ranges],
        "start_ns": start_ns,
        "duration_ns": (end - start) * axis.ns_per_cycle[cta],
        "cut": cut,
        "site": ranges,
    }
    return Table(columns, _vocabularies(table))


def _cut_end(events: _Events, rows: list[_Rows], ctas: _Ctas) -> np.ndarray:
    """Where a range that has no end is cut, a row: at the row's last event if it overflowed, else (the thread
    returned inside the range) at the row's end."""
    flat = events.per_row.reshape(-1)
    last = np.cumsum(flat) - 1
    last_time = np.where(flat > 0, events.time[np.maximum(last, 0)] if len(events.time) else 0, 0)
    overflowed = np.stack([r.overflowed for r in rows], axis=1).reshape(-1)
    row_end = np.stack([(r.end - ctas.begin).view(np.int64) for r in rows], axis=1).reshape(-1)
    return np.where(overflowed, last_time, row_end)


def _instants(events: _Events, table: SiteTable, axis: Axis) -> Table:
    at = np.flatnonzero(events.kind == _KINDS[INSTANT])
    cta = (events.row[at] // len(table.groups)).astype(np.int32)
    ranges = events.range[at]
    payload, payload_kind = _payloads(events, at, ranges, table)
    columns = _common_columns(cta, ranges, table)
    columns |= {
        "time": events.time[at],
        "payload": payload,
        "payload_kind": payload_kind,
        "time_ns": axis.nanoseconds(cta, events.time[at]),
        "site": ranges,
    }
    return Table(columns, _vocabularies(table))


def _vocabularies(table: SiteTable) -> dict[str, tuple[str, ...]]:
    return {
        "group": tuple(group.name for group in table.groups),
        "lane": tuple(dict.fromkeys(r.lane for r in table.ranges)),
        "name": tuple(dict.fromkeys(r.name for r in table.ranges)),
    }


def _common_columns(cta: np.ndarray, ranges: np.ndarray, table: SiteTable) -> dict[str, np.ndarray]:
    texts = _vocabularies(table)
    lane = np.array([texts["lane"].index(r.lane) for r in table.ranges], dtype=np.uint16)
    name_at = {name: at for at, name in enumerate(texts["name"])}
    name = np.array([name_at[r.name] for r in table.ranges], dtype=np.uint16)
    group = np.array([r.group for r in table.ranges], dtype=np.uint16)
    return {"cta": cta, "group": group[ranges], "lane": lane[ranges], "name": name[ranges]}


def _payloads(
    events: _Events, at: np.ndarray, ranges: np.ndarray, table: SiteTable
) -> tuple[np.ndarray, np.ndarray]:
    """Payloads as float64, which holds every 32-bit integer and float32 exactly (NaN where there is none), and kinds."""
    kind = np.array([_PAYLOADS[r.payload] for r in table.ranges], dtype=np.uint8)[ranges]
    values = np.full(len(at), np.nan)
    if events.payload is not None and len(at):
        bits = events.payload[at]
        values = np.where(kind == PAYLOAD_INT, bits.view(np.int32), values)
        values = np.where(kind == PAYLOAD_FLOAT, bits.view(np.float32), values)
    return values, kind


def _flows(slices: Table, table: SiteTable, ctas: _Ctas, axis: Axis) -> Table:
    """Pairs the n-th ``src`` of a CTA with its (n + shift)-th ``dst``, for each pair of groups that hold them."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in _FLOW_COLUMNS}
    names, count = slices.vocabulary("name"), len(ctas.finished)
    end = slices["start"] + slices["duration"]
    for edge in table.edges:
        for src_group, src in _occurrences(slices, table, edge.src):
            for dst_group, dst in _occurrences(slices, table, edge.dst):
                src_cta, dst_cta = slices["cta"][src], slices["cta"][dst]
                src_counts, dst_counts = np.bincount(src_cta, minlength=count), np.bincount(dst_cta, minlength=count)
                occurrence = np.arange(len(src)) - np.repeat(np.cumsum(src_counts) - src_counts, src_counts)
                partner = occurrence + edge.shift
                held = (partner >= 0) & (partner < dst_counts[src_cta])
                src_at = src[held]
                dst_at = dst[(np.cumsum(dst_counts) - dst_counts)[src_cta[held]] + partner[held]]
                waiting = slices["start"][dst_at] < end[src_at]
                arrival = np.where(waiting, end[dst_at], slices["start"][dst_at])
                made = len(src_at)
                columns["cta"].append(slices["cta"][src_at])
                columns["src"].append(np.full(made, names.index(edge.src), dtype=np.uint16))
                columns["dst"].append(np.full(made, names.index(edge.dst), dtype=np.uint16))
                columns["src_group"].append(np.full(made, src_group, dtype=np.uint16))
                columns["dst_group"].append(np.full(made, dst_group, dtype=np.uint16))
                columns["src_slice"].append(src_at)
                columns["dst_slice"].append(dst_at)
                columns["occurrence"].append(occurrence[held])
                columns["start"].append(end[src_at])
                columns["end"].append(arrival)
    joined = {
        name: np.concatenate(parts) if parts else np.empty(0, dtype=_FLOW_COLUMNS[name])
        for name, parts in columns.items()
    }
    joined["start_ns"] = axis.nanoseconds(joined["cta"], joined["start"])
    joined["end_ns"] = axis.nanoseconds(joined["cta"], joined["end"])
    groups = slices.vocabulary("group")
    return Table(joined, {"src": names, "dst": names, "src_group": groups, "dst_group": groups})


_FLOW_COLUMNS: dict[str, Any] = {
    "cta": np.int32, "src": np.uint16, "dst": np.uint16, "src_group": np.uint16, "dst_group": np.uint16,
    "src_slice": np.int64, "dst_slice": np.int64, "occurrence": np.int64, "start": np.int64, "end": np.int64,
}  # fmt: skip


def _occurrences(slices: Table, table: SiteTable, name: str) -> list[tuple[int, np.ndarray]]:
    """For each group that has a range of that name: the group, and the positions of its slices by CTA and start."""
    found = []
    for group in sorted({r.group for r in table.ranges if r.name == name and not r.instant}):
        wanted = np.array([r.name == name and r.group == group and not r.instant for r in table.ranges])
        found.append((group, np.flatnonzero(wanted[slices["site"]])))
    return found


# ---------------------------------------------------------------------------------------------------------------------
# What was and was not recorded


def _rows_table(events: _Events, rows: list[_Rows], table: SiteTable) -> Table:
    recorded = events.per_row
    dropped = np.maximum(np.stack([r.attempted for r in rows], axis=1) - recorded, 0)
    finished = np.stack([r.finished for r in rows], axis=1)
    ctas, groups = recorded.shape
    return Table(
        {
            "cta": np.repeat(np.arange(ctas, dtype=np.int32), groups),
            "group": np.tile(np.arange(groups, dtype=np.uint16), ctas),
            "recorded": recorded.reshape(-1),
            "dropped": dropped.reshape(-1),
            "finished": finished.reshape(-1),
        },
        {"group": [group.name for group in table.groups]},
    )


def _ctas_table(rows: Table, ctas: _Ctas, grid: tuple[int, int, int], axis: Axis) -> Table:
    number = np.arange(len(ctas.finished), dtype=np.int32)
    cycles = np.where(ctas.finished, (ctas.end - ctas.begin).view(np.int64), 0)
    ghz = np.full(len(number), np.nan)
    np.divide(1.0, axis.ns_per_cycle, out=ghz, where=axis.ns_per_cycle > 0)
    return Table(
        {
            "cta": number,
            "x": number % grid[0],
            "y": number // grid[0] % grid[1],
            "z": number // (grid[0] * grid[1]),
            "sm": ctas.sm,
            "begin_ns": axis.begin_ns,
            "end_ns": axis.begin_ns + cycles * axis.ns_per_cycle,
            "cycles": cycles,
            "ghz": ghz,
            "recorded": rows["recorded"].reshape(len(number), -1).sum(axis=1),
            "dropped": rows["dropped"].reshape(len(number), -1).sum(axis=1),
            "finished": ctas.finished,
        }
    )


def _never_fired(events: _Events, rows: list[_Rows], table: SiteTable, ctas: _Ctas) -> tuple[str, ...]:
    """Markers without a single event, in launches of which nothing is missing."""
    if not ctas.finished.all() or any(r.overflowed.any() for r in rows):
        return ()
    fired = np.bincount(events.range, minlength=len(table.ranges)) > 0
    return tuple(
        f"{'record' if r.instant else 'range'} {r.name!r} at {r.where}" for r, seen in zip(table.ranges, fired) if not seen
    )

