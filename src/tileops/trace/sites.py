"""The site table: what each static marker in a kernel is.

The device writes a site's number and nothing else; names, groups, lanes and source lines travel inside the PrimFunc,
as JSON in an attribute. A kernel that comes out of TileLang's cache in another process therefore still knows its own
names, and nothing about a build lives in process-wide state.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from .choice import Choice
from .errors import TraceError
from .slots import MAX_SITES, SPARE_RECORDS, GroupLayout

ATTRIBUTE = "tileops.trace"
# Of a kernel whose markers were put into the generated source: there its table is a comment.
AUTO_ATTRIBUTE = "tileops.trace.auto"
_TABLE_COMMENT = re.compile(r"^// tileops\.trace site table (\d+): (.*)$", re.M)
_MARKERS_COMMENT = re.compile(r"^// tileops\.trace markers: (.*)$", re.M)
VERSION = 2

BEGIN, END, INSTANT = "begin", "end", "instant"


def wrong_version(what: str, version: Any, reads: int) -> str:
    """What to say of a text or file of a version that this package does not read."""
    newer = isinstance(version, int) and version > reads
    advice = "upgrade it" if newer else "record again, or use the tileops that wrote it"
    return f"{what} of version {version}; this tileops reads version {reads}: {advice}"


@dataclass(frozen=True)
class Range:
    """A static range or instant mark of a kernel.

    Attributes:
        name, lane: as the author gave them.
        group: position in :attr:`SiteTable.groups`.
        depth: ranges of the same group and lane that are open where it begins.
        payload: ``""``, ``"i"`` (int32), ``"u"`` (uint32) or ``"f"`` (float32), carried by its begin.
        instant: whether it is a zero-width mark.
        file, line: where the author wrote it.
        total: how often a CTA passes it; ``None`` where that depends on data.
    """

    name: str
    lane: str
    group: int
    depth: int
    payload: str
    instant: bool
    file: str
    line: int
    total: int | None = None

    @property
    def where(self) -> str:
        """``file:line`` of the marker."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Group:
    """A group of markers that one elected thread records.

    Attributes:
        name: as the author gave it.
        lead: the recording thread, in the author's numbering; of a row of the producer that TileLang adds, in that of
            the threads that are launched.
        layout: where its rows lie.
    """

    name: str
    lead: int
    layout: GroupLayout


@dataclass(frozen=True)
class Edge:
    """A ``dag`` edge: the n-th ``src`` of a CTA hands over to its (n + shift)-th ``dst``."""

    src: str
    dst: str
    shift: int


