"""How fast the timeline page is written, opens, switches, zooms and pans, in headless Chromium.

    python benchmarks/viewer.py [--repeats 5] [--only recording dense map]

Three launches: the production GEMM on an H200, 1,024 CTAs and a million events, as ``benchmarks/record_gemm.py``
recorded it; one CTA of 20,000 events and 5,000 arrows, synthetic; and 10,000 CTAs on 132 SMs, synthetic, in waves,
with a slow CTA here and there and ten ranges in each. Every repeat is a fresh profile of the browser. A time ends with
the second animation frame behind the action: the first one draws, the second says that it has been.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tileops.trace.export.html import export_html, library
from tileops.trace.recording import Recording
from tileops.trace.timeline import PAYLOAD_NONE, Table, Timeline

RECORDING = Path(__file__).parent / "recordings" / "gemm_1024_ctas.tltrace"
SMS = 132
GHZ = 1.755
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Half of what these say without is Chromium talking to services that the page does not need.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
NAMES, STEPS = ("load", "wait", "mma", "store"), (0, 1, 2, 1, 2, 1, 2, 1, 2, 3)

# Milliseconds from an action to the frame after the one that it drew in.
PAINT = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  const begin = performance.now();
  (() => { ACTION })();
  await frame();
  await frame();
  return performance.now() - begin;
}"""
OPENED = """({
  "from opening the page to its first CTA": tileops.drawn, "to its axis and gestures": tileops.complete,
})"""
# Milliseconds a CTA, of so many opened one after the other by their tabs' way of opening.
SWITCH = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const taken = [];
  for (let i = 1; i <= 20; i += 1) {
    await frame();
    const begin = performance.now();
    tileops.open(Math.floor((i * tileops.recording.count) / 21));
    await frame();
    await frame();
    taken.push(performance.now() - begin);
  }
  return taken;
}"""
# What a step of a zoom or a pan takes, each in a frame of its own.
MOVE = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const taken = [];
  for (let i = 0; i < 60; i += 1) {
    const begin = performance.now();
    (() => { ACTION })();
    await frame();
    taken.push(performance.now() - begin);
  }
  return taken;
}"""
WHEEL = """
  const drag = document.querySelector("#figure .nsewdrag");
  const box = drag.getBoundingClientRect();
  const at = { clientX: box.x + box.width / 3, clientY: box.y + 40, bubbles: true, cancelable: true };
  drag.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: i % 40 < 20 ? -50 : 50 }));
"""
MOVES = {
    "zoom by the wheel": WHEEL,
    "zoom by keys": "tileops.figure.zoom(i % 40 < 20 ? 0.9 : 1 / 0.9);",
    "pan, all in view but a tenth": "tileops.figure.pan(i % 40 < 20 ? 0.002 : -0.002);",
}
ACTIONS = {
    "the map, from the click on its tab": "document.querySelector('#gpu').click()",
    "the map again, zoomed to a quarter": "tileops.gpu.map.zoom(0.25)",
    "the map again, zoomed out": "tileops.gpu.map.fit()",
    "another colour: a range's share": (
        "const select = document.querySelector('#gpu-colour');"
        "select.value = '2'; select.dispatchEvent(new Event('change'));"
    ),
    "the map by itself, again": "tileops.gpu.map.draw()",
}


