"""Say what changed between two recorded kernels, or one kernel before and after a change, and what of it is noise.

A side is a recording, or a folder with recordings of repeated launches: only those tell how launches scatter.

Exit status: 0 if all went well, 1 if what --fail-on names has happened, 2 if a file cannot be read or the arguments
are wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tileops.cli.completion import completes_files
from tileops.cli.printable import printable, printable_lines
from tileops.trace.errors import TraceError

if TYPE_CHECKING:
    from tileops.trace.comparison import Comparison
    from tileops.trace.timeline import Timeline

HELP = "say what changed between two kernels"
EXAMPLES = """\
  tileops trace compare base.tltrace new.tltrace
  tileops trace compare base/ new/ --html change.html
  tileops trace compare base.tltrace new.tltrace --fail-on regression=3%
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    from tileops.cli.trace.products import product
    from tileops.cli.trace.shares import share

    before = parser.add_argument("before", metavar="BEFORE", type=Path, help="a recording, or a folder of recordings")
    after = parser.add_argument("after", metavar="AFTER", type=Path, help="likewise")
    parser.add_argument("--minimum", type=share, default=0.01, metavar="SHARE", help="less is noise (default: 1%%)")
    parser.add_argument(
        "--fail-on", type=_condition, action="append", default=[], metavar="WHAT=SHARE",
        help="exit with 1 if the kernel became so much slower (regression=3%%), or has a new finding that could win as "
        "much (finding=10%%); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--flops", type=product, metavar="N",
        help="floating-point operations of a launch of either side, such as '2*4096*4096*4096': findings then tell "
        "slow computations too",
    )  # fmt: skip
    page = parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with both on one axis")
    parser.add_argument("--json", action="store_true", help="JSON, as docs/comparing.md describes it")
    for action in (before, after, page):
        completes_files(action)


def _condition(text: str) -> tuple[str, float]:
    from tileops.cli.trace.shares import share

    what, equals, amount = text.partition("=")
    if what not in ("regression", "finding") or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no condition: write regression=3% or finding=10%")
    return what, share(amount)


def run(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status."""
    from tileops.trace.comparison import compare
    from tileops.trace.files import check_output

    before, after = _paths(arguments.before), _paths(arguments.after)
    if arguments.html is not None:
        with _telling():
            check_output(arguments.html, before + after)
    comparison = compare(_side(before), _side(after), arguments.minimum, arguments.flops)
    if arguments.html is not None:
        from tileops.trace.export.html import export_comparison

        with _telling():
            export_comparison(comparison, arguments.html)
    if arguments.json:
        print(json.dumps(comparison.as_dict(), indent=2))
    else:
        print(printable_lines(str(comparison)))
        if arguments.html is not None:
            print(f"\n{printable(str(arguments.html))}")
    return int(any(_failed(comparison, what, limit) for what, limit in arguments.fail_on))


def _failed(comparison: Comparison, what: str, limit: float) -> bool:
    if what == "regression":
        return comparison.regression() > 0 and comparison.regression() >= limit
    return any(finding.win > 0 and finding.win >= limit for finding in comparison.new)


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TraceError(f"{error.filename}: {error.strerror}") from error


def _paths(path: Path) -> list[Path]:
    """The recordings of a side.

    Raises:
        TraceError: if it holds none.
    """
    from tileops.trace.recording import SUFFIX

    try:
        paths = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not paths:
        raise TraceError(f"{path}: holds no recording (*{SUFFIX})")
    return paths


def _side(paths: list[Path]) -> list[Timeline]:
    """The launches of a side.

    Raises:
        TraceError: if a file is no recording.
    """
    from tileops.cli.trace.files import read

    return [read(path)[1] for path in paths]
