"""Runs TileLang's own example programs, and then again under ``tileops trace run``: what gives a timeline, what breaks.

    pip download tilelang==0.1.14 --no-deps --no-binary tilelang && tar xzf tilelang-0.1.14.tar.gz
    python benchmarks/examples.py tilelang-0.1.14/examples --out DIR [--jobs 4] [--budget 540] [--only REGEX]

The programs and their arguments are in ``examples.txt``; each runs unmodified, in a process of its own. Those that end
well run again, traced, and their recordings are read. ``DIR/results.json`` keeps what came of each; a program that is
in there with both runs is not run again, so that what a budget cut off goes on with the same command. The table and
what it leaves open are printed in the end. It exits with 1 if fewer than 90% of those that run unmodified give a
timeline, or one of them ends differently when traced. ``examples_h200.json`` is what came of them on an H200, as far as
they were run: with ``--known`` those are not run again.

    python benchmarks/examples.py tilelang-0.1.14/examples --pack programs.tar.xz
    python benchmarks/examples.py tilelang-0.1.14/examples --lower --out DIR [--jobs 2]

``--pack`` makes an archive of the listed programs and what they import of their own folders, for a machine without a
package index. ``--lower`` needs no GPU: each program runs on tensors without data up to its first launch, and the
sources that TileLang generates for it until then are instrumented and compiled.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("examples.txt")
LOWERING = Path(__file__).with_name("examples_lowering.py")
LIMIT = 200  # seconds of one run
NATIVE = {".cpp", ".cu", ".cuh", ".h"}  # of extensions that a program builds
TARGET = 0.9  # the share of those that run unmodified that has to give a timeline
SAID = "tileops: "  # how lines of `tileops trace run` begin
LEFT = re.compile(r"kernel (\S+) (?:is left as it is|has no timeline): (.*)")


@dataclass(frozen=True)
class Program:
    """What is run: a path below the examples' folder, with arguments."""

    family: str
    path: str
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join((self.path, *self.arguments))


@dataclass
class Run:
    """How a run ended.

    Attributes:
        status: its exit status, negative for a signal; ``None`` if it took too long.
        seconds: how long it took.
        said: the last line that it wrote to stderr.
    """

    status: int | None
    seconds: float
    said: str


@dataclass
class Timeline:
    """What a recording holds; ``problem`` says why it cannot be read."""

    file: str
    events: int = 0
    dropped: int = 0
    unfinished: int = 0
    problem: str = ""


@dataclass
class Result:
    """What came of a program. ``left`` are kernels that have no timeline, with the reason."""

    family: str
    plain: Run
    traced: Run | None = None
    timelines: list[Timeline] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.plain.status != 0 or self.traced is not None

    @property
    def gave(self) -> bool:
        """Whether there is a timeline with something in it."""
        return any(timeline.events for timeline in self.timelines)

    @property
    def unharmed(self) -> bool:
        return self.traced is not None and self.traced.status == self.plain.status


def programs(text: str) -> tuple[list[Program], dict[str, str]]:
    """The listed programs, and those left out with the reason."""
    family = ""
    listed: list[Program] = []
    left: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            family = line[1:-1]
        elif line.startswith("- "):
            path, colon, reason = line[2:].partition(": ")
            if not colon:
                raise ValueError(f"line {number}: why is {path} left out?")
            left[path] = reason
        elif not family:
            raise ValueError(f"line {number}: {line} belongs to no family")
        else:
            path, *arguments = line.split()
            listed.append(Program(family, path, tuple(arguments)))
    names = [program.name for program in listed]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"listed twice: {', '.join(twice)}")
    return listed, left


# ---------------------------------------------------------------------------------------------------------------------
# Running


