"""Recordings that the user names, and the error that one of several makes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tileops.cli.completion import completes_files
from tileops.cli.printable import printable_lines
from tileops.trace.errors import TraceError
from tileops.trace.recording import SUFFIX, Recording
from tileops.trace.timeline import Timeline


def add_files(parser: argparse.ArgumentParser) -> None:
    """Declares the recordings to read."""
    files = parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help=f"a recording ({SUFFIX})")
    completes_files(files)


def read(path: Path, compensate: bool = False) -> tuple[Recording, Timeline]:
    """Reads a recording, and decodes it as :meth:`~tileops.trace.recording.Recording.decode` does.

    Raises:
        TraceError: naming the file, if it is no recording or cannot be decoded.
    """
    if path.is_dir():
        raise TraceError(f"{path}: is a folder: name its files, such as {path / f'*{SUFFIX}'}")
    recording = Recording.load(path)
    try:
        return recording, recording.decode(compensate)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error


def tell(error: Exception) -> None:
    """Says what went wrong with one of several files, which does not keep the others back."""
    text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    print(f"tileops: {printable_lines(text)}", file=sys.stderr)
