"""The decoder against the model of ``model.py``, and against buffers that no launch leaves."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace import Timeline, TraceError
from tileops.trace import decode as decode_module
from tileops.trace.choice import Choice
from tileops.trace.decode import decode_lines
from tileops.trace.sites import BEGIN, END, INSTANT, Edge, Group, Range, SiteTable
from tileops.trace.slots import COUNT_LIMIT, HEADER_WORDS, STATE_DONE, STATE_OPEN, layout

from . import model

SEEDS = st.integers(0, 2**32 - 1)


def launch_of(seed: int, target: str = "cuda", chosen: bool = False) -> tuple[model.Launch, np.ndarray]:
    rand = random.Random(seed)
    launch = model.random_launch(rand, model.random_kernel(rand, target, chosen))
    return launch, model.slots_of(launch, rand)


def tables_of(timeline: Timeline) -> dict[str, list[tuple[Any, ...]]]:
    """A Timeline's tables in the model's shape."""

    def rows(table: Any, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(getattr(row, column) for column in columns) for row in table]

    return {
        "slices": rows(
            timeline.slices, "cta", "group", "lane", "name", "start", "duration", "payload", "depth", "cut"
        ),
        "instants": rows(timeline.instants, "cta", "group", "lane", "name", "time", "payload"),
        "flows": rows(
            timeline.flows, "cta", "src", "dst", "src_group", "dst_group", "src_slice", "dst_slice", "occurrence",
            "start", "end",
        ),
        "rows": rows(timeline.rows, "cta", "group", "recorded", "dropped", "finished"),
        "ctas": rows(timeline.ctas, "cta", "sm", "cycles", "recorded", "dropped", "finished"),
        "never_fired": [int(text.rpartition(":")[2]) for text in timeline.never_fired],
    }  # fmt: skip


def check_against_model(lines: np.ndarray, table: SiteTable) -> Timeline:
    timeline = decode_lines(lines, table)
    expected, got = model.decode(lines, table), tables_of(timeline)
    for name in got:
        # NaN payloads are equal only as texts.
        assert list(map(repr, got[name])) == list(map(repr, expected[name])), name
    return timeline


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.sampled_from(["cuda", "c"]), st.sampled_from([1, 40, 1 << 16]), st.booleans())
def test_decodes_what_the_model_decodes(seed: int, target: str, block: int, chosen: bool) -> None:
    launch, lines = launch_of(seed, target, chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode_module, "_BLOCK_RECORDS", block)
        timeline = check_against_model(lines, launch.kernel.table)
    # What the model read is what was made up.
    ctas = [launch.ctas[number] for number in launch.chosen]
    done = [all(row.state == "done" for row in cta.rows) for cta in ctas]
    sites = launch.kernel.table.sites
    attempted = [sum(len(sites[r[0]]) for row in cta.rows for r in row.records) for cta in ctas]
    assert timeline.grid == launch.grid
    assert timeline.ctas.cta.tolist() == launch.chosen
    assert timeline.ctas.finished.tolist() == done
    assert (timeline.ctas.recorded + timeline.ctas.dropped).tolist() == [n * d for n, d in zip(attempted, done)]
    x, y, z = launch.grid
    where = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
    assert list(zip(timeline.ctas.x.tolist(), timeline.ctas.y.tolist(), timeline.ctas.z.tolist())) == [
        where[number] for number in launch.chosen
    ]
    for row in timeline.rows:
        check_dropped(row, launch)
    check_consistent(timeline)


def check_dropped(row: Any, launch: model.Launch) -> None:
    """Dropped is what was marked and cannot be shown, in either mode, from what the CTA did and not from its words."""
    table = launch.kernel.table
    number = [group.name for group in table.groups].index(row.group)
    cta = launch.ctas[row.cta]
    marked = [[*table.sites[site]] for site, _, _ in cta.rows[number].records]
    if any(of_group.state != "done" for of_group in cta.rows):
        assert row.recorded == 0
        return
    capacity = table.groups[number].layout.capacity
    held = [event for events in (marked[-capacity:] if table.keep_last else marked[:capacity]) for event in events]
    orphans = sum(
        kind == END and (BEGIN, index) not in held[:at] and (END, index) not in held[:at]
        for at, (kind, index) in enumerate(held)
    )
    assert row.recorded == len(held) - orphans
    assert row.dropped == sum(map(len, marked)) - row.recorded
    if len(marked) <= capacity:
        assert row.dropped == 0


def check_consistent(timeline: Timeline) -> None:
    """What holds of every Timeline, whatever was recorded."""
    slices, ctas = timeline.slices, timeline.ctas
    flows, instants = timeline.flows, timeline.instants
    for table, times in (
        (slices, (slices.start, slices.start + slices.duration)),
        (instants, (instants.time,)),
        (flows, (flows.start, flows.end)),
    ):
        line = np.searchsorted(ctas.cta, table.cta)
        assert (ctas.cta[line] == table.cta).all()
        assert ctas.finished[line].all()
        assert all(((time >= 0) & (time <= ctas.cycles[line])).all() for time in times)
        assert (np.diff(table.cta) >= 0).all()
    assert (slices.duration >= 0).all()
    # Without tolerance: nanoseconds are kept so that these sums are exact.
    known = ~np.isnan(slices.start_ns)
    line = np.searchsorted(ctas.cta, slices.cta)
    assert (known == ~np.isnan(ctas.begin_ns)[line]).all()
    begin_ns, end_ns = ctas.begin_ns[line], ctas.end_ns[line]
    assert (slices.start_ns >= begin_ns)[known].all()
    assert (slices.duration_ns >= 0)[known].all()
    assert (slices.start_ns + slices.duration_ns <= end_ns)[known].all()
    assert (np.isnan(ctas.begin_ns) | ctas.finished).all()
    assert ctas.recorded[~ctas.finished].sum() == 0
    assert (slices.cta[flows.src_slice] == flows.cta).all()
    assert (slices.cta[flows.dst_slice] == flows.cta).all()


# Damage -------------------------------------------------------------------------------------------------------------


def _flip(lines: np.ndarray, rand: random.Random) -> None:
    line, word = rand.randrange(lines.shape[0]), rand.randrange(lines.shape[1])
    lines[line, word] ^= np.uint64(1 << rand.randrange(64))


def _flip_header(lines: np.ndarray, rand: random.Random) -> None:
    lines[rand.randrange(len(lines)), rand.randrange(HEADER_WORDS)] ^= np.uint64(1 << rand.randrange(64))


def _overwrite(lines: np.ndarray, rand: random.Random) -> None:
    """Somebody's buffer of 32-bit numbers ran over."""
    first = rand.randrange(lines.size)
    value = rand.choice([0, WORDS - 1, 0x3F8000003F800000, rand.getrandbits(64)])
    lines.reshape(-1)[first : first + rand.choice([1, 2, 8, 100])] = np.uint64(value)


