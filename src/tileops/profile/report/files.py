"""A report's files in a folder."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path

from ...trace.files import check_output, exported, identity
from ..errors import ProfileError
from ..facts import Report
from .data import to_json
from .html import to_html
from .text import to_text

_NAMES = "report.txt", "report.json", "report.html"


def make_folder(folder: str, what: str = "the report") -> Path:
    """Makes the folder for files, if it is not there.

    Args:
        folder: its path.
        what: what is to be written there, for the message.

    Raises:
        ProfileError: if it cannot be made.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        file = next((place for place in (path, *path.parents) if place.exists()), path)
        reason = f"{file} is a file, and a folder is wanted"
        raise ProfileError(f"{folder}: {what} cannot be written: {reason}") from error
    except OSError as error:
        raise ProfileError(f"{folder}: {what} cannot be written: {error.strerror or error}") from error
    return path


def save(report: Report, folder: str) -> tuple[Report, list[str]]:
    """Writes the report in all its forms; see :meth:`tileops.profile.Report.save`.

    Returns:
        The report as it was written, which names the files beside it, and the paths.

    Raises:
        ProfileError: if they cannot be written.
    """
    place = make_folder(folder)
    try:
        source = Path(report.trace) if report.trace else None
        for name in _NAMES:
            check_output(place / name, [*([source] if source else []), *report.files])
        written = []
        if source is not None and source.exists():
            trace = place / "trace.json.gz"
            if identity(source) != identity(trace):
                check_output(trace, report.files)
                _pack(source, trace)
            written.append(trace)
            report = replace(report, trace=str(trace))
        others = []
        for path in map(Path, report.files):
            if path.exists() and path.resolve().parent != place.resolve():
                _copy(path, place / path.name)
            others.append(str(place / path.name) if (place / path.name).exists() else str(path))
        written += [Path(other) for other in others if Path(other).parent == place]
        report = replace(report, files=others)
        contents = (
            to_text(report).encode("utf-8", "replace"),
            to_json(report),
            to_html(report).encode("utf-8", "replace"),
        )
        for name, content in zip(_NAMES, contents):
            with exported(place / name) as file:
                file.write(content)
            written.append(place / name)
    except OSError as error:
        raise ProfileError(f"{error.filename}: {error.strerror}") from error
    return report, [str(path) for path in written]


def save_for_tensorboard(report: Report, folder: str) -> str:
    """Writes the trace as TensorBoard's plugin looks for it; see :meth:`tileops.profile.Report.save_for_tensorboard`.

    Returns:
        The file's path.

    Raises:
        ProfileError: if it cannot be written, or the trace is gone.
    """
    # The worker, and when: runs of one log folder stand beside each other.
    name = f"{socket.gethostname()}_{os.getpid()}.{time.time_ns() // 1_000_000}.pt.trace.json.gz"
    if not report.trace or not Path(report.trace).exists():
        raise ProfileError("the report's trace is gone, and TensorBoard shows nothing else: profile again")
    path = make_folder(folder, "the trace") / name
    try:
        _pack(Path(report.trace), path)
    except OSError as error:
        raise ProfileError(f"{error.filename}: {error.strerror}") from error
    return str(path)


def _copy(source: Path, target: Path) -> None:
    with exported(target) as out, open(source, "rb") as file:
        shutil.copyfileobj(file, out, 1 << 20)


def _pack(source: Path, target: Path) -> None:
    """Copies a trace, compressed even if it was not."""
    with exported(target) as out, open(source, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if packed:
            shutil.copyfileobj(file, out, 1 << 20)
        else:
            with gzip.GzipFile(target.name, "wb", fileobj=out) as pressed:
                shutil.copyfileobj(file, pressed, 1 << 20)
