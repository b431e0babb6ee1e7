"""Statistics of Timelines, against loops over their rows."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from importlib import resources

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace import Timeline
from tileops.trace.recording import Recording
from tileops.trace.statistics import numbering
from tileops.trace.statistics.distribution import percentile_of_each

from . import synthetic
from .synthetic import Builder, empty, gemm, hostile, nested, troubled, waves

TABLES = (
    "ranges", "ctas", "sms", "load", "iterations", "phases", "lanes", "lane_overlaps", "group_overlaps", "handoffs",
)  # fmt: skip
GROUPS, LANES, NAMES = ("producer", "consumer", "other"), ("barrier", "main"), ("wait", "mma", "tile")


def random_timeline(random: np.random.Generator, keep: str = "first") -> Timeline:
    """Ranges side by side and within each other, some cut, in rows that may have lost events; hand-offs; instants."""
    grid = (int(random.integers(1, 5)), int(random.integers(1, 3)), 1)
    groups = GROUPS[: random.integers(1, 4)]
    builder = Builder(grid, groups, ghz=[*(1 + random.random(grid[0] * grid[1]))])
    builder.sm = random.integers(0, 4, builder.count)
    builder.begin_ns = random.integers(0, 300, builder.count).astype(float)
    handles: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    for cta in range(builder.count):
        if random.random() < 0.15:
            builder.unfinished.add(cta)
            continue
        for group in groups:
            lost = random.random() < 0.2
            for lane in LANES:

                def fill(begin: int, end: int, depth: int, cta=cta, group=group, lane=lane, lost=lost) -> None:
                    for _ in range(int(random.integers(0, 5 if depth == 0 else 3))):
                        begin = begin + int(random.integers(0, 9)) * int(random.integers(0, 2))
                        stop = begin + int(random.integers(0, 30))
                        if stop > end:
                            return
                        name = str(random.choice(NAMES))
                        cut = lost and depth == 0 and random.random() < 0.3
                        handle = builder.slice(cta, group, lane, name, begin, stop, depth=depth, cut=cut)
                        if not cut:
                            handles[cta, group, name].append(handle)
                        if depth < 2:
                            fill(begin, stop, depth + 1)
                        begin = stop

                fill(int(random.integers(0, 20)), 150, 0)
            if lost:
                builder.lost[cta, group] = int(random.integers(1, 9))
        builder.cycles[cta] += int(random.integers(0, 40))
    for cta in range(builder.count):
        for src, dst, shift in (("wait", "mma", 0), ("mma", "wait", 1)):
            for n, one in enumerate(handles[cta, groups[0], src]):
                if n + shift < len(handles[cta, groups[-1], dst]):
                    builder.flow(one, handles[cta, groups[-1], dst][n + shift], n)
    timeline = builder.build(axis_error_ns=float("nan") if random.random() < 0.3 else 20.0)
    timeline.meta["keep"] = keep
    return timeline


seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def percentiles(values) -> list[float]:
    return np.percentile(values, [50, 95, 99]).tolist() if len(values) else [math.nan] * 3


def same(found, expected) -> None:
    assert [*found] == pytest.approx([*expected], nan_ok=True, rel=1e-12)


def by(rows, *columns):
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(getattr(row, column) for column in columns)].append(row)
    return groups


def direct_children(row, rows):
    """What lies right inside a range, by its definition."""
    return [
        other
        for other in rows
        if other is not row
        and (other.cta, other.group, other.lane, other.depth) == (row.cta, row.group, row.lane, row.depth + 1)
        and row.start <= other.start
        and other.start + other.duration <= row.start + row.duration
        and rows.index(other) > rows.index(row)
        and not any(
            (mid.cta, mid.group, mid.lane, mid.depth) == (row.cta, row.group, row.lane, row.depth)
            and rows.index(row) < rows.index(mid) < rows.index(other)
            for mid in rows
        )
    ]


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_ranges_agree_with_a_loop(random):
    timeline = random_timeline(random)
    rows = [*timeline.slices]
    cycles = sum(row.cycles for row in timeline.ctas if row.finished)
    found = [*timeline.summary().ranges]
    expected = by(rows, "group", "lane", "name")
    assert {(row.group, row.lane, row.name) for row in found} == set(expected)
    assert len(found) == len(expected)
    for row in found:
        own = expected[row.group, row.lane, row.name]
        whole = [one for one in own if not one.cut]
        took = [one.duration for one in whole]
        assert (row.count, row.cut, row.total) == (len(took), len(own) - len(took), sum(took))
        same(row[6:12], [np.mean(took), min(took), *percentiles(took), max(took)] if took else [math.nan] * 6)
        inside = sum(child.duration for one in whole for child in direct_children(one, rows))
        assert row[12] == sum(took) - inside
        same([row.share], [sum(took) / cycles if cycles else math.nan])


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_ctas_and_sms_agree_with_a_loop(random):
    timeline = random_timeline(random)
    ctas = {row.cta: row for row in timeline.ctas}
    summary = timeline.summary()
    for table, place in ((summary.ctas, "cta"), (summary.sms, "sm")):
        expected = defaultdict(list)
        for row in timeline.slices:
            expected[row.group, row.lane, row.name, row.cta if place == "cta" else ctas[row.cta].sm].append(row)
        assert len(table) == len(expected)
        for row in table:
            own = expected[row.group, row.lane, row.name, getattr(row, place)]
            took = [one.duration for one in own if not one.cut]
            assert (row.count, row.cut, row.total) == (len(took), len(own) - len(took), sum(took))
            cycles = sum(
                cta.cycles for cta in ctas.values() if cta.finished and getattr(cta, place) == getattr(row, place)
            )
            mean, most = (np.mean(took), max(took)) if took else (math.nan, math.nan)
            same([row.mean, row.max, row.share], [mean, most, sum(took) / cycles if cycles else math.nan])
            if place == "sm":
                assert row.ctas == len({one.cta for one in own})
            else:
                assert row.sm == ctas[row.cta].sm


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_iterations_agree_with_a_loop(random):
    timeline = random_timeline(random, keep=str(random.choice(["first", "last"])))
    lost = {(row.cta, row.group) for row in timeline.rows if row.dropped and timeline.meta["keep"] == "last"}
    starts, took, entered = defaultdict(list), defaultdict(list), defaultdict(int)
    for (cta, group, lane, name), rows in by(timeline.slices, "cta", "group", "lane", "name").items():
        key = (group, lane, name)
        entered[key] = max(entered[key], len(rows))
        for n, row in enumerate(rows):
            if (cta, group) not in lost:
                starts[(*key, n)].append(row.start)
                took[(*key, n)] += [row.duration] * (not row.cut)
    found = {row[:4]: row for row in timeline.summary().iterations}
    assert set(found) == {key for key in starts if entered[key[:3]] > 1}
    for key, row in found.items():
        own = took[key]
        assert (row.by, row.count) == ("occurrence", len(own))
        same([row.start], [np.mean(starts[key])])
        numbers = [np.mean(own), min(own), *percentiles(own)[:2], max(own)] if own else [math.nan] * 5
        same([row.mean, row.min, row.p50, row.p95, row.max], numbers)


def stretches(rows):
    """Begins and ends of what ranges in order cover."""
    found = []
    for row in rows:
        if found and row.start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], row.start + row.duration)
        else:
            found.append([row.start, row.start + row.duration])
    return found


@given(seeds, st.sampled_from(["first", "last"]))
@settings(max_examples=60, deadline=None)
def test_lanes_and_overlaps_agree_with_sets_of_cycles(random, keep):
    timeline = random_timeline(random, keep)
    summary = timeline.summary()
    cycles = {row.cta: row.cycles for row in timeline.ctas}
    lost = {(row.cta, row.group) for row in timeline.rows if row.dropped}
    busy, gaps, before, behind = (defaultdict(list) for _ in range(4))
    for (cta, group, lane), rows in by(timeline.slices, "cta", "group", "lane").items():
        covered = stretches(rows)
        busy[group, lane] += [(cta, at) for begin, end in covered for at in range(begin, end)]
        gaps[group, lane] += [two[0] - one[1] for one, two in itertools.pairwise(covered)]
        if keep == "first" or (cta, group) not in lost:
            before[group, lane].append(covered[0][0])
        if keep == "last" or (cta, group) not in lost:
            behind[group, lane].append(cycles[cta] - covered[-1][1])
    assert {row[:2] for row in summary.lanes} == set(busy)
    for row in summary.lanes:
        own, key = gaps[row[:2]], row[:2]
        assert (row.busy, row.gaps, row.gap_total) == (len(busy[key]), len(own), sum(own))
        same([row.share], [len(busy[key]) / sum(cycles.values()) if sum(cycles.values()) else math.nan])
        same(
            [row.gap_mean, row.gap_min, row.gap_p50, row.gap_p95, row.gap_p99, row.gap_max],
            [np.mean(own), min(own), *percentiles(own), max(own)] if own else [math.nan] * 6,
        )
        sides = [np.mean(values[key]) if values[key] else math.nan for values in (before, behind)]
        same([row.before, row.behind], sides)

    def check(row, one, other):
        both, either = len(one & other), len(one | other)
        assert (row.both, row.either) == (both, either)
        same([row.share], [both / either if either else math.nan])

    lanes, groups = {key: set(cycles) for key, cycles in busy.items()}, defaultdict(set)
    for (group, _), own in lanes.items():
        groups[group] |= own
    assert len(summary.lane_overlaps) == math.comb(len(lanes), 2)
    for row in summary.lane_overlaps:
        check(row, lanes[row[:2]], lanes[row[2:4]])
    assert len(summary.group_overlaps) == math.comb(len(groups), 2)
    for row in summary.group_overlaps:
        check(row, groups[row.group], groups[row.other_group])


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_handoffs_agree_with_counting_at_every_cycle(random):
    timeline = random_timeline(random)
    starts = timeline.slices.start
    expected = by(timeline.flows, "src_group", "src", "dst_group", "dst")
    found = timeline.summary().handoffs
    assert len(found) == len(expected)
    for row in found:
        flows = expected[row[:4]]
        took = [flow.end - flow.start for flow in flows]
        assert (row.count, row.total) == (len(took), sum(took))
        same(row[6:12], [np.mean(took), min(took), *percentiles(took), max(took)])
        same([row.waited], [np.mean([starts[flow.dst_slice] < flow.start for flow in flows])])
        times = defaultdict(int)
        for own in by([flow for flow in flows if flow.end >= flow.start], "cta").values():
            for at in range(min(flow.start for flow in own), max(flow.end for flow in own)):
                times[sum(flow.start <= at < flow.end for flow in own)] += 1
        if times:
            same([row.depth_mean], [sum(d * t for d, t in times.items()) / sum(times.values())])
            assert times[row.depth_most] == max(times.values())
            assert row.depth_max >= max(times)  # hand-offs that take no time are in flight for none


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_the_load_of_sms_agrees_with_a_loop(random):
    timeline = random_timeline(random)
    own = by([row for row in timeline.ctas if row.finished], "sm")
    everything = [row for rows in own.values() for row in rows]
    load = [*timeline.summary().load]
    assert [row.sm for row in load] == sorted(sm for (sm,) in own)
    error = 0 if math.isnan(timeline.axis_error_ns) else timeline.axis_error_ns
    for row in load:
        rows = own[row.sm,]
        assert (row.ctas, row.cycles) == (len(rows), sum(one.cycles for one in rows))
        same([row.begin_ns, row.end_ns], [min(one.begin_ns for one in rows), max(one.end_ns for one in rows)])
        edges = sorted({t for one in rows for t in (one.begin_ns, one.end_ns)})
        busy = sum(b - a for a, b in itertools.pairwise(edges) if any(o.begin_ns <= a < o.end_ns for o in rows))
        span = max(one.end_ns for one in everything) - min(one.begin_ns for one in everything)
        assert row.busy_ns == pytest.approx(busy, rel=1e-9, abs=1e-6)
        assert row.share == pytest.approx(busy / span if span else math.nan, nan_ok=True, rel=1e-9)
        at_once = max(sum(o.begin_ns <= one.begin_ns < o.end_ns - error for o in rows) for one in rows)
        assert row.resident == max(at_once, 1)


# -- percentiles


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=60))
@settings(deadline=None)
def test_percentiles_of_groups_are_numpys(pairs):
    of, values = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    found = percentile_of_each(values, of, 5, [0, 50, 95, 99, 100])
    for group in range(5):
        own = values[of == group]
        same(found[:, group], np.percentile(own, [0, 50, 95, 99, 100]) if len(own) else [math.nan] * 5)


def test_percentiles_of_groups_in_turn_are_numpys():
    values = np.random.default_rng(0).integers(0, 1000, (40, 7))
    found = percentile_of_each(values.reshape(-1), np.tile(np.arange(7), 40), 7, [50, 95])
    assert np.array_equal(found, np.percentile(values, [50, 95], axis=0))


# -- iterations and phases


def loop(periods, ctas=3, payload=None, group="main"):
    """CTAs with a loop of one range whose iterations begin so far apart; the range takes half of it."""
    builder = Builder((ctas, 1, 1), (group,))
    for cta in range(ctas):
        now = 100
        for n, period in enumerate(periods):
            builder.slice(cta, group, "main", "body", now, now + period // 2, payload=payload and payload(cta, n))
            now += period
        builder.cycles[cta] = now + 50
    return builder


def test_prologue_steady_state_and_epilogue():
    summary = loop([400, 250, 100, 100, 110, 90, 100, 100, 100, 300, 300]).build().summary()
    phases = summary.iterations.phase.tolist()
    assert phases == ["prologue"] * 2 + ["steady"] * 7 + ["epilogue"] * 2
    (row,) = summary.phases
    # From the third iteration's start at 750 to the ninth one's end at 1,400, of 2,100 cycles.
    assert row == ("main", 11, 2, 8, 750, 650, 700)


@pytest.mark.parametrize("periods", [[100] * 5, [10, 20, 40, 80, 160, 320, 640, 1280], [*range(100, 400, 10)]])
def test_phases_that_cannot_be_told(periods):
    summary = loop(periods).build().summary()
    assert set(summary.iterations.phase) == {"untold"}
    assert len(summary.phases) == 0


def test_periods_that_take_turns_are_steady():
    summary = loop([900, 100, 100, 500] + [100, 100, 500] * 5).build().summary()
    assert summary.iterations.phase.tolist() == ["prologue"] + ["steady"] * 18


def test_ctas_with_different_numbers_of_iterations_have_no_phases():
    builder = loop([100] * 10)
    builder.slice(2, "main", "main", "body", 1200, 1210)
    assert set(builder.build().summary().iterations.phase) == {"untold"}


def test_payloads_that_count_number_the_iterations():
    table = loop([100] * 8, payload=lambda cta, n: n + 5).build().summary().iterations
    assert table.iteration.tolist() == [*range(5, 13)]
    assert set(table.by) == {"payload"}


@pytest.mark.parametrize(
    "payload",
    [lambda cta, n: 2 * n, lambda cta, n: n + 8 * cta, lambda cta, n: float(n), lambda cta, n: n % 4],
    ids=["twos", "another part in each CTA", "floats", "turns"],
)
def test_other_payloads_do_not(payload):
    table = loop([100] * 8, payload=payload).build().summary().iterations
    assert table.iteration.tolist() == [*range(8)]
    assert set(table.by) == {"occurrence"}


def test_a_ring_that_lost_events_is_numbered_by_payload_alone():
    builder = loop([100] * 8, payload=lambda cta, n: n + (3 if cta == 1 else 0))
    builder.lost[1, "main"] = 6
    timeline = builder.build()
    timeline.meta["keep"] = "last"
    table = timeline.summary().iterations
    assert (table.iteration.tolist(), table.count.tolist()) == ([*range(11)], [2] * 3 + [3] * 5 + [1] * 3)
    builder = loop([100] * 8)
    builder.lost[1, "main"] = 6
    timeline = builder.build()
    timeline.meta["keep"] = "last"
    assert timeline.summary().iterations.count.tolist() == [2] * 8


# -- pipelines


def test_a_back_edge_tells_the_depth_that_the_pipeline_was_built_with():
    found = {(row.src, row.dst): row for row in gemm(stages=3).summary().handoffs}
    forth, back = found["arrive", "wait"], found["release", "acquire"]
    assert (forth.built, forth.built_by, back.built, back.built_by) == (3, "back edge", 0, "")
    assert forth.depth_max <= 3
    timeline = gemm(stages=5)
    assert {row.built for row in timeline.summary().handoffs} == {0, 5}
    assert {(row.built, row.built_by) for row in timeline.summary(depth=7).handoffs} == {(7, "argument"), (0, "")}
    timeline.meta["depth"] = 6
    assert {(row.built, row.built_by) for row in timeline.summary().handoffs} == {(6, "meta"), (0, "")}


def test_a_depth_that_nothing_tells_is_unknown():
    with resources.as_file(resources.files("tileops") / "recordings" / "gemm_h200.tltrace") as path:
        timeline = Recording.load(path).decode()
    summary = timeline.summary()
    assert summary.handoffs.built.tolist() == [0, 0]
    assert "unknown" in str(summary)


@pytest.mark.parametrize("depth", [0, -1, 2.0, True, "3"])
def test_a_depth_that_is_none(depth):
    with pytest.raises(ValueError, match="depth must be the number of the pipeline's stages"):
        gemm().summary(depth=depth)


# -- what is missing


def test_self_time_of_a_ring_that_lost_the_range_around():
    builder = Builder((1, 1, 1), ("main",))
    builder.slice(0, "main", "main", "other", 0, 10)
    builder.slice(0, "main", "main", "inner", 20, 50, depth=1)  # what was around it is lost
    builder.slice(0, "main", "main", "outer", 60, 100)
    builder.slice(0, "main", "main", "inner", 70, 80, depth=1)
    own = {row.name: row[12] for row in builder.build().summary().ranges}
    assert own == {"other": 10, "inner": 40, "outer": 30}


def test_a_range_that_is_cut_everywhere_has_a_row_without_figures():
    builder = Builder((1, 1, 1), ("main",))
    builder.slice(0, "main", "main", "tail", 5, 9, cut=True)
    builder.lost[0, "main"] = 3
    summary = builder.build().summary()
    (row,) = summary.ranges
    assert (row.count, row.cut, row.total, row.share) == (0, 1, 0, 0)
    assert math.isnan(row.mean)
    assert math.isnan(row.p99)
    assert "3 events were dropped" in str(summary)


def test_times_are_unknown_where_the_clock_is():
    builder = Builder((2, 1, 1), ("main",), ghz=float("nan"))
    builder.begin_ns[:] = np.nan
    builder.sm[:] = 3
    builder.slice(0, "main", "main", "body", 5, 9)
    summary = builder.build(axis_error_ns=float("nan")).summary()
    (row,) = summary.load
    assert (row.sm, row.ctas, row.resident) == (3, 2, 0)
    assert math.isnan(row.busy_ns)
    assert math.isnan(row.share)
    assert math.isnan(summary.span_ns)
    assert summary.ranges.mean.tolist() == [4]
    assert "nan" not in str(summary)


@pytest.mark.parametrize("make", [empty, hostile, nested, troubled, waves], ids=lambda make: make.__name__)
def test_every_table_of_odd_timelines(make):
    timeline = make()
    summary = timeline.summary()
    for name in TABLES:
        table = getattr(summary, name)
        assert len([*table]) == len(table)
    assert str(summary) == repr(summary)
    assert all(line.isprintable() for line in str(summary).splitlines())


def test_nothing_but_unfinished_ctas():
    builder = Builder((2, 1, 1), ("main",), cycles=100)
    builder.unfinished |= {0, 1}
    summary = builder.build().summary()
    assert [len(getattr(summary, name)) for name in TABLES] == [0] * len(TABLES)
    assert "2 CTAs did not finish" in str(summary)


# -- large ones


@pytest.mark.parametrize("lanes", [13, 59, 60, 61, 130])
def test_overlaps_of_many_lanes(lanes):
    random = np.random.default_rng(lanes)
    builder = Builder((2, 1, 1), ("main",))
    busy = defaultdict(set)
    for cta in range(2):
        for lane in range(lanes):
            for begin in (0, 100):
                start = begin + int(random.integers(0, 40))
                end = start + int(random.integers(0, 60))
                builder.slice(cta, "main", f"lane {lane}", "body", start, end)
                busy[f"lane {lane}"] |= {(cta, at) for at in range(start, end)}
    for row in builder.build().summary().lane_overlaps:
        assert row.both == len(busy[row.lane] & busy[row.other_lane])
        assert row.either == len(busy[row.lane] | busy[row.other_lane])


def test_blocks_change_nothing(monkeypatch):
    timeline = gemm(grid=(3, 2, 1), iterations=9)
    whole = timeline.summary()
    for size in (1, 7, 50, 100, 130, 1000):
        monkeypatch.setattr(numbering, "_BLOCK", size)
        parts = timeline.summary()
        for name in TABLES:
            one, other = getattr(whole, name), getattr(parts, name)
            assert one.column_names == other.column_names
            for column in one.column_names:
                texts = one.codes(column).dtype != float
                assert np.array_equal(one.codes(column), other.codes(column), equal_nan=not texts)


def test_columns_that_are_made_on_demand_are_not_kept():
    with resources.as_file(resources.files("tileops") / "recordings" / "gemm_h200.tltrace") as path:
        timeline = Recording.load(path).decode()
    summary = timeline.summary()
    for name in TABLES:
        getattr(summary, name)
    for table in (timeline.slices, timeline.flows):
        made = [column for column, kept in table._columns.items() if not callable(kept)]
        assert not {"group", "lane", "name", "payload", "start_ns", "src", "dst"} & set(made)


def test_rows_of_a_lane_come_in_order_of_first_occurrence():
    builder = Builder((1, 1, 1), ("main",))
    for n, name in enumerate(("zeta", "alpha", "mid", "zeta")):
        builder.slice(0, "main", "main", name, n, n + 1)
    assert builder.build().summary().ranges.name.tolist() == ["zeta", "alpha", "mid"]


def test_more_ranges_than_sixteen_bits_number(monkeypatch):
    builder = Builder((1, 1, 1), ("main",))
    count = (1 << 16) + 10
    for n in range(count):
        builder.slice(0, "main", "main", f"range {n % (count - 5)}", n, n + 1)
    # Vocabularies are looked up one by one in the builder; that many would take minutes.
    names = {f"range {n}": n for n in range(count - 5)}
    monkeypatch.setattr(synthetic, "_vocabulary", lambda rows, column: _Texts(names) if column == "name" else ("main",))
    table = builder.build().summary().ranges
    assert len(table) == count - 5
    assert table.count.tolist() == [2] * 5 + [1] * (count - 10)


class _Texts(tuple):
    """A vocabulary whose ``index`` is quick."""

    def __new__(cls, texts):
        made = super().__new__(cls, texts)
        made.places = dict(texts)
        return made

    def index(self, text):
        return self.places[text]
