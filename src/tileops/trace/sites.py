"""The site table: what each static marker in a kernel is.

The device writes a site's number and nothing else; names, groups, lanes and source lines travel inside the PrimFunc,
as JSON in an attribute. A kernel that comes out of TileLang's cache in another process therefore still knows its own
names, and nothing about a build lives in process-wide state.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from .errors import TraceError
from .slots import GroupLayout

ATTRIBUTE = "tileops.trace"
VERSION = 1

BEGIN, END, INSTANT = "begin", "end", "instant"


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
    """

    name: str
    lane: str
    group: int
    depth: int
    payload: str
    instant: bool
    file: str
    line: int

    @property
    def where(self) -> str:
        """``file:line`` of the marker."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Group:
    """A group of markers that one elected thread records.

    Attributes:
        name: as the author gave it.
        lead: the recording thread, in the author's numbering.
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
    """

    kernel: str
    target: str
    max_events: int
    groups: tuple[Group, ...]
    ranges: tuple[Range, ...]
    sites: tuple[tuple[tuple[str, int], ...], ...]
    edges: tuple[Edge, ...]

    @property
    def line_words(self) -> int:
        """Words that a CTA's line takes in ``slots``."""
        return self.groups[-1].layout.end if self.groups else 0

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
                raise TraceError(f"site table of version {version}; this tileops reads version {VERSION}: upgrade it")
            return cls(
                kernel=raw["kernel"],
                target=raw["target"],
                max_events=raw["max_events"],
                groups=tuple(Group(g["name"], g["lead"], GroupLayout(**g["layout"])) for g in raw["groups"]),
                ranges=tuple(Range(**r) for r in raw["ranges"]),
                sites=tuple(tuple((str(kind), int(index)) for kind, index in site) for site in raw["sites"]),
                edges=tuple(Edge(**e) for e in raw["edges"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TraceError(f"not a site table of tileops: {error!r}") from error
