"""Zooming and panning along time: by wheel, drag, button, key and minimap."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import synthetic
from .opened import (
    Opened,
    box_of,
    middle_of,
    span_of,
)

Show = Callable[..., Opened]


def test_zoom_and_pan_are_horizontal_only(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.gemm((1, 1, 1), 20))
    page = opened.page
    vertical = page.evaluate("tileops.figure.plot._fullLayout.yaxis.range.slice()")
    whole = opened.range
    x, y = opened.place(sum(whole) / 2, "consumer", "wgmma")

    def look(action: Callable[[], None], wait: int = 400) -> list[float]:
        action()
        # Plotly takes a wheel for finished after 50 ms, and one click for a single after 300.
        page.wait_for_timeout(wait)
        opened.settle()
        assert page.evaluate("tileops.figure.plot._fullLayout.yaxis.range.slice()") == vertical
        return opened.range

    def press(button: str) -> list[float]:
        return look(page.locator(button).click, wait=0)  # none of Plotly's

    def drag(*keys: str) -> None:
        for key in keys:
            page.keyboard.down(key)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 50, y + 30, steps=4)
        page.mouse.move(x - 100, y + 60, steps=4)
        page.mouse.up()
        for key in keys:
            page.keyboard.up(key)

    page.mouse.move(x, y)
    zoomed = look(lambda: page.mouse.wheel(0, -120))
    assert zoomed[1] - zoomed[0] < 0.8 * (whole[1] - whole[0])
    assert zoomed[0] > whole[0]
    assert zoomed[1] < whole[1]
    panned = look(drag)
    assert panned[1] - panned[0] == pytest.approx(zoomed[1] - zoomed[0])
    width = box_of(page.locator("#figure .nsewdrag"))["width"]
    assert panned[0] - zoomed[0] == pytest.approx(100 / width * (zoomed[1] - zoomed[0]), rel=0.02)
    boxed = look(lambda: drag("Shift"))
    assert boxed[1] - boxed[0] == pytest.approx(100 / width * (panned[1] - panned[0]), rel=0.02)
    sideways = look(lambda: page.mouse.wheel(120, 0))
    assert sideways[0] > boxed[0]
    assert sideways[1] - sideways[0] == pytest.approx(boxed[1] - boxed[0])
    assert look(lambda: page.mouse.dblclick(x, y)) == pytest.approx(whole)
    assert look(lambda: page.mouse.wheel(0, 120)) == pytest.approx(whole)
    nearer = press("#zoom-in")
    assert nearer[1] - nearer[0] == pytest.approx((whole[1] - whole[0]) / 2)
    assert press("#zoom-out") == pytest.approx(whole)
    for _ in range(20):
        page.locator("#zoom-in").click()
    closest = look(lambda: None, wait=0)
    assert closest[1] - closest[0] == pytest.approx(16)
    assert press("#fit") == pytest.approx(whole)


def test_a_span_stays_from_cta_to_cta(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.gemm((2, 1, 1), 20))
    whole = opened.range
    opened.page.locator("#zoom-in").click()
    opened.settle()
    near = opened.range
    opened.open(1)
    opened.settle()
    assert opened.range == pytest.approx(near)
    opened.page.locator("#fit").click()
    opened.open(0)
    opened.settle()
    assert opened.range == pytest.approx(whole)


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
