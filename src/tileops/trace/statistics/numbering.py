"""Which range each slice belongs to: what all statistics start from.

Columns that are made on demand (groups, lanes, names) are read in blocks and not kept: of ten million events the three
take 30 MB, the number of a slice's range takes 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..timeline import Table, Timeline

KEYS = ("group", "lane", "name")
# Slices in a block: its columns stay in a core's cache.
_BLOCK = 1 << 17


@dataclass(frozen=True)
class Numbering:
    """The ranges of a Timeline: a group, lane and name each, numbered by group and lane, then by first occurrence.

    Attributes:
        slices: the Timeline's.
        keys: column -> (ranges,) codes of the range's group, lane and name.
        of_slice: (slices,) the number of each slice's range.
    """

    slices: Table
    keys: dict[str, np.ndarray]
    of_slice: np.ndarray

    @classmethod
    def of(cls, timeline: Timeline) -> Numbering:
        """Numbers the ranges of a Timeline."""
        slices = timeline.slices
        sizes = [max(len(slices.vocabulary(key)), 1) for key in KEYS]
        known = np.empty(0, dtype=np.int64)  # ascending
        first = np.empty(0, dtype=np.int64)  # the position where each was first seen
        of_slice = np.empty(len(slices), dtype=np.uint16)
        for begin in range(0, len(slices), _BLOCK):
            combined = _combined(slices[begin : begin + _BLOCK], sizes)
            at = np.searchsorted(known, combined)
            new = known.take(at, mode="clip") != combined if len(known) else np.ones(len(combined), dtype=bool)
            if new.any():
                places = np.flatnonzero(new)
                found, seen = np.unique(combined[places], return_index=True)
                known, first = np.append(known, found), np.append(first, begin + places[seen])
                order = np.argsort(known)
                moved = np.empty(len(order), dtype=np.int64)
                moved[order] = np.arange(len(order))
                known, first = known[order], first[order]
                if len(known) > np.iinfo(of_slice.dtype).max:
                    of_slice = of_slice.astype(np.uint32)
                of_slice[:begin] = moved.take(of_slice[:begin])
                at = np.searchsorted(known, combined)
            of_slice[begin : begin + _BLOCK] = at
        group, rest = known // (sizes[1] * sizes[2]), known % (sizes[1] * sizes[2])
        order = np.lexsort((first, rest // sizes[2], group))
        moved = np.empty(len(order), dtype=of_slice.dtype)
        moved[order] = np.arange(len(order))
        codes = [group[order], (rest // sizes[2])[order], (rest % sizes[2])[order]]
        for begin in range(0, len(slices), _BLOCK):
            of_slice[begin : begin + _BLOCK] = moved.take(of_slice[begin : begin + _BLOCK])
        return cls(slices, dict(zip(KEYS, codes)), of_slice)

    def __len__(self) -> int:
        return len(self.keys["group"])

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.of_slice, kind="stable")  # 16 bits: a radix sort
        if len(order) < 1 << 31:
            order = order.astype(np.int32)
        return order, np.searchsorted(self.of_slice, np.arange(len(self) + 1), sorter=order)

    def positions(self, number: int) -> np.ndarray:
        """Where the slices of a range are, ascending: by CTA, then by start."""
        order, first = self._order
        return order[first[number] : first[number + 1]]

    @cached_property
    def lanes(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """For each range the number of its lane, and the codes of the lanes' groups and lanes, by group and lane."""
        group, lane = self.keys["group"], self.keys["lane"]
        new = np.append(True, (np.diff(group) != 0) | (np.diff(lane) != 0))[: len(self)]
        return np.cumsum(new) - 1, {"group": group[new], "lane": lane[new]}

    def blocks(self) -> Iterator[slice]:
        """The slices in blocks of whole CTAs."""
        cta = self.slices.codes("cta")
        begin = 0
        while begin < len(cta):
            end = min(begin + _BLOCK, len(cta))
            if end < len(cta):  # back to where the last CTA begins, or on to where a CTA that fills the block ends
                first = int(np.searchsorted(cta, cta[end], side="left"))
                end = first if first > begin else int(np.searchsorted(cta, cta[end], side="right"))
            yield slice(begin, end)
            begin = end

    def table(
        self,
        columns: dict[str, np.ndarray],
        number: np.ndarray | None = None,
        vocabularies: Mapping[str, Sequence[str]] | None = None,
    ) -> Table:
        """A Table that begins with group, lane and name of the ranges with these numbers, all by default."""
        keys = {key: codes if number is None else codes[number] for key, codes in self.keys.items()}
        texts = {key: self.slices.vocabulary(key) for key in KEYS}
        return Table({**keys, **columns}, {**texts, **(vocabularies or {})})


def runs(values: np.ndarray) -> np.ndarray:
    """Where runs of equal values begin."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])


def _combined(part: Table, sizes: list[int]) -> np.ndarray:
    """One integer a slice, that sorts by group, then lane."""
    group, lane, name = (part.codes(key).astype(np.int64) for key in KEYS)
    return (group * sizes[1] + lane) * sizes[2] + name
