"""How long the timeline page takes to show a launch of 10,000 CTAs, in headless Chromium.

    python benchmarks/viewer.py [--ctas 10000] [--at-once 2] [--keep PAGE.html]

The launch is synthetic: 132 SMs, each with so many CTAs at a time, in waves, with a slow CTA here and there and ten
ranges in each. Every repeat is a fresh profile of the browser. Painted is what the second animation frame after the
click shows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tileops.trace.export.html import export_html
from tileops.trace.timeline import PAYLOAD_NONE, Table, Timeline

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


def measure(playwright: Any, binary: str, path: Path) -> dict[str, float]:
    """Milliseconds of each action, in a browser of its own."""
    browser = playwright.chromium.launch(executable_path=binary, args=list(FLAGS))
    try:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        taken = {
            "the page, from its opening to the first CTA": page.evaluate(
                "async () => { await new Promise(requestAnimationFrame); return performance.now(); }"
            )
        }
        for name, action in ACTIONS.items():
            taken[name] = page.evaluate(PAINT.replace("ACTION", action))
        return taken
    finally:
        browser.close()


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ctas", type=int, default=10_000, help="how many CTAs the launch has")
    parser.add_argument("--at-once", type=int, default=2, help="how many of them an SM holds at a time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="where to leave the page")
    options = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        parser.error("needs playwright: pip install tileops[test]")
    binary = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if binary is None:
        parser.error(f"needs one of {', '.join(BROWSERS)}")
    timeline = launch(options.ctas, options.at_once)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = export_html(timeline, options.keep.resolve() if options.keep else Path(folder) / "launch.html")
        runs = [measure(playwright, binary, path) for _ in range(options.repeats)]
    print(
        f"{options.ctas:,} CTAs, {options.at_once} on an SM at a time; {os.cpu_count()} cores; ms, "
        f"medians of {options.repeats} (in parentheses: least and most)\n"
    )
    for name in runs[0]:
        taken = [run[name] for run in runs]
        print(f"  {name:44} {statistics.median(taken):7.0f} ({min(taken):.0f} to {max(taken):.0f})")


if __name__ == "__main__":
    main()
