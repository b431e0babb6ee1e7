"""Run a script and trace its TileLang kernels, which nobody has to have annotated.

The script runs in this process as ``python script.py`` would run it, with TileLang's kernel cache off. Each kernel's
timeline is written when it is launched for the --launch-th time, or at the end, of its last launch, where there are
fewer. The processes that the script starts are not traced. The exit status is the script's.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tileops.cli.printable import printable_lines
from tileops.trace.errors import TraceError

if TYPE_CHECKING:
    from tileops.trace.auto.block import Block

HELP = "run a script and trace the kernels that it builds"
EXAMPLES = """\
  tileops trace run train.py --epochs 1                           # debug/*.html and debug/*.tltrace
  tileops trace run --kernel attend --launch 10 train.py          # one kernel, its tenth launch
  tileops trace run --level roles --output timelines bench.py     # fewer markers, another folder
"""
INTERRUPTED = 130  # the exit status of what SIGINT ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    parser.add_argument(
        "--kernel", type=_pattern, metavar="REGEX", default="", help="only kernels with such a name (default: all)"
    )
    parser.add_argument(
        "--launch", type=_launch, default=3, metavar="N", help="which launch of each to record (default: %(default)s)"
    )
    parser.add_argument(
        "--level",
        choices=("roles", "ops", "all"),
        default="ops",
        help="how much: waits, loads, compute and epilogue; every operation; arrivals too (default: %(default)s)",
    )
    parser.add_argument("--output", metavar="FOLDER", default="debug", help="where to (default: %(default)s)")
    parser.add_argument("script", help="the script")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False  # Python 3.11 and older name it with what is missing


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def _launch(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no launch's number: 1 is the first one")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Runs the script; returns its exit status."""
    script, output = Path(arguments.script), Path(arguments.output)
    if not script.is_file():
        raise TraceError(f"{script}: {'a folder, and no script' if script.is_dir() else 'there is no such script'}")
    if output.exists() and not output.is_dir():
        raise TraceError(f"--output {output}: there is a file of that name; give a folder")
    from tileops.trace import trace
    from tileops.trace.auto.block import Block

    trace.enable(arguments.output, dumps=None)
    trace.disable()
    block = Block(trace, arguments.level, arguments.launch, kernel=arguments.kernel)
    before = len(trace.dumps)
    with block.open():
        status = _run(script, arguments.arguments)
    for path in trace.dumps[before:]:
        _say(f"wrote {path}.html")
    for text in _left_open(block):
        _say(text)
    return status


def _say(text: str) -> None:
    print(f"tileops: {printable_lines(text)}", file=sys.stderr)


def _left_open(block: Block) -> Iterator[str]:
    """What to know of kernels besides that they were written."""
    if not block.builds and not block.left:
        others = f"; {', '.join(block.passed)} were passed over" if block.passed else ""
        pattern = block.kernel.pattern
        yield f"no kernel was built whose name {pattern!r} is found in{others}" if pattern else "no kernel was built"
    for name in sorted({*block.left, *(build.name for build in block.builds)}):
        if name in block.left:
            yield f"kernel {name} is left as it is: {block.left[name]}"
            continue
        builds = [build for build in block.builds if build.name == name]
        launches = max(build.launches for build in builds)
        if launches == 0:
            tuned = "an autotuner tried it, and what it chose was" if builds[0].tuned else "it was"
            yield f"kernel {name} has no timeline: {tuned} never launched"
        elif name not in block.written:
            yield f"kernel {name} has no timeline: nothing could be recorded of its {_times(launches)}"
        elif launches < block.launch:
            yield f"kernel {name} has a timeline of launch {launches}: there was no launch {block.launch}"


def _times(launches: int) -> str:
    return "only launch" if launches == 1 else f"{launches} launches"


def _run(script: Path, arguments: list[str]) -> int:
    """Runs a script as Python does; what it raises is told as Python tells it."""
    kept = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.resolve().parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
        _wait_for_threads()
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        print(exit_.code, file=sys.stderr)
        return 1
    except (Exception, KeyboardInterrupt) as error:
        error.__traceback__ = _of_script(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    finally:
        sys.argv, sys.path[0] = kept
    return 0


def _wait_for_threads() -> None:
    """A program ends when its threads do."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _of_script(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback less the calls that lead to the script."""
    own = (__file__, runpy.__file__, "<frozen runpy>")
    while traceback is not None and traceback.tb_frame.f_code.co_filename in own:
        traceback = traceback.tb_next
    return traceback
