"""The records of a block of CTAs, out of their rows into columns, checked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..slots import HEADER_WORDS, SITE_SHIFT
from .rows import Rows
from .site_arrays import KINDS, Sites


@dataclass
class Records:
    """The records of some CTAs, by CTA, group and time."""

    time: np.ndarray  # int64, cycles since the CTA's begin
    site: np.ndarray  # int64
    facts: np.ndarray  # of the site, see Sites
    payload: np.ndarray | None  # uint32; None if no group has payloads
    start: np.ndarray  # (CTAs * groups + 1,) position of each row's first record

    @classmethod
    def read(cls, rows: Rows, sites: Sites) -> Records:
        """Reads the records that the rows' headers say are there."""
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

    def check(self, rows: Rows) -> None:
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
        foreign = self.facts >> len(KINDS) != np.repeat(group, np.diff(self.start))
        self._refuse(foreign, "it names a site that is not its group's", rows)

    def _refuse(self, bad: np.ndarray, why: str, rows: Rows) -> None:
        if bad.any():
            bad_rows = np.zeros(rows.stored.size, dtype=bool)
            bad_rows[np.searchsorted(self.start, np.flatnonzero(bad), side="right") - 1] = True
            rows.refuse(bad_rows.reshape(rows.stored.shape), why)
