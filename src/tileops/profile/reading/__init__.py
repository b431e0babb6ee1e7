"""Traces of torch.profiler, whoever made them and wherever, as columns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..columns import ON_GPU, RUNTIME, Trace
from ..errors import ProfileError
from .cutting import Cutter
from .events import Events
from .source import blocks

__all__ = ["read_trace"]


def read_trace(path: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> Trace:
    """Reads a Chrome trace that ``torch.profiler`` exported, plain or gzipped.

    The file is read in pieces: what stays in memory are the columns, 55 bytes an event.

    Args:
        path: the file.
        progress: is called now and then with the bytes read and the file's bytes.

    Returns:
        The trace. What the file lacks, because it was cut off, is damaged or recorded less, is said in ``missing``.

    Raises:
        ProfileError: if the file cannot be read, is no trace, or holds not one event that can be read.
    """
    path = Path(path)
    said: list[str] = []
    events = Events()
    cutter = Cutter(blocks(path, said, progress), path, events.take)
    cutter.run()
    columns, allocations, tracks = events.columns()
    frame = _frame(cutter)
    if not len(columns) and not len(allocations):
        reason = " ".join(said) or "its list of events has none with a time."
        raise ProfileError(f"{path}: nothing to report on: {reason}")
    if cutter.broken:
        said.append(f"{_count(cutter.broken, 'event is', 'events are')} no JSON, and left out.")
    if events.unusable:
        said.append(f"{_count(events.unusable, 'event has', 'events have')} no usable time: left out.")
    if events.unpaired:
        said.append(
            f"{_count(events.unpaired, 'event is', 'events are')} of another profiler's form (begin and end apart) "
            "and not read."
        )
    if not cutter.complete:
        said.append(
            f"The file ends before its list of events does, at byte {cutter.length:,}; later events are missing."
        )
    distributed = frame.pop("distributedInfo", None)
    distributed = distributed if isinstance(distributed, dict) else {}
    devices = frame.pop("deviceProperties", None)
    trace = Trace(
        path=str(path),
        events=columns,
        allocations=allocations,
        names=list(events.names),
        tracks=tracks,
        devices=[entry for entry in devices if isinstance(entry, dict)] if isinstance(devices, list) else [],
        rank=_integer(distributed.get("rank")),
        world_size=_integer(distributed.get("world_size")),
        meta=frame,
        missing=said,
        bytes_read=cutter.length,
    )
    said.extend(_not_recorded(trace))
    return trace


def _not_recorded(trace: Trace) -> list[str]:
    """What the profiler was not asked for, or could not see."""
    kinds = set(trace.events["kind"].tolist())
    if kinds.intersection(ON_GPU):
        if RUNTIME not in kinds:
            return ["There are no calls of the CUDA or HIP runtime: what launching costs is unknown."]
        return []
    if RUNTIME in kinds:
        text = (
            "There are launch calls but no kernels: the GPU's activity was not recorded (CUPTI or ROCTracer is "
            "missing, or another profiler had it). How long the GPU worked is unknown."
        )
        return [text]
    return ["There is no GPU activity: the trace was made without a GPU or without ProfilerActivity.CUDA."]


def _frame(cutter: Cutter) -> dict[str, Any]:
    """The entries of the file besides its events; empty where they are no JSON."""
    if not cutter.before.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return {}
    before = cutter.before.decode("utf-8-sig", "replace")
    for rest in ("]" + cutter.behind.decode("utf-8", "replace"), "]}"):
        try:
            value = json.loads(before + rest, strict=False)
        except (ValueError, RecursionError):
            continue
        value.pop("traceEvents", None)
        return dict(value)
    return {}


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
