"""A timeline's page, opened in Chromium from its file, and what tests do with it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest

from tileops.trace import Timeline

MINUS = "−"
MISSING = "–"


def wait_for(page: Any, condition: str, patience: float = 30.0) -> None:
    """Waits until an expression is true. Playwright's own way has the page evaluate it, which its policy forbids."""
    begin = time.monotonic()
    while not page.evaluate(condition):
        assert time.monotonic() - begin < patience, condition
        page.wait_for_timeout(20)


def box_of(locator: Any, patience: float = 30.0) -> dict[str, float]:
    """Where an element that is shown is on the screen; one that a redraw is just replacing is nowhere for a moment."""
    begin = time.monotonic()
    while (box := locator.bounding_box()) is None:
        assert time.monotonic() - begin < patience, locator
        locator.page.wait_for_timeout(20)
    return box


def scale_of(box: dict[str, float], shown: list[float]) -> Callable[[float], float]:
    """Where on the screen times are on an axis that is as wide as a box and shows them from one to another."""
    low, high = shown
    return lambda time: box["x"] + (time - low) / (high - low) * box["width"]


# A change of theme or size is noticed with a frame, and what is drawn then shows with the next one.
SETTLED = """async () => {
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  %s;
  await new Promise(requestAnimationFrame);
}"""


