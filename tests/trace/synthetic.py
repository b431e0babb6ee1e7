"""Timelines of known content, made without a kernel: what the tests of the views look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileops.trace.timeline import PAYLOAD_FLOAT, PAYLOAD_INT, PAYLOAD_NONE, Table, Timeline

META = {
    "kernel": "gemm",
    "device": "NVIDIA H200",
    "target": "cuda",
    "max_events": 512,
    "date": "2025-11-03T14:05:09+00:00",
    "versions": {"tileops": "0.1.0", "tilelang": "0.1.15", "torch": "2.11.0"},
}


class Builder:
    """Collects events one by one and turns them into a Timeline.

    Args:
        grid: extents along x, y and z; every CTA of it is there.
        groups: the groups' names.
        ghz: the clock of every CTA, or a value a CTA.
        cycles: how long each CTA takes at least; it ends with its last event otherwise.
    """

    def __init__(
        self, grid: tuple[int, int, int], groups: Sequence[str], ghz: float | Sequence[float] = 1.75, cycles: int = 0
    ) -> None:
        self.grid, self.groups = grid, tuple(groups)
        self.count = grid[0] * grid[1] * grid[2]
        self.ghz = np.broadcast_to(np.asarray(ghz, dtype=float), self.count).copy()
        self.begin_ns = np.array([32.0 * (cta // 132 * 400 + cta % 7) for cta in range(self.count)])
        self.cycles = np.full(self.count, cycles, dtype=np.int64)
        self.sm = np.arange(self.count) * 37 % 132
        self.unfinished: set[int] = set()
        self.lost: dict[tuple[int, str], int] = {}
        self._slices: list[dict[str, Any]] = []
        self._instants: list[dict[str, Any]] = []
        self._flows: list[dict[str, Any]] = []

    def slice(
        self, cta: int, group: str, lane: str, name: str, start: int, end: int,
        payload: int | float | None = None, depth: int = 0, cut: bool = False,
    ) -> int:  # fmt: skip
        """Adds a range; returns a handle for :meth:`flow`."""
        self._slices.append(
            {"cta": cta, "group": group, "lane": lane, "name": name, "start": start, "duration": end - start,
             "payload": payload, "depth": depth, "cut": cut}
        )  # fmt: skip
        self.cycles[cta] = max(self.cycles[cta], end)
        return len(self._slices) - 1

    def instant(
        self, cta: int, group: str, lane: str, name: str, time: int, payload: int | float | None = None
    ) -> None:
        """Adds a zero-width mark."""
        self._instants.append(
            {"cta": cta, "group": group, "lane": lane, "name": name, "time": time, "payload": payload}
        )
        self.cycles[cta] = max(self.cycles[cta], time)

    def flow(self, src: int, dst: int, occurrence: int) -> None:
        """Adds an arrow between two ranges of one CTA."""
        self._flows.append({"src": src, "dst": dst, "occurrence": occurrence})

    def build(self, **fields: Any) -> Timeline:
        """The Timeline; ``fields`` go to its constructor."""
        rank = {group: at for at, group in enumerate(self.groups)}
        order = sorted(
            range(len(self._slices)),
            key=lambda at: (self._slices[at]["cta"], rank[self._slices[at]["group"]], self._slices[at]["start"],
                            self._slices[at]["depth"]),
        )  # fmt: skip
        position = {handle: at for at, handle in enumerate(order)}
        slices = [self._slices[handle] for handle in order]
        events = slices + self._instants
        names, lanes = _vocabulary(events, "name"), _vocabulary(events, "lane")
        sites: dict[tuple[str, ...], int] = {}
        for event in events:
            sites.setdefault((event["group"], event["lane"], event["name"], str(event.get("depth"))), len(sites))

        def common(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
            kinds = [
                PAYLOAD_NONE if row["payload"] is None
                else PAYLOAD_FLOAT if isinstance(row["payload"], float) else PAYLOAD_INT
                for row in rows
            ]  # fmt: skip
            values = [np.nan if row["payload"] is None else float(np.float32(row["payload"]))
                      if isinstance(row["payload"], float) else row["payload"] for row in rows]  # fmt: skip
            keys = [(row["group"], row["lane"], row["name"], str(row.get("depth"))) for row in rows]
            return {
                "cta": _ints([row["cta"] for row in rows]),
                "group": _ints([rank[row["group"]] for row in rows]),
                "lane": _ints([lanes.index(row["lane"]) for row in rows]),
                "name": _ints([names.index(row["name"]) for row in rows]),
                "payload": np.array(values, dtype=float),
                "payload_kind": np.array(kinds, dtype=np.uint8),
                "site": _ints([sites[key] for key in keys]),
            }

        texts = {"group": self.groups, "lane": lanes, "name": names}
        columns = common(slices)
        start, duration = _ints([row["start"] for row in slices]), _ints([row["duration"] for row in slices])
        columns |= {
            "start": start,
            "duration": duration,
            "depth": _ints([row["depth"] for row in slices]),
            "start_ns": self._ns(columns["cta"], start),
            "duration_ns": duration / self.ghz[columns["cta"]],
            "cut": np.array([row["cut"] for row in slices], dtype=bool),
        }
        marks = common(self._instants)
        marks["time"] = _ints([row["time"] for row in self._instants])
        marks["time_ns"] = self._ns(marks["cta"], marks["time"])
        return Timeline(
            slices=Table(columns, texts),
            instants=Table(marks, texts),
            flows=self._flow_table(columns, position, names),
            rows=self._row_table(columns, marks),
            ctas=self._cta_table(columns, marks),
            grid=self.grid,
            groups=self.groups,
            **{"meta": dict(META), "axis_error_ns": 21.5, **fields},
        )

    def _ns(self, cta: np.ndarray, cycles: np.ndarray) -> np.ndarray:
        return self.begin_ns[cta] + cycles / self.ghz[cta]

    def _flow_table(self, columns: dict[str, np.ndarray], position: dict[int, int], names: Sequence[str]) -> Table:
        src = _ints([position[flow["src"]] for flow in self._flows])
        dst = _ints([position[flow["dst"]] for flow in self._flows])
        end = columns["start"] + columns["duration"]
        start = end[src]
        arrival = np.where(columns["start"][dst] < start, end[dst], columns["start"][dst])
        cta = columns["cta"][src]
        return Table(
            {
                "cta": cta, "src": columns["name"][src], "dst": columns["name"][dst],
                "src_group": columns["group"][src], "dst_group": columns["group"][dst],
                "src_slice": src, "dst_slice": dst,
                "occurrence": _ints([flow["occurrence"] for flow in self._flows]),
                "start": start, "end": arrival, "start_ns": self._ns(cta, start), "end_ns": self._ns(cta, arrival),
            },
            {"src": names, "dst": names, "src_group": self.groups, "dst_group": self.groups},
        )  # fmt: skip

    def _row_table(self, columns: dict[str, np.ndarray], marks: dict[str, np.ndarray]) -> Table:
        groups = len(self.groups)
        events = 2 * np.bincount(columns["cta"] * groups + columns["group"], minlength=self.count * groups)
        events -= np.bincount((columns["cta"] * groups + columns["group"])[columns["cut"]], minlength=len(events))
        events += np.bincount(marks["cta"] * groups + marks["group"], minlength=len(events))
        cta = np.repeat(np.arange(self.count), groups)
        group = np.tile(np.arange(groups), self.count)
        lost = [self.lost.get((int(c), self.groups[g]), 0) for c, g in zip(cta, group)]
        return Table(
            {
                "cta": cta, "group": group, "recorded": events, "dropped": _ints(lost),
                "finished": ~np.isin(cta, list(self.unfinished)),
            },
            {"group": self.groups},
        )  # fmt: skip

    def _cta_table(self, columns: dict[str, np.ndarray], marks: dict[str, np.ndarray]) -> Table:
        rows = self._row_table(columns, marks)
        number = np.arange(self.count)
        finished = ~np.isin(number, list(self.unfinished))
        cycles = np.where(finished, self.cycles, 0)
        ghz = np.where(finished, self.ghz, np.nan)
        begin_ns = np.where(finished, self.begin_ns, np.nan)
        return Table(
            {
                "cta": number,
                "x": number % self.grid[0],
                "y": number // self.grid[0] % self.grid[1],
                "z": number // (self.grid[0] * self.grid[1]),
                "sm": np.where(finished, self.sm, -1),
                "begin_ns": begin_ns,
                "end_ns": begin_ns + cycles / ghz,
                "cycles": cycles,
                "ghz": ghz,
                "recorded": rows["recorded"].reshape(self.count, -1).sum(axis=1),
                "dropped": rows["dropped"].reshape(self.count, -1).sum(axis=1),
                "finished": finished,
            }
        )


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _vocabulary(rows: list[dict[str, Any]], column: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[column] for row in rows))


def gemm(grid: tuple[int, int, int] = (4, 2, 1), iterations: int = 60, stages: int = 3, seed: int = 1) -> Timeline:
    """A pipelined GEMM: a producer that fills a ring of stages, a consumer that multiplies, then an epilogue.

    The first ``stages`` fills meet an empty ring; from then on the producer waits for the consumer to release a
    stage. Each CTA has jitter of its own, and a load in 16 is slow, as one that misses the L2 is.
    """
    random = np.random.default_rng(seed)
    count = grid[0] * grid[1] * grid[2]
    builder = Builder(grid, ("producer", "consumer"), ghz=1.755 + 0.01 * random.random(count))
    for cta in range(count):
        slow = 1 + 0.25 * (cta % 11 == 5)
        landed, freed, mma_start = [0] * iterations, [0] * iterations, 0
        arrives, releases, acquires = [0] * iterations, [0] * iterations, [0] * iterations
        now, ready = 420 + int(random.integers(80)), 610
        # The two sides depend on each other across the ring, so they are stepped together.
        builder.instant(cta, "producer", "tma", "prefetch", now - 60)
        builder.slice(cta, "consumer", "main", "prologue", 260, ready)
        for k in range(iterations):
            begin = now
            now = max(now + 28, freed[k - stages] + 24 if k >= stages else 0)
            acquires[k] = builder.slice(cta, "producer", "barrier", "acquire", begin, now, payload=k)
            issue = int(random.integers(64, 88))
            builder.slice(cta, "producer", "tma", "tma", now + 4, now + issue, payload=k)
            now += issue + 6
            arrives[k] = builder.slice(cta, "producer", "barrier", "arrive", now, now + 22, payload=k)
            now += 26
            latency = int(random.integers(430, 520) * slow) + (700 if random.integers(16) == 0 else 0)
            landed[k] = now + latency
            begin, ready = ready, max(ready + 26, landed[k])
            wait = builder.slice(cta, "consumer", "barrier", "wait", begin, ready, payload=k)
            builder.flow(arrives[k], wait, k)
            mma_start = ready + 6
            ready = mma_start + int(random.integers(500, 524))
            builder.slice(cta, "consumer", "wgmma", "mma", mma_start, ready, payload=k)
            releases[k] = builder.slice(cta, "consumer", "barrier", "release", ready + 2, ready + 20, payload=k)
            freed[k] = ready + 20
            ready += 24
            if k >= stages:
                builder.flow(releases[k - stages], acquires[k], k - stages)
        builder.slice(cta, "consumer", "main", "epilogue", ready + 40, ready + 2400)
        builder.slice(cta, "consumer", "main", "convert", ready + 60, ready + 900, depth=1)
        builder.slice(cta, "consumer", "main", "store", ready + 910, ready + 2380, depth=1)
        builder.cycles[cta] = ready + 2480
    return builder.build()


# Names that would run, break the page or read as something else if they were ever taken for more than text.
HOSTILE = (
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "<!--<script>",
    "<b>bold</b> &amp; &lt;i&gt;",
    "%{x} %{customdata} {{block}}",
    "$\\alpha$ \\u003c 'single' \"double\" `tick` ${window.hacked=1}",
    "数据 مرحبا 🚀 e\u0301",
    "line\nbreak\u2028and\u2029tab\t",
    "\u202eright to left",
    "",
    "a name that goes on and on for much longer than any label, row or table could have room for " * 2,
)


def hostile() -> Timeline:
    """Every hostile name as a range's, a lane's, a group's, an instant's and the kernel's."""
    builder = Builder((1, 1, 1), HOSTILE)
    previous = None
    for at, name in enumerate(HOSTILE):
        lane = HOSTILE[-1 - at]
        handle = builder.slice(0, name, lane, name, 100 + 400 * at, 480 + 400 * at, payload=-at)
        builder.instant(0, name, lane, name, 150 + 400 * at, payload=0.1)
        if previous is not None:
            builder.flow(previous, handle, at)
        previous = handle
    meta = {"kernel": HOSTILE[1], "device": HOSTILE[0], HOSTILE[2]: HOSTILE[3], "versions": {HOSTILE[0]: HOSTILE[1]}}
    return builder.build(meta=meta, never_fired=HOSTILE)


