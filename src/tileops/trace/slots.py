"""The layout of the ``slots`` buffer: what the device writes and the decoder reads.

``slots`` has one line a CTA, in words of 64 bits. A line holds one row a group: a header of 8 words, then records.

A record is one word, ``clock + (site << 48)``, modulo 2**64: one addition on the device, and ``record - begin`` gives
the site in its top 16 bits and the cycles since the row's begin below, for as long as a launch lasts less than 2**47
cycles (19 hours at 2 GHz), whatever the clock stood at. A group with payloads takes two words a record, so that clock
and payload leave in a single 16-byte store (benchmarks/markers.py measures both kinds of record).

The device side is ``device/recorder.cuh`` and ``device/recorder_cpu.h``; both get every number from here as arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

WORD_BYTES = 8
HEADER_WORDS = 8
SITE_SHIFT = 48
MAX_SITES = 1 << 16

# Word 0 of a header, low half: a row that was opened, and one that was closed. A stale or foreign word is neither.
STATE_OPEN = 0x54524F50
STATE_DONE = 0x5452444E
# The device's counter of records stops here instead of wrapping to a value that would pass the bounds check again.
COUNT_LIMIT = 0xFFFFFFF0

# The recorder checks once for a batch of records whether its first one fits; so many others may follow it.
SPARE_RECORDS = 3

# Header words: 0 state | records << 32, 1 events | SM << 32, 2 clock at begin, 3 timer at begin (ns), 4 clock at end,
# 5 timer at end, 6 grid x | grid y << 32, 7 grid z.
WORD_STATE, WORD_EVENTS, WORD_BEGIN, WORD_BEGIN_NS, WORD_END, WORD_END_NS, WORD_GRID_XY, WORD_GRID_Z = range(8)


@dataclass(frozen=True)
class GroupLayout:
    """Where a group's row lies in a CTA's line.

    Attributes:
        offset: words from the begin of the line to the row.
        capacity: records that the row holds.
        record_words: 1, or 2 where records carry payloads.
    """

    offset: int
    capacity: int
    record_words: int

    @property
    def row_words(self) -> int:
        """Words in the row: the header, the records, and room for what a batch may store past them.

        A multiple of 8, so that every row starts at a 64-byte boundary.
        """
        return HEADER_WORDS + -(-(self.capacity + SPARE_RECORDS) * self.record_words // 8) * 8

    @property
    def end(self) -> int:
        """Words from the begin of the line to the row's end."""
        return self.offset + self.row_words


def layout(payloads: list[bool], capacity: int) -> list[GroupLayout]:
    """The groups' places in a line, in order; the last one's ``end`` is the line's length in words.

    Args:
        payloads: for each group, whether any of its markers has a payload.
        capacity: records that a row holds.
    """
    groups: list[GroupLayout] = []
    offset = 0
    for payload in payloads:
        groups.append(GroupLayout(offset, capacity, 2 if payload else 1))
        offset = groups[-1].end
    return groups
