"""The recorder and the decoder, as plain as can be: event by event, in Python's integers.

:func:`random_table` and :func:`random_launch` make up kernels and what their CTAs do, :func:`slots_of` writes the words
that the device would leave, and :func:`decode` reads such words back, one after the other.
"""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tileops.trace.choice import Choice
from tileops.trace.sites import BEGIN, END, INSTANT, Edge, Group, Range, SiteTable
from tileops.trace.slots import COUNT_LIMIT, HEADER_WORDS, STATE_DONE, STATE_OPEN, GroupLayout, layout

WRAP = 1 << 64


class DamageError(Exception):
    """Words that no recorder leaves."""


# What a kernel is ---------------------------------------------------------------------------------------------------


@dataclass
class Program:
    """A group's code: a list of steps.

    Each is ``("site", number)``, ``("work", cycles)``, ``("loop", times, steps)``, or ``("carried", times, steps,
    number)``: a loop at whose end the last and the first of its sites share the record of site ``number``, but for the
    first iteration's begin and the last one's end.
    """

    steps: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass
class Kernel:
    """A site table, and what each group does; ``leaves``: whether its threads may return early."""

    table: SiteTable
    programs: list[Program]
    leaves: bool = True


class _Author:
    """Writes a random kernel: ranges that nest or overlap, instants, loops, markers that share a record."""

    def __init__(self, rand: random.Random):
        self.rand = rand
        self.ranges: list[Range] = []
        self.sites: list[tuple[tuple[str, int], ...]] = []

    def program(self, group: int, size: int) -> Program:
        return Program(self._sequence(group, size, [], top=True))

    def _sequence(self, group: int, size: int, around: list[Range], top: bool = False) -> list[tuple[Any, ...]]:
        """Steps with about ``size`` markers; whatever begins in a sequence ends in it."""
        rand, steps = self.rand, []
        run: list[tuple[str, int]] = []
        open_here: list[int] = []

        def flush() -> None:
            if run:
                self.sites.append(tuple(run))
                steps.append(("site", len(self.sites) - 1))
                run.clear()

        def mark(kind: str, index: int) -> None:
            if not self._may_share(run, [(kind, index)]):
                flush()
            run.append((kind, index))

        for _ in range(size):
            choice = rand.random()
            if choice < 0.35:
                lane = rand.choice(["main", "tma", "wgmma"])
                holding = [*around, *(self.ranges[index] for index in open_here)]
                depth = sum(r.lane == lane for r in holding)
                open_here.append(self._range(group, lane, depth, instant=False))
                mark(BEGIN, open_here[-1])
            elif choice < 0.65 and open_here:
                mark(END, open_here.pop(rand.randrange(len(open_here)) if rand.random() < 0.3 else -1))
            elif choice < 0.75:
                mark(INSTANT, self._range(group, rand.choice(["main", "tma"]), 0, instant=True))
            elif choice < 0.85 and size > 2:
                flush()
                inner = self._sequence(group, size // 2, [*around, *(self.ranges[index] for index in open_here)])
                steps.append(self._loop(rand.randrange(4), inner))
            else:
                flush()
                steps.append(("work", rand.choice([0, 1, 17, 300, 5000])))
        while open_here:
            mark(END, open_here.pop())
            if rand.random() < 0.5:
                flush()
        flush()
        return steps

    def _loop(self, times: int, inner: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        ends_in_sites = len(inner) > 1 and inner[0][0] == inner[-1][0] == "site"
        if not ends_in_sites or times < 2 or self.rand.random() < 0.3:
            return ("loop", times, inner)
        last, first = self.sites[inner[-1][1]], self.sites[inner[0][1]]
        if not self._may_share(last, first):
            return ("loop", times, inner)
        self.sites.append((*last, *first))
        return ("carried", times, inner, len(self.sites) - 1)

    def _may_share(self, run: Sequence[tuple[str, int]], more: Sequence[tuple[str, int]]) -> bool:
        """A record has room for one payload."""
        return sum(kind != END and self.ranges[index].payload != "" for kind, index in (*run, *more)) <= 1

    def _range(self, group: int, lane: str, depth: int, instant: bool) -> int:
        name = self.rand.choice(["load", "wait", "mma", "store", "tile"])
        payload = self.rand.choice(["", "", "i", "u", "f"])
        self.ranges.append(Range(name, lane, group, depth, payload, instant, "kernel.py", 10 + len(self.ranges)))
        return len(self.ranges) - 1


def random_kernel(rand: random.Random, target: str = "cuda", chosen: bool = False) -> Kernel:
    """A kernel of one to three groups, of which all CTAs are recorded, or those of a random choice where ``chosen``."""
    author = _Author(rand)
    groups = rand.randint(1, 3)
    programs = [author.program(group, rand.randint(0, 12)) for group in range(groups)]
    payloads = [any(r.payload for r in author.ranges if r.group == group) for group in range(groups)]
    keep_last = rand.random() < 0.5
    capacity = rand.choice([1, 2, 4, 16, 64, 256] if keep_last else [1, 2, 5, 16, 64, 300])
    # Of a kernel that may leave early, no total is known.
    leaves = rand.random() < 0.3
    for program in programs:
        for index, times in _passes(program.steps, author.sites).items():
            if not leaves and rand.random() < 0.9:
                author.ranges[index] = replace(author.ranges[index], total=times)
    names = sorted({r.name for r in author.ranges if not r.instant})
    edges = [
        Edge(rand.choice(names), rand.choice(names), rand.randint(-2, 2)) for _ in range(rand.randrange(3)) if names
    ]
    table = SiteTable(
        kernel="main",
        target=target,
        max_events=capacity,
        groups=tuple(
            Group(f"group{number}", number * 32, place) for number, place in enumerate(layout(payloads, capacity))
        ),
        ranges=tuple(author.ranges),
        sites=tuple(author.sites),
        edges=tuple(edges),
        keep_last=keep_last,
        choice=_random_choice(rand) if chosen else Choice(),
    )
    return Kernel(table, programs, leaves)


def _passes(steps: list[tuple[Any, ...]], sites: list[tuple[tuple[str, int], ...]]) -> dict[int, int]:
    """How often each range of a program is begun, or each instant is passed, by going all the way."""
    passes: dict[int, int] = defaultdict(int)
    for site in _way(steps):
        for kind, index in sites[site]:
            passes[index] += kind != END
    for step in _all_steps(steps):  # what a loop of no iterations holds
        for kind, index in sites[step[-1]] if step[0] in ("site", "carried") else ():
            passes[index] += 0
    return passes


def _way(steps: list[tuple[Any, ...]]) -> list[int]:
    way: list[int] = []
    for step in steps:
        if step[0] == "site":
            way.append(step[1])
        elif step[0] == "loop":
            way += _way(step[2]) * step[1]
        elif step[0] == "carried":
            body = _way(step[2])
            for left in reversed(range(step[1])):
                way += [*(body[:1] if left == step[1] - 1 else []), *body[1:-1], step[3] if left else body[-1]]
    return way


def _all_steps(steps: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [one for step in steps for one in (step, *(_all_steps(step[2]) if step[0] in ("loop", "carried") else ()))]


def _random_choice(rand: random.Random) -> Choice:
    """A choice that any grid of four CTAs has some of."""
    kind = rand.choice(["list", "stride", "ends"])
    if kind == "list":
        return Choice(kind, (*sorted({rand.randrange(3), *(rand.randrange(14) for _ in range(rand.randrange(6)))}),))
    if kind == "stride":
        start = rand.randrange(3)
        return Choice(kind, (start, rand.choice([-1, start + rand.randint(1, 12)]), rand.randint(1, 4)))
    return Choice(kind, (rand.randint(1, 5), rand.randrange(4)))


def is_chosen(choice: Choice, cta: int, ctas: int) -> bool:
    """Whether a CTA of a grid is recorded."""
    numbers = choice.numbers_of_kind
    if choice.kind == "list":
        return cta in numbers
    if choice.kind == "stride":
        start, stop, step = numbers
        return cta >= start and (stop < 0 or cta < stop) and (cta - start) % step == 0
    if choice.kind == "ends":
        return cta < numbers[0] or cta >= ctas - numbers[1]
    return choice.kind == "all" or cta < numbers[0]


# What a launch does -------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """One group's recording in one CTA. ``state`` is ``"done"``, ``"open"`` or ``"never"``; clocks wrap at 2**64."""

    state: str
    begin: int
    end: int
    begin_ns: int
    end_ns: int
    records: list[tuple[int, int, int]]  # site, clock and payload's bits, of all that was attempted


@dataclass
class Cta:
    """One CTA: its SM, and a row a group."""

    sm: int
    rows: list[Row]


@dataclass
class Launch:
    """All CTAs of a launch, those that are not recorded included."""

    kernel: Kernel
    grid: tuple[int, int, int]
    ctas: list[Cta]

    @property
    def chosen(self) -> list[int]:
        """The numbers of the CTAs that are recorded."""
        choice, ctas = self.kernel.table.choice, len(self.ctas)
        return [cta for cta in range(ctas) if is_chosen(choice, cta, ctas)]


def random_launch(rand: random.Random, kernel: Kernel, most_ctas: int = 12) -> Launch:
    """A launch on SMs whose clocks have starts and rates of their own."""
    least_ctas = 1 if kernel.table.choice.kind == "all" else 4
    grid = (rand.randint(1, 4), rand.randint(1, 3), rand.randint(1, 3))
    while not least_ctas <= grid[0] * grid[1] * grid[2] <= most_ctas:
        grid = (rand.randint(1, 4), rand.randint(1, 3), rand.randint(1, 3))
    sms = rand.randint(1, 4)
    starts = [rand.choice([0, WRAP - 1, WRAP - 4000, 1 << 48, (1 << 47) + 5, rand.getrandbits(64)]) for _ in range(sms)]
    rates = [rand.choice([0.35, 1.0, 1.755, 1.98]) for _ in range(sms)]
    # Of most launches all CTAs finish; in the others some do not, and some never start.
    lost = 0.0 if rand.random() < 0.6 else 0.3
    ctas = []
    for _ in range(grid[0] * grid[1] * grid[2]):
        sm = rand.randrange(sms)
        cycles = rand.randrange(100_000)
        leaves = kernel.leaves and rand.random() < 0.4
        rows = []
        states = ["done"] if rand.random() >= lost else rand.choice([["done", "open"], ["open"], ["never"]])
        for program in kernel.programs:
            now = cycles + rand.randrange(500)
            begin = now
            records: list[tuple[int, int, int]] = []
            now = _run(program.steps, now, records, kernel.table, rand)
            if leaves:  # T.thread_return(): what is open stays open
                records = records[: rand.randint(0, len(records))]
            end = now + rand.randrange(300)
            rows.append(
                Row(
                    state=rand.choice(states),
                    begin=(starts[sm] + begin) % WRAP,
                    end=(starts[sm] + end) % WRAP,
                    begin_ns=_timer(begin / rates[sm]),
                    end_ns=_timer(end / rates[sm]),
                    records=[(site, (starts[sm] + clock) % WRAP, bits) for site, clock, bits in records],
                )
            )
        ctas.append(Cta(sm, rows))
    launch = Launch(kernel, grid, ctas)
    if all(row.state == "never" for cta in launch.chosen for row in ctas[cta].rows):
        ctas[launch.chosen[0]].rows[0].state = "open"
    return launch


def _run(
    steps: list[tuple[Any, ...]], now: int, records: list[tuple[int, int, int]], table: SiteTable, rand: random.Random
) -> int:
    for step in steps:
        if step[0] == "work":
            now += step[1] + rand.randrange(50)
        elif step[0] == "loop":
            for _ in range(step[1]):
                now = _run(step[2], now, records, table, rand)
        elif step[0] == "carried":
            now = _run(step[2][:1], now, records, table, rand)
            for left in reversed(range(step[1])):
                both = ("site", step[3]) if left else step[2][-1]
                now = _run([*step[2][1:-1], both], now, records, table, rand)
        else:
            now += rand.choice([0, 16, 30])
            bits = rand.getrandbits(32)
            if payload_kind(table, step[1]) == "f":
                bits = struct.unpack("<I", struct.pack("<f", rand.uniform(-9, 9)))[0]
            records.append((step[1], now, bits))
    return now


def _timer(nanoseconds: float) -> int:
    return (1 << 60) + int(nanoseconds) // 32 * 32


def payload_kind(table: SiteTable, site: int) -> str:
    """The payload that records of a site carry: ``""``, ``"i"``, ``"u"`` or ``"f"``."""
    kinds = [table.ranges[index].payload for kind, index in table.sites[site] if kind != END]
    return next((kind for kind in kinds if kind), "")


# What the device leaves ---------------------------------------------------------------------------------------------


def slots_of(launch: Launch, rand: random.Random) -> np.ndarray:
    """The buffer behind the launch; words that the device did not write are random.

    A line a CTA that is recorded, and perhaps more where not all are.
    """
    table, chosen = launch.kernel.table, launch.chosen
    more = rand.randrange(3) if table.choice.kind != "all" else 0
    garbage = np.random.default_rng(rand.getrandbits(64))
    lines = garbage.integers(0, WRAP, (len(chosen) + more, table.line_words), dtype=np.uint64)
    for line, cta in zip(lines, (launch.ctas[number] for number in chosen)):
        for group, row in zip(table.groups, cta.rows):
            words = line[group.layout.offset : group.layout.end]
            write_row(words, row, group.layout, table, cta.sm, launch.grid)
    return lines


def write_row(
    words: np.ndarray, row: Row, place: GroupLayout, table: SiteTable, sm: int, grid: tuple[int, int, int]
) -> None:
    """Writes what a recorder writes into a row of a buffer."""
    if row.state == "never":
        return
    words[0] = STATE_OPEN
    words[1] = sm << 32
    words[2], words[3] = row.begin, row.begin_ns
    words[6], words[7] = grid[0] | grid[1] << 32, grid[2]
    for number, (site, clock, bits) in enumerate(row.records):
        if number >= place.capacity and not table.keep_last:
            break
        at = HEADER_WORDS + number % place.capacity * place.record_words
        words[at] = (clock + (site << 48)) % WRAP
        if payload_kind(table, site):
            words[at + 1] = bits << 32 | bits
    if row.state == "done":
        events = sum(len(table.sites[site]) for site, _, _ in row.records)
        words[0] = STATE_DONE | min(len(row.records), COUNT_LIMIT) << 32
        words[1] = min(events, COUNT_LIMIT) | sm << 32
        words[4], words[5] = row.end, row.end_ns


# What they mean -----------------------------------------------------------------------------------------------------


def first_kept(count: int, stored: int, keep_last: bool) -> int:
    """The number of the first record that a row holds: a ring has lost those before its last ones."""
    return count - stored if keep_last else 0


def read_row(words: np.ndarray, place: GroupLayout, keep_last: bool = False) -> dict[str, Any]:
    """A row's header and records, word by word; ``words`` begin with the row's header."""
    header = [int(word) for word in words[:HEADER_WORDS]]
    state, count = header[0] & 0xFFFFFFFF, header[0] >> 32
    read: dict[str, Any] = {
        "state": {STATE_OPEN: "open", STATE_DONE: "done"}.get(state, "never"),
        "count": count,
        "events": header[1] & 0xFFFFFFFF,
        "sm": header[1] >> 32,
        "begin": header[2],
        "begin_ns": header[3],
        "end": header[4],
        "end_ns": header[5],
        "grid": (header[6] & 0xFFFFFFFF, header[6] >> 32, header[7]),
        "keep_last": keep_last,
        "records": [],
    }
    if state == STATE_DONE:
        stored = min(count, place.capacity)
        first = first_kept(count, stored, keep_last)
        for number in range(first, first + stored):
            at = HEADER_WORDS + number % place.capacity * place.record_words
            since = (int(words[at]) - header[2]) % WRAP
            bits = int(words[at + 1]) & 0xFFFFFFFF if place.record_words == 2 else 0
            read["records"].append((since >> 48, since & ((1 << 48) - 1), bits))
    return read


def decode(lines: np.ndarray, table: SiteTable) -> dict[str, Any]:
    """The tables of a launch's Timeline, without nanoseconds: lists of tuples, see the code for their columns.

    Raises:
        DamageError: if a row that was closed holds what its recorder cannot have written.
    """
    tables: dict[str, Any] = defaultdict(list)
    fired: set[int] = set()
    complete = table.choice.kind == "all"
    for cta, line in zip(_ctas_of(lines, table), lines):
        rows = [read_row(line[group.layout.offset :], group.layout, table.keep_last) for group in table.groups]
        opened = [row for row in rows if row["state"] != "never"]
        sm = opened[0]["sm"] if opened else -1
        finished = all(row["state"] == "done" for row in rows)
        later = [_signed(row["begin"] - rows[0]["begin"]) for row in rows]
        cycles = recorded_of_cta = dropped_of_cta = 0
        slices: list[dict[str, Any]] = []
        ring_lost: set[int] = set()
        first_slice = len(tables["slices"])
        for number, (group, row) in enumerate(zip(table.groups, rows)):
            recorded = dropped = 0
            if finished:
                begin = later[number] - min(later)
                end = begin + (row["end"] - row["begin"]) % WRAP
                cycles = max(cycles, end)
                _check(row, number, table)
                events = [
                    (kind, index, begin + time, bits)
                    for site, time, bits in row["records"]
                    for kind, index in table.sites[site]
                ]
                missing = row["events"] - len(events)
                lost = max(0, row["count"] - group.layout.capacity)
                most = max(map(len, table.sites), default=1)
                if missing > lost * most or (missing < lost and not (lost and row["events"] == COUNT_LIMIT)):
                    raise DamageError("events")
                complete &= lost == 0
                fired |= {index for _, index, _, _ in events}
                if lost and table.keep_last:
                    ring_lost.add(number)
                row_end = end if lost == 0 or table.keep_last else events[-1][2]
                made, orphans = _replay(events, row_end, number in ring_lost)
                slices += made
                # The end of a range whose begin is lost makes no slice: it counts as dropped.
                recorded, dropped = len(events) - orphans, missing + orphans
                for kind, index, time, bits in events:
                    if kind == INSTANT:
                        r = table.ranges[index]
                        tables["instants"].append((cta, group.name, r.lane, r.name, time, _payload(r, bits)))
            tables["rows"].append((cta, group.name, recorded, dropped, row["state"] == "done"))
            recorded_of_cta += recorded
            dropped_of_cta += dropped
        for made in slices:
            r = table.ranges[made["range"]]
            tables["slices"].append(
                (cta, table.groups[r.group].name, r.lane, r.name, made["start"], made["end"] - made["start"],
                 _payload(r, made["bits"]), r.depth, made["cut"])
            )  # fmt: skip
        tables["flows"] += _flows(cta, slices, first_slice, table, ring_lost)
        tables["ctas"].append((cta, sm, cycles, recorded_of_cta, dropped_of_cta, finished))
        complete &= finished
    tables["never_fired"] = [r.line for index, r in enumerate(table.ranges) if complete and index not in fired]
    return tables


def _ctas_of(lines: np.ndarray, table: SiteTable) -> list[int]:
    """The number of the CTA that each line is of, as many as the first row that was opened tells.

    Raises:
        DamageError: if there are more of them than lines.
    """
    rows = [read_row(line[group.layout.offset :], group.layout) for line in lines for group in table.groups]
    grid = next((row["grid"] for row in rows if row["state"] != "never"), (0, 0, 0))
    if table.choice.kind == "all":
        return list(range(len(lines)))
    ctas = grid[0] * grid[1] * grid[2]
    # A grid that is damaged may have more CTAs than can be gone through. What a list or a stride with an end names lies
    # below 4000, the ends within 40 of both ends, and of a stride without an end there are too many in any case.
    numbers = [cta for cta in range(min(ctas, 4000)) if is_chosen(table.choice, cta, ctas)]
    numbers += [cta for cta in range(max(ctas - 40, 4000), ctas) if is_chosen(table.choice, cta, ctas)]
    if len(numbers) > len(lines):
        raise DamageError("more CTAs than lines")
    return numbers


def _check(row: dict[str, Any], group: int, table: SiteTable) -> None:
    times = [0, *(time for _, time, _ in row["records"]), (row["end"] - row["begin"]) % WRAP]
    if times != sorted(times) or times[-1] >= 1 << 47:
        raise DamageError("time")
    for site, _, _ in row["records"]:
        if site >= len(table.sites) or any(table.ranges[index].group != group for _, index in table.sites[site]):
            raise DamageError("site")


def _replay(
    events: list[tuple[str, int, int, int]], row_end: int, begins_lost: bool
) -> tuple[list[dict[str, Any]], int]:
    """A row's slices, and how many ends it holds whose begins are lost, where a row can lose begins."""
    slices: list[dict[str, Any]] = []
    running: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    orphans = 0
    for kind, index, time, bits in events:
        if kind == END and index not in seen and begins_lost:
            orphans += 1
        elif kind == (BEGIN if index in running else END):
            raise DamageError("range")
        elif kind == BEGIN:
            running[index] = {"range": index, "start": time, "end": row_end, "bits": bits, "cut": True}
            slices.append(running[index])
        elif kind == END:
            ended = running.pop(index)
            ended["end"], ended["cut"] = time, False
        seen.add(index)
    return slices, orphans


def _flows(
    cta: int, slices: list[dict[str, Any]], first_slice: int, table: SiteTable, ring_lost: set[int]
) -> list[tuple[Any, ...]]:
    def of(name: str, group: int) -> dict[int, int]:
        """Number of the occurrence -> position in ``slices``; empty where the numbers are not known."""
        ranges = [index for index, r in enumerate(table.ranges) if r.name == name and r.group == group]
        held = [at for at, made in enumerate(slices) if made["range"] in ranges]
        first = 0
        if group in ring_lost:
            totals = [table.ranges[index].total for index in ranges if not table.ranges[index].instant]
            first = -1 if None in totals else sum(totals) - len(held)
        return dict(enumerate(held, first)) if first >= 0 else {}

    flows = []
    for edge in table.edges:
        for src_group in range(len(table.groups)):
            for dst_group in range(len(table.groups)):
                sources, targets = of(edge.src, src_group), of(edge.dst, dst_group)
                for occurrence, src in sources.items():
                    dst = targets.get(occurrence + edge.shift)
                    if dst is None or slices[src]["cut"] or slices[dst]["cut"]:
                        continue
                    left = slices[src]["end"]
                    waiting = slices[dst]["start"] < left
                    arrived = slices[dst]["end"] if waiting else slices[dst]["start"]
                    names = edge.src, edge.dst, table.groups[src_group].name, table.groups[dst_group].name
                    flows.append((cta, *names, first_slice + src, first_slice + dst, occurrence, left, arrived))
    return sorted(flows, key=lambda flow: flow[5])


def _payload(r: Range, bits: int) -> int | float | None:
    if r.payload == "":
        return None
    return struct.unpack({"i": "<i", "u": "<I", "f": "<f"}[r.payload], struct.pack("<I", bits))[0]


def _signed(word: int) -> int:
    word %= WRAP
    return word - WRAP if word >= WRAP // 2 else word
