"""Say what recorded launches suffer from, how sure that is, what removing it could win at most, and what to try next.

Exit status: 0 if all went well, 1 if there is a finding that could win as much as --fail-on says, 2 if a file cannot
be read or the arguments are wrong.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileops.cli.printable import printable, printable_lines
from tileops.trace.errors import TraceError

if TYPE_CHECKING:
    from tileops.trace.findings import Finding
    from tileops.trace.timeline import Timeline

HELP = "say what the kernel suffers from"
EXAMPLES = """\
  tileops trace findings debug/gemm.tltrace
  tileops trace findings gemm.tltrace --fail-on 10%
  tileops trace findings gemm.tltrace --flops '2*1536*2816*4096'
  tileops trace findings gemm.tltrace --json | jq -r '.files[0].findings[].rule'
"""

# Of what --json prints: raised where a key that is there means something else, or goes.
VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments."""
    from tileops.cli.trace.files import add_files
    from tileops.cli.trace.products import product
    from tileops.cli.trace.shares import share

    add_files(parser)
    parser.add_argument(
        "--minimum", type=share, metavar="SHARE", help="none that could win less of the kernel's span (default: 5%%)"
    )
    parser.add_argument("--depth", type=int, metavar="STAGES", help="the stages that the pipeline was built with")
    parser.add_argument(
        "--flops", type=product, metavar="N",
        help="floating-point operations of the launch, such as 2*1536*2816*4096: tells slow computations",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", type=share, metavar="SHARE", help="exit with 1 if a finding could win as much of the kernel's span"
    )
    parser.add_argument("--json", action="store_true", help="JSON, as docs/findings.md describes it")


def run(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status."""
    from tileops.cli.progress import progress
    from tileops.cli.trace.files import read, tell

    options = {"depth": arguments.depth, "flops": arguments.flops}
    if arguments.minimum is not None:
        options["minimum"] = arguments.minimum
    found: list[tuple[Path, list[Finding]]] = []
    with progress(len(arguments.files)) as report:
        for done, path in enumerate(arguments.files):
            report(done, path.name, 0.0)
            try:
                _, timeline = read(path)
                found.append((path, _findings(path, timeline, options)))
            except (TraceError, OSError) as error:
                tell(error)
    if arguments.json:
        files = [{"file": str(path), "findings": [one.as_dict() for one in findings]} for path, findings in found]
        print(json.dumps({"format": "tileops.trace.findings", "version": VERSION, "files": files}, indent=2))
    else:
        for at, (path, findings) in enumerate(found):
            print(f"{'' if at == 0 else chr(10)}{printable(str(path))}")
            print("\n".join(printable_lines(str(finding)) for finding in findings) or "no findings")
    if len(found) < len(arguments.files):
        return 2
    wins = [finding.win for _, findings in found for finding in findings]
    return int(arguments.fail_on is not None and any(win > 0 and win >= arguments.fail_on for win in wins))


def _findings(path: Path, timeline: Timeline, options: dict[str, Any]) -> list[Finding]:
    """A file's findings.

    Raises:
        TraceError: naming the file, if an option does not suit it.
    """
    try:
        return timeline.findings(**options)
    except (TraceError, ValueError) as error:
        raise TraceError(f"{path}: {error}") from error
