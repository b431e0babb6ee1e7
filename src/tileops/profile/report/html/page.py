"""Sections as HTML: the document's blocks in the document's order, with plots beside the tables they belong to."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from ....trace.export.html.assembling import fill, hash_source
from ....trace.export.html.listing import text
from ...facts import Report
from ..document import Paragraph, Section, Table, document
from .plots import memory_plot, queue_plot, roofline

# Letters of a cell that are shown at once: about three lines. A few more are not worth the click.
_SHOWN, _LONGEST = 180, 240


def to_html(report: Report) -> str:
    """The report's page. It fetches nothing, and its policy lets nothing run but what is in it."""
    plots = {
        "Diagnosis": [roofline(report)],
        "Trace": [queue_plot(queue) for queue in report.structure.queues],
        "Memory": [memory_plot(entry) for entry in report.memory],
    }
    names = " and ".join(candidate.name for candidate in report.candidates[:3])
    return sections_page(f"Profile of {names}" if names else "Profile", document(report), plots)


def sections_page(title: str, sections: Sequence[Section], plots: Mapping[str, Sequence[str]] | None = None) -> str:
    """A page of sections.

    Args:
        title: its heading.
        sections: what it shows.
        plots: SVG elements by section; they come first there. Empty ones are left out.
    """
    plots = plots or {}
    body = []
    for number, section in enumerate(sections):
        pictures = "".join(f"<figure>{plot}</figure>" for plot in plots.get(section.title, ()) if plot)
        blocks = "\n".join(_block(block) for block in section.blocks)
        heading = f'<h2 id="section-{number}">{html.escape(section.title)}</h2>'
        body.append(f'<section aria-labelledby="section-{number}">{heading}\n{pictures}{blocks}</section>')
    links = "".join(f'<a href="#section-{i}">{html.escape(s.title)}</a>' for i, s in enumerate(sections))
    style, script = asset("report.css"), asset("report.js")
    parts = {
        "title": text(title),
        "style": style,
        "style_policy": hash_source(style),
        "script": script,
        "script_policy": hash_source(script),
        "links": links,
        "body": "\n".join(body),
    }
    # The title stands in an element that holds text alone, too.
    page = asset("report.html").replace("<title>{{title}}</title>", f"<title>{html.escape(title)}</title>")
    return fill(page, parts)


def _block(block: Paragraph | Table) -> str:
    if isinstance(block, Table):
        return _table(block)
    if block.tone == "code":
        return f'<p class="code"><code>{text(block.text)}</code><button class="copy" type="button">Copy</button></p>'
    return f'<p class="{block.tone}">{text(block.text)}</p>'


def _table(block: Table) -> str:
    def kind(index: int) -> str:
        return "number" if block.is_figure(index) else "text"

    head = ""
    if any(block.headings):
        cells = "".join(
            f'<th scope="col" class="sortable {kind(index)}">{html.escape(heading)}</th>'
            for index, heading in enumerate(block.headings)
        )
        head = f"<thead><tr>{cells}</tr></thead>"
    rows = "\n".join(
        "<tr>" + "".join(f'<td class="{kind(index)}">{_cell(cell)}</td>' for index, cell in enumerate(row)) + "</tr>"
        for row in block.rows
    )
    return f'<h3>{text(block.title)}</h3>\n<div class="table"><table>{head}<tbody>\n{rows}\n</tbody></table></div>'


def _cell(value: str) -> str:
    """A text; of a very long one, which names of C++ kernels are, the beginning until it is opened."""
    if len(value) <= _LONGEST:
        return text(value)
    return f"<details><summary>{text(value[:_SHOWN])}</summary>{text(value[_SHOWN:])}</details>"


@cache
def asset(name: str) -> str:
    """One of the files under ``assets``."""
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")
