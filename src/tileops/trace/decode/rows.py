"""The rows of a launch: what their headers say, checked, and which CTAs' lines are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import TraceError
from ..sites import SiteTable
from ..slots import (
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

# A launch lasts less than this, see slots.py.
_LONGEST = 1 << (SITE_SHIFT - 1)
# A clock slower than 1 MHz is not believed; a row shorter than the second figure (cycles) says nothing of its clock.
_SLOWEST_NS, _SHORT = 1000, 1000
_LAST_SM = 0xFFFF


@dataclass
class Rows:
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
    def read(cls, lines: np.ndarray, table: SiteTable) -> Rows:
        """Reads the headers of all lines, and refuses what no launch leaves."""
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

    def of_lines(self, chosen: Any) -> Rows:
        """The rows of some of the lines."""
        return replace(self, **{n: value[chosen] for n, value in vars(self).items() if isinstance(value, np.ndarray)})

    def blocks(self, records: int) -> Iterator[Rows]:
        """The CTAs in order, in blocks of about so many records."""
        block = np.cumsum(self.stored.sum(axis=1)) // records
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


def _first_of_each_sm(rows: Rows) -> np.ndarray:
    """The lines of the CTAs that began first on their SM, in order; those that opened no row are on none."""
    began = np.flatnonzero(rows.sm >= 0)
    by_time = began[np.lexsort((rows.timer[began, 0], rows.sm[began]))]
    return np.sort(by_time[np.unique(rows.sm[by_time], return_index=True)[1]])


def _halves(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high 32 bits, as int64."""
    return (words & np.uint64(0xFFFFFFFF)).view(np.int64), (words >> np.uint64(32)).view(np.int64)
