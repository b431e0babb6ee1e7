"""Say where the time of recorded launches goes: ranges, lanes, overlaps, hand-offs, iterations."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileops.cli.printable import printable, printable_lines
from tileops.trace.errors import TraceError

if TYPE_CHECKING:
    from tileops.trace.statistics import Summary
    from tileops.trace.timeline import Table

HELP = "say where the time goes"
EXAMPLES = """\
  tileops trace summary debug/gemm.tltrace
  tileops trace summary gemm.tltrace --table handoffs
  tileops trace summary gemm.tltrace --json | jq '.files[0].tables.ranges[] | select(.share > 0.5)'
"""

# Of what --json prints: raised where a key that is there means something else, or goes.
VERSION = 1
TABLES = (
    "ranges", "ctas", "sms", "load", "iterations", "phases", "lanes", "lane_overlaps", "group_overlaps", "handoffs",
)  # fmt: skip
# Those with a row a CTA, SM or iteration and range: to be asked for.
LONG = ("ctas", "sms", "iterations")
_WIDEST = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    from tileops.cli.trace.files import add_files

    add_files(parser)
    parser.add_argument("--table", choices=TABLES, action="append", help="only this table, whole; may be repeated")
    parser.add_argument("--depth", type=int, metavar="STAGES", help="the stages that the pipeline was built with")
    parser.add_argument("--compensate", action="store_true", help="take what recording cost out of the ranges")
    parser.add_argument("--json", action="store_true", help="JSON, as docs/statistics.md describes it")


def run(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status."""
    from tileops.cli.progress import progress
    from tileops.cli.trace.files import read, tell

    found: list[tuple[Path, Summary]] = []
    with progress(len(arguments.files)) as report:
        for done, path in enumerate(arguments.files):
            report(done, path.name, 0.0)
            try:
                _, timeline = read(path, arguments.compensate)
                found.append((path, timeline.summary(depth=arguments.depth)))
            except ValueError as error:
                raise TraceError(str(error)) from error
            except (TraceError, OSError) as error:
                tell(error)
    if arguments.json:
        wanted = arguments.table or [name for name in TABLES if name not in LONG]
        files = [
            {"file": str(path), "span_ns": plain(summary.span_ns),
             "tables": {name: rows(getattr(summary, name)) for name in wanted}}
            for path, summary in found
        ]  # fmt: skip
        print(json.dumps({"format": "tileops.trace.summary", "version": VERSION, "files": files}, indent=2))
    else:
        for at, (path, summary) in enumerate(found):
            print(f"{'' if at == 0 else chr(10)}{printable(str(path))}")
            if arguments.table:
                _show([getattr(summary, name) for name in arguments.table])
            else:
                print(printable_lines(str(summary)))
    return 0 if len(found) == len(arguments.files) else 2


def rows(table: Table) -> list[dict[str, Any]]:
    """A table's rows as what JSON has."""
    columns = {name: table[name].tolist() for name in table.column_names}
    return [{name: plain(value) for name, value in zip(columns, row)} for row in zip(*columns.values())]


def plain(value: Any) -> Any:
    """A number that JSON has; None for one that it has not."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _show(tables: list[Table]) -> None:
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table as Grid
    from rich.text import Text

    console = Console(highlight=False)
    for table in tables:
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in table.column_names:
            grid.add_column(name, justify="left" if table[name].dtype == object else "right", no_wrap=True)
        for row in rows(table):
            grid.add_row(*(Text(_cell(value)) for value in row.values()))
        # A number that a narrow terminal cuts off is another number: a table is as wide as it needs.
        console.width = _WIDEST
        console.width = Measurement.get(console, console.options, grid).maximum
        console.print(grid)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.4g}"
    return printable(str(value)) if isinstance(value, str) else f"{value:,}"
