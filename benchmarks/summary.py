"""What the statistics of ten million events take, on the host alone.

    python benchmarks/summary.py

The events are those of `decode.py`, in ten times as many CTAs. Time is that of all tables of `timeline.summary()`, and
that of `timeline.findings()`, each from a Timeline as decoded. Memory is what was allocated beyond it at the peak, by
tracemalloc, next to what the Timeline takes itself. The baseline makes the table of ranges alone, as one would write it
with NumPy: a mask a range.
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from decode import CTAS, gemm_slots, gemm_table, seconds, show

from tileops.trace import Table, Timeline
from tileops.trace.decode import decode_lines
from tileops.trace.sites import SiteTable
from tileops.trace.slots import HEADER_WORDS, WORD_BEGIN, WORD_BEGIN_NS, WORD_END, WORD_END_NS, WORD_GRID_XY

LAUNCHES = 10  # of 1,024 CTAs and a million events, one behind the other
APART = 600_000  # cycles
GHZ = 1.755
TABLES = (
    "ranges",
    "ctas",
    "sms",
    "load",
    "iterations",
    "phases",
    "lanes",
    "lane_overlaps",
    "group_overlaps",
    "handoffs",
)


def many_slots(table: SiteTable) -> np.ndarray:
    """The slots of one launch of ``LAUNCHES`` times as many CTAs."""
    lines = np.tile(gemm_slots(table), (LAUNCHES, 1))
    later = np.repeat(np.arange(LAUNCHES, dtype=np.uint64), CTAS)[:, None]
    cycles, ns = later * np.uint64(APART), later * np.uint64(APART / GHZ // 32 * 32)
    for group in table.groups:
        row = lines[:, group.layout.offset : group.layout.end]
        row[:, [WORD_BEGIN, WORD_END]] += cycles
        row[:, [WORD_BEGIN_NS, WORD_END_NS]] += ns
        row[:, WORD_GRID_XY] = 32 | (len(lines) // 32) << 32
        row[:, HEADER_WORDS :: group.layout.record_words] += cycles
    return lines


def everything(timeline: Timeline) -> None:
    """Makes all tables."""
    summary = timeline.summary()
    for table in TABLES:
        getattr(summary, table)


def naive_ranges(timeline: Timeline) -> list[tuple[Any, ...]]:
    """The table of ranges with a mask for each group, lane and name."""
    slices = timeline.slices
    cycles = timeline.ctas.cycles.sum()
    rows = []
    for group in range(len(slices.vocabulary("group"))):
        for lane in range(len(slices.vocabulary("lane"))):
            for name in range(len(slices.vocabulary("name"))):
                own = (slices.codes("group") == group) & (slices.codes("lane") == lane) & ~slices.cut
                took = slices.duration[own & (slices.codes("name") == name)]
                if len(took):
                    spread = np.percentile(took, [0, 50, 95, 99, 100])
                    rows.append((group, lane, name, len(took), took.sum(), took.mean(), *spread, took.sum() / cycles))
    return rows


def peak(function: Callable[[], Any]) -> int:
    """Bytes allocated beyond what was there, at most, while a function ran."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    function()
    return tracemalloc.get_traced_memory()[1] - before


def held(table: Table) -> int:
    """Bytes of the columns that a table holds, without those that are made on demand."""
    return sum(column.nbytes for column in table._columns.values() if not callable(column))


def measure(what: str, table: SiteTable, repeats: int) -> None:
    """Prints the figures of one kernel."""
    lines = many_slots(table)
    fresh = decode_lines(lines, table)
    events = fresh.recorded
    print(f"{what}: {events:,} events, {len(fresh.slices):,} slices, {len(fresh.flows):,} flows")
    taken, used = [], []
    for _ in range(repeats):
        timeline = decode_lines(lines, table)  # none of its columns has been made on demand
        begin, begin_used = time.perf_counter(), time.process_time()
        everything(timeline)
        taken.append(time.perf_counter() - begin)
        used.append(time.process_time() - begin_used)
    show("all tables", events, taken)
    show("all tables, the processor's time", events, used)
    for name in TABLES:
        summary = decode_lines(lines, table).summary()
        begin = time.perf_counter()
        getattr(summary, name)
        print(f"    {name + ', asked for alone':36} {(time.perf_counter() - begin) * 1e3:9.1f} ms")
    taken = []
    for _ in range(repeats):
        timeline = decode_lines(lines, table)
        begin = time.perf_counter()
        timeline.findings()
        taken.append(time.perf_counter() - begin)
    show("findings", events, taken)
    show("baseline: masks, ranges alone", events, seconds(lambda: naive_ranges(fresh), max(repeats // 2, 2)))

    tracemalloc.start()
    timeline = decode_lines(lines, table)
    own = sum(held(part) for part in (timeline.slices, timeline.instants, timeline.flows, timeline.rows, timeline.ctas))
    more = peak(lambda: everything(timeline))
    print(f"  {'memory':38} {own / 1e6:7.1f} MB the Timeline, {more / 1e6:.1f} MB more at the peak")
    timeline = decode_lines(lines, table)
    print(f"  {'baseline':38} {'':10} {peak(lambda: naive_ranges(timeline)) / 1e6:.1f} MB more at the peak\n")
    tracemalloc.stop()


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    print(f"{os.cpu_count()} cores; medians of {repeats} repeats (in parentheses: the middle 80%)\n")
    measure("GEMM", gemm_table(), repeats)
    measure("GEMM with int32 payloads", gemm_table(payload="i"), repeats)
    measure("GEMM with nested ranges", gemm_table(nested=True), repeats)


if __name__ == "__main__":
    main()
