"""Run a script and trace its TileLang kernels, which nobody has to have annotated.

The script runs in this process as ``python script.py`` would run it, with TileLang's kernel cache off. Each kernel's
timeline is written when it is launched for the --launch-th time. The exit status is the script's.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from tileops.trace.errors import TraceError

HELP = "run a script and trace the kernels that it builds"
EXAMPLES = """\
  tileops trace run train.py --epochs 1                           # debug/*.html and debug/*.tltrace
  tileops trace run --kernel attend --launch 10 train.py          # one kernel, its tenth launch
  tileops trace run --level roles --output timelines bench.py     # fewer markers, another folder
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    parser.add_argument("--kernel", metavar="REGEX", default="", help="only kernels with such a name (default: all)")
    parser.add_argument(
        "--launch", type=int, default=3, metavar="N", help="which launch of each to record (default: %(default)s)"
    )
    parser.add_argument(
        "--level",
        choices=("roles", "ops", "all"),
        default="ops",
        help="how much: waits, loads, compute and epilogue; every operation; arrivals too (default: %(default)s)",
    )
    parser.add_argument("--output", metavar="FOLDER", default="debug", help="where to (default: %(default)s)")
    parser.add_argument("script", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Runs the script; returns its exit status."""
    script = Path(arguments.script)
    if not script.is_file():
        raise TraceError(f"{script}: there is no such script")
    # Before TileLang is imported: it reads this once. The processes that the script starts are not traced, and share
    # nothing with this one.
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    from tileops.trace import trace

    trace.enable(arguments.output, dumps=None)
    trace.disable()
    with trace.auto(level=arguments.level, launch=arguments.launch, kernel=arguments.kernel) as block:
        status = _run(script, arguments.arguments)
    written = trace.dumps
    for path in written:
        print(f"tileops: wrote {path}.html", file=sys.stderr)
    quiet = sorted({build.name for build in block.builds if build.hooked} - {*block.written})
    for name in quiet:
        launches = max(build.launches for build in block.builds if build.name == name)
        print(
            f"tileops: kernel {name} was launched {launches} times; --launch {arguments.launch} records the "
            f"{arguments.launch}. launch",
            file=sys.stderr,
        )
    return status


def _run(script: Path, arguments: list[str]) -> int:
    """Runs a script as Python does; what it raises is told as Python tells it."""
    kept = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.resolve().parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        print(exit_.code, file=sys.stderr)
        return 1
    except Exception:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.argv, sys.path[0] = kept
    return 0
