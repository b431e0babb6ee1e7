"""Slots on the host, and as a file.

A recording holds what the device wrote and what the kernel knew about itself, and is decoded by the same code as a
live launch.

The file is a zip archive of one JSON text and of NumPy arrays, each with its checksum, read without pickle. A record
is stored as its difference from the one before, which holds little but the jitter of a duration; the differences'
bytes are laid out by significance, site and CTA, so that what is alike stands together. 800,000 records of a GEMM then
take 0.8 MB where compressing them as they are takes 1.8 MB.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .decode import decode_lines
from .errors import TraceError
from .files import RECORDING_SUFFIX, whole
from .own_memory import own_memory
from .sites import END, SiteTable, wrong_version
from .slots import (
    HEADER_WORDS,
    SITE_SHIFT,
    STATE_DONE,
    STATE_OPEN,
    WORD_BEGIN,
    WORD_GRID_XY,
    WORD_GRID_Z,
    WORD_STATE,
    GroupLayout,
)
from .timeline import Timeline

VERSION = 2
SUFFIX = RECORDING_SUFFIX

_INDEX = "recording.json"
# A file may unpack to the first (bytes), or to the second times its size. What wants more is no recording.
_UNPACKED, _RATIO = 1 << 26, 200


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
        path = _as_path(path)
        try:
            with whole(path) as file, zipfile.ZipFile(file, "w") as archive:
                for name, member in members.items():
                    info = zipfile.ZipInfo(name)  # made from a name alone, it bears no date
                    info.external_attr = 0o644 << 16
                    archive.writestr(info, member, zipfile.ZIP_DEFLATED, 9)
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
                unpacked = sum(member.file_size for member in archive.infolist())
                if unpacked > max(_UNPACKED, _RATIO * os.path.getsize(path)):
                    raise TraceError(f"{path}: not a recording of tileops: it unpacks to {unpacked} bytes")
                return cls._of(archive, path)
        except TraceError:
            raise
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error
        except Exception as error:  # whatever damaged and foreign files set off in zipfile, json and NumPy
            raise TraceError(f"{path}: not a recording of tileops, or a damaged one ({error!r})") from error

    @classmethod
    def _of(cls, archive: zipfile.ZipFile, path: str | Path) -> Recording:
        index = json.loads(archive.read(_INDEX))
        if index["version"] != VERSION:
            raise TraceError(f"{path}: {wrong_version('a recording', index['version'], VERSION)}")
        if not isinstance(index["meta"], dict):
            raise ValueError("its meta is no dictionary")
        try:
            table = SiteTable.from_json(index["table"])
            table.check()
        except TraceError as error:
            raise TraceError(f"{path}: {error}") from error
        lines = np.zeros((index["ctas"], table.line_words), dtype=np.uint64)
        for number, group in enumerate(table.groups):
            with_payload = group.layout.record_words == 2
            arrays = {}
            for name in ("headers", "records", "order", *(("payloads",) if with_payload else ())):
                content = io.BytesIO(archive.read(_member(number, name)))
                arrays[name] = np.lib.format.read_array(content, allow_pickle=False)
            _unpack(arrays, lines, group.layout)
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
    with own_memory(slots.device):
        states = slots[:, [place.offset + WORD_STATE for place in places]].cpu().numpy().view(np.uint64)
        short = _shortened(table, states)
        rows = [
            slots[:, place.offset : place.offset + group.layout.row_words].cpu().numpy()
            for place, group in zip(places, short.groups)
        ]
    return Recording(np.concatenate(rows, axis=1).view(np.uint64), short, meta)


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


def _packed(lines: np.ndarray, place: GroupLayout, table: SiteTable) -> dict[str, np.ndarray]:
    """A group's headers, its records as differences, and their payloads, for :func:`_unpack`."""
    header, record, payload, held = _row_parts(lines, place)
    begin = header[:, [WORD_BEGIN]]
    steps = np.where(held, record - np.concatenate([begin, record[:, :-1]], axis=1), 0)
    site = np.where(held, (record - begin) >> np.uint64(SITE_SHIFT), len(table.sites)).astype(np.int64)
    order = np.argsort(site[held.sum(axis=1).argmax()], kind="stable")
    arrays = {"headers": _planes(header), "records": _planes(steps[:, order]), "order": order.astype(np.int32)}
    if place.record_words == 2:
        # The device writes a record's second word only if its site has a payload, and only begins and instants have.
        written = [any(kind != END and table.ranges[i].payload for kind, i in events) for events in table.sites]
        held = held & np.array([*written, False]).take(site, mode="clip")
        arrays["payloads"] = _planes(np.where(held, payload, 0)[:, order].astype(np.uint32))
    return arrays


def _unpack(arrays: dict[str, np.ndarray], lines: np.ndarray, place: GroupLayout) -> None:
    """Writes what :func:`_packed` made into ``lines``; words that hold nothing stay as they are."""
    header = lines[:, place.offset : place.offset + HEADER_WORDS]
    header[:] = _words(arrays["headers"], np.uint64, header.shape)
    header, record, payload, held = _row_parts(lines, place)
    order = arrays["order"]
    places = np.argsort(order, kind="stable")
    if order.dtype.kind != "i" or order.shape != record.shape[1:] or (order[places] != np.arange(len(order))).any():
        raise ValueError("its records are not in an order")
    steps = _words(arrays["records"], np.uint64, record.shape)[:, places]
    np.copyto(record, header[:, [WORD_BEGIN]] + np.cumsum(steps, axis=1, dtype=np.uint64), where=held)
    if place.record_words == 2:
        np.copyto(payload, _words(arrays["payloads"], np.uint32, record.shape)[:, places], where=held)


def _row_parts(lines: np.ndarray, place: GroupLayout) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Views of a group's headers, records and payload words, as wide as its fullest row; and which records exist."""
    row = lines[:, place.offset : place.end]
    stored = _stored(row[:, WORD_STATE], place.capacity)
    most = int(stored.max(initial=0))
    words = row[:, HEADER_WORDS : HEADER_WORDS + most * place.record_words]
    payload = words[:, 1::2] if place.record_words == 2 else words[:, :0]
    return row[:, :HEADER_WORDS], words[:, :: place.record_words], payload, np.arange(most) < stored[:, None]


def _planes(words: np.ndarray) -> np.ndarray:
    """(CTAs, n) words as (bytes of a word, n, CTAs) bytes."""
    columns = np.ascontiguousarray(words.T).astype(words.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(columns.view(np.uint8).reshape(*columns.shape, words.itemsize).transpose(2, 0, 1))


def _words(planes: np.ndarray, dtype: type[np.generic], shape: tuple[int, ...]) -> np.ndarray:
    """The (CTAs, n) words that :func:`_planes` took apart."""
    little = np.dtype(dtype).newbyteorder("<")
    if planes.dtype != np.uint8 or planes.shape != (little.itemsize, *shape[::-1]):
        raise ValueError(f"bytes of shape {planes.shape} where words of shape {shape} are due")
    return np.ascontiguousarray(planes.transpose(1, 2, 0)).view(little)[..., 0].T
