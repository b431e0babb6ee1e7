"""Run a script and trace its TileLang kernels, which nobody has to have annotated.

The script runs in this process as ``python script.py`` would run it, with TileLang's kernel cache off. Each kernel's
timeline is written when it is launched for the --launch-th time, or at the end, of its last launch, where there are
fewer. The processes that the script starts are not traced. The exit status is the script's.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tileops.cli.printable import printable_lines
from tileops.cli.program import NoProgramError, check_script, of_program, run_program
from tileops.trace.choice import checked_ctas
from tileops.trace.errors import TraceError

if TYPE_CHECKING:
    from tileops.trace.auto.block import Block
    from tileops.trace.choice import Ctas

HELP = "run a script and trace the kernels that it builds"
EXAMPLES = """\
  tileops trace run train.py --epochs 1                           # debug/*.html and debug/*.tltrace
  tileops trace run --kernel attend --launch 10 train.py          # one kernel, its tenth launch
  tileops trace run --level roles --output timelines bench.py     # fewer markers, another folder
  tileops trace run --ctas ::8 -m bench.attention --causal        # a module, and every eighth CTA
"""
INTERRUPTED = 130  # the exit status of what SIGINT ended
_SLICE = re.compile(r"-?\d*:-?\d*(:-?\d*)?")
_NUMBERS = re.compile(r"-?\d+(,-?\d+)*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    parser.add_argument(
        "--kernel", type=_pattern, metavar="REGEX", default="", help="only kernels with such a name (default: all)"
    )
    parser.add_argument(
        "--launch",
        type=_number("launch's number: 1 is the first one"),
        default=3,
        metavar="N",
        help="which launch of each to record (default: %(default)s)",
    )
    parser.add_argument(
        "--level",
        choices=("roles", "ops", "all"),
        default="ops",
        help="how much: waits, loads, compute and epilogue; every operation; arrivals too (default: %(default)s)",
    )
    parser.add_argument(
        "--ctas",
        type=_ctas,
        metavar="CTAS",
        help="which CTAs record: numbers (0,7,64), a slice (::8), 'one per SM', 'first and last wave' (default: all)",
    )
    parser.add_argument(
        "--max-events",
        type=_number("number of events"),
        metavar="N",
        help="how many events a row of a CTA holds (default: as many as can be seen to be needed)",
    )
    parser.add_argument("--output", metavar="FOLDER", default="debug", help="where to (default: %(default)s)")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    parser.add_argument("script", metavar="SCRIPT", help="the script")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False  # Python 3.11 and older name it with what is missing


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def _number(what: str) -> Callable[[str], int]:
    """Reads a number from 1 on; ``what`` it is, for who gives another."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is no {what}")
        return int(text)

    return number


def _ctas(text: str) -> Ctas:
    """Reads a choice of CTAs, in which numbers and slices are written as in Python."""
    ctas: Ctas = text
    if _SLICE.fullmatch(text):
        ctas = slice(*(int(part) if part else None for part in text.split(":")))
    elif _NUMBERS.fullmatch(text):
        ctas = [int(part) for part in text.split(",")]
    try:
        return checked_ctas("--ctas", ctas)
    except TraceError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("--ctas: ctas: ")) from None


def run(arguments: argparse.Namespace) -> int:
    """Runs the script; returns its exit status."""
    output = Path(arguments.output)
    if not arguments.module:
        try:
            check_script(arguments.script)
        except NoProgramError as error:
            raise TraceError(str(error)) from None
    if output.exists() and not output.is_dir():
        raise TraceError(f"--output {output}: there is a file of that name; give a folder")
    from tileops.trace import trace
    from tileops.trace.auto.block import Block

    trace.enable(arguments.output, dumps=None)
    trace.disable()
    block = Block(trace, arguments.level, arguments.launch, arguments.max_events, arguments.kernel, arguments.ctas)
    before = len(trace.dumps)
    with block.open():
        status = _run(arguments.script, arguments.arguments, arguments.module)
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


def _run(script: str, arguments: list[str], module: bool) -> int:
    """Runs a script, or a module, as Python does; what it raises is told as Python tells it."""
    try:
        run_program(script, arguments, module)
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        print(exit_.code, file=sys.stderr)
        return 1
    except NoProgramError as error:
        raise TraceError(str(error)) from None
    except (Exception, KeyboardInterrupt) as error:
        # The first frame is this function's.
        error.__traceback__ = of_program(error.__traceback__ and error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0
