"""The entry point: picks the subcommand."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence

import tileops
from tileops.cli import demo, profile, trace, view
from tileops.cli.completion import add_completion
from tileops.cli.printable import printable_lines
from tileops.trace.errors import TraceError

COMMANDS = {"demo": demo, "profile": profile, "trace": trace, "view": view}


def build_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    parser = argparse.ArgumentParser(prog="tileops", description="See where a TileLang kernel's time goes.")
    parser.add_argument("--version", action="version", version=f"tileops {tileops.__version__}")
    add_completion(parser)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.__doc__)
        subparser.set_defaults(run=getattr(module, "run", None), failure=1, parser=subparser)
        module.add_arguments(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: the arguments; ``None`` takes the process's.

    Returns:
        The exit status: 0 if all went well, 1 if the command failed (2 where the command says so: 1 has a meaning of
        its own there), 130 if it was interrupted, 141 if whoever read the output closed it, as a shell has these. Wrong
        arguments exit with 2, by way of ``SystemExit``.
    """
    arguments, unknown = build_parser().parse_known_args(argv)
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        status = int(arguments.run(arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        _drop_output()
        print(f"tileops: the output cannot be written: {error.strerror}", file=sys.stderr)
        return int(arguments.failure)
    except TraceError as error:
        print(f"tileops: {printable_lines(str(error))}", file=sys.stderr)
        return int(arguments.failure)
    except KeyboardInterrupt:
        return 130


def _drop_output() -> None:
    """What is left to be written would fail once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
