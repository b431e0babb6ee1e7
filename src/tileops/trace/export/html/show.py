"""A Timeline in front of the user: in a notebook, or in a browser."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from pathlib import Path

from ...timeline import Timeline
from .page import export_html, render_html

# Of the frame in a notebook, in CSS pixels: header, picker and a figure of a dozen rows. Its corner can be dragged.
HEIGHT = 720
_STYLE = (
    "box-sizing: border-box; width: 100%; height: {height}px; border: 1px solid #8884; resize: vertical; overflow: auto"
)


def frame(timeline: Timeline, height: int = HEIGHT) -> str:
    """The page as an element for a notebook.

    Its sandbox lets scripts run and pictures be saved, and keeps the scripts from the notebook: they have an origin of
    their own.
    """
    page = html.escape(render_html(timeline))
    title = html.escape(str(timeline.meta.get("kernel") or "TileLang kernel"))
    style = _STYLE.format(height=height)
    sandbox = "allow-scripts allow-downloads"
    element = f'<iframe title="{title}" sandbox="{sandbox}" style="{style}" srcdoc="{page}"></iframe>'
    # A notebook is saved as UTF-8, which has no lone surrogates.
    return element.encode("utf-8", "replace").decode("utf-8")


def show(timeline: Timeline, title: str | None, plotlyjs: str) -> Path:
    """Writes the page to a temporary folder and opens it; see :meth:`~tileops.trace.Timeline.show`."""
    path = export_html(
        timeline, Path(tempfile.mkdtemp(prefix="tileops-")) / "timeline.html", title=title, plotlyjs=plotlyjs
    )
    try:
        opened = webbrowser.open(path.as_uri())
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        print(f"No browser can be opened here. The timeline is {path}")
    return path
