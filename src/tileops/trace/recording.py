"""Slots on the host, and as a file.

A recording holds what the device wrote and what the kernel knew about itself, and is decoded by the same code as a
live launch. The file is NumPy's ``.npz``: a zip archive with a checksum for each of its two members, read without
pickle.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .decode import decode_lines
from .errors import TraceError
from .sites import SiteTable
from .slots import HEADER_WORDS, STATE_DONE, WORD_STATE, layout
from .timeline import Timeline

VERSION = 1
SUFFIX = ".tltrace"


@dataclass(frozen=True)
class Recording:
    """A launch as recorded.

    Attributes:
        lines: (CTAs, words) uint64, without the words behind the last record of any row.
        table: the kernel's site table, its layout that of ``lines``.
        meta: what else is known of the launch.
    """

    lines: np.ndarray
    table: SiteTable
    meta: dict[str, Any]

    def decode(self) -> Timeline:
        """The recording's Timeline."""
        return decode_lines(self.lines, self.table, self.meta)

    def save(self, path: str | Path) -> Path:
        """Writes the recording to ``path`` and returns it."""
        path = Path(path)
        header = json.dumps({"version": VERSION, "meta": self.meta, "table": self.table.to_json()}).encode()
        with open(path, "wb") as file:
            np.savez_compressed(file, header=np.frombuffer(header, dtype=np.uint8), slots=self.lines)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Reads a recording.

        Raises:
            TraceError: if the file is missing, truncated, damaged, no recording, or of a newer version.
        """
        try:
            with np.load(path, allow_pickle=False) as archive:
                header = json.loads(archive["header"].tobytes())
                lines = archive["slots"]
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            raise TraceError(f"{path}: not a recording of tileops, or a damaged one ({error})") from error
        if not isinstance(header, dict) or header.get("version") != VERSION:
            version = header.get("version") if isinstance(header, dict) else None
            raise TraceError(f"{path}: recording of version {version}; this tileops reads version {VERSION}")
        return cls(lines, SiteTable.from_json(header["table"]), header["meta"])


def fetch(slots: Any, table: SiteTable, meta: dict[str, Any]) -> Recording:
    """Copies a launch's ``slots`` to the host: the headers first, then of each row only what was written.

    Args:
        slots: (CTAs, words) int64 tensor, on any device.
        table: the kernel's site table.
        meta: kept in the recording.

    Raises:
        TraceError: if the tensor is not that kernel's slots.
    """
    shape = tuple(slots.shape)
    if len(shape) != 2 or shape[1] != table.line_words or slots.element_size() != 8:
        raise TraceError(
            f"slots of kernel {table.kernel!r} must be (CTAs, {table.line_words}) int64, got {shape} of {slots.dtype}: "
            "pass the kernel's last output"
        )
    places = [group.layout for group in table.groups]
    starts = [place.offset + writer * place.row_words for place in places for writer in range(place.writers)]
    states = slots[:, [start + WORD_STATE for start in starts]].cpu().numpy().view(np.uint64)
    counts = np.where(states & np.uint64(0xFFFFFFFF) == STATE_DONE, states >> np.uint64(32), 0).max(axis=0, initial=0)
    most = [min(int(count), place.capacity) for count, place in
            zip(counts, (place for place in places for _ in range(place.writers)))]  # fmt: skip
    groups, kept, at, offset = [], [], 0, 0
    for group, place in zip(table.groups, places):
        capacity = max(1, *most[at : at + place.writers])
        small = replace(layout([place.record_words == 2], capacity, place.writers)[0], offset=offset)
        for start in starts[at : at + place.writers]:
            kept.append(slots[:, start : start + min(small.row_words, place.row_words)])
        small_rows = kept[-1].shape[1]
        if small_rows != small.row_words:
            raise AssertionError("a trimmed row is never longer than the row it comes from")
        groups.append(replace(group, layout=small))
        at, offset = at + place.writers, small.end
    lines = kept[0].new_empty((shape[0], offset))
    column = 0
    for part in kept:
        lines[:, column : column + part.shape[1]] = part
        column += part.shape[1]
    assert offset >= HEADER_WORDS
    return Recording(lines.cpu().numpy().view(np.uint64), replace(table, groups=tuple(groups)), meta)
