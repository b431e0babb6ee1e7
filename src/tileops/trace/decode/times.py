"""When events happened: as recorded, or with the recorder's own cost taken out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .events import Events
from .records import Records


@dataclass
class Times:
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
    def of(cls, records: Records, events: tuple[Events, Events, Events], cost: np.ndarray | None) -> Times:
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
