"""Cycles and nanoseconds on the axis, and what the bars' labels say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tileops.trace import Table, Timeline

from . import synthetic
from .opened import (
    MINUS,
    MISSING,
    Opened,
    canvas_texts,
    check_table,
    choose_unit,
    integer,
    middle_of,
    number,
    tenths,
)
from .synthetic import labelled

Show = Callable[..., Opened]


def clockless() -> Timeline:
    """Three CTAs, of which the second's clock is not known."""
    timeline = synthetic.gemm((3, 1, 1), 8)
    columns = {name: timeline.ctas[name].copy() for name in timeline.ctas.column_names}
    for name in ("ghz", "begin_ns", "end_ns"):
        columns[name][1] = np.nan
    return replace(timeline, ctas=Table(columns))


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
        across = opened.scale()
        for text, left, right in ticks.evaluate_all(
            """all => all.map((one) => [one.textContent, one.getBoundingClientRect()])
              .map(([text, { left, right }]) => [text, left, right])"""
        ):
            assert (left + right) / 2 == pytest.approx(across(number(text)), abs=2)
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
