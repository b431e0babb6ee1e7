"""Colours: those of names, light and dark, contrast, and how a cut range looks."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from . import synthetic
from .opened import (
    Opened,
    lines_of,
    wait_for,
)

Show = Callable[..., Opened]


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


CONTRAST = """selectors => selectors.flatMap((selector) => [...document.querySelectorAll(selector)]
  .filter((one) => one.checkVisibility() && one.getClientRects().length)
  .map((one) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor);
    for (const layer of layers) { canvas.fillStyle = layer; canvas.fillRect(0, 0, 1, 1); }
    const luminance = () => {
      const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => {
        const part = value / 255;
        return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    const back = luminance();
    canvas.fillStyle = getComputedStyle(one).color;
    canvas.fillRect(0, 0, 1, 1);
    const front = luminance();
    return [selector, Math.max(front, back) / Math.min(front, back)];
  }))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_can_be_read(show: Show, scheme: str) -> None:
    timeline = synthetic.troubled()
    opened = show(
        timeline, color_scheme=scheme,
        fragment="#cta=1&selection=100_900&ruler=200_1200&find=wait&slice=3&labels=payload&hide=tma&wrong=1",
    )  # fmt: skip
    page = opened.page
    page.mouse.move(*opened.place(500, "consumer", "barrier"))
    selectors = [
        "h1", "h2", "h2 small", ".said", "dt", "dd", ".alert", "button:not(:disabled)", ".tab .linear", "#found",
        "#hits", "#search", "#unit", "#filter", ".row-name span", ".marks .said", ".hint", "#summary-head th",
        "#totals td", "#totals th", "#totals small", ".note", "footer", "#tooltip td", "#tooltip th",
        ".chip .count", ".versions",
    ]  # fmt: skip
    found = page.evaluate(CONTRAST, selectors)
    page.keyboard.press("?")
    found += page.evaluate(CONTRAST, ["dialog h2", "dialog td", "kbd", "dialog button"])
    page.keyboard.press("Escape")
    page.locator("#help").wait_for(state="hidden")  # the browser closes a dialog a little after the key
    opened.open_map()
    found += page.evaluate(CONTRAST, ["#gpu-panel button", "#gpu-panel dt", "#scale span", ".sm-name", "#gpu-hint"])
    assert len(found) > 100
    assert [one for one in found if one[1] < 4.5] == []
