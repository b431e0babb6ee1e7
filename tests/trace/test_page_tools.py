"""What a user does with a CTA's figure, its table and its tabs, in real Chromium, by mouse and keyboard."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tileops.trace import Table, Timeline

from . import synthetic
from .opened import MINUS, MISSING, Opened, box_of, integer, lines_of, middle_of, number, spelled, tenths, wait_for

Show = Callable[..., Opened]


def labelled() -> Timeline:
    """One CTA with room for labels: payloads of either kind and none, a range of no length, one cut, an instant."""
    builder = synthetic.Builder((1, 1, 1), ("main",), cycles=10_000)
    builder.slice(0, "main", "one", "whole", 100, 2100, payload=-42)
    builder.slice(0, "main", "one", "real", 2200, 4200, payload=0.5)
    builder.slice(0, "main", "one", "plain", 4300, 6300)
    builder.slice(0, "main", "two", "point", 5000, 5000)
    builder.slice(0, "main", "two", "torn", 7000, 9000, payload=7, cut=True)
    builder.instant(0, "main", "two", "tick", 3000)
    return builder.build()


def clockless() -> Timeline:
    """Three CTAs, of which the second's clock is not known."""
    timeline = synthetic.gemm((3, 1, 1), 8)
    columns = {name: timeline.ctas[name].copy() for name in timeline.ctas.column_names}
    for name in ("ghz", "begin_ns", "end_ns"):
        columns[name][1] = np.nan
    return replace(timeline, ctas=Table(columns))


def choose_unit(opened: Opened, key: str) -> None:
    opened.page.locator("#unit").select_option(value=key)
    opened.settle()
    opened.page.locator("#unit").blur()


def span_of(opened: Opened, key: str) -> tuple[float, float]:
    low, high = opened.state()[key][0].split("_")
    return float(low), float(high)


def cycles_a_pixel(opened: Opened) -> float:
    low, high = opened.range
    return (high - low) / box_of(opened.page.locator("#figure .nsewdrag"))["width"]


def canvas_texts(opened: Opened) -> list[str]:
    """What the canvas of a figure says."""
    return opened.page.evaluate(
        """() => {
          const prototype = CanvasRenderingContext2D.prototype;
          const { fillText } = prototype;
          const texts = [];
          prototype.fillText = function (text, ...place) { texts.push(text); fillText.call(this, text, ...place); };
          tileops.figure.draw();
          Object.assign(prototype, { fillText });
          return texts;
        }"""
    )


def opacity(opened: Opened, x: float, y: float) -> int:
    """How opaque the figure's canvas is at a place, from 0 to 255."""
    return opened.page.evaluate(
        """([x, y]) => {
          const { canvas } = tileops.figure;
          const box = canvas.getBoundingClientRect();
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
          copy.drawImage(canvas, 0, 0);
          return copy.getImageData(Math.floor(x - box.x), Math.floor(y - box.y), 1, 1).data[3];
        }""",
        [x, y],
    )


# ---------------------------------------------------------------------------------------------------------------------
# The table


def check_table(
    opened: Opened, timeline: Timeline, cta: int, span: tuple[float, float] | None = None, scale: float = 1.0
) -> None:
    """Holds the table against NumPy, in cycles or in units of `scale` a cycle."""
    low, high = span or (-np.inf, np.inf)
    step = 1.0 if scale == 1 else 0.1
    slices = timeline.slices.where(cta=cta)
    table, wanted = opened.table(), set()
    for group, lane, name in dict.fromkeys(zip(slices["group"], slices["lane"], slices["name"])):
        some = slices.where(group=group, lane=lane, name=name)
        begin, end = some["start"], some["start"] + some["duration"]
        part = (begin < high) & ((end > low) | ((begin == end) & (begin >= low)))
        whole = part & ~some["cut"]
        inside = some["duration"][whole & (begin >= low) & (end <= high)]
        if not part.any():
            continue
        wanted.add((name, f"{group} / {lane}"))
        count, *numbers, share = table[name, f"{group} / {lane}"]
        cut = int((part & some["cut"]).sum())
        assert count == integer(whole.sum()) + (f" + {cut} cut" if cut else "")
        total = (np.minimum(end, high) - np.maximum(begin, low))[whole].sum() if whole.any() else np.nan
        values = [total, *[np.nan] * 4]
        if len(inside):
            values[1:] = inside.mean(), *np.percentile(inside, (50, 95)), inside.max()
        for text, value in zip(numbers, values, strict=True):
            if np.isnan(value):
                assert text == MISSING
            else:
                assert number(text) == pytest.approx(value * scale, abs=0.51 * step)
        part_of = total / (high - low if span else timeline.ctas["cycles"][cta])
        assert share == MISSING if np.isnan(part_of) else number(share) == pytest.approx(100 * part_of, abs=0.051)
    assert set(table) == wanted


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
    for span in ((1702, 1900), (200, 1000), (1900, 1950)):
        opened = show(timeline, fragment=f"#cta=1&selection={span[0]}_{span[1]}")
        check_table(opened, timeline, 1, span)
    assert opened.page.locator("#totals tr").count() == 0
    opened = show(timeline, fragment="#cta=5&selection=900_950")
    check_table(opened, timeline, 5, (900, 950))  # a range of no length, at the span's begin
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


# ---------------------------------------------------------------------------------------------------------------------
# Marks


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


def row_clock(timeline: Timeline) -> float:
    return timeline.ctas["ghz"][0]


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


