"""The timeline as CSV and as JSON, for programs that read nothing better. Both need no package."""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..files import exported
from ..timeline import PAYLOAD_INT, Timeline
from .events import COLUMNS, VERSION, Column, as_json, chunks, described, of_launch

CSV_SUFFIX, JSON_SUFFIX = ".csv", ".json"

# Rows whose values are Python's at once.
_AT_ONCE = 1 << 14
_TABLES = {"cta": "ctas", "range": "ranges", "instant": "instants", "flow": "flows"}


def export_csv(
    timeline: Timeline, path: str | os.PathLike[str], *, progress: Callable[[float], None] | None = None
) -> Path:
    """Writes a Timeline as CSV, a row an event; ``docs/files.md`` says what the columns are.

    Null is an empty field. An integer payload is written without a decimal point.

    Args:
        timeline: what to write.
        path: the file; its folders are made, and a file that is there is replaced, unless it is a recording.
        progress: called with how much is done, from 0 to 1.

    Returns:
        ``path``.

    Raises:
        OSError: naming ``path``, if it cannot be written. The file appears whole or not at all.
    """
    launch = of_launch(timeline)
    if launch["date"] is not None:
        launch["date"] = launch["date"].isoformat()
    done, events = 0, _events(timeline)
    with exported(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="", write_through=True)
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        for kind, columns in chunks(timeline, _AT_ONCE):
            constant = {**launch, "kind": kind}
            values = [
                _python(columns, name) if name in columns else itertools.repeat(constant.get(name)) for name in COLUMNS
            ]
            rows.writerows(zip(*values))
            done += len(columns["cta"].values)
            if progress is not None:
                progress(done / events)
        text.detach()
    return Path(path)


def export_json(
    timeline: Timeline, path: str | os.PathLike[str], *, progress: Callable[[float], None] | None = None
) -> Path:
    """Writes a Timeline as JSON, an object an event; ``docs/files.md`` says what is in it.

    Args, returns and errors are those of :func:`export_csv`.
    """
    done, events = 0, _events(timeline)
    about = {"format": "tileops.timeline", "version": VERSION, **described(timeline)}
    with exported(path) as file:
        file.write(as_json(about)[:-1].encode())
        parts = itertools.groupby(chunks(timeline, _AT_ONCE), key=lambda part: part[0])
        missing = dict(_TABLES)
        for kind, of_kind in parts:
            file.write(f',\n"{missing.pop(kind)}":['.encode())
            separator = "\n"
            for _, columns in of_kind:
                template = "{" + ",".join(f'"{name}":%s' for name in columns) + "}"
                texts = [_json(columns, name) for name in columns]
                file.write((separator + ",\n".join(map(template.__mod__, zip(*texts)))).encode())
                separator = ",\n"
                done += len(columns["cta"].values)
                if progress is not None:
                    progress(done / events)
            file.write(b"]")
        for name in missing.values():
            file.write(f',\n"{name}":[]'.encode())
        file.write(b"}\n")
    return Path(path)


def _events(timeline: Timeline) -> int:
    return sum(len(table) for table in (timeline.ctas, timeline.slices, timeline.instants, timeline.flows))


def _python(columns: dict[str, Column], name: str) -> list[Any]:
    """A column's values, for CSV."""
    column = columns[name]
    if column.values.dtype == bool:
        return Column(column.values.astype(np.int8), column.valid, ("false", "true")).tolist()
    if name != "payload":
        return column.tolist()
    integer = _integers(columns).tolist()
    return [int(value) if whole else value for value, whole in zip(column.tolist(), integer)]


def _json(columns: dict[str, Column], name: str) -> list[str]:
    """A column's values, each as JSON. Payloads that are no finite number are texts."""
    column = columns[name]
    if column.texts is not None:
        texts = column.tolist([as_json(text) for text in column.texts])
        return texts if column.valid is None else ["null" if text is None else text for text in texts]
    if column.values.dtype == bool:
        return Column(column.values.astype(np.int8), column.valid, ("false", "true")).tolist()
    values = column.tolist()
    if name == "payload":
        integer = _integers(columns).tolist()
        return [_payload(value, whole) for value, whole in zip(values, integer)]
    return ["null" if value is None else repr(value) for value in values]


def _payload(value: float | None, integer: bool) -> str:
    if value is None:
        return "null"
    return str(int(value)) if integer else repr(value) if math.isfinite(value) else f'"{value}"'


def _integers(columns: dict[str, Column]) -> np.ndarray:
    """Which rows have an integer for a payload."""
    kind = columns["payload_kind"]
    integer = kind.values == PAYLOAD_INT
    return integer if kind.valid is None else integer & kind.valid
