"""Write recordings in other formats.

A file is written beside its recording, or to --output.
"""

from __future__ import annotations

import argparse
import importlib
import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tileops.cli.completion import completes_files
from tileops.trace.errors import TraceError
from tileops.trace.files import identity

HELP = "write recordings as perfetto, chrome, parquet, csv, json or html"
EXAMPLES = """\
  tileops trace export gemm.tltrace                               # gemm.pftrace, for ui.perfetto.dev
  tileops trace export debug/*.tltrace --format parquet           # a file each, for DuckDB, Polars, pandas, Spark
  tileops trace export gemm.tltrace --format csv --output out/    # out/gemm.csv
"""


class Format(NamedTuple):
    """An exporter: its module, its function, and what its files end with."""

    module: str
    function: str
    suffix: str


FORMATS = {
    "perfetto": Format("perfetto", "export_perfetto", ".pftrace"),
    "chrome": Format("chrome", "export_chrome", ".chrome.json"),
    "parquet": Format("arrow", "export_parquet", ".parquet"),
    "csv": Format("texts", "export_csv", ".csv"),
    "json": Format("texts", "export_json", ".json"),
    "html": Format("html", "export_html", ".html"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    from tileops.cli.trace.files import add_files

    add_files(parser)
    parser.add_argument("--format", choices=[*FORMATS], default="perfetto", help="the format (default: %(default)s)")
    output = parser.add_argument(
        "--output",
        metavar="PATH",
        help="the file to write, or the folder: one that exists, or a name that ends in /",
    )
    completes_files(output)
    parser.add_argument(
        "--compensate", action="store_true", help="take what records cost out of all ranges, where that was measured"
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the files; returns the exit status."""
    from tileops.cli.progress import progress
    from tileops.cli.trace.files import read, tell

    form = FORMATS[arguments.format]
    targets = _targets(arguments.files, arguments.output, form.suffix)
    failed = 0
    with progress(len(targets)) as report:
        for done, (source, target) in enumerate(zip(arguments.files, targets)):
            told = partial(report, done, source.name)
            told(0.0)
            try:
                # With the first file, not with the command: Plotly and Arrow take long to import.
                export = getattr(importlib.import_module(f"tileops.trace.export.{form.module}"), form.function)
                _, timeline = read(source, arguments.compensate)
                options = {"title": source.stem} if arguments.format == "html" else {"progress": told}
                export(timeline, target, **options)
            except (TraceError, OSError) as error:
                tell(error)
                failed += 1
            else:
                print(target, flush=True)
    return 2 if failed else 0


def _targets(sources: list[Path], output: str | None, suffix: str) -> list[Path]:
    """Where each goes.

    Raises:
        TraceError: if two of them go to one file, or several to what is no folder.
    """
    into = output is not None and (output.endswith("/") or os.path.isdir(output))
    if output is not None and not into:
        if len(sources) > 1:
            raise TraceError(f"--output {output}: is one file for {len(sources)}: name a folder, as {output}/")
        targets = [Path(output)]
    else:
        targets = [(Path(output) if output else source.parent) / f"{source.stem}{suffix}" for source in sources]
    read = {identity(source): source for source in sources}
    read.pop(None, None)  # those that are not there
    taken: dict[str, Path] = {}
    for source, target in zip(sources, targets):
        place = os.path.realpath(target)
        other = read.get(identity(target)) or taken.get(place)
        if other is not None:
            raise TraceError(f"{source}: would be written over {other}: write them to different folders with --output")
        taken[place] = target
    return targets
