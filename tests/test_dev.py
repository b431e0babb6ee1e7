"""dev.py's decisions; what it installs is checked by running it, which is how these tests are started."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def dev(tmp_path, monkeypatch):
    """dev.py as a module, for a clone in an empty folder, with every command recorded instead of run."""
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    # Annotations are looked up through here.
    monkeypatch.setitem(sys.modules, "dev", module)
    spec.loader.exec_module(module)
    monkeypatch.delenv("TILEOPS_TORCH", raising=False)
    (tmp_path / "pyproject.toml").write_text("first")
    for name, path in {"ROOT": "", "VENV": ".venv", "PYTHON": ".venv/bin/python", "STAMP": ".venv/stamp"}.items():
        monkeypatch.setattr(module, name, tmp_path / path)
    (tmp_path / ".venv").mkdir()
    module.commands = []
    monkeypatch.setattr(module, "call", lambda *command, **_: module.commands.append([*map(str, command)]) or 0)
    monkeypatch.setattr(module, "works", lambda python: True)
    monkeypatch.setattr(module, "borrow_torch", lambda: None)
    monkeypatch.setattr(module, "has_gpu", lambda: False)
    monkeypatch.setattr(module, "find_nvcc", lambda: "nvcc")
    return module


def installed(dev):
    """What pip was told to install since the last look, one list a call."""
    found = [command[6:] for command in dev.commands if command[1:4] == ["-m", "pip", "install"]]
    dev.commands.clear()
    return found


@pytest.mark.parametrize(("arguments", "status"), [([], 2), (["paint"], 2), (["--help"], 0)])
def test_usage(arguments, status):
    done = subprocess.run([sys.executable, ROOT / "dev.py", *arguments], capture_output=True, text=True)
    assert done.returncode == status
    assert "dev.py demo" in done.stdout


def test_torch_comes_first_and_nothing_twice(dev):
    dev.set_up("demo")
    assert installed(dev) == [["torch==2.13.0"], ["tilelang==0.1.15", "-e", "."]]
    dev.set_up("demo")
    assert dev.commands == []


def test_more_is_added_and_stays(dev):
    dev.set_up("demo")
    installed(dev)
    dev.set_up("test")
    assert installed(dev) == [["tilelang==0.1.15", "-e", ".[lint,test]"]]
    dev.set_up("demo")
    assert dev.commands == []


def test_a_changed_project_is_installed_again(dev):
    dev.set_up("test")
    installed(dev)
    (dev.ROOT / "pyproject.toml").write_text("second")
    dev.set_up("demo")
    assert installed(dev) == [["tilelang==0.1.15", "-e", ".[lint,test]"]]


def test_another_torch_starts_afresh(dev, monkeypatch):
    dev.set_up("demo")
    dev.commands.clear()
    monkeypatch.setenv("TILEOPS_TORCH", "torch --index-url 'a b'")
    dev.set_up("demo")
    assert dev.commands[0][1:] == ["-m", "venv", "--clear", str(dev.VENV)]
    assert installed(dev)[0] == ["torch", "--index-url", "a b"]


@pytest.mark.parametrize(
    ("gpu", "nvcc", "command", "extras"),
    [(True, None, "demo", ".[nvcc]"), (False, None, "demo", "."), (False, None, "test", ".[lint,nvcc,test]")],
)
def test_nvcc_is_installed_where_it_is_used_and_missing(dev, monkeypatch, gpu, nvcc, command, extras):
    monkeypatch.setattr(dev, "has_gpu", lambda: gpu)
    monkeypatch.setattr(dev, "find_nvcc", lambda: nvcc)
    dev.set_up(command)
    torch, package = installed(dev)
    assert torch == ["torch" if gpu else "torch==2.13.0"]
    assert package[-1] == extras


def test_a_torch_that_is_there_is_used(dev, monkeypatch):
    monkeypatch.setattr(dev, "borrow_torch", lambda: "2.11.0")
    dev.set_up("demo")
    assert installed(dev) == [["tilelang==0.1.15", "-e", "."]]


def test_a_failing_pip_is_one_line_and_is_tried_again(dev, monkeypatch, capsys):
    monkeypatch.setattr(dev, "call", lambda *command, **_: int("pip" in command))
    monkeypatch.setattr(dev, "use_supported_python", lambda: None)
    for _ in range(2):
        assert dev.main(["demo"]) == 1
        assert capsys.readouterr().err.startswith("error: pip could not install PyTorch;")
    assert not dev.STAMP.exists()


@pytest.mark.parametrize("version", [(3, 9, 18), (3, 13, 0)])
def test_unsupported_pythons(dev, monkeypatch, version):
    monkeypatch.setattr(dev.sys, "version_info", version)
    monkeypatch.setattr(dev.shutil, "which", lambda name: None)
    with pytest.raises(dev.SetupError, match=r"needs Python 3\.10 to 3\.12"):
        dev.use_supported_python()

    started = []
    monkeypatch.setattr(dev.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(dev, "works", lambda python: python == "/bin/python3.12")
    monkeypatch.setattr(dev.os, "execv", lambda path, arguments: started.append(path) or exit(0))
    with pytest.raises(SystemExit):
        dev.use_supported_python()
    assert started == ["/bin/python3.12"]


def test_the_documents_name_what_is_installed(dev):
    assert dev.CPU_TORCH in (ROOT / "README.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    assert f'"{dev.TILELANG.replace("==", ">=")}"' in project
    oldest, newest = dev.OLDEST, dev.NEWEST
    assert f'requires-python = ">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"' in project


def test_javascript_is_checked_with_the_locked_release(dev, monkeypatch, capsys):
    monkeypatch.setattr(dev, "find", lambda *names: None)
    assert dev.check_javascript() == 0
    assert "needs npm" in capsys.readouterr().out
    monkeypatch.setattr(dev, "find", lambda *names: "npm")
    (dev.ROOT / "package-lock.json").write_text("{}")
    dev.commands.clear()
    dev.check_javascript()
    assert dev.commands == [["npm", "ci", "--no-audit", "--no-fund"], ["npm", "run", "--silent", "check"]]
    (dev.ROOT / "node_modules").mkdir()
    (dev.ROOT / "node_modules" / ".package-lock.json").write_text("{}")
    dev.commands.clear()
    dev.check_javascript()
    assert dev.commands == [["npm", "run", "--silent", "check"]]
