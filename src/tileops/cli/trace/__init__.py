"""Record a script's kernels; read recordings: what is in them, what it means, what changed, other formats.

Exit status: 0 if all went well, 1 if something is there that --fail-on names, 2 if a file cannot be read or written, or
the arguments are wrong.
"""

from __future__ import annotations

import argparse

from tileops.cli.trace import compare, export, findings, info, run, summary

HELP = "record scripts; read recordings: summary, findings, comparison, other formats"
# What a TraceError makes of the exit status: 1 is what findings are told by.
FAILURE = 2

COMMANDS = {
    "run": run, "summary": summary, "findings": findings, "compare": compare, "export": export, "info": info,
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommands, each a module as :mod:`tileops.cli` describes them, with ``EXAMPLES`` besides."""
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        subparser = subparsers.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run, failure=FAILURE, parser=subparser)
