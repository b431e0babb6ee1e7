"""The events of each kind that records hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .records import Records
from .site_arrays import KINDS, Sites


@dataclass
class Events:
    """All events of one kind, by CTA, group and time."""

    record: np.ndarray  # position in the records
    moment: np.ndarray  # the same; but where what happens within a record matters, it tells the events apart
    range: np.ndarray  # position in SiteTable.ranges
    per_row: np.ndarray  # (CTAs * groups,) how many there are

    @classmethod
    def of(cls, kind: str, records: Records, sites: Sites) -> Events:
        """Picks the events of a kind out of the records."""
        count, first, ranges, turns = sites.count[kind], sites.first[kind], sites.ranges[kind], sites.turns[kind]
        if len(ranges) == 0:
            none = np.empty(0, dtype=np.int64)
            return cls(none, none, none, np.zeros(len(records.start) - 1, dtype=np.int64))
        record = np.flatnonzero((records.facts & (1 << KINDS.index(kind))).astype(bool))
        site = records.site.take(record)
        event = first.take(site)
        if count.max() > 1:
            each = count.take(site)
            record = np.repeat(record, each)
            event = np.repeat(event - np.cumsum(each) + each, each) + np.arange(len(record))
        moment = record * sites.most + turns.take(event) if sites.in_turn else record
        return cls(record, moment, ranges.take(event), np.diff(np.searchsorted(record, records.start)))
