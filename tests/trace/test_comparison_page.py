"""The page of a comparison, in real Chromium: what it shows, and that both launches stay on one axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileops.trace import Table, Timeline
from tileops.trace.comparison import Comparison, compare
from tileops.trace.export.html import export_comparison
from tileops.trace.recording import Recording

from . import synthetic
from .opened import MINUS, MISSING, OpenedComparison, box_of, integer, spelled

ShowComparison = Callable[..., OpenedComparison]
RECORDINGS = Path(__file__).parents[1] / "recordings"
SIDES = ("before", "after")


def recorded(name: str) -> Timeline:
    return Recording.load(RECORDINGS / f"gemm_{name}.tltrace").decode()


def two() -> tuple[Timeline, Timeline]:
    """Two GEMMs of one grid whose clocks differ by a tenth, the second one with more iterations."""
    before, after = synthetic.gemm((4, 2, 1), 8), synthetic.gemm((4, 2, 1), 12, seed=5)
    return before, clocked(after, 1.58)


def clocked(timeline: Timeline, ghz: float | np.ndarray) -> Timeline:
    columns = {name: timeline.ctas[name].copy() for name in timeline.ctas.column_names}
    columns["ghz"][:] = ghz
    columns["end_ns"] = columns["begin_ns"] + columns["cycles"] / columns["ghz"]
    return replace(timeline, ctas=Table(columns))


def ranked(timeline: Timeline) -> list[int]:
    """CTAs that finished, by their cycles."""
    done = [row for row in timeline.ctas if row.finished]
    return [row.cta for row in sorted(done, key=lambda row: (row.cycles, row.cta))]


def check_bars(opened: OpenedComparison, side: str, timeline: Timeline, cta: int, scale: float = 1.0) -> None:
    """Holds what Plotly drew of a CTA against the Timeline, to a pixel."""
    slices = timeline.slices.where(cta=cta)
    wanted = sorted(zip(slices["start"] * scale, (slices["start"] + slices["duration"]) * scale))
    low, high = opened.axis(side)
    left, right = opened.edges(side)
    drawn = opened.bars(side)
    assert len(drawn) == len(wanted)
    assert np.abs(np.array(drawn) - np.array(wanted)).max() < 1.1 * (high - low) / (right - left)


def check_opened(opened: OpenedComparison, timelines: tuple[Timeline, Timeline], ctas: tuple[int, int]) -> None:
    """Holds titles, facts and bars of both sides against their Timelines."""
    assert opened.one_axis()
    for side, timeline, cta, title in zip(SIDES, timelines, ctas, ("Before", "After")):
        (row,) = timeline.ctas.where(cta=cta)
        assert opened.title(side).startswith(f"{title} · CTA ({row.x}, {row.y}")
        assert f" #{cta}" in opened.title(side)
        facts = opened.facts(f"#{side}-facts")
        assert facts["SM"] == str(row.sm)
        assert facts["Cycles"] == integer(row.cycles)
        assert facts["Clock, measured"] == f"{row.ghz:.3f} GHz"
        check_bars(opened, side, timeline, cta)


# ---------------------------------------------------------------------------------------------------------------------
# Figures


def test_both_launches_are_drawn_on_one_axis(show_comparison: ShowComparison) -> None:
    timelines = two()
    opened = show_comparison(*timelines)
    # One grid: the median CTA of the first launch is shown of both.
    median = ranked(timelines[0])[(len(timelines[0].ctas) - 1) // 2]
    middle = (median, median)
    check_opened(opened, timelines, middle)
    longest = max(timeline.ctas["cycles"][cta] for timeline, cta in zip(timelines, middle))
    low, high = opened.axis("before")
    # All of the longer one, and little beside it.
    assert low < 0
    assert longest < high < 1.02 * longest
    rows = [opened.page.locator(f"#{side}-figure .row-name").all_text_contents() for side in SIDES]
    assert rows[0] == rows[1] == [
        "producer / barrier", "producer / tma", "consumer / main", "consumer / barrier", "consumer / wgmma",
    ]  # fmt: skip


def test_the_launches_of_the_median_span_are_shown(show_comparison: ShowComparison) -> None:
    launches = [synthetic.gemm((2, 1, 1), iterations) for iterations in (14, 6, 10)]
    opened = show_comparison(launches, launches[:2])
    assert opened.facts("#before-facts")["Cycles"] == integer(np.sort(launches[2].ctas["cycles"])[0])
    assert opened.facts("#after-facts")["Cycles"] == integer(np.sort(launches[1].ctas["cycles"])[0])  # the lower of two
    assert (opened.facts("#facts")["Launches before"], opened.facts("#facts")["Launches after"]) == ("3", "2")


@pytest.mark.parametrize("side", SIDES)
def test_a_figure_follows_the_other(side: str, show_comparison: ShowComparison) -> None:
    opened = show_comparison(*two())
    page = opened.page
    whole = opened.axis(side)
    other = SIDES[1 - SIDES.index(side)]
    box = box_of(page.locator(f"#{side}-figure .nsewdrag"))
    x, y = box["x"] + 0.3 * box["width"], box["y"] + 20
    page.mouse.move(x, y)
    for _ in range(4):
        page.mouse.wheel(0, -100)
        page.wait_for_timeout(20)
        assert opened.one_axis()
    page.wait_for_timeout(150)  # Plotly says so once the wheel rests
    assert opened.one_axis()
    zoomed = opened.axis(side)
    assert zoomed[1] - zoomed[0] < 0.5 * (whole[1] - whole[0])
    # While it is dragged, not only at the end.
    page.mouse.down()
    page.mouse.move(x - 60, y)
    page.mouse.move(x - 120, y)
    assert opened.one_axis()
    dragged = opened.axis(other)
    assert dragged[0] > zoomed[0] + 0.05 * (zoomed[1] - zoomed[0])
    page.mouse.up()
    assert opened.one_axis()
    page.mouse.wheel(150, 0)
    assert opened.one_axis()
    assert opened.axis(other)[0] > dragged[0]
    # Shift-drag zooms into a span.
    before = opened.axis(side)
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y)
    page.mouse.move(x + 100, y)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert opened.one_axis()
    assert opened.axis(side)[1] - opened.axis(side)[0] == pytest.approx(
        (before[1] - before[0]) * 100 / box["width"], rel=0.1
    )
    # Far to either end, and out again.
    for _ in range(3):
        page.mouse.wheel(-20_000, 0)
    assert opened.one_axis()
    assert opened.axis(side)[0] == pytest.approx(whole[0])
    for _ in range(5):  # on a busy machine the clicks stand too far apart for Plotly
        page.mouse.dblclick(x, y)
        page.wait_for_timeout(400)
        if opened.axis(other) == pytest.approx(whole):
            break
    assert opened.one_axis()
    assert opened.axis(other) == pytest.approx(whole)


def test_buttons_and_keys_move_both(show_comparison: ShowComparison) -> None:
    opened = show_comparison(*two())
    page = opened.page
    whole = opened.axis("after")
    width = whole[1] - whole[0]
    for press, part in (
        (lambda: page.locator("#zoom-in").click(), 0.5), (lambda: page.keyboard.press("+"), 0.25),
        (lambda: page.keyboard.press("-"), 0.5), (lambda: page.keyboard.press("ArrowRight"), 0.5),
        (lambda: page.keyboard.press("ArrowLeft"), 0.5), (lambda: page.locator("#zoom-out").click(), 1),
        (lambda: page.locator("#zoom-in").click(), 0.5), (lambda: page.locator("#fit").click(), 1),
        (lambda: page.keyboard.press("+"), 0.5), (lambda: page.keyboard.press("0"), 1),
    ):  # fmt: skip
        press()
        assert opened.one_axis()
        low, high = opened.axis("after")
        assert high - low == pytest.approx(part * width)
    page.keyboard.press("+")
    before = opened.axis("before")
    page.keyboard.press("ArrowRight")
    assert opened.one_axis()
    assert opened.axis("after")[0] == pytest.approx(before[0] + 0.2 * (before[1] - before[0]))


def test_a_zoom_into_what_one_side_does_not_have(show_comparison: ShowComparison) -> None:
    """The axis goes as far as the longer launch, in both figures, and stays there with other CTAs and units."""
    timelines = two()
    opened = show_comparison(*timelines)
    page = opened.page
    page.locator("#zoom-in").click()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert opened.one_axis()
    low, high = opened.axis("before")
    assert low > 0.45 * high
    assert high > timelines[0].ctas["cycles"].max()
    page.locator("#slowest").click()
    assert opened.one_axis()
    assert opened.axis("before")[0] == pytest.approx(low, rel=0.05)
    page.locator("#unit").select_option("ns")
    assert opened.one_axis()
    page.locator("#unit").select_option("cycles")
    assert opened.one_axis()
    assert opened.axis("before")[0] == pytest.approx(low, rel=0.05)


def test_the_narrowest_span_is_one_for_both(show_comparison: ShowComparison) -> None:
    opened = show_comparison(*two())
    for unit in ("cycles", "ns"):
        opened.page.locator("#unit").select_option(unit)
        opened.page.locator("#unit").blur()
        for _ in range(14):
            opened.page.keyboard.press("+")
            assert opened.one_axis()
        low, high = opened.axis("after")
        assert high - low <= 17
        opened.page.keyboard.press("0")


def test_units(show_comparison: ShowComparison) -> None:
    """An axis in nanoseconds has as many cycles as the clocks make of them."""
    timelines = two()
    opened = show_comparison(*timelines)
    select = opened.page.locator("#unit")
    assert [option.get_attribute("value") for option in select.locator("option").all()] == ["cycles", "ns"]
    opened.page.locator("#cta").fill("3")
    opened.page.keyboard.press("Enter")
    select.select_option("ns")
    assert opened.one_axis()
    ends = []
    for side, timeline in zip(SIDES, timelines):
        check_bars(opened, side, timeline, 3, 1 / timeline.ctas["ghz"][3])
        ends.append(timeline.ctas["cycles"][3] / timeline.ctas["ghz"][3])
        assert "ns since the CTA’s begin" in opened.page.locator(f"#{side}-figure .xtitle").text_content()
    assert max(ends) < opened.axis("before")[1] < 1.02 * max(ends)
    opened.page.locator("#zoom-in").click()
    assert opened.one_axis()


def test_without_a_clock_both_are_in_cycles(show_comparison: ShowComparison) -> None:
    before, after = two()
    opened = show_comparison(before, clocked(after, np.nan))
    opened.page.locator("#unit").select_option("ns")
    assert opened.one_axis()
    for side in SIDES:
        assert "SM cycles" in opened.page.locator(f"#{side}-figure .xtitle").text_content()
    assert opened.facts("#after-facts")["Clock, measured"] == MISSING


def test_what_the_pointer_is_on(show_comparison: ShowComparison) -> None:
    timelines = two()
    opened = show_comparison(*timelines)
    opened.page.locator("#cta").fill("2")
    opened.page.keyboard.press("Enter")
    opened.settle()
    for side, timeline in zip(SIDES, timelines):
        row = next(iter(timeline.slices.where(cta=2, name="epilogue")))
        low, high = opened.axis(side)
        left, right = opened.edges(side)
        name = box_of(opened.page.locator(f"#{side}-figure .row-name").nth(2))
        x = left + (row.start + row.duration / 2 - low) / (high - low) * (right - left)
        opened.page.mouse.move(x, name["y"] + 19)
        tooltip = opened.page.locator("#tooltip")
        assert "epilogue" in tooltip.inner_text()
        assert integer(row.start) in tooltip.inner_text()
        opened.page.mouse.move(5, 5)
        assert not tooltip.is_visible()


# ---------------------------------------------------------------------------------------------------------------------
# CTAs


def test_ctas_by_number_and_by_their_cycles(show_comparison: ShowComparison) -> None:
    timelines = two()
    opened = show_comparison(*timelines)
    box, found = opened.page.locator("#cta"), opened.page.locator("#found")
    orders = [ranked(timeline) for timeline in timelines]
    for button, place in (("fastest", 0), ("slowest", -1), ("median", (len(orders[0]) - 1) // 2)):
        opened.page.locator(f"#{button}").click()
        chosen = tuple(order[place] for order in orders)
        check_opened(opened, timelines, chosen)
        same = chosen[0] == chosen[1]
        assert box.input_value() == (str(chosen[0]) if same else "")
        assert found.inner_text() == ("of both" if same else f"#{chosen[0]} before, #{chosen[1]} after")
    for cta in (0, 7, 3):
        box.fill(str(cta))
        box.press("Enter")
        check_opened(opened, timelines, (cta, cta))
        assert found.inner_text() == "of both"


def test_a_cta_that_one_side_alone_has(show_comparison: ShowComparison) -> None:
    timelines = synthetic.gemm((4, 1, 1), 8), synthetic.gemm((4, 2, 1), 8)
    opened = show_comparison(*timelines)
    box, found = opened.page.locator("#cta"), opened.page.locator("#found")
    box.fill("2")
    box.press("Enter")
    for text, said in (
        ("6", "not recorded before"),
        ("8", "not recorded before and after"),
        ("1.5", "not recorded before and after"),
    ):
        box.fill(text)
        box.press("Enter")
        assert found.inner_text() == said
        # What was open stays.
        assert all("#2" in opened.title(side) for side in SIDES)
    box.fill("")
    box.press("Enter")
    assert all("#2" in opened.title(side) for side in SIDES)
    box.fill("1")
    box.press("Enter")
    assert found.inner_text() == "of both"
    assert all("#1" in opened.title(side) for side in SIDES)


def test_ctas_that_did_not_finish_or_recorded_nothing(show_comparison: ShowComparison) -> None:
    timeline = synthetic.troubled()
    opened = show_comparison(timeline, replace(timeline, meta={**timeline.meta, "kernel": "other"}))
    box = opened.page.locator("#cta")
    for cta, said in (
        (2, "Nothing is known of this CTA, since it did not finish."),
        (4, "This CTA recorded no range and no instant."),
    ):
        box.fill(str(cta))
        box.press("Enter")
        for side in SIDES:
            assert opened.page.locator(f"#{side}-nothing").inner_text() == said
            assert not opened.page.locator(f"#{side}-figure").is_visible()
        assert opened.page.locator("#legend .chip").count() == 0
        opened.page.locator("#zoom-in").click()
        opened.page.locator("#fit").click()
    box.fill("0")
    box.press("Enter")
    check_opened(opened, (timeline, timeline), (0, 0))
    for side in SIDES:
        assert not opened.page.locator(f"#{side}-nothing").is_visible()


def test_a_side_of_which_nothing_was_recorded(show_comparison: ShowComparison) -> None:
    timeline = synthetic.gemm((2, 1, 1), 6)
    for sides, empty in (((timeline, synthetic.empty()), 1), ((synthetic.empty(), timeline), 0)):
        opened = show_comparison(*sides)
        assert opened.page.locator(f"#{SIDES[empty]}-nothing").is_visible()
        full = SIDES[1 - empty]
        check_bars(opened, full, timeline, ranked(timeline)[0])
        whole = opened.axis(full)
        opened.page.locator("#zoom-in").click()
        opened.settle()
        assert opened.axis(full)[1] - opened.axis(full)[0] == pytest.approx((whole[1] - whole[0]) / 2)
        assert {cells[4] for cells in opened.table().values()} == {"unknown"}
    none = show_comparison(synthetic.empty(), synthetic.empty())
    assert not none.page.locator("#summary").is_visible()


def test_launches_without_a_cta(show_comparison: ShowComparison) -> None:
    timeline = synthetic.empty()
    nothing = replace(timeline, ctas=timeline.ctas[:0], rows=timeline.rows[:0])
    opened = show_comparison(nothing, synthetic.gemm((1, 1, 1), 4))
    assert not opened.page.locator("#timelines").is_visible()
    assert not opened.page.locator("#picker").is_visible()
    assert len(opened.table()) == 10


# ---------------------------------------------------------------------------------------------------------------------
# Legend


def test_the_legend_hides_on_both_sides(show_comparison: ShowComparison) -> None:
    timelines = two()
    opened = show_comparison(*timelines)
    opened.page.locator("#cta").fill("1")
    opened.page.keyboard.press("Enter")
    opened.settle()

    def bars() -> list[int]:
        opened.settle()
        return [len(opened.bars(side)) for side in SIDES]

    def arrows() -> list[int]:
        opened.settle()
        return [opened.figure(side, "figure.scene.flows.length") for side in SIDES]

    of = [timeline.slices.where(cta=1) for timeline in timelines]
    flows = [timeline.flows.where(cta=1) for timeline in timelines]
    assert bars() == [len(slices) for slices in of]
    assert opened.chip("mma").inner_text().split() == ["mma", str(sum(len(slices.where(name="mma")) for slices in of))]
    opened.chip("mma").click()
    assert bars() == [len(slices) - len(slices.where(name="mma")) for slices in of]
    assert opened.chip("mma").get_attribute("aria-pressed") == "false"
    # Another CTA has it hidden too.
    opened.page.locator("#fastest").click()
    assert opened.chip("mma").get_attribute("aria-pressed") == "false"
    opened.page.locator("#cta").fill("1")
    opened.page.keyboard.press("Enter")
    opened.chip("mma").click()
    assert bars() == [len(slices) for slices in of]
    assert arrows() == [len(some) for some in flows]
    edge = opened.page.locator("#legend .chip.edge").filter(has_text="release")
    edge.click()
    assert arrows() == [len(some) - len(some.where(src="release")) for some in flows]
    edge.click()
    assert arrows() == [len(some) for some in flows]
    opened.chip("tma").click(modifiers=["Shift"])
    assert bars() == [len(slices.where(name="tma")) for slices in of]


def test_the_legend_has_what_one_side_alone_has(show_comparison: ShowComparison) -> None:
    """Names and arrows, whichever side is the one that has them, and whatever their numbers there."""
    one, other = synthetic.gemm((1, 1, 1), 6), synthetic.Builder((1, 1, 1), ("producer", "consumer"), cycles=4000)
    swap = other.slice(0, "producer", "main", "swap", 100, 900)
    acquire = other.slice(0, "consumer", "main", "acquire", 1000, 2000)
    other.flow(swap, acquire, 0)
    other.flow(other.slice(0, "producer", "main", "release", 2100, 2200),
               other.slice(0, "consumer", "main", "acquire", 2300, 2600), 0)  # fmt: skip
    for sides in ((one, other.build()), (other.build(), one)):
        opened = show_comparison(*sides)
        mine = SIDES[sides.index(one)]
        yours = SIDES[1 - SIDES.index(mine)]
        texts = {chip.split("\n")[0] for chip in opened.page.locator("#legend .chip:not(.edge)").all_inner_texts()}
        names = {*one.slices["name"], *one.instants["name"], "swap"}
        assert {text.rstrip("0123456789 ") for text in texts} == names
        assert opened.page.locator("#legend .chip.edge").count() == 3
        opened.page.locator("#legend .chip.edge").filter(has_text="release").click()
        opened.settle()
        assert opened.figure(yours, "figure.scene.flows.length") == 1
        assert opened.figure(mine, "figure.scene.flows.length") == len(one.flows.where(dst="wait"))


# ---------------------------------------------------------------------------------------------------------------------
# What changed


def percent(change: float) -> str:
    return f"{change:+.1%}".replace("-", MINUS)


def check_table(opened: OpenedComparison, made: Comparison) -> None:
    """Holds the table against what :func:`compare` says."""
    wanted = {}
    for change in made.ranges:
        found = change.verdict
        spread = MISSING if np.isnan(found.low) else f"{percent(found.low)} to {percent(found.high)}"
        wanted[spelled(change.name), f"{spelled(change.group)} / {spelled(change.lane)}"] = [
            MISSING if np.isnan(found.before) else integer(found.before),
            MISSING if np.isnan(found.after) else integer(found.after),
            MISSING if np.isnan(found.change) else percent(found.change),
            spread, found.verdict, found.evidence,
        ]  # fmt: skip
    assert opened.table() == wanted
    assert list(opened.table()) == list(wanted)


def test_the_table_and_the_head_say_what_compare_says(show_comparison: ShowComparison) -> None:
    for name in ("one-stage", "wave-and-a-bit"):
        sides = recorded("good"), recorded(name)
        made = compare(*sides)
        opened = show_comparison(*sides)
        check_table(opened, made)
        head = opened.page.locator("#span").inner_text()
        assert head.startswith(f"{made.span.before / 1000:.1f} µs before, ")
        assert head.endswith(f"{percent(made.span.change)}: slower")
        assert opened.page.locator("#reason").inner_text() == f"{made.span.evidence}: {made.span.reason}"
        assert opened.facts("#facts")["Clock before"] == f"{made.clock_before:.3f} GHz"
        assert opened.page.locator("#alerts .alert").all_inner_texts() == list(made.caution)
        assert opened.one_axis()
        title = opened.page.locator("#changes tr").first.locator("td").nth(5).get_attribute("title")
        assert title == made.ranges[0].verdict.reason
    assert "other grids" in opened.page.locator("#alerts").inner_text()


def test_findings_that_came_and_went(show_comparison: ShowComparison) -> None:
    good, bad = recorded("good"), recorded("one-stage")
    cost = {**bad.meta["perturbation"], "ratio": 1.06}
    bad = replace(bad, meta={**bad.meta, "perturbation": cost})
    findings = bad.findings()
    assert [finding.rule for finding in findings] == ["no-overlap", "disturbed"]  # of both kinds
    for sides, title in (((good, bad), "New findings"), ((bad, good), "Findings that are gone")):
        opened = show_comparison(*sides)
        section = opened.page.locator("#findings")
        assert section.locator("h2").all_inner_texts() == [title]
        for shown, finding in zip(section.locator(".finding").all(), findings, strict=True):
            first, seen, next_ = shown.locator("p").all_inner_texts()
            bound = f"up to {finding.win:.1%} of the kernel" if finding.win else "about the recording"
            assert first == f"{finding.rule} {bound}, {finding.evidence}"
            assert (seen, next_) == (finding.seen, finding.next)
    opened = show_comparison(good, good)
    assert not opened.page.locator("#findings").is_visible()
    assert opened.page.locator("#alerts .alert").count() == 0
    assert opened.page.locator("#span").inner_text().endswith("+0.0%: noise")


# ---------------------------------------------------------------------------------------------------------------------
# Names, sizes, colours


def test_hostile_names_are_text(show_comparison: ShowComparison) -> None:
    timeline = synthetic.hostile()
    opened = show_comparison(timeline, timeline, width=320)
    page = opened.page
    assert page.evaluate("window.hacked") is None
    assert page.locator("#changes img, #legend img, #timelines img, h1 script").count() == 0
    assert {name for name, _ in opened.table()} == {spelled(name) for name in synthetic.HOSTILE}
    assert page.locator("h1").inner_text() == f"{synthetic.HOSTILE[1]}: before and after"
    assert page.title() == f"{synthetic.HOSTILE[1]}: before and after"
    assert opened.one_axis()
    for title in synthetic.HOSTILE:
        assert show_comparison(timeline, timeline, title=title).page.evaluate("window.hacked") is None
    other = replace(timeline, meta={**timeline.meta, "kernel": synthetic.HOSTILE[0]})
    both = show_comparison(timeline, other).page.locator("#alerts .alert").all_inner_texts()
    assert any(synthetic.HOSTILE[0] in text for text in both)


@pytest.mark.parametrize("width", [320, 480, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_widths_and_colours(width: int, scheme: str, show_comparison: ShowComparison) -> None:
    before, after = two()
    for sides in ((before, after), (recorded("good"), recorded("slow-producer")), 2 * (synthetic.hostile(),)):
        opened = show_comparison(*sides, width=width, color_scheme=scheme)
        page = opened.page
        assert opened.one_axis()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        beyond = page.evaluate(
            """() => [...document.querySelectorAll("body *")].filter((one) => {
              const { left, right, width } = one.getBoundingClientRect();
              const apart = one.closest(".plane, .unseen, #tooltip, #js-plotly-tester");
              return !apart && width && (right > innerWidth + 1 || left < -1);
            }).map((one) => `${one.tagName} ${one.id} ${one.className}`)"""
        )
        assert beyond == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(dark[:3]) < 60) == (scheme == "dark")
    assert page.locator("#changes td.wide").first.is_visible() == (width > 640)


def test_a_window_that_changes(show_comparison: ShowComparison) -> None:
    opened = show_comparison(*two())
    opened.page.locator("#zoom-in").click()
    assert opened.one_axis()
    axis = opened.axis("before")
    for width in (900, 500, 1400, 700):
        opened.resize(width)
        assert opened.one_axis()
        assert opened.axis("after") == pytest.approx(axis)
        assert opened.edges("before")[1] < width
    opened.page.emulate_media(color_scheme="dark")
    opened.settle()
    assert opened.one_axis()
    ink = opened.figure("after", "figure.theme.ink")
    assert ink == opened.page.evaluate("getComputedStyle(document.body).getPropertyValue('--ink').trim()")


def test_of_names_of_other_lengths(show_comparison: ShowComparison) -> None:
    """The figures begin at the same place though the names before them do not take the same room."""
    short = synthetic.Builder((1, 1, 1), ("a",), cycles=1000)
    short.slice(0, "a", "b", "work", 0, 900)
    long = synthetic.Builder((1, 1, 1), ("a group of a long name",), cycles=800)
    long.slice(0, "a group of a long name", "and its lane", "work", 0, 700)
    for sides in ((short.build(), long.build()), (long.build(), short.build())):
        opened = show_comparison(*sides)
        assert opened.one_axis()
        for side in SIDES:
            names = box_of(opened.page.locator(f"#{side}-figure .row-name"))
            assert names["x"] + names["width"] <= opened.edges(side)[0]
        opened.resize(900)
        assert opened.one_axis()


def test_where_the_library_comes_from(tmp_path: Path, visit: Callable[..., Any]) -> None:
    made = compare(*two())
    small = export_comparison(made, tmp_path / "small.html", plotlyjs="folder")
    whole = export_comparison(made, tmp_path / "whole.html")
    assert small.stat().st_size < 0.2 * whole.stat().st_size
    with pytest.raises(ValueError, match="plotlyjs"):
        export_comparison(made, tmp_path / "none.html", plotlyjs="net")
    assert not (tmp_path / "none.html").exists()
    with pytest.raises(OSError, match="whole"):
        export_comparison(made, whole / "below.html")
