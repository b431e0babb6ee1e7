"""Windows of any width: nothing is clipped, and the figures follow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import synthetic
from .opened import (
    Opened,
    box_of,
    lines_of,
    wait_for,
)

Show = Callable[..., Opened]


@pytest.mark.parametrize("width", [320, 480, 800])
def test_a_narrow_window_clips_nothing(show: Callable[..., Opened], width: int) -> None:
    timeline = synthetic.gemm((9, 9, 1), 6)
    opened = show(timeline, width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.bars == len(timeline.slices.where(cta=0))
    figure = box_of(opened.page.locator("#figure"))
    for name in opened.page.locator("#figure .row-name").all():
        box = box_of(name)
        assert figure["x"] <= box["x"]
        assert box["x"] + box["width"] <= figure["x"] + figure["width"]
        assert name.evaluate(
            "one => [...one.children].every(part => part.scrollWidth <= part.clientWidth + 1 || part.clientWidth === 0)"
        )


def test_the_figure_follows_the_window(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.gemm((1, 1, 1), 6))
    bars = opened.bars
    for width in (500, 1500):
        opened.page.set_viewport_size({"width": width, "height": 800})
        wait_for(opened.page, "Math.abs(tileops.figure.width - document.querySelector('#figure').clientWidth) < 1")
        opened.settle()
        svg = box_of(opened.page.locator("#figure .main-svg").first)
        assert svg["width"] == pytest.approx(box_of(opened.page.locator("#figure"))["width"], abs=1)
        assert opened.bars == bars


@pytest.mark.parametrize("width", [320, 480, 800])
def test_the_map_in_a_narrow_window(show: Callable[..., Opened], width: int) -> None:
    timeline = synthetic.waves()
    opened = show(timeline, width=width, color_scheme="dark")
    page = opened.page
    opened.open_map()
    opened.choose("Share of mma")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    card = box_of(page.locator("#gpu-card"))
    for part in ("#gpu-colour", "#scale", "#gpu-fit", "#gpu-zoom-out", "#map"):
        box = box_of(page.locator(part))
        assert card["x"] <= box["x"]
        assert box["x"] + box["width"] <= card["x"] + card["width"]
    row = list(timeline.ctas)[12]
    page.locator("#map").scroll_into_view_if_needed()
    assert opened.hover(*opened.map_place(row, lines_of(timeline))).startswith(f"CTA ({row.x}, {row.y}) #12\n")
    tooltip = box_of(page.locator("#tooltip"))
    assert tooltip["x"] >= 0
    assert tooltip["x"] + tooltip["width"] <= width


@pytest.mark.parametrize("width", [320, 480, 800, 1280])
def test_no_tool_is_clipped_in_a_narrow_window(show: Show, width: int) -> None:
    timeline = synthetic.gemm((9, 9, 1), 6)
    opened = show(timeline, width=width, fragment="#selection=1000_3000&ruler=2000_5000&find=mma")
    page = opened.page

    def check(card: str, *parts: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        outer = box_of(page.locator(card))
        for part in parts:
            shown = page.locator(part).evaluate_all(
                """all => all.filter((one) => one.getClientRects().length)
                  .map((one) => one.getBoundingClientRect()).map(({ left, right }) => [left, right])"""
            )
            for left, right in shown:
                assert outer["x"] - 1 <= left, part
                assert right <= outer["x"] + outer["width"] + 1, part

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