def _shift(lines: np.ndarray, rand: random.Random) -> None:
    lines[:] = np.roll(lines, rand.choice([-1, 1, 8]), axis=1)


def _mix(lines: np.ndarray, rand: random.Random) -> None:
    """Part of a line is another CTA's."""
    here, there, word = rand.randrange(len(lines)), rand.randrange(len(lines)), rand.randrange(lines.shape[1])
    lines[here, word:] = lines[there, word:]


def _exchange(lines: np.ndarray, rand: random.Random) -> None:
    line = lines[rand.randrange(len(lines))]
    one, other = rand.randrange(len(line)), rand.randrange(len(line))
    line[one], line[other] = line[other], line[one]


WORDS = 1 << 64
DAMAGES = [_flip, _flip_header, _overwrite, _shift, _mix, _exchange]


@pytest.mark.filterwarnings("error")
@settings(max_examples=250, deadline=None)
@given(SEEDS, st.sampled_from(DAMAGES), st.sampled_from([1, 1 << 16]), st.booleans())
def test_damage_is_refused_or_harmless(seed: int, damage: Any, block: int, chosen: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode_module, "_BLOCK_RECORDS", block)
        check_damaged(seed, damage, chosen)


def check_damaged(seed: int, damage: Any, chosen: bool) -> None:
    launch, lines = launch_of(seed, chosen=chosen)
    damage(lines, random.Random(seed + 1))
    try:
        expected = model.decode(lines, launch.kernel.table)
    except model.DamageError:
        with pytest.raises(TraceError, match="slots"):
            decode_lines(lines, launch.kernel.table)
        return
    try:
        timeline = decode_lines(lines, launch.kernel.table)
    except TraceError:
        return  # it checks more than the model does: grids, SMs, timers
    assert {k: list(map(repr, v)) for k, v in tables_of(timeline).items()} == {
        k: list(map(repr, expected[k])) for k in tables_of(timeline)
    }
    check_consistent(timeline)


