"""Events a second from a slots buffer to a Timeline, on the host alone.

    python benchmarks/decode.py

The buffers are those of a warp-specialized GEMM: 1,024 CTAs, a producer and a consumer of 122 iterations, four events
an iteration in three records, a million events in all. The baseline decodes the same words in a loop over events, on
the first CTAs, scaled.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tileops.trace import Timeline
from tileops.trace.decode import decode_lines
from tileops.trace.recording import Recording, fetch
from tileops.trace.sites import BEGIN, END, Edge, Group, Range, SiteTable
from tileops.trace.slots import HEADER_WORDS, SITE_SHIFT, STATE_DONE, layout

CTAS, ITERATIONS, SMS = 1024, 122, 132
CAPACITY = 512  # records: more than any row holds, as with a max_events that was chosen with room
BASELINE_CTAS = 16
GHZ = 1.755


def gemm_table(payload: str = "", nested: bool = False) -> SiteTable:
    """The site table of the GEMM.

    Args:
        payload: the type of the loop index that each iteration records, or "" for none.
        nested: whether a range stands around each of the consumer's iterations.
    """
    outer = 1 if nested else 0
    ranges = [
        Range("tma", "tma", 0, 0, payload, False, "gemm.py", 31),
        Range("arrive", "barrier", 0, 0, "", False, "gemm.py", 34),
        Range("wait", "barrier", 1, outer, payload, False, "gemm.py", 40),
        Range("mma", "wgmma", 1, 0, "", False, "gemm.py", 42),
        Range("epilogue", "main", 1, 0, "", False, "gemm.py", 44),
        *([Range("iteration", "barrier", 1, 0, "", False, "gemm.py", 39)] if nested else []),
    ]
    around = [(BEGIN, 5)] if nested else [], [(END, 5)] if nested else []
    sites = [
        [(BEGIN, 0)], [(END, 0), (BEGIN, 1)], [(END, 1)],
        [*around[0], (BEGIN, 2)], [(END, 2), (BEGIN, 3)], [(END, 3), *around[1]], [(BEGIN, 4)], [(END, 4)],
    ]  # fmt: skip
    places = layout([payload != "", payload != ""], CAPACITY)
    return SiteTable(
        kernel="gemm",
        target="cuda",
        max_events=CAPACITY,
        groups=(Group("producer", 0, places[0]), Group("consumer", 128, places[1])),
        ranges=tuple(ranges),
        sites=tuple(tuple(site) for site in sites),
        edges=(Edge("arrive", "wait", 0),),
    )


def gemm_slots(table: SiteTable) -> np.ndarray:
    """The slots of one launch, (CTAs, words), with garbage in the words that the device does not write."""
    random = np.random.default_rng(0)
    lines = random.integers(0, 1 << 64, (CTAS, table.line_words), dtype=np.uint64)
    sm, wave = np.arange(CTAS) % SMS, np.arange(CTAS) // SMS
    start = wave * 60_000 + random.integers(0, 800, CTAS)
    counter = random.integers(1 << 40, 1 << 41, SMS)[sm]
    loop = np.tile([0, 1, 2], ITERATIONS), np.append(np.tile([3, 4, 5], ITERATIONS), [6, 7])
    sizes = np.array([len(site) for site in table.sites])
    for group, sites, mean in zip(table.groups, loop, ([200, 90, 40], [60, 180, 80])):
        count, words = len(sites), group.layout.record_words
        # Durations scatter by a quarter: their jitter is what limits how small a recording can get.
        taken = np.resize(mean, count) * random.normal(1, 0.25, (CTAS, count))
        clock = 300 + np.cumsum(np.maximum(16, taken).astype(np.int64), axis=1) + start[:, None]
        end = clock[:, -1] + 200
        row = lines[:, group.layout.offset : group.layout.end]
        row[:, 0], row[:, 1] = STATE_DONE | count << 32, sizes[sites].sum() | sm << 32
        row[:, 2], row[:, 4] = counter + start, counter + end
        row[:, 3], row[:, 5] = ((1 << 60) + (at / GHZ).astype(np.int64) // 32 * 32 for at in (start, end))
        row[:, 6], row[:, 7] = 32 | CTAS // 32 << 32, 1
        records = row[:, HEADER_WORDS : HEADER_WORDS + count * words]
        records[:, ::words] = (counter[:, None] + clock + (sites << SITE_SHIFT)).view(np.uint64)
        if words == 2:
            records[:, 1::2] = np.arange(count) // 3
    return lines


def decode_in_a_loop(lines: np.ndarray, table: SiteTable) -> list[dict[str, Any]]:
    """What decoding would be without whole-column operations: slices as dictionaries, one event after the other."""
    slices = []
    for cta, line in enumerate(lines):
        for group in table.groups:
            row = [int(word) for word in line[group.layout.offset : group.layout.end]]
            running: dict[int, dict[str, Any]] = {}
            for number in range(row[0] >> 32):
                since = row[HEADER_WORDS + number * group.layout.record_words] - row[2]
                for kind, index in table.sites[since >> SITE_SHIFT & 0xFFFF]:
                    time_ = since & ((1 << SITE_SHIFT) - 1)
                    if kind == BEGIN:
                        r = table.ranges[index]
                        running[index] = {
                            "cta": cta,
                            "group": group.name,
                            "name": r.name,
                            "lane": r.lane,
                            "start": time_,
                        }
                        slices.append(running[index])
                    elif kind == END:
                        running.pop(index)["end"] = time_
    return slices


def read_all(timeline: Timeline) -> None:
    """Reads every column, so that those are made that follow from others."""
    for table in (timeline.slices, timeline.instants, timeline.flows, timeline.rows, timeline.ctas):
        for column in table.column_names:
            table.codes(column)


def seconds(function: Callable[[], Any], repeats: int) -> list[float]:
    """How long calls took, the first one apart."""
    function()
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begin)
    return taken


def show(what: str, events: int, taken: list[float]) -> None:
    """Prints a line: medians, and the range of the middle 80%."""
    middle, tenths = statistics.median(taken), statistics.quantiles(taken, n=10)
    print(
        f"  {what:38} {events / middle / 1e6:7.2f} M events/s, {middle * 1e3:7.2f} ms "
        f"({tenths[0] * 1e3:.2f} to {tenths[-1] * 1e3:.2f})"
    )


def measure(what: str, table: SiteTable, repeats: int) -> None:
    """Prints the figures of one kernel."""
    lines = gemm_slots(table)
    slots, some = torch.from_numpy(lines.view(np.int64)), lines[:BASELINE_CTAS]
    timeline = decode_lines(lines, table)
    events = timeline.recorded
    print(f"{what}: {events:,} events, {len(timeline.slices):,} slices, {len(timeline.flows):,} flows")
    show("decoded", events, seconds(lambda: decode_lines(lines, table), repeats))
    show("decoded, every column read", events, seconds(lambda: read_all(decode_lines(lines, table)), repeats))
    show("fetched from the CPU and decoded", events, seconds(lambda: fetch(slots, table, {}).decode(), repeats))
    loop = seconds(lambda: decode_in_a_loop(some, table), max(repeats // 5, 2))
    show("baseline: a Python loop over events", events * BASELINE_CTAS // CTAS, loop)

    recording = fetch(slots, table, {})
    records = int((lines[:, [group.layout.offset for group in table.groups]] >> np.uint64(32)).sum())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gemm.tltrace"
        [saving] = seconds(lambda: recording.save(path), 1)
        [loading] = seconds(lambda: Recording.load(path), 1)
        size = path.stat().st_size
    print(
        f"  {'as a file':38} {size / 1e6:7.2f} MB, {size / records:.2f} bytes a record, 1/{slots.nbytes / size:.0f} "
        f"of slots; saved in {saving:.2f} s, loaded in {loading:.2f} s\n"
    )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=25)
    repeats = parser.parse_args().repeats
    print(f"{os.cpu_count()} cores; medians of {repeats} repeats (in parentheses: the middle 80%)\n")
    measure("GEMM", gemm_table(), repeats)
    measure("GEMM with int32 payloads", gemm_table(payload="i"), repeats)
    measure("GEMM with nested ranges", gemm_table(nested=True), repeats)


if __name__ == "__main__":
    main()
