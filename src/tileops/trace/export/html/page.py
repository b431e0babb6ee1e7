"""The page of a Timeline, as a file and as text."""

from __future__ import annotations

import base64
import html
from pathlib import Path

from ...timeline import Timeline
from . import headline
from .assembling import as_json, assemble, write_page
from .pack import pack

# A file may use what those before it export.
_SCRIPTS = (
    "palette.js", "format.js", "units.js", "elements.js", "recording.js", "totals.js", "occurrences.js", "hash.js",
    "model.js", "map_model.js", "filter.js", "tooltip.js", "header.js", "legend.js", "keys.js", "plane.js",
    "library.js", "marks.js", "minimap.js", "figure.js", "map.js", "gpu.js", "picker.js", "summary.js", "save.js",
    "page.js",
)  # fmt: skip


def export_html(timeline: Timeline, path: str | Path, *, title: str | None = None, plotlyjs: str = "embed") -> Path:
    """Writes a Timeline as an HTML file that opens anywhere, by default without a network, a server or a second file.

    The file appears whole or not at all: it is written beside its place and moved there.

    Args:
        timeline: what to show.
        path: the file; its folders are made, and a file that is there is replaced, unless it is a recording.
        title: the page's heading; the kernel's name by default.
        plotlyjs: where the page has Plotly's JavaScript (5 MB) from: ``"embed"`` puts it into the page; ``"folder"``
            puts it beside the page as ``plotly-VERSION.min.js``, once for all pages of the folder; ``"cdn"`` has the
            page fetch it from Plotly's servers, that version and no other content.

    Returns:
        ``path``.

    Raises:
        ValueError: for another ``plotlyjs``.
        OSError: naming ``path``, if it cannot be written.
    """
    return write_page(render_html(timeline, title=title, plotlyjs=plotlyjs), path, plotlyjs)


def render_html(timeline: Timeline, *, title: str | None = None, plotlyjs: str = "embed") -> str:
    """The page that :func:`export_html` writes, as text. For ``"folder"`` the library's file is the caller's matter."""
    head, block = pack(timeline)
    head["title"] = title if title is not None else str(timeline.meta.get("kernel") or "TileLang kernel")
    parts = {
        "headline": headline.element(headline.of(timeline)),
        "title": html.escape(head["title"]),
        "head": as_json(head),
        "block": base64.b64encode(block).decode("ascii"),
    }
    return assemble("template.html", _SCRIPTS, parts, plotlyjs)