@pytest.mark.filterwarnings("error")
@settings(max_examples=50, deadline=None)
@given(SEEDS, SEEDS)
def test_slots_of_another_kernel_are_refused_or_read_as_the_model_reads_them(seed: int, other: int) -> None:
    lines = launch_of(seed)[1]
    table = launch_of(other)[0].kernel.table
    wide = np.zeros((len(lines), table.line_words), dtype=np.uint64)
    wide[:, : lines.shape[1]] = lines[:, : table.line_words]
    try:
        timeline = decode_lines(wide, table)
    except TraceError:
        return
    check_against_model(wide, table)
    check_consistent(timeline)


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=64, max_size=64), SEEDS)
def test_garbage_is_refused(header: bytes, seed: int) -> None:
    launch, lines = launch_of(seed)
    lines[:] = np.random.default_rng(seed).integers(0, WORDS, lines.shape, dtype=np.uint64)
    lines[:, :HEADER_WORDS] = np.frombuffer(header, dtype=np.uint64)
    with pytest.raises(TraceError, match="no CTA of kernel 'main' opened its rows"):
        decode_lines(lines, launch.kernel.table)


# Known answers ------------------------------------------------------------------------------------------------------

ORIGIN = WORDS - 500  # the clock at the CTAs' begin: it wraps soon
RANGES = (
    Range("load", "tma", 0, 0, "u", False, "kernel.py", 10),
    Range("tick", "tma", 0, 0, "i", True, "kernel.py", 11),
    Range("mma", "wgmma", 1, 0, "", False, "kernel.py", 12),
    Range("tile", "main", 1, 0, "", False, "kernel.py", 13),
)
SITES = (
    ((BEGIN, 0),),
    ((END, 0),),
    ((INSTANT, 1),),
    ((BEGIN, 3), (BEGIN, 2)),
    ((END, 2),),
    ((END, 3),),
    ((END, 2), (BEGIN, 2)),
)
PRODUCER = [(0, 100, 7), (1, 250, 0), (2, 300, 0xFFFFFFFF), (0, 400, 0xFFFFFFFF), (1, 700, 0)]
CONSUMER = [(3, 120, 0), (6, 500, 0), (4, 900, 0), (5, 950, 0)]


def small_table(capacity: int = 8, edges: tuple[Edge, ...] = (), ranges: tuple[Range, ...] = RANGES) -> SiteTable:
    places = layout([True, False], capacity)
    groups = Group("producer", 0, places[0]), Group("consumer", 128, places[1])
    return SiteTable("main", "cuda", capacity, groups, ranges, SITES, edges)


PRODUCER_AT, CONSUMER_AT = (group.layout.offset for group in small_table().groups)
CONSUMER_AT_2 = small_table(capacity=2).groups[1].layout.offset


def small_lines(
    table: SiteTable, producer: list[tuple[int, int, int]] = PRODUCER, consumer: list[tuple[int, int, int]] = CONSUMER
) -> np.ndarray:
    """Four CTAs that all do the same. Times are from ORIGIN on; the consumer begins at 50, and both end at 1000."""

    def row(begin: int, records: list[tuple[int, int, int]]) -> model.Row:
        clocks = [(site, (ORIGIN + time) % WORDS, bits) for site, time, bits in records]
        return model.Row("done", (ORIGIN + begin) % WORDS, (ORIGIN + 1000) % WORDS, 1 << 60, (1 << 60) + 512, clocks)

    ctas = [model.Cta(7, [row(0, producer), row(50, consumer)]) for _ in range(4)]
    return model.slots_of(model.Launch(model.Kernel(table, []), (2, 1, 2), ctas), random.Random(0))


