"""What the tooltip and the crosshair say where the pointer is in a CTA's figure."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from . import synthetic
from .opened import (
    Opened,
    box_of,
    choose_unit,
    cycles_a_pixel,
    integer,
    middle_of,
    number,
    row_clock,
    tenths,
)

Show = Callable[..., Opened]


def test_hover_tells_name_cycles_nanoseconds_and_payload(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((2, 1, 1), 12)
    opened = show(timeline)
    opened.open(1)
    for name, occurrence in (("mma", 5), ("wait", 0), ("epilogue", 0), ("store", 0)):
        row = list(timeline.slices.where(cta=1, name=name))[occurrence]
        text = opened.hover(*opened.place(middle_of(row), row.group, row.lane, row.depth))
        ghz = timeline.ctas["ghz"][1]
        end = row.start + row.duration
        assert text.split("\n")[:2] == [name, f"{row.group} / {row.lane}"]
        assert re.search(rf"start\t{integer(row.start)}\t{tenths(row.start / ghz)}\t{tenths(row.start_ns)}\n", text)
        assert re.search(rf"end\t{integer(end)}\t{tenths(end / ghz)}\t{tenths(row.start_ns + row.duration_ns)}\n", text)
        assert f"duration\t{integer(row.duration)}\t{tenths(row.duration_ns)}" in text
        assert re.findall(r"payload (.*)", text) == ([] if row.payload is None else [integer(row.payload)])
    assert opened.hover(5, 5) == ""


def test_hover_on_an_arrow_tells_the_hand_off(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((1, 1, 1), 12)
    opened = show(timeline)
    row = next(row for row in timeline.flows if row.src == "arrive" and row.occurrence == 7)
    x0, y0 = opened.place(row.start, "producer", "barrier")
    x1, y1 = opened.place(row.end, "consumer", "barrier")
    # From the lower edge of one bar to the upper edge of the other, 11 px from their middles. Two thirds of the way
    # down it crosses the row of an epilogue that is still to come.
    y0, y1 = y0 + 11, y1 - 11
    text = opened.hover(x0 + 2 / 3 * (x1 - x0), y0 + 2 / 3 * (y1 - y0))
    assert text.split("\n")[:2] == ["arrive → wait #7", "producer / barrier → consumer / barrier"]
    latency = row.end - row.start
    assert f"hand-off\t{integer(latency)}\t{tenths(row.end_ns - row.start_ns)}\t\n" in text
    assert f"leaves\t{integer(row.start)}\t" in text
    assert f"arrives\t{integer(row.end)}\t" in text


def test_hover_on_an_instant(show: Callable[..., Opened]) -> None:
    timeline = synthetic.troubled()
    opened = show(timeline)
    opened.open(5)
    x, y = opened.place(700, "consumer", "main")
    text = opened.hover(x, y - 14)
    assert text.startswith("mark\nconsumer / main\n")
    assert f"at\t700\t{tenths(700 / 1.75)}\t{tenths(timeline.instants['time_ns'][0])}" in text
    assert "payload 2.5" in text


def test_the_crosshair_tells_the_time(show: Show) -> None:
    timeline = synthetic.gemm((1, 1, 1), 8)
    opened = show(timeline)
    page = opened.page
    cross, said = page.locator("#figure .cross"), page.locator("#figure .cross .said")
    assert not cross.is_visible()
    y = opened.place(0, "producer", "tma")[1]
    ghz, begin = row_clock(timeline), timeline.ctas["begin_ns"][0]
    whole = opened.range
    for key, scale, offset in (("cycles", 1, 0), ("ns", 1 / ghz, 0), ("gpu", 1 / ghz, begin)):
        choose_unit(opened, key)
        pixel = cycles_a_pixel(opened)
        low, high = opened.range
        assert [low, high] == pytest.approx([offset + scale * end for end in whole])
        for part in (0.05, 0.5, 0.98):
            value = low + part * (high - low)
            x = opened.across(value)
            page.mouse.move(x, y)
            assert said.inner_text().endswith(" cycles" if key == "cycles" else " ns")
            assert number(said.inner_text()) == pytest.approx(value, abs=1.5 * pixel)
            assert box_of(cross)["x"] == pytest.approx(x, abs=1.5)
            box, figure = box_of(said), box_of(page.locator("#figure"))
            assert figure["x"] <= box["x"]
            assert box["x"] + box["width"] <= figure["x"] + figure["width"]
    page.mouse.move(5, 5)
    assert not cross.is_visible()
    # Not over the rows' names.
    page.mouse.move(box_of(page.locator("#figure"))["x"] + 20, y)
    assert not cross.is_visible()
