"""Rules about hand-offs: who waits for whom, whether anything overlaps, how deep the pipeline runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..statistics.lanes import stretches
from .facts import Edge, Facts
from .finding import Finding
from .rates import flop_a_cycle
from .roles import COMPUTE, LOAD, WAIT, has_word

STARVED, NO_OVERLAP, SHALLOW = "consumer-starved", "no-overlap", "shallow-pipeline"
# The rules whose win is what a consumer waits.
_WAITED = (STARVED, NO_OVERLAP, SHALLOW)
# A consumer that waits in fewer of its iterations has slow outliers, not a slow producer.
_OFTEN = 0.25
# Less of the consumer's computing with something in flight is no overlap: a stage may be given back, and its next load
# begin, shortly before a computation's range ends.
_NO_OVERLAP = 0.25
# CTAs that are looked at for it.
_LOOKED_AT = 512
# A producer that waits for less of the time is not held back.
_HELD_BACK = 0.25
# A loop's own instructions take time between its ranges: 2.4% in the production GEMM on an H200. Its recordings compute
# at 0.998 to 1.011 of the tensor cores' rate, by what counts as steady at a loop's ends. Less than this is no finding,
# whatever minimum is asked for: a part of the time that is well beyond both.
_LEAST_OTHER = 0.1
# Ranges of these words wait for the group's other threads: for what they load, where the group loads by itself.
_BARRIERS = frozenset({"barrier", "sync"})


@dataclass(frozen=True)
class _Made:
    """A finding, the edge that it was made of, and which of the edge's destinations it names."""

    finding: Finding
    edge: Edge
    at: int


def pipeline(facts: Facts) -> Iterator[Finding]:
    """Findings about edges, one a rule for those between the same groups, and about groups that load and compute."""
    alike: dict[tuple[str, str, frozenset[str]], list[_Made]] = {}
    for edge in facts.edges:
        groups = _groups(facts, edge)
        if facts.supported(groups):
            for made in _of_edge(facts, edge):
                alike.setdefault((made.finding.rule, facts.group_of(edge.src), groups), []).append(made)
    for same in alike.values():
        yield _joined(facts, same)
    tied = {group for edge in facts.edges for group in _groups(facts, edge)}
    for group in facts.timeline.groups:
        if group not in tied and facts.supported({group}):
            yield from _one_after_the_other(facts, group)


def _groups(facts: Facts, edge: Edge) -> frozenset[str]:
    return frozenset(facts.group_of(number) for number in (edge.src, *edge.dst))


def _joined(facts: Facts, same: list[_Made]) -> Finding:
    """One finding of those that a rule made of several edges between the same groups, as one for each operand.

    What a consumer waits for one and for the other is different time, and adds up. A producer that is held back, or a
    computation that is slow, is the same one by each edge.
    """
    first = max(same, key=lambda made: made.finding.win)
    rest = [made.edge for made in same if made is not first]
    if not rest:
        return first.finding
    if first.finding.rule in _WAITED:
        return _starved(facts, first.edge, first.at, rest)
    also = (facts.names[number] for number in _waits_too(facts, first.edge.dst[first.at], rest))
    return replace(first.finding, ranges=tuple(dict.fromkeys((*first.finding.ranges, *also))))


def _waits_too(facts: Facts, dst: int, edges: Sequence[Edge]) -> list[int]:
    """The destinations of other edges in the same group."""
    return [number for edge in edges for number in edge.dst if facts.group_of(number) == facts.group_of(dst)]


