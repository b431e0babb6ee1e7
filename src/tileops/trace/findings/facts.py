"""What all rules look at, worked out once: roles, the steady state, hand-offs, and how far each may be trusted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from ..statistics import Summary
from ..statistics.distribution import over
from ..statistics.iterations import PHASES, STEADY
from ..statistics.numbering import runs
from ..statistics.ranges import cta_cycles
from ..timeline import Timeline
from .finding import PROVISIONAL, STRONG, WEAK, Finding
from .roles import COMPUTE, LOAD, WAIT, has_word, words_of

# What a wait takes that has nothing to wait for, in cycles. In the recording of the production GEMM on an H200 that
# comes with the package, 95% of the consumers' waits take 110 at most.
SATISFIED = 110
# So many CTAs are named where a finding is worst.
NAMED = 8
# A disturbance above this part of a win leaves the win in doubt.
_DOUBTFUL = 0.5


@dataclass(frozen=True)
class Waited:
    """How long a range waited in its loop's steady state, beyond what a wait takes that has nothing to wait for.

    Attributes:
        share: of the CTAs' time.
        whole: the same with all that the waits take, of those too that had nothing to wait for.
        often: the part of the iterations in which it waited.
        of_cta: (CTAs,) cycles in each CTA, by position in ``timeline.ctas``.
    """

    share: float
    whole: float
    often: float
    of_cta: np.ndarray


@dataclass(frozen=True)
class Edge:
    """A forward ``dag`` edge between two groups, or several that differ in the destination's group alone.

    Attributes:
        src: number of the source's range.
        dst: numbers of the destinations' ranges.
        rows: for each destination its row in ``summary.handoffs``.
    """

    src: int
    dst: tuple[int, ...]
    rows: tuple[int, ...]


class Facts:
    """A Timeline as the rules see it.

    Args:
        timeline: what to look at.
        minimum: the least win that makes a finding, as a share of the kernel's span.
        depth: the stages that the pipeline was built with, if known.
        roles: words that tell what a range does, by role, see :mod:`.roles`.
        least_cycles: what computing ranges need at least, by name.
        flops: floating-point operations of the whole launch, if known.
    """

    def __init__(
        self,
        timeline: Timeline,
        minimum: float,
        depth: int | None,
        roles: Mapping[str, Collection[str]] | None,
        least_cycles: Mapping[str, float] | None,
        flops: float | None = None,
    ):
        self.timeline, self.minimum, self.least_cycles = timeline, minimum, dict(least_cycles or {})
        self.flops = flops
        self.summary = Summary(timeline, depth)
        self._words = words_of(roles)
        self._told = frozenset(roles or ())
        self.cycles = cta_cycles(timeline)
        ctas = timeline.ctas
        self.whole_launch = len(ctas) == np.prod(timeline.grid) and bool(ctas["finished"].all())

    # -- ranges

    @cached_property
    def names(self) -> list[tuple[str, str, str]]:
        """(group, lane, name) of each range."""
        ranges = self.summary.ranges
        return [*zip(*(ranges[key].tolist() for key in ("group", "lane", "name")))]

    @cached_property
    def edge_waits(self) -> frozenset[int]:
        """The ranges that edges lead to."""
        pairs = {(row.dst_group, row.dst) for row in self.summary.handoffs if row.src_group != row.dst_group}
        return frozenset(number for number, (group, _, name) in enumerate(self.names) if (group, name) in pairs)

    @cached_property
    def waits(self) -> frozenset[int]:
        """The ranges that wait: those that edges lead to, and what the names say."""
        return self.edge_waits | self._named(WAIT, lanes=False)

    @cached_property
    def loads(self) -> frozenset[int]:
        """The ranges that load, by their names or their lanes'."""
        return frozenset(self._named(LOAD, lanes=True) - self.waits)

    @cached_property
    def computes(self) -> frozenset[int]:
        """The ranges that compute: those that it is said of how long they need, and what names or lanes' names say."""
        told = {number for number, (_, _, name) in enumerate(self.names) if name in self.least_cycles}
        return frozenset((self._named(COMPUTE, lanes=True) - self.waits - self.loads) | told)

    def _named(self, role: str, lanes: bool) -> set[int]:
        words = self._words[role]
        return {
            number
            for number, (_, lane, name) in enumerate(self.names)
            if has_word(name, words) or (lanes and has_word(lane, words))
        }

    def group_of(self, number: int) -> str:
        """The name of a range's group."""
        return self.names[number][0]

    def of_group(self, group: str) -> list[int]:
        """The ranges of a group."""
        return [number for number, (own, _, _) in enumerate(self.names) if own == group]

    # -- loops

    @cached_property
    def steady_share(self) -> dict[str, float]:
        """Group -> the share of its steady state in the average CTA's time, where that state is told."""
        average = self.cycles / max(int(self.timeline.ctas["finished"].sum()), 1)
        return {row.group: row.steady / average for row in self.summary.phases} if average > 0 else {}

    @cached_property
    def _steady_turns(self) -> dict[tuple[str, ...], tuple[int, int]]:
        """Range -> its first and last steady occurrence in a CTA, where they are told."""
        table = self.summary.iterations
        keys = np.stack([table.codes(key) for key in ("group", "lane", "name")])
        starts = np.flatnonzero(np.append(True, (np.diff(keys, axis=1) != 0).any(axis=0))[: len(table)])
        steady = table.codes("phase") == PHASES.index(STEADY)
        found: dict[tuple[str, ...], tuple[int, int]] = {}
        for first, behind in pairwise([*starts.tolist(), len(table)]):
            turns = np.flatnonzero(steady[first:behind])
            if len(turns):
                key = tuple(table.vocabulary(key)[code] for key, code in zip(("group", "lane", "name"), keys[:, first]))
                found[key] = int(turns[0]), int(turns[-1])
        return found

    def steady_slices(self, number: int) -> np.ndarray:
        """Positions of a range's whole slices in the steady state: all but the first of a CTA where that is untold."""
        slices = self.timeline.slices
        positions = self.summary.numbering.positions(number)
        cta = slices.codes("cta").take(positions)
        starts = runs(cta)
        nth = np.arange(len(cta)) - np.repeat(starts, np.diff(np.append(starts, len(cta))))
        first, last = self._steady_turns.get(self.names[number], (1, len(cta)))
        return positions[(nth >= first) & (nth <= last) & ~slices.codes("cut").take(positions)]

    def waited(self, number: int) -> Waited:
        """How long a range waited in the steady state."""
        slices, ctas = self.timeline.slices, self.timeline.ctas
        positions = self.steady_slices(number)
        took = slices.codes("duration").take(positions)
        excess = np.maximum(took - SATISFIED, 0)
        line = np.searchsorted(ctas.codes("cta"), slices.codes("cta").take(positions))
        of_cta = np.bincount(line, excess, minlength=len(ctas))
        share, whole = (float(part.sum()) / self.cycles if self.cycles > 0 else 0.0 for part in (excess, took))
        return Waited(share, whole, float((excess > 0).mean()) if len(excess) else 0.0, of_cta)

    def worst(self, of_cta: np.ndarray) -> tuple[int, ...]:
        """The CTAs with the largest share of their time, the worst one first; none where all are alike."""
        cycles = self.timeline.ctas.codes("cycles")
        share = over(np.asarray(of_cta, dtype=np.float64), cycles)
        known = np.flatnonzero(np.isfinite(share))
        if len(known) == 0 or share[known].max() < 1.2 * share[known].mean():
            return ()
        order = known[np.argsort(-share[known], kind="stable")][:NAMED]
        return tuple(self.timeline.ctas["cta"][order].tolist())

    # -- hand-offs

    @cached_property
    def edges(self) -> list[Edge]:
        """The edges that hand work on, without those that give stages back."""
        handoffs = self.summary.handoffs
        numbers = {(group, name): number for number, (group, _, name) in reversed([*enumerate(self.names)])}
        rows = [*handoffs]
        back = {(row.dst_group, row.src_group) for row in rows if row.built_by == "back edge"}
        found: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for at, row in enumerate(rows):
            if row.src_group != row.dst_group and (row.src_group, row.dst_group) not in back:
                key = numbers[row.src_group, row.src], row.dst
                found.setdefault(key, []).append((numbers[row.dst_group, row.dst], at))
        return [
            Edge(src, tuple(dst for dst, _ in ends), tuple(at for _, at in ends)) for (src, _), ends in found.items()
        ]

    def producer_waits(self, edge: Edge) -> float:
        """The share of its time that an edge's producer waits, in the steady state."""
        group = self.group_of(edge.src)
        return max((self.waited(number).share for number in self.of_group(group) if number in self.waits), default=0.0)

    # -- trust

    @cached_property
    def disturbance(self) -> float:
        """By how much tracing changed the kernel's time, as a share; NaN where that was not measured."""
        stored = self.timeline.meta.get("perturbation")
        ratio = stored.get("ratio") if isinstance(stored, dict) else None
        known = isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and math.isfinite(ratio)
        return abs(float(ratio) - 1) if known else float("nan")  # type: ignore[arg-type]

    def lost(self, groups: Collection[str]) -> float:
        """The part of the CTAs in which a row of these groups lost events, or that did not finish."""
        rows = self.timeline.rows
        codes = [code for code, text in enumerate(rows.vocabulary("group")) if text in groups]
        own = np.isin(rows.codes("group"), codes)
        bad = (rows.codes("dropped") > 0) | ~rows.codes("finished")
        return len(np.unique(rows["cta"][own & bad])) / max(len(self.timeline.ctas), 1)

    def supported(self, groups: Collection[str]) -> bool:
        """Whether at least half of the CTAs have all events of these groups."""
        return self.lost(groups) <= 0.5

    def finding(
        self,
        rule: str,
        *,
        seen: str,
        win: float,
        next: str,
        groups: Collection[str],
        roles: Collection[str] = (),
        doubt: str = "",
        figures: dict[str, float] | None = None,
        ranges: tuple[tuple[str, str, str], ...] = (),
        ctas: tuple[int, ...] = (),
        span_ns: tuple[float, float] | None = None,
    ) -> Finding:
        """A :class:`.finding.Finding`, with how strong the evidence for it is.

        It is made of the events of ``groups``, and builds on ``roles`` that no edge tells; ``doubt`` says what else
        speaks against it.
        """
        evidence, reason = self._evidence(win, groups, [role for role in roles if role not in self._told], doubt)
        plain = {name: float(value) for name, value in (figures or {}).items()}
        return Finding(rule, seen, win, evidence, reason, next, plain, ranges, ctas, span_ns)

    def _evidence(self, win: float, groups: Collection[str], by_name: list[str], doubt: str) -> tuple[str, str]:
        lost = self.lost(groups)
        if np.isnan(self.disturbance):
            return PROVISIONAL, "what tracing does to this kernel was not measured (trace.perturbation does)"
        if self.disturbance > _DOUBTFUL * win:
            change = f"{self.disturbance:.1%}"
            return PROVISIONAL, f"tracing changed the kernel's time by {change}, which is not small beside the win"
        if lost > 0:
            return PROVISIONAL, f"{lost:.0%} of the CTAs lost events or did not finish"
        if doubt:
            return WEAK, doubt
        if by_name:
            return WEAK, f"which ranges {' and '.join(by_name)} is told by their names alone"
        return STRONG, f"all events are there, and tracing changed the kernel's time by {self.disturbance:.1%} only"
