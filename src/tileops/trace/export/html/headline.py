"""What an index says about a page, in the page's own head: a page that is moved, copied or deleted takes it along."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ...timeline import Timeline
from ...told import perturbation, record_cost

_NAME = "tileops-timeline"
_ELEMENT = re.compile(rf'<meta name="{_NAME}" content="([^"]*)">'.encode())
# Characters of a text that are kept. A page's head, with five texts of this length as JSON (at most 12 bytes a
# character), fits into what is read.
_LONGEST = 240
_READ = 1 << 15


@dataclass(frozen=True)
class Headline:
    """A launch in a few figures.

    Attributes:
        kernel, device, date: as the recording's meta has them, empty where it has not; ``date`` in ISO 8601.
        grid: the launch's extents, such as ``16 × 32 × 1``.
        ctas, events, dropped, unfinished: counts.
        span_us: microseconds from the first CTA's begin to the last one's end; None if unknown.
        perturbation, record_cost: what is known about the cost of tracing, a sentence each.
    """

    kernel: str
    device: str
    date: str
    grid: str
    ctas: int
    events: int
    dropped: int
    unfinished: int
    span_us: float | None
    perturbation: str
    record_cost: str


def of(timeline: Timeline) -> Headline:
    """A Timeline's headline."""
    meta, ctas = timeline.meta, timeline.ctas
    span = float("nan")
    finished = ctas["finished"].astype(bool)
    if finished.any():
        span = float(ctas["end_ns"][finished].max() - ctas["begin_ns"][finished].min()) / 1000
    return Headline(
        kernel=_cut(str(meta.get("kernel") or "")),
        device=_cut(str(meta.get("device") or "")),
        date=_cut(str(meta.get("date") or "")),
        grid=" × ".join(map(str, timeline.grid)),
        ctas=len(ctas),
        events=timeline.recorded,
        dropped=timeline.dropped,
        unfinished=int(np.count_nonzero(~finished)),
        span_us=span if math.isfinite(span) else None,
        perturbation=_cut(perturbation(meta)),
        record_cost=_cut(record_cost(meta)),
    )


def element(headline: Headline) -> str:
    """The element that holds it in a page's head. ASCII."""
    return f'<meta name="{_NAME}" content="{html.escape(json.dumps(asdict(headline)))}">'


def read(path: Path) -> Headline | None:
    """The headline of a page, or None for a file that has none, or that cannot be read."""
    try:
        with open(path, "rb") as file:
            found = _ELEMENT.search(file.read(_READ))
        if found is None:
            return None
        values = json.loads(html.unescape(found[1].decode("ascii")))
        return _checked(values)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None  # not written by `element`


def _checked(values: dict[str, Any]) -> Headline:
    """The headline of what a file holds, whoever wrote it.

    Raises:
        KeyError, TypeError, ValueError: if it is none.
    """
    checked: dict[str, Any] = {}
    for field in fields(Headline):
        value = values[field.name]
        if field.type == "str":
            if not isinstance(value, str):
                raise TypeError(field.name)
            checked[field.name] = _cut(value)
        elif field.type == "int":
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise TypeError(field.name)
            checked[field.name] = value
        elif value is None or (isinstance(value, (int, float)) and math.isfinite(value)):
            checked[field.name] = value
        else:
            raise TypeError(field.name)
    return Headline(**checked)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
