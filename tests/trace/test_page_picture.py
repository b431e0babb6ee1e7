"""Pictures that the page saves: SVG and PNG of a CTA's figure and of the map."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from . import synthetic
from .opened import (
    Opened,
    spelled,
    tenths,
    wait_for,
)
from .synthetic import labelled

Show = Callable[..., Opened]

SVG = "{http://www.w3.org/2000/svg}"


def saved(opened: Opened, button: str, folder: Path) -> tuple[str, bytes]:
    """Clicks a button; the name and the content of the file that comes."""
    with opened.page.expect_download() as download:
        opened.page.locator(button).click()
    path = folder / "saved"
    download.value.save_as(path)
    return download.value.suggested_filename, path.read_bytes()


class Picture:
    """An SVG file of a timeline."""

    def __init__(self, content: bytes) -> None:
        self.root = ElementTree.fromstring(content)
        assert self.root.tag == f"{SVG}svg"
        allowed = {"svg", "g", "path", "rect", "text", "tspan", "defs", "clipPath", "style", "pattern", "circle", "a",
                   "linearGradient", "stop", "filter"}  # fmt: skip
        assert {element.tag.removeprefix(SVG) for element in self.root.iter()} <= allowed

    def inside(self, of: str) -> list[Any]:
        """All groups of a class."""
        return [one for one in self.root.iter(f"{SVG}g") if of in one.get("class", "").split()]

    @property
    def bars(self) -> list[Any]:
        layers = self.inside("barlayer")
        points = [one for layer in layers for one in layer.iter(f"{SVG}g") if one.get("class") == "point"]
        return [path for point in points for path in point.iter(f"{SVG}path")]

    def texts(self, of: str) -> list[str]:
        return ["".join(one.itertext()) for group in self.inside(of) for one in group.iter(f"{SVG}text")]

    @property
    def arrows(self) -> int:
        lines = [one.get("d") for one in self.root.iter(f"{SVG}path") if one.get("class") == "js-line"]
        return sum(line.count("M") for line in lines)

    @property
    def size(self) -> tuple[float, float]:
        return float(self.root.get("width")), float(self.root.get("height"))


def width_of(bar: Any) -> float:
    """How wide a bar is: its path goes down, across and up again."""
    found = re.fullmatch(r"M([\d.]+),[\d.]+V[\d.]+H([\d.]+)V[\d.]+Z", bar.get("d"))
    assert found is not None, bar.get("d")
    return float(found[2]) - float(found[1])


def pixels(content: bytes) -> tuple[int, int]:
    """The size of a PNG."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content[12:16] == b"IHDR"
    return struct.unpack(">II", content[16:24])


def test_a_cta_as_a_picture(show: Show, tmp_path: Path) -> None:
    timeline = synthetic.gemm((2, 2, 1), 12)
    opened = show(timeline)
    opened.open(3)
    opened.settle()
    slices, flows = timeline.slices.where(cta=3), timeline.flows.where(cta=3)
    name, content = saved(opened, "#svg", tmp_path)
    assert name == "gemm-cta-3.svg"
    picture = Picture(content)
    assert len(picture.bars) == len(slices)
    assert picture.arrows == len(flows)
    rows = dict.fromkeys(f"{group} / {lane}" for group, lane in zip(slices["group"], slices["lane"]))
    assert set(picture.texts("annotation")) == set(rows)
    assert set(picture.texts("legend")) == {*slices["name"], *timeline.instants["name"]}
    assert picture.texts("g-gtitle") == ["gemm · CTA (1, 1) #3 · NVIDIA H200"]
    assert picture.texts("g-xtitle") == ["SM cycles since the CTA’s begin"]
    name, content = saved(opened, "#png", tmp_path)
    assert name == "gemm-cta-3.png"
    assert pixels(content) == tuple(2 * side for side in picture.size)
    # What is shown, and no more: of a part, with a name hidden, in nanoseconds.
    opened.page.evaluate("location.hash = '#cta=3&unit=ns&span=2000_5000&hide=wait'")
    wait_for(opened.page, "Math.abs(tileops.figure.range[0] - 2000) < 1")
    opened.settle()
    picture = Picture(saved(opened, "#svg", tmp_path)[1])
    begin, end = slices["start"], slices["start"] + slices["duration"]
    part = (begin <= 5000) & (end >= 2000) & (slices["name"] != "wait")
    assert len(picture.bars) == part.sum()
    here = (flows["start"] <= 5000) & (flows["end"] >= 2000) & (flows["dst"] != "wait")
    assert picture.arrows == here.sum()
    assert picture.texts("g-xtitle") == ["ns since the CTA’s begin"]
    written = picture.texts("barlayer")
    ghz = timeline.ctas["ghz"][3]
    row = next(row for row in slices.where(name="mma") if row.start >= 2000)
    assert f"mma  {tenths(row.duration / ghz)}" in written or "mma" in written


