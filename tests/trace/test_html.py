"""The HTML page: its file, and what a user sees and does in it, in real Chromium."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from tileops.trace import Table, Timeline
from tileops.trace.export.html import export_html, render_html

from . import synthetic
from .opened import MINUS, MISSING, Opened, box_of, integer, lines_of, middle_of, spelled, tenths, wait_for

# ---------------------------------------------------------------------------------------------------------------------
# The file


def head_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="head" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_folders_are_made_and_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "page.html"
    assert export_html(synthetic.empty(), str(path), title="first") == path
    export_html(synthetic.empty(), path, title="second")
    assert "<title>second</title>" in path.read_text(encoding="utf-8")
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def test_the_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    path = export_html(synthetic.empty(), tmp_path / "page.html")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".html")
    assert export_html(synthetic.empty(), path).exists()


def test_an_unwritable_place_is_named_and_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "page.html"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match="the timeline cannot be written") as error:
        export_html(synthetic.empty(), folder)
    assert error.value.filename == str(folder)
    blocker = tmp_path / "file"
    blocker.write_text("mine")
    with pytest.raises(OSError, match="the timeline cannot be written") as error:
        export_html(synthetic.empty(), blocker / "page.html")
    assert str(blocker / "page.html") in str(error.value)
    assert blocker.read_text() == "mine"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "page.html"]


def test_everything_is_in_the_file() -> None:
    page = render_html(synthetic.gemm((2, 1, 1), 4))
    assert get_plotlyjs() in page
    ours = page.replace(get_plotlyjs(), "")
    assert not re.search(r"<\w[^>]*\s(src|href)=|url\(|@import|https?:", ours)
    assert not re.search(r"^(import|export)\b", ours, re.MULTILINE)
    assert not re.search(r"\{\{\w+\}\}", ours)


def test_names_stay_inside_their_script_element() -> None:
    page = render_html(synthetic.hostile())
    # Plotly, head, block and the page's own.
    assert page.count("<script") == page.count("</script") == get_plotlyjs().count("<script") + 4
    assert "<!--<" not in page
    head = head_of(page)
    assert head["title"] == synthetic.HOSTILE[1]
    assert {name for _, name, _ in head["ranges"]} == set(synthetic.HOSTILE)


def test_a_lone_surrogate_can_be_written(tmp_path: Path) -> None:
    path = export_html(synthetic.empty(), tmp_path / "page.html", title="a\ud800b")
    assert head_of(path.read_text(encoding="utf-8"))["title"] == "a\ud800b"


def test_what_json_cannot_hold_becomes_text_or_nothing() -> None:
    meta = {"nan": float("nan"), "path": Path("x"), "number": np.int64(3), "list": (1, float("inf")), 5: None}
    timeline = replace(synthetic.empty(), meta=meta, axis_error_ns=float("nan"))
    head = head_of(render_html(timeline))
    assert head["meta"] == {"nan": None, "path": "x", "number": 3, "list": [1, None], "5": None}
    assert head["axisError"] is None


def test_size_beyond_the_library() -> None:
    timeline = synthetic.gemm((12, 10, 1))
    beyond = len(render_html(timeline)) - len(render_html(synthetic.empty()))
    assert beyond < 2 * timeline.recorded  # 1.05, where the same as JSON takes 20


def test_tables_that_do_not_fit_together_are_refused() -> None:
    timeline = synthetic.troubled()
    with pytest.raises(ValueError, match="slices name CTAs"):
        render_html(replace(timeline, ctas=timeline.ctas[timeline.ctas["cta"] != 1]))
    with pytest.raises(ValueError, match="not ordered by CTA"):
        render_html(replace(timeline, slices=timeline.slices[::-1]))


@pytest.mark.parametrize("script", ["page", "tools"])
def test_scripts(script: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    if int(subprocess.run([node, "--version"], capture_output=True, text=True).stdout[1:].split(".")[0]) < 18:
        pytest.skip("needs node 18 or newer: its test runner and DecompressionStream")
    path = Path(__file__).with_name(f"{script}.test.mjs")
    done = subprocess.run([node, "--test", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# ---------------------------------------------------------------------------------------------------------------------
# The page


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


def test_hover_tells_name_cycles_nanoseconds_and_payload(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((2, 1, 1), 12)
    opened = show(timeline)
    opened.open(1)
    for name, occurrence in (("mma", 5), ("wait", 0), ("epilogue", 0), ("store", 0)):
        row = list(timeline.slices.where(cta=1, name=name))[occurrence]
        text = opened.hover(*opened.place(middle_of(row), row.group, row.lane, row.depth))
        ghz = timeline.ctas["ghz"][1]
        end = row.start + row.duration
        assert text.split("\n")[:2] == [name, f"{row.group} / {row.lane}"]
        assert re.search(rf"start\t{integer(row.start)}\t{tenths(row.start / ghz)}\t{tenths(row.start_ns)}\n", text)
        assert re.search(rf"end\t{integer(end)}\t{tenths(end / ghz)}\t{tenths(row.start_ns + row.duration_ns)}\n", text)
        assert f"duration\t{integer(row.duration)}\t{tenths(row.duration_ns)}" in text
        assert re.findall(r"payload (.*)", text) == ([] if row.payload is None else [integer(row.payload)])
    assert opened.hover(5, 5) == ""


def test_hover_on_an_arrow_tells_the_hand_off(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((1, 1, 1), 12)
    opened = show(timeline)
    row = next(row for row in timeline.flows if row.src == "arrive" and row.occurrence == 7)
    x0, y0 = opened.place(row.start, "producer", "barrier")
    x1, y1 = opened.place(row.end, "consumer", "barrier")
    # From the lower edge of one bar to the upper edge of the other, 11 px from their middles. Two thirds of the way
    # down it crosses the row of an epilogue that is still to come.
    y0, y1 = y0 + 11, y1 - 11
    text = opened.hover(x0 + 2 / 3 * (x1 - x0), y0 + 2 / 3 * (y1 - y0))
    assert text.split("\n")[:2] == ["arrive → wait #7", "producer / barrier → consumer / barrier"]
    latency = row.end - row.start
    assert f"hand-off\t{integer(latency)}\t{tenths(row.end_ns - row.start_ns)}\t\n" in text
    assert f"leaves\t{integer(row.start)}\t" in text
    assert f"arrives\t{integer(row.end)}\t" in text


def test_hover_on_an_instant(show: Callable[..., Opened]) -> None:
    timeline = synthetic.troubled()
    opened = show(timeline)
    opened.open(5)
    x, y = opened.place(700, "consumer", "main")
    text = opened.hover(x, y - 14)
    assert text.startswith("mark\nconsumer / main\n")
    assert f"at\t700\t{tenths(700 / 1.75)}\t{tenths(timeline.instants['time_ns'][0])}" in text
    assert "payload 2.5" in text


def test_zoom_and_pan_are_horizontal_only(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.gemm((1, 1, 1), 20))
    page = opened.page
    vertical = page.evaluate("tileops.figure.plot._fullLayout.yaxis.range.slice()")
    whole = opened.range
    x, y = opened.place(sum(whole) / 2, "consumer", "wgmma")

    def look(action: Callable[[], None]) -> list[float]:
        action()
        page.wait_for_timeout(
            400
        )  # Plotly takes a wheel for finished after 50 ms, and one click for a single after 300
        opened.settle()
        assert page.evaluate("tileops.figure.plot._fullLayout.yaxis.range.slice()") == vertical
        return opened.range

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
    nearer = look(page.locator("#zoom-in").click)
    assert nearer[1] - nearer[0] == pytest.approx((whole[1] - whole[0]) / 2)
    assert look(page.locator("#zoom-out").click) == pytest.approx(whole)
    for _ in range(20):
        page.locator("#zoom-in").click()
    closest = look(lambda: None)
    assert closest[1] - closest[0] == pytest.approx(16)
    assert look(page.locator("#fit").click) == pytest.approx(whole)


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


def test_colours_belong_to_names(show: Callable[..., Opened]) -> None:
    def colours(opened: Opened) -> dict[str, str]:
        names = opened.page.locator("#totals th > .name").all_inner_texts()
        return dict(
            zip(
                names,
                opened.page.locator("#totals th > .swatch").evaluate_all("all => all.map(one => one.style.background)"),
            )
        )

    long = show(synthetic.gemm((2, 1, 1), 10))
    first = colours(long)
    bars = long.page.locator("#figure .barlayer .point path").evaluate_all(
        "all => all.map(one => getComputedStyle(one).fill)"
    )
    assert set(bars) == set(first.values())
    long.open(1)
    assert colours(long) == first
    short = colours(show(synthetic.troubled()))
    assert short["wait"] == first["wait"]
    assert short["tma"] == first["tma"]
    assert first["mma"] == "rgb(81, 206, 199)"  # so that a file of last year looks as one of today


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


def test_the_table_adds_up(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((2, 1, 1), 30)
    opened = show(timeline)
    opened.open(1)
    slices, cycles = timeline.slices.where(cta=1), timeline.ctas["cycles"][1]
    rows = [line.split("\t") for line in opened.page.locator("#totals tr").all_inner_texts()]
    assert len(rows) == len(set(zip(slices["group"], slices["lane"], slices["name"])))
    for name, row, count, total, mean, p50, p95, most, share in rows:
        group, lane = row.split(" / ")
        durations = slices.where(group=group, lane=lane, name=name)["duration"]
        wanted = (len(durations), durations.sum(), durations.mean(), *np.percentile(durations, (50, 95)))
        assert [count, total, mean, p50, p95, most] == [integer(value) for value in (*wanted, durations.max())]
        assert share.strip() == f"{100 * durations.sum() / cycles:.1f}%"


def test_the_header_says_what_is_known(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((4, 2, 1), 5)
    opened = show(timeline, title="A title")
    page = opened.page
    assert page.title() == page.locator("h1").inner_text() == "A title"
    launch = page.locator("#launch").inner_text()
    for text in ("gemm", "NVIDIA H200", "cuda", "4 × 2 × 1", "2025-11-03 14:05:09 UTC"):
        assert text in launch
    assert page.locator("#told span").all_inner_texts() == [
        "cost of a record unknown: the recording does not say", "perturbation not measured",
    ]  # fmt: skip
    clocks = timeline.ctas["ghz"]
    assert opened.facts("#facts") == {
        "CTAs": "8", "Events": integer(timeline.recorded), "Dropped": "0", "Unfinished": "0",
        "Clock, measured": f"{clocks.min():.3f} to {clocks.max():.3f} GHz", "Axis error": "± 21.5 ns",
    }  # fmt: skip
    assert page.locator("#alerts .alert").count() == 0
    assert "tilelang 0.1.15" in page.locator("footer .versions").inner_text()
    opened.open(3)
    row = list(timeline.ctas)[3]
    facts = opened.facts("#cta-facts")
    assert facts["SM"] == integer(row.sm)
    assert facts["Cycles"] == integer(row.cycles)
    assert facts["Clock, measured"] == f"{row.ghz:.3f} GHz"
    page.locator("#details summary").click()
    assert opened.facts("#meta")["max_events"] == "512"


def test_the_header_says_what_tracing_did_to_the_kernel(show: Callable[..., Opened]) -> None:
    timeline = synthetic.gemm((1, 1, 1), 4)
    timeline.meta.update(
        probe={"plain": 14.4, "payload": 18.6, "device": "NVIDIA <b>H200</b>"},
        perturbation={
            "ratio": 1.012, "low": 1.008, "high": 1.016, "stripped_us": 189.7, "traced_us": 192.0, "rounds": 20,
        },
        slots_bytes=5_234_000,
    )  # fmt: skip
    said = show(timeline).page.locator("#told span")
    assert said.all_inner_texts() == [
        "a record costs 14 cycles (19 with a payload), measured on NVIDIA <b>H200</b>",
        (
            "tracing made this kernel 1.2% slower (median of 20 rounds' ratios, 80% of them between +0.8% and +1.6%; "
            "189.70 µs stripped)"
        ),
        "trace buffer 5.2 MB",
    ]
    timeline.meta["probe"] = {"error": "</script><b>no\ncompiler"}
    assert show(timeline).page.locator("#told span").first.inner_text() == (
        "cost of a record unknown: </script><b>no\\ncompiler"
    )


def test_trouble_is_loud(show: Callable[..., Opened]) -> None:
    timeline = synthetic.troubled()
    opened = show(timeline)
    page = opened.page
    alerts = opened.alerts()
    needed = int((timeline.rows["recorded"] + timeline.rows["dropped"]).max())
    assert "7 events dropped" in alerts
    assert f"max_events={needed} " in alerts
    assert "2 CTAs did not finish and cannot be trusted: (2, 0) #2, (0, 1) #3." in alerts
    page.get_by_text("2 markers never fired in this launch").click()
    assert page.locator("#alerts li").all_inner_texts() == list(timeline.never_fired)
    assert opened.facts("#facts")["Dropped"] == "7"
    assert page.locator("#facts .bad dt").all_inner_texts() == ["Dropped", "Unfinished"]
    assert page.locator("#tabs .unfinished").all_inner_texts() == ["(2, 0) #2", "(0, 1) #3"]
    opened.open(1)
    alerts = opened.alerts("#cta-alerts")
    assert "producer: 7 events dropped after the first 10." in alerts
    assert "2 ranges cut" in alerts
    text = opened.hover(*opened.place(800, "producer", "main"))
    assert "Cut: its end was not recorded" in text
    rows = {line.split("\t")[0]: line.split("\t")[2:] for line in page.locator("#totals tr").all_inner_texts()}
    assert [cell.strip() for cell in rows["tile"]] == ["0 + 1 cut", *[MISSING] * 6]
    assert rows["tma"][:3] == ["4 + 1 cut", "800", "200"]
    opened.open(2)
    assert "This CTA did not finish" in opened.alerts("#cta-alerts")
    assert page.locator("#nothing").inner_text() == "Nothing is known of this CTA, since it did not finish."
    assert opened.facts("#cta-facts")["Clock, measured"] == MISSING


def test_what_a_ring_dropped_came_ahead_of_what_it_kept(show: Callable[..., Opened]) -> None:
    timeline = synthetic.troubled()
    timeline.meta["keep"] = "last"
    opened = show(timeline)
    opened.open(1)
    assert "producer: 7 events dropped ahead of the last 10." in opened.alerts("#cta-alerts")


def test_cut_ranges_are_hatched_and_torn(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.troubled())
    opened.open(1)
    opened.settle()
    whole, cut = (
        opened.place(cycles, group, lane)
        for cycles, group, lane in ((500 + 80, "producer", "tma"), (900, "producer", "main"))
    )

    def shades(place: tuple[float, float]) -> int:
        """Distinct colours of the canvas along 30 px of a bar."""
        return opened.page.evaluate(
            """([x, y]) => {
              const canvas = document.querySelector("#figure canvas");
              const box = canvas.getBoundingClientRect();
              const { width, height } = canvas;
              const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
              copy.drawImage(canvas, 0, 0);
              const { data } = copy.getImageData(x - box.x, y + 8 - box.y, 30, 1);
              return new Set(Array.from({ length: 30 }, (_, i) => data.slice(4 * i, 4 * i + 4).join())).size;
            }""",
            list(place),
        )

    assert shades(whole) == 1
    assert shades(cut) > 2


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


def test_names_are_text_and_never_run(show: Callable[..., Opened]) -> None:
    timeline = synthetic.hostile()
    opened = show(timeline, height=1400)
    page = opened.page
    wanted = [spelled(name) for name in synthetic.HOSTILE]

    def texts(selector: str) -> list[str]:
        return page.locator(selector).evaluate_all("all => all.map(one => one.textContent)")

    assert texts("h1") == [spelled(synthetic.HOSTILE[1])]
    assert page.title() == " ".join(spelled(synthetic.HOSTILE[1]).split())
    assert texts("#totals th > .name") == wanted
    assert texts("#legend .chip:not(.edge) .name") == wanted
    assert texts("#figure .row-name .group") == wanted
    assert texts("#figure .row-name .lane") == wanted[::-1]
    assert texts("#alerts li") == wanted
    assert opened.bars == opened.instants == len(wanted)
    for at, row in enumerate(timeline.slices):
        box = box_of(page.locator("#figure .row-name").nth(at))
        opened.hover(opened.across(row.start + 200), box["y"] + 19)
        assert texts("#tooltip .what .name") == [wanted[at]]
        assert f"payload {integer(row.payload)}" in page.locator("#tooltip").inner_text()
    page.locator("#details summary").click()
    assert spelled(synthetic.HOSTILE[3]) in texts("#meta dd")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, b:not(#tooltip b), i").count() == 0


def test_dark_and_light_follow_the_system(show: Callable[..., Opened]) -> None:
    def brightness(opened: Opened, selector: str, of: str) -> int:
        colour = opened.page.locator(selector).first.evaluate(f"one => getComputedStyle(one).{of}")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    opened = show(synthetic.gemm((1, 1, 1), 4), color_scheme="light")
    for scheme in ("light", "dark", "light"):
        opened.page.emulate_media(color_scheme=scheme)
        opened.settle()
        page, ink = brightness(opened, "body", "backgroundColor"), brightness(opened, "body", "color")
        tick = brightness(opened, "#figure .xtick text", "fill")
        assert (page > 600 > ink) if scheme == "light" else (page < 200 < 600 < ink)
        assert (tick < 400) if scheme == "light" else (tick > 400)


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


def test_a_table_without_rows_is_no_reason_to_fail() -> None:
    timeline = synthetic.empty()
    columns = {name: timeline.flows[name][:0] for name in timeline.flows.column_names}
    nothing = Table(columns, dict.fromkeys(("src", "dst", "src_group", "dst_group"), ()))
    assert head_of(render_html(replace(timeline, flows=nothing)))["edges"] == []


# ---------------------------------------------------------------------------------------------------------------------
# The GPU map


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
    inside = []
    for row in rows:
        x, y = opened.map_place(row, lines)
        half = opened.map_across(row.end_ns) - x
        inside += [(x - half + 2, y), (x + half - 2, y)]
        assert opened.hover(x, y).startswith(f"CTA ({row.x}, {row.y}) #{row.cta}\nSM {row.sm}\n")
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
            bars = {cta: (opened.map_across(rows[cta].begin_ns + 40), opened.map_down(rows[cta].sm, line) + 7)
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

    def look() -> list[float]:
        page.wait_for_timeout(400)  # as in the figure of a CTA
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
    assert look() == pytest.approx(whole)
    page.locator("#gpu-zoom-in").click()
    page.locator("#gpu-zoom-in").click()
    nearer = look()
    assert nearer[1] - nearer[0] == pytest.approx((whole[1] - whole[0]) / 4)
    page.mouse.dblclick(opened.map_across(sum(nearer) / 2), opened.map_down(4))
    assert look() == pytest.approx(whole)


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


def test_the_map_shows_names_as_text(show: Callable[..., Opened]) -> None:
    opened = show(synthetic.hostile())
    page = opened.page
    opened.open_map()
    options = page.locator("#gpu-colour option").evaluate_all("all => all.map(one => one.textContent)")
    assert options == ["Duration", *(f"Share of {spelled(name)}" for name in synthetic.HOSTILE)]
    for at in range(len(synthetic.HOSTILE)):
        page.locator("#gpu-colour").select_option(value=str(at))
        opened.hover(opened.map_across(1000), opened.map_down(0))
        name = page.locator("#tooltip .name").evaluate("one => one.textContent")
        assert name == spelled(synthetic.HOSTILE[at])
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


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


def test_the_map_follows_window_and_theme(show: Callable[..., Opened]) -> None:
    timeline = synthetic.waves()
    opened = show(timeline, color_scheme="light")
    page = opened.page
    opened.open_map()
    row, lines = list(timeline.ctas)[12], lines_of(timeline)
    light = opened.map_colours(opened.map_place(row, lines))
    page.emulate_media(color_scheme="dark")
    wait_for(page, "tileops.gpu.map.dark")
    opened.settle_map()
    assert (opened.map_colours(opened.map_place(row, lines)) != light).any()
    assert "rgb(253, 231, 37)" in page.locator("#scale-ramp").evaluate("one => getComputedStyle(one).backgroundImage")
    # Meanwhile the CTA's figure was out of sight; it is drawn in the new theme too.
    page.locator("#tabs [role=tab]").first.click()
    opened.settle()
    tick = page.locator("#figure .xtick text").first.evaluate("one => getComputedStyle(one).fill")
    assert sum(int(part) for part in re.findall(r"\d+", tick)[:3]) > 400
    page.set_viewport_size({"width": 700, "height": 1000})
    opened.open_map()
    wait_for(page, "Math.abs(tileops.gpu.map.width - document.querySelector('#map').clientWidth) < 1")
    opened.settle_map()
    assert opened.hover(*opened.map_place(row, lines)).startswith(f"CTA ({row.x}, {row.y}) #12\n")


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
