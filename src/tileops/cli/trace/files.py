"""Recordings that the user names, and the error that one of several makes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tileops.trace.errors import TraceError
from tileops.trace.recording import SUFFIX, Recording


def add_files(parser: argparse.ArgumentParser) -> None:
    """Declares the recordings to read."""
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help=f"a recording ({SUFFIX})")


def load(path: Path) -> Recording:
    """Reads a recording.

    Raises:
        TraceError: naming the file, if it is none.
    """
    if path.is_dir():
        raise TraceError(f"{path}: is a folder: name its files, such as {path / f'*{SUFFIX}'}")
    return Recording.load(path)


def tell(error: Exception) -> None:
    """Says what went wrong with one of several files, which does not keep the others back."""
    text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    print(f"tileops: {text}", file=sys.stderr)
