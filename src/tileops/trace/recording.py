"""Slots on the host, and as a file.

A recording holds what the device wrote and what the kernel knew about itself, and is decoded by the same code as a
live launch.

The file is a zip archive of one JSON text and of NumPy arrays, each with its checksum, read without pickle. A record
is stored as its difference from the one before, which holds little but the jitter of a duration; the differences'
bytes are laid out by significance, site and CTA, so that what is alike stands together. 800,000 records of a GEMM then
take 0.8 MB where compressing them as they are takes 1.8 MB. Only records that exist are stored; the headers say how
many each row has. (In version 2 all rows had as many as the fullest one of their group, zeros where they had fewer.)
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .decode import decode_lines
from .errors import TraceError
from .files import RECORDING_SUFFIX, whole
from .own_memory import in_own_memory
from .sites import END, SiteTable, wrong_version
from .slots import (
    HEADER_WORDS,
    SITE_SHIFT,
    STATE_DONE,
    STATE_OPEN,
    WORD_BEGIN,
    WORD_BYTES,
    WORD_GRID_XY,
    WORD_GRID_Z,
    WORD_STATE,
    GroupLayout,
)
from .timeline import Timeline

VERSION = 3
_DENSE = 2  # the version whose rows are all as long as the fullest one, which is still read
SUFFIX = RECORDING_SUFFIX

_INDEX = "recording.json"
# Filling, of a file that says less than it must weigh.
_WEIGHT = "weight"
# What is read of a file may take the first (bytes) or the second times its size, and about as much again meanwhile, so
# that a small file cannot fill a machine's memory. By itself no recording keeps to that: headers that are all alike
# deflate to a thousandth, and `lines` are as wide as their fullest row, however short the others are. So `save` makes a
# file heavier that would be too light.
_MEMORY, _RATIO = 1 << 28, 1000
# Bytes that a byte of JSON may become in Python: of "[],[],[]" 3 become 64.
_JSON = 32


@dataclass(frozen=True)
class Recording:
    """A launch as recorded.

    Attributes:
        lines: (CTAs, words) uint64: ``slots``; rows may be as short as the fullest one of their group.
        table: the kernel's site table, its layout that of ``lines``.
        meta: what else is known of the launch, in types that JSON has.
    """

    lines: np.ndarray
    table: SiteTable
    meta: dict[str, Any]

    def decode(self, compensate: bool = False) -> Timeline:
        """The recording's Timeline.

        Args:
            compensate: take the recorder's own cost, as it was measured on the device that recorded, out of all ranges.
                Durations can then be shorter than what the kernel spent by the jitter of that cost, never negative.

        Raises:
            TraceError: if the recording is damaged, or the cost is wanted and not known.
        """
        if not compensate:
            return decode_lines(self.lines, self.table, self.meta)
        probe = self.meta.get("probe", {"error": "it was not measured"})
        try:
            cost = _costs(self.table, probe)
            known = np.isfinite(cost).all()
        except (KeyError, IndexError, TypeError, ValueError):
            known = False
        if not known:
            why = probe["error"] if isinstance(probe, dict) and "error" in probe else f"its meta holds {probe!r}"
            raise TraceError(f"compensate: what a record cost on this recording's device is unknown: {why}")
        return decode_lines(self.lines, self.table, {**self.meta, "compensated": True}, cost)

    def save(self, path: str | Path) -> Path:
        """Writes the recording to ``path`` and returns it. Equal recordings make equal files.

        The file's folders are made, a file that is there is replaced, and it appears whole or not at all.

        Raises:
            TraceError: if the file cannot be written.
        """
        table = _shortened(self.table, self.lines[:, [group.layout.offset for group in self.table.groups]])
        index = {"version": VERSION, "meta": self.meta, "table": table.to_json(), "ctas": len(self.lines)}
        members = {_INDEX: json.dumps(index, sort_keys=True).encode()}
        for number, group in enumerate(self.table.groups):
            for name, array in _packed(self.lines, group.layout, self.table).items():
                content = io.BytesIO()
                np.lib.format.write_array(content, array, allow_pickle=False)
                members[_member(number, name)] = content.getvalue()
        memory = _memory({name: len(member) for name, member in members.items()}) + _line_bytes(len(self.lines), table)
        path = _as_path(path)
        try:
            with whole(path) as file, zipfile.ZipFile(file, "w") as archive:
                for name, member in members.items():
                    _write(archive, name, member, zipfile.ZIP_DEFLATED)
                if memory > max(_MEMORY, _RATIO * file.tell()):
                    _write(archive, _WEIGHT, bytes(-(-(memory - _RATIO * file.tell()) // (_RATIO - 1))))
        except (OSError, ValueError) as error:
            raise TraceError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Reads a recording.

        Raises:
            TraceError: if the file is missing, truncated, damaged, no recording, or of a newer version.
        """
        path = _as_path(path)
        try:
            with zipfile.ZipFile(path) as archive:
                return cls._of(archive, path)
        except TraceError:
            raise
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error
        except Exception as error:  # whatever damaged and foreign files set off in zipfile, json and NumPy
            raise TraceError(f"{path}: not a recording of tileops, or a damaged one ({error!r})") from error

    @classmethod
    def _of(cls, archive: zipfile.ZipFile, path: Path) -> Recording:
        members = archive.infolist()
        if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
            raise ValueError("it is compressed in another way")  # of which zipfile unpacks any amount at once
        memory = _memory({member.filename: member.file_size for member in members})
        _check_memory(memory, path)
        with archive.open(_INDEX) as member:
            index = json.loads(member.read(archive.getinfo(_INDEX).file_size))
        version, ctas = index["version"], index["ctas"]
        if version not in (VERSION, _DENSE):
            raise TraceError(f"{path}: {wrong_version('a recording', version, VERSION)}")
        if not isinstance(index["meta"], dict):
            raise ValueError("its meta is no dictionary")
        try:
            table = SiteTable.from_json(index["table"])
            table.check()
        except TraceError as error:
            raise TraceError(f"{path}: {error}") from error
        _check_memory(memory + _line_bytes(ctas, table), path)
        headers = []
        for number, group in enumerate(table.groups):
            planes = _array(archive, number, "headers", "u1", (WORD_BYTES, HEADER_WORDS, ctas))
            headers.append(_words(planes, np.uint64).T)
            if group.layout.capacity != max(_counts(headers[-1], group.layout).max(initial=0), 1):
                raise ValueError("its rows are not as long as the fullest one")
        lines = np.zeros((ctas, table.line_words), dtype=np.uint64)
        for number, group in enumerate(table.groups):
            place = group.layout
            lines[:, place.offset : place.offset + HEADER_WORDS] = headers[number]
            stored = _counts(headers[number], place)
            order = _array(archive, number, "order", "<i4", (int(stored.max(initial=0)),))
            arrays = {"order": order}
            for name, size in (("records", 8), ("payloads", 4))[: place.record_words]:
                shape = (len(order), ctas) if version == _DENSE else (int(stored.sum()),)
                planes = _array(archive, number, name, "u1", (size, *shape))
                arrays[name] = planes[:, order[:, None] < stored] if version == _DENSE else planes
            _unpack(arrays, lines, place)
        return cls(lines, table, index["meta"])