def _of_edge(facts: Facts, edge: Edge) -> Iterator[_Made]:
    waits = [facts.waited(number) for number in edge.dst]
    # Of several consumers the one that waits least is the limit: the others wait for the stages that it holds, too.
    at = int(np.argmin([waited.share for waited in waits]))
    waited, dst, groups = waits[at], edge.dst[at], _groups(facts, edge)
    producer, consumer = facts.group_of(edge.src), facts.group_of(dst)
    if waited.share >= facts.minimum and waited.often >= _OFTEN:
        found = _starved(facts, edge, at)
        if found.win >= facts.minimum:
            yield _Made(found, edge, at)
        return
    held_back = facts.producer_waits(edge)
    rate = _rate(facts, consumer)
    if rate is not None:
        win = facts.steady_share[consumer] * (1 - rate)
        if held_back >= _HELD_BACK and win >= max(facts.minimum, _LEAST_OTHER):
            yield _Made(_slow(facts, edge, dst, groups, rate, win), edge, at)
        return
    other = _other_work(facts, dst)
    if held_back >= _HELD_BACK and other is not None and other >= max(facts.minimum, _LEAST_OTHER):
        named = [number for number in facts.of_group(producer) if number in facts.waits]
        finding = facts.finding(
            "producer-held-back",
            seen=f"{producer} waits {held_back:.0%} of the time for {consumer}, which spends {other:.0%} of it neither "
            "waiting nor computing" + (" as fast as it could" if facts.least_cycles else ""),
            win=other,
            groups=groups,
            roles=[
                *([WAIT] if _by_name(facts, producer) else []),
                *([] if facts.least_cycles else [COMPUTE]),
            ],
            next=f"shorten what {consumer} does beside its computations, or move it to another group",
            figures={"producer_waits": held_back, "consumer_other": other},
            ranges=tuple(facts.names[number] for number in (*named, dst)),
        )
        yield _Made(finding, edge, at)


def _rate(facts: Facts, group: str) -> float | None:
    """The part of the tensor cores' rate that a consumer computes at in its steady state; None if that is not known.

    All operations of the launch count as done in the consumers' loops, and CTAs that share an SM share its tensor
    cores. Of a loop that is as fast as it can be, edges of the steady state may give a little more than 1.
    """
    device_rate = flop_a_cycle(facts.timeline.meta.get("device"))
    phases, load, ctas = facts.summary.phases.where(group=group), facts.summary.load, facts.timeline.ctas
    if facts.flops is None or device_rate is None or not len(phases) or not facts.whole_launch:
        return None
    at_once = float((ctas["end_ns"] - ctas["begin_ns"]).sum() / load["busy_ns"].sum())
    (phase,) = phases
    done = facts.flops / len(ctas) * (phase.last - phase.first + 1) / phase.iterations
    rate = done * at_once / (phase.steady * device_rate)
    return min(rate, 1.0) if math.isfinite(rate) else None


def _slow(facts: Facts, edge: Edge, dst: int, groups: Collection[str], rate: float, win: float) -> Finding:
    """A consumer that computes more slowly than tensor cores can, and keeps its producer waiting."""
    producer, consumer, held_back = facts.group_of(edge.src), facts.group_of(dst), facts.producer_waits(edge)
    named = [number for number in facts.of_group(producer) if number in facts.waits]
    return facts.finding(
        "producer-held-back",
        seen=f"{producer} waits {held_back:.0%} of the time for {consumer}, which computes at {rate:.0%} of the tensor "
        "cores' rate in its steady state",
        win=win,
        groups=groups,
        roles=(WAIT,) if _by_name(facts, producer) else (),
        next=f"look at what {consumer} does beside its matrix multiplications, and at how wide and how many at once "
        "these are",
        figures={"producer_waits": held_back, "rate": rate},
        ranges=tuple(facts.names[number] for number in (*named, dst)),
    )


