"""The timeline as one self-contained HTML page."""

from .page import export_html, render_html

__all__ = ["export_html", "render_html"]
