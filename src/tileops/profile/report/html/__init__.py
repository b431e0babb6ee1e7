"""The report as one page that opens anywhere."""

from .page import sections_page, to_html

__all__ = ["sections_page", "to_html"]
