"""Plotly's JavaScript as it comes with the Python package: its name, its content, and a copy beside pages."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
from functools import cache
from pathlib import Path

from plotly.offline import get_plotlyjs, get_plotlyjs_version

from ...files import prepared

_CDN = "https://cdn.plot.ly"


@cache
def content() -> bytes:
    """The library."""
    return get_plotlyjs().encode("utf-8")


@cache
def file_name() -> str:
    """The library's name, here and on the CDN. It bears the version: pages of several may share a folder."""
    return f"plotly-{get_plotlyjs_version()}.min.js"


def cdn_url() -> str:
    """Where Plotly's makers serve that version."""
    return f"{_CDN}/{file_name()}"


@cache
def integrity() -> str:
    """The library's SHA-384, as HTML's ``integrity`` has it."""
    return "sha384-" + base64.b64encode(hashlib.sha384(content()).digest()).decode("ascii")


def write_beside(page: Path) -> None:
    """Puts the library into the folder of ``page``, unless it is there already.

    It goes by the content: a foreign or a truncated file of that name is replaced. So is a link, whose target may be
    anybody's: the user did not name it.

    Raises:
        OSError: if it cannot be written.
    """
    path = page.parent / file_name()
    try:
        # 5 MB are compared in 1.6 ms (one core, a file that was read before).
        if path.stat().st_size == len(content()) and path.read_bytes() == content():
            return
    except OSError:
        pass  # missing or not readable: writing tells which
    if os.path.lexists(path) and not (path.is_file() or path.is_symlink()):
        raise OSError(errno.EEXIST, f"{path.name} beside it is no file", str(path))
    with prepared(path) as (file, temporary):
        file.write(content())
        file.close()
        os.replace(temporary, path)
