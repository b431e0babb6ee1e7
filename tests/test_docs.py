"""The documents: their Python runs, their links lead somewhere.

The Python blocks of a document are one program, run in order in an empty folder. A word behind the language says what
a block needs::

    ```python                run everywhere
    ```python gpu            run where there is a CUDA GPU
    ```python illustrative   not run, only parsed
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WORDS = {"gpu", "illustrative"}


@dataclass(frozen=True)
class Block:
    """A fenced block of Python."""

    line: int  # of the document, of the block's first line
    words: frozenset[str]
    code: str


def blocks(text: str) -> list[Block]:
    """The Python blocks of a Markdown document."""
    found = []
    for token in MarkdownIt().parse(text):
        info = token.info.split()
        if token.type == "fence" and token.map and info[:1] == ["python"]:
            found.append(Block(token.map[0] + 2, frozenset(info[1:]), token.content))
    return found


def program(chosen: list[Block]) -> str:
    """The blocks as one file, each on the lines that it has in the document, so that a traceback points there."""
    lines: list[str] = []
    for block in chosen:
        lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines) + "\n"


def run(document: Path, chosen: list[Block], folder: Path) -> None:
    # A file, not a string: TileLang reads the source of the kernels it compiles.
    script = folder / f"{document.stem}_md.py"
    script.write_text(program(chosen))
    done = subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{document.relative_to(ROOT)} does not run:\n{done.stdout}{done.stderr}"


def documents_with(gpu: bool) -> list:
    """The documents that have runnable blocks, resp. blocks for the GPU."""
    found = []
    for path in DOCUMENTS:
        words = [block.words for block in blocks(path.read_text())]
        if any("gpu" in word if gpu else not word & WORDS for word in words):
            found.append(pytest.param(path, id=str(path.relative_to(ROOT))))
    return found


@pytest.mark.parametrize("document", documents_with(gpu=False))
def test_python_runs(document, tmp_path):
    run(document, [block for block in blocks(document.read_text()) if not block.words & WORDS], tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("document", documents_with(gpu=True))
def test_python_runs_on_the_gpu(document, tmp_path):
    run(document, [block for block in blocks(document.read_text()) if "illustrative" not in block.words], tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_parses_and_links_resolve(document):
    text = document.read_text()
    for block in blocks(text):
        assert block.words <= WORDS, f"line {block.line}: unknown words {set(block.words - WORDS)}"
        ast.parse(block.code, f"{document}, block at line {block.line}")
    for token in MarkdownIt().parse(text):
        for child in token.children or []:
            target = str(child.attrs.get("href") or child.attrs.get("src") or "")
            if target and not re.match(r"[a-z]+:|#", target):
                assert (document.parent / target.split("#")[0]).exists(), f"{document.name}: no {target}"


def test_blocks_keep_their_lines_and_words():
    text = "# T\n\n```python\na = 1\n```\n\n- item\n\n  ```python gpu\n  b = 2\n  ```\n\n```sh\nls\n```\n"
    first, second = blocks(text)
    assert (first, second) == (Block(4, frozenset(), "a = 1\n"), Block(10, frozenset({"gpu"}), "b = 2\n"))
    assert program([first, second]).splitlines() == ["", "", "", "a = 1", *[""] * 5, "b = 2"]


def test_the_reference_names_everything_public(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "pdoc", "tileops.trace", "-o", tmp_path], check=True, capture_output=True)
    page = (tmp_path / "tileops" / "trace.html").read_text(encoding="utf-8")
    from tileops.trace import Trace

    methods = [name for name in vars(Trace) if not name.startswith("_")]
    assert len(methods) > 15
    for name in methods:
        assert f'id="Trace.{name}"' in page