def test_a_small_launch() -> None:
    table = small_table(edges=(Edge("load", "mma", 0), Edge("mma", "load", 1)))
    timeline = check_against_model(small_lines(table), table)
    assert [tuple(row)[:7] for row in timeline.slices.where(cta=2)] == [
        (2, "producer", "tma", "load", 100, 150, 7),
        (2, "producer", "tma", "load", 400, 300, 0xFFFFFFFF),
        (2, "consumer", "main", "tile", 120, 830, None),
        (2, "consumer", "wgmma", "mma", 120, 380, None),
        (2, "consumer", "wgmma", "mma", 500, 400, None),
    ]
    assert [row.payload for row in timeline.instants] == [-1] * 4
    # The mma begun at 120 waited for the load that ended at 250: its arrow arrives at its end, 500. The load begun at
    # 400 had not waited for the mma that ended at 500.
    flows = timeline.flows.where(cta=2)
    assert [(f.src, f.dst, f.occurrence, f.start, f.end) for f in flows] == [
        ("load", "mma", 0, 250, 500),
        ("load", "mma", 1, 700, 900),
        ("mma", "load", 0, 500, 700),
    ]
    assert (flows.end_ns - flows.start_ns).tolist() == pytest.approx([128.0, 102.4, 102.4], rel=0.03)
    assert timeline.ctas.cycles.tolist() == [1000] * 4
    assert timeline.ctas.ghz.tolist() == pytest.approx([1000 / 512] * 4, rel=0.03)  # the consumer's row is shorter
    assert [tuple(row)[1:4] for row in timeline.ctas] == [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]
    assert (timeline.recorded, timeline.dropped, timeline.never_fired) == (4 * 11, 0, ())
    assert timeline.meta == {"kernel": "main", "target": "cuda", "max_events": 8, "keep": "first"}


def test_ranges_are_cut_where_their_row_was_full() -> None:
    table = small_table(capacity=2, edges=(Edge("mma", "mma", 0),))
    timeline = decode_lines(small_lines(table), table)
    consumer = timeline.slices.where(cta=0, group="consumer")
    assert [(s.name, s.start, s.duration, s.cut) for s in consumer] == [
        ("tile", 120, 380, True), ("mma", 120, 380, False), ("mma", 500, 0, True)
    ]  # fmt: skip
    assert timeline.flows.occurrence.tolist() == [0] * 4
    assert timeline.rows.where(cta=0).recorded.tolist() == [2, 4]
    assert timeline.rows.where(cta=0).dropped.tolist() == [3, 2]


def ring_table(capacity: int, edges: tuple[Edge, ...], totals: tuple[int | None, ...] = (2, 1, 2, 1)) -> SiteTable:
    ranges = tuple(replace(r, total=total) for r, total in zip(RANGES, totals))
    return replace(small_table(capacity, edges, ranges), keep_last=True)


def test_a_ring_keeps_the_last_records_and_their_numbers() -> None:
    table = ring_table(2, (Edge("load", "mma", 0), Edge("mma", "load", 0), Edge("load", "mma", 1)))
    timeline = check_against_model(small_lines(table), table)
    assert [(s.name, s.start, s.duration, s.cut) for s in timeline.slices.where(cta=1)] == [("load", 400, 300, False)]
    # Of the consumer the ends of `mma` and `tile` are left, whose begins are lost: they count as dropped.
    assert timeline.rows.where(cta=1).recorded.tolist() == [2, 0]
    assert timeline.rows.where(cta=1).dropped.tolist() == [3, 6]
    assert len(timeline.flows) == 0
    assert len(timeline.instants) == 0
    assert timeline.never_fired == ()

    table = replace(ring_table(4, table.edges), max_events=4)
    timeline = check_against_model(small_lines(table), table)
    assert timeline.rows.where(cta=1).dropped.tolist() == [1 + 1, 0]
    assert [row.time for row in timeline.instants.where(cta=1)] == [300]
    # The load that is left is the second one of two, so the second mma waited for it.
    assert [(f.src, f.dst, f.occurrence, f.start) for f in timeline.flows.where(cta=1)] == [
        ("load", "mma", 1, 700), ("mma", "load", 1, 900)
    ]  # fmt: skip


