"""``tileops profile``: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tileops.cli.main import main
from tileops.cli.profile import _unprofiled
from tileops.profile import read_trace

from .kineto import Maker

SCRIPT = """
import sys
import torch
print("out", sys.argv[1:])
x = torch.ones(8, 8)
for _ in range(3):
    x @ x
"""
MODULE = """
import torch
x = torch.ones(8, 8)
def one():
    return x @ x
def several():
    return {"product": lambda: x @ x, "sum": lambda: x + x}
def broken():
    raise ValueError("no")
"""


@pytest.fixture
def trace(tmp_path) -> str:
    maker = Maker()
    for number in range(5):
        maker.launch(100 * number, 5, 100 * number + 10, 50)
    path = tmp_path / "t.json"
    path.write_text(maker.text())
    return str(path)


def test_read(trace, capsys, tmp_path):
    assert main(["profile", "read", trace, "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "kernel_a" in printed
    assert printed.splitlines()[-1].endswith("report.html")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "report.html", "report.json", "report.txt", "trace.json.gz",
    }  # fmt: skip


def test_reading_says_that_the_program_is_a_placeholder(trace, capsys):
    assert main(["profile", "read", trace, "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["figures"]["verdicts"]
    # Of a trace from elsewhere no program is known: there is the trace itself, or a placeholder.
    assert verdict["command"] == f"tileops profile read {trace} --of kernel_a --flops N --bytes N"


def test_nothing_is_cut_on_the_way_to_a_pipe(trace, capsys):
    assert main(["profile", "read", trace, "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["figures"]["verdicts"]
    assert main(["profile", "read", trace]) == 0
    printed = capsys.readouterr().out
    squeezed = "".join(printed.split())
    for said in (verdict["next_step"], *verdict["evidence"], *verdict["would_change"]):
        assert "".join(said.split()) in squeezed
    assert f"  {verdict['command']}" in printed.splitlines()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_what_is_printed_names_the_saved_trace(tmp_path, capsys, form):
    script, out = tmp_path / "work.py", tmp_path / "out"
    script.write_text(SCRIPT)
    (tmp_path / "some.py").write_text(MODULE)
    for what in (str(script), f"{tmp_path}/some.py:one"):
        assert main(["profile", what, "--output", str(out), *form]) == 0
        printed = "".join(capsys.readouterr().out.split())
        assert str(out / "trace.json.gz") in printed
        assert "tileops-profile-" not in printed  # the folder that it is recorded in
        for name in ("report.txt", "report.json", "report.html"):
            assert "tileops-profile-" not in (out / name).read_text()


@pytest.mark.parametrize("place", ["commanded", "folder/commanded.py"])
def test_the_command_for_ncu_calls_the_function_three_times(tmp_path, place):
    (tmp_path / "folder").mkdir()
    text = "def one():\n    print('called')\ndef several():\n    return {\"it's\": one, 'other': print}\n"
    (tmp_path / "commanded.py").write_text(text)
    (tmp_path / "folder" / "commanded.py").write_text(text)
    for command in (_unprofiled(f"{place}:one"), _unprofiled(f"{place}:several", "it's")):
        program, *arguments = shlex.split(command)
        assert program == "python"
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=tmp_path, check=True)
        assert done.stdout.split() == ["called"] * 3


def test_read_as_json(trace, capsys):
    assert main(["profile", "read", trace, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "tileops.profile/1"
    assert data["figures"]["structure"]["launches"]["count"] == 5


def test_compare(trace, capsys, tmp_path):
    page = tmp_path / "c.html"
    assert main(["profile", "compare", trace, trace, "--output", str(page)]) == 0
    assert "No row" in capsys.readouterr().out
    assert "No row" in page.read_text()
    assert main(["profile", "compare", trace, trace, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["column"] == "Self CUDA"


def test_peaks(capsys):
    assert main(["profile", "peaks", "--list", "--json"]) == 0
    sheets = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["datasheets"]}
    assert sheets["H200 SXM"]["bandwidth"] == 4800
    assert main(["profile", "peaks", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "RTX 5090" in printed
    # Figures are never cut.
    assert "…" not in printed
    for sheet in sheets.values():
        for rate in sheet["matrix"].values():
            assert f"{rate:,g}" in printed


def test_a_script(tmp_path, capsys):
    script = tmp_path / "work.py"
    script.write_text(SCRIPT)
    kept = list(sys.argv), list(sys.path)
    assert main(["profile", str(script), "--json", "--size", "3"]) == 0
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    assert any(row["name"] == "aten::mm" and row["calls"] == 3 for row in data["figures"]["structure"]["table"])
    assert "out ['--size', '3']" in printed.err
    assert (list(sys.argv), list(sys.path)) == kept


def test_a_module(tmp_path, capsys, monkeypatch):
    package = tmp_path / "a_profiled_package"
    package.mkdir()
    (package / "work.py").write_text(SCRIPT + "\nassert __package__ == 'a_profiled_package'\n")
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "-m", "a_profiled_package.work", "--json", "--size", "3"]) == 0
    assert '"python -m a_profiled_package.work --size 3"' in capsys.readouterr().out
    assert main(["profile", "-m", "a_profiled_package.none"]) == 2
    assert "tileops: -m a_profiled_package.none: No module named a_profiled_package.none\n" in capsys.readouterr().err


def test_a_script_that_fails_is_reported_too(tmp_path, capsys):
    script = tmp_path / "work.py"
    script.write_text(SCRIPT + "\nraise RuntimeError('late')\n")
    assert main(["profile", str(script)]) == 2
    printed = capsys.readouterr()
    assert "The script failed: RuntimeError: late" in printed.out
    assert "aten::mm" in printed.out
    assert "Traceback" in printed.err


@pytest.mark.parametrize("is_module", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    raise ValueError('broken')\n\nf()\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('broken')\n",
        "class Stop(BaseException): pass\nraise Stop('here')\n",
        "print(1",
        "import no_such_module\n",
        "import program_beside\n",
    ],
)
def test_what_a_program_raises_is_told_as_python_tells_it(text, is_module, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "program_that_fails.py"
    script.write_text(text)
    (tmp_path / "program_beside.py").write_text("def (")
    what = ["-m", script.stem] if is_module else [str(script)]
    assert main(["profile", *what]) == 2
    told = capsys.readouterr()
    python = subprocess.run([sys.executable, *what], capture_output=True, text=True, check=False).stderr
    # Python's own way to a module is in its traceback; of what does not parse, there is then nothing above its lines.
    own = re.sub(r'  File "<frozen (runpy|importlib).*\n', "", python)
    assert told.err == re.sub(r"\ATraceback.*\n(?=  File .*\n.*\n *\^.*\nSyntaxError)", "", own)
    assert "The script failed: " in told.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f():\n    raise ValueError('broken\\nmore')\n\nf()\n", "ValueError: broken ({}, line 2)"),
        ("print(1", "SyntaxError: '(' was never closed ({}, line 1)"),
        ("\nimport no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module' ({}, line 2)"),
        ("import json\njson.loads('')\n", "JSONDecodeError: Expecting value: line 1 column 1 (char 0) ({}, line 2)"),
        ("import sys\nsys.exit(4)\n", "it ended with exit status 4 ({}, line 2)"),
        ("import sys\nsys.exit('no data')\n", "it ended with exit status 1: no data ({}, line 2)"),
        ("raise SystemExit\n", "it ended with exit status 0 ({}, line 1)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_on_one_line(text, said, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(tmp_path))
    script = tmp_path / "import_that_fails.py"
    script.write_text(text)
    for place in (script.stem, str(script)):
        sys.modules.pop(script.stem, None)
        assert main(["profile", f"{place}:work"]) == 2
        printed = capsys.readouterr()
        assert printed.err == f"tileops: {place} cannot be imported: {said.format(script.name)}\n"
        assert printed.out == ""


@pytest.mark.parametrize(("name", "expected"), [("one", ["one"]), ("several", ["product", "sum"])])
def test_a_function(tmp_path, capsys, monkeypatch, name, expected):
    (tmp_path / f"module_{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for what in (f"module_{name}:{name}", f"{tmp_path}/module_{name}.py:{name}"):
        assert main(["profile", what, "--json", "--repeats", "5", "--flops", "1024"]) == 0
        found = json.loads(capsys.readouterr().out)["figures"]["candidates"]
        assert [candidate["name"] for candidate in found] == expected
        assert {candidate["flops"] for candidate in found} == {1024}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["read", "none.json"], "cannot be read"),
        (["none.py"], "there is no such script"),
        (["no_module_here:f"], "cannot be imported"),
        (["json:nothing"], "has no function"),
        (["compare", "none", "none"], "cannot be read"),
    ],
)
def test_mistakes(arguments, said, capsys):
    assert main(["profile", *arguments]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


def test_a_function_that_fails(tmp_path, capsys):
    (tmp_path / "failing.py").write_text(MODULE)
    assert main(["profile", f"{tmp_path}/failing.py:broken"]) == 2
    assert capsys.readouterr().err == "tileops: candidate 'broken' failed: ValueError: no (failing.py, line 9)\n"


def test_a_function_that_ends_the_process(tmp_path, capsys):
    (tmp_path / "ending.py").write_text(
        "def alone():\n    raise SystemExit(3)\ndef several():\n    return {'ex': alone, 'other': int}\n"
    )
    for function, name in (("alone", "alone"), ("several", "ex")):
        assert main(["profile", f"{tmp_path}/ending.py:{function}"]) == 2
        printed = capsys.readouterr()
        assert printed.err == f"tileops: candidate {name!r} ended with exit status 3 (ending.py, line 2)\n"
        assert printed.out == ""


@pytest.mark.parametrize("what", [[], ["read"], ["compare"], ["peaks"], ["script.py"], ["module:function"]])
def test_help_has_an_example(what, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["profile", *what, "--help"])
    assert ended.value.code == 0
    assert f"tileops profile {' '.join(what)}".strip() in capsys.readouterr().out.split("example")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["read"],
        ["read", "a", "--no-such"],
        ["read", "a", "--of", "b"],
        ["read", "a", "--flops", "1"],
        ["read", "a", "--dtype", "float16"],
        ["compare", "a"],
        ["m:f", "--no-such"],
    ],
)
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["profile", *arguments])
    assert ended.value.code == 2


def test_help_needs_no_torch():
    code = "import sys, tileops.cli.main; assert not {'torch', 'tilelang', 'msgspec'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_a_script_with_a_profiler_of_its_own_is_refused(tmp_path):
    """In a process of its own: PyTorch 2.13 crashed where the outer profiler was stopped all the same."""
    script = tmp_path / "profiled.py"
    script.write_text("import torch\nwith torch.profiler.profile():\n    torch.ones(8) + 1\nprint('done')\n")
    done = subprocess.run(
        [sys.executable, "-m", "tileops", "profile", str(script)], capture_output=True, text=True, timeout=240,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "done" in done.stdout
    assert "the profiled code runs torch.profiler itself" in done.stderr
    assert not list(tmp_path.glob("tileops-profile-*"))


def test_what_stands_behind_two_dashes_is_the_scripts(tmp_path, capsys):
    script = tmp_path / "work.py"
    script.write_text(SCRIPT)
    options = ["--output", "theirs", "--json", "-h", "--memory"]
    assert main(["profile", str(script), "--own", "--output", str(tmp_path / "ours"), "--", *options]) == 0
    assert f"out {['--own', *options]}" in capsys.readouterr().out
    assert (tmp_path / "ours" / "report.json").exists()


def test_a_script_that_changes_the_folder_changes_no_other_path(tmp_path, capsys, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    script = tmp_path / "work.py"
    script.write_text(SCRIPT + f"\nimport os\nos.chdir({str(tmp_path / 'elsewhere')!r})\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["profile", "work.py", "--output", "out", "--tensorboard", "logs"]) == 0
    assert Path.cwd() == tmp_path
    assert (tmp_path / "out" / "report.html").exists()
    (log,) = (tmp_path / "logs").iterdir()
    assert log.name.endswith(".pt.trace.json.gz")
    assert str(log.relative_to(tmp_path)) in capsys.readouterr().out
    assert any(name == "aten::mm" for name in read_trace(log).names)
    # Saved, the recorded trace is gone from where it was.
    assert list(tmp_path.glob("tileops-profile-*")) == []


def test_a_folder_that_cannot_be_written_is_found_before_the_work(tmp_path, capsys):
    script = tmp_path / "work.py"
    script.write_text("print('it ran')\n")
    for what in (str(script), f"{script}:f"):
        assert main(["profile", what, "--output", str(script / "below")]) == 2
        printed = capsys.readouterr()
        assert "cannot be written" in printed.err
        assert "it ran" not in printed.out


def test_a_file_where_a_folder_is_wanted(trace, tmp_path, capsys):
    file = tmp_path / "file.py"
    file.write_text("print('it ran')\n")
    for path in (file, file / "below"):
        for what, option, written in (
            (["read", trace], "--output", "report"),
            ([str(file)], "--output", "report"),
            ([str(file)], "--tensorboard", "trace"),
            ([f"{file}:f"], "--output", "report"),
        ):
            assert main(["profile", *what, option, str(path)]) == 2
            printed = capsys.readouterr()
            reason = f"{file} is a file, and a folder is wanted"
            assert printed.err == f"tileops: {path}: the {written} cannot be written: {reason}\n"
            assert printed.out == ""


def test_how_a_script_ended(tmp_path, capsys):
    script = tmp_path / "work.py"
    for end, said in (("'no such data'", "The script ended with 'no such data'."), ("3", "ended with status 3.")):
        script.write_text(SCRIPT + f"\nsys.exit({end})\n")
        assert main(["profile", str(script)]) == 2
        printed = capsys.readouterr()
        assert said in printed.out
        assert ("no such data" in printed.err) == (end != "3")
    script.write_text(SCRIPT + "\nsys.exit(0)\n")
    assert main(["profile", str(script)]) == 0


def test_ctrl_c_ends_a_script_and_reports_on_it(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(
        "import signal, sys, time, torch\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests run in the background\n"
        "torch.ones(8, 8) @ torch.ones(8, 8)\n"
        "print('ready', file=sys.stderr, flush=True)\n"
        "while True:\n    time.sleep(0.05)\n"
    )
    command = [sys.executable, "-m", "tileops", "profile", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("ready"):
                break
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "The script was interrupted" in printed
    assert "aten::mm" in printed


def test_a_script_with_the_line_ends_of_windows(tmp_path, capsys):
    script = tmp_path / "work.py"
    script.write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    assert main(["profile", str(script)]) == 0
    assert "aten::mm" in capsys.readouterr().out


def test_messages_do_not_steer_the_terminal(tmp_path, capsys):
    assert main(["profile", "read", str(tmp_path / "a\x1b[31mb.json")]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_building_the_candidates_is_timed_apart(tmp_path, capsys):
    (tmp_path / "slow.py").write_text("import time\ndef work():\n    time.sleep(0.5)\n    return {'a': lambda: None}\n")
    assert main(["profile", f"{tmp_path}/slow.py:work", "--json", "--repeats", "5"]) == 0
    setup = dict(json.loads(capsys.readouterr().out)["figures"]["setup"])
    assert re.match(r"(50\d|5[1-9]\d|[6-9]\d\d) ms|\d+\.\d+ s", setup[f"{tmp_path}/slow.py:work itself"])


@pytest.mark.parametrize("what", ["module:", ":function", ":"])
def test_names_of_functions(what, capsys):
    assert main(["profile", what]) == 2
    assert "names no function" in capsys.readouterr().err
