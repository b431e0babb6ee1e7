"""The report on a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from ..facts import Report
from .document import Paragraph, Section, Table, document

_STYLES = {"plain": "", "warn": "yellow", "lead": "bold", "code": "cyan"}
# Wide enough that no figure is broken into lines; names are cut.
WIDTH = 150
_LONGEST_NAME = 64
# Columns of sentences, which are broken into lines rather than cut.
_PROSE = ("", "meaning", "source", "question", "answer")


def renderable(report: Report) -> Group:
    """The report, for a Rich console."""
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
    Console(file=out, width=width, color_system=None, highlight=False).print(renderable(report))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _blocks(section: Section) -> list[RenderableType]:
    return [_paragraph(block) if isinstance(block, Paragraph) else _table(block) for block in section.blocks]


def _paragraph(block: Paragraph) -> RenderableType:
    # Commands are copied: not broken into lines.
    text = Text(block.text, _STYLES[block.tone], no_wrap=block.tone == "code", overflow="ignore")
    return Padding(text, (0, 0, 0, 2)) if block.tone == "code" else text


def _table(block: Table) -> RenderableType:
    bare = not any(block.headings)
    table = RichTable(
        title=Text(block.title, "bold"), title_justify="left", box=None if bare else box.SIMPLE_HEAD, pad_edge=False,
        show_header=not bare,
    )  # fmt: skip
    for index, heading in enumerate(block.headings):
        figures = index >= block.numbers and heading not in ("meaning", "most of it")
        table.add_column(Text(heading), justify="right" if figures and not bare else "left", overflow="fold")
    for row in block.rows:
        # Text, since names may hold what Rich takes for markup.
        cells = zip(block.headings, row)
        table.add_row(*(Text(cell if heading in _PROSE else shortened(cell)) for heading, cell in cells))
    return table


def shortened(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name that is too long for a table, by its beginning and its end."""
    if len(name) <= longest:
        return name
    return f"{name[: longest * 2 // 3]}…{name[-longest // 3 + 1 :]}"
