"""Timelines as HTML pages: one, two that are compared, and the index of a folder of such pages."""

from .comparison import export_comparison
from .index import write_index
from .page import export_html, render_html

__all__ = ["export_comparison", "export_html", "render_html", "write_index"]