def test_the_minimap_moves_what_is_shown(show: Show) -> None:
    opened = show(synthetic.gemm((1, 1, 1), 60))
    page = opened.page
    whole = opened.range
    box = box_of(page.locator("#minimap"))
    y = box["y"] + box["height"] / 2

    def at(part: float) -> tuple[float, float]:
        return box["x"] + part * box["width"], y

    def look() -> tuple[float, float]:
        """What is shown, in parts of the whole; the minimap's window says the same."""
        opened.settle()
        low, high = ((end - whole[0]) / (whole[1] - whole[0]) for end in opened.range)
        window = box_of(page.locator("#minimap .window"))
        assert window["x"] == pytest.approx(at(low)[0], abs=2)
        assert window["x"] + window["width"] == pytest.approx(at(high)[0], abs=2)
        return low, high

    near = 2.5 / box["width"]
    assert look() == pytest.approx((0, 1), abs=near)
    # Where all is in view, a drag chooses a part, in either direction.
    opened.drag(at(0.6), at(0.3))
    assert look() == pytest.approx((0.3, 0.6), abs=near)
    # The window, then its edges.
    opened.drag(at(0.4), at(0.6))
    assert look() == pytest.approx((0.5, 0.8), abs=near)
    opened.drag(at(0.8), at(0.7))
    assert look() == pytest.approx((0.5, 0.7), abs=near)
    opened.drag(at(0.5), at(0.45))
    assert look() == pytest.approx((0.45, 0.7), abs=near)
    # It keeps within the CTA.
    opened.drag(at(0.5), at(1.4))
    assert look() == pytest.approx((0.75, 1), abs=near)
    # A click beside it is where its middle goes.
    page.mouse.click(*at(0.25))
    assert look() == pytest.approx((0.125, 0.375), abs=near)
    page.keyboard.press("0")
    assert look() == pytest.approx((0, 1), abs=near)
    page.mouse.click(*at(0.5))
    assert look() == pytest.approx((0, 1), abs=near)


# ---------------------------------------------------------------------------------------------------------------------
# Finding


def chosen(opened: Opened, timeline: Timeline, cta: int) -> Any:
    """The range that is chosen, as the address has it."""
    return list(timeline.slices.where(cta=cta))[int(opened.state()["slice"][0])]


def test_search_goes_from_one_occurrence_to_the_next(show: Show) -> None:
    timeline = synthetic.gemm((2, 1, 1), 12)
    opened = show(timeline)
    page = opened.page
    starts = sorted(timeline.slices.where(cta=0, name="mma")["start"])
    hits = page.locator("#hits")
    page.keyboard.press("/")
    assert page.locator("#search").evaluate("one => one === document.activeElement")
    page.keyboard.type("WGMMA mm")
    assert hits.inner_text() == "12 here"
    for at in (0, 1, 2):
        page.keyboard.press("Enter")
        assert hits.inner_text() == f"{at + 1} of 12"
        assert chosen(opened, timeline, 0).start == starts[at]
    page.keyboard.press("Shift+Enter")
    assert hits.inner_text() == "2 of 12"
    # In the box, letters are letters.
    page.keyboard.press("a")
    assert page.locator("#search").input_value() == "WGMMA mma"
    page.keyboard.press("Tab")
    for key, at in (("n", 2), ("p", 1), ("p", 0), ("p", 11), ("p", 10), ("n", 11), ("n", 0)):
        page.keyboard.press(key)
        assert hits.inner_text() == f"{at + 1} of 12"
    page.locator("#before").click()
    assert hits.inner_text() == "12 of 12"
    page.locator("#after").click()
    row = chosen(opened, timeline, 0)
    assert (row.name, row.start) == ("mma", starts[0])
    # What is not named is faint.
    mma = opened.place(middle_of(row), "consumer", "wgmma")
    other = next(iter(timeline.slices.where(cta=0, name="prologue")))
    prologue = opened.place(middle_of(other), "consumer", "main")
    assert opacity(opened, mma[0], mma[1] + 9) == 255
    assert 0 < opacity(opened, prologue[0], prologue[1] + 9) < 80
    # Another CTA: the search stays, the choice does not.
    opened.open(1)
    assert hits.inner_text() == "12 here"
    for text, said in (("nothing like this", "0 here"), ("(", "0 here"), ("\\", "0 here"), ("store", "1 here")):
        page.locator("#search").fill(text)
        assert hits.inner_text() == said
        assert page.locator("#after").is_disabled() == (said == "0 here")
        page.locator("#search").press("Enter")
    assert hits.inner_text() == "1 of 1"
    page.locator("#search").press("Escape")
    assert page.locator("#search").input_value() == ""
    assert not page.locator("#search").evaluate("one => one === document.activeElement")
    assert "find" not in opened.state()


def test_what_is_gone_to_comes_into_view(show: Show) -> None:
    timeline = synthetic.gemm((1, 1, 1), 40)
    opened = show(timeline, fragment="#span=2000_3500&find=mma")
    page = opened.page
    starts = np.sort(timeline.slices.where(name="mma")["start"])
    # From what is in view, not from the first.
    page.keyboard.press("n")
    row = chosen(opened, timeline, 0)
    assert row.start == starts[starts >= 2000][0]
    for _ in range(6):
        page.keyboard.press("n")
        opened.settle()
        low, high = opened.range
        row = chosen(opened, timeline, 0)
        assert low <= row.start
        assert row.start + row.duration <= high
        assert high - low == pytest.approx(1500, rel=0.01)
    # One that is wider than the view has all of itself shown.
    page.locator("#search").fill("epilogue")
    page.locator("#search").press("Enter")
    opened.settle()
    row = chosen(opened, timeline, 0)
    assert opened.range[0] <= row.start
    assert row.start + row.duration <= opened.range[1]


def test_next_and_previous_of_a_range_that_was_clicked(show: Show) -> None:
    timeline = synthetic.gemm((1, 1, 1), 12)
    opened = show(timeline)
    page = opened.page
    page.keyboard.press("n")
    assert "Click a range" in page.locator("#hits").inner_text()
    rows = sorted(timeline.slices.where(name="mma"), key=lambda row: row.start)
    page.mouse.click(*opened.place(middle_of(rows[4]), "consumer", "wgmma"))
    page.wait_for_timeout(350)
    assert page.locator("#hits").inner_text() == "5 of 12"
    for key, at in (("n", 5), ("n", 6), ("p", 5)):
        page.keyboard.press(key)
        assert page.locator("#hits").inner_text() == f"{at + 1} of 12"
        assert chosen(opened, timeline, 0).start == rows[at].start
    # What the legend hides is not gone to.
    opened.chip("mma").click()
    assert page.locator("#hits").inner_text() == "0 here"
    opened.chip("mma").click()
    assert page.locator("#hits").inner_text() == "6 of 12"
    # A click beside all ranges chooses none.
    page.mouse.click(*opened.place(middle_of(rows[4]), "consumer", "main"))
    page.wait_for_timeout(350)
    assert page.locator("#hits").inner_text() == ""
    assert "slice" not in opened.state()


