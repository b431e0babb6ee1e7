"""The table below the figure: totals of a CTA or of a selected span, held against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from . import synthetic
from .opened import (
    Opened,
    check_table,
    cycles_a_pixel,
    integer,
    number,
    span_of,
    wait_for,
)

Show = Callable[..., Opened]


def test_the_table_adds_up(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((2, 1, 1), 30)
    opened = show(timeline)
    opened.open(1)
    slices, cycles = timeline.slices.where(cta=1), timeline.ctas["cycles"][1]
    rows = [line.split("\t") for line in opened.page.locator("#totals tr").all_inner_texts()]
    assert len(rows) == len(set(zip(slices["group"], slices["lane"], slices["name"])))
    for name, row, count, total, mean, p50, p95, most, share in rows:
        group, lane = row.split(" / ")
        durations = slices.where(group=group, lane=lane, name=name)["duration"]
        wanted = (len(durations), durations.sum(), durations.mean(), *np.percentile(durations, (50, 95)))
        assert [count, total, mean, p50, p95, most] == [integer(value) for value in (*wanted, durations.max())]
        assert share.strip() == f"{100 * durations.sum() / cycles:.1f}%"


def test_a_selected_span_has_its_totals(show: Show) -> None:
    timeline = synthetic.gemm((2, 1, 1), 30)
    opened = show(timeline)
    page = opened.page
    opened.open(1)
    opened.settle()
    check_table(opened, timeline, 1)
    y = opened.place(0, "consumer", "wgmma")[1]
    page.keyboard.press("s")
    assert page.locator("#select").get_attribute("aria-pressed") == "true"
    low, high = opened.range
    # To the right, to the left, and out of the figure on the right.
    for begin, end in ((0.21, 0.43), (0.9, 0.12), (0.8, 1.05)):
        begin, end = (low + part * (high - low) for part in (begin, end))
        opened.drag((opened.across(begin), y), (opened.across(end), y + 20))
        span = span_of(opened, "selection")
        assert span == pytest.approx(sorted((begin, end)), abs=2 * cycles_a_pixel(opened))
        check_table(opened, timeline, 1, span)
        assert opened.marks == (f"{integer(span[1] - span[0])} cycles", "")
        assert page.locator("#summary-share").inner_text() == "Share of selection"
        assert opened.range == [low, high]
    # Another CTA has nothing selected; a click takes a selection back.
    opened.open(0)
    assert opened.marks == ("", "")
    check_table(opened, timeline, 0)
    opened.drag((opened.across(500), y), (opened.across(3000), y))
    assert opened.marks[0]
    page.mouse.click(opened.across(1000), y)
    assert opened.marks == ("", "")
    assert "selection" not in opened.state()
    check_table(opened, timeline, 0)
    assert page.locator("#summary-share").inner_text() == "Share of CTA"


def test_a_span_across_cut_ranges(show: Show) -> None:
    timeline = synthetic.troubled()
    opened = show(timeline, fragment="#cta=1&selection=1702_1900")
    check_table(opened, timeline, 1, (1702, 1900))

    def go(cta: int, low: int, high: int) -> None:
        opened.page.evaluate("fragment => { location.hash = fragment; }", f"#cta={cta}&selection={low}_{high}")
        wait_for(opened.page, f"String(tileops.state.selection) === '{low},{high}'")
        check_table(opened, timeline, cta, (low, high))

    go(1, 200, 1000)
    go(1, 1900, 1950)
    assert opened.page.locator("#totals tr").count() == 0
    go(5, 900, 950)  # a range of no length, at the span's begin
    assert opened.table()["nothing", "consumer / main"][:2] == ["1", "0"]


def test_the_table_is_sorted_by_any_column(show: Show) -> None:
    opened = show(synthetic.gemm((1, 1, 1), 30))
    page = opened.page
    first = opened.table()
    headings = page.locator("#summary-head th")
    titles = headings.all_inner_texts()
    assert titles == ["Range", "Row", "Count", "Total", "Mean", "p50", "p95", "Max", "Share of CTA"]
    for at, title in enumerate(titles):
        button = headings.nth(at).locator("button")
        for direction in ("ascending", "descending") if at < 2 else ("descending", "ascending"):
            button.click()
            assert [heading.get_attribute("aria-sort") for heading in headings.all()] == [
                direction if other == at else None for other in range(len(titles))
            ]
            table = opened.table()
            assert sorted(table.items()) == sorted(first.items())
            keys = [key[at] if at < 2 else number(cells[at - 2]) for key, cells in table.items()]
            assert keys == sorted(keys, reverse=direction == "descending")
        button.click()
        assert list(opened.table().items()) == list(first.items())
    # The order stays with another CTA and another selection.
    page.get_by_role("button", name="Total", exact=True).focus()
    page.keyboard.press("Enter")
    page.evaluate("location.hash = '#selection=1000_9000'")
    page.wait_for_selector("#summary.selected")
    totals = [number(cells[1]) for cells in opened.table().values()]
    assert totals == sorted(totals, reverse=True)
