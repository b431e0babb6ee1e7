"""Assembles the page from its template, its assets, Plotly's library and a packed Timeline, and writes it."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import secrets
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from ...timeline import Timeline
from .pack import pack

# A file may use what those before it export.
_SCRIPTS = (
    "palette.js", "format.js", "elements.js", "recording.js", "model.js", "map_model.js", "filter.js", "plane.js",
    "figure.js", "map.js", "gpu.js", "page.js",
)  # fmt: skip
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export (?=const |function |class |async )", re.MULTILINE)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def export_html(timeline: Timeline, path: str | Path, *, title: str | None = None) -> Path:
    """Writes a Timeline as one HTML file that needs nothing else: no network, no server, no second file.

    The file appears whole or not at all: it is written beside its place and moved there.

    Args:
        timeline: what to show.
        path: the file; its folders are made, and a file that is there is replaced.
        title: the page's heading; the kernel's name by default.

    Returns:
        ``path``.

    Raises:
        OSError: naming ``path``, if it cannot be written.
    """
    path = Path(path)
    page = render_html(timeline, title=title)
    # Not derived from the file's own name, which may already be as long as a name can be.
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # A lone surrogate in a title has no UTF-8; the rest of the page is ASCII.
            with open(temporary, "x", encoding="utf-8", errors="replace", newline="\n") as file:
                file.write(page)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"the timeline cannot be written: {reason}", str(path)) from error
    return path


def render_html(timeline: Timeline, *, title: str | None = None) -> str:
    """The page that :func:`export_html` writes, as text."""
    head, block = pack(timeline)
    head["title"] = title if title is not None else str(timeline.meta.get("kernel") or "TileLang kernel")
    parts = {
        "title": html.escape(head["title"]),
        "style": _asset("page.css"),
        "plotly": get_plotlyjs(),
        "head": _json(head),
        "block": base64.b64encode(block).decode("ascii"),
        "script": _script(),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _asset("template.html"))


def _json(value: Any) -> str:
    """JSON that is safe inside a script element: ASCII, and no ``<`` that could begin a tag or a comment."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """The page's modules as one: a page opened from ``file://`` can import nothing."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", _asset(name))) for name in _SCRIPTS)
