"""The report on a terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from ..facts import Report
from .document import Paragraph, Section, Table, document

_STYLES = {"plain": "", "warn": "yellow", "lead": "bold", "code": "cyan"}
# Wide enough that no figure is broken into lines; names are cut.
WIDTH = 150
_LONGEST_NAME = 64
# Columns of names, which are cut; all others are broken into lines.
_NAMES = ("Name", "label", "after", "before", "most of it", "candidate", "inside", "what", "where")
# What C++ names can do without: return types, namespaces, and the parameters at the end.
_CEREMONY = re.compile(
    r"^void |\(anonymous namespace\)::|\b[A-Za-z_]\w*::(?=[A-Za-z_(])|\((?:[^()]|\([^()]*\))*\)(?: const)?$"
)


def renderable(report: Report) -> Group:
    """The report, for a Rich console. Print it with ``crop=False``: commands may be longer than its lines."""
    return sections_renderable(document(report))


def sections_renderable(sections: Sequence[Section]) -> Group:
    """Sections, for a Rich console."""
    parts: list[RenderableType] = []
    for section in sections:
        parts += [Rule(Text(section.title, "bold"), align="left"), *_blocks(section), Text("")]
    return Group(*parts)


def to_text(report: Report, width: int = WIDTH) -> str:
    """The report as plain text."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(renderable(report), crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _blocks(section: Section) -> list[RenderableType]:
    return [_paragraph(block) if isinstance(block, Paragraph) else _table(block) for block in section.blocks]


def _paragraph(block: Paragraph) -> RenderableType:
    said = "\n".join(map(_shown, block.text.split("\n")))
    if block.tone == "code":
        # Commands are copied: neither broken into lines nor cut, which Rich's Padding would do.
        return Text(f"  {said}", _STYLES[block.tone], no_wrap=True, overflow="ignore")
    return Text(said, _STYLES[block.tone])


def _table(block: Table) -> RenderableType:
    bare = not any(block.headings)
    table = RichTable(box=None if bare else box.SIMPLE_HEAD, pad_edge=False, show_header=not bare)
    for index, heading in enumerate(block.headings):
        table.add_column(Text(heading), justify="right" if block.is_figure(index) else "left", overflow="fold")
    for row in block.rows:
        # Text, since names may hold what Rich takes for markup.
        cells = zip(block.headings, map(_shown, row))
        table.add_row(*(Text(shortened(cell) if heading in _NAMES else cell) for heading, cell in cells))
    # Not the table's own title, which would be broken to the table's width.
    return Group(Text(_shown(block.title), "bold"), table)


def _shown(text: str) -> str:
    """A text on one line, in which nothing from a trace steers the terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shortened(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name that is too long for a table: without namespaces and parameters, else by its beginning and its end."""
    if len(name) <= longest:
        return name
    name = _CEREMONY.sub("", name)
    if len(name) <= longest:
        return name
    return f"{name[: longest * 2 // 3]}…{name[-longest // 3 + 1 :]}"
