"""The timeline as an HTML page, and the index of a folder of such pages."""

from .index import write_index
from .page import export_html, render_html

__all__ = ["export_html", "render_html", "write_index"]