@pytest.mark.parametrize("totals", [(None, 1, 2, 1), (0, 1, 2, 1)], ids=["depends on data", "contradicts the row"])
def test_a_ring_without_totals_has_no_arrows(totals: tuple[int | None, ...]) -> None:
    table = ring_table(4, (Edge("load", "mma", 0),), totals)
    assert len(check_against_model(small_lines(table), table).flows) == 0
    # Where nothing was lost, they are counted from the start as ever.
    table = ring_table(8, (Edge("load", "mma", 0),), totals)
    assert check_against_model(small_lines(table), table).flows.occurrence.tolist() == [0, 1] * 4


def test_an_instant_of_a_ranges_name_does_not_count_among_its_occurrences() -> None:
    table = ring_table(4, (Edge("load", "mma", 0),))
    table = replace(table, ranges=(table.ranges[0], replace(table.ranges[1], name="load"), *table.ranges[2:]))
    assert check_against_model(small_lines(table), table).flows.where(cta=0).occurrence.tolist() == [1]


def test_ranges_of_a_ring_are_cut_at_their_rows_end() -> None:
    table = ring_table(2, ())
    timeline = check_against_model(small_lines(table, consumer=[*CONSUMER[:2], (4, 900, 0), (3, 950, 0)]), table)
    assert [(s.name, s.start, s.duration, s.cut) for s in timeline.slices.where(cta=3, group="consumer")] == [
        ("tile", 950, 50, True), ("mma", 950, 50, True)
    ]  # fmt: skip


def test_events_that_a_ring_cannot_have_lost_are_refused() -> None:
    """One end's begin is lost, but that does not make up for an event that was never counted."""
    table = ring_table(2, ())
    lines = small_lines(table, consumer=[(3, 120, 0), (6, 300, 0), (6, 500, 0), (4, 900, 0)])
    assert check_against_model(lines, table).rows.where(cta=1, group="consumer").dropped.tolist() == [5]
    # Two records are lost; of four events in all, three are here.
    lines[1, table.groups[1].layout.offset + 1] -= np.uint64(3)
    with pytest.raises(TraceError, match="group 'consumer', is damaged: its records do not hold the events"):
        decode_lines(lines, table)


@pytest.mark.parametrize(
    "choice", [Choice("stride", (0, -1, 2)), Choice("ends", (1, 1)), Choice("list", (0, 1 << 40))], ids=lambda c: c.kind
)
@pytest.mark.parametrize("word", [6, 7], ids=["x and y", "z"])
@pytest.mark.parametrize("bit", [0, 1, 30, 31, 40, 63])
def test_a_grid_that_is_damaged_costs_no_memory(choice: Choice, word: int, bit: int) -> None:
    table = replace(small_table(), choice=choice)
    lines = small_lines(small_table())[:2]
    lines[:, [PRODUCER_AT + word, CONSUMER_AT + word]] ^= np.uint64(1 << bit)
    try:
        timeline = decode_lines(lines, table)
    except TraceError:
        return
    # Nothing contradicts such a grid: it has as many of these CTAs as there are lines, or fewer.
    x, y, z = timeline.grid
    assert timeline.ctas.cta.tolist() == choice.numbers(x * y * z).tolist()


def test_of_each_sm_the_cta_that_began_first_is_shown() -> None:
    table = replace(small_table(), choice=Choice("per SM", (8,)))
    lines = small_lines(small_table())
    for cta, (sm, later_ns) in enumerate([(3, 640), (3, 0), (5, 320), (5, 960)]):
        for row in (PRODUCER_AT, CONSUMER_AT):
            lines[cta, row + 1] = (int(lines[cta, row + 1]) & 0xFFFFFFFF) | sm << 32
            lines[cta, [row + 3, row + 5]] += np.uint64(later_ns)
    timeline = decode_lines(lines, table)
    assert [(row.cta, row.sm, row.finished) for row in timeline.ctas] == [(1, 3, True), (2, 5, True)]
    assert timeline.slices.cta.tolist() == [1] * 5 + [2] * 5
    assert timeline.rows.cta.tolist() == [1, 1, 2, 2]
    # One that did not begin is on no SM.
    lines[1, [PRODUCER_AT, CONSUMER_AT]] = 0
    assert decode_lines(lines, table).ctas.cta.tolist() == [0, 2]


