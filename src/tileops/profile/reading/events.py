"""Events of a trace, from JSON to columns.

msgspec decodes into the fields named here and steps over all others: 378 MB a second of one core's time, where `orjson`
and `json`, which build every value, reach 188 and 111, and `ijson`, which streams by itself, 79 (the best of five on
the 15 MB of events of a training step on a V100).
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import numpy as np

from ..columns import ALLOCATIONS, EVENTS, ON_GPU, OTHER, UNKNOWN, Track
from .categories import KIND
from .numbers import nanoseconds

Key = TypeVar("Key")

# A larger number is that of another process.
_MOST_GPUS = 64
# What adds up and is subtracted within int64: durations of less than 13 days, and moments that leave room for those.
_LONGEST_NS = 2**50
_FIRST_NS, _LAST_NS = -(2**53), 2**63 - 1 - 2**53
_INT64 = range(-(1 << 63), 1 << 63)


class _Arguments(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "external": "External id",
        "external_old": "external id",
        "nbytes": "bytes",
        "memory": "Bytes",
        "total": "Total Allocated",
        "reserved": "Total Reserved",
        "address": "Addr",
        "memory_device": "Device Id",
        "device_type": "Device Type",
    },
):
    external: int = UNKNOWN
    external_old: int = UNKNOWN
    correlation: int = UNKNOWN
    stream: int = UNKNOWN
    device: int = UNKNOWN
    nbytes: int = UNKNOWN
    memory: int = 0
    total: int = UNKNOWN
    reserved: int = UNKNOWN
    address: int = UNKNOWN
    memory_device: int = UNKNOWN
    device_type: int = UNKNOWN
    name: str | int | None = None
    labels: str | int | None = None


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: float = 0.0
    args: _Arguments = _Arguments()


_DECODER = msgspec.json.Decoder(list[_Event])
_TRACK = operator.attrgetter("pid", "tid")


class _Numbers(dict[Key, int]):
    """Things by their number, in the order in which they are first asked for."""

    def __missing__(self, key: Key) -> int:
        number = self[key] = len(self)
        return number


class Events:
    """Collects events.

    Attributes:
        unusable: events whose values make no sense, left out.
        unpaired: begins and ends that stand apart, as profilers other than PyTorch's write them; not read.
    """

    def __init__(self) -> None:
        self.unusable = 0
        self.unpaired = 0
        self.names: _Numbers[str] = _Numbers()
        self._tracks: _Numbers[tuple[int | str, int | str]] = _Numbers()
        self._named: dict[str, dict[Any, str]] = {"process_name": {}, "process_labels": {}, "thread_name": {}}
        self._parts: list[np.ndarray] = []
        self._allocations: list[np.ndarray] = []

    def take(self, text: bytes | memoryview) -> None:
        """Adds the events of a JSON list.

        Raises:
            ValueError: if it is no JSON; then none is added.
        """
        # A collection would walk over the events, which hold no cycles.
        enabled = gc.isenabled()
        gc.disable()
        try:
            try:
                decoded = _DECODER.decode(text)
            except msgspec.ValidationError:
                decoded = self._lenient(text)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                raise ValueError(str(error)) from error
            self._add(decoded)
        finally:
            if enabled:
                gc.enable()

    def columns(self) -> tuple[np.ndarray, np.ndarray, list[Track]]:
        """All events by their beginning, the longer ones first; all allocations; the tracks."""
        events = self._joined()
        order = np.lexsort((-events["duration"], events["begin"]))
        for column in EVENTS.names or ():  # one after the other: the whole table twice is what a large trace lacks
            events[column] = events[column][order]
        allocations = np.concatenate(self._allocations) if self._allocations else np.zeros(0, ALLOCATIONS)
        allocations = allocations[np.argsort(allocations["time"], kind="stable")]
        processes = self._named["process_name"] | {
            pid: label for pid, label in self._named["process_labels"].items() if label not in ("", "CPU")
        }
        tracks = [
            Track(pid, tid, processes.get(pid, ""), self._named["thread_name"].get((pid, tid), ""))
            for pid, tid in self._tracks
        ]
        return events, allocations, tracks

    def _joined(self) -> np.ndarray:
        """All parts as one; each is let go as soon as it is copied."""
        events = np.empty(sum(map(len, self._parts)), EVENTS)
        end = len(events)
        while self._parts:
            part = self._parts.pop()
            events[end - len(part) : end] = part
            end -= len(part)
        return events

    def _lenient(self, text: bytes | memoryview) -> list[_Event]:
        """Events one by one, without the fields whose values are of another type than PyTorch's."""
        try:
            values = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ValueError(str(error)) from error
        events = []
        for value in values:
            if not isinstance(value, dict):
                self.unusable += 1
                continue
            arguments = value.get("args")
            kept = {
                key: entry for key in _Event.__struct_fields__ if (entry := _as_field(key, value.get(key))) is not None
            }
            if isinstance(arguments, dict):
                kept["args"] = _Arguments(**{
                    field: entry
                    for field, key in zip(_Arguments.__struct_fields__, _Arguments.__struct_encode_fields__)
                    if (entry := _as_argument(field, arguments.get(key))) is not None
                })  # fmt: skip
            events.append(_Event(**kept))
        return events

    def _add(self, decoded: list[_Event]) -> None:
        durations = [event for event in decoded if event.ph == "X"]
        if len(durations) < len(decoded):
            self._add_others(event for event in decoded if event.ph != "X")
        if not durations:
            return
        begin, valid = nanoseconds([event.ts for event in durations])
        part = np.empty(len(durations), EVENTS)
        part["begin"] = begin
        names, tracks = self.names, self._tracks
        arguments = [event.args for event in durations]
        with np.errstate(invalid="ignore", over="ignore"):
            duration = np.array([event.dur for event in durations]) * 1000.0
            valid &= (duration >= 0) & (duration < _LONGEST_NS)
            part["duration"] = np.rint(np.where(valid, duration, 0))
        valid &= (begin >= _FIRST_NS) & (begin <= _LAST_NS - part["duration"])
        part["kind"] = [KIND.get(event.cat, OTHER) for event in durations]
        part["name"] = [names[event.name] for event in durations]
        part["track"] = [*map(tracks.__getitem__, map(_TRACK, durations))]
        part["correlation"] = _integers([entry.correlation for entry in arguments])
        part["external"] = _integers([entry.external for entry in arguments])
        old = part["external"] == UNKNOWN
        if old.any():
            part["external"] = np.where(old, _integers([entry.external_old for entry in arguments]), part["external"])
        part["bytes"] = _integers([entry.nbytes for entry in arguments])
        part["stream"] = _integers([entry.stream for entry in arguments], np.int32)
        part["device"] = _integers([entry.device for entry in arguments], np.int16)
        # Of work on a GPU, the process is its number.
        for at in np.flatnonzero(np.isin(part["kind"], ON_GPU) & (part["device"] == UNKNOWN)).tolist():
            pid = durations[at].pid
            part["device"][at] = pid if isinstance(pid, int) and 0 <= pid < _MOST_GPUS else UNKNOWN
        if not valid.all():
            self.unusable += int(np.count_nonzero(~valid))
            part = part[valid]
        self._parts.append(part)

    def _add_others(self, events: Iterable[_Event]) -> None:
        memory = []
        for event in events:
            if event.ph == "M":
                named = self._named.get(event.name)
                if named is not None:
                    key = (event.pid, event.tid) if event.name == "thread_name" else event.pid
                    said = event.args.labels if event.name == "process_labels" else event.args.name
                    named[key] = str(said if said is not None else "")
            elif event.ph in ("i", "I") and event.name == "[memory]":
                memory.append(event)
            elif event.ph in ("B", "E"):
                self.unpaired += 1
        if memory:
            time, valid = nanoseconds([event.ts for event in memory])
            part = np.empty(len(memory), ALLOCATIONS)
            part["time"] = time
            for column, field in (
                ("bytes", "memory"), ("total", "total"), ("reserved", "reserved"), ("address", "address"),
            ):  # fmt: skip
                part[column] = _integers([getattr(event.args, field) for event in memory])
            part["device"] = _integers([event.args.memory_device for event in memory], np.int16)
            part["device_type"] = _integers([event.args.device_type for event in memory], np.int16)
            part["track"] = [*map(self._tracks.__getitem__, map(_TRACK, memory))]
            valid &= (time >= _FIRST_NS) & (time <= _LAST_NS)
            self.unusable += int(np.count_nonzero(~valid))
            self._allocations.append(part[valid])


def _integers(values: list[int], dtype: Any = np.int64) -> np.ndarray:
    """Integers as a column; one that does not fit is unknown."""
    try:
        column = np.array(values, np.int64)
    except OverflowError:
        column = np.array([value if value in _INT64 else UNKNOWN for value in values], np.int64)
    limits = np.iinfo(dtype)
    if len(column) and (column.min() < limits.min or column.max() > limits.max):
        column = np.where((column >= limits.min) & (column <= limits.max), column, UNKNOWN)
    return column.astype(dtype, copy=False)


def _as_field(key: str, value: Any) -> Any:
    """A value of an event as that field's type, or None."""
    if key == "ts":
        return msgspec.Raw(msgspec.json.encode(value)) if isinstance(value, (int, float, str)) else None
    if key == "dur":
        try:
            return float(value)
        except (TypeError, ValueError):
            return None
    if key in ("pid", "tid"):
        return value if isinstance(value, (int, str)) else None if value is None else str(value)
    return value if key != "args" and isinstance(value, str) else None


def _as_argument(field: str, value: Any) -> Any:
    """A value of an event's ``args`` as that field's type, or None."""
    if field in ("name", "labels"):
        return value if isinstance(value, (int, str)) else None
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