@dataclass(frozen=True)
class SiteTable:
    """All that the host must know to read a kernel's slots.

    Attributes:
        kernel: the PrimFunc's name.
        target: ``"cuda"`` or ``"c"``: what clock and timer mean; empty where the build did not know.
        max_events: as the author asked.
        groups, ranges, edges: see their types.
        sites: for each site, the events that share its record, in order, each as (kind, position in ``ranges``).
        keep_last: whether a full row keeps its last records, in a ring, instead of the first ones.
        choice: which CTAs are recorded.
        stored: for each site, how many records are stored right behind its clock read: 0 where its own is held back,
            more than one where others were.
    """

    kernel: str
    target: str
    max_events: int
    groups: tuple[Group, ...]
    ranges: tuple[Range, ...]
    sites: tuple[tuple[tuple[str, int], ...], ...]
    edges: tuple[Edge, ...]
    keep_last: bool = False
    choice: Choice = field(default_factory=Choice)
    stored: tuple[int, ...] = ()

    @property
    def line_words(self) -> int:
        """Words that a CTA's line takes in ``slots``."""
        return self.groups[-1].layout.end if self.groups else 0

    def check(self) -> None:
        """Refuses a table that no lowering makes.

        Raises:
            ValueError: for numbers out of place. What is of a wrong type raises as comparing or indexing with it does.
        """
        numbers = [
            getattr(group.layout, name) for group in self.groups for name in ("offset", "capacity", "record_words")
        ]
        numbers += [number for r in self.ranges for number in (r.group, r.depth)]
        numbers += [edge.shift for edge in self.edges]
        if any(type(number) is not int for number in numbers):
            raise ValueError("numbers that are none")
        offset = 0
        for group in self.groups:
            place = group.layout
            if place.offset != offset or place.capacity < 1 or place.record_words not in (1, 2):
                raise ValueError(f"{place} in a line")
            offset = place.end
        self.choice.check()
        names = {r.name for r in self.ranges if not r.instant}
        sites = [[(kind, self.ranges[index]) for kind, index in events if index >= 0] for events in self.sites]
        if (
            not self.groups
            or self.target not in ("cuda", "c", "")
            or not isinstance(self.keep_last, bool)
            or max(len(self.sites), len(self.ranges), len(self.groups)) > MAX_SITES
            or not all(isinstance(text, str) for r in self.ranges for text in (r.name, r.lane, r.file))
            or not all(isinstance(text, str) for text in (self.kernel, *(group.name for group in self.groups)))
            or not all(r.group in range(len(self.groups)) and r.payload in ("", "i", "u", "f") for r in self.ranges)
            or not all(r.depth in range(1 << 15) and isinstance(r.instant, bool) for r in self.ranges)
            or not all(r.total is None or 0 <= int(r.total) < 1 << 62 for r in self.ranges)
            or (self.stored and len(self.stored) != len(self.sites))
            or not all(count in range(SPARE_RECORDS + 2) for count in self.stored)
            or not all(events and len({r.group for _, r in events}) == 1 for events in sites)
            or not all(kind in ((INSTANT,) if r.instant else (BEGIN, END)) for events in sites for kind, r in events)
            or not all({edge.src, edge.dst} <= names and abs(edge.shift) < 1 << 31 for edge in self.edges)
        ):
            raise ValueError("a site table that contradicts itself")

    def to_json(self) -> str:
        """The table as JSON, for the PrimFunc's attribute and for recordings."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SiteTable:
        """Reads :meth:`to_json`'s text.

        Raises:
            TraceError: if the text is no site table, or one of a newer version.
        """
        try:
            raw: dict[str, Any] = json.loads(text)
            version = raw.pop("version")
            if version != VERSION:
                raise TraceError(wrong_version("a site table", version, VERSION))
            return cls(
                kernel=raw["kernel"],
                target=raw["target"],
                max_events=raw["max_events"],
                groups=tuple(Group(g["name"], g["lead"], GroupLayout(**g["layout"])) for g in raw["groups"]),
                ranges=tuple(Range(**r) for r in raw["ranges"]),
                sites=tuple(tuple((str(kind), int(index)) for kind, index in site) for site in raw["sites"]),
                edges=tuple(Edge(**e) for e in raw["edges"]),
                keep_last=raw["keep_last"],
                choice=Choice(raw["choice"]["kind"], tuple(raw["choice"]["numbers_of_kind"])),
                stored=tuple(raw["stored"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TraceError(f"not a site table of tileops: {error!r}") from error


def table_comment(table: SiteTable, number: int) -> str:
    """The line of comment that tells the site table of kernel ``number`` of a source; see :func:`tables_in`."""
    return f"// tileops.trace site table {number}: {table.to_json()}"


def tables_in(source: str) -> dict[int, SiteTable]:
    """The site tables that generated source carries as comments, by the numbers of their kernels, in order."""
    found = {int(number): text for number, text in _TABLE_COMMENT.findall(source)}
    return {number: SiteTable.from_json(found[number]) for number in sorted(found)}


def markers_comment(table: SiteTable) -> str:
    """The line of comment that tells the site table of a source's own markers; see :func:`markers_in`."""
    return f"// tileops.trace markers: {table.to_json()}"


def markers_in(source: str) -> SiteTable | None:
    """The site table of the markers that a generated source's author placed, or ``None``."""
    found = _MARKERS_COMMENT.search(source)
    return None if found is None else SiteTable.from_json(found[1])