def test_lines_are_those_of_the_chosen_ctas() -> None:
    table = small_table()
    lines = small_lines(table)
    table = replace(table, choice=Choice("list", (1, 2, 7)))
    timeline = check_against_model(lines[1:], table)  # one line more than the grid has CTAs to fill
    assert timeline.ctas.cta.tolist() == [1, 2]
    assert timeline.grid == (2, 1, 2)
    assert [tuple(row)[:4] for row in timeline.ctas] == [(1, 1, 0, 0), (2, 0, 0, 1)]
    assert timeline.slices.cta.tolist() == [1] * 5 + [2] * 5
    assert timeline.never_fired == ()
    assert not np.isnan(timeline.slices.start_ns).any()
    with pytest.raises(TraceError, match=r"hold 1 CTAs where .* of a grid of \(2, 1, 2\) were to be recorded"):
        decode_lines(lines[1:2], table)
    # What is wrong with a row names the CTA that it is of.
    lines[2:, PRODUCER_AT + 4] -= np.uint64(2000)
    with pytest.raises(TraceError, match="the row of CTA 2, group 'producer', is damaged"):
        decode_lines(lines[1:3], table)


def test_ranges_are_cut_at_their_rows_end_where_the_thread_returned() -> None:
    table = small_table()
    timeline = decode_lines(small_lines(table, consumer=CONSUMER[:2]), table)
    assert [(s.start, s.duration, s.cut) for s in timeline.slices.where(cta=3, group="consumer")] == [
        (120, 880, True), (120, 380, False), (500, 500, True)
    ]  # fmt: skip
    assert timeline.dropped == 0


def test_markers_that_never_fired_are_named_if_nothing_is_missing() -> None:
    unused = Range("never", "main", 0, 0, "", True, "kernel.py", 99), Range("not", "main", 1, 0, "", False, "k.py", 5)
    table = small_table(ranges=(*RANGES, *unused))
    assert decode_lines(small_lines(table), table).never_fired == (
        "record 'never' at kernel.py:99", "range 'not' at k.py:5"
    )  # fmt: skip
    unfinished = small_lines(table)
    unfinished[3, 0] ^= np.uint64(STATE_DONE ^ STATE_OPEN)
    assert decode_lines(unfinished, table).never_fired == ()
    full = small_table(capacity=4, ranges=(*RANGES, *unused))
    assert decode_lines(small_lines(full), full).never_fired == ()


@pytest.mark.parametrize(
    ("kind", "bits", "payload"),
    [
        ("i", 0x80000000, -(2**31)), ("i", 0x7FFFFFFF, 2**31 - 1), ("u", 0xFFFFFFFF, 2**32 - 1), ("u", 0, 0),
        ("f", 0x7F800000, float("inf")), ("f", 0x00000001, 2.0**-149), ("f", 0x7F7FFFFF, float(np.finfo("f4").max)),
    ],
)  # fmt: skip
def test_payloads_are_exact(kind: str, bits: int, payload: float) -> None:
    table = small_table(ranges=(replace(RANGES[0], payload=kind), *RANGES[1:]))
    timeline = decode_lines(small_lines(table, producer=[(0, 1, bits), (1, 2, 0)]), table)
    [read] = {row.payload for row in timeline.slices.where(group="producer")}
    assert (read, type(read)) == (payload, type(payload))


def test_counts_that_reached_their_limit_are_what_they_are() -> None:
    table = small_table(capacity=2)
    lines = small_lines(table)
    lines[2, PRODUCER_AT] = STATE_DONE | COUNT_LIMIT << 32
    lines[2, PRODUCER_AT + 1] = COUNT_LIMIT | 7 << 32
    lines[2, CONSUMER_AT_2] = STATE_DONE | COUNT_LIMIT << 32
    lines[2, CONSUMER_AT_2 + 1] = COUNT_LIMIT | 7 << 32
    timeline = check_against_model(lines, table)
    assert timeline.rows.where(cta=2).dropped.tolist() == [COUNT_LIMIT - 2, COUNT_LIMIT - 4]


