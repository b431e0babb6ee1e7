"""``tileops profile``: what it prints, writes and returns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tileops.cli.main import main

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
    assert "RTX 5090" in capsys.readouterr().out


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


def test_a_script_that_fails_is_reported_too(tmp_path, capsys):
    script = tmp_path / "work.py"
    script.write_text(SCRIPT + "\nraise RuntimeError('late')\n")
    assert main(["profile", str(script)]) == 2
    printed = capsys.readouterr()
    assert "The script failed: RuntimeError: late" in printed.out
    assert "aten::mm" in printed.out
    assert "Traceback" in printed.err


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
    assert "ValueError: no" in capsys.readouterr().err


@pytest.mark.parametrize("what", [[], ["read"], ["compare"], ["peaks"], ["script.py"], ["module:function"]])
def test_help_has_an_example(what, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["profile", *what, "--help"])
    assert ended.value.code == 0
    assert f"tileops profile {' '.join(what)}".strip() in capsys.readouterr().out.split("example")[1]


@pytest.mark.parametrize("arguments", [["read"], ["read", "a", "--no-such"], ["compare", "a"], ["m:f", "--no-such"]])
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["profile", *arguments])
    assert ended.value.code == 2


def test_help_needs_no_torch():
    code = "import sys, tileops.cli.main; assert not {'torch', 'tilelang', 'msgspec'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