def _starved(facts: Facts, edge: Edge, at: int, also: Sequence[Edge] = ()) -> Finding:
    """The one of three findings that explains why a consumer waits, for an edge and ``also`` others like it.

    Its win is all that the waits take in the steady state. With more loads in flight, all of that can go: what a wait
    takes that has nothing to wait for is 45 to 110 cycles in recordings, too little is known of it to count on it, and
    a consumer that need not wait computes faster, too, where others share its tensor cores.
    """
    dst, handoffs = edge.dst[at], facts.summary.handoffs
    producer, consumer = facts.group_of(edge.src), facts.group_of(dst)
    sources = [edge.src, *(other.src for other in also)]
    waited_for = tuple(dict.fromkeys([dst, *_waits_too(facts, dst, also)]))
    waits = [facts.waited(number) for number in waited_for]
    share, whole = sum(waited.share for waited in waits), sum(waited.whole for waited in waits)
    often = max(waited.often for waited in waits)
    deepest, built = (int(handoffs[column][edge.rows[at]]) for column in ("depth_max", "built"))
    covered, computing = _covered(facts, edge, at)
    held_back = facts.producer_waits(edge)
    rule, win, by_name, more = STARVED, whole, _by_name(facts, producer), ""
    figures = {
        "waits": share,
        "waits_in_all": whole,
        "often": often,
        "covered": covered,
        "computes": computing,
        "producer_waits": held_back,
        "depth_max": deepest,
        "built": built,
    }
    if covered < _NO_OVERLAP and deepest <= 1 and min(share, computing) >= facts.minimum:
        rule, by_name = NO_OVERLAP, False
        # A stage is loaded, waited for, computed and given back. With two of them that goes on twice at once.
        figures["second_stage"] = second = min(whole, (whole + computing) / 2)
        more = f"; while it computes, {covered:.0%} of the time anything is in flight"
        next_ = (
            f"give the pipeline a second stage, so that the next load runs while the consumer computes: up to "
            f"{second:.0%}, if loads take no less; and more of them while it still waits"
        )
    elif built > 1 and deepest < built and held_back >= facts.minimum:
        rule = SHALLOW
        more = (
            f"; of {built} hand-offs that the pipeline was built for, {deepest} are in flight at most, and {producer} "
        )
        more += f"waits {held_back:.0%} of the time"
        next_ = f"look at what {producer} waits for: it has stages left to fill"
    elif held_back >= facts.minimum:
        next_ = f"more stages: {producer} waits {held_back:.0%} of the time itself, so what is in flight is the limit"
    else:
        by_name = False
        next_ = f"speed {producer} up: it does not wait, so it is the limit; fewer and larger loads, or share its work"
    rate = _rate(facts, consumer)
    more += f"; all that its waits take is {whole:.0%}"
    if rate is not None:
        more += f", and it computes at {rate:.0%} of the tensor cores' rate"
        # A consumer that waits can still keep the tensor cores busy, with what it issued before. Three stages in
        # place of four made the production GEMM's wait 25% of the time, and the kernel no slower (0.3%).
        win, figures["rate"] = min(win, facts.steady_share[consumer] * (1 - rate)), rate
    return facts.finding(
        rule,
        seen=f"{consumer} waits {share:.0%} of the time for {producer}, in {often:.0%} of its iterations" + more,
        win=win,
        next=next_,
        groups=_groups(facts, edge),
        roles=(WAIT,) if by_name else (),
        figures=figures,
        ranges=tuple(dict.fromkeys(facts.names[number] for number in (*sources, *waited_for))),
        ctas=facts.worst(np.sum([waited.of_cta for waited in waits], axis=0)),
    )


def _by_name(facts: Facts, group: str) -> bool:
    """Whether names alone tell where a group waits."""
    return not any(facts.group_of(number) == group for number in facts.edge_waits)


