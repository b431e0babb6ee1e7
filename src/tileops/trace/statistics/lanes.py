"""When lanes are busy: their gaps, and which of them run at the same time.

A lane of a CTA is busy while a range is open on it; ranges that touch or nest are one stretch. All stretches of some
CTAs, laid one CTA behind the other on one axis, are swept once: between two neighbouring edges the set of busy lanes
does not change, and the time of each set, added up, answers for any two lanes or groups.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from ..timeline import Table, Timeline
from .distribution import columns, over, spread
from .numbering import Numbering, runs
from .ranges import cta_cycles

# A set of lanes is the bits of an int64; a kernel with more lanes has as many of these as it takes.
_WORD = 60
# Sets of so many lanes are counted in an array; of more, only those that occur.
_COUNTED = 12


@dataclass
class LaneUse:
    """What one pass over the slices says of lanes.

    Attributes:
        lanes: codes of each lane's group and lane.
        gaps: for each lane, the gaps between its stretches (cycles).
        before, behind: for each lane, cycles from each CTA's begin to the first range, and from the last one to its
            end; only of CTAs that entered the lane and whose row has its first, resp. last, events.
        busy: set of lanes, as a bit each -> cycles in which exactly these were busy, over all CTAs.
    """

    lanes: dict[str, np.ndarray]
    gaps: list[np.ndarray]
    before: list[np.ndarray]
    behind: list[np.ndarray]
    busy: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, timeline: Timeline, numbering: Numbering) -> LaneUse:
        """Looks at all slices of a Timeline."""
        slices, ctas = timeline.slices, timeline.ctas
        lane_of, lanes = numbering.lanes
        lane_of = lane_of.astype(np.min_scalar_type(len(lane_of)))
        count = len(lanes["group"])
        parts: list[tuple[list[np.ndarray], ...]] = [([], [], []) for _ in range(count)]
        use = cls(lanes, [], [], [])
        first_known, last_known = _ends_known(timeline)
        groups = len(timeline.groups)
        numbers, cycles = ctas.codes("cta"), ctas.codes("cycles")
        for block in numbering.blocks():
            part = slices[block]
            lane = lane_of.take(numbering.of_slice[block])
            order = np.argsort(lane, kind="stable")  # by lane, CTA, start
            bounds = np.searchsorted(lane, np.arange(count + 1), sorter=order)
            line = np.searchsorted(numbers, part.codes("cta"))
            line, start, duration = line[order], part.codes("start")[order], part.codes("duration")[order]
            span = int((start + duration).max()) + 1
            low = int(line.min())
            covered = []
            for number in range(count):
                of_lane = slice(bounds[number], bounds[number + 1])
                own = line[of_lane]
                begin, end, first = stretches(start[of_lane] + (own - low) * span, duration[of_lane], own)
                covered.append((begin, end))
                if len(own) == 0:
                    continue
                gap = begin[1:] - end[:-1]
                gap = np.delete(gap, first[1:] - 1)  # from one CTA to the next
                of_cta = own[runs(own)]
                last = np.append(first[1:], len(begin)) - 1
                row = of_cta * groups + int(lanes["group"][number])
                offset = (of_cta - low) * span
                known = first_known[row]
                parts[number][0].append(gap.astype(np.uint32) if span < 1 << 32 else gap)
                parts[number][1].append((begin[first] - offset)[known])
                known = last_known[row]
                parts[number][2].append((cycles[of_cta] - end[last] + offset)[known])
            use._sweep(covered)
        for kinds, target in zip(zip(*parts), (use.gaps, use.before, use.behind)):
            target.extend(np.concatenate(kind) if kind else np.empty(0, dtype=np.int64) for kind in kinds)
        return use

    def _sweep(self, stretches: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Adds the stretches of one block, each (begins, ends) ascending, to :attr:`busy`."""
        edges, steps = [], []
        for number, (begin, end) in enumerate(stretches):
            edges.append(np.stack([begin, end], axis=1).reshape(-1))
            steps.append(np.tile(np.array([number + 1, -number - 1], dtype=np.int32), len(begin)))
        edge, step = np.concatenate(edges), np.concatenate(steps)
        order = np.argsort(edge, kind="stable")  # ascending runs, one a lane: they are merged
        edge, step = edge[order], step[order]
        took = np.diff(edge)
        sets: list[np.ndarray] = []
        for low in range(0, len(stretches), _WORD):
            lanes = np.arange(low, min(low + _WORD, len(stretches)))
            change = np.zeros(2 * len(stretches) + 1, dtype=np.int64)  # by step, negative ones from behind
            change[lanes + 1], change[-lanes - 1] = 1 << (lanes - low), -(1 << (lanes - low))
            sets.append(np.cumsum(change[step])[:-1])
        if len(stretches) <= _COUNTED:
            counted = np.bincount(sets[0], took)
            self.busy.update({int(which): int(counted[which]) for which in np.flatnonzero(counted)})
            return
        if len(sets) == 1:
            found, place = np.unique(sets[0], return_inverse=True)
            which = found[:, None]
        else:
            which, place = np.unique(np.stack(sets, axis=1), axis=0, return_inverse=True)
        counted = np.bincount(place.reshape(-1), took, minlength=len(which))
        for words, cycles in zip(which.tolist(), counted.tolist()):
            self.busy[sum(word << _WORD * nth for nth, word in enumerate(words))] += int(cycles)

    def together(self, members: np.ndarray) -> np.ndarray:
        """For any two of some sets of lanes, the cycles in which both have a busy one; of one, in which it has.

        Args:
            members: (sets, lanes) which lanes each set has.
        """
        busy = np.zeros((len(self.busy), members.shape[1]), dtype=bool)
        for moment, which in enumerate(self.busy):
            busy[moment] = [which >> lane & 1 for lane in range(members.shape[1])]
        has = (busy @ members.T).astype(np.float64)  # (moments, sets)
        cycles = np.array([*self.busy.values()], dtype=np.float64)
        return np.asarray((has * cycles[:, None]).T @ has)


