"""A CTA's figure: that everything which was recorded is drawn, where and when it happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from . import synthetic
from .opened import (
    MINUS,
    Opened,
    box_of,
    integer,
    middle_of,
)


def test_tabs_bars_and_arrows_are_those_of_the_timeline(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((3, 2, 1), 20)
    opened = show(timeline)
    tabs = opened.page.locator("#tabs [role=tab]")
    assert tabs.all_inner_texts() == [f"({cta.x}, {cta.y}) #{cta.cta}" for cta in timeline.ctas]
    for cta in range(6):
        opened.open(cta)
        opened.settle()
        slices = timeline.slices.where(cta=cta)
        assert opened.bars == len(slices)
        assert opened.arrows == len(timeline.flows.where(cta=cta))
        assert opened.instants == len(timeline.instants.where(cta=cta))
        bars, arrows, _ = opened.page.evaluate("tileops.figure.plot.data.map(trace => ({...trace}))")
        np.testing.assert_array_equal(bars["base"], slices["start"])
        np.testing.assert_array_equal(bars["x"], slices["duration"])
        flows = timeline.flows.where(cta=cta)
        np.testing.assert_array_equal(
            sorted(zip(arrows["x"][::3], arrows["x"][1::3])), sorted(zip(flows["start"], flows["end"]))
        )
        assert opened.page.locator("#tabs [aria-selected=true]").inner_text() == f"({cta % 3}, {cta // 3}) #{cta}"
        assert opened.page.locator("#cta").inner_text() == f"CTA ({cta % 3}, {cta // 3}) #{cta}"


def test_rows_come_from_groups_and_lanes_in_the_order_of_the_source(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.gemm((1, 1, 1), 4))
    assert opened.page.locator("#figure .row-name").all_text_contents() == [
        "producer / barrier", "producer / tma", "consumer / main", "consumer / barrier", "consumer / wgmma",
    ]  # fmt: skip


def test_nested_ranges_are_stacked(show: Callable[..., Opened]) -> None:
    timeline = synthetic.nested()
    opened = show(timeline)
    assert opened.page.locator("#tabs [role=tab]").first.inner_text() == "(0, 0, 0) #0"
    assert opened.bars == 4
    for row in timeline.slices.where(cta=0):
        text = opened.hover(*opened.place(middle_of(row), "main", "main", row.depth))
        assert text.startswith(f"{row.name}\n")
    boxes = [box_of(bar) for bar in opened.page.locator("#figure .barlayer .point path").all()]
    assert all(lower["y"] >= upper["y"] + upper["height"] for upper, lower in pairwise(boxes))


def test_tables_in_another_order_show_the_same(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((3, 1, 1), 8)
    shuffled = replace(
        timeline,
        flows=timeline.flows[::-1],
        instants=timeline.instants[::-1],
        rows=timeline.rows[::-1],
        ctas=timeline.ctas[::-1],
    )
    opened = show(shuffled)
    opened.open(2)
    opened.settle()
    assert opened.page.locator("#cta").inner_text() == "CTA (2) #2"
    assert opened.bars == len(timeline.slices.where(cta=2))
    ends = opened.page.evaluate("Array.from(tileops.events.flows.end)")
    np.testing.assert_array_equal(sorted(ends), sorted(timeline.flows.where(cta=2)["end"]))


def test_large_and_odd_numbers_arrive(show: Callable[..., Opened]) -> None:
    builder = synthetic.Builder((1, 1, 1), ("main",), ghz=1.0)
    builder.slice(0, "main", "main", "long", -40, 6_000_000_000, payload=-(2**31))
    builder.slice(0, "main", "main", "late", 6_000_000_001, 6_000_000_500, payload=0.1)
    builder.slice(0, "main", "main", "odd", 6_000_000_600, 6_000_000_900, payload=float("nan"))
    timeline = builder.build()
    opened = show(timeline)
    slices = opened.page.evaluate(
        """Object.fromEntries(
          ["start", "duration", "payload", "kind"].map((name) => [name, Array.from(tileops.events.slices[name])]),
        )"""
    )
    for name, column in (
        ("start", "start"),
        ("duration", "duration"),
        ("kind", "payload_kind"),
        ("payload", "payload"),
    ):
        np.testing.assert_array_equal(np.array(slices[name], dtype=float), timeline.slices[column])
    text = opened.hover(*opened.place(3e9, "main", "main"))
    assert f"start\t{MINUS}40\t{MINUS}40.0\t" in text
    assert f"payload {MINUS}2147483648" in text
    opened.page.evaluate("tileops.figure.zoomTo([5999999990, 6000001000])")
    opened.settle()
    assert "payload 0.1" in opened.hover(*opened.place(6_000_000_250, "main", "main")).split("\n")
    assert "payload NaN" in opened.hover(*opened.place(6_000_000_750, "main", "main")).split("\n")


def test_hundreds_of_ctas_draw_one_at_a_time(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((20, 15, 1), 4)
    opened = show(timeline)
    assert opened.page.locator("#tabs [role=tab]").count() == 300
    for cta in (0, 299, 147):
        opened.open(cta)
        opened.settle()
        assert opened.bars == len(timeline.slices.where(cta=cta))
        assert opened.page.locator("#figure .main-svg .barlayer").count() == 1
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_many_events_are_drawn_whole_on_the_canvas(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((1, 1, 1), 300)
    opened = show(timeline)
    assert opened.bars == 0  # so what is counted below is all there is
    drawn = opened.page.evaluate(
        """() => {
          const prototype = CanvasRenderingContext2D.prototype;
          const { fillRect, fill } = prototype;
          const surface = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
          const bars = [];
          let fills = 0;
          prototype.fillRect = function (x, y, width, height) {
            if (height === 22 && this.fillStyle !== surface) bars.push([x, width]);
            fillRect.call(this, x, y, width, height);
          };
          prototype.fill = function (...path) { fills += 1; fill.apply(this, path); };
          tileops.figure.draw();
          Object.assign(prototype, { fillRect, fill });
          return { bars, fills };
        }"""
    )
    assert len(drawn["bars"]) == len(timeline.slices)
    # Heads of arrows, and instants.
    assert drawn["fills"] == len(timeline.flows) + len(timeline.instants)
    box = box_of(opened.page.locator("#figure .nsewdrag"))
    low, high = opened.range
    pixels = box["width"] / (high - low)
    np.testing.assert_allclose([x for x, _ in drawn["bars"]], (timeline.slices["start"] - low) * pixels, atol=1)
    row = list(timeline.slices.where(name="mma"))[150]
    text = opened.hover(*opened.place(middle_of(row), row.group, row.lane))
    assert text.startswith("mma\nconsumer / wgmma\n")
    assert f"duration\t{integer(row.duration)}\t" in text


def test_nothing_to_show(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.empty())
    assert opened.page.locator("#nothing").inner_text() == "This CTA recorded no range and no instant."
    assert not opened.page.locator("#figure").is_visible()
    assert opened.page.locator("#tabs [role=tab]").count() == 2

    timeline = synthetic.empty()
    none = timeline.ctas["cta"] < 0
    rowless = timeline.rows[np.zeros(len(timeline.rows), dtype=bool)]
    opened = show(replace(timeline, ctas=timeline.ctas[none], rows=rowless))
    assert "This recording holds no CTA." in opened.alerts()

    timeline = synthetic.troubled()
    opened = show(timeline)
    opened.open(4)
    assert opened.page.locator("#nothing").is_visible()
    opened.open(5)  # one range of no length, one instant
    opened.settle()
    assert (opened.bars, opened.instants) == (1, 1)
    width = box_of(opened.page.locator("#figure .barlayer .point path"))["width"]
    assert width >= 0.9
    assert "duration\t0\t0.0" in opened.hover(*opened.place(900, "consumer", "main"))


def test_the_legend_hides_a_name_and_its_arrows(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((2, 1, 1), 10)
    opened = show(timeline)
    slices, flows = timeline.slices.where(cta=0), timeline.flows.where(cta=0)
    bars, arrows = opened.bars, opened.arrows
    opened.chip("wait").click()
    opened.settle()
    assert opened.bars == bars - len(slices.where(name="wait"))
    assert opened.arrows == arrows - len(flows.where(dst="wait"))
    assert opened.chip("wait").get_attribute("aria-pressed") == "false"
    opened.open(1)
    opened.settle()
    assert opened.bars == len(timeline.slices.where(cta=1)) - len(timeline.slices.where(cta=1, name="wait"))
    row = next(iter(timeline.slices.where(cta=1, name="wait")))
    assert opened.hover(*opened.place(middle_of(row), row.group, row.lane)) == ""
    opened.open(0)
    opened.chip("wait").click()
    opened.chip("release→acquire").click()
    opened.settle()
    assert opened.bars == bars
    assert opened.arrows == len(flows.where(dst="wait"))
    opened.chip("mma").click(modifiers=["Shift"])
    opened.settle()
    assert opened.bars == len(slices.where(name="mma"))
    opened.chip("mma").click(modifiers=["Shift"])
    opened.settle()
    assert opened.bars == bars
