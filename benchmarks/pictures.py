"""Makes the pictures of docs/walkthrough.md: one CTA of a recording, as its page draws it in Chromium.

    python benchmarks/pictures.py RECORDING OUT.png [--cta N] [--from-us A --to-us B] [--width PIXELS]

Those of the page are of the recordings that benchmarks/walkthrough.py keeps: one_stage and three_stages, CTA 0 from 20
to 24 us; two_consumers, CTA 330 from 20 to 22.2 us, and from 40 to 50.8 us, where it ends. Of all CTAs it is the one
whose two stores take closest to what they take in most: median cycles of either consumer.

Kept is the figure with its legend, of which only names that are in the picture; drawn finer than --width says, for
screens that show it. The axis is in nanoseconds since the CTA's begin.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tileops.trace.export.html import export_html
from tileops.trace.recording import Recording
from tileops.trace.timeline import Timeline

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Half of what these say without is Chromium talking to services that the page does not need.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
FINER = 2  # pixels of the picture for each of the page's
# What is there to be clicked says nothing in a picture, nor does a hint for the pointer.
STYLE = """
  #timeline { padding-top: 10px; }
  #timeline > .bar:not(.legend), #timeline > .hint { display: none !important; }
"""
# Takes names out of the legend. Its arrows stay.
SHORTEN = """(names) => {
  for (const chip of document.querySelectorAll("#legend .chip:not(.edge)")) {
    if (!names.includes(chip.querySelector(".name").textContent)) chip.remove();
  }
}"""
SETTLED = """async () => {
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  await tileops.figure.busy;
  await new Promise(requestAnimationFrame);
}"""


def cycles_of(timeline: Timeline, cta: int, span_us: tuple[float, float] | None) -> tuple[float, float]:
    """From where to where in a CTA, in cycles since its begin; without a span, all of it."""
    (row,) = timeline.ctas.where(cta=cta)
    if span_us is None:
        return 0.0, float(row.cycles)
    low, high = (1000 * end * row.cycles / (row.end_ns - row.begin_ns) for end in span_us)
    return low, high


def names_in(timeline: Timeline, cta: int, low: float, high: float) -> list[str]:
    """The names of what lies in a span of a CTA, in part or whole."""
    slices, instants = timeline.slices.where(cta=cta), timeline.instants.where(cta=cta)
    shown = (slices["start"] < high) & (slices["start"] + slices["duration"] > low)
    within = (instants["time"] >= low) & (instants["time"] <= high)
    return sorted({*slices["name"][shown].tolist(), *instants["name"][within].tolist()})


def save(browser: Any, address: str, names: list[str], out: Path, width: int) -> None:
    """Saves what a page shows at an address."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, device_scale_factor=FINER, color_scheme="light"
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    said = page.locator("#link .alert").all_inner_texts()  # that the recording lacks what the address names
    if said:
        raise ValueError("\n".join(said))
    page.add_style_tag(content=STYLE)
    page.evaluate(SHORTEN, names)
    page.evaluate(SETTLED)
    page.locator("#timeline").screenshot(path=out)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path, metavar="RECORDING")
    parser.add_argument("out", type=Path, metavar="OUT.png")
    parser.add_argument("--cta", type=int, default=0, metavar="N", help="its linear number (default: 0)")
    parser.add_argument("--from-us", type=float, metavar="A", help="microseconds since the CTA's begin (default: all)")
    parser.add_argument("--to-us", type=float, metavar="B")
    parser.add_argument("--width", type=int, default=900, metavar="PIXELS", help="of the page (default: 900)")
    options = parser.parse_args()
    if (options.from_us is None) != (options.to_us is None):
        parser.error("--from-us and --to-us belong together")
    if options.from_us is not None and options.from_us >= options.to_us:
        parser.error("--to-us must lie behind --from-us")
    binary = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if binary is None:
        sys.exit("this program needs Chromium")
    from playwright.sync_api import sync_playwright

    timeline = Recording.load(options.recording).decode()
    if not len(timeline.ctas.where(cta=options.cta)):
        sys.exit(f"{options.recording} has no CTA {options.cta}")
    span_us = None if options.from_us is None else (options.from_us, options.to_us)
    low, high = cycles_of(timeline, options.cta, span_us)
    state = f"#cta={options.cta}&unit=ns" + ("" if span_us is None else f"&span={low:.1f}_{high:.1f}")
    names = names_in(timeline, options.cta, low, high)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = export_html(timeline, Path(folder) / "page.html")
        browser = playwright.chromium.launch(executable_path=binary, args=list(FLAGS))
        save(browser, path.as_uri() + state, names, options.out, options.width)
        browser.close()
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
