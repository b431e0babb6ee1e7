"""The summary, on Timelines made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tileops.trace import Table, Timeline
from tileops.trace.summary import summarize

EMPTY = Table({"cta": np.zeros(0, int)})


def timeline(ranges, cycles, finished=None):
    """A Timeline of (group, lane, name, duration, cut) ranges in CTAs that took ``cycles``."""
    columns, vocabularies = {}, {}
    for position, key in enumerate(("group", "lane", "name")):
        texts = [entry[position] for entry in ranges]
        vocabularies[key] = tuple(dict.fromkeys(texts))
        columns[key] = np.array([vocabularies[key].index(text) for text in texts], dtype=np.uint16)
    columns["duration"] = np.array([entry[3] for entry in ranges], dtype=np.int64)
    columns["cut"] = np.array([entry[4] for entry in ranges], dtype=bool)
    ctas = {
        "cycles": np.array(cycles, dtype=np.int64),
        "finished": np.array(finished or [True] * len(cycles), dtype=bool),
    }
    return Timeline(
        slices=Table(columns, vocabularies), instants=EMPTY, flows=EMPTY, rows=EMPTY, ctas=Table(ctas),
        grid=(len(cycles), 1, 1), groups=vocabularies["group"],
    )  # fmt: skip


def test_counts_means_and_shares_over_all_ctas():
    table = summarize(
        timeline(
            [
                ("producer", "tma", "tma", 30, False),
                ("producer", "barrier", "arrive", 10, False),
                ("consumer", "barrier", "wait", 40, False),
                ("consumer", "wgmma", "mma", 100, False),
                ("producer", "tma", "tma", 50, False),
                ("consumer", "barrier", "wait", 20, False),
            ],
            cycles=[150, 250],
        )
    )
    assert [tuple(row) for row in table] == [
        ("producer", "tma", "tma", 2, 40.0, 80.0, 0.2),
        ("producer", "barrier", "arrive", 1, 10.0, 10.0, 0.025),
        ("consumer", "barrier", "wait", 2, 30.0, 60.0, 0.15),
        ("consumer", "wgmma", "mma", 1, 100.0, 100.0, 0.25),
    ]


def test_one_name_on_two_lanes_or_in_two_groups_is_two_rows():
    names = [(g, lane, "wait", 1, False) for g in ("a", "b") for lane in ("x", "y")]
    assert [row[:4] for row in summarize(timeline(names * 3, [100]))] == [(g, lane, n, 3) for g, lane, n, *_ in names]


def test_rows_of_a_lane_come_in_order_of_first_occurrence():
    ranges = [("g", "main", name, 1, False) for name in ("zeta", "alpha", "mid", "zeta")]
    assert summarize(timeline(ranges, [10])).name.tolist() == ["zeta", "alpha", "mid"]


def test_cut_ranges_and_unfinished_ctas_do_not_count():
    ranges = [("g", "main", "body", 10, False), ("g", "main", "body", 3, True), ("g", "main", "tail", 1, True)]
    (row,) = summarize(timeline(ranges, cycles=[40, 1_000], finished=[True, False]))
    assert (row.name, row.count, row.mean, row.share) == ("body", 1, 10.0, 0.25)


def test_no_ranges_give_no_rows():
    assert len(summarize(timeline([], [100]))) == 0


def test_unknown_cycles_give_an_unknown_share():
    (row,) = summarize(timeline([("g", "main", "body", 10, False)], cycles=[0]))
    assert math.isnan(row.share)
    assert row.mean == 10


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_a_loop(seed):
    random = np.random.default_rng(seed)
    ranges = [
        (f"g{g}", f"l{lane}", f"n{n}", int(duration), bool(cut))
        for g, lane, n, duration, cut in zip(
            random.integers(0, 3, 500), random.integers(0, 3, 500), random.integers(0, 5, 500),
            random.integers(0, 10_000, 500), random.random(500) < 0.1,
        )
    ]  # fmt: skip
    expected: dict[tuple[str, str, str], list[int]] = {}
    for *key, duration, cut in ranges:
        if not cut:
            expected.setdefault(tuple(key), []).append(duration)
    table = summarize(timeline(ranges, [7_000, 9_000]))
    assert len(table) == len(expected)
    for row in table:
        durations = expected[row.group, row.lane, row.name]
        assert (row.count, row.total) == (len(durations), sum(durations))
        assert row.mean == pytest.approx(sum(durations) / len(durations))
        assert row.share == pytest.approx(sum(durations) / 16_000)