def test_escape_takes_back_one_after_the_other(show: Show) -> None:
    fragment = "#ruler=100_900&selection=1000_2000&slice=3&find=mma&span=0_4000"
    opened = show(synthetic.gemm((1, 1, 1), 12), fragment=fragment)
    left = ["ruler", "selection", "slice", "find"]
    while True:
        assert set(opened.state()) == {"cta", "span", *left}
        if not left:
            break
        opened.page.keyboard.press("Escape")
        del left[0]
    assert opened.page.locator("#search").input_value() == ""
    opened.page.keyboard.press("Escape")
    assert set(opened.state()) == {"cta", "span"}


def test_keys_zoom_pan_and_switch(show: Show) -> None:
    timeline = synthetic.gemm((4, 1, 1), 20)
    opened = show(timeline)
    page = opened.page
    whole = opened.range

    def press(key: str) -> list[float]:
        page.keyboard.press(key)
        opened.settle()
        return opened.range

    width = whole[1] - whole[0]
    for near, far in (("+", "-"), ("=", "-"), ("w", "-")):
        low, high = press(near)
        assert high - low == pytest.approx(width / 2)
        assert low + high == pytest.approx(sum(whole))
        assert press(far) == pytest.approx(whole)
    near = press("+")
    for key, step in (("ArrowRight", 0.2), ("ArrowLeft", -0.2), ("d", 0.2), ("a", -0.2)):
        before = opened.range
        assert press(key) == pytest.approx([end + step * (near[1] - near[0]) for end in before])
    for _ in range(9):
        press("ArrowRight")
    assert opened.range[1] == pytest.approx(whole[1])
    assert press("0") == pytest.approx(whole)
    # f and m do nothing without a choice; with one, m selects its time and f shows it.
    press("f")
    press("m")
    assert opened.range == pytest.approx(whole)
    assert opened.marks == ("", "")
    row = next(iter(timeline.slices.where(cta=0, name="epilogue")))
    page.mouse.click(*opened.place(middle_of(row), "consumer", "main"))
    page.wait_for_timeout(350)
    press("m")
    assert span_of(opened, "selection") == (row.start, row.start + row.duration)
    press("f")
    assert opened.range == pytest.approx(
        [row.start - 0.1 * row.duration, row.start + 1.1 * row.duration], abs=0.01 * width + 1
    )
    press("]")
    assert page.locator("#cta").inner_text() == "CTA (1) #1"
    press("]")
    press("]")
    press("]")
    assert page.locator("#cta").inner_text() == "CTA (3) #3"
    press("[")
    assert page.locator("#cta").inner_text() == "CTA (2) #2"
    page.keyboard.press("g")
    opened.settle_map()
    assert page.locator("#gpu-panel").is_visible()
    page.keyboard.press("m")
    page.keyboard.press("/")
    page.keyboard.press("g")
    assert page.locator("#panel").is_visible()
    # With Ctrl, keys are the browser's.
    before = opened.range
    page.keyboard.press("Control+ArrowRight")
    opened.settle()
    assert opened.range == before


def test_the_help_lists_every_key(show: Show) -> None:
    opened = show(synthetic.gemm((2, 1, 1), 4))
    page = opened.page
    dialog = page.locator("#help")
    assert not dialog.is_visible()
    page.keyboard.press("?")
    assert dialog.is_visible()
    keys = page.locator("#keys kbd").all_inner_texts()
    assert keys == [*"←→+-0fnp/mvsrl[]g", "Esc", "?"]
    assert all(text.strip() for text in page.locator("#keys td").all_inner_texts())
    # Meanwhile keys do nothing behind it.
    page.keyboard.press("]")
    page.keyboard.press("g")
    assert page.locator("#cta").inner_text() == "CTA (0) #0"
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.locator("#help-open").click()
    page.get_by_role("button", name="Close").click()
    dialog.wait_for(state="hidden")
    page.keyboard.press("]")
    assert page.locator("#cta").inner_text() == "CTA (1) #1"


# ---------------------------------------------------------------------------------------------------------------------
# Units and labels


def test_units(show: Show) -> None:
    timeline = synthetic.gemm((4, 1, 1), 12)
    opened = show(timeline, fragment="#cta=3")
    page = opened.page
    cta = list(timeline.ctas)[3]
    whole = opened.range
    row = next(iter(timeline.slices.where(cta=3, name="epilogue")))
    tooltip = opened.hover(*opened.place(middle_of(row), "consumer", "main"))
    options = page.locator("#unit option").all_inner_texts()
    assert options == ["Cycles of its SM", "Nanoseconds", "Nanoseconds, GPU’s axis"]
    for key, scale, offset, title in (
        ("ns", 1 / cta.ghz, 0.0, "ns since the CTA’s begin"),
        ("gpu", 1 / cta.ghz, cta.begin_ns, "ns since the launch’s first CTA began"),
        ("cycles", 1.0, 0.0, "SM cycles since the CTA’s begin"),
    ):
        choose_unit(opened, key)
        assert opened.range == pytest.approx([offset + scale * end for end in whole])
        assert page.locator("#figure .xtitle").text_content() == title
        ticks = page.locator("#figure .xtick text")
        assert ticks.count() > 3
        for tick in ticks.all():
            box = box_of(tick)
            value = number(tick.text_content())
            assert box["x"] + box["width"] / 2 == pytest.approx(opened.across(value), abs=2)
        # Plotly's bars are there, and its tooltips say all units in any case.
        assert opened.bars == len(timeline.slices.where(cta=3))
        where = offset + scale * middle_of(row)
        assert opened.hover(*opened.place(where, "consumer", "main")) == tooltip
        check_table(opened, timeline, 3, scale=scale)
        note = page.locator("#summary-note").inner_text()
        assert note.startswith("In SM cycles." if key == "cycles" else "In nanoseconds.")
        # A label's time is the table's.
        written = integer(row.duration) if key == "cycles" else tenths(scale * row.duration)
        assert written in canvas_texts(opened)
        assert opened.state().get("unit") == (None if key == "cycles" else [key])
    # Another unit leaves what is shown.
    page.keyboard.press("+")
    opened.settle()
    near = opened.range
    choose_unit(opened, "gpu")
    assert opened.range == pytest.approx([cta.begin_ns + end / cta.ghz for end in near])
    page.keyboard.press("ArrowRight")
    opened.settle()
    shift = 0.2 * (near[1] - near[0])
    assert opened.range == pytest.approx([cta.begin_ns + (end + shift) / cta.ghz for end in near])