def test_columns_that_are_made_when_read_follow_the_rows_chosen() -> None:
    table = small_table(edges=(Edge("load", "mma", 0),))
    read, unread = decode_lines(small_lines(table), table), decode_lines(small_lines(table), table)
    for one, other in ((read.slices, unread.slices), (read.instants, unread.instants), (read.flows, unread.flows)):
        every_third = np.arange(len(one)) % 3 == 1
        chosen = other[every_third]
        for column in one.column_names:
            np.testing.assert_array_equal(one[column][every_third], chosen[column])
            assert len(chosen[column]) == len(chosen) == every_third.sum()


def test_timelines_can_be_pickled() -> None:
    table = small_table(edges=(Edge("load", "mma", 0),))
    timeline = decode_lines(small_lines(table), table)
    again = pickle.loads(pickle.dumps(timeline))
    assert tables_of(again) == tables_of(timeline)
    assert again.slices.duration_ns.tolist() == timeline.slices.duration_ns.tolist()


def test_thousands_of_sites() -> None:
    count = 5000
    ranges = tuple(Range(f"range {n}", f"lane {n % 7}", n % 2, 0, "", False, "k.py", n) for n in range(count))
    places = layout([False, False], count)
    table = SiteTable(
        "main", "cuda", count, (Group("a", 0, places[0]), Group("b", 32, places[1])), ranges,
        tuple(((kind, n),) for n in range(count) for kind in (BEGIN, END)), (),
    )  # fmt: skip
    rows = [
        model.Row("done", 0, 10**6, 0, 10**6, [(2 * n + end, 100 * n + end * 50, 0) for n in range(group, count, 2)
                                               for end in range(2)])
        for group in range(2)
    ]  # fmt: skip
    launch = model.Launch(model.Kernel(table, []), (2, 1, 1), [model.Cta(0, rows), model.Cta(1, rows)])
    timeline = decode_lines(model.slots_of(launch, random.Random(0)), table)
    assert timeline.slices.where(cta=1).name.tolist() == [r.name for r in sorted(ranges, key=lambda r: r.group)]
    assert set(timeline.slices.duration.tolist()) == {50}


def _add(word: int, value: int) -> Any:
    """Adds to a word of CTA 1."""

    def change(lines: np.ndarray) -> None:
        lines[1, word : word + 1] += np.uint64(value % WORDS)

    return change


def _add_both(one: int, other: int, value: int) -> Any:
    def change(lines: np.ndarray) -> None:
        lines[1, [one, other]] += np.uint64(value)

    return change


def _swap_sites(one: int, other: int) -> Any:
    def change(lines: np.ndarray) -> None:
        lines[1, [one]] += np.uint64(1 << 48)
        lines[1, [other]] -= np.uint64(1 << 48)

    return change


def _swap(one: int, other: int) -> Any:
    def change(lines: np.ndarray) -> None:
        lines[1, [one, other]] = lines[1, [other, one]]

    return change


