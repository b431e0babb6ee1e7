"""A page of one file: a template, its style and scripts, Plotly's library, and a policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...files import exported
from ..choices import check_plotlyjs
from . import library

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


def assemble(template: str, scripts: Sequence[str], parts: Mapping[str, str], plotlyjs: str) -> str:
    """A page as text.

    Args:
        template: the name of an asset with places ``{{policy}}``, ``{{style}}``, ``{{plotly}}`` and ``{{script}}``,
            and one for each of ``parts``.
        scripts: names of assets; each may import from those before it.
        parts: what fills the other places: HTML.
        plotlyjs: where Plotly's library is, see :func:`.page.export_html`. For ``"folder"`` its file is the caller's
            matter.

    Raises:
        ValueError: for another ``plotlyjs``.
    """
    elements, source = _library(check_plotlyjs(plotlyjs), parts)
    script, script_source = _inline(_script(tuple(scripts)), 'type="module"')
    made = {
        "policy": f"{source} {script_source}", "style": asset("page.css"), "plotly": elements, "script": script,
    }  # fmt: skip
    return fill(asset(template), {**parts, **made})


def write_page(page: str, path: str | Path, plotlyjs: str) -> Path:
    """Writes a page, whole or not at all, and beside it the library if it is to be there.

    Raises:
        OSError: naming ``path``, if it cannot be written.
    """
    path = Path(path)
    # A lone surrogate in a name has no UTF-8; the rest of the page has.
    content = page.encode("utf-8", "replace")
    with exported(path) as file:
        if plotlyjs == "folder":
            library.write_beside(path)
        file.write(content)
    return path


def fill(template: str, parts: dict[str, str]) -> str:
    """A template with its ``{{places}}`` filled; what a part holds is not looked at."""
    return _PLACE.sub(lambda place: parts[place[1]], template)


def _library(plotlyjs: str, parts: Mapping[str, str]) -> tuple[str, str]:
    """The elements that bring Plotly into a page, and what the page's policy must name for them to run."""
    if plotlyjs == "embed":
        element, source = _embedded_library()
        return _INERT.format(element), source
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
        # this element. It follows from what the page shows, so that equal recordings make equal pages and no name in a
        # recording can hold it.
        nonce = hashlib.sha256("".join(parts.values()).encode("utf-8", "replace")).hexdigest()[:32]
        element = f'<script src="{library.file_name()}" nonce="{nonce}"></script>'
        source = f"'nonce-{nonce}'"
    notice = f'<p id="missing" class="alert bad" hidden>{html.escape(text)}</p>'
    return f"{notice}\n{_INERT.format(element)}", source


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


def as_json(value: Any) -> str:
    """JSON that is safe inside a script element: ASCII, and no ``<`` that could begin a tag or a comment."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def asset(name: str) -> str:
    """One of the files under ``assets``."""
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _script(names: tuple[str, ...]) -> str:
    """Modules as one: a page opened from ``file://`` can import nothing.

    Each stays a scope of its own, which gives what it exports.
    """
    parts = []
    for name in names:
        source = _COMMENT.sub("", asset(name))
        exported = ", ".join(found[1] for found in _EXPORT.findall(source))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(r"const \1 = \2_js;", source))
        # Only what exports nothing may await.
        head, tail = (f"const {name.replace('.', '_')} = (() => {{", "})();") if exported else ("{", "}")
        parts.append(f"{head}\n{body}return {{ {exported} }};\n{tail}" if exported else f"{head}\n{body}{tail}")
    return "\n".join(parts)
