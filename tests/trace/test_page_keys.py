"""The keyboard: what each key does, and that none fails where there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from . import synthetic
from .opened import (
    Opened,
    check_table,
)

Show = Callable[..., Opened]


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
