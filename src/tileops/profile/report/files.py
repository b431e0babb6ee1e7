"""A report's files in a folder."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

from ...trace.files import write_whole
from ..errors import ProfileError
from ..facts import Report
from .data import to_json
from .html import to_html
from .text import to_text


def save(report: Report, folder: str) -> list[str]:
    """Writes the report in all its forms; see :meth:`tileops.profile.Report.save`."""
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
    return [str(path) for path in written]


def _copy(source: Path, target: Path) -> None:
    with open(source, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        with open(target, "wb") if packed else gzip.open(target, "wb") as out:
            shutil.copyfileobj(file, out, 1 << 20)
