"""The command line."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tileops
from tileops.cli.main import main
from tileops.trace import trace

RECORDINGS = Path(__file__).parent / "recordings"


def python(*arguments, **kwargs):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **kwargs)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["demo", "--help"],
        ["view", "--help"],
        ["trace", "--help"],
        ["trace", "export", "--help"],
        ["--version"],
    ],
)
def test_help_needs_neither_torch_nor_tilelang(arguments):
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('heavy:', sorted({'torch', 'tilelang', 'plotly'} & set(sys.modules))))\n"
        "from tileops.cli.main import main\n"
        f"main({arguments})\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("heavy: []\n")
    assert len(done.stdout.splitlines()) > 1


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"tileops {tileops.__version__}\n"


def test_as_a_module_and_as_a_script():
    done = python("-m", "tileops", "--version")
    assert (done.returncode, done.stdout) == (0, f"tileops {tileops.__version__}\n")
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="tileops")
    assert script.load() is main


@pytest.mark.parametrize("command", [["trace", "info"], ["trace", "summary"], ["trace", "findings", "--json"]])
def test_whoever_reads_the_output_may_close_it(command):
    read, write = os.pipe()
    os.close(read)
    file = str(RECORDINGS / "matmul_one-stage.tltrace")
    done = subprocess.run([sys.executable, "-m", "tileops", *command, file], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
def test_output_that_cannot_be_written_is_told():
    file = str(RECORDINGS / "matmul_one-stage.tltrace")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tileops", "trace", "info", file]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "tileops: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("command", [["trace", "run"], ["trace", "summary"], ["profile"], ["demo"], ["view"]])
def test_an_unknown_option_is_told_by_its_command(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--colour", "x"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: tileops {' '.join(command)} ")
    assert said.endswith(f"tileops {' '.join(command)}: error: unrecognized arguments: --colour\n") or command == [
        "demo"
    ]


@pytest.mark.parametrize("command", [["trace", "run"], ["profile"]])
def test_a_script_finds_itself_from_another_folder(command, tmp_path):
    script = (
        "import inspect, os\ndef f(): pass\nos.chdir(os.sep)\nprint('it is', __file__, inspect.getsource(f).strip())\n"
    )
    (tmp_path / "script.py").write_text(script)
    done = python("-m", "tileops", *command, "script.py", cwd=tmp_path)
    assert f"it is {tmp_path / 'script.py'} def f(): pass" in done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [[], ["paint"], ["demo", "--colour"]])
def test_wrong_arguments_exit_with_2_and_say_how(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: tileops" in capsys.readouterr().err


def table_rows(text):
    """The table's rows as {(group, lane, range): (count, mean cycles, share)}."""
    pattern = r"^ *(\S+) +(\S+) +(\S+) +([\d,]+) +([\d,]+) +([\d.]+)%\s*$"
    found = re.findall(pattern, text, re.MULTILINE)
    return {row[:3]: (int(row[3].replace(",", "")), int(row[4].replace(",", "")), float(row[5])) for row in found}


@pytest.fixture
def no_browser(monkeypatch):
    """Fails the test if something tries to open a browser."""
    monkeypatch.setattr("webbrowser.open", lambda *_, **__: pytest.fail("a browser was opened"))


@pytest.mark.usefixtures("no_browser")
def test_demo_on_the_cpu(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["demo", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out

    live, recorded = re.findall(r"^(\S+\.html)$", out, re.MULTILINE)
    assert {live, recorded, str(tmp_path / "index.html")} == {str(path) for path in tmp_path.iterdir()}
    before, after = out.split(recorded)
    # 16 blocks, and four tiles along K in each.
    rows = table_rows(before)
    assert {key: row[0] for key, row in rows.items()} == {
        ("core", "main", "clear"): 16,
        ("core", "memory", "load"): 64,
        ("core", "arithmetic", "multiply"): 64,
        ("core", "main", "store"): 16,
    }
    # The ranges do not overlap; each share is rounded to 0.1.
    assert 0 < sum(share for _, _, share in rows.values()) <= 100.2
    difference = re.search(r"differs from PyTorch's by (\S+) at most", before)
    assert difference
    assert float(difference[1]) < 1e-3

    assert re.search(
        r"^  a record costs \d+ cycles \(\d+ with a payload\)(, by its place .*)?, measured on \S+$",
        before,
        re.MULTILINE,
    )
    assert re.search(r"^  trace buffer \S+ kB$", before, re.MULTILINE)
    assert "  perturbation not measured\n" in before
    for told in ("a record costs|cost of a record unknown", "tracing made this kernel|perturbation not measured"):
        assert re.search(f"^  ({told})", after, re.MULTILINE)

    names = {name for _, _, name in table_rows(after)}
    assert {"tma", "arrive", "wait", "mma", "epilogue"} <= names
    assert "H200" in after
    assert not trace.enabled


@pytest.mark.gpu(capability=(9, 0))
@pytest.mark.usefixtures("no_browser")
def test_demo_on_the_gpu(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    (page,) = re.findall(r"^(\S+\.html)$", out, re.MULTILINE)
    assert {str(path) for path in tmp_path.iterdir()} == {page, str(tmp_path / "index.html")}
    assert {"tma", "arrive", "wait", "mma", "epilogue"} <= {name for _, _, name in table_rows(out)}
    assert ", 0 dropped" in out


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.touch()
    assert main(["demo", "--output", str(taken)]) == 1
    err = capsys.readouterr().err
    assert re.fullmatch(rf"tileops: .*{re.escape(str(taken))}.*\n", err)
    assert not trace.enabled


def test_without_a_compiler_demo_says_what_to_install(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    # PyTorch must not find the GPU of a machine that has one: its kernel needs another compiler.
    environment |= {"PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    done = python("-m", "tileops", "demo", "--output", str(tmp_path / "pages"), env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("tileops: TileLang's CPU target needs a C++ compiler")
    assert not (tmp_path / "pages").exists()
