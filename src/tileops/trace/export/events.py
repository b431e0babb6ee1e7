"""A Timeline as one table, a row an event: what Parquet, CSV, pandas and Polars have.

Rows of four kinds share their columns: ``cta``, ``range``, ``instant`` and ``flow``. What a kind has not is null.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..timeline import Table, Timeline

# Of the columns and of the JSON format: raised where one that is there means something else, or goes.
VERSION = 1
# What a column holds: "text", or the name of a NumPy type.
COLUMNS = {
    "rank": "int32", "host": "text", "launch": "int64", "kernel": "text", "device": "text", "date": "datetime64[s]",
    "kind": "text", "cta": "int32", "x": "int32", "y": "int32", "z": "int32", "sm": "int32",
    "group": "text", "lane": "text", "name": "text",
    "start": "int64", "duration": "int64", "start_ns": "float64", "duration_ns": "float64",
    "depth": "int16", "cut": "bool", "payload": "float64", "payload_kind": "text",
    "to_group": "text", "to_name": "text", "occurrence": "int64", "recorded": "int64", "dropped": "int64",
}  # fmt: skip
# The columns that are the same in all rows.
OF_LAUNCH = ("rank", "host", "launch", "kernel", "device", "date")

_PAYLOAD_KINDS = ("", "int", "float")  # by the numbers that Timelines have for them


@dataclass(frozen=True)
class Column:
    """Some rows of a column.

    Attributes:
        values: (n,) values; of a text column the positions of its texts in ``texts``.
        valid: (n,) which of them are not null; ``None`` where none is.
        texts: what a text column's values stand for.
    """

    values: np.ndarray
    valid: np.ndarray | None = None
    texts: tuple[str, ...] | None = None

    def tolist(self, texts: Sequence[Any] | None = None) -> list[Any]:
        """The values as Python has them, ``None`` for null; ``texts`` stand in for those of a text column."""
        values = self.values.tolist()
        texts = self.texts if texts is None else texts
        if self.valid is None:
            return values if texts is None else [texts[code] for code in values]
        valid = self.valid.tolist()
        if texts is None:
            return [value if is_valid else None for value, is_valid in zip(values, valid)]
        return [texts[code] if is_valid else None for code, is_valid in zip(values, valid)]


def chunks(timeline: Timeline, at_once: int) -> Iterator[tuple[str, dict[str, Column]]]:
    """The rows, so many at a time: their kind, and the columns that this kind has, without those of the launch."""
    places = _Places(timeline.ctas)
    for kind, table, columns in (
        ("cta", timeline.ctas, _ctas),
        ("range", timeline.slices, _ranges),
        ("instant", timeline.instants, _instants),
        ("flow", timeline.flows, _flows),
    ):
        for first in range(0, len(table), at_once):
            rows = slice(first, first + at_once)
            yield kind, places.of(table["cta"][rows]) | columns(timeline, rows)


def of_launch(timeline: Timeline) -> dict[str, Any]:
    """The columns that are the same in all rows, ``None`` for null. A meta that comes from a file may hold anything."""
    meta = timeline.meta
    found: dict[str, Any] = dict.fromkeys(OF_LAUNCH)
    for name in ("host", "kernel", "device"):
        found[name] = meta[name] if isinstance(meta.get(name), str) else None
    for name, bits in (("rank", 31), ("launch", 63)):
        value = meta.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << bits
        found[name] = value if whole else None
    try:
        date = datetime.datetime.fromisoformat(meta.get("date", ""))
        found["date"] = date.astimezone(datetime.timezone.utc).replace(microsecond=0)
    except (TypeError, ValueError, OverflowError):
        pass
    return found


def described(timeline: Timeline) -> dict[str, Any]:
    """What is no event: the launch, what was lost, and all of its meta, in types that JSON has."""
    return plain({
        "kernel": timeline.meta.get("kernel"),
        "grid": timeline.grid,
        "groups": timeline.groups,
        "axis_error_ns": float(timeline.axis_error_ns),
        "recorded": timeline.recorded,
        "dropped": timeline.dropped,
        "unfinished": timeline.unfinished.tolist(),
        "never_fired": timeline.never_fired,
        "meta": timeline.meta,
    })  # fmt: skip


def plain(value: Any) -> Any:
    """A value in types that JSON has: what is no finite number is null, what JSON does not know is its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