def run(command: list[str], folder: Path, limit: float, environment: dict[str, str]) -> tuple[Run, str]:
    """Runs a command in a folder, which keeps its output; returns how it ended and all that it wrote to stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with open(folder / "stdout.txt", "w") as out, open(folder / "stderr.txt", "w") as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder, env=environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:  # what it started ends with it
            _end_group(process)
    text = (folder / "stderr.txt").read_text(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith(SAID)] or [""]
    return Run(status, round(time.monotonic() - begin, 1), own[-1][:300]), text


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment(out: Path) -> dict[str, str]:
    """The variables that programs run with: this checkout of tileops, and a kernel cache of their own."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    cache = out / "cache"
    return {
        **os.environ, "PYTHONPATH": path, "TILELANG_CACHE_DIR": str(cache), "TILELANG_PRINT_ON_COMPILATION": "0",
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def tried(program: Program, before: Result | None, examples: Path, out: Path, options: argparse.Namespace) -> Result:
    """A program's two runs, less what was done before."""
    script, folder = str(examples / program.path), out / "runs" / _file_name(program.name)
    env = environment(out)
    limit = min(options.limit, options.until - time.monotonic())
    if before is None:
        plain, _ = run([sys.executable, script, *program.arguments], folder / "plain", limit, env)
        before = Result(program.family, plain)
    limit = min(options.limit, options.until - time.monotonic())
    if before.plain.status == 0 and limit > 0:
        kept = folder / "traced" / "timelines"
        shutil.rmtree(kept, ignore_errors=True)
        command = [sys.executable, "-m", "tileops", "trace", "run", "--level", options.level, "--output", str(kept)]
        traced, text = run([*command, script, *program.arguments], folder / "traced", limit, env)
        before.traced = traced
        before.left = dict(LEFT.findall("\n".join(line for line in text.splitlines() if line.startswith(SAID))))
        before.timelines = [read(path) for path in sorted(kept.glob("*.tltrace"))]
        if not options.keep:
            shutil.rmtree(kept, ignore_errors=True)
    return before


def read(path: Path) -> Timeline:
    """What a recording holds."""
    from tileops.trace import TraceError
    from tileops.trace.recording import Recording

    try:
        timeline = Recording.load(path).decode()
    except TraceError as error:
        return Timeline(path.name, problem=str(error))
    events = len(timeline.slices) + len(timeline.instants)
    return Timeline(path.name, events, int(timeline.dropped), len(timeline.unfinished))


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)


class Results:
    """A file of results, written anew whenever there is one more. Those of a known file are there from the start."""

    def __init__(self, path: Path, known: Path | None = None):
        self._path = path
        self.of: dict[str, Result] = {}
        for file in (known, path):
            if file is not None and file.exists():
                self.of |= {name: _result(one) for name, one in json.loads(file.read_text()).items()}

    def add(self, name: str, result: Result) -> None:
        self.of[name] = result
        text = json.dumps({name: asdict(one) for name, one in self.of.items()}, indent=1)
        beside = self._path.with_suffix(".tmp")
        beside.write_text(text + "\n")
        beside.replace(self._path)


def _result(kept: dict[str, Any]) -> Result:
    traced = kept["traced"]
    return Result(
        kept["family"], Run(**kept["plain"]), traced and Run(**traced), [Timeline(**one) for one in kept["timelines"]],
        kept["left"],
    )  # fmt: skip


def all_tried(chosen: list[Program], results: Results, examples: Path, options: argparse.Namespace) -> None:
    """Runs what is not done yet, several at a time, as long as the budget lasts."""

    def one(program: Program) -> Result | None:
        if options.until - time.monotonic() < options.least:
            return None
        made = tried(program, results.of.get(program.name), examples, options.out, options)
        # A run that the budget ended, and not its limit, says nothing.
        if _is_cut(made.plain, options.limit):
            return None
        if made.traced is not None and _is_cut(made.traced, options.limit):
            made.traced, made.timelines, made.left = None, [], {}
        return made

    todo = [program for program in chosen if not (program.name in results.of and results.of[program.name].done)]
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(one, program): program for program in todo}
        for ended in as_completed(running):
            result, name = ended.result(), running[ended].name
            if result is not None:
                results.add(name, result)
                print(f"{name}: {_in_words(result)}", flush=True)


def _is_cut(run: Run, limit: float) -> bool:
    return run.status is None and run.seconds < limit - 0.5


