"""The page's address: a link opens what was shown, and says what of it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from . import synthetic
from .opened import (
    Opened,
    box_of,
    choose_unit,
    wait_for,
)

Show = Callable[..., Opened]


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