def stretches(start: np.ndarray, duration: np.ndarray, of: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Begins and ends of the stretches of slices in order, and which of them are the first of their CTA."""
    end = np.maximum.accumulate(start + duration)
    apart = np.append(True, start[1:] > end[:-1])[: len(start)]
    apart[runs(of)] = True
    begins = np.flatnonzero(apart)
    first = np.searchsorted(begins, runs(of))
    ends = end[np.append(begins[1:], len(start)) - 1] if len(begins) else end
    return start[begins], ends, first


def _ends_known(timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
    """(CTAs · groups,) whether a row has its first events, and its last ones."""
    whole = timeline.rows.codes("dropped") == 0
    everything = np.ones_like(whole)
    return (whole, everything) if timeline.meta.get("keep") == "last" else (everything, whole)


def lane_table(timeline: Timeline, use: LaneUse) -> Table:
    """One row a lane.

    Returns:
        ``group``, ``lane``, ``busy`` (cycles with a range open, over all CTAs), ``share`` (of the cycles of all
        finished CTAs), ``gaps`` (how many), ``gap_total``, ``gap_mean``, ``gap_min``, ``gap_p50``, ``gap_p95``,
        ``gap_p99``, ``gap_max`` (cycles), ``before`` and ``behind`` (mean cycles from a CTA's begin to the first
        range, and from the last one to the CTA's end; NaN where dropped events hide them).
    """
    spreads = columns([spread(gaps) for gaps in use.gaps])
    busy = np.diagonal(use.together(np.eye(len(use.gaps), dtype=bool))).copy()
    cycles = cta_cycles(timeline)
    table: dict[str, np.ndarray] = {
        **use.lanes,
        "busy": busy,
        "share": busy / cycles if cycles > 0 else np.full(len(busy), np.nan),
        "gaps": spreads.pop("count"),
        **{f"gap_{name}": column for name, column in spreads.items()},
    }
    for side, values in (("before", use.before), ("behind", use.behind)):
        table[side] = np.array([cycles.mean() if len(cycles) else np.nan for cycles in values], dtype=np.float64)
    return Table(table, {key: timeline.slices.vocabulary(key) for key in ("group", "lane")})


def lane_overlap_table(timeline: Timeline, use: LaneUse) -> Table:
    """One row a pair of lanes.

    Returns:
        ``group``, ``lane``, ``other_group``, ``other_lane``, ``both`` (cycles with both busy), ``either`` (with one
        busy at least), ``share`` (the first over the second; NaN where neither ever is).
    """
    pairs = np.array([*combinations(range(len(use.gaps)), 2)], dtype=np.int64).reshape(-1, 2)
    table: dict[str, np.ndarray] = {}
    for prefix, number in (("", pairs[:, 0]), ("other_", pairs[:, 1])):
        table |= {prefix + key: codes[number] for key, codes in use.lanes.items()}
    table |= _overlap(use.together(np.eye(len(use.gaps), dtype=bool)), pairs)
    texts = {prefix + key: timeline.slices.vocabulary(key) for prefix in ("", "other_") for key in ("group", "lane")}
    return Table(table, texts)


def group_overlap_table(timeline: Timeline, use: LaneUse) -> Table:
    """One row a pair of groups that entered ranges; a group is busy while any of its lanes is.

    Returns:
        ``group``, ``other_group``, and ``both``, ``either``, ``share`` as :func:`lane_overlap_table` has them.
    """
    groups = np.unique(use.lanes["group"])
    pairs = np.array([*combinations(range(len(groups)), 2)], dtype=np.int64).reshape(-1, 2)
    table = {"group": groups[pairs[:, 0]], "other_group": groups[pairs[:, 1]]}
    table |= _overlap(use.together(use.lanes["group"] == groups[:, None]), pairs)
    return Table(table, {key: timeline.slices.vocabulary("group") for key in ("group", "other_group")})


def _overlap(together: np.ndarray, pairs: np.ndarray) -> dict[str, np.ndarray]:
    one, other = pairs.T
    busy, both = np.diagonal(together), together[one, other]
    either = busy[one] + busy[other] - both
    return {"both": both, "either": either, "share": over(both, either)}