def _in_words(result: Result) -> str:
    plain, traced = result.plain, result.traced
    if plain.status != 0:
        return f"{_ending(plain)}: {plain.said}"
    if traced is None:
        return "ran; to be traced yet"
    events = sum(timeline.events for timeline in result.timelines)
    words = [f"{len(result.timelines)} timelines, {events} events"]
    words += [f"{t.file}: {t.dropped} dropped" for t in result.timelines if t.dropped]
    words += [f"{t.file}: {t.unfinished} CTAs unfinished" for t in result.timelines if t.unfinished]
    words += [f"{t.file}: {t.problem}" for t in result.timelines if t.problem]
    words += [f"none of {kernel}: {reason}" for kernel, reason in result.left.items()]
    if not result.unharmed:
        words.append(f"HARMED: {_ending(traced)}: {traced.said}")
    return f"{'; '.join(words)} ({plain.seconds} s, traced {traced.seconds} s)"


def _ending(run: Run) -> str:
    return "took too long" if run.status is None else f"exit status {run.status}"


def table(listed: Iterable[Program], of: dict[str, Result]) -> tuple[str, bool]:
    """The table by family with what it leaves open, and whether it is as it should be."""
    families: dict[str, list[Result | None]] = {}
    for program in listed:
        families.setdefault(program.family, []).append(of.get(program.name))
    rows = [("family", "programs", "ran", "timeline", "unharmed")]
    totals = [0, 0, 0, 0]
    for family, every in families.items():
        ran = [one for one in every if one is not None and one.plain.status == 0 and one.traced is not None]
        counts = [len(every), len(ran), sum(one.gave for one in ran), sum(one.unharmed for one in ran)]
        totals = [total + count for total, count in zip(totals, counts)]
        rows.append((family, *map(str, counts)))
    rows.append(("all", *map(str, totals)))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(widths[0]) if at == 0 else cell.rjust(widths[at]) for at, cell in enumerate(row))
             for row in rows]  # fmt: skip
    _, ran_, gave, unharmed = totals
    share = gave / ran_ if ran_ else 0.0
    lines.append(f"{ran_} ran unmodified; {gave} of them, {share:.0%}, gave a timeline; {unharmed} ended as they did "
                 "untraced")  # fmt: skip
    parts: list[tuple[str, Callable[[Result], bool]]] = [
        ("did not run unmodified", lambda one: one.plain.status != 0),
        ("ran and gave no timeline", lambda one: one.traced is not None and not one.gave),
        ("ended differently when traced", lambda one: one.traced is not None and not one.unharmed),
    ]
    for title, holds in parts:
        names = [program.name for program in listed if program.name in of and holds(of[program.name])]
        lines += [f"\n{title}:", *(f"  {name}: {_in_words(of[name])}" for name in names)] if names else []
    open_ = [program.name for program in listed if program.name not in of or not of[program.name].done]
    lines += ["\nnot tried yet:", *(f"  {name}" for name in open_)] if open_ else []
    return "\n".join(lines), ran_ > 0 and share >= TARGET and unharmed == ran_


# ---------------------------------------------------------------------------------------------------------------------
# Packing


def packed(chosen: Iterable[Program], examples: Path) -> list[Path]:
    """The programs' files, those that they import of their own folders and C++ and CUDA there, below ``examples``."""
    found: set[Path] = set()
    for program in chosen:
        folder = (examples / program.path).parent
        found.update(path for path in folder.rglob("*") if path.suffix in NATIVE)
        waiting = [examples / program.path]
        while waiting:
            path = waiting.pop()
            if path in found:
                continue
            found.add(path)
            waiting += _imported(path, folder)
    return sorted(path.relative_to(examples) for path in found)