class Opened:
    """A page that was opened from its file, and what a test does with it."""

    def __init__(self, page: Any) -> None:
        self.page = page

    @property
    def bars(self) -> int:
        """Bars that Plotly drew."""
        return self.page.locator("#figure .barlayer .point path").count()

    @property
    def arrows(self) -> int:
        """Pieces of the line that Plotly drew the arrows with."""
        paths = self.page.locator("#figure .scatterlayer path.js-line").evaluate_all(
            "all => all.map(one => one.getAttribute('d'))"
        )
        return sum(path.count("M") for path in paths)

    @property
    def instants(self) -> int:
        return self.page.locator("#figure .scatterlayer path.point").count()

    @property
    def range(self) -> list[float]:
        return self.page.evaluate("tileops.figure.plot.layout.xaxis.range.map(Number)")

    def open(self, cta: int) -> None:
        """Clicks the tab of the CTA of that linear number."""
        self.page.locator(f"#tabs [role=tab][data-position='{cta}']").click()

    def settle(self) -> None:
        """Waits until Plotly has redrawn."""
        self.page.evaluate(SETTLED % "await tileops.figure.busy")

    def scale(self) -> Callable[[float], float]:
        """Where on the screen times are as long as the figure stays as it is, from Plotly's own axis."""
        return scale_of(box_of(self.page.locator("#figure .nsewdrag")), self.range)

    def across(self, cycles: float) -> float:
        """Where on the screen a time is."""
        return self.scale()(cycles)

    def place(self, cycles: float, group: str, lane: str, depth: int = 0) -> tuple[float, float]:
        """Where on the screen a row's bars are at a time."""
        name = self.page.locator("#figure .row-name", has=self.page.get_by_text(lane, exact=True)).and_(
            self.page.locator("#figure .row-name", has=self.page.get_by_text(group, exact=True))
        )
        row = box_of(name)
        # A name stands beside its row's outermost bars.
        return self.across(cycles), row["y"] + 19 + 24 * depth

    def hover(self, x: float, y: float) -> str:
        """The tooltip at a place, cells apart by tabs; empty without one."""
        self.page.mouse.move(x + 40, y + 300)
        self.page.mouse.move(x, y)
        tooltip = self.page.locator("#tooltip")
        return re.sub("\n+", "\n", tooltip.inner_text()) if tooltip.is_visible() else ""

    def facts(self, element: str) -> dict[str, str]:
        """Titles and values of a list of facts."""
        titles = self.page.locator(f"{element} dt").all_inner_texts()
        return dict(zip(titles, self.page.locator(f"{element} dd").all_inner_texts()))

    def alerts(self, element: str = "#alerts") -> str:
        return "\n".join(self.page.locator(f"{element} .alert").all_inner_texts())

    def open_map(self) -> None:
        self.page.locator("#gpu").click()
        self.settle_map()

    def settle_map(self) -> None:
        self.page.evaluate(SETTLED % "await tileops.gpu.map.busy")

    @property
    def map_range(self) -> list[float]:
        return self.page.evaluate("tileops.gpu.map.plot.layout.xaxis.range.map(Number)")

    def map_scale(self) -> Callable[[float], float]:
        """Where on the screen times of the map are as long as it stays as it is, from Plotly's own axis."""
        return scale_of(box_of(self.page.locator("#map .nsewdrag")), self.map_range)

    def map_across(self, ns: float) -> float:
        """Where on the screen a time of the map is."""
        return self.map_scale()(ns)

    def map_down(self, sm: int, line: int = 0) -> float:
        """Where on the screen a line of an SM's is, of maps with few SMs."""
        box = box_of(self.page.locator("#map .sm-name").get_by_text(f"SM {sm}", exact=True))
        return box["y"] + box["height"] / 2 + 23 * line

    def map_place(self, row: Any, lines: dict[int, int]) -> tuple[float, float]:
        """Where on the screen a CTA's bar is."""
        return self.map_across((row.begin_ns + row.end_ns) / 2), self.map_down(row.sm, lines[row.cta])

    def choose(self, label: str) -> None:
        """What the map's colours stand for."""
        self.page.locator("#gpu-colour").select_option(label=label)

    def map_colours(self, *places: tuple[float, float]) -> np.ndarray:
        """The colours of the map's bars at some places: red, green, blue and opacity of each."""
        colours = self.page.evaluate(
            """(places) => {
              const { canvas } = tileops.gpu.map;
              const box = canvas.getBoundingClientRect();
              const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
              copy.drawImage(canvas, 0, 0);
              const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
              return places.map(([x, y]) => {
                const at = 4 * (Math.floor(y - box.y) * canvas.width + Math.floor(x - box.x));
                return Array.from(data.slice(at, at + 4));
              });
            }""",
            [list(place) for place in places],
        )
        return np.array(colours)

    def state(self) -> dict[str, list[str]]:
        """What the page's address says, once that has settled."""
        return parse_qs(self.fragment().removeprefix("#"), keep_blank_values=True)

    def fragment(self) -> str:
        """The part of the page's address behind its file, once that has settled."""
        self.page.wait_for_timeout(300)
        return self.page.evaluate("location.hash")

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drags from one place to another."""
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        self.page.mouse.move(*end)
        self.page.mouse.up()

    def table(self) -> dict[tuple[str, str], list[str]]:
        """The numbers beside the figure, by name and row, in their order."""
        lines = [line.split("\t") for line in self.page.locator("#totals tr").all_inner_texts()]
        return {(name, row): [cell.strip() for cell in cells] for name, row, *cells in lines}

    @property
    def marks(self) -> tuple[str, str]:
        """What stands at the selected span and at the ruler; empty without one."""
        said = (self.page.locator(f"#figure .marks .{part} .said") for part in ("selection", "tape"))
        selection, ruler = (one.inner_text() if one.is_visible() else "" for one in said)
        return selection, ruler

    def chip(self, text: str) -> Any:
        return self.page.locator("#legend .chip").filter(has_text=re.compile(rf"^{re.escape(text)}[\d,]+$"))


class OpenedComparison:
    """The page of a comparison that was opened from its file; a side is "before" or "after"."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def settle(self) -> None:
        """Waits until both figures are drawn."""
        self.page.evaluate(SETTLED % "for (const { figure } of tileops.sides) await figure.busy")

    def resize(self, width: int) -> None:
        """Gives the window another width and waits until both figures have it."""
        self.page.set_viewport_size({"width": width, "height": 900})
        wait_for(
            self.page,
            "tileops.sides.every(({ figure }) => Math.abs(figure.width - Math.max(240, figure.host.clientWidth)) < 1)",
        )
        self.settle()

    def figure(self, side: str, expression: str) -> Any:
        """What an expression of a side's `figure` gives."""
        found = "const { figure } = tileops.sides.find((side) => side.name === name);"
        return self.page.evaluate(f"(name) => {{ {found} return {expression}; }}", side)

    def axis(self, side: str) -> tuple[float, float]:
        """From where to where the axis goes, as Plotly has it."""
        low, high = self.figure(side, "figure.plot._fullLayout.xaxis.range.map(Number)")
        return low, high

    def edges(self, side: str) -> tuple[float, float]:
        """The plot's left and right on the screen."""
        box = box_of(self.page.locator(f"#{side}-figure .nsewdrag"))
        return box["x"], box["x"] + box["width"]

    def one_axis(self) -> bool:
        """Whether both plots show the same span at the same place."""
        self.settle()
        (low, high), other = self.axis("before"), self.axis("after")
        off = max(abs(low - other[0]), abs(high - other[1])) / (high - low)
        return off < 1e-6 and self.edges("before") == self.edges("after")

    def bars(self, side: str) -> list[tuple[float, float]]:
        """Begin and end of each bar that Plotly drew, on the axis, by their begins."""
        low, high = self.axis(side)
        left, right = self.edges(side)
        boxes = self.page.locator(f"#{side}-figure .barlayer .point path").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect()).map(({ left, right }) => [left, right])"
        )
        on_axis = np.array(boxes).reshape(-1, 2)
        return sorted(map(tuple, low + (on_axis - left) / (right - left) * (high - low)))

    def title(self, side: str) -> str:
        return self.page.locator(f"#{side}-title").inner_text()

    def facts(self, element: str) -> dict[str, str]:
        titles = self.page.locator(f"{element} dt").all_inner_texts()
        return dict(zip(titles, self.page.locator(f"{element} dd").all_inner_texts()))

    def chip(self, text: str) -> Any:
        return self.page.locator("#legend .chip").filter(has_text=re.compile(rf"^{re.escape(text)}[\d,]+$"))

    def table(self) -> dict[tuple[str, str], list[str]]:
        """The cells of each range, by name and row."""
        rows = self.page.locator("#changes tr").evaluate_all(
            "all => all.map((row) => [row.querySelector('th > .name'), ...row.querySelectorAll('td')]"
            ".map((cell) => cell.textContent))"
        )
        return {(name, row): cells for name, row, *cells in rows}


