"""Assembles the page from its template, its assets, Plotly's library and a packed Timeline, and writes it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...files import exported
from ...timeline import Timeline
from ..choices import check_plotlyjs
from . import headline, library
from .pack import pack

# A file may use what those before it export.
_SCRIPTS = (
    "palette.js", "format.js", "units.js", "elements.js", "recording.js", "totals.js", "occurrences.js", "hash.js",
    "model.js", "map_model.js", "filter.js", "tooltip.js", "header.js", "legend.js", "keys.js", "plane.js",
    "library.js", "marks.js", "minimap.js", "figure.js", "map.js", "gpu.js", "picker.js", "summary.js", "save.js",
    "page.js",
)  # fmt: skip
_IMPORT = re.compile(r"^import (\{.*?\}) from \"\./(\w+)\.js\";$", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.MULTILINE)
# A quarter of what the scripts are long.
_COMMENT = re.compile(r"^[ \t]*(?://.*|/\*\*(?:(?!\*/)[\s\S])*\*/)\n", re.MULTILINE)
_PLACE = re.compile(r"\{\{(\w+)\}\}")
# Plotly takes 0.4 s to start (two cores): the page's script has it run once a CTA is drawn.
_INERT = '<template id="library">{}</template>'
# What a page says where its library did not come.
_MISSING = {
    "folder": "This page draws with Plotly, which it shares with the other pages of its folder: the file {name} "
    "beside it is missing or damaged. Copy that file along with the page, or write the page with "
    'plotlyjs="embed".',
    "cdn": "This page draws with Plotly, which it fetches from the network: {url} could not be reached, or is not "
    'the file that this page was written for. Open it with a network, or write it with plotlyjs="embed".',
}


def export_html(timeline: Timeline, path: str | Path, *, title: str | None = None, plotlyjs: str = "embed") -> Path:
    """Writes a Timeline as an HTML file that opens anywhere, by default without a network, a server or a second file.

    The file appears whole or not at all: it is written beside its place and moved there.

    Args:
        timeline: what to show.
        path: the file; its folders are made, and a file that is there is replaced.
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
    path = Path(path)
    # A lone surrogate in a title has no UTF-8; the rest of the page has.
    page = render_html(timeline, title=title, plotlyjs=plotlyjs).encode("utf-8", "replace")
    with exported(path) as file:
        if plotlyjs == "folder":
            library.write_beside(path)
        file.write(page)
    return path


def render_html(timeline: Timeline, *, title: str | None = None, plotlyjs: str = "embed") -> str:
    """The page that :func:`export_html` writes, as text. For ``"folder"`` the library's file is the caller's matter."""
    head, block = pack(timeline)
    head["title"] = title if title is not None else str(timeline.meta.get("kernel") or "TileLang kernel")
    library_elements, library_sources = _library(check_plotlyjs(plotlyjs), head, block)
    script, script_source = _inline(_script(), 'type="module"')
    parts = {
        "policy": " ".join([*library_sources, script_source]),
        "headline": headline.element(headline.of(timeline)),
        "title": html.escape(head["title"]),
        "style": asset("page.css"),
        "plotly": library_elements,
        "head": _json(head),
        "block": base64.b64encode(block).decode("ascii"),
        "script": script,
    }
    return fill(asset("template.html"), parts)


def fill(template: str, parts: dict[str, str]) -> str:
    """A template with its ``{{places}}`` filled; what a part holds is not looked at."""
    return _PLACE.sub(lambda place: parts[place[1]], template)


def _library(plotlyjs: str, head: dict[str, Any], block: bytes) -> tuple[str, list[str]]:
    """The elements that bring Plotly into a page, and what the page's policy must name for them to run."""
    if plotlyjs == "embed":
        element, source = _embedded_library()
        return _INERT.format(element), [source]
    text = _MISSING[plotlyjs].format(name=library.file_name(), url=library.cdn_url())
    if plotlyjs == "cdn":
        element = (
            f'<script src="{library.cdn_url()}" integrity="{library.integrity()}" crossorigin="anonymous" '
            'referrerpolicy="no-referrer"></script>'
        )
        source = library.cdn_url()
    else:
        # Seen in Chromium 156 on a page from file://: `file:` and 'self' let any file of the disk in, the file's own
        # URL is no valid source, and an integrity hash wants CORS, which files do not have. A nonce names exactly
        # this element. It follows from the recording, so that equal recordings make equal pages and no name in a
        # recording can hold it.
        nonce = hashlib.sha256(json.dumps(head).encode() + block).hexdigest()[:32]
        element = f'<script src="{library.file_name()}" nonce="{nonce}"></script>'
        source = f"'nonce-{nonce}'"
    notice = f'<p id="missing" class="alert bad" hidden>{html.escape(text)}</p>'
    return f"{notice}\n{_INERT.format(element)}", [source]


@cache
def _embedded_library() -> tuple[str, str]:
    return _inline(library.content().decode("utf-8"))


def _inline(script: str, attributes: str = "") -> tuple[str, str]:
    """A script element, and the source that allows it and no other: the hash of what stands between its tags."""
    content = f"\n{script}\n"
    return f"<script{attributes and ' '}{attributes}>{content}</script>", hash_source(content)


def hash_source(content: str) -> str:
    """What a Content-Security-Policy calls an inline script or style of that content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode('utf-8')).digest()).decode('ascii')}'"


def _json(value: Any) -> str:
    """JSON that is safe inside a script element: ASCII, and no ``<`` that could begin a tag or a comment."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def asset(name: str) -> str:
    """One of the files under ``assets``."""
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """The page's modules as one: a page opened from ``file://`` can import nothing.

    Each stays a scope of its own, which gives what it exports.
    """
    parts = []
    for name in _SCRIPTS:
        source = _COMMENT.sub("", asset(name))
        exported = ", ".join(found[1] for found in _EXPORT.findall(source))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(r"const \1 = \2_js;", source))
        # Only what exports nothing may await.
        head, tail = (f"const {name.replace('.', '_')} = (() => {{", "})();") if exported else ("{", "}")
        parts.append(f"{head}\n{body}return {{ {exported} }};\n{tail}" if exported else f"{head}\n{body}{tail}")
    return "\n".join(parts)
