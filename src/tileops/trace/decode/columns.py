"""Columns of blocks put together into columns of the launch."""

from __future__ import annotations

import numpy as np


class Columns:
    """Columns that grow up to a known bound, in one piece of memory.

    Fresh memory costs more than decoding into it. One large piece comes in large pages (on a virtual machine a million
    events took 26 ms instead of 40), and of what is never written to none comes at all.
    """

    def __init__(self, bound: int):
        self.length = 0
        self._bound = -(-bound // 8) * 8  # keeps the columns aligned
        self._columns: dict[str, np.ndarray] = {}

    def append(self, columns: dict[str, np.ndarray]) -> None:
        """Adds rows."""
        if not self._columns:
            widths = [values.itemsize for values in columns.values()]
            memory = np.empty(self._bound * sum(widths), dtype=np.uint8)
            starts = self._bound * (np.cumsum(widths) - widths)
            for (name, values), start, width in zip(columns.items(), starts, widths):
                self._columns[name] = memory[start : start + self._bound * width].view(values.dtype)
        first, behind = self.length, self.length + len(next(iter(columns.values())))
        for name, values in columns.items():
            self._columns[name][first:behind] = values
        self.length = behind

    def columns(self) -> dict[str, np.ndarray]:
        """The rows added."""
        return {name: column[: self.length] for name, column in self._columns.items()}


def joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Columns of all parts, one part after the other."""
    return {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