def launch(ctas: int, at_once: int) -> Timeline:
    """A launch of so many CTAs, so many of them on an SM at a time."""
    random = np.random.default_rng(0)
    number = np.arange(ctas)
    cycles = (20_000 + 800 * random.standard_normal(ctas)).astype(np.int64).clip(10_000)
    cycles[random.random(ctas) < 0.002] *= 3
    # A place for a CTA is one of an SM's, taken by the next CTA as soon as it is free.
    sm, begin = np.empty(ctas, dtype=np.int32), np.empty(ctas)
    free = random.random(SMS * at_once) * 300
    for cta in range(ctas):
        place = int(free.argmin())
        sm[cta], begin[cta] = place % SMS, free[place]
        free[place] += cycles[cta] / GHZ + 400
    begin -= begin.min()
    steps = np.array(STEPS)
    edges = np.sort(random.random((ctas, len(steps) + 1)), axis=1) * cycles[:, None] * 0.98
    start = edges[:, :-1].astype(np.int64).reshape(-1)
    duration = edges[:, 1:].astype(np.int64).reshape(-1) - start
    cta, name = np.repeat(number, len(steps)), np.tile(steps, ctas)
    nothing = np.zeros(len(cta), dtype=np.int64)
    texts = {"group": ("main",), "lane": ("main",), "name": NAMES}
    slices = Table(
        {
            "cta": cta, "group": nothing, "lane": nothing, "name": name, "start": start, "duration": duration,
            "payload": np.full(len(cta), np.nan), "payload_kind": np.full(len(cta), PAYLOAD_NONE, dtype=np.uint8),
            "depth": nothing, "start_ns": begin[cta] + start / GHZ, "duration_ns": duration / GHZ,
            "cut": nothing.astype(bool), "site": name,
        },
        texts,
    )  # fmt: skip
    none, real = np.zeros(0, dtype=np.int64), np.zeros(0)
    instants = Table(
        {
            "cta": none, "group": none, "lane": none, "name": none, "time": none, "payload": real,
            "payload_kind": none.astype(np.uint8), "time_ns": real, "site": none,
        },
        texts,
    )  # fmt: skip
    integers = ("cta", "src", "dst", "src_group", "dst_group", "src_slice", "dst_slice", "occurrence", "start", "end")
    flows = Table(
        {**dict.fromkeys(integers, none), "start_ns": real, "end_ns": real},
        {"src": NAMES, "dst": NAMES, "src_group": ("main",), "dst_group": ("main",)},
    )
    recorded, dropped, finished = np.full(ctas, 2 * len(steps)), np.zeros(ctas, dtype=np.int64), np.ones(ctas, bool)
    rows = {"cta": number, "group": 0 * number, "recorded": recorded, "dropped": dropped, "finished": finished}
    columns = {
        "cta": number, "x": number % 100, "y": number // 100, "z": 0 * number, "sm": sm, "begin_ns": begin,
        "end_ns": begin + cycles / GHZ, "cycles": cycles, "ghz": np.full(ctas, GHZ),
        "recorded": recorded, "dropped": dropped, "finished": finished,
    }  # fmt: skip
    return Timeline(
        slices=slices, instants=instants, flows=flows, rows=Table(rows, {"group": ("main",)}), ctas=Table(columns),
        grid=(100, -(-ctas // 100), 1), groups=("main",), axis_error_ns=32.0, meta={"kernel": "synthetic"},
    )  # fmt: skip


def dense(iterations: int = 2500) -> Timeline:
    """One CTA of 20,000 events: a producer and a consumer, with two ranges an iteration each, and 5,000 arrows."""
    random = np.random.default_rng(0)
    step = 200
    start = (np.arange(iterations) * step)[:, None] + np.array([0, 60, 400, 470])
    start = start + random.integers(0, 20, start.shape)
    duration = np.array([50, 120, 60, 115]) + random.integers(-10, 10, start.shape)
    code = np.broadcast_to(np.arange(4), start.shape)
    # A Timeline's slices are ordered by group, then start.
    flat = np.argsort((code // 2 * 10**9 + start).reshape(-1), kind="stable")
    at = np.empty_like(flat)
    at[flat] = np.arange(len(flat))
    at = at.reshape(start.shape)
    count = len(flat)
    zero, real = np.zeros(count, dtype=np.int64), np.zeros(count)
    start, duration, code = (part.reshape(-1)[flat] for part in (start, duration, code))
    texts = {"group": ("producer", "consumer"), "lane": ("barrier", "tma", "wgmma"), "name": NAMES}
    slices = Table(
        {
            "cta": zero, "group": code // 2, "lane": np.array([0, 1, 0, 2])[code], "name": code, "start": start,
            "duration": duration, "payload": real * np.nan, "payload_kind": zero.astype(np.uint8), "depth": zero,
            "start_ns": start / GHZ, "duration_ns": duration / GHZ, "cut": zero.astype(bool), "site": code,
        },
        texts,
    )  # fmt: skip
    src, dst = np.concatenate([at[:, 0], at[:, 1]]), np.concatenate([at[:, 2], at[:, 3]])
    end = start + duration
    edges = np.repeat([0, 1], iterations)
    order = np.argsort(src, kind="stable")
    src, dst, edges = src[order], dst[order], edges[order]
    flows = Table(
        {
            "cta": 0 * src, "src": edges, "dst": edges, "src_group": 0 * src, "dst_group": 0 * src, "src_slice": src,
            "dst_slice": dst, "occurrence": np.tile(np.arange(iterations), 2)[order], "start": end[src],
            "end": end[dst], "start_ns": end[src] / GHZ, "end_ns": end[dst] / GHZ,
        },
        {"src": ("load", "wait"), "dst": ("mma", "store"), "src_group": ("producer",), "dst_group": ("consumer",)},
    )  # fmt: skip
    none = np.zeros(0, dtype=np.int64)
    instants = Table({"cta": none, "group": none, "lane": none, "name": none, "time": none, "payload": none * 1.0,
                      "payload_kind": none.astype(np.uint8), "time_ns": none * 1.0, "site": none}, texts)  # fmt: skip
    one = np.ones(2, dtype=np.int64)
    rows = Table({"cta": 0 * one, "group": np.arange(2), "recorded": one * count, "dropped": 0 * one,
                  "finished": one.astype(bool)}, {"group": texts["group"]})  # fmt: skip
    cycles = int(end.max()) + 100
    ctas = {"cta": 0, "x": 0, "y": 0, "z": 0, "sm": 0, "begin_ns": 0.0, "end_ns": cycles / GHZ, "cycles": cycles,
            "ghz": GHZ, "recorded": 2 * count, "dropped": 0, "finished": True}  # fmt: skip
    return Timeline(
        slices=slices, instants=instants, flows=flows, rows=rows,
        ctas=Table({name: np.array([value]) for name, value in ctas.items()}), grid=(1, 1, 1),
        groups=texts["group"], axis_error_ns=32.0, meta={"kernel": "synthetic"},
    )  # fmt: skip


def opened(browser: Any, path: Path) -> tuple[Any, dict[str, float]]:
    """A page in a browser, and the milliseconds from its opening until its first CTA was drawn, and until all was."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    return page, page.evaluate(OPENED)


def of_recording(page: Any) -> dict[str, list[float]]:
    """Milliseconds of a CTA's opening."""
    return {"another CTA": page.evaluate(SWITCH)}


def of_dense(page: Any) -> dict[str, list[float]]:
    """Milliseconds a step of each way to move."""
    found = {}
    for name, action in MOVES.items():
        if name.startswith("pan"):
            page.evaluate("tileops.figure.zoomTo([tileops.figure.full[0], 0.9 * tileops.figure.full[1]])")
        found[name] = page.evaluate(MOVE.replace("ACTION", action))
        page.evaluate("tileops.figure.fit()")
    return found


def of_map(page: Any) -> dict[str, list[float]]:
    """Milliseconds of each thing that is done on the map."""
    return {name: [page.evaluate(PAINT.replace("ACTION", action))] for name, action in ACTIONS.items()}


def told(name: str, taken: list[float], unit: str = "ms") -> None:
    """A line of the report: the median, and the middle nine tenths."""
    low, high = np.percentile(taken, [5, 95])
    rate = f"  {1000 / statistics.median(taken):5.0f} a second" if unit == "ms a step" else ""
    print(f"  {name:44} {statistics.median(taken):7.1f} {unit} ({low:.1f} to {high:.1f}){rate}")


def written(timeline: Callable[[], Timeline], path: Path, repeats: int) -> None:
    """Writes a page, and says how fast and how large it is."""
    rates, plain = [], 0.0
    for _ in range(repeats):
        made = timeline()  # anew: a Timeline keeps the columns that were once asked for
        begin = time.perf_counter()
        export_html(made, path)
        rates.append(made.recorded / (time.perf_counter() - begin) / 1e6)
    beyond = path.stat().st_size - len(library.content())
    slices, flows = made.slices, made.flows
    columns = [
        slices[name][:10_000].tolist() for name in ("cta", "group", "lane", "name", "start", "duration", "depth")
    ]
    columns += [flows[name][:2_500].tolist() for name in ("cta", "src", "dst", "start", "end")]
    plain = len(json.dumps(columns)) / 20_000
    told("written", rates, "million events a second")
    print(f"  {'size beyond the library':44} {beyond / made.recorded:7.2f} bytes an event; as plain JSON {plain:.1f}")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recording", type=Path, default=RECORDING, help="default: %(default)s")
    parser.add_argument("--only", nargs="+", choices=("recording", "dense", "map"))
    parser.add_argument("--ctas", type=int, default=10_000, help="how many CTAs the map's launch has")
    parser.add_argument("--at-once", type=int, default=2, help="how many of them an SM holds at a time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="folder to leave the pages in")
    options = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        parser.error("needs playwright: pip install tileops[test]")
    binary = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if binary is None:
        parser.error(f"needs one of {', '.join(BROWSERS)}")
    recording = Recording.load(options.recording)
    launches: dict[str, tuple[Callable[[], Timeline], Callable[[Any], dict[str, list[float]]], str]] = {
        "recording": (recording.decode, of_recording, "ms"),
        "dense": (dense, of_dense, "ms a step"),
        "map": (lambda: launch(options.ctas, options.at_once), of_map, "ms"),
    }
    print(f"{os.cpu_count()} cores; medians of {options.repeats} repeats (in parentheses: the middle nine tenths)")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        for name in options.only or launches:
            made, measure, unit = launches[name]
            timeline = made()
            print(
                f"\n{name}: {len(timeline.ctas):,} CTAs, {timeline.recorded:,} events, {len(timeline.flows):,} arrows"
            )
            path = (options.keep or Path(folder)).resolve() / f"{name}.html"
            written(made, path, options.repeats)
            found: dict[str, list[float]] = {}
            for _ in range(options.repeats):
                browser = playwright.chromium.launch(executable_path=binary, args=list(FLAGS))
                try:
                    page, opening = opened(browser, path)
                    for what, taken in [*((what, [ms]) for what, ms in opening.items()), *measure(page).items()]:
                        found.setdefault(what, []).extend(taken)
                finally:
                    browser.close()
            for what, taken in found.items():
                told(what, taken, "ms" if what in opening else unit)


if __name__ == "__main__":
    main()
