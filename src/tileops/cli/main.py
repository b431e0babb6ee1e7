"""The entry point: picks the subcommand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import tileops
from tileops.cli import demo, profile, view
from tileops.trace.errors import TraceError

COMMANDS = {"demo": demo, "profile": profile, "view": view}


def build_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    parser = argparse.ArgumentParser(prog="tileops", description="See where a TileLang kernel's time goes.")
    parser.add_argument("--version", action="version", version=f"tileops {tileops.__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.__doc__)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: the arguments; ``None`` takes the process's.

    Returns:
        The exit status: 0 if all went well, 1 if the command failed, 130 if it was interrupted. Wrong arguments exit
        with 2, by way of ``SystemExit``.
    """
    arguments = build_parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except TraceError as error:
        print(f"tileops: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