def _as_path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise TraceError(f"a recording's path must be a text or a Path, got {path!r}")
    return Path(path)


def _costs(table: SiteTable, probe: dict[str, Any]) -> np.ndarray:
    """(sites,) cycles behind each site's clock read, by how many records are stored there, and how wide they are."""
    stored = table.stored or (1,) * len(table.sites)
    kinds = ["payload" if group.layout.record_words == 2 else "plain" for group in table.groups]
    of_site = [kinds[table.ranges[events[0][1]].group] for events in table.sites]
    return np.array([probe["behind"][kind][count] for kind, count in zip(of_site, stored)], dtype=np.float64)


def fetch(slots: Any, table: SiteTable, meta: dict[str, Any]) -> Recording:
    """Copies a launch's ``slots`` to the host: the headers first, then of each row only what was written.

    Args:
        slots: (CTAs, words) int64 tensor, on any device; from the CPU target it may have room for more CTAs, and more
            dimensions.
        table: the kernel's site table.
        meta: kept in the recording.

    Raises:
        TraceError: if the tensor is not that kernel's slots.
    """
    import torch

    if not table.target:  # the build did not know it
        table = replace(table, target="cuda" if getattr(slots, "is_cuda", False) else "c")
    words = table.line_words
    shape, dtype = tuple(getattr(slots, "shape", ())), getattr(slots, "dtype", type(slots).__name__)
    fits = shape[1:] == (words,) or (table.target == "c" and len(shape) > 1 and shape[-1] % words == 0)
    if not isinstance(slots, torch.Tensor) or dtype != torch.int64 or not fits:
        raise TraceError(
            f"slots of kernel {table.kernel!r} must be a tensor of (CTAs, {words}) int64, got {shape} of {dtype}: "
            "pass the kernel's last output"
        )
    if table.target == "c":
        slots = slots.reshape(-1, words)
        slots = slots[: _launched(slots[:1].numpy().view(np.uint64), table, len(slots))]
    places = [group.layout for group in table.groups]
    states = _copied(slots, [place.offset + WORD_STATE for place in places]).view(np.uint64)
    short = _shortened(table, states)
    rows = [
        _copied(slots, slice(place.offset, place.offset + group.layout.row_words))
        for place, group in zip(places, short.groups)
    ]
    return Recording(np.concatenate(rows, axis=1).view(np.uint64), short, meta)