@pytest.mark.parametrize(
    ("change", "group", "why"),
    [
        (_add(PRODUCER_AT, 5 << 32), "producer", "fewer events than records"),
        (_add(PRODUCER_AT + 1, 1), "producer", "do not hold the events that it counts"),
        (_add(CONSUMER_AT + 1, -1), "consumer", "do not hold the events that it counts"),
        (_add(PRODUCER_AT + 4, -2000), "producer", "ends before it begins"),
        (_add(PRODUCER_AT + 5, -2000), "producer", "ends before it begins"),
        (_add(CONSUMER_AT + 4, 1 << 47), "consumer", "lasts for days"),
        (_add(PRODUCER_AT + 2, 1 << 47), "producer", "ends before it begins"),
        (_add_both(CONSUMER_AT + 2, CONSUMER_AT + 4, 1 << 50), "consumer", "lasts for days"),
        (_add(PRODUCER_AT + 5, 1 << 40), "producer", "its clock stood still"),
        (_add(CONSUMER_AT + 1, 1 << 32), "consumer", "SM is not that of the CTA's other rows"),
        (_add(PRODUCER_AT + 1, 1 << 60), "producer", "there is no such SM"),
        (_add(CONSUMER_AT + 6, 1), "consumer", "grid is not that of the other rows"),
        (_add(PRODUCER_AT + 4, -400), "producer", "a record from outside its span"),
        (_add(CONSUMER_AT + 2, 100), "consumer", "a record from outside its span"),
        (_add(CONSUMER_AT + 8, -(1 << 30)), "consumer", "its times run backwards|outside its span"),
        (_swap(PRODUCER_AT + 8, PRODUCER_AT + 10), "producer", "its times run backwards"),
        (_add(PRODUCER_AT + 8, 100 << 48), "producer", "a site that is not its group's"),
        (_add(PRODUCER_AT + 8, 4 << 48), "producer", "a site that is not its group's"),
        (_add(PRODUCER_AT + 10, -1 << 48), "producer", "its ranges do not begin and end in turn"),
        (_add(PRODUCER_AT + 8, 1 << 48), "producer", "its ranges do not begin and end in turn"),
        (_add(CONSUMER_AT + 10, 1 << 48), "consumer", "its ranges do not begin and end in turn"),
        (_swap_sites(PRODUCER_AT + 8, PRODUCER_AT + 10), "producer", "its ranges do not begin and end in turn"),
    ],
)
@pytest.mark.parametrize("block", [1, 1 << 16])
def test_what_is_wrong_with_a_row_is_said(
    change: Any, group: str, why: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode_module, "_BLOCK_RECORDS", block)
    table = small_table()
    lines = small_lines(table)
    change(lines)
    message = f"not what a launch of kernel 'main' left: the row of CTA 1, group '{group}', is damaged: .*({why})"
    with pytest.raises(TraceError, match=message):
        decode_lines(lines, table)
    # In a CTA that did not finish it is not looked at.
    if "grid" not in why and "no such SM" not in why:
        lines[1, PRODUCER_AT] = STATE_OPEN
        lines[1, CONSUMER_AT] = STATE_OPEN
        assert decode_lines(lines, table).unfinished.tolist() == [1]


@pytest.mark.parametrize("consumer", [[], CONSUMER], ids=["no range holds another", "ranges nest"])
def test_ranges_begin_and_end_in_turn_in_each_row(consumer: list[tuple[int, int, int]]) -> None:
    """Two ways to be out of turn while begins and ends are equally many and of the same ranges."""
    table = small_table()
    lines = small_lines(table, consumer=consumer)
    _swap_sites(PRODUCER_AT + 8, PRODUCER_AT + 10)(lines)
    with pytest.raises(TraceError, match="the row of CTA 1, group 'producer', is damaged: its ranges do not begin"):
        decode_lines(lines, table)
    # The first CTA returned inside the range, and the next one's first record is an end.
    lines = small_lines(table, consumer=consumer)
    lines[0] = small_lines(table, [(0, 100, 7)], consumer)[0]
    assert decode_lines(lines, table).slices.cut.sum() == 1
    lines[1] = small_lines(table, [(1, 100, 0), (0, 200, 0), (1, 300, 0)], consumer)[1]
    with pytest.raises(TraceError, match="the row of CTA 1, group 'producer', is damaged: its ranges do not begin"):
        decode_lines(lines, table)


def test_buffers_of_another_shape_are_refused() -> None:
    table = small_table()
    lines = small_lines(table)
    wrong: list[np.ndarray] = [lines[:, :-1], lines.reshape(-1), lines.astype(float), lines.astype(np.uint32)]
    for other in (*wrong, np.concatenate([lines, lines], axis=1)):
        with pytest.raises(TraceError, match=r"slots must be \(CTAs, \d+\) 64-bit words for kernel 'main', got"):
            decode_lines(other, table)
    with pytest.raises(TraceError, match=r"hold 3 CTAs but were recorded on a grid of \(2, 1, 2\)"):
        decode_lines(lines[:3], table)
    with pytest.raises(TraceError, match="opened its rows"):
        decode_lines(lines[:0], table)
    assert len(decode_lines(lines.view(np.int64), table).slices) == 20
