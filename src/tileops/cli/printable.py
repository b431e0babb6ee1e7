"""Texts from files and of files' names, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """A text on one line, without what steers a terminal or cannot be encoded."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def printable_lines(text: str) -> str:
    """Likewise, for a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))