def test_a_cta_without_a_clock_is_shown_in_cycles(show: Show) -> None:
    timeline = clockless()
    opened = show(timeline)
    page = opened.page
    for key in ("ns", "gpu"):
        choose_unit(opened, key)
        for cta in (0, 1, 2):
            opened.open(cta)
            opened.settle()
            title = page.locator("#figure .xtitle").text_content()
            rate = page.locator("#rate").inner_text()
            assert title.startswith("SM cycles" if cta == 1 else "ns since")
            assert ("So the axis is in cycles." in rate) == (cta == 1)
            assert page.locator("#unit").input_value() == key
            check_table(opened, timeline, cta, scale=1.0 if cta == 1 else 1 / timeline.ctas["ghz"][cta])
    opened.open(1)
    assert page.locator("#rate").inner_text() == "How long a cycle took is not known here. So the axis is in cycles."
    row = next(iter(timeline.slices.where(cta=1, name="epilogue")))
    assert f"duration\t{integer(row.duration)}\t{MISSING}" in opened.hover(
        *opened.place(middle_of(row), "consumer", "main")
    )


def test_payloads_in_labels(show: Show) -> None:
    opened = show(labelled())
    page = opened.page
    durations = canvas_texts(opened)
    assert durations == ["whole", "2,000", "real", "2,000", "plain", "2,000", "torn"]
    page.keyboard.press("l")
    assert page.locator("#payloads").get_attribute("aria-pressed") == "true"
    assert canvas_texts(opened) == ["whole", f"{MINUS}42", "real", "0.5", "plain", "torn", "7"]
    assert opened.state()["labels"] == ["payload"]
    page.locator("#payloads").click()
    assert canvas_texts(opened) == durations
    assert "labels" not in opened.state()


# ---------------------------------------------------------------------------------------------------------------------
# Choosing a CTA


def test_fastest_median_and_slowest(show: Show) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    page = opened.page
    done = np.flatnonzero(timeline.ctas["finished"])
    order = done[np.argsort(timeline.ctas["cycles"][done], kind="stable")]
    assert len(order) == 38
    for name, cta in (("Fastest", order[0]), ("Median", order[18]), ("Slowest", order[-1])):
        page.get_by_role("button", name=name).click()
        assert page.locator("#cta").inner_text() == f"CTA ({cta % 5}, {cta // 5}) #{cta}"
        assert page.locator("#tabs [aria-selected=true]").get_attribute("data-position") == str(cta)
    assert order[-1] == 17
    # Also those that the box hides, and from the map.
    page.locator("#filter").fill("#3")
    opened.open_map()
    page.get_by_role("button", name="Fastest").click()
    assert page.locator("#panel").is_visible()
    assert page.locator("#filter").input_value() == ""
    assert page.locator("#tabs [aria-selected=true]").get_attribute("data-position") == str(order[0])

    timeline = synthetic.empty()
    columns = {name: timeline.ctas[name].copy() for name in timeline.ctas.column_names}
    columns["finished"][:] = False
    opened = show(replace(timeline, ctas=Table(columns)))
    assert all(opened.page.locator(f"#{name}").is_disabled() for name in ("fastest", "median", "slowest"))


