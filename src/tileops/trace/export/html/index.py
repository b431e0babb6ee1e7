"""The index of a folder of timelines: made anew from the pages that are there, so that it never says what is not.

Several processes may write it at once. Each lists the folder, puts its index in place, and lists the folder again: if a
page came or went meanwhile, its index may be the older one, and it goes on. So whoever is last has listed everything.
That needs no lock, which folders on a network often do not have.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ...files import destination, prepared
from ..choices import INDEX
from . import listing
from .headline import Headline, read

# A file that begins otherwise is somebody else's.
_FIRST_LINES = "<!doctype html>\n<!-- Index by tileops.trace: made anew after each timeline, changes are lost. -->\n"
_HEADINGS = (
    ("Kernel", ""), ("Page", ""), ("Grid", ""), ("Date", ""), ("Device", ""), ("Events", "number"),
    ("Dropped", "number"), ("Span in µs", "number"), ("Cost of tracing", ""),
)  # fmt: skip
_UTC = datetime.timezone.utc

# A file's modification time in ns, size in bytes and inode.
_Stamp = tuple[int, int, int]


def write_index(folder: str | Path) -> bool:
    """Writes ``index.html`` into a folder: its timelines with their headline figures, the newest launch first.

    Args:
        folder: where the pages are. Files that :func:`~tileops.trace.export.html.export_html` did not write are left
            out.

    Returns:
        Whether the index is there. It is not where an ``index.html`` stands that this function did not write; that
        file is left as it is.

    Raises:
        OSError: if the folder cannot be read or written.
    """
    folder = Path(folder)
    while True:
        pages = _pages(folder)
        if not _put(folder / INDEX, _render(folder, pages)):
            return False
        if _pages(folder) == pages:
            return True


def _pages(folder: Path) -> dict[str, _Stamp]:
    """The HTML files of a folder. A name that is only reserved (an empty file) is no page yet."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(".html") or entry.name == INDEX:
                continue
            try:
                status = entry.stat()
                if entry.is_file() and status.st_size:
                    found[entry.name] = (status.st_mtime_ns, status.st_size, status.st_ino)
            except OSError:
                continue  # it went away
    return found


def _render(folder: Path, pages: Mapping[str, _Stamp]) -> bytes:
    headlines = {name: headline for name, stamp in pages.items() if (headline := _headline(folder / name, stamp))}

    def newest_first(name: str) -> tuple[float, int, list[tuple[int, str]]]:
        return (-_launched(headlines[name], pages[name]), -pages[name][0], _natural(name))

    rows = [_row(name, headlines[name]) for name in sorted(headlines, key=newest_first)]
    count = f"{len(rows)} timeline{'' if len(rows) == 1 else 's'}"
    body = listing.table(_HEADINGS, rows) if rows else ""
    return listing.page("Kernel timelines", f"{count}, the newest launch first", body, _FIRST_LINES)


@lru_cache(4096)
def _headline(path: Path, stamp: _Stamp) -> Headline | None:
    """A page's headline, read once as long as the file is the same."""
    return read(path)


def _launched(headline: Headline, stamp: _Stamp) -> float:
    """When it ran, in seconds since 1970; when the page was written if its recording does not say."""
    try:
        date = datetime.datetime.fromisoformat(headline.date)
        return (date if date.tzinfo else date.replace(tzinfo=_UTC)).timestamp()
    except (ValueError, OverflowError):
        return stamp[0] / 1e9


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts ``x-10`` behind ``x-9``."""
    return [
        (int(digits), "") if digits else (-1, other) for digits, other in re.findall(r"([0-9]{1,18})|([^0-9]+)", name)
    ]


def _row(name: str, headline: Headline) -> list[listing.Cell]:
    count = f"{headline.ctas:,} CTAs" if headline.ctas != 1 else "1 CTA"
    dropped = [f"{headline.dropped:,}"]
    if headline.unfinished:
        dropped.append(f"{headline.unfinished:,} unfinished")
    return [
        listing.Cell([headline.kernel or "kernel"], listing.url(name)),
        listing.Cell([name.removesuffix(".html")]),
        listing.Cell([headline.grid, count], classes="whole"),
        listing.Cell(_date(headline.date), classes="whole"),
        listing.Cell([headline.device or "unknown"]),
        listing.Cell([f"{headline.events:,}"], classes="number"),
        listing.Cell(dropped, classes="number bad" if headline.dropped or headline.unfinished else "number"),
        listing.Cell(["–" if headline.span_us is None else f"{headline.span_us:,.2f}"], classes="number"),
        listing.Cell([headline.perturbation, headline.record_cost], classes="wide"),
    ]


def _date(text: str) -> list[str]:
    """A date's day and time, in UTC; anything else as it is."""
    try:
        date = datetime.datetime.fromisoformat(text)
        utc = date.astimezone(_UTC) if date.tzinfo else date
        return [f"{utc:%Y-%m-%d}", f"{utc:%H:%M:%S}{' UTC' if date.tzinfo else ''}"]
    except (ValueError, OverflowError):
        return [text or "unknown"]


def _put(index: Path, content: bytes) -> bool:
    """Moves the index to its place, unless a file is there that is not ours."""
    if index.is_symlink() and _ours(index):
        index = destination(index)
    with prepared(index) as (file, temporary):
        file.write(content)
        file.close()
        while True:
            if os.path.lexists(index):
                if not _ours(index):
                    return False
                os.replace(temporary, index)
                return True
            try:
                os.link(temporary, index)  # unlike a rename, it replaces nothing that came meanwhile
                return True
            except FileExistsError:
                continue
            except OSError:  # a file system without hard links
                os.replace(temporary, index)
                return True


def _ours(index: Path) -> bool:
    """Whether an ``index.html`` was written by this module; one that went away is nobody's."""
    first = _FIRST_LINES.encode("ascii")
    if os.path.lexists(index) and not index.is_file():
        return False  # a pipe would have its reader wait
    try:
        with open(index, "rb") as file:
            return file.read(len(first)) == first
    except FileNotFoundError:
        return not os.path.lexists(index)
    except OSError:
        return False  # a folder, or not for us to read
