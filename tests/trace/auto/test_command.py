"""``tileops trace run``: the script runs as Python would run it, and ends as it would end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tileops.cli.main import main
from tileops.cli.trace import run
from tileops.trace.auto.block import Block, Build
from tileops.trace.auto.compilation import Compilation

COMMAND = [sys.executable, "-m", "tileops", "trace", "run"]


def started(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=folder)


class FakeBlock(SimpleNamespace):
    """Stands for a block, so that scripts run without TileLang."""

    given: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, _: Any, level: str, launch: int, max_events: int | None, kernel: Any, ctas: Any):
        super().__init__(launch=launch, kernel=kernel, builds=[], left={}, written=[], passed=[])
        self.given.append((level, launch, max_events, kernel.pattern, ctas))

    def open(self) -> Any:
        import contextlib

        return contextlib.nullcontext()


@pytest.fixture
def no_block(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from tileops.trace import trace

    monkeypatch.setattr("tileops.trace.auto.block.Block", FakeBlock)
    yield
    trace.enable()
    trace.disable()


def ran(script: Path, text: str, *arguments: str) -> int:
    script.write_text(text)
    return main(["trace", "run", str(script), *arguments])


# As Python runs it ---------------------------------------------------------------------------------------------------


def test_a_script_without_kernels(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 41\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import os, subprocess, sys\nimport __main__\nimport beside\nfrom tilelang import env\n"
        "def f(): pass\n"
        "print(sys.argv, __name__, __main__.f is f, beside.VALUE, env.is_cache_enabled())\n"
        'child = \'import os; print(os.environ.get("TILELANG_DISABLE_CACHE", "as it was"))\'\n'
        "print(subprocess.run([sys.executable, '-c', child], capture_output=True, text=True).stdout.strip())\n"
        "sys.exit(7)\n"
    )
    done = started("--level", "roles", str(script), "--kernel", "x", "y", folder=tmp_path)
    assert done.returncode == 7, done.stderr
    told = done.stdout.splitlines()
    assert told == [f"{[str(script), '--kernel', 'x', 'y']} __main__ True 41 False", "as it was"]
    assert done.stderr == "tileops: no kernel was built\n"
    assert not (tmp_path / "debug").exists()


@pytest.mark.usefixtures("no_block")
@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("", 0, ""),
        ("import sys\nsys.exit()", 0, ""),
        ("import sys\nsys.exit(3)", 3, ""),
        ("import sys\nsys.exit('that is all')", 1, "that is all\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("print(1", 1, "SyntaxError: '(' was never closed\n"),
    ],
)
def test_a_script_ends_as_it_would_end(
    text: str, status: int, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ran(tmp_path / "script.py", text) == status
    err = capfd.readouterr().err
    assert err.endswith(f"{said}tileops: no kernel was built\n")


@pytest.mark.usefixtures("no_block")
def test_what_a_script_raises_is_told_as_python_tells_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    assert ran(script, "def f():\n    raise ValueError('broken')\n\nf()\n") == 1
    told = capfd.readouterr().err
    python = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False).stderr
    assert told == f"{python}tileops: no kernel was built\n"


@pytest.mark.usefixtures("no_block")
def test_a_module_runs_as_python_runs_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "a_package"
    package.mkdir()
    (package / "__init__.py").write_text("print('the package')\n")
    (package / "inside.py").write_text(
        "import sys\nimport __main__\nfrom . import beside\n"
        "print(sys.argv, sys.path[0], __name__, __package__, __main__.beside is beside)\nsys.exit(3)\n"
    )
    (package / "beside.py").write_text("")
    (package / "__main__.py").write_text("raise ValueError('broken')\n")
    monkeypatch.chdir(tmp_path)
    for arguments, status in ((["a_package.inside", "-m", "--launch"], 3), (["a_package"], 1)):
        assert main(["trace", "run", "-m", *arguments]) == status
        told = capfd.readouterr()
        done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)
        assert (told.out, done.returncode) == (done.stdout, status)
        # Python's own way to the module is in its traceback.
        own = re.sub(r'  File "<frozen runpy>".*\n', "", done.stderr)
        assert told.err == f"{own}tileops: no kernel was built\n"
        for name in [name for name in sys.modules if name.startswith("a_package")]:
            del sys.modules[name]


@pytest.mark.usefixtures("no_block")
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("nosuch_module", "No module named nosuch_module"),
        ("json", "No module named json.__main__; 'json' is a package and cannot be directly executed"),
        ("os.nosuch", "Error while finding module specification for 'os.nosuch'"),
        ("", ""),
    ],
)
def test_a_module_that_is_not_there_is_told(module: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "run", "-m", module]) == 2
    assert capsys.readouterr().err.startswith(f"tileops: -m {module}: {said}")


@pytest.mark.usefixtures("no_block")
@pytest.mark.parametrize(
    ("ctas", "chosen"),
    [
        ("7,0", (7, 0)),
        ("12", (12,)),
        ("::8", slice(None, None, 8)),
        ("4:", slice(4, None)),
        ("1:9:2", slice(1, 9, 2)),
        ("one per SM", "one per SM"),
        ("first and last wave", "first and last wave"),
    ],
)
def test_options_reach_the_block(ctas: str, chosen: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    given = ["--level", "all", "--launch", "2", "--max-events", "64", "--kernel", "mat", "--ctas", ctas]
    assert main(["trace", "run", *given, str(script)]) == 0
    assert FakeBlock.given[-1] == ("all", 2, 64, "mat", chosen)


@pytest.mark.usefixtures("no_block")
def test_a_script_s_threads_are_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "import threading, time\ndef late():\n    time.sleep(0.3)\n    print('late')\n"
    text += "threading.Thread(target=late).start()\n"
    assert ran(tmp_path / "script.py", text) == 0
    assert capfd.readouterr().out == "late\n"
    assert not [thread for thread in threading.enumerate() if "late" in thread.name]


def test_an_interrupted_script_ends_with_what_there_is(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [*COMMAND, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.splitlines()[-2:] == ["KeyboardInterrupt", "tileops: no kernel was built"]
    assert "runpy" not in told


# Mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kernel", "(", "x.py"], "argument --kernel: '(' is no regular expression: missing ), unterminated"),
        (["--launch", "0", "x.py"], "argument --launch: '0' is no launch's number: 1 is the first one"),
        (["--launch", "-1", "x.py"], "argument --launch: '-1' is no launch's number"),
        (["--launch", "third", "x.py"], "argument --launch: 'third' is no launch's number"),
        (["--level", "some", "x.py"], "argument --level: invalid choice: 'some'"),
        (["--max-events", "0", "x.py"], "argument --max-events: '0' is no number of events"),
        (["--ctas", "", "x.py"], "argument --ctas: '' is unknown; there are 'one per SM' and 'first and last wave'"),
        (["--ctas", "1,2,", "x.py"], "argument --ctas: '1,2,' is unknown"),
        (["--ctas", "::0", "x.py"], "argument --ctas: a slice goes upwards from a CTA"),
        (["--ctas=-1", "x.py"], "argument --ctas: CTAs are numbered 0, 1, ..."),
        (["--ctas=1:2:3:4", "x.py"], "argument --ctas: '1:2:3:4' is unknown"),
        ([], "the following arguments are required: SCRIPT"),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["trace", "run", *arguments])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert said in last
    assert "SCRIPT, arguments" not in last


def test_what_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for arguments, said in (
        ([str(tmp_path / "none.py")], f"tileops: {tmp_path / 'none.py'}: there is no such script\n"),
        ([str(tmp_path)], f"tileops: {tmp_path}: a folder, and no script\n"),
        (["--output", str(tmp_path / "file"), str(tmp_path / "file")],
         f"tileops: --output {tmp_path / 'file'}: there is a file of that name; give a folder\n"),
    ):  # fmt: skip
        assert main(["trace", "run", *arguments]) == 2
        assert capsys.readouterr().err == said


# What is said of kernels ---------------------------------------------------------------------------------------------


def test_every_kernel_is_accounted_for() -> None:
    def build(name: str, launches: int, **more: Any) -> Build:
        return Build(name, Compilation(), launches=launches, **more)

    block = Block(None, launch=3)  # type: ignore[arg-type]
    assert [*run._left_open(block)] == ["no kernel was built"]
    block.kernel, block.passed = re.compile("x"), ["a", "b"]
    assert [*run._left_open(block)] == ["no kernel was built whose name 'x' is found in; a, b were passed over"]
    block.left = {"cpu": "its target is c"}
    assert [*run._left_open(block)] == ["kernel cpu is left as it is: its target is c"]
    block.builds = [
        build("asked", 5), build("few", 2), build("never", 0), build("tried", 0, tuned=True), build("captured", 4),
        build("once", 1), build("bad", 3),
    ]  # fmt: skip
    block.written = ["asked", "few"]
    block.left = {"bad": "it is bad"}
    assert [*run._left_open(block)] == [
        "kernel bad is left as it is: it is bad",
        "kernel captured has no timeline: nothing could be recorded of its 4 launches",
        "kernel few has a timeline of launch 2: there was no launch 3",
        "kernel never has no timeline: it was never launched",
        "kernel once has no timeline: nothing could be recorded of its only launch",
        "kernel tried has no timeline: an autotuner tried it, and what it chose was never launched",
    ]
    assert os.linesep not in "".join(run._left_open(block))
