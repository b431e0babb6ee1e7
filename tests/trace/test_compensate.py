"""The recorder's cost taken out of ranges, against a reference that goes from event to event."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace import Timeline, TraceError
from tileops.trace import decode as decode_module
from tileops.trace.recording import Recording
from tileops.trace.sites import BEGIN, END, INSTANT, Group, Range, SiteTable
from tileops.trace.slots import SPARE_RECORDS, layout

from . import model

SEEDS = st.integers(0, 2**32 - 1)
KNOWN = 9078  # both kinds of groups, and long ranges
CYCLES = st.sampled_from([0.0, 1.0, 15.0, 16.0, 29.0, 64.0, 1000.0])
FRACTIONS = st.sampled_from([0.25, 0.5, 15.5, 16.75, 29.3])
Behind = dict[str, list[float]]


def behind(cycles: st.SearchStrategy[float]) -> st.SearchStrategy[Behind]:
    """What lies behind a clock read of either kind of group, by how many records are stored there."""
    costs = st.lists(cycles, min_size=SPARE_RECORDS + 2, max_size=SPARE_RECORDS + 2)
    return st.fixed_dictionaries({"plain": costs, "payload": costs})


@dataclass
class Slice:
    """What is known of a slice by going from event to event.

    Attributes:
        row: CTA and group.
        begin, end: positions of its events in the row; a cut one ends behind all others.
        start: cycles since the CTA's begin, as recorded.
        measured: its duration as recorded.
        true: the cycles between its records that the records did not cost; between the last record and a cut, all.
        slack: what its last record may have cost of a cut one's end.
        outermost: whether no other range of the row is open where it begins.
        cut: whether its end is missing.
    """

    row: tuple[int, int]
    begin: int
    end: int
    start: int
    measured: int
    true: float
    slack: float
    outermost: bool
    cut: bool


def launch_of(seed: int, chosen: bool = False) -> tuple[SiteTable, np.ndarray]:
    """A random launch of a kernel that holds records back at random."""
    rand = random.Random(seed)
    launch = model.random_launch(rand, model.random_kernel(rand, "cuda", chosen))
    return _with_batches(launch.kernel.table, rand), model.slots_of(launch, rand)


def _with_batches(table: SiteTable, rand: random.Random) -> SiteTable:
    return replace(table, stored=tuple(rand.randrange(SPARE_RECORDS + 2) for _ in table.sites))


def costs_of(table: SiteTable, behind: Behind) -> list[float]:
    """The cost of a record of each site."""
    costs = []
    for site, events in enumerate(table.sites):
        group = table.groups[table.ranges[events[0][1]].group]
        kind = "payload" if group.layout.record_words == 2 else "plain"
        costs.append(behind[kind][table.stored[site] if table.stored else 1])
    return costs


def decoded(lines: np.ndarray, table: SiteTable, behind: Behind) -> Timeline:
    meta = {"probe": {"plain": 1.5, "payload": 2.5, "behind": behind, "device": "NVIDIA H200"}}
    timeline = Recording(lines, table, meta).decode(compensate=True)
    assert timeline.meta["compensated"] is True
    assert timeline.meta["probe"] == meta["probe"]
    return timeline


def slices_of(lines: np.ndarray, table: SiteTable, behind: Behind) -> list[Slice]:
    """A launch's slices, in the Timeline's order."""
    found: list[Slice] = []
    costs = costs_of(table, behind)
    for cta, line in enumerate(lines):
        rows = [model.read_row(line[group.layout.offset :], group.layout, table.keep_last) for group in table.groups]
        if any(row["state"] != "done" for row in rows):
            continue
        first = min(_signed(row["begin"] - rows[0]["begin"]) for row in rows)
        for group, row in enumerate(rows):
            begin = _signed(row["begin"] - rows[0]["begin"]) - first
            lost = row["count"] > table.groups[group].layout.capacity
            found += _slices_of_row((cta, group), row, begin, table, costs, lost)
    return found


def _slices_of_row(
    where: tuple[int, int], row: dict[str, Any], row_begin: int, table: SiteTable, costs: list[float], lost: bool
) -> list[Slice]:
    times = [row_begin + time for _, time, _ in row["records"]]
    cost = [costs[site] for site, _, _ in row["records"]]
    gap = [max(later - time - spent, 0) for time, later, spent in zip(times, times[1:], cost)]
    made: list[Slice] = []
    begun_at: list[int] = []
    running: dict[int, int] = {}  # range -> position in made
    seen: set[int] = set()
    events = [(at, kind, i) for at, (site, _, _) in enumerate(row["records"]) for kind, i in table.sites[site]]
    for position, (at, kind, index) in enumerate(events):
        if kind == BEGIN:
            outermost = not running
            running[index] = len(made)
            begun_at.append(at)
            made.append(Slice(where, position, len(events), times[at], 0, 0.0, 0.0, outermost, True))
        elif kind == END and (index in seen or not (lost and table.keep_last)):
            number = running.pop(index)
            first = begun_at[number]
            made[number].end, made[number].cut = position, False
            made[number].measured, made[number].true = times[at] - times[first], float(sum(gap[first:at]))
        seen.add(index)
    row_end = row_begin + (row["end"] - row["begin"]) % model.WRAP
    for one, first in zip(made, begun_at):
        if one.cut:
            rest = row_end - times[-1] if not lost or table.keep_last else 0
            one.measured = times[-1] - times[first] + rest
            one.true, one.slack = float(sum(gap[first:])) + rest, min(cost[-1], rest)
    return made


def _signed(word: int) -> int:
    word %= model.WRAP
    return word - model.WRAP if word >= model.WRAP // 2 else word


@settings(max_examples=150, deadline=None)
@given(SEEDS, behind(CYCLES) | behind(CYCLES | FRACTIONS), st.sampled_from([1, 1 << 16]), st.booleans())
def test_ranges_lose_what_their_records_cost(seed: int, behind: Behind, block: int, chosen: bool) -> None:
    table, lines = launch_of(seed, chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode_module, "_BLOCK_RECORDS", block)
        compensated = decoded(lines, table, behind)
    slices = compensated.slices
    numbers = Recording(lines, table, {}).decode().ctas.cta.tolist()
    expected = slices_of(lines[: len(numbers)], table, behind)
    assert slices.cta.tolist() == [numbers[one.row[0]] for one in expected]
    assert slices.cut.tolist() == [one.cut for one in expected]
    whole = all(cost.is_integer() for costs in behind.values() for cost in costs)
    for start, duration, one in zip(slices.start.tolist(), slices.duration.tolist(), expected):
        assert 0 <= duration <= one.measured
        # Of cycles that are no integers, both of a range's times are rounded.
        error = 0.0 if whole else 1.0
        assert one.true - one.slack - error <= duration <= one.true + error
        if one.outermost:
            assert start == one.start
        assert start <= one.start
    check_nested(slices, expected)


def check_nested(slices: Any, expected: list[Slice]) -> None:
    """What began later and ended earlier in its row does so still."""
    start, end = slices.start.tolist(), (slices.start + slices.duration).tolist()
    by_row: dict[tuple[int, int], list[int]] = {}
    for number, one in enumerate(expected):
        by_row.setdefault(one.row, []).append(number)
    for numbers in by_row.values():
        for outer in numbers:
            for inner in numbers:
                if expected[outer].begin < expected[inner].begin and expected[inner].end <= expected[outer].end:
                    assert start[outer] <= start[inner]
                    assert end[inner] <= end[outer]


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.booleans())
def test_records_that_cost_nothing_change_nothing(seed: int, chosen: bool) -> None:
    table, lines = launch_of(seed, chosen)
    plain, compensated = (
        Recording(lines, table, {}).decode(),
        decoded(lines, table, {"plain": [0.0] * 5, "payload": [0.0] * 5}),
    )
    for name in ("slices", "instants", "flows", "rows", "ctas"):
        one, other = getattr(plain, name), getattr(compensated, name)
        for column in one.column_names:
            np.testing.assert_array_equal(one[column], other[column], err_msg=f"{name}.{column}")
    assert "compensated" not in plain.meta


@settings(max_examples=80, deadline=None)
@given(SEEDS, behind(CYCLES))
def test_the_true_work_comes_back(seed: int, behind: Behind) -> None:
    """Rows in which each record takes exactly its cost before the work behind it begins."""
    rand = random.Random(seed)
    launch = model.random_launch(rand, model.random_kernel(rand))
    table = _with_batches(launch.kernel.table, rand)
    costs = costs_of(table, behind)
    for cta in launch.ctas:
        for row in cta.rows:
            now, records = row.begin + 50, []
            for site, _, bits in row.records:
                records.append((site, now % model.WRAP, bits))
                now += rand.choice([0, 0, 1, 7, 300]) + int(costs[site])
            row.records, row.end, row.end_ns = records, now % model.WRAP, row.begin_ns + (now - row.begin)
    lines = model.slots_of(launch, rand)
    slices = decoded(lines, table, behind).slices
    for duration, one in zip(slices.duration.tolist(), slices_of(lines, table, behind)):
        assert one.cut or duration == one.true


RANGES = (
    Range("outer", "main", 0, 0, "", False, "kernel.py", 1),
    Range("inner", "main", 0, 1, "i", False, "kernel.py", 2),
    Range("tick", "main", 0, 0, "", True, "kernel.py", 3),
    Range("empty", "main", 0, 2, "", False, "kernel.py", 4),
)
SITES = (
    ((BEGIN, 0),), ((END, 0),), ((BEGIN, 1),), ((END, 1),), ((INSTANT, 2),), ((BEGIN, 3), (END, 3)),
    ((END, 1), (BEGIN, 1)), ((INSTANT, 2), (END, 0)), ((BEGIN, 0), (INSTANT, 2)), ((END, 0), (INSTANT, 2)),
    ((BEGIN, 3), (END, 3), (END, 0)),
)  # fmt: skip


def row_of(*records: tuple[int, int], end: int = 2000, capacity: int = 16, keep_last: bool = False) -> Timeline:
    """One CTA of one row: sites and times. A record costs 10 cycles, but 30 where `inner` begins."""
    table = SiteTable(
        "main", "cuda", capacity, (Group("main", 0, layout([True], capacity)[0]),), RANGES, SITES, (), keep_last,
        stored=tuple(2 if site in (2, 6) else 1 for site in range(len(SITES))),
    )  # fmt: skip
    row = model.Row("done", 1 << 40, (1 << 40) + end, 0, end, [(site, (1 << 40) + at, 0) for site, at in records])
    lines = model.slots_of(model.Launch(model.Kernel(table, []), (1, 1, 1), [model.Cta(0, [row])]), random.Random(0))
    return decoded(lines, table, {"plain": [99.0] * 5, "payload": [5.0, 10.0, 30.0, 99.0, 99.0]})


def spans(timeline: Timeline) -> list[tuple[str, int, int]]:
    return [(row.name, row.start, row.duration) for row in timeline.slices]


def test_known_answers() -> None:
    # 90 cycles of work in `outer`, 100 in `inner`, 70 behind it; then `outer` again, 5 cycles of work.
    made = row_of((0, 100), (2, 200), (3, 330), (1, 410), (0, 600), (1, 615))
    assert spans(made) == [("outer", 100, 90 + 100 + 70), ("inner", 190, 100), ("outer", 600, 5)]
    # Instants cost as much as any other record, and stand where the ranges around them have them.
    made = row_of((4, 50), (0, 100), (4, 150), (4, 170), (1, 200))
    assert spans(made) == [("outer", 100, 40 + 10 + 20)]
    assert made.instants.time.tolist() == [50, 140, 150]
    # A gap that is shorter than a record usually takes is none.
    assert spans(row_of((0, 100), (1, 104), (0, 107), (1, 200))) == [("outer", 100, 0), ("outer", 107, 83)]


def test_what_shares_a_record_with_an_end_or_a_begin_stays_on_its_side() -> None:
    made = row_of((8, 100), (4, 150), (7, 200), (0, 300), (9, 400))
    assert spans(made) == [("outer", 100, 40 + 40), ("outer", 300, 90)]
    assert made.instants.time.tolist() == [100, 140, 180, 400]
    made = row_of((0, 100), (10, 200), (5, 300))
    assert spans(made) == [("outer", 100, 90), ("empty", 190, 0), ("empty", 300, 0)]


def test_a_record_that_ends_and_begins_a_range() -> None:
    made = row_of((2, 100), (6, 200), (6, 300), (3, 400))
    assert spans(made) == [("inner", 100, 70), ("inner", 200, 70), ("inner", 300, 70)]
    made = row_of((0, 50), (2, 100), (6, 200), (3, 300), (1, 400))
    assert spans(made) == [("outer", 50, 40 + 70 + 70 + 90), ("inner", 90, 70), ("inner", 160, 70)]


def test_a_range_with_nothing_in_it() -> None:
    """Its begin and its end share a record: it has no duration, wherever it stands."""
    assert spans(row_of((5, 100), (5, 300))) == [("empty", 100, 0), ("empty", 300, 0)]
    assert spans(row_of((0, 50), (5, 100), (1, 200))) == [("outer", 50, 40 + 90), ("empty", 90, 0)]
    assert spans(row_of((0, 50), (1, 80), (5, 300), (0, 500), (1, 600)))[1:] == [("empty", 300, 0), ("outer", 500, 90)]


def test_cut_ranges() -> None:
    # The thread returned: `outer` is open to the row's end.
    for row, start, inside in (((0, 100), (4, 200)), 100, 90), (((0, 50), (1, 80), (0, 100)), 100, 0):
        cut = next(one for one in row_of(*row, end=1000).slices if one.cut)
        rest = 1000 - row[-1][1]
        assert cut.start == start
        assert inside + rest - 10 <= cut.duration <= inside + rest
    # The row was full: it ends with its last record.
    full = row_of((0, 100), (4, 200), (4, 300), (4, 400), (1, 900), capacity=3)
    assert spans(full) == [("outer", 100, 180)]
    assert full.slices.cut.all()
    # A ring that lost the begin of `outer`: what it held stands for itself.
    ring = row_of((0, 100), (2, 200), (3, 300), (2, 400), (3, 500), (1, 600), capacity=4, keep_last=True)
    assert spans(ring) == [("inner", 400, 70)]
    assert ring.dropped == 2 + 2


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({}, "compensate: what a record cost on this recording's device is unknown: it was not measured"),
        ({"probe": {"error": "no GPU is visible"}}, "is unknown: no GPU is visible"),
    ],
)
def test_a_cost_that_is_not_known_is_said(meta: dict[str, Any], why: str) -> None:
    table, lines = launch_of(KNOWN)
    recording = Recording(lines, table, meta)
    with pytest.raises(TraceError, match=why):
        recording.decode(compensate=True)
    assert len(recording.decode().rows) > 0


COSTS = [1.0] * 5


@pytest.mark.parametrize(
    "probe",
    [
        {},
        {"plain": 16.0, "payload": 20.0},  # of a version that did not measure it
        {"behind": {"plain": COSTS}},
        {"behind": {"plain": COSTS, "payload": []}},
        {"behind": {"plain": COSTS, "payload": COSTS[:4]}},
        {"behind": {"plain": COSTS, "payload": ["a"] * 5}},
        {"behind": {"plain": [float("nan")] * 5, "payload": [float("inf")] * 5}},
        {"behind": [COSTS, COSTS]},
        {"behind": None},
        None,
        [16.0, 20.0],
    ],
)  # fmt: skip
def test_a_damaged_cost_is_an_error_of_ours(probe: Any) -> None:
    table, lines = launch_of(KNOWN)
    table = replace(table, stored=(4,) * len(table.sites))
    with pytest.raises(TraceError, match="compensate: what a record cost on this recording's device is unknown"):
        Recording(lines, table, {"probe": probe}).decode(compensate=True)


def test_it_survives_a_file(tmp_path: Any) -> None:
    table, lines = launch_of(KNOWN)
    recording = Recording(lines, table, {"probe": {"behind": {"plain": [16.5] * 5, "payload": [21.25] * 5}}})
    again = Recording.load(recording.save(tmp_path / "a.tltrace"))
    durations = recording.decode(compensate=True).slices.duration.tolist()
    assert (
        again.decode(compensate=True).slices.duration.tolist()
        == durations
        != recording.decode().slices.duration.tolist()
    )
    assert replace(again, meta={}).decode().meta.get("compensated") is None
