"""``tileops trace run``: the script runs as Python would run it, and ends as it would end."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tileops.cli.trace import run
from tileops.trace.errors import TraceError

COMMAND = """
import argparse, sys
from tileops.cli.trace import run
parser = argparse.ArgumentParser()
run.add_arguments(parser)
sys.exit(run.run(parser.parse_args(sys.argv[1:])))
"""


def started(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMAND, *arguments],
        capture_output=True, text=True, check=False, cwd=folder, env={**os.environ},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('that is all')", 1, "that is all"),
        ("raise ValueError('broken')", 1, "ValueError: broken"),
    ],
)
def test_a_script_without_kernels(ending: str, status: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 41\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport beside\nfrom tilelang import env\n"
        "print(sys.argv[1:], __name__, beside.VALUE, env.is_cache_enabled())\n" + ending + "\n"
    )
    done = started("--level", "roles", str(script), "--kernel", "x", "y", folder=tmp_path)
    assert done.returncode == status, done.stderr
    assert done.stdout.splitlines()[-1] == "['--kernel', 'x', 'y'] __main__ 41 False"
    assert said in done.stderr
    assert not (tmp_path / "debug").exists()


def test_a_missing_script_is_told(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    arguments = parser.parse_args([str(tmp_path / "none.py")])
    with pytest.raises(TraceError, match=r"none\.py: there is no such script"):
        run.run(arguments)
