"""Files that appear whole or not at all, also where several processes write to one folder."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def prepared(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A temporary file beside ``path``, to be written and moved there; gone afterwards if it was not.

    Raises:
        OSError: if it cannot be made.
    """
    # Not derived from the file's own name, which may already be as long as a name can be.
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "xb") as file:
            yield file, temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` at the end; what was there stays if anything is raised.

    Raises:
        OSError: if it cannot be written.
    """
    with prepared(path) as (file, temporary):
        yield file
        file.close()
        os.replace(temporary, path)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, or replaces the one that is there.

    Raises:
        OSError: if it cannot be written; what was there then still is.
    """
    with whole(path) as file:
        file.write(content)


@contextmanager
def exported(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Like :func:`whole`, for a file that the user named.

    Raises:
        OSError: naming ``path``, if it cannot be written.
    """
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "the timeline cannot be written: its name holds a NUL character", str(path))
    try:
        with whole(Path(path)) as file:
            yield file
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"the timeline cannot be written: {reason}", str(path)) from error
