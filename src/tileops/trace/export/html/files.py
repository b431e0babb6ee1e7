"""Files that appear whole or not at all, also where several processes write to one folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def prepared(path: Path, content: bytes) -> Iterator[Path]:
    """A temporary file beside ``path`` with that content, to be moved there; gone afterwards if it was not.

    Raises:
        OSError: if it cannot be written.
    """
    # Not derived from the file's own name, which may already be as long as a name can be.
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, or replaces the one that is there.

    Raises:
        OSError: if it cannot be written; what was there then still is.
    """
    with prepared(path, content) as temporary:
        os.replace(temporary, path)
