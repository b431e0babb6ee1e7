"""Statistics of a Timeline: one file a question, :class:`.summary.Summary` for all of them."""

from .summary import Summary

__all__ = ["Summary"]
