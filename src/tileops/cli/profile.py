"""Profile a program with PyTorch's profiler, or read a trace that it wrote, and say what bounds it."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileops.cli.printable import printable_lines
from tileops.cli.program import NoProgramError, check_script, of_program, run_program

if TYPE_CHECKING:
    from tileops.profile import Report, Trace

HELP = "profile a program, or read a trace of torch.profiler, and say what bounds it"

_EXAMPLES = """examples:
  tileops profile script.py --size 4096          run a script under the profiler
  tileops profile script.py --json -- --json     what stands behind -- is the script's alone
  tileops profile -m package.module --size 4096  run a module as python -m does, under the profiler
  tileops profile module:function --graph        call a function until its times settle, and profile it
  tileops profile read trace.json.gz             the same answers for a trace that somebody else made
  tileops profile compare before.json after.json
  tileops profile peaks                          what this GPU reaches, and the datasheets' peaks

`tileops profile WHAT --help` tells the options of each. The exit status is 0, 2 if something is wrong, or 130 after
Ctrl-C, which ends a script and reports on what it did until then.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommand's arguments; what they mean depends on the first one."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument("-m", dest="module", action="store_true", help="WHAT is a module to run, as for python -m")
    parser.add_argument("what", metavar="WHAT", help="read, compare, peaks, a script, or module:function")
    parser.add_argument("rest", metavar="...", nargs=argparse.REMAINDER, help="its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Runs what the first argument names; returns the exit status."""
    from tileops.profile.errors import ProfileError

    handlers: dict[str, Callable[[Sequence[str]], int]] = {"read": _read, "compare": _compare, "peaks": _peaks}
    handler = None if arguments.module else handlers.get(arguments.what)
    try:
        return handler(arguments.rest) if handler else _program(arguments.what, arguments.rest, arguments.module)
    except ProfileError as error:
        print(f"tileops: {printable_lines(str(error))}", file=sys.stderr)
        return 2


def _parser(name: str, description: str, example: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"tileops profile {name}",
        description=description,
        epilog=f"example:\n  {example}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser


def _read(argv: Sequence[str]) -> int:
    parser = _parser(
        "read",
        "Say what a torch.profiler trace shows: what dominates, gaps and their causes, launches, waits, memory.",
        "tileops profile read trace.json.gz --of forward_pass --flops 1.1e12 --bytes 4e8 --dtype bfloat16",
    )
    parser.add_argument("trace", metavar="TRACE", help="a Chrome trace, .json or .json.gz")
    parser.add_argument("--output", metavar="DIR", help="write the report as text, JSON and a page there too")
    parser.add_argument("--of", metavar="NAME", help="a label or kernel, or part of its name, to say what bounds it")
    parser.add_argument("--flops", type=float, help="operations of one passage of it")
    parser.add_argument("--bytes", type=float, help="bytes that one passage of it moves to and from memory")
    parser.add_argument("--dtype", help="its operands' type (float16 if not given)")
    arguments = parser.parse_args(argv)
    counts = arguments.flops, arguments.bytes
    if (arguments.of is None) != (counts == (None, None)) or (arguments.dtype and arguments.of is None):
        parser.error("--of NAME goes with --flops or --bytes, and --dtype with these: of what they are, and how many")
    from tileops.profile.report.build import report_on
    from tileops.profile.report.files import make_folder

    if arguments.output:  # before what takes long
        make_folder(arguments.output)
    flops, bytes_moved = ({arguments.of: count} if count is not None else None for count in counts)
    report = report_on(_load(arguments.trace), flops=flops, bytes_moved=bytes_moved, dtype=arguments.dtype)
    _show(report, arguments)
    return 0


def _compare(argv: Sequence[str]) -> int:
    parser = _parser(
        "compare",
        "Say what changed between two torch.profiler traces.",
        "tileops profile compare before.json.gz after.json.gz",
    )
    parser.add_argument("before", metavar="A", help="a trace")
    parser.add_argument("after", metavar="B", help="another one")
    parser.add_argument("--output", metavar="FILE.html", help="write the comparison as a page too")
    arguments = parser.parse_args(argv)
    import msgspec

    from tileops.profile.compare import compare
    from tileops.profile.errors import ProfileError
    from tileops.profile.report.html import sections_page
    from tileops.profile.report.text import sections_renderable
    from tileops.trace.files import check_output, exported

    try:
        if arguments.output:
            check_output(arguments.output, (arguments.before, arguments.after))
    except OSError as error:
        raise ProfileError(f"{error.filename}: {error.strerror}") from error
    found = compare(_load(arguments.before), _load(arguments.after))
    sections = found.sections()
    if arguments.output:
        page = sections_page(f"{arguments.before} and {arguments.after}", sections)
        try:
            with exported(arguments.output) as file:
                file.write(page.encode("utf-8", "replace"))
        except OSError as error:
            raise ProfileError(f"{error.filename}: {error.strerror}") from error
    if arguments.json:
        data = {"schema": "tileops.profile.comparison/1", "figures": msgspec.to_builtins(found)}
        data["sections"] = msgspec.to_builtins(sections)
        print(json.dumps(data, indent=2))
    else:
        _console().print(sections_renderable(sections))
    return 0


def _peaks(argv: Sequence[str]) -> int:
    parser = _parser(
        "peaks",
        "Measure what this GPU reaches, which later profiles then compare with, and list the datasheets' peaks.",
        "tileops profile peaks --list",
    )
    parser.add_argument("--list", action="store_true", help="only list the datasheets' peaks")
    arguments = parser.parse_args(argv)
    from rich.console import Console

    from tileops.profile.peaks import GPUS
    from tileops.profile.report.document import Paragraph, Section, Table
    from tileops.profile.report.text import sections_renderable

    data: dict[str, Any] = {"schema": "tileops.profile.peaks/1", "measured": None, "datasheets": []}
    blocks: list[Paragraph | Table] = []
    if not arguments.list:
        from tileops.profile.live import ceilings
        from tileops.profile.live.device import this_device

        device = this_device()
        if device.gpu:
            status = Console(stderr=True)
            with status.status("Measuring") as line:
                values = ceilings.measure(device, lambda what: line.update(f"Measuring: {what}"))
            path = ceilings.store(device, values)
            data["measured"] = {"device": device.name, "file": str(path), "values": values}
            rows = [
                [key, f"{value:,.1f} {'GB/s' if key == 'bandwidth' else 'TFLOP/s'}"] for key, value in values.items()
            ]
            blocks += [Table(f"Measured on {device.name}", ["", ""], rows), Paragraph(f"Kept in {path}")]
        else:
            blocks.append(Paragraph("PyTorch sees no GPU here: nothing was measured.", "warn"))
    rows = []
    for gpu in GPUS:
        matrix = ", ".join(f"{name} {rate:,g}" for name, rate in gpu.matrix.items())
        vector = ", ".join(f"{name} {rate:,g}" for name, rate in gpu.vector.items())
        source = f"{gpu.source} ({gpu.published})" + (f"; {gpu.derived}" if gpu.derived else "")
        rows.append([gpu.name, f"{gpu.bandwidth:,.0f}", matrix, vector, source])
        data["datasheets"].append({
            "name": gpu.name, "bandwidth": gpu.bandwidth, "matrix": dict(gpu.matrix), "vector": dict(gpu.vector),
            "source": gpu.source, "published": gpu.published, "derived": gpu.derived,
        })  # fmt: skip
    headings = ["GPU", "GB/s", "tensor cores, TFLOP/s, dense", "ordinary cores, TFLOP/s", "source"]
    blocks.append(Table("Datasheets", headings, rows, len(headings)))
    if arguments.json:
        print(json.dumps(data, indent=2))
    else:
        _console().print(sections_renderable([Section("Peaks", blocks)]))
    return 0


def _program(what: str, argv: Sequence[str], module: bool) -> int:
    parser = _parser(
        f"-m {what}" if module else what,
        f"Profile {what}. A script, or a module with -m, is run once, as it is. A function (module:function or "
        "file.py:function, called without arguments) is called until its times settle, and then profiled; if it "
        "returns callables by name, these are the candidates.",
        f"tileops profile {'-m ' if module else ''}{what} --output out/",
    )
    parser.add_argument("--output", metavar="DIR", help="write the report and the trace there")
    parser.add_argument("--tensorboard", metavar="DIR", help="write the trace into a log folder of TensorBoard's too")
    parser.add_argument("--memory", action="store_true", help="record allocations too")
    parser.add_argument("--with-stack", action="store_true", help="record Python's frames")
    function, others = not module and _is_function(what), list[str]()
    if function:
        parser.add_argument("--flops", type=float, help="operations of a call")
        parser.add_argument("--bytes", type=float, help="bytes that a call moves to and from memory")
        parser.add_argument("--dtype", help="the operands' type (float16 if not given)")
        parser.add_argument("--repeats", type=int, default=20, help="profiled calls (default: %(default)s)")
        parser.add_argument("--warmup", type=int, default=10, help="the fewest calls before (default: %(default)s)")
        parser.add_argument("--cold-l2", action="store_true", help="empty the L2 cache between calls")
        parser.add_argument(
            "--instructions", action="store_true", help="compile TileLang's sources again and count instructions"
        )
        parser.add_argument("--graph", action="store_true", help="time replays from a CUDA graph too")
        arguments = parser.parse_args(argv)
    else:
        # Behind -- is what the script gets as it is, options of the same names among it.
        end = argv.index("--") if "--" in argv else len(argv)
        arguments, others = parser.parse_known_args(argv[:end])
        others += argv[end + 1 :]
    from tileops.profile.report.files import make_folder

    for folder, written in ((arguments.output, "the report"), (arguments.tensorboard, "the trace")):
        if folder:  # before what takes long
            make_folder(folder, written)
    place = os.getcwd()
    try:
        with contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext():
            report, failed = _of_function(what, arguments) if function else _of_script(what, others, module, arguments)
    finally:
        os.chdir(place)  # where the folders that are named here are, whatever the program did
    _show(report, arguments)
    if arguments.output:
        from tileops.profile.live.recording import drop

        drop(report)
    return failed


def _is_function(what: str) -> bool:
    return ":" in what and not Path(what).exists()


def _of_function(what: str, arguments: argparse.Namespace) -> tuple[Report, int]:
    from dataclasses import replace

    from tileops.profile.live.candidates import profile
    from tileops.profile.report.units import duration

    function = _find(what)

    def call() -> object:
        began = time.perf_counter_ns()
        returned = function()
        if isinstance(returned, Mapping) and returned and all(callable(value) for value in returned.values()):
            raise _Candidates(returned, time.perf_counter_ns() - began)
        return returned

    options = {
        "flops": arguments.flops,
        "bytes_moved": arguments.bytes,
        "dtype": arguments.dtype,
        "repeats": arguments.repeats,
        "warmup": arguments.warmup,
        "cold_l2": arguments.cold_l2,
        "graph": arguments.graph,
        "memory": arguments.memory,
        "with_stack": arguments.with_stack,
        "instructions": arguments.instructions,
        "again": f"tileops profile {shlex.quote(what)}",
    }
    try:
        # Not called before: its first call, with compilation in it, is timed.
        return profile({what.rpartition(":")[2]: call}, target=_unprofiled(what), **options), 0
    except _Candidates as returned:
        targets = {name: _unprofiled(what, name) for name in returned.named}
        report = profile(returned.named, target=targets, **options)
        built = (f"{what} itself", f"{duration(returned.took_ns)}: what it compiles is in none of the times below")
        return replace(report, setup=[*report.setup, built]), 0


def _unprofiled(what: str, candidate: str = "") -> str:
    """A command that calls a function three times with no profiler, which ncu could not share CUPTI with.

    Args:
        what: ``module:function`` or ``file.py:function``.
        candidate: the callable to call instead, of those that the function returns.
    """
    place, _, name = what.rpartition(":")
    lines = ["from importlib import import_module"]
    if place.endswith(".py"):
        lines += ["import sys", f"sys.path.insert(0, {str(Path(place).parent)!r})"]
        place = Path(place).stem
    chosen = f"()[{candidate!r}]" if candidate else ""
    lines += [f"work = import_module({place!r}).{name}{chosen}", "[work() for _ in range(3)]"]
    return shlex.join(["python", "-c", "; ".join(lines)])


class _Candidates(BaseException):
    """What a function returned, and how long that took: not itself, but these are to be profiled.

    No Exception, which would be a failure.
    """

    def __init__(self, named: Mapping[str, Callable[[], object]], took_ns: float):
        self.named = named
        self.took_ns = took_ns


def _find(what: str) -> Callable[[], Any]:
    """The function that ``module:function`` or ``file.py:function`` names."""
    from tileops.profile.errors import ProfileError
    from tileops.profile.live.failures import told

    place, _, name = what.rpartition(":")
    if not place or not name:
        raise ProfileError(f"{what!r} names no function: write module:function, or file.py:function")
    sys.path.insert(0, "")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            if spec is None or spec.loader is None:
                raise ProfileError(f"{place} cannot be imported")
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
    except ProfileError:
        raise
    except (Exception, SystemExit) as error:
        ended = "it ended with " if isinstance(error, SystemExit) else ""
        raise ProfileError(f"{place} cannot be imported: {ended}{told(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ProfileError(f"{place} has no function {name!r}")
    return function


def _of_script(script: str, argv: Sequence[str], is_module: bool, arguments: argparse.Namespace) -> tuple[Report, int]:
    """Runs a program as Python would, under the profiler; what it recorded until it failed is reported too."""
    from dataclasses import replace

    from tileops.profile.errors import ProfileError
    from tileops.profile.live.device import this_device
    from tileops.profile.live.recording import no_cuda_activity, recorded
    from tileops.profile.report.build import report_on

    device, failure, status = this_device(), "", 0
    try:
        if not is_module:
            check_script(script)
        with recorded(device, arguments.memory, arguments.with_stack) as paths:
            try:
                run_program(script, argv, is_module)
            except NoProgramError:
                raise
            except SystemExit as exit_:
                if isinstance(exit_.code, str):  # as Python does
                    print(exit_.code, file=sys.stderr)
                if exit_.code not in (None, 0):
                    failure, status = f"The script ended with {_status(exit_.code)}.", 2
            except KeyboardInterrupt:
                failure, status = "The script was interrupted: what it did until then is shown.", 130
            except BaseException as error:
                # The first frame is this function's.
                error.__traceback__ = of_program(error.__traceback__ and error.__traceback__.tb_next)
                sys.excepthook(type(error), error, error.__traceback__)
                status = 2
                failure = f"The script failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    except NoProgramError as error:
        raise ProfileError(f"{error}{'' if is_module else '; a function is named as module:function'}") from None
    if not paths:
        raise ProfileError("PyTorch's profiler wrote no trace; is another one active in the script?")
    trace = _load(str(paths[0]))
    program = shlex.join(["python", *(["-m"] if is_module else []), script, *argv])
    report = report_on(trace, program)
    setup = [("program", program), *(pair for pair in report.setup if pair[0] != "trace")]
    missing = [text for text in (failure, no_cuda_activity(device, trace)) if text]
    missing += [text for text in report.missing if not text.startswith("There ")]
    return replace(report, setup=setup, missing=missing), status


def _status(code: object) -> str:
    return f"status {code}" if isinstance(code, int) else f"{str(code)!r}"


def _load(path: str) -> Trace:
    """Reads a trace, with a progress bar if it takes long and somebody looks."""
    from rich.console import Console

    from tileops.profile.reading import read_trace

    console = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(_bar(console)) if console.is_terminal else None
        return read_trace(path, progress)


@contextlib.contextmanager
def _bar(console: Any) -> Iterator[Callable[[int, int], None]]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress("Reading", *columns, console=console, transient=True) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _console() -> Any:
    """The terminal; in a pipe, lines as wide as the tables are."""
    from rich.console import Console

    from tileops.profile.report.text import WIDTH

    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def _show(report: Report, arguments: argparse.Namespace) -> None:
    """Prints a report, and writes its files if that was asked for."""
    from tileops.profile.report.data import to_json
    from tileops.profile.report.files import save
    from tileops.profile.report.text import renderable

    # What is printed names the files that stay.
    report, files = save(report, arguments.output) if arguments.output else (report, [])
    if getattr(arguments, "tensorboard", None):
        files.append(report.save_for_tensorboard(arguments.tensorboard))
    if arguments.json:
        sys.stdout.write(to_json(report).decode("utf-8"))
        return
    _console().print(renderable(report), crop=False)
    for path in files:
        print(printable_lines(path))
