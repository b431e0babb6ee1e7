"""A report's files in a folder."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path

from ...trace.files import write_whole
from ..errors import ProfileError
from ..facts import Report
from .data import to_json
from .html import to_html
from .text import to_text


def save(report: Report, folder: str) -> tuple[Report, list[str]]:
    """Writes the report in all its forms; see :meth:`tileops.profile.Report.save`.

    Returns:
        The report as it was written, which names the files beside it, and the paths.

    Raises:
        ProfileError: if they cannot be written.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        source = Path(report.trace) if report.trace else None
        written = []
        if source is not None and source.exists():
            trace = place / "trace.json.gz"
            if source.resolve() != trace.resolve():
                _copy(source, trace)
            written.append(trace)
            report = replace(report, trace=str(trace))
        others = []
        for path in map(Path, report.files):
            if path.exists() and path.resolve().parent != place.resolve():
                shutil.copyfile(path, place / path.name)
            others.append(str(place / path.name) if (place / path.name).exists() else str(path))
        written += [Path(other) for other in others if Path(other).parent == place]
        report = replace(report, files=others)
        for name, content in (
            ("report.txt", to_text(report).encode("utf-8", "replace")),
            ("report.json", to_json(report)),
            ("report.html", to_html(report).encode("utf-8", "replace")),
        ):
            write_whole(place / name, content)
            written.append(place / name)
    except OSError as error:
        raise ProfileError(f"{folder}: the report cannot be written: {error.strerror or error}") from error
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
    path = Path(folder, name)
    if not report.trace or not Path(report.trace).exists():
        raise ProfileError("the report's trace is gone, and TensorBoard shows nothing else: profile again")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _copy(Path(report.trace), path)
    except OSError as error:
        raise ProfileError(f"{path}: cannot be written: {error.strerror or error}") from error
    return str(path)


def _copy(source: Path, target: Path) -> None:
    with open(source, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        with open(target, "wb") if packed else gzip.open(target, "wb") as out:
            shutil.copyfileobj(file, out, 1 << 20)
