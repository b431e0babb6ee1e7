"""The GPU map: which CTA ran where and when, what is said of it, and moving on the map and from it to a CTA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tileops.trace import Table, Timeline

from . import synthetic
from .opened import (
    MISSING,
    Opened,
    box_of,
    integer,
    lines_of,
    tenths,
)


def share_of(timeline: Timeline, name: str) -> np.ndarray:
    """What part of each CTA the whole ranges of a name make up."""
    slices = timeline.slices.where(name=name, cut=False)
    total = np.bincount(slices["cta"], slices["duration"], minlength=len(timeline.ctas))
    return np.where(timeline.ctas["finished"], total / np.maximum(timeline.ctas["cycles"], 1), np.nan)


def test_the_map_has_each_cta_where_and_when_it_ran(show: Callable[..., Opened]) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    page = opened.page
    assert page.locator("#cta").inner_text() == "CTA (0, 0) #0"
    assert not page.locator("#gpu-panel").is_visible()
    opened.open_map()
    assert not page.locator("#panel").is_visible()
    assert page.locator("[role=tab][aria-selected=true]").all_inner_texts() == ["GPU"]
    rows = [row for row in timeline.ctas if row.finished]
    assert page.evaluate("tileops.gpu.map.drawn") == len(rows) == 38
    assert page.locator("#map .sm-name").all_inner_texts() == [*(f"SM {sm}" for sm in range(7)), "no time"]
    lines = lines_of(timeline)
    assert max(lines.values()) == 1
    across, downs = opened.map_scale(), {sm: opened.map_down(sm) for sm in {row.sm for row in rows}}
    inside = []
    for row in rows:
        begin, end, y = across(row.begin_ns), across(row.end_ns), downs[row.sm] + 23 * lines[row.cta]
        inside += [(begin + 2, y), (end - 2, y)]
        assert opened.hover((begin + end) / 2, y).startswith(f"CTA ({row.x}, {row.y}) #{row.cta}\nSM {row.sm}\n")
    assert (opened.map_colours(*inside)[:, 3] == 255).all()
    last = max(rows, key=lambda row: row.end_ns)
    idle = [(4, 500.0), (last.sm, last.end_ns + 60), (0, -20.0)]
    outside = [(opened.map_across(ns), opened.map_down(sm)) for sm, ns in idle]
    assert (opened.map_colours(*outside)[:, 3] == 0).all()
    assert [opened.hover(*place) for place in outside] == [""] * 3


def test_the_caption_of_the_map_adds_up(show: Callable[..., Opened]) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    opened.open_map()
    ctas = timeline.ctas[timeline.ctas["finished"]]
    span = ctas["end_ns"].max() - ctas["begin_ns"].min()
    held = 0
    for sm in np.unique(ctas["sm"]):
        until = -np.inf
        for row in sorted(ctas.where(sm=sm), key=lambda row: row.begin_ns):
            held += max(0.0, row.end_ns - max(row.begin_ns, until))
            until = max(until, row.end_ns)
    assert opened.facts("#gpu-facts") == {
        "SMs seen": "6 of SM 0 to 6", "CTAs": "40", "Whole span": f"{integer(span)} ns",
        "SM time busy": f"{100 * held / (6 * span):.1f}% of those seen", "Did not finish": "2",
    }  # fmt: skip
    assert opened.page.locator("#gpu-facts .bad dt").all_inner_texts() == ["Did not finish"]
    assert opened.alerts("#gpu-alerts") == ("No time is known of 2 CTAs, since they did not finish: see below the SMs.")
    opened.page.locator("#tabs [role=tab]").first.click()
    assert not opened.page.locator("#gpu-panel").is_visible()

    some = np.isin(timeline.ctas["cta"], (3, 4, 17))
    kept = [np.isin(table["cta"], (3, 4, 17)) for table in (timeline.slices, timeline.rows)]
    opened = show(
        replace(timeline, ctas=timeline.ctas[some], slices=timeline.slices[kept[0]], rows=timeline.rows[kept[1]])
    )
    opened.open_map()
    assert opened.facts("#gpu-facts")["CTAs"] == "3 of 40"
    assert opened.alerts("#gpu-alerts") == (
        "Shown are 3 of the grid’s 40 CTAs, those recorded: an SM that looks idle may have run others."
    )
    assert opened.page.evaluate("tileops.gpu.map.drawn") == 3


def test_hover_on_the_map_tells_all_of_a_cta(show: Callable[..., Opened]) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    opened.open_map()
    rows, lines, shares = list(timeline.ctas), lines_of(timeline), share_of(timeline, "load")
    for cta in (0, 8, 17, 39):
        row = rows[cta]
        wanted = [
            f"CTA ({row.x}, {row.y}) #{cta}", f"SM {row.sm}", f"begin\t{tenths(row.begin_ns)} ns",
            f"end\t{tenths(row.end_ns)} ns", f"duration\t{tenths(row.end_ns - row.begin_ns)} ns",
            f"cycles\t{integer(row.cycles)}", f"clock\t{row.ghz:.3f} GHz", f"dropped events\t{3 if cta == 8 else 0}",
        ]  # fmt: skip
        opened.choose("Duration")
        outlier = ["Outlier: far from the middle half of all CTAs."] if cta == 17 else []
        assert opened.hover(*opened.map_place(row, lines)).split("\n") == wanted + outlier
        opened.choose("Share of load")
        said = opened.hover(*opened.map_place(row, lines)).split("\n")
        assert said[7] == f"share of load\t{100 * shares[cta]:.1f}%"
        assert said[:7] + said[8:9] == wanted
        cut = "1 cut range of that name left out of the share."
        assert (cut in said) == (cta == 8)
    strip = box_of(opened.page.locator("#map .sm-name").last)
    left = box_of(opened.page.locator("#map .nsewdrag"))["x"]
    text = opened.hover(left + 17, strip["y"] + strip["height"] / 2)
    assert text.startswith(f"CTA (0, 6) #30\nSM not known\nbegin\t{MISSING}\n")
    assert "Did not finish" in text
    opened.page.mouse.click(left + 5, strip["y"] + strip["height"] / 2)
    assert opened.page.locator("#cta").inner_text() == "CTA (0, 1) #5"


def test_the_maps_colours_rise_with_duration_or_share(show: Callable[..., Opened]) -> None:
    timeline = synthetic.waves()
    lines, rows, finished = lines_of(timeline), list(timeline.ctas), timeline.ctas["finished"]
    durations = timeline.ctas["end_ns"] - timeline.ctas["begin_ns"]
    for scheme in ("light", "dark"):
        opened = show(timeline, color_scheme=scheme)
        opened.open_map()
        # Duration: but for CTA 17, which is off the scale.
        plain = finished & (timeline.ctas["cta"] != 17)
        for label, values, used, text in (
            ("Duration", durations, plain, lambda value: f"{value / 1000:.2f} µs"),
            ("Share of mma", share_of(timeline, "mma"), finished, lambda value: f"{100 * value:.1f}%"),
        ):
            opened.choose(label)
            assert opened.page.locator("#scale-low").inner_text() == text(values[used].min())
            high = opened.page.locator("#scale-high").inner_text()
            assert high.removeprefix("≥ ") == text(values[used].max())
            assert high.startswith("≥") == (label == "Duration")
            # Below the labels.
            across, downs = opened.map_scale(), {sm: opened.map_down(sm) for sm in {rows[cta].sm for cta in lines}}
            bars = {cta: (across(rows[cta].begin_ns + 40), downs[rows[cta].sm] + 23 * line + 7)
                    for cta, line in lines.items()}  # fmt: skip
            bright = dict(zip(bars, opened.map_colours(*bars.values())[:, :3].sum(axis=1)))
            ordered = sorted(np.flatnonzero(used), key=lambda cta: values[cta])
            levels = np.array([bright[cta] for cta in ordered])
            # Viridis' parts do not rise one by one, so steps may be level; its ends may not.
            rising = levels if scheme == "dark" else -levels
            assert np.corrcoef(np.arange(len(levels)), rising)[0, 1] > 0.9
            assert rising[-1] > rising[0] + 100
            if label == "Duration":
                assert bright[17] == bright[ordered[-1]]
                assert opened.page.locator("#scale-notes").inner_text() == "1 outlier, dashed"


def test_a_launch_without_a_nanosecond_axis_has_no_map(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((3, 1, 1), 4)
    columns = {name: timeline.ctas[name] for name in timeline.ctas.column_names}
    columns |= {name: np.full(3, np.nan) for name in ("begin_ns", "end_ns", "ghz")}
    opened = show(replace(timeline, ctas=Table(columns), axis_error_ns=float("nan")))
    opened.page.locator("#gpu").click()
    assert "no nanosecond axis" in opened.page.locator("#gpu-nothing").inner_text()
    assert not opened.page.locator("#map").is_visible()
    assert opened.facts("#gpu-facts") == {
        "SMs seen": MISSING, "CTAs": "3", "Whole span": MISSING, "SM time busy": MISSING, "Did not finish": "0",
    }  # fmt: skip
    for key in ("g", "g", "g"):
        opened.page.keyboard.press(key)
    opened.page.locator("#tabs [role=tab]").nth(1).click()
    assert opened.page.locator("#panel").is_visible()


def test_ten_thousand_ctas_on_the_map(show: Callable[..., Opened]) -> None:
    builder = synthetic.Builder((100, 100, 1), ("main",), cycles=20_000)
    waves = np.arange(10_000) // 132
    builder.begin_ns, builder.sm = waves * 12_000.0, np.arange(10_000) % 132
    builder.slice(0, "main", "main", "one", 10, 19_000)
    opened = show(builder.build())
    opened.open_map()
    assert opened.page.evaluate("tileops.gpu.map.drawn") == 10_000
    assert opened.facts("#gpu-facts")["SMs seen"] == "132"
    x, y = opened.map_across(70 * 12_000 + 5000), opened.map_down(64)
    assert opened.hover(x, y).startswith("CTA (4, 93) #9304\nSM 64\n")
    opened.page.mouse.click(x, y)
    assert opened.page.locator("#cta").inner_text() == "CTA (4, 93) #9304"


def test_keys_move_on_the_map_and_open_a_cta(show: Callable[..., Opened]) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    page = opened.page
    page.keyboard.press("g")
    opened.settle_map()
    assert page.locator("#map").evaluate("one => one === document.activeElement")
    said = page.locator("#tooltip .what")
    assert said.inner_text() == "CTA (0, 0) #0"
    on_sm = [row.cta for row in sorted(timeline.ctas.where(sm=0), key=lambda row: row.begin_ns)]
    for key, cta in (("ArrowRight", on_sm[1]), ("ArrowRight", on_sm[2]), ("ArrowLeft", on_sm[1]), ("End", on_sm[-1]),
                     ("ArrowRight", on_sm[-1]), ("Home", on_sm[0])):  # fmt: skip
        page.keyboard.press(key)
        assert said.inner_text().endswith(f"#{cta}")
    for sm in (1, 2, 3, 5, 6):
        page.keyboard.press("ArrowDown")
        assert page.locator("#tooltip .where").inner_text() == f"SM {sm}"
    assert page.locator("#gpu-said").text_content().endswith(" cycles")
    number = int(said.inner_text().partition("#")[2])
    page.keyboard.press("Enter")
    assert page.locator("#panel").is_visible()
    assert page.locator("#cta").inner_text().endswith(f"#{number}")
    assert page.locator("#tabs [aria-selected=true]").evaluate("one => one === document.activeElement")
    assert not page.locator("#tooltip").is_visible()
    page.keyboard.press("g")
    assert said.inner_text().endswith(f"#{number}")
    page.keyboard.press("+")
    opened.settle_map()
    low, high = opened.map_range
    page.keyboard.press("End")
    page.keyboard.press("Home")
    opened.settle_map()
    assert opened.map_range[1] - opened.map_range[0] == pytest.approx(high - low)
    page.keyboard.press("g")
    assert page.locator("#panel").is_visible()
    page.locator("#filter").press("g")
    assert page.locator("#panel").is_visible()
    assert page.locator("#filter").input_value() == "g"


def test_a_click_on_the_map_opens_a_cta_that_the_filter_hides(show: Callable[..., Opened]) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    page = opened.page
    page.locator("#filter").fill("#3")
    opened.open_map()
    row = list(timeline.ctas)[21]
    page.mouse.click(*opened.map_place(row, lines_of(timeline)))
    opened.settle()
    assert page.locator("#cta").inner_text() == f"CTA ({row.x}, {row.y}) #21"
    assert page.locator("#tabs [aria-selected=true]").inner_text() == f"({row.x}, {row.y}) #21"
    assert page.locator("#filter").input_value() == ""
    assert opened.bars == len(timeline.slices.where(cta=21))


def test_the_map_zooms_and_pans_along_time_only(show: Callable[..., Opened]) -> None:
    timeline = synthetic.waves()
    opened = show(timeline)
    page = opened.page
    opened.open_map()
    whole = opened.map_range
    row = list(timeline.ctas)[12]
    x, y = opened.map_place(row, lines_of(timeline))

    def look(wait: int = 400) -> list[float]:
        page.wait_for_timeout(wait)  # as in the figure of a CTA
        opened.settle_map()
        return opened.map_range

    page.mouse.move(x, y)
    page.mouse.wheel(0, -120)
    near = look()
    assert near[1] - near[0] < 0.8 * (whole[1] - whole[0])
    assert opened.hover(*opened.map_place(row, lines_of(timeline))).startswith(f"CTA ({row.x}, {row.y}) #12\n")
    page.mouse.down()
    page.mouse.move(x - 40, y + 30, steps=4)
    page.mouse.move(x - 80, y + 60, steps=4)
    page.mouse.up()
    panned = look()
    width = box_of(page.locator("#map .nsewdrag"))["width"]
    assert panned[0] - near[0] == pytest.approx(80 / width * (near[1] - near[0]), rel=0.03)
    assert panned[1] - panned[0] == pytest.approx(near[1] - near[0])
    assert page.locator("#gpu-panel").is_visible()  # a drag that ends on a bar opens nothing
    page.mouse.wheel(120, 0)
    assert look()[0] > panned[0]
    page.locator("#gpu-fit").click()
    assert look(wait=0) == pytest.approx(whole)
    page.locator("#gpu-zoom-in").click()
    page.locator("#gpu-zoom-in").click()
    nearer = look(wait=0)
    assert nearer[1] - nearer[0] == pytest.approx((whole[1] - whole[0]) / 4)
    page.mouse.dblclick(opened.map_across(sum(nearer) / 2), opened.map_down(4))
    assert look() == pytest.approx(whole)
