"""A Timeline as what the page reads: a JSON head of texts, and one binary block of number columns.

Bytes an event in the file, for a synthetic GEMM of 87,480 events with payloads and arrows: columns as JSON 20.3; with
differences instead of values where these are smaller 10.7; the same as narrow typed arrays in base64 8.7; these
deflated 1.05.

``assets/recording.js`` is the reader: the two change together, and ``VERSION`` with them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...timeline import PAYLOAD_NONE, Table, Timeline
from ...told import told

VERSION = 1

_CTA_COLUMNS = (
    "cta", "x", "y", "z", "sm", "begin_ns", "end_ns", "cycles", "ghz", "recorded", "dropped", "finished",
)  # fmt: skip
_ROW_COLUMNS = ("recorded", "dropped", "finished")
_INTEGERS = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)
# 6.3 million events a second and 1.05 bytes an event; level 1: 9.7 and 1.20, level 6: 3.7 and 0.97 (one core).
_LEVEL = 1


def pack(timeline: Timeline) -> tuple[dict[str, Any], bytes]:
    """Packs a Timeline.

    Returns:
        The head, of values that JSON can hold, and the deflated block.

    Raises:
        ValueError: if a table names a CTA that ``timeline.ctas`` lacks, or the slices are not ordered by CTA.
    """
    ctas = timeline.ctas[np.argsort(timeline.ctas["cta"], kind="stable")]
    slices, flows = timeline.slices, _ordered(timeline.flows)
    rows, instants = _ordered(timeline.rows), _ordered(timeline.instants)
    if (np.diff(slices["cta"].astype(np.int64)) < 0).any():
        raise ValueError("the Timeline's slices are not ordered by CTA")
    at = {
        name: _positions(ctas, table, name)
        for name, table in (("slices", slices), ("instants", instants), ("flows", flows), ("rows", rows))
    }
    counts = {name: np.bincount(positions, minlength=len(ctas)) for name, positions in at.items()}

    ranges, range_codes, range_sites = _distinct(slices, "group", "lane", "name", "depth")
    marks, mark_codes, mark_sites = _distinct(instants, "group", "lane", "name")
    edges, edge_codes, _ = _distinct(flows, "src", "dst")
    row_groups, group_codes, _ = _distinct(rows, "group")
    lanes = _lanes(timeline.groups, ranges, range_sites, marks, mark_sites)
    place = {(group, lane): number for number, (group, lane, _) in enumerate(lanes)}

    # An arrow's ends are kept as their distance from its slices' ends: zero wherever the destination was waiting.
    end = _whole(slices["start"]) + _whole(slices["duration"])
    src, dst = flows["src_slice"].astype(np.int64), flows["dst_slice"].astype(np.int64)
    first = (np.cumsum(counts["slices"]) - counts["slices"])[at["flows"]]

    columns: dict[str, np.ndarray] = {
        **{f"cta_{name}": ctas[name] for name in _CTA_COLUMNS},
        **{f"cta_{name}": count for name, count in counts.items()},
        **{f"row_{name}": rows[name] for name in _ROW_COLUMNS},
        "row_group": group_codes,
        "slice_range": range_codes,
        "slice_start": _differences(slices["start"], at["slices"]),
        "slice_duration": slices["duration"],
        "slice_cut": slices["cut"],
        **_payloads("slice", slices),
        "instant_mark": mark_codes,
        "instant_time": _differences(instants["time"], at["instants"]),
        **_payloads("instant", instants),
        "flow_edge": edge_codes,
        "flow_occurrence": _differences(flows["occurrence"], at["flows"]),
        "flow_src": _differences(src - first, at["flows"]),
        "flow_dst": _differences(dst - first, at["flows"]),
        "flow_start": _whole(flows["start"]) - end[src],
        "flow_end": _whole(flows["end"]) - end[dst],
    }
    sections, block = _block(columns)
    head = {
        "version": VERSION,
        "grid": [int(extent) for extent in timeline.grid],
        "lanes": lanes,
        "ranges": [[place[group, lane], name, depth] for group, lane, name, depth in ranges],
        "marks": [[place[group, lane], name] for group, lane, name in marks],
        "edges": edges,
        "rowGroups": [group for (group,) in row_groups],
        "axisError": _plain(timeline.axis_error_ns),
        "neverFired": [str(text) for text in timeline.never_fired],
        "told": told(timeline.meta),
        "meta": {str(key): _plain(value) for key, value in timeline.meta.items()},
        "columns": sections,
    }
    return head, block


def _ordered(table: Table) -> Table:
    """The table ordered by CTA, otherwise as it was."""
    if (np.diff(table["cta"].astype(np.int64)) < 0).any():
        return table[np.argsort(table["cta"], kind="stable")]
    return table


def _positions(ctas: Table, table: Table, what: str) -> np.ndarray:
    """Each row's position in ``ctas``."""
    numbers, wanted = ctas["cta"], table["cta"]
    if len(numbers) and numbers[0] == 0 and numbers[-1] == len(numbers) - 1:
        at = wanted.astype(np.int64)  # every CTA is there, as in most launches
    else:
        at = np.searchsorted(numbers, wanted)
    if len(wanted) and (not len(numbers) or (numbers[np.minimum(at, len(numbers) - 1)] != wanted).any()):
        raise ValueError(f"the Timeline's {what} name CTAs that its table of CTAs lacks")
    return at


