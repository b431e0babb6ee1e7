"""Choosing a CTA: the strip of tabs, the box that lists some of them, and the fastest to the slowest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tileops.trace import Table

from . import synthetic
from .opened import (
    Opened,
    box_of,
)

Show = Callable[..., Opened]


def test_the_filter_finds_coordinates_and_numbers(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.gemm((7, 5, 1), 2))
    page = opened.page
    box = page.locator("#filter")
    tabs = page.locator("#tabs [role=tab]:visible")
    assert tabs.count() == 35
    for typed, wanted in (
        ("3, 2", ["(3, 2) #17"]),
        ("(3,2)", ["(3, 2) #17"]),
        (", 4", [f"({x}, 4) #{28 + x}" for x in range(7)]),
        ("#3", ["(3, 0) #3"]),
        ("17", ["(3, 2) #17"]),
        ("9, 9", []),
        ("<b>", []),
        ("", None),
    ):
        box.fill(typed)
        assert tabs.all_inner_texts() == wanted if wanted is not None else tabs.count() == 35
        assert page.locator("#found").inner_text() == ("35 CTAs" if wanted is None else f"{len(wanted)} of 35")
    box.fill("3")
    box.press("Enter")
    assert page.locator("#cta").inner_text() == "CTA (3, 0) #3"
    page.locator("#next").click()
    assert page.locator("#cta").inner_text() == "CTA (2, 4) #30"
    box.press("Escape")
    assert tabs.count() == 35


def test_keys_move_along_the_tabs(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.gemm((40, 2, 1), 1))
    page = opened.page
    opened.open(0)
    for key, number in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", 79),
        ("ArrowRight", 79),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        tab = page.locator("#tabs [aria-selected=true]")
        assert tab.get_attribute("data-position") == str(number)
        assert tab.evaluate("one => one === document.activeElement")
        strip, box = box_of(page.locator("#tabs")), box_of(tab)
        assert strip["x"] <= box["x"]
        assert box["x"] + box["width"] <= strip["x"] + strip["width"]


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