def _copied(slots: Any, words: Any) -> np.ndarray:
    """Some words of each line, on the host."""
    chosen = in_own_memory(slots.device, lambda: slots[:, words].contiguous()) if slots.is_cuda else slots[:, words]
    return np.asarray(chosen.cpu().numpy())


def _launched(first_line: np.ndarray, table: SiteTable, most: int) -> int | None:
    """How many lines the launch has, ``most`` at most, by the first one; None if its CTA opened no row."""
    if first_line.size == 0 or int(first_line[0, WORD_STATE]) & 0xFFFFFFFF not in (STATE_OPEN, STATE_DONE):
        return None
    xy, z = int(first_line[0, WORD_GRID_XY]), int(first_line[0, WORD_GRID_Z])
    return len(table.choice.numbers((xy & 0xFFFFFFFF) * (xy >> 32) * z, most))


def _stored(states: np.ndarray, capacity: Any) -> np.ndarray:
    """How many records rows hold, by the first words of their headers."""
    done = (states & np.uint64(0xFFFFFFFF)) == STATE_DONE
    return np.where(done, np.minimum((states >> np.uint64(32)).astype(np.int64), capacity), 0)


def _shortened(table: SiteTable, states: np.ndarray) -> SiteTable:
    """The table for lines in which each row is only as long as the fullest one of its group.

    ``states`` are (CTAs, groups): the first word of each header.
    """
    most = _stored(states, [group.layout.capacity for group in table.groups]).max(axis=0, initial=1)
    groups, offset = [], 0
    for group, capacity in zip(table.groups, most.tolist()):
        groups.append(replace(group, layout=GroupLayout(offset, capacity, group.layout.record_words)))
        offset = groups[-1].layout.end
    return replace(table, groups=tuple(groups))


# ---------------------------------------------------------------------------------------------------------------------
# Records in the file


def _member(group: int, name: str) -> str:
    return f"{group}.{name}.npy"


def _write(archive: zipfile.ZipFile, name: str, content: bytes, how: int = zipfile.ZIP_STORED) -> None:
    info = zipfile.ZipInfo(name)  # made from a name alone, it bears no date
    info.external_attr = 0o644 << 16
    archive.writestr(info, content, how, 9)


def _memory(sizes: dict[str, int]) -> int:
    """Bytes that reading members of these sizes takes."""
    return sum(sizes.values()) + (_JSON - 1) * sizes.get(_INDEX, 0)


def _check_memory(memory: int, path: Path) -> None:
    if memory > max(_MEMORY, _RATIO * os.path.getsize(path)):
        raise TraceError(f"{path}: not a recording of tileops: it would take {memory} bytes of memory")


def _line_bytes(ctas: int, table: SiteTable) -> int:
    return ctas * table.line_words * WORD_BYTES


