"""A block of CTAs, from its rows to its part of the Timeline's columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..slots import COUNT_LIMIT
from .events import Events
from .flows import flows
from .pairing import end_records, without_orphans
from .records import Records
from .rows import Rows
from .site_arrays import KINDS, PAYLOAD_TYPES, Sites
from .times import Times


@dataclass
class Block:
    """The decoded events of some CTAs, as columns of the Timeline's tables."""

    slices: dict[str, np.ndarray]
    instants: dict[str, np.ndarray]
    flows: dict[str, np.ndarray]
    recorded: np.ndarray  # (CTAs, groups) events

    @classmethod
    def decode(cls, rows: Rows, sites: Sites, first_slice: int, cost: np.ndarray | None) -> Block:
        """Decodes a block of CTAs; ``first_slice`` is the Timeline's position of its first slice."""
        records = Records.read(rows, sites)
        begins, ends, instants = (Events.of(kind, records, sites) for kind in KINDS)
        orphans = np.zeros(rows.closed.size, dtype=np.int64)
        if rows.table.keep_last and rows.lost.any():
            ends, orphans = without_orphans(begins, ends, rows)
        recorded = (begins.per_row + ends.per_row + instants.per_row).reshape(rows.closed.shape)
        missing = rows.attempted - recorded - orphans.reshape(recorded.shape)
        saturated = (rows.lost > 0) & (rows.attempted == COUNT_LIMIT)
        rows.refuse(
            ((missing < rows.lost) & ~saturated) | (missing > rows.lost * sites.most),
            "its records do not hold the events that it counts",
        )

        times = Times.of(records, (begins, ends, instants), cost)
        slices = _spans(begins, ends, records, times, rows)
        slices |= _codes(begins, records, rows, sites)
        marks = {"time": times.instant, **_codes(instants, records, rows, sites)}
        return cls(slices, marks, flows(begins, slices["cut"], rows, sites, first_slice), recorded)


def _spans(begins: Events, ends: Events, records: Records, times: Times, rows: Rows) -> dict[str, np.ndarray]:
    """Start and duration of every slice, and whether it is cut.

    A range without an end is cut at its row's last record if the row lost its later ones, else (the thread returned
    inside the range) at the row's end.
    """
    end_record = end_records(begins, ends, rows)
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


def _codes(events: Events, records: Records, rows: Rows, sites: Sites) -> dict[str, np.ndarray]:
    """CTA, site and payload. A payload is kept as float64, which holds every 32-bit integer and float32 exactly."""
    columns: dict[str, np.ndarray] = {
        "cta": np.repeat(rows.number, rows.per_cta(events.per_row)),
        "site": events.range.astype(np.uint16),
    }
    if records.payload is not None:
        bits, type_of = records.payload.take(events.record), sites.payload_type.take(events.range)
        payload = np.full(len(bits), np.nan)
        for number, dtype in enumerate(PAYLOAD_TYPES.values()):
            if (sites.payload_type == number).any():
                np.copyto(payload, bits.view(dtype), where=type_of == number)
        columns["payload"] = payload
    return columns