def _imported(path: Path, folder: Path) -> Iterator[Path]:
    """What a file imports of a program's folder; packages whole."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:  # inside a package, which comes whole
            continue
        for name in names:
            first = folder / name.partition(".")[0]
            if first.with_suffix(".py").is_file():
                yield first.with_suffix(".py")
            elif first.is_dir() and name:
                yield from sorted(first.rglob("*.py"))


def pack(chosen: Iterable[Program], examples: Path, archive: Path) -> int:
    """Writes an archive of the programs, which unpacks as ``examples/``; returns how many files it holds."""
    files = packed(chosen, examples)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for file in files:
            tar.add(examples / file, f"examples/{file}")
    return len(files)


# ---------------------------------------------------------------------------------------------------------------------
# Without a GPU


def lowered(program: Program, examples: Path, options: argparse.Namespace) -> str:
    """How far a program gets without a GPU, and what instrumenting and compiling its sources says, in words."""
    folder = options.out / "lowered" / _file_name(program.name)
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, str(LOWERING), str(folder / "sources")]
    env = environment(options.out)
    run([*command, str(examples / program.path), *program.arguments], folder, options.limit, env)
    ending = (folder / "stdout.txt").read_text(errors="replace").strip().splitlines()[-1:]
    sources = sorted((folder / "sources").glob("*.cu"))
    problems = [f"{source.name}: {problem}" for source in sources for problem in _problems(source, options)]
    words = [f"{len(sources)} sources", *problems, *(ending if not sources else [])]
    return "; ".join(words)


def _problems(source: Path, options: argparse.Namespace) -> Iterator[str]:
    """What instrumenting a source, and nvcc of the result, say against it."""
    from tileops.trace.auto.rewrite import instrument
    from tileops.trace.auto.syntax import UnreadableError

    text = source.read_text()
    for level in ("roles", "ops", "all"):
        try:
            made = instrument(text, "0x1000ull", level)
        except UnreadableError as error:
            yield f"{level}: {error}"
            continue
        made.table.check()
        if not made.table.ranges:
            yield f"{level}: no range"
        if level == options.level and options.compile:
            yield from _compiled(made.source, source.with_suffix(f".{level}.cu"))


def _compiled(source: str, path: Path) -> Iterator[str]:
    from tilelang.contrib import nvcc
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    path.write_text(source)
    command = [nvcc.get_nvcc_compiler(), "-cubin", "-std=c++20", "-w", "-arch=sm_90a", f"-I{TILELANG_TEMPLATE_PATH}",
               f"-I{CUTLASS_INCLUDE_DIR}", "-o", str(path.with_suffix(".cubin")), str(path)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        error = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[-300:])
        yield f"nvcc: {error.strip()}"


# ---------------------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path, help="the folder examples/ of the unpacked distribution")
    parser.add_argument("--list", type=Path, default=LIST, help="what to run (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("examples-out"), help="results go here (default: %(default)s)")
    parser.add_argument("--only", metavar="REGEX", default="", help="only programs, or families, that it is found in")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a run (default: %(default)s)")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="stop then; the same command goes on")
    parser.add_argument("--level", choices=("roles", "ops", "all"), default="ops")
    parser.add_argument("--known", type=Path, metavar="RESULTS.json", help="an earlier run's, of other programs")
    parser.add_argument("--keep", action="store_true", help="keep the timelines")
    parser.add_argument("--pack", type=Path, metavar="OUT.tar.xz", help="pack the programs, run nothing")
    parser.add_argument("--lower", action="store_true", help="instrument what they generate, without a GPU")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="with --lower: run nvcc")
    options = parser.parse_args(arguments)
    options.out, examples = options.out.resolve(), options.examples.resolve()
    listed, left = programs(options.list.read_text())
    chosen = [program for program in listed if re.search(options.only, f"{program.family} {program.name}")]
    missing = [program.path for program in chosen if not (examples / program.path).is_file()]
    if missing:
        parser.error(f"{examples} has no {', '.join(missing)}")
    if options.pack:
        print(f"{pack(chosen, examples, options.pack)} files, {options.pack.stat().st_size} bytes")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    if options.lower:
        with ThreadPoolExecutor(options.jobs) as pool:
            for program, words in zip(chosen, pool.map(lambda one: lowered(one, examples, options), chosen)):
                print(f"{program.name}: {words}", flush=True)
        return 0
    options.until = time.monotonic() + (options.budget or float("inf"))
    options.least = min(20.0, options.limit)  # what is left less than this is no time for a run
    if options.known and not options.known.is_file():
        parser.error(f"{options.known} is no file")
    results = Results(options.out / "results.json", options.known)
    all_tried(chosen, results, examples, options)
    text, good = table(chosen, results.of)
    print(f"\n{text}\n\nleft out of the list: {len(left)}, see {options.list.name}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
