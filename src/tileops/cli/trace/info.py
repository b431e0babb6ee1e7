"""Say what is in recordings: which kernel, where, when, how much was recorded and what was lost."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from tileops.cli.printable import printable
from tileops.trace.errors import TraceError

HELP = "say what is in recordings"
EXAMPLES = """\
  tileops trace info debug/*.tltrace
  tileops trace info gemm.tltrace --json | jq '.files[0].dropped'
"""

# Of what --json prints: raised where a key that is there means something else, or goes.
VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    from tileops.cli.trace.files import add_files

    add_files(parser)
    parser.add_argument("--json", action="store_true", help="JSON, as docs/files.md describes it")


def run(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status."""
    from tileops.cli.progress import progress
    from tileops.cli.trace.files import tell

    found: list[dict[str, Any]] = []
    with progress(len(arguments.files)) as report:
        for done, path in enumerate(arguments.files):
            report(done, path.name, 0.0)
            try:
                found.append(_info(path))
            except (TraceError, OSError) as error:
                tell(error)
    if arguments.json:
        print(json.dumps({"format": "tileops.trace.info", "version": VERSION, "files": found}, indent=2))
    else:
        _show(found)
    return 0 if len(found) == len(arguments.files) else 2


def _info(path: Path) -> dict[str, Any]:
    """What ``--json`` says of a file.

    Raises:
        TraceError: naming it, if it is no recording.
    """
    from tileops.cli.trace.files import read
    from tileops.trace.export.events import described, of_launch

    recording, timeline = read(path)
    size = path.stat().st_size
    launch = of_launch(timeline)
    if launch["date"] is not None:
        launch["date"] = launch["date"].isoformat()
    finished = timeline.ctas[timeline.ctas["finished"].astype(bool)]
    span = float(finished["end_ns"].max() - finished["begin_ns"].min()) if len(finished) else math.nan
    about = described(timeline)
    return {
        "file": str(path),
        "bytes": size,
        "recorded_bytes": recording.lines.nbytes,
        **launch,
        **{key: value for key, value in about.items() if key != "meta"},
        "ctas": len(timeline.ctas),
        "ranges": len(timeline.slices),
        "instants": len(timeline.instants),
        "flows": len(timeline.flows),
        "span_ns": span if math.isfinite(span) else None,
        "meta": about["meta"],
    }


def _show(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tileops.trace.told import told

    console = Console(highlight=False)
    for at, facts in enumerate(found):
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in _rows(facts):
            table.add_row(Text(name), Text(printable(value)))
        for text in told(facts["meta"]):
            table.add_row(Text("tracing"), Text(printable(text)))
        if at:
            console.print()
        print(printable(facts["file"]))
        console.print(table)


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """What people read, of the facts that are known."""
    grid = " × ".join(map(str, facts["grid"]))
    ratio = facts["recorded_bytes"] / max(facts["bytes"], 1)
    rows = [("kernel", facts["kernel"]), ("device", facts["device"]), ("date", facts["date"])]
    rows += [(name, None if facts[name] is None else str(facts[name])) for name in ("host", "rank", "launch")]
    lost = f", {facts['dropped']:,} dropped" + (
        f", {len(facts['unfinished']):,} CTAs did not finish" if facts["unfinished"] else ""
    )
    rows += [
        ("grid", f"{grid}, {facts['ctas']:,} CTAs recorded"),
        ("groups", ", ".join(facts["groups"])),
        ("events", f"{facts['recorded']:,}{lost}"),
        ("", f"{facts['ranges']:,} ranges, {facts['instants']:,} instants, {facts['flows']:,} flows"),
        ("span", "unknown" if facts["span_ns"] is None else f"{facts['span_ns'] / 1000:,.2f} µs"),
        ("file", f"{facts['bytes']:,} bytes, {ratio:.1f} times smaller than what was recorded"),
    ]
    if facts["never_fired"]:
        rows.append(("never fired", "; ".join(facts["never_fired"])))
    versions = facts["meta"].get("versions")
    if isinstance(versions, dict):
        rows.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    return [(name, value) for name, value in rows if value is not None]
