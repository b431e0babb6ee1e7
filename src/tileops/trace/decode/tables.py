"""The Timeline's tables: which columns they have, and how those that follow from others are made.

The latter are made when they are first read.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..axis import Axis
from ..timeline import Table
from .rows import Rows
from .site_arrays import Sites


def _of_site(values: np.ndarray, table: Table) -> np.ndarray:
    return values.take(table["site"])


def _nanoseconds(axis: Axis, column: str, table: Table) -> np.ndarray:
    return axis.nanoseconds(table["cta"], table[column])


def _duration_ns(axis: Axis, table: Table) -> np.ndarray:
    return axis.nanoseconds(table["cta"], table["start"] + table["duration"]) - table["start_ns"]


def _no_payload(table: Table) -> np.ndarray:
    return np.full(len(table), np.nan)


def slices_table(columns: dict[str, np.ndarray], sites: Sites, axis: Axis) -> Table:
    """One row a range that began."""
    of_site = {column: partial(_of_site, values) for column, values in sites.codes.items()}
    return Table(
        {
            "cta": columns["cta"],
            "group": of_site["group"],
            "lane": of_site["lane"],
            "name": of_site["name"],
            "start": columns["start"],
            "duration": columns["duration"],
            "payload": columns.get("payload", _no_payload),
            "payload_kind": of_site["payload_kind"],
            "depth": of_site["depth"],
            "start_ns": partial(_nanoseconds, axis, "start"),
            "duration_ns": partial(_duration_ns, axis),
            "cut": columns["cut"],
            "site": columns["site"],
        },
        sites.vocabularies,
    )


def instants_table(columns: dict[str, np.ndarray], sites: Sites, axis: Axis) -> Table:
    """One row an instant mark that was passed."""
    of_site = {column: partial(_of_site, values) for column, values in sites.codes.items()}
    return Table(
        {
            "cta": columns["cta"],
            "group": of_site["group"],
            "lane": of_site["lane"],
            "name": of_site["name"],
            "time": columns["time"],
            "payload": columns.get("payload", _no_payload),
            "payload_kind": of_site["payload_kind"],
            "time_ns": partial(_nanoseconds, axis, "time"),
            "site": columns["site"],
        },
        sites.vocabularies,
    )


def flows_table(columns: dict[str, np.ndarray], slices: Table) -> Table:
    """Flows, as far as the slices that they connect know them.

    A flow arrives at the end of a slice that was waiting for it, else at its start.
    """
    names, groups = slices.vocabulary("name"), slices.vocabulary("group")
    return Table(
        {
            "cta": partial(_of_slice, slices, "cta", "src_slice"),
            "src": partial(_of_slice, slices, "name", "src_slice"),
            "dst": partial(_of_slice, slices, "name", "dst_slice"),
            "src_group": partial(_of_slice, slices, "group", "src_slice"),
            "dst_group": partial(_of_slice, slices, "group", "dst_slice"),
            **columns,
            "start": partial(_left, slices, ""),
            "end": partial(_arrived, slices, ""),
            "start_ns": partial(_left, slices, "_ns"),
            "end_ns": partial(_arrived, slices, "_ns"),
        },
        {"src": names, "dst": names, "src_group": groups, "dst_group": groups},
    )


def _of_slice(slices: Table, column: str, end: str, flows: Table) -> np.ndarray:
    return slices.codes(column).take(flows[end])


def _left(slices: Table, unit: str, flows: Table) -> np.ndarray:
    src = flows["src_slice"]
    return slices["start" + unit].take(src) + slices["duration" + unit].take(src)


def _arrived(slices: Table, unit: str, flows: Table) -> np.ndarray:
    dst = flows["dst_slice"]
    begun = slices["start" + unit].take(dst)
    return np.where(begun < flows["start" + unit], begun + slices["duration" + unit].take(dst), begun)


def rows_table(recorded: np.ndarray, dropped: np.ndarray, rows: Rows) -> Table:
    """One row a CTA and group; the events recorded and dropped are (CTAs, groups)."""
    ctas, groups = recorded.shape
    columns: dict[str, np.ndarray] = {
        "cta": np.repeat(rows.number, groups),
        "group": np.tile(np.arange(groups, dtype=np.uint16), ctas),
        "recorded": recorded.reshape(-1),
        "dropped": dropped.reshape(-1),
        "finished": rows.closed.reshape(-1),
    }
    return Table(columns, {"group": [group.name for group in rows.table.groups]})


def ctas_table(recorded: np.ndarray, dropped: np.ndarray, rows: Rows, axis: Axis) -> Table:
    """One row a CTA; the events recorded and dropped are (CTAs, groups)."""
    number = rows.number
    cycles = np.where(rows.finished, rows.end.max(axis=1), 0)
    columns: dict[str, np.ndarray] = {
        "cta": number,
        "x": number % rows.grid[0],
        "y": number // rows.grid[0] % rows.grid[1],
        "z": number // (rows.grid[0] * rows.grid[1]),
        "sm": rows.sm.astype(np.int32),
        "begin_ns": axis.nanoseconds(number, np.zeros_like(cycles)),
        "end_ns": axis.nanoseconds(number, cycles),
        "cycles": cycles,
        "ghz": axis.ghz(cycles),
        "recorded": recorded.sum(axis=1),
        "dropped": dropped.sum(axis=1),
        "finished": rows.finished,
    }
    return Table(columns)
