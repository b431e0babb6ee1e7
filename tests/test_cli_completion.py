"""``tileops --print-completion``: its bash script, in a real bash."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tileops.cli.main import build_parser, main

SHELLS = ("bash", "zsh", "tcsh")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def printed(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["--print-completion", shell])
    assert not stop.value.code
    return capsys.readouterr().out


def parsers(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Each subcommand's words and its parser."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from parsers(below, (*words, name))


COMMANDS = dict(parsers(build_parser()))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "tileops", "--print-completion", "bash"], capture_output=True, text=True, check=True
    )
    path = tmp_path_factory.mktemp("completion") / "tileops.bash"
    path.write_text(done.stdout)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    for name in ("gemm.tltrace", "gemm two.tltrace", "notes.txt", "runs/one.tltrace"):
        (tmp_path / name).touch()
    return tmp_path


def completed(script: Path, line: str, folder: Path) -> set[str]:
    """What bash offers behind a line, as if Tab had been pressed there: the function is called as `complete` says."""
    words = [*shlex.split(line), *([""] if line.endswith(" ") else [])]
    program = f"""
      compopt() {{ :; }}  # it wants a line that is being typed
      source {shlex.quote(str(script))}
      COMP_WORDS=({" ".join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}
      COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_TYPE=9 COMP_KEY=9
      [[ $(complete -p tileops) =~ -F\\ ([^ ]+) ]] || exit 3
      "${{BASH_REMATCH[1]}}" tileops "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
      printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", program], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return {word.rstrip("/ ") for word in done.stdout.splitlines() if word}


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_syntax(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = printed(shell, capsys)
    for words in COMMANDS:
        assert all(word in text for word in words)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(text)
    done = subprocess.run([shell, "-n", path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@needs_bash
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_subcommands_and_options_complete(words: tuple[str, ...], script: Path, folder: Path) -> None:
    parser = COMMANDS[words]
    line = " ".join(("tileops", *words, ""))
    options = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    assert completed(script, f"{line}--", folder) == options
    for option in options:
        assert option in completed(script, f"{line}{option[:-1]}", folder)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            assert completed(script, line, folder) == set(action.choices)
            for name in action.choices:
                assert name in completed(script, f"{line}{name[:3]}", folder)
        elif action.choices and action.option_strings:
            assert completed(script, f"{line}{action.option_strings[-1]} ", folder) == set(action.choices)


@needs_bash
@pytest.mark.parametrize("line", [
    "tileops trace summary ", "tileops trace findings ", "tileops trace export ", "tileops trace info ",
    "tileops trace compare ", "tileops trace compare gemm.tltrace ", "tileops view ", "tileops trace compare --html ",
    "tileops trace summary gemm.tltrace ", "tileops trace export gemm.tltrace --output ",
])  # fmt: skip
def test_files_complete_where_they_are_wanted(line: str, script: Path, folder: Path) -> None:
    assert completed(script, line, folder) >= {"gemm.tltrace", "gemm two.tltrace", "runs"}
    assert completed(script, f"{line}gemm.", folder) == {"gemm.tltrace"}
    assert completed(script, f"{line}runs/o", folder) == {"runs/one.tltrace"}


@needs_bash
def test_folders_complete_where_they_are_wanted(script: Path, folder: Path) -> None:
    assert completed(script, "tileops demo --output ", folder) == {"runs"}


@needs_bash
def test_no_file_is_offered_for_a_number(script: Path, folder: Path) -> None:
    for line in ("tileops view --port ", "tileops trace findings --depth ", "tileops trace findings --fail-on "):
        assert not completed(script, f"{line}gemm", folder)


def test_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--print-completion", "csh"])
    assert stop.value.code == 2
    assert "invalid choice: 'csh'" in capsys.readouterr().err
