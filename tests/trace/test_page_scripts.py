"""The page's scripts by themselves, in node: see page.test.mjs and tools.test.mjs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize("script", ["page", "tools"])
def test_scripts(script: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    if int(subprocess.run([node, "--version"], capture_output=True, text=True).stdout[1:].split(".")[0]) < 18:
        pytest.skip("needs node 18 or newer: its test runner and DecompressionStream")
    path = Path(__file__).with_name(f"{script}.test.mjs")
    done = subprocess.run([node, "--test", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