def integer(value: float) -> str:
    """As the page writes it: halves away from zero."""
    return f"{math.copysign(math.floor(abs(value) + 0.5), value):,.0f}".replace("-", MINUS)


def tenths(value: float) -> str:
    return f"{value:,.1f}".replace("-", MINUS)


def number(text: str) -> float:
    """A number as the page writes it, whatever its unit."""
    found = re.match(rf"[{MINUS}+]?[\d,]+(\.\d+)?", text)
    assert found is not None, text
    return float(found[0].replace(",", "").replace(MINUS, "-"))


def middle_of(row: Any) -> float:
    return row.start + row.duration / 2


def spelled(name: str) -> str:
    """A name as the page writes it: what breaks lines or turns the direction of writing is spelled out."""
    if not name:
        return "(no name)"
    return re.sub(
        "[\n\t\u2028\u2029\u202e]",
        lambda found: {"\n": r"\n", "\t": r"\t"}.get(found[0]) or rf"\u{ord(found[0]):04x}",
        name,
    )


def lines_of(timeline: Timeline) -> dict[int, int]:
    """Which line of its SM each CTA is on: the first one that is free when it begins."""
    until: dict[int, list[float]] = {}
    lines = {}
    for row in sorted((row for row in timeline.ctas if row.finished), key=lambda row: row.begin_ns):
        ends = until.setdefault(row.sm, [])
        free = [line for line, end in enumerate(ends) if end <= row.begin_ns]
        if not free:
            ends.append(0.0)
        lines[row.cta] = free[0] if free else len(ends) - 1
        ends[lines[row.cta]] = row.end_ns
    return lines


def choose_unit(opened: Opened, key: str) -> None:
    opened.page.locator("#unit").select_option(value=key)
    opened.settle()
    opened.page.locator("#unit").blur()


def span_of(opened: Opened, key: str) -> tuple[float, float]:
    low, high = opened.state()[key][0].split("_")
    return float(low), float(high)


def cycles_a_pixel(opened: Opened) -> float:
    low, high = opened.range
    return (high - low) / box_of(opened.page.locator("#figure .nsewdrag"))["width"]


def canvas_texts(opened: Opened) -> list[str]:
    """What the canvas of a figure says."""
    return opened.page.evaluate(
        """() => {
          const prototype = CanvasRenderingContext2D.prototype;
          const { fillText } = prototype;
          const texts = [];
          prototype.fillText = function (text, ...place) { texts.push(text); fillText.call(this, text, ...place); };
          tileops.figure.draw();
          Object.assign(prototype, { fillText });
          return texts;
        }"""
    )


def check_table(
    opened: Opened, timeline: Timeline, cta: int, span: tuple[float, float] | None = None, scale: float = 1.0
) -> None:
    """Holds the table against NumPy, in cycles or in units of `scale` a cycle."""
    low, high = span or (-np.inf, np.inf)
    step = 1.0 if scale == 1 else 0.1
    slices = timeline.slices.where(cta=cta)
    table, wanted = opened.table(), set()
    for group, lane, name in dict.fromkeys(zip(slices["group"], slices["lane"], slices["name"])):
        some = slices.where(group=group, lane=lane, name=name)
        begin, end = some["start"], some["start"] + some["duration"]
        part = (begin < high) & ((end > low) | ((begin == end) & (begin >= low)))
        whole = part & ~some["cut"]
        inside = some["duration"][whole & (begin >= low) & (end <= high)]
        if not part.any():
            continue
        wanted.add((name, f"{group} / {lane}"))
        count, *numbers, share = table[name, f"{group} / {lane}"]
        cut = int((part & some["cut"]).sum())
        assert count == integer(whole.sum()) + (f" + {cut} cut" if cut else "")
        total = (np.minimum(end, high) - np.maximum(begin, low))[whole].sum() if whole.any() else np.nan
        values = [total, *[np.nan] * 4]
        if len(inside):
            values[1:] = inside.mean(), *np.percentile(inside, (50, 95)), inside.max()
        for text, value in zip(numbers, values, strict=True):
            if np.isnan(value):
                assert text == MISSING
            else:
                assert number(text) == pytest.approx(value * scale, abs=0.51 * step)
        part_of = total / (high - low if span else timeline.ctas["cycles"][cta])
        assert share == MISSING if np.isnan(part_of) else number(share) == pytest.approx(100 * part_of, abs=0.051)
    assert set(table) == wanted


def row_clock(timeline: Timeline) -> float:
    return timeline.ctas["ghz"][0]