def as_json(value: Any) -> str:
    """JSON in ASCII, so that no name can be bytes that are no UTF-8."""
    return json.dumps(plain(value), separators=(",", ":"), allow_nan=False)


# ---------------------------------------------------------------------------------------------------------------------


class _Places:
    """Where CTAs were."""

    def __init__(self, ctas: Table):
        self._order = np.argsort(ctas["cta"], kind="stable")
        self._numbers = ctas["cta"][self._order]
        self._ctas = ctas

    def of(self, cta: np.ndarray) -> dict[str, Column]:
        """The columns that say where these CTAs were. That of one which did not finish is not known to have an SM."""
        rows = self._order[np.searchsorted(self._numbers, cta)]
        columns = {name: Column(self._ctas[name][rows]) for name in ("x", "y", "z", "sm")}
        sm = columns["sm"].values
        return {"cta": Column(cta), **columns, "sm": Column(sm, _partly(sm >= 0))}


def _ctas(timeline: Timeline, rows: slice) -> dict[str, Column]:
    ctas = timeline.ctas
    finished = _partly(ctas["finished"][rows].astype(bool))
    return {
        "start": Column(np.zeros(len(ctas["cta"][rows]), dtype=np.int64), finished),
        "duration": Column(ctas["cycles"][rows], finished),
        **_nanoseconds(ctas["begin_ns"][rows], ctas["end_ns"][rows] - ctas["begin_ns"][rows]),
        "recorded": Column(ctas["recorded"][rows]),
        "dropped": Column(ctas["dropped"][rows]),
    }


def _ranges(timeline: Timeline, rows: slice) -> dict[str, Column]:
    slices = timeline.slices
    return {
        **_named(slices, rows),
        "start": Column(slices["start"][rows]),
        "duration": Column(slices["duration"][rows]),
        **_nanoseconds(slices["start_ns"][rows], slices["duration_ns"][rows]),
        "depth": Column(slices["depth"][rows]),
        "cut": Column(slices["cut"][rows].astype(bool)),
        **_payload(slices, rows),
    }


def _instants(timeline: Timeline, rows: slice) -> dict[str, Column]:
    instants = timeline.instants
    return {
        **_named(instants, rows),
        "start": Column(instants["time"][rows]),
        **_nanoseconds(instants["time_ns"][rows], None),
        **_payload(instants, rows),
    }


def _flows(timeline: Timeline, rows: slice) -> dict[str, Column]:
    flows, slices = timeline.flows, timeline.slices
    lane = slices.codes("lane")[flows["src_slice"][rows]]
    return {
        "group": _text(flows, "src_group", rows),
        "lane": Column(lane, texts=slices.vocabulary("lane")),
        "name": _text(flows, "src", rows),
        "start": Column(flows["start"][rows]),
        "duration": Column(flows["end"][rows] - flows["start"][rows]),
        **_nanoseconds(flows["start_ns"][rows], flows["end_ns"][rows] - flows["start_ns"][rows]),
        "to_group": _text(flows, "dst_group", rows),
        "to_name": _text(flows, "dst", rows),
        "occurrence": Column(flows["occurrence"][rows]),
    }


def _named(table: Table, rows: slice) -> dict[str, Column]:
    return {name: _text(table, name, rows) for name in ("group", "lane", "name")}


def _text(table: Table, name: str, rows: slice) -> Column:
    return Column(table.codes(name)[rows], texts=table.vocabulary(name))


def _nanoseconds(start: np.ndarray, duration: np.ndarray | None) -> dict[str, Column]:
    columns = {"start_ns": Column(start, _partly(np.isfinite(start)))}
    if duration is not None:
        columns["duration_ns"] = Column(duration, _partly(np.isfinite(duration)))
    return columns


def _payload(table: Table, rows: slice) -> dict[str, Column]:
    kind = table["payload_kind"][rows]
    there = _partly(kind > 0)
    return {
        "payload": Column(table["payload"][rows], there),
        "payload_kind": Column(kind, there, _PAYLOAD_KINDS),
    }


def _partly(valid: np.ndarray) -> np.ndarray | None:
    return None if valid.all() else valid