def _covered(facts: Facts, edge: Edge, at: int) -> tuple[float, float]:
    """The part of the consumer's computing time in which a hand-off is in flight, or its producer at work.

    And that time's share of the CTAs'. Both of the launch's middle CTAs.
    """
    slices, flows, number = facts.timeline.slices, facts.timeline.flows, facts.summary.numbering
    ctas = facts.timeline.ctas[_middle(len(facts.timeline.ctas))]
    numbers, cycles = ctas.codes("cta"), float(ctas.codes("cycles").sum())
    low, high = np.searchsorted(slices.codes("cta"), [numbers[0], numbers[-1] + 1])

    def inside(positions: np.ndarray) -> np.ndarray:
        return positions[slice(*np.searchsorted(positions, [low, high]))]

    def spans(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of some slices the CTA, as a position in ``numbers``, the start and the end."""
        start = slices.codes("start").take(positions)
        line = np.searchsorted(numbers, slices.codes("cta").take(positions))
        return line, start, start + slices.codes("duration").take(positions)

    of_wait, waits, ready = spans(inside(facts.steady_slices(edge.dst[at])))
    part = flows[slice(*np.searchsorted(flows.codes("src_slice"), [low, high]))]
    src, dst = (number.of_slice.take(part.codes(side)) for side in ("src_slice", "dst_slice"))
    part = part[(src == edge.src) & (dst == edge.dst[at])]
    in_flight = spans(part.codes("src_slice"))[0], part.codes("start"), part.codes("end")
    own = [other for other in facts.of_group(facts.group_of(edge.src)) if other not in facts.waits]
    busy = [in_flight, *(spans(inside(number.positions(other))) for other in own)]
    of, begin, end = (np.concatenate(column) for column in zip(*busy))
    span = 1 + max(int(ready.max(initial=0)), int(end.max(initial=0)))
    same = of_wait[1:] == of_wait[:-1]
    offset = of_wait[1:][same] * span
    computes, until = ready[:-1][same] + offset, waits[1:][same] + offset  # from one wait to the next
    computing = int((until - computes).sum())
    if computing <= 0:
        return 1.0, 0.0
    order = np.lexsort((begin, of))
    begin, end, of = begin[order] + of[order] * span, end[order] + of[order] * span, of[order]
    first, last, _ = stretches(begin, np.maximum(end - begin, 0), of)
    both = int((_before(first, last, until) - _before(first, last, computes)).sum())
    return both / computing, computing / cycles


def _middle(count: int) -> slice:
    """The middle ones of so many CTAs, those looked at where all would take much memory."""
    first = max((count - _LOOKED_AT) // 2, 0)
    return slice(first, first + _LOOKED_AT)


def _before(first: np.ndarray, last: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """How much of the stretches lies before each moment."""
    if len(first) == 0:
        return np.zeros(len(moments))
    length = np.append(0, np.cumsum(last - first))
    at = np.searchsorted(first, moments, side="right")
    return length[at] - np.where(at > 0, np.maximum(last[at - 1] - moments, 0), 0)


def _other_work(facts: Facts, dst: int) -> float | None:
    """The share of its time that a consumer neither waits nor computes in the steady state; None if unknown.

    Where it was said how long a computation needs at least, what it takes beyond that is no computing.
    """
    group = facts.group_of(dst)
    own = facts.of_group(group)
    if group not in facts.steady_share or not any(number in facts.computes for number in own):
        return None
    durations = facts.timeline.slices.codes("duration")
    known = 0.0
    for number in own:
        if number in facts.computes or number in facts.waits:
            took = durations.take(facts.steady_slices(number))
            known += float(np.minimum(took, facts.least_cycles.get(facts.names[number][2], np.inf)).sum())
    return max(facts.steady_share[group] - known / facts.cycles, 0.0)


def _one_after_the_other(facts: Facts, group: str) -> Iterator[Finding]:
    """No overlap between the loads and the computations of one thread, in a loop.

    What asynchronous loads, or another group's, remove at most is the loads, and all waits: those at barriers around
    the loads, and those for the computation too, since the next one can be issued behind it. Unmodified GEMMs on an
    H200 won more than the smaller one of loads and computations, and more than the loads.
    """
    ranges, finished = facts.summary.ranges, int(facts.timeline.ctas["finished"].sum())
    if not finished or facts.cycles <= 0:
        return
    looped = [number for number in facts.of_group(group) if ranges["count"][number] >= 2 * finished]
    barriers = {number for number in looped if has_word(facts.names[number][2], _BARRIERS)}
    loads = [number for number in looped if number in facts.loads]
    computes = [number for number in looped if number in facts.computes]
    waits = [number for number in looped if number in facts.waits | barriers and number not in (*loads, *computes)]
    load, compute, wait = (float(ranges["self"][part].sum()) / facts.cycles for part in (loads, computes, waits))
    win, figures = load + wait, {"loads": load, "computes": compute, "waits": wait}
    rate = _rate(facts, group)
    if rate is not None:
        win, figures["rate"] = min(win, facts.steady_share[group] * (1 - rate)), rate
    if min(load, compute, win) >= facts.minimum:
        what = ", one after the other" + (f", and waits for {wait:.0%}" if wait >= 0.005 else "")
        what += "" if rate is None else f"; that is {rate:.0%} of the tensor cores' rate"
        yield facts.finding(
            NO_OVERLAP,
            seen=f"{group} loads for {load:.0%} of the time and computes for {compute:.0%}{what}",
            win=win,
            groups={group},
            roles=(LOAD, COMPUTE),
            next="load the next tile while this one is computed: asynchronous copies, or a group for loads alone",
            figures=figures,
            ranges=tuple(facts.names[number] for number in (*loads, *computes)),
        )
