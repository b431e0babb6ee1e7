"""The site table as arrays, so that what a record's site means is looked up for whole columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..sites import BEGIN, END, INSTANT, SiteTable
from ..timeline import PAYLOAD_FLOAT, PAYLOAD_INT, PAYLOAD_NONE

KINDS = (BEGIN, END, INSTANT)
_PAYLOADS = {"": PAYLOAD_NONE, "i": PAYLOAD_INT, "u": PAYLOAD_INT, "f": PAYLOAD_FLOAT}
PAYLOAD_TYPES = {"i": np.int32, "u": np.uint32, "f": np.float32}


@dataclass(frozen=True)
class Sites:
    """The site table as arrays."""

    vocabularies: dict[str, tuple[str, ...]]
    codes: dict[str, np.ndarray]  # column -> (ranges,) its value for each range
    payload_type: np.ndarray  # (ranges,) position in PAYLOAD_TYPES, or -1
    facts: np.ndarray  # (sites + 1,) a bit for each kind of events in a record, above them the group; last, no site
    most: int  # events in a record
    in_turn: bool  # whether the order within a record matters: one may end a range and begin it again
    count: dict[str, np.ndarray]  # kind -> (sites,) events of that kind in a record
    first: dict[str, np.ndarray]  # kind -> (sites,) position in the next two of the first of them
    ranges: dict[str, np.ndarray]  # kind -> position in SiteTable.ranges
    turns: dict[str, np.ndarray]  # kind -> position among the events of the record
    total: np.ndarray  # (ranges,) how often a CTA passes it, -1 where that depends on data; 0 for instants
    edges: tuple[tuple[int, int, int], ...]  # codes of the source's and the destination's name, and shift

    @classmethod
    def of(cls, table: SiteTable) -> Sites:
        """Makes the arrays."""
        texts = {
            "group": tuple(group.name for group in table.groups),
            "lane": tuple(dict.fromkeys(r.lane for r in table.ranges)),
            "name": tuple(dict.fromkeys(r.name for r in table.ranges)),
        }
        lane, name = ({text: code for code, text in enumerate(texts[column])} for column in ("lane", "name"))
        codes: dict[str, np.ndarray] = {
            "group": np.array([r.group for r in table.ranges], dtype=np.uint16),
            "lane": np.array([lane[r.lane] for r in table.ranges], dtype=np.uint16),
            "name": np.array([name[r.name] for r in table.ranges], dtype=np.uint16),
            "payload_kind": np.array([_PAYLOADS[r.payload] for r in table.ranges], dtype=np.uint8),
            "depth": np.array([r.depth for r in table.ranges], dtype=np.int16),
        }
        types = list(PAYLOAD_TYPES)
        payload_type = np.array([types.index(r.payload) if r.payload else -1 for r in table.ranges], dtype=np.int8)
        groups = [table.ranges[site[0][1]].group for site in table.sites]
        kinds = [sum(1 << bit for bit, kind in enumerate(KINDS) if kind in dict(site)) for site in table.sites]
        facts = np.array([*(g << len(KINDS) | k for g, k in zip(groups, kinds)), 0xFFFFFFFF], dtype=np.uint32)
        count, first, ranges, turns = {}, {}, {}, {}
        most = max((len(site) for site in table.sites), default=1)
        in_turn = any({(END, i) for kind, i in site if kind == BEGIN} & set(site) for site in table.sites)
        for kind in KINDS:
            count[kind] = np.array([sum(event == kind for event, _ in site) for site in table.sites], dtype=np.int64)
            first[kind] = np.cumsum(count[kind]) - count[kind]
            events = [(i, turn) for site in table.sites for turn, (event, i) in enumerate(site) if event == kind]
            ranges[kind], turns[kind] = np.array(events, dtype=np.int64).reshape(-1, 2).T.copy()
        edges = tuple((name[edge.src], name[edge.dst], edge.shift) for edge in table.edges)
        total = [0 if r.instant else -1 if r.total is None else r.total for r in table.ranges]
        return cls(
            texts, codes, payload_type, facts, most, in_turn, count, first, ranges, turns,
            np.array(total, dtype=np.int64), edges,
        )  # fmt: skip

    @property
    def most_begins(self) -> int:
        """The most begins that share a record."""
        return int(self.count[BEGIN].max(initial=0))