def test_a_strip_of_three_thousand_ctas(show: Show) -> None:
    builder = synthetic.Builder((60, 50, 1), ("main",), cycles=900)
    for cta in range(3000):
        builder.slice(cta, "main", "main", "one", 10, 100 + cta % 7)
    opened = show(builder.build())
    page = opened.page
    tabs, strip = page.locator("#tabs [role=tab]"), page.locator("#tabs")

    def check(listed: Sequence[int]) -> None:
        """Each tab that is there says which of how many it is, and they are few."""
        said = tabs.evaluate_all(
            """all => all.map(one => [Number(one.dataset.position), Number(one.ariaPosInSet), Number(one.ariaSetSize),
              one.offsetLeft])"""
        )
        assert 0 < len(said) <= 401
        for position, at, size, _ in said:
            assert (listed[at - 1], size) == (position, len(listed))
        lefts = [left for *_, left in sorted(said, key=lambda one: one[1])]
        assert all(one < other for one, other in pairwise(lefts))

    everything = list(range(3000))
    assert page.locator("#found").inner_text() == "3,000 CTAs"
    check(everything)
    # The wheel scrolls along; whatever is in sight has its tab.
    box = box_of(strip)
    page.mouse.move(box["x"] + 200, box["y"] + 15)
    for _ in range(4):
        page.mouse.wheel(0, 9000)
        page.wait_for_timeout(100)
    check(everything)
    strip.evaluate("one => { one.scrollLeft = one.scrollWidth; }")
    page.wait_for_selector("#tabs [data-position='2999']")
    check(everything)
    last = page.locator("#tabs [data-position='2999']")
    box, tab = box_of(strip), box_of(last)
    assert box["x"] <= tab["x"]
    assert tab["x"] + tab["width"] <= box["x"] + box["width"]
    last.click()
    assert page.locator("#cta").inner_text() == "CTA (59, 49) #2999"
    for key, number_of in (("Home", 0), ("ArrowRight", 1), ("End", 2999), ("ArrowLeft", 2998)):
        page.keyboard.press(key)
        selected = page.locator("#tabs [aria-selected=true]")
        assert selected.get_attribute("data-position") == str(number_of)
        assert selected.evaluate("one => one === document.activeElement")
        assert page.locator("#tabs [tabindex='0']").count() == 1
        check(everything)
    # The box lists some of them; the keyboard reaches these though the open one is not among them.
    page.locator("#filter").fill("7, *")
    listed = [cta for cta in range(3000) if cta % 60 == 7]
    assert page.locator("#found").inner_text() == "50 of 3,000"
    check(listed)
    page.locator("#tabs [tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#cta").inner_text() == "CTA (7, 0) #7"
    page.keyboard.press("End")
    assert page.locator("#cta").inner_text() == "CTA (7, 49) #2947"
    page.locator("#filter").fill("2500")
    page.locator("#filter").press("Enter")
    assert page.locator("#cta").inner_text() == "CTA (40, 41) #2500"
    page.locator("#filter").press("Escape")
    check(everything)
    tab = box_of(page.locator("#tabs [aria-selected=true]"))
    assert box["x"] <= tab["x"]
    assert tab["x"] + tab["width"] <= box["x"] + box["width"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# ---------------------------------------------------------------------------------------------------------------------
# The address


def seen(opened: Opened) -> dict[str, Any]:
    """All that the address shall bring back, as a user sees it, but for the range of the axis."""
    page = opened.page
    chips = page.locator("#legend .chip")
    return {
        "cta": page.locator("#cta").inner_text(),
        "marks": opened.marks,
        "table": opened.table(),
        "hits": page.locator("#hits").inner_text(),
        "search": page.locator("#search").input_value(),
        "unit": page.locator("#unit").input_value(),
        "title": page.locator("#figure .xtitle").text_content(),
        "payloads": page.locator("#payloads").get_attribute("aria-pressed"),
        "chips": dict(zip(chips.all_inner_texts(), chips.evaluate_all("all => all.map(one => one.ariaPressed)"))),
        "views": [page.locator(panel).is_visible() for panel in ("#panel", "#gpu-panel")],
    }


def test_a_link_opens_the_same(show: Show) -> None:
    timeline = synthetic.gemm((3, 2, 1), 20)
    opened = show(timeline)
    page = opened.page
    assert opened.fragment() in ("", "#cta=0")
    opened.open(4)
    choose_unit(opened, "gpu")
    opened.chip("wait").click()
    opened.chip("release→acquire").click()
    page.keyboard.press("+")
    opened.settle()
    low, high = opened.range
    y = opened.place(low, "consumer", "wgmma")[1]
    page.keyboard.press("s")
    opened.drag((opened.across(low + 0.2 * (high - low)), y), (opened.across(low + 0.5 * (high - low)), y))
    page.keyboard.press("r")
    opened.drag((opened.across(low + 0.3 * (high - low)), y), (opened.across(low + 0.7 * (high - low)), y))
    page.keyboard.press("v")
    page.keyboard.press("l")
    page.locator("#search").fill("mma")
    page.locator("#search").press("Enter")
    page.locator("#search").press("Enter")
    opened.settle()
    fragment = opened.fragment()
    assert set(opened.state()) == {
        "cta", "span", "selection", "ruler", "slice", "unit", "find", "labels", "hide", "hide-arrows",
    }  # fmt: skip
    wanted = seen(opened)
    assert all(wanted["marks"])
    other = show(timeline, fragment=fragment)
    assert seen(other) == wanted
    assert other.range == pytest.approx(opened.range, abs=0.2)
    assert other.alerts("#link") == ""
    assert other.fragment() == fragment
    # In a page that is open, and back again.
    other.page.evaluate("location.hash = '#cta=2'")
    wait_for(other.page, "document.querySelector('#cta').innerText.endsWith('#2')")
    other.settle()
    plain = show(timeline, fragment="#cta=2")
    assert seen(other) == seen(plain)
    assert other.range == pytest.approx(plain.range)
    assert other.state() == {"cta": ["2"]}
    other.page.evaluate("fragment => { location.hash = fragment; }", fragment)
    wait_for(other.page, "document.querySelector('#cta').innerText.endsWith('#4')")
    other.settle()
    assert seen(other) == wanted
    assert other.range == pytest.approx(opened.range, abs=0.2)
    # The map.
    opened.open_map()
    third = show(timeline, fragment=opened.fragment())
    assert third.page.locator("#gpu-panel").is_visible()
    third.page.keyboard.press("g")
    third.settle()
    assert seen(third) == wanted
    # The same CTA, without the choice.
    third.page.evaluate("location.hash = '#cta=4'")
    wait_for(third.page, "document.querySelector('#hits').innerText === ''")
    third.settle()
    assert third.page.evaluate("tileops.figure.chosen") == -1
    assert third.state() == {"cta": ["4"]}


def test_a_link_opens_the_same_part_of_the_map(show: Show) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    page = opened.page
    opened.open_map()
    whole = opened.map_range
    page.locator("#gpu-zoom-in").click()
    opened.settle_map()
    low, high = opened.map_range
    assert high - low < 0.6 * (whole[1] - whole[0])
    opened.choose(page.locator("#gpu-colour optgroup option").first.inner_text())
    page.locator("#gpu-ruler").click()
    box = box_of(page.locator("#map .nsewdrag"))
    y = box["y"] + 5
    opened.drag((box["x"] + 100, y), (box["x"] + 300, y))
    assert {"view", "map", "map-ruler", "colour"} <= {*opened.state()}
    said = page.locator("#map .marks .tape .said").inner_text()
    fragment = opened.fragment()

    def check(other: Opened) -> None:
        wait_for(other.page, "Boolean(tileops.gpu.map.busy)")  # Plotly has come
        other.settle_map()
        assert other.map_range == pytest.approx((low, high), abs=1)
        assert other.page.locator("#map .marks .tape .said").inner_text() == said
        chosen = "one => one.selectedOptions[0].label"
        colour = other.page.locator("#gpu-colour").evaluate(chosen)
        assert colour == page.locator("#gpu-colour").evaluate(chosen) != "Duration"
        assert other.alerts("#link") == ""

    other = show(timeline, fragment=fragment)
    check(other)
    assert other.fragment() == fragment
    # What a link says of the map waits until the map is opened.
    later = show(timeline, fragment=fragment.replace("view=gpu&", ""))
    assert later.page.locator("#gpu-panel").is_hidden()
    later.open_map()
    check(later)
    # A plain link in an open page takes all of it back.
    other.page.evaluate("location.hash = '#view=gpu'")
    wait_for(other.page, "document.querySelector('#map .marks .tape').hidden")
    other.settle_map()
    assert other.map_range == pytest.approx(whole, abs=1)
    assert "colour" not in other.state()
    other.page.evaluate("location.hash = '#view=gpu&colour=nothing'")
    other.page.wait_for_selector("#link .alert")
    assert "colour=nothing" in other.alerts("#link")


def test_a_link_says_what_of_it_is_wrong(show: Show) -> None:
    timeline = synthetic.gemm((3, 1, 1), 5)
    hostile = "<img src=x onerror=window.hacked=1>"
    parts = {
        "cta": "99", "span": "5_x", "selection": "3_3", "slice": "100000", "unit": "weeks", "hide": hostile,
        "hide-arrows": "a→b", "nonsense": hostile,
    }  # fmt: skip
    opened = show(timeline, fragment="#" + "&".join(f"{key}={value}" for key, value in parts.items()) + "&find=mma")
    page = opened.page
    said = opened.alerts("#link")
    assert said.startswith("This recording has nothing for a part of the link: ")
    assert all(f"{key}={value}" in said for key, value in parts.items())
    assert "find=" not in said
    assert page.locator("#cta").inner_text() == "CTA (0) #0"
    assert page.locator("#hits").inner_text() == "5 here"
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert opened.state() == {"cta": ["0"], "find": ["mma"]}
    # The message goes with the next link.
    page.evaluate("location.hash = '#cta=1'")
    wait_for(page, "document.querySelector('#cta').innerText.endsWith('#1')")
    assert opened.alerts("#link") == ""
    page.evaluate("location.hash = '#%E0%A4%A&span=1_1e9'")
    page.wait_for_selector("#link .alert")
    assert "span=1_1e9" in opened.alerts("#link")


def test_a_link_with_hostile_names(show: Show) -> None:
    timeline = synthetic.hostile()
    opened = show(timeline, height=1400)
    page = opened.page
    chips = page.locator("#legend .chip")
    for at in range(len(synthetic.HOSTILE)):
        chips.nth(at).click()
    chips.last.click()
    page.locator("#search").fill(synthetic.HOSTILE[0])
    opened.settle()
    assert opened.state()["hide"] == sorted(synthetic.HOSTILE)
    wanted = seen(opened)
    other = show(timeline, fragment=opened.fragment(), height=1400)
    assert seen(other) == wanted
    assert list(wanted["chips"].values()).count("false") == len(synthetic.HOSTILE) + 1
    assert other.alerts("#link") == ""
    assert other.page.evaluate("window.hacked") is None


# ---------------------------------------------------------------------------------------------------------------------
# Pictures

SVG = "{http://www.w3.org/2000/svg}"


def saved(opened: Opened, button: str, folder: Path) -> tuple[str, bytes]:
    """Clicks a button; the name and the content of the file that comes."""
    with opened.page.expect_download() as download:
        opened.page.locator(button).click()
    path = folder / "saved"
    download.value.save_as(path)
    return download.value.suggested_filename, path.read_bytes()


class Picture:
    """An SVG file of a timeline."""

    def __init__(self, content: bytes) -> None:
        self.root = ElementTree.fromstring(content)
        assert self.root.tag == f"{SVG}svg"
        allowed = {"svg", "g", "path", "rect", "text", "tspan", "defs", "clipPath", "style", "pattern", "circle", "a",
                   "linearGradient", "stop", "filter"}  # fmt: skip
        assert {element.tag.removeprefix(SVG) for element in self.root.iter()} <= allowed

    def inside(self, of: str) -> list[Any]:
        """All groups of a class."""
        return [one for one in self.root.iter(f"{SVG}g") if of in one.get("class", "").split()]

    @property
    def bars(self) -> list[Any]:
        layers = self.inside("barlayer")
        points = [one for layer in layers for one in layer.iter(f"{SVG}g") if one.get("class") == "point"]
        return [path for point in points for path in point.iter(f"{SVG}path")]

    def texts(self, of: str) -> list[str]:
        return ["".join(one.itertext()) for group in self.inside(of) for one in group.iter(f"{SVG}text")]

    @property
    def arrows(self) -> int:
        lines = [one.get("d") for one in self.root.iter(f"{SVG}path") if one.get("class") == "js-line"]
        return sum(line.count("M") for line in lines)

    @property
    def size(self) -> tuple[float, float]:
        return float(self.root.get("width")), float(self.root.get("height"))


def width_of(bar: Any) -> float:
    """How wide a bar is: its path goes down, across and up again."""
    found = re.fullmatch(r"M([\d.]+),[\d.]+V[\d.]+H([\d.]+)V[\d.]+Z", bar.get("d"))
    assert found is not None, bar.get("d")
    return float(found[2]) - float(found[1])


def pixels(content: bytes) -> tuple[int, int]:
    """The size of a PNG."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content[12:16] == b"IHDR"
    return struct.unpack(">II", content[16:24])


def test_a_cta_as_a_picture(show: Show, tmp_path: Path) -> None:
    timeline = synthetic.gemm((2, 2, 1), 12)
    opened = show(timeline)
    opened.open(3)
    opened.settle()
    slices, flows = timeline.slices.where(cta=3), timeline.flows.where(cta=3)
    name, content = saved(opened, "#svg", tmp_path)
    assert name == "gemm-cta-3.svg"
    picture = Picture(content)
    assert len(picture.bars) == len(slices)
    assert picture.arrows == len(flows)
    rows = dict.fromkeys(f"{group} / {lane}" for group, lane in zip(slices["group"], slices["lane"]))
    assert set(picture.texts("annotation")) == set(rows)
    assert set(picture.texts("legend")) == {*slices["name"], *timeline.instants["name"]}
    assert picture.texts("g-gtitle") == ["gemm · CTA (1, 1) #3 · NVIDIA H200"]
    assert picture.texts("g-xtitle") == ["SM cycles since the CTA’s begin"]
    name, content = saved(opened, "#png", tmp_path)
    assert name == "gemm-cta-3.png"
    assert pixels(content) == tuple(2 * side for side in picture.size)
    # What is shown, and no more: of a part, with a name hidden, in nanoseconds.
    opened.page.evaluate("location.hash = '#cta=3&unit=ns&span=2000_5000&hide=wait'")
    wait_for(opened.page, "Math.abs(tileops.figure.range[0] - 2000) < 1")
    opened.settle()
    picture = Picture(saved(opened, "#svg", tmp_path)[1])
    begin, end = slices["start"], slices["start"] + slices["duration"]
    part = (begin <= 5000) & (end >= 2000) & (slices["name"] != "wait")
    assert len(picture.bars) == part.sum()
    here = (flows["start"] <= 5000) & (flows["end"] >= 2000) & (flows["dst"] != "wait")
    assert picture.arrows == here.sum()
    assert picture.texts("g-xtitle") == ["ns since the CTA’s begin"]
    written = picture.texts("barlayer")
    ghz = timeline.ctas["ghz"][3]
    row = next(row for row in slices.where(name="mma") if row.start >= 2000)
    assert f"mma  {tenths(row.duration / ghz)}" in written or "mma" in written


def test_labels_in_a_picture(show: Show, tmp_path: Path) -> None:
    opened = show(labelled())
    opened.page.keyboard.press("l")
    picture = Picture(saved(opened, "#svg", tmp_path)[1])
    assert len(picture.bars) == 5
    written = [" ".join(text.split()) for text in picture.texts("barlayer")]
    assert {"whole −42", "real 0.5", "plain"} <= set(written)
    # The one of no length is there to be seen, the one that was cut is hatched.
    assert min(map(width_of, picture.bars)) >= 0.9
    assert picture.inside("barlayer")
    assert list(picture.root.iter(f"{SVG}pattern"))


def test_a_picture_of_many_ranges(show: Show, tmp_path: Path) -> None:
    timeline = synthetic.gemm((1, 1, 1), 300)
    opened = show(timeline)
    picture = Picture(saved(opened, "#svg", tmp_path)[1])
    assert len(picture.bars) == len(timeline.slices)
    assert picture.arrows == len(timeline.flows)
    assert min(map(width_of, picture.bars)) >= 0.9


def test_the_map_as_a_picture(show: Show, tmp_path: Path) -> None:
    timeline = synthetic.waves()
    opened = show(timeline, color_scheme="dark")
    opened.open_map()
    name, content = saved(opened, "#gpu-svg", tmp_path)
    assert name == "gemm-gpu.svg"
    picture = Picture(content)
    assert len(picture.bars) == 38
    ends = [opened.page.locator(f"#scale-{end}").inner_text() for end in ("low", "high")]
    wanted = [*(f"SM {sm}" for sm in range(7)), "no time", "Duration", *ends]
    assert sorted(picture.texts("annotation")) == sorted(wanted)
    assert len(picture.inside("shapelayer")) >= 1
    assert picture.texts("g-gtitle") == ["gemm · NVIDIA H200"]
    name, content = saved(opened, "#gpu-png", tmp_path)
    assert name == "gemm-gpu.png"
    assert pixels(content) == tuple(2 * side for side in picture.size)


def test_a_picture_shows_names_as_text(show: Show, tmp_path: Path) -> None:
    timeline = synthetic.hostile()
    opened = show(timeline, height=1400)
    name, content = saved(opened, "#svg", tmp_path)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    picture = Picture(content)
    assert len(picture.bars) == len(synthetic.HOSTILE)

    def plain(text: str) -> str:
        return " ".join(text.replace("\xa0", " ").split())

    begins = [plain(spelled(one))[:15].strip() for one in synthetic.HOSTILE]
    legend = [plain(text) for text in picture.texts("legend")]
    for begin in begins:
        assert any(text.startswith(begin) for text in legend), begin
    assert opened.page.evaluate("window.hacked") is None
    saved(opened, "#png", tmp_path)
    opened.open_map()
    opened.page.locator("#gpu-colour").select_option(value="3")
    picture = Picture(saved(opened, "#gpu-svg", tmp_path)[1])
    assert "Share of <b>bold</b…" in picture.texts("annotation")
    assert opened.page.evaluate("window.hacked") is None


# ---------------------------------------------------------------------------------------------------------------------
# Light, dark, narrow and empty

CONTRAST = """selectors => selectors.flatMap((selector) => [...document.querySelectorAll(selector)]
  .filter((one) => one.checkVisibility() && one.getClientRects().length)
  .map((one) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor);
    for (const layer of layers) { canvas.fillStyle = layer; canvas.fillRect(0, 0, 1, 1); }
    const luminance = () => {
      const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => {
        const part = value / 255;
        return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    const back = luminance();
    canvas.fillStyle = getComputedStyle(one).color;
    canvas.fillRect(0, 0, 1, 1);
    const front = luminance();
    return [selector, Math.max(front, back) / Math.min(front, back)];
  }))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_can_be_read(show: Show, scheme: str) -> None:
    timeline = synthetic.troubled()
    opened = show(
        timeline, color_scheme=scheme,
        fragment="#cta=1&selection=100_900&ruler=200_1200&find=wait&slice=3&labels=payload&hide=tma&wrong=1",
    )  # fmt: skip
    page = opened.page
    page.mouse.move(*opened.place(500, "consumer", "barrier"))
    selectors = [
        "h1", "h2", "h2 small", ".said", "dt", "dd", ".alert", "button:not(:disabled)", ".tab .linear", "#found",
        "#hits", "#search", "#unit", "#filter", ".row-name span", ".marks .said", ".hint", "#summary-head th",
        "#totals td", "#totals th", "#totals small", ".note", "footer", "#tooltip td", "#tooltip th",
        ".chip .count", ".versions",
    ]  # fmt: skip
    found = page.evaluate(CONTRAST, selectors)
    page.keyboard.press("?")
    found += page.evaluate(CONTRAST, ["dialog h2", "dialog td", "kbd", "dialog button"])
    page.keyboard.press("Escape")
    page.locator("#help").wait_for(state="hidden")  # the browser closes a dialog a little after the key
    opened.open_map()
    found += page.evaluate(CONTRAST, ["#gpu-panel button", "#gpu-panel dt", "#scale span", ".sm-name", "#gpu-hint"])
    assert len(found) > 100
    assert [one for one in found if one[1] < 4.5] == []


@pytest.mark.parametrize("width", [320, 480, 800, 1280])
def test_no_tool_is_clipped_in_a_narrow_window(show: Show, width: int) -> None:
    timeline = synthetic.gemm((9, 9, 1), 6)
    opened = show(timeline, width=width, fragment="#selection=1000_3000&ruler=2000_5000&find=mma")
    page = opened.page

    def check(card: str, *parts: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        outer = box_of(page.locator(card))
        for part in parts:
            for one in page.locator(part).all():
                box = one.bounding_box()
                if box is None:
                    continue
                assert outer["x"] - 1 <= box["x"], part
                assert box["x"] + box["width"] <= outer["x"] + outer["width"] + 1, part

    check("#timeline", "#timeline button", "#timeline select", "#timeline input", "#hits", "#minimap", "#figure")
    check("#picker", "#filter", "#found", ".find button", "#views", "#picker > .step", "#tabs")
    check("#summary", "#summary th", "#summary td", "#summary-note")
    # Nothing in the way of the finger or the pointer: each button is what a click on its middle hits.
    hit = page.locator("#timeline button:not(:disabled), #picker button:not(.tab)").evaluate_all(
        """all => all.filter((one) => {
          one.scrollIntoView({ block: "center" });
          const box = one.getBoundingClientRect();
          const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
          return !(hit && (one === hit || one.contains(hit)));
        }).map((one) => one.id || one.textContent)"""
    )
    assert hit == []
    # A placeholder that is cut says nothing.
    for box in ("#filter", "#search"):
        assert page.locator(box).evaluate(
            """one => {
              one.value = one.placeholder;
              const fits = one.scrollWidth <= one.clientWidth;
              one.value = "";
              return fits;
            }"""
        )
    # The totals of each range are there, whatever the width.
    head = page.locator("#summary-head th:visible").all_inner_texts()
    assert [title for title in head if title in ("Range", "Count", "Mean")] == ["Range", "Count", "Mean"]
    page.keyboard.press("Escape")
    page.locator("#help-open").click()
    box = box_of(page.locator("#help"))
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert page.locator("#help").evaluate("one => one.scrollWidth <= one.clientWidth")
    page.keyboard.press("Escape")
    opened.open_map()
    check("#gpu-card", "#gpu-card button", "#gpu-card select", "#map", "#scale")


def test_long_names_end_in_an_ellipsis(show: Show) -> None:
    opened = show(synthetic.hostile())
    page = opened.page
    cut = page.locator(".row-name span, #totals .name, .chip .name").evaluate_all(
        """all => all.filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth).map((one) => {
          const { display, overflow, textOverflow } = getComputedStyle(one);
          return [/block/.test(display), overflow, textOverflow];
        })"""
    )
    assert len(cut) > 10
    assert set(map(tuple, cut)) == {(True, "hidden", "ellipsis")}
    # The numbers beside them stay in sight.
    assert page.locator("#summary").evaluate("one => one.scrollWidth <= one.clientWidth")


def test_keys_where_there_is_nothing_to_show(show: Show) -> None:
    keys = [
        "+", "-", "0", "f", "m", "n", "p", "l", "s", "r", "v", "ArrowLeft", "ArrowRight", "/", "[", "]", "Escape", "g",
        "+", "0", "ArrowLeft", "Enter", "Escape", "g", "?", "Escape",
    ]  # fmt: skip
    timeline = synthetic.empty()
    none = timeline.ctas["cta"] < 0
    rowless = timeline.rows[np.zeros(len(timeline.rows), dtype=bool)]
    for nothing in (timeline, replace(timeline, ctas=timeline.ctas[none], rows=rowless)):
        opened = show(nothing, fragment="#cta=5&selection=3_9&view=cta")
        for key in keys:
            opened.page.keyboard.press(key)
            opened.page.wait_for_timeout(20)
        assert "undefined" not in opened.fragment()
        assert "NaN" not in opened.fragment()
    assert "This recording holds no CTA." in opened.alerts()
    # From a CTA with something to one with nothing, and back.
    timeline = synthetic.troubled()
    opened = show(timeline, fragment="#cta=0&span=100_900&selection=200_400")
    opened.page.locator("#tabs [role=tab]").nth(2).click()
    for key in keys[:-4]:
        opened.page.keyboard.press(key)
    opened.open(0)
    opened.settle()
    check_table(opened, timeline, 0)
    assert opened.bars == len(timeline.slices.where(cta=0))


def test_a_range_of_no_length_selects_no_time(show: Show) -> None:
    timeline = synthetic.troubled()
    opened = show(timeline, fragment="#cta=5&slice=0")
    opened.page.keyboard.press("m")
    assert opened.marks == ("", "")
    state = opened.state()
    assert "selection" not in state
    opened.page.keyboard.press("f")
    opened.settle()
    low, high = opened.range
    assert low <= 900 <= high
    assert high - low == pytest.approx(16)
    assert show(timeline, fragment=opened.fragment()).alerts("#link") == ""