def test_labels_in_a_picture(show: Show, tmp_path: Path) -> None:
    opened = show(labelled())
    opened.page.keyboard.press("l")
    picture = Picture(saved(opened, "#svg", tmp_path)[1])
    assert len(picture.bars) == 5
    written = [" ".join(text.split()) for text in picture.texts("barlayer")]
    assert {"whole −42", "real 0.5", "plain"} <= set(written)
    # The one of no length is there to be seen, the one that was cut is hatched.
    assert min(map(width_of, picture.bars)) >= 0.9
    assert picture.inside("barlayer")
    assert list(picture.root.iter(f"{SVG}pattern"))


def test_a_picture_of_many_ranges(show: Show, tmp_path: Path) -> None:
    timeline = synthetic.gemm((1, 1, 1), 300)
    opened = show(timeline)
    picture = Picture(saved(opened, "#svg", tmp_path)[1])
    assert len(picture.bars) == len(timeline.slices)
    assert picture.arrows == len(timeline.flows)
    assert min(map(width_of, picture.bars)) >= 0.9


def test_the_map_as_a_picture(show: Show, tmp_path: Path) -> None:
    timeline = synthetic.waves()
    opened = show(timeline, color_scheme="dark")
    opened.open_map()
    name, content = saved(opened, "#gpu-svg", tmp_path)
    assert name == "gemm-gpu.svg"
    picture = Picture(content)
    assert len(picture.bars) == 38
    ends = [opened.page.locator(f"#scale-{end}").inner_text() for end in ("low", "high")]
    wanted = [*(f"SM {sm}" for sm in range(7)), "no time", "Duration", *ends]
    assert sorted(picture.texts("annotation")) == sorted(wanted)
    assert len(picture.inside("shapelayer")) >= 1
    assert picture.texts("g-gtitle") == ["gemm · NVIDIA H200"]
    name, content = saved(opened, "#gpu-png", tmp_path)
    assert name == "gemm-gpu.png"
    assert pixels(content) == tuple(2 * side for side in picture.size)


def test_a_picture_shows_names_as_text(show: Show, tmp_path: Path) -> None:
    timeline = synthetic.hostile()
    opened = show(timeline, height=1400)
    name, content = saved(opened, "#svg", tmp_path)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    picture = Picture(content)
    assert len(picture.bars) == len(synthetic.HOSTILE)

    def plain(text: str) -> str:
        return " ".join(text.replace("\xa0", " ").split())

    begins = [plain(spelled(one))[:15].strip() for one in synthetic.HOSTILE]
    legend = [plain(text) for text in picture.texts("legend")]
    for begin in begins:
        assert any(text.startswith(begin) for text in legend), begin
    assert opened.page.evaluate("window.hacked") is None
    saved(opened, "#png", tmp_path)
    opened.open_map()
    opened.page.locator("#gpu-colour").select_option(value="3")
    picture = Picture(saved(opened, "#gpu-svg", tmp_path)[1])
    assert "Share of <b>bold</b…" in picture.texts("annotation")
    assert opened.page.evaluate("window.hacked") is None
