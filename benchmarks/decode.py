"""Events a second from a slots buffer to a Timeline, on the host alone.

    python benchmarks/decode.py

The buffer is that of a warp-specialized GEMM: 1,024 CTAs, a producer and a consumer, 122 iterations of four events
each, a million events in all, 0.98 million with a dag edge between them. Beside it stands a per-event Python loop that
decodes the same words, measured on the first CTAs and scaled.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from tileops.trace.decode import decode_lines
from tileops.trace.recording import Recording, fetch
from tileops.trace.sites import BEGIN, END, Edge, Group, Range, SiteTable
from tileops.trace.slots import HEADER_WORDS, SITE_SHIFT, STATE_DONE, layout

CTAS, ITERATIONS, SMS = 1024, 122, 132
LOOP_CTAS = 16  # what the Python loop decodes
CAPACITY = 512  # records; more than any row holds, as with a max_events that was chosen with room


def gemm_table(payload: bool) -> SiteTable:
    """The site table of the specification's GEMM; ``payload`` puts one on each of the loops' first ranges."""
    kind = "i" if payload else ""
    places = layout([payload, payload], CAPACITY)
    ranges = [
        Range("tma", "tma", 0, 0, kind, False, "gemm.py", 31),
        Range("arrive", "barrier", 0, 0, "", False, "gemm.py", 34),
        Range("wait", "barrier", 1, 0, kind, False, "gemm.py", 40),
        Range("mma", "wgmma", 1, 0, "", False, "gemm.py", 42),
        Range("epilogue", "main", 1, 0, "", False, "gemm.py", 44),
    ]
    sites = [[(BEGIN, 0)], [(END, 0), (BEGIN, 1)], [(END, 1)], [(BEGIN, 2)], [(END, 2), (BEGIN, 3)], [(END, 3)],
             [(BEGIN, 4)], [(END, 4)]]  # fmt: skip
    return SiteTable(
        kernel="main",
        target="cuda",
        max_events=CAPACITY,
        groups=(Group("producer", 0, places[0]), Group("consumer", 128, places[1])),
        ranges=tuple(ranges),
        sites=tuple(tuple(site) for site in sites),
        edges=(Edge("arrive", "wait", 0),),
    )


def gemm_lines(table: SiteTable, seed: int = 0) -> np.ndarray:
    """Slots of one launch: (CTAs, words), with garbage wherever the device would not have written."""
    random = np.random.default_rng(seed)
    lines = random.integers(0, 1 << 64, (CTAS, table.line_words), dtype=np.uint64)
    sm = np.arange(CTAS) % SMS
    wave = np.arange(CTAS) // SMS
    boot = random.integers(1 << 40, 1 << 41, SMS)[sm]
    start = wave * 60_000 + random.integers(0, 800, CTAS)
    loops = [np.tile([0, 1, 2], ITERATIONS), np.concatenate([np.tile([3, 4, 5], ITERATIONS), [6, 7]])]
    steps = [[200, 90, 40], [60, 180, 80]]
    for group, sites in enumerate(loops):
        place = table.groups[group].layout
        mean = np.resize(steps[group], len(sites))
        # Durations scatter by a few dozen cycles, which is what limits how small a recording can get.
        taken = np.maximum(16, random.normal(mean, mean / 4, (CTAS, len(sites)))).astype(np.int64)
        clock = boot[:, None] + start[:, None] + 300 + np.cumsum(taken, axis=1)
        begin, end = boot + start, clock[:, -1] + 200
        sizes = np.array([len(site) for site in table.sites])
        count = len(sites)
        row = lines[:, place.offset : place.offset + place.row_words]
        row[:, 0] = STATE_DONE | count << 32
        row[:, 1] = sizes[sites].sum() | sm << 32
        row[:, 2], row[:, 3] = begin, _timer(begin - boot)
        row[:, 4], row[:, 5] = end, _timer(end - boot)
        row[:, 6], row[:, 7] = 32 | CTAS // 32 << 32, 1
        records = row[:, HEADER_WORDS : HEADER_WORDS + count * place.record_words]
        records[:, :: place.record_words] = clock.astype(np.uint64) + (sites.astype(np.uint64) << SITE_SHIFT)
        if place.record_words == 2:
            records[:, 1::2] = np.arange(count) // 3
    return lines


def _timer(cycles: np.ndarray) -> np.ndarray:
    return (1 << 60) + (cycles / 1.755).astype(np.int64) // 32 * 32


def decode_in_a_loop(lines: np.ndarray, table: SiteTable) -> int:
    """Pairs begins with ends one event at a time; returns the number of events."""
    events = 0
    slices = []
    for cta, line in enumerate(lines.tolist()):
        for group in table.groups:
            place = group.layout
            count, begin = line[place.offset] >> 32, line[place.offset + 2]
            opened: dict[int, int] = {}
            for record in range(count):
                word = line[place.offset + HEADER_WORDS + record * place.record_words] - begin
                for kind, index in table.sites[(word >> SITE_SHIFT) & 0xFFFF]:
                    events += 1
                    time_in_cta = word & ((1 << SITE_SHIFT) - 1)
                    if kind == BEGIN:
                        opened[index] = time_in_cta
                    else:
                        start = opened.pop(index)
                        slices.append((cta, table.ranges[index].name, start, time_in_cta - start))
    return events


def seconds(run: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each of ``repeats`` runs, after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="runs a figure (default %(default)s)")
    options = parser.parse_args()
    for payload in (False, True):
        table = gemm_table(payload)
        lines = gemm_lines(table)
        events = decode_lines(lines, table).recorded
        name = "with payloads" if payload else "without payloads"
        times = seconds(lambda: decode_lines(lines, table), options.repeats)  # noqa: B023
        rate = events / statistics.median(times) / 1e6
        print(f"{name}: {events:,} events, {rate:.1f} million a second ({events / max(times) / 1e6:.1f} to "
              f"{events / min(times) / 1e6:.1f})", flush=True)  # fmt: skip
        some = lines[:LOOP_CTAS]
        begin = time.perf_counter()
        looped = decode_in_a_loop(some, table)
        print(f"  a Python loop over events: {looped / (time.perf_counter() - begin) / 1e6:.2f} million a second")
        slots = torch.from_numpy(lines.view(np.int64))
        times = seconds(lambda: fetch(slots, table, {}).decode(), options.repeats)  # noqa: B023
        print(f"  fetched from a tensor first: {events / statistics.median(times) / 1e6:.1f} million a second")
        with tempfile.TemporaryDirectory() as folder:
            path = Recording(lines, table, {}).save(Path(folder) / "recording.tltrace")
            size = path.stat().st_size
        print(f"  as a file: {size:,} bytes, {size / events:.2f} an event, 1/{lines.nbytes / size:.0f} of the buffer")


if __name__ == "__main__":
    main()