def _array(archive: zipfile.ZipFile, group: int, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array of the file, which is unpacked only if it is what is due, and no further than the archive says."""
    with archive.open(_member(group, name)) as member:
        written_as, due = np.lib.format.read_magic(member), np.dtype(dtype)
        found = np.lib.format.read_array_header_1_0(member)
        size = archive.getinfo(member.name).file_size - member.tell()
        if written_as != (1, 0) or found != (shape, False, due) or size != math.prod(shape) * due.itemsize:
            raise ValueError(f"{member.name}: {found} in {size} bytes where {(shape, False, due)} is due")
        return np.frombuffer(member.read(size), due).reshape(shape)


def _packed(lines: np.ndarray, place: GroupLayout, table: SiteTable) -> dict[str, np.ndarray]:
    """A group's headers, its records as differences, and their payloads, for :func:`_unpack`."""
    header, record, payload, stored = _row_parts(lines, place)
    held = np.arange(record.shape[1]) < stored[:, None]
    steps = record[held] - np.repeat(header[:, WORD_BEGIN], stored)
    site = (steps >> np.uint64(SITE_SHIFT)).astype(np.uint16)
    first = (np.cumsum(stored) - stored)[stored > 0]
    from_begin = steps[first]
    steps[1:] -= steps[:-1]
    steps[first] = from_begin
    fullest = site[np.repeat(stored == record.shape[1], stored)][: record.shape[1]]
    order = np.argsort(fullest, kind="stable").astype("<i4")
    there = _in_rows(order, stored)
    arrays = {"headers": _planes(header.T), "records": _planes(steps[there]), "order": order}
    if place.record_words == 2:
        # The device writes a record's second word only if its site has a payload, and only begins and instants have.
        written = [any(kind != END and table.ranges[i].payload for kind, i in events) for events in table.sites]
        values = np.where(np.array([*written, False]).take(site, mode="clip"), payload[held], 0)
        arrays["payloads"] = _planes(values.astype(np.uint32)[there])
    return arrays


def _unpack(arrays: dict[str, np.ndarray], lines: np.ndarray, place: GroupLayout) -> None:
    """Writes what :func:`_packed` made into ``lines``, which have the headers; other words stay as they are."""
    header, record, payload, stored = _row_parts(lines, place)
    order = arrays["order"]
    if (np.sort(order) != np.arange(len(order))).any():
        raise ValueError("its records are not in an order")
    held = np.arange(len(order)) < stored[:, None]
    there = _in_rows(order, stored)
    total = np.zeros(len(there) + 1, dtype=np.uint64)  # a record's is that of all steps in the rows up to it
    words = total[1:]
    words[there] = _words(arrays["records"], np.uint64)
    np.cumsum(total, out=total)
    words += np.repeat(header[:, WORD_BEGIN] - total[np.cumsum(stored) - stored], stored)
    record[held] = words
    if place.record_words == 2:
        words[there] = _words(arrays["payloads"], np.uint32)
        payload[held] = words


def _in_rows(order: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """For each record of the file, its position among all records, those of a row in time and row after row.

    The file has the records that are ``order[0]``-th in their rows first, by CTA, then those that are ``order[1]``-th.
    """
    held = order[:, None] < stored
    begin = np.cumsum(stored) - stored
    return np.broadcast_to(begin, held.shape)[held] + np.repeat(order, np.count_nonzero(held, axis=1))


def _counts(header: np.ndarray, place: GroupLayout) -> np.ndarray:
    """How many records each row of a group holds."""
    return _stored(header[:, WORD_STATE], place.capacity)


def _row_parts(lines: np.ndarray, place: GroupLayout) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Views of a group's headers, records and payload words, as wide as its fullest row; and how many each row has."""
    header = lines[:, place.offset : place.offset + HEADER_WORDS]
    stored = _counts(header, place)
    behind = place.offset + HEADER_WORDS
    words = lines[:, behind : behind + int(stored.max(initial=0)) * place.record_words]
    payload = words[:, 1::2] if place.record_words == 2 else words[:, :0]
    return header, words[:, :: place.record_words], payload, stored


def _planes(words: np.ndarray) -> np.ndarray:
    """Words as (bytes of a word, *shape of the words) bytes."""
    little = np.ascontiguousarray(words).astype(words.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(np.moveaxis(little.view(np.uint8).reshape(*words.shape, words.itemsize), -1, 0))


def _words(planes: np.ndarray, dtype: type[np.generic]) -> np.ndarray:
    """The words that :func:`_planes` took apart."""
    return np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view(np.dtype(dtype).newbyteorder("<"))[..., 0]
