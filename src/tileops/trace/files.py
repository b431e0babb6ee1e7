"""Files that appear whole or not at all, also where several processes write to one folder."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

RECORDING_SUFFIX = ".tltrace"

_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip


def destination(path: Path) -> Path:
    """Where a file that is written to ``path`` goes: that itself, or what a link there points to.

    Raises:
        OSError: if something is there that is no file. A rename would put a file in its place.
    """
    target = Path(os.path.realpath(path)) if os.path.islink(path) else path
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return target
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EEXIST
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise OSError(code, f"it is {kind}: give a file's name", str(path))
    return target


@contextmanager
def prepared(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A temporary file beside ``path``, to be written and moved there; gone afterwards if it was not.

    Raises:
        OSError: if it cannot be made.
    """
    # Not derived from the file's own name, which may already be as long as a name can be.
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"the folder {path.parent} cannot be made: {error.strerror or error}"
        raise OSError(error.errno, reason, str(path)) from error
    try:
        with open(temporary, "xb") as file:
            yield file, temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` at the end; what was there stays if anything is raised.

    A link stays too: what it points to is replaced.

    Raises:
        OSError: if it cannot be written.
    """
    target = destination(path)
    with prepared(target) as (file, temporary):
        yield file
        file.close()
        os.replace(temporary, target)


@contextmanager
def exported(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Like :func:`whole`, for a file that the user named, and that is no recording.

    Raises:
        OSError: naming ``path``, if it cannot be written.
    """
    with _telling(path):
        _check(path)
        with whole(Path(path)) as file:
            yield file


def check_output(path: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Finds out before the work whether :func:`exported` would refuse a name.

    Args:
        path: the name.
        sources: files that are read, which must not be written over either.

    Raises:
        OSError: naming ``path``, if it would, or if it is one of ``sources``, by whatever name.
    """
    with _telling(path):
        _check(path)
        there = identity(path)
        if there is not None and there in map(identity, sources):
            raise OSError(errno.EEXIST, "it is one of the files that are read: give another name")


def identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """What two names of one file have in common; None where there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _check(path: str | os.PathLike[str]) -> None:
    if not os.fspath(path):
        raise OSError(errno.ENOENT, "its name is empty")
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "its name holds a NUL character")
    target = destination(Path(path))
    if RECORDING_SUFFIX in (Path(path).suffix, target.suffix) and target.exists():
        raise OSError(errno.EEXIST, "it is a recording, which would be lost: give another name")


@contextmanager
def _telling(path: str | os.PathLike[str]) -> Iterator[None]:
    """Has what goes wrong name the file as the user did."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror or error}", str(path)) from error
