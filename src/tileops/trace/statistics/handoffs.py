"""Hand-offs along ``dag`` edges: how long they take, and how many are in flight at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..timeline import Table, Timeline
from .distribution import columns, spread
from .numbering import Numbering, runs

SOURCES = ("", "argument", "meta", "back edge")
META = "depth"


@dataclass(frozen=True)
class _Edge:
    """The flows from one range name of a group to one of another.

    Attributes:
        src, dst: (group, name), as codes.
        rows: positions in ``flows``, by CTA and occurrence.
    """

    src: tuple[int, int]
    dst: tuple[int, int]
    rows: np.ndarray


def handoff_table(timeline: Timeline, numbering: Numbering, depth: int | None = None) -> Table:
    """One row an edge between two groups' ranges.

    A source that only issues work, as one that starts a TMA load, ends before the data is there: the latency is then
    what lies between issue and use.

    A hand-off is in flight from the source's end until it arrives: at the destination's end if that was waiting
    already, else at its start. How many are in flight is weighted with time, from the first one's begin to the last
    one's arrival in each CTA.

    How many stages the pipeline was built with is taken from ``depth``, else from the Timeline's ``meta["depth"]``,
    else from an edge back from the destination's group to the source's, whose n-th source frees the stage that the
    (n + stages)-th destination fills. It is 0 where none of them tells.

    Returns:
        ``src_group``, ``src``, ``dst_group``, ``dst``; of the latency (cycles) ``count``, ``total``, ``mean``,
        ``min``, ``p50``, ``p95``, ``p99``, ``max``; ``waited`` (the part of the hand-offs whose destination
        had begun before the source's end), ``depth_mean`` and ``depth_max`` (in flight at once), ``depth_most`` (the
        depth at which the most time is spent), ``built`` and ``built_by`` (``"argument"``, ``"meta"``, ``"back edge"``
        or ``""``).
    """
    flows = timeline.flows
    edges = _edges(timeline, numbering)
    back = {(edge.src[0], edge.dst[0]): shift for edge in edges if (shift := _shift(timeline, numbering, edge)) > 0}
    spreads, others = [], []
    for edge in edges:
        part = flows[edge.rows]
        start, end = part.codes("start"), part.codes("end")
        spreads.append(spread(end - start))
        waited = timeline.slices.codes("start").take(part.codes("dst_slice")) < start
        in_flight = _in_flight(timeline.slices.codes("cta").take(part.codes("src_slice")), start, end)
        others.append((waited.mean(), *in_flight, *_built(edge, timeline, back, depth)))
    names = ("waited", "depth_mean", "depth_max", "depth_most", "built", "built_by")
    rest = dict(zip(names, np.array(others, dtype=np.float64).reshape(-1, len(names)).T))
    rest |= {name: rest[name].astype(np.int64) for name in names[2:]}
    keys: dict[str, np.ndarray] = {}
    for side, pairs in (("src", [edge.src for edge in edges]), ("dst", [edge.dst for edge in edges])):
        codes = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        keys |= {f"{side}_group": codes[0], side: codes[1]}
    groups, texts = (timeline.slices.vocabulary(key) for key in ("group", "name"))
    vocabularies = {"src_group": groups, "src": texts, "dst_group": groups, "dst": texts, "built_by": SOURCES}
    return Table({**keys, **columns(spreads), **rest}, vocabularies)


def _edges(timeline: Timeline, numbering: Numbering) -> list[_Edge]:
    """The edges of the flows. Their own columns of names and groups would be made from, and keep, the slices'."""
    flows = timeline.flows
    if len(flows) == 0:
        return []
    pair = numbering.keys["group"] * (len(timeline.slices.vocabulary("name")) + 1) + numbering.keys["name"]
    known, of_range = np.unique(pair, return_inverse=True)
    sides = (of_range.take(numbering.of_slice.take(flows.codes(side))) for side in ("src_slice", "dst_slice"))
    src, dst = sides
    which = (src * len(known) + dst).astype(np.min_scalar_type(len(known) ** 2))
    order = np.argsort(which, kind="stable")
    edges = []
    for rows in np.split(order, runs(which[order])[1:]):
        ends = (divmod(int(known[side[rows[0]]]), len(timeline.slices.vocabulary("name")) + 1) for side in (src, dst))
        edges.append(_Edge(next(ends), next(ends), rows))
    return edges


def _in_flight(cta: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[float, int, int]:
    """Mean (weighted with time) and greatest number of hand-offs in flight, and the number that lasts longest.

    Hand-offs that arrive before they leave, as edges between ranges that do not wait for each other can have them, are
    in flight at no time.
    """
    forward = end >= start
    cta, start, end = cta[forward], start[forward], end[forward]
    if len(cta) == 0:
        return np.nan, 0, 0
    changes = runs(cta)
    line = np.repeat(np.arange(len(changes)), np.diff(np.append(changes, len(cta))))
    span = int(end.max()) + 1
    # By CTA and time, arrivals ahead of departures at the same moment.
    edge = np.concatenate([(line * span + end) * 2, (line * span + start) * 2 + 1])
    edge.sort(kind="stable")
    depth = np.cumsum(2 * (edge & 1) - 1)[:-1]
    moment = edge >> 1
    took = np.diff(moment)
    took[moment[1:] // span != moment[:-1] // span] = 0  # from one CTA to the next
    times = np.bincount(np.maximum(depth, 0), took)
    total = times.sum()
    most = int(depth.max(initial=1))
    if total == 0:
        return 0.0, most, 0
    return float((times * np.arange(len(times))).sum() / total), most, int(times.argmax())


def _shift(timeline: Timeline, numbering: Numbering, edge: _Edge) -> int:
    """How many occurrences an edge between groups skips; 0 if that is not the same for all its flows, or unknown.

    Looked at in the first CTA that lost nothing.
    """
    flows, slices, rows = timeline.flows, timeline.slices, timeline.rows
    if edge.src[0] == edge.dst[0]:
        return 0
    cta = slices.codes("cta")
    lost = rows.codes("cta")[rows.codes("dropped") > 0]
    of_edge = cta.take(flows.codes("src_slice").take(edge.rows))
    whole = of_edge[~np.isin(of_edge, lost)]
    if len(whole) == 0:
        return 0
    own = slice(*np.searchsorted(cta, [whole[0], whole[0] + 1]).tolist())
    number = numbering.of_slice[own]
    rank = np.zeros(len(number), dtype=np.int64)
    for group, name in (edge.src, edge.dst):
        chosen = (numbering.keys["group"][number] == group) & (numbering.keys["name"][number] == name)
        rank[chosen] = np.arange(chosen.sum())
    part = edge.rows[of_edge == whole[0]]
    src, dst = (rank[flows.codes(side).take(part) - own.start] for side in ("src_slice", "dst_slice"))
    shift = np.unique(dst - src)
    return int(shift[0]) if len(shift) == 1 else 0


def _built(edge: _Edge, timeline: Timeline, back: dict[tuple[int, int], int], depth: int | None) -> tuple[int, int]:
    """The depth that the pipeline of an edge was built with, and who says so, as a position in :data:`SOURCES`."""
    known = timeline.meta.get(META)
    if edge.src[0] == edge.dst[0] or (edge.src[0], edge.dst[0]) in back:
        return 0, 0  # within a group, or an edge that gives stages back
    if depth is not None:
        return int(depth), SOURCES.index("argument")
    if isinstance(known, int) and not isinstance(known, bool) and known > 0:
        return known, SOURCES.index("meta")
    shift = back.get((edge.dst[0], edge.src[0]), 0)
    return shift, SOURCES.index("back edge") if shift else 0