def _distinct(table: Table, *names: str) -> tuple[list[list[Any]], np.ndarray, np.ndarray]:
    """The distinct tuples of some columns, in the order of first occurrence, as texts and integers.

    Returns:
        The tuples, for each row the position of its own, and for each tuple its least ``site`` (empty without one).
    """
    if not len(table):
        return [], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    key, size = table.codes(names[0]).astype(np.int64), int(table.codes(names[0]).max()) + 1
    for name in names[1:]:
        column = table.codes(name)
        extent = int(column.max()) + 1
        key = key * extent + column
        size *= extent
    if size > len(table):  # more tuples are possible than there are rows
        _, key = np.unique(key, return_inverse=True)
        key = key.reshape(-1)
        size = int(key.max()) + 1
    # Of all rows of a tuple the first one is what is written last.
    first = np.full(size, len(table))
    first[key[::-1]] = np.arange(len(table) - 1, -1, -1)
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(table))]
    rank = np.zeros(size, dtype=np.int64)
    rank[order] = np.arange(len(order))
    codes = rank[key]
    first = first[order]
    values = [table[first][name].tolist() for name in names]
    sites = np.zeros(0, dtype=np.int64)
    if "site" in table.column_names:
        sites = np.full(len(order), np.iinfo(np.int64).max)
        np.minimum.at(sites, codes, table["site"].astype(np.int64))
    return [list(value) for value in zip(*values)], codes, sites


def _lanes(
    groups: Sequence[str],
    ranges: list[list[Any]], range_sites: np.ndarray,
    marks: list[list[Any]], mark_sites: np.ndarray,
) -> list[list[Any]]:  # fmt: skip
    """The pairs of group and lane that any CTA recorded on, with their greatest depth: the rows of every figure.

    They are the same in every CTA, so that nothing moves from one to the next. Groups come in the launch's order, a
    group's lanes in that of their first markers in the source.
    """
    first: dict[tuple[str, str], int] = {}
    deepest: dict[tuple[str, str], int] = {}
    used = [(group, lane, depth, site) for (group, lane, _, depth), site in zip(ranges, range_sites)]
    used += [(group, lane, 0, site) for (group, lane, _), site in zip(marks, mark_sites)]
    for group, lane, depth, site in used:
        first[group, lane] = min(int(site), first.get((group, lane), int(site)))
        deepest[group, lane] = max(int(depth), deepest.get((group, lane), 0))
    rank = {group: number for number, group in enumerate(groups)}
    order = sorted(first, key=lambda key: (rank.get(key[0], len(rank)), key[0], first[key], key[1]))
    return [[group, lane, deepest[group, lane]] for group, lane in order]


def _differences(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Each value less the one before it in the same CTA; a CTA's first value stays what it is."""
    values = _whole(values)
    differences = np.diff(values, prepend=0)
    begins = np.diff(at, prepend=-1) != 0
    return np.where(begins, values, differences)


def _payloads(what: str, table: Table) -> dict[str, np.ndarray]:
    """Values and kinds, or empty columns where there is not one payload."""
    kind = table["payload_kind"]
    if not (kind != PAYLOAD_NONE).any():
        return {f"{what}_payload": np.zeros(0), f"{what}_payload_kind": np.zeros(0, dtype=np.uint8)}
    values = np.where(kind == PAYLOAD_NONE, 0.0, table["payload"])
    return {f"{what}_payload": values, f"{what}_payload_kind": kind}


def _whole(values: np.ndarray) -> np.ndarray:
    """As int64 where every value is an integer, else as float64."""
    values = np.asarray(values)
    if values.dtype.kind in "biu":
        return values.astype(np.int64)
    values = values.astype(np.float64)
    if np.isfinite(values).all() and (np.abs(values) < 2**53).all() and (values == np.rint(values)).all():
        return values.astype(np.int64)
    return values


def _narrow(values: np.ndarray) -> np.ndarray:
    """In the smallest type that JavaScript has a typed array for and that holds every value; little-endian."""
    values = _whole(values)
    if values.dtype.kind == "i":
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        for dtype in _INTEGERS:
            if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                return values.astype(np.dtype(dtype).newbyteorder("<"))
    return values.astype("<f8")


def _block(columns: dict[str, np.ndarray]) -> tuple[list[list[Any]], bytes]:
    """The columns one behind the other, deflated, and the name, type and length of each.

    The widest come first: then every column lies at a multiple of its own width, as a typed array needs.
    """
    narrow = {name: _narrow(values) for name, values in columns.items()}
    names = sorted(narrow, key=lambda name: -narrow[name].dtype.itemsize)
    sections = [[name, f"{narrow[name].dtype.kind}{narrow[name].dtype.itemsize}", len(narrow[name])] for name in names]
    return sections, zlib.compress(b"".join(narrow[name].tobytes() for name in names), _LEVEL)


def _plain(value: Any) -> Any:
    """``value`` as JSON can hold it; whatever else it is, as text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