def troubled() -> Timeline:
    """Six CTAs: a sound one, one with a full row and cut ranges, two unfinished, one without a range, one with a single
    instant and a range of no length.
    """
    builder = Builder((3, 2, 1), ("producer", "consumer"), cycles=2000)
    for cta in (0, 1):
        for k in range(4):
            load = builder.slice(cta, "producer", "tma", "tma", 100 + 400 * k, 300 + 400 * k, payload=k)
            wait = builder.slice(cta, "consumer", "barrier", "wait", 50 + 400 * k, 340 + 400 * k)
            builder.flow(load, wait, k)
    builder.slice(1, "producer", "main", "tile", 90, 1710, cut=True)
    builder.slice(1, "producer", "tma", "tma", 1700, 1710, payload=4, cut=True)
    builder.lost[1, "producer"] = 7
    builder.unfinished |= {2, 3}
    builder.instant(5, "consumer", "main", "mark", 700, payload=2.5)
    builder.slice(5, "consumer", "main", "nothing", 900, 900)
    return builder.build(never_fired=("range 'tail' at kernels/gemm.py:41", "record 'hit' at kernels/gemm.py:44"))


def empty() -> Timeline:
    """A launch of two CTAs in which nothing was recorded."""
    return Builder((2, 1, 1), ("main",), cycles=500).build()


