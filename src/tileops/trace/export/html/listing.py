"""Pages that list other pages: plain HTML without a script."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from .assembling import asset, fill, hash_source

# What breaks lines or acts on the text around it, as the timeline page has it.
_ACTING = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        lines: its texts, one below the other.
        link: where the first line leads, relative to the page: a URL.
        classes: of the cell, such as ``number``.
    """

    lines: Sequence[str]
    link: str | None = None
    classes: str = ""

    def html(self) -> str:
        """The cell as an element."""
        first, *others = [text(line) for line in self.lines] or [""]
        if self.link is not None:
            first = f'<a href="{html.escape(self.link)}">{first}</a>'
        below = "".join(f'<br><span class="muted">{line}</span>' for line in others)
        return f'<td class="{self.classes}">{first}{below}</td>'


def text(value: str) -> str:
    """A text as HTML: kept apart from what stands around it, whatever it holds."""
    spelled = _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return f"<bdi>{html.escape(spelled)}</bdi>"


def url(name: str) -> str:
    """A file name as a relative URL; ``./`` keeps what stands before a colon from being a scheme."""
    return "./" + quote(os.fsencode(name))


def table(headings: Sequence[tuple[str, str]], rows: Iterable[Sequence[Cell]]) -> str:
    """A table of headings, each a text and a class, and of rows."""
    head = "".join(f'<th scope="col" class="{classes}">{html.escape(heading)}</th>' for heading, classes in headings)
    body = "\n".join(f"<tr>{''.join(cell.html() for cell in row)}</tr>" for row in rows)
    return f'<div class="table"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def alert(message: str) -> str:
    """A message that cannot be overlooked."""
    return f'<p class="alert">{text(message)}</p>'


def page(title: str, said: str, body: str, first_lines: str = "<!doctype html>\n") -> bytes:
    """A page.

    Args:
        title: its heading, as text.
        said: a sentence below that, as text.
        body: what follows, as HTML.
        first_lines: what the file begins with.
    """
    style = asset("listing.css")
    parts = {"policy": hash_source(style), "style": style, "body": body}
    parts |= {"title": html.escape(title), "said": html.escape(said)}
    return (first_lines + fill(asset("listing.html"), parts)).encode("utf-8", "replace")
