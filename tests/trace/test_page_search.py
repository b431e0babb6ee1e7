"""Search: from one occurrence of a range to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileops.trace import Timeline

from . import synthetic
from .opened import (
    Opened,
    middle_of,
)

Show = Callable[..., Opened]


def chosen(opened: Opened, timeline: Timeline, cta: int) -> Any:
    """The range that is chosen, as the address has it."""
    return list(timeline.slices.where(cta=cta))[int(opened.state()["slice"][0])]


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