def nested(depth: int = 4) -> Timeline:
    """Ranges inside ranges on one lane, and instants on it, in a grid of three dimensions."""
    builder = Builder((2, 2, 2), ("main",))
    for cta in range(builder.count):
        for level in range(depth):
            builder.slice(
                cta, "main", "main", f"level {level}", 10 + 100 * level, 2000 - 100 * level, level, depth=level
            )
        for time in (500, 900, 1300):
            builder.instant(cta, "main", "main", "tick", time)
    return builder.build()


def waves(seed: int = 3) -> Timeline:
    """Forty CTAs on SMs 0 to 6 but 4, two at a time on each, the next as soon as one is done. CTA 17 takes four times
    as long as the others, CTA 8 lost events and has a range cut, CTAs 5 and 30 did not finish.
    """
    random = np.random.default_rng(seed)
    builder = Builder((5, 8, 1), ("main",), ghz=1.7 + 0.05 * random.random(40))
    free = {(sm, place): 32.0 * sm for sm in (0, 1, 2, 3, 5, 6) for place in range(2)}
    builder.unfinished |= {5, 30}
    for cta in range(40):
        place = min(free, key=lambda key: free[key])
        builder.sm[cta], builder.begin_ns[cta] = place[0], free[place]
        now = 100
        for k in range(4):
            for name, mean in (("load", 300), ("mma", 700 - 12 * cta)):
                took = int(mean * (4 if cta == 17 else 1) * (0.9 + 0.2 * random.random()))
                builder.slice(cta, "main", "main", name, now, now + took, cut=cta == 8 and k == 3 and name == "load")
                now += took
        builder.cycles[cta] = now + int(random.integers(50, 400))
        free[place] += builder.cycles[cta] / builder.ghz[cta] + 64
    builder.lost[8, "main"] = 3
    return builder.build()


def labelled() -> Timeline:
    """One CTA with room for labels: payloads of either kind and none, a range of no length, one cut, an instant."""
    builder = Builder((1, 1, 1), ("main",), cycles=10_000)
    builder.slice(0, "main", "one", "whole", 100, 2100, payload=-42)
    builder.slice(0, "main", "one", "real", 2200, 4200, payload=0.5)
    builder.slice(0, "main", "one", "plain", 4300, 6300)
    builder.slice(0, "main", "two", "point", 5000, 5000)
    builder.slice(0, "main", "two", "torn", 7000, 9000, payload=7, cut=True)
    builder.instant(0, "main", "two", "tick", 3000)
    return builder.build()
