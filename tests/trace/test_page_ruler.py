"""The ruler, in the figure and on the map, and where the marks stand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import synthetic
from .opened import (
    Opened,
    box_of,
    choose_unit,
    cycles_a_pixel,
    integer,
    lines_of,
    number,
    row_clock,
    span_of,
    tenths,
    wait_for,
)

Show = Callable[..., Opened]


def test_the_ruler_snaps_to_edges_but_not_with_alt(show: Show) -> None:
    timeline = synthetic.gemm((1, 1, 1), 8)
    opened = show(timeline)
    page = opened.page
    row = list(timeline.slices.where(name="mma"))[3]
    end = row.start + row.duration
    (x0, y), (x1, _) = (opened.place(time, row.group, row.lane) for time in (row.start, end))
    page.keyboard.press("r")
    assert page.locator("#ruler").get_attribute("aria-pressed") == "true"
    opened.drag((x0 + 5, y), (x1 - 5, y))
    assert span_of(opened, "ruler") == (row.start, end)
    assert opened.marks == ("", f"{integer(row.duration)} cycles")
    page.keyboard.down("Alt")
    opened.drag((x0 + 5, y), (x1 - 5, y))
    page.keyboard.up("Alt")
    pixel = cycles_a_pixel(opened)
    begin, finish = span_of(opened, "ruler")
    assert begin - row.start == pytest.approx(5 * pixel, abs=1.5 * pixel)
    assert end - finish == pytest.approx(5 * pixel, abs=1.5 * pixel)
    assert number(opened.marks[1]) == pytest.approx(finish - begin, abs=0.5)
    # Two clicks: the second point follows the pointer in between. A drag to the left measures as much.
    page.mouse.click(x1 - 3, y)
    page.mouse.move((x0 + x1) / 2, y)
    assert 0 < number(opened.marks[1]) < row.duration
    page.mouse.click(x0 + 3, y)
    page.mouse.move((x0 + x1) / 2, y)
    assert opened.marks[1] == f"{integer(row.duration)} cycles"
    # In nanoseconds, and away from any edge.
    choose_unit(opened, "ns")
    assert opened.marks[1] == f"{tenths(row.duration / row_clock(timeline))} ns"
    choose_unit(opened, "cycles")
    # It goes with Esc, and does not come back with the pointer.
    page.mouse.click(x0, y)
    page.keyboard.press("Escape")
    page.mouse.move(x0 + 50, y)
    page.mouse.move(x0 + 90, y)
    assert opened.marks == ("", "")
    assert "ruler" not in opened.state()
    # With another tool, drags pan again.
    page.keyboard.press("v")
    page.locator("#zoom-in").click()
    opened.settle()
    before = opened.range
    opened.drag((x0, y), (x0 - 60, y))
    page.wait_for_timeout(400)
    assert opened.range[0] > before[0]
    assert opened.marks == ("", "")


def test_marks_stay_where_their_times_are(show: Show) -> None:
    opened = show(synthetic.gemm((1, 1, 1), 20), fragment="#selection=3000_5000&ruler=4000_6000")
    page = opened.page

    def check() -> None:
        band, points = box_of(page.locator("#figure .selection")), page.locator("#figure .marks .point")
        low, high = opened.range
        assert band["x"] == pytest.approx(opened.across(max(low, 3000)), abs=2.5)
        assert band["x"] + band["width"] == pytest.approx(opened.across(min(high, 5000)), abs=2.5)
        assert box_of(points.nth(0))["x"] == pytest.approx(opened.across(4000), abs=2.5)
        assert points.nth(1).is_visible() == (high >= 6000)

    check()
    opened.page.evaluate("location.hash = '#span=3500_5500&selection=3000_5000&ruler=4000_6000'")
    wait_for(page, "Math.abs(tileops.figure.range[0] - 3500) < 1")
    opened.settle()
    check()
    page.set_viewport_size({"width": 900, "height": 900})
    wait_for(page, "Math.abs(tileops.figure.width - document.querySelector('#figure').clientWidth) < 1")
    opened.settle()
    check()
    page.keyboard.press("0")
    opened.settle()
    check()
    assert opened.marks == ("2,000 cycles", "2,000 cycles")


def test_a_ruler_on_the_map(show: Show) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    page = opened.page
    opened.open_map()
    row, lines = list(timeline.ctas)[12], lines_of(timeline)
    y = opened.map_down(row.sm, lines[12])
    page.locator("#gpu-ruler").click()
    assert page.locator("#gpu-ruler").get_attribute("aria-pressed") == "true"
    whole = opened.map_range
    opened.drag((opened.map_across(row.begin_ns) + 3, y), (opened.map_across(row.end_ns) - 3, y))
    said = page.locator("#map .tape .said")
    assert said.inner_text() == f"{tenths(row.end_ns - row.begin_ns)} ns"
    assert opened.map_range == whole
    assert page.locator("#gpu-panel").is_visible()
    page.keyboard.press("Escape")
    assert not said.is_visible()
    page.locator("#gpu-pan").click()
    page.mouse.click(*opened.map_place(row, lines))
    assert page.locator("#cta").inner_text() == f"CTA ({row.x}, {row.y}) #12"
