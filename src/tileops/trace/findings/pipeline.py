"""Rules about hand-offs: who waits for whom, whether anything overlaps, how deep the pipeline runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..statistics.lanes import stretches
from .facts import Edge, Facts, Waited
from .finding import Finding
from .rates import flop_a_cycle
from .roles import COMPUTE, LOAD, WAIT

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


def pipeline(facts: Facts) -> Iterator[Finding]:
    """Findings about each forward edge, and about groups that load and compute by themselves."""
    for edge in facts.edges:
        groups = {facts.group_of(number) for number in (edge.src, *edge.dst)}
        if facts.supported(groups):
            yield from _of_edge(facts, edge, groups)
    tied = {facts.group_of(number) for edge in facts.edges for number in (edge.src, *edge.dst)}
    for group in facts.timeline.groups:
        if group not in tied and facts.supported({group}):
            yield from _one_after_the_other(facts, group)


def _of_edge(facts: Facts, edge: Edge, groups: set[str]) -> Iterator[Finding]:
    waits = [facts.waited(number) for number in edge.dst]
    # Of several consumers the one that waits least is the limit: the others wait for the stages that it holds, too.
    at = int(np.argmin([waited.share for waited in waits]))
    waited, dst = waits[at], edge.dst[at]
    producer, consumer = facts.group_of(edge.src), facts.group_of(dst)
    rate = _rate(facts, consumer)
    if waited.share >= facts.minimum and waited.often >= _OFTEN:
        found = _starved(facts, edge, at, waited, groups)
        if rate is not None:
            # A consumer that waits can still keep the tensor cores busy, with what it issued before. Three stages in
            # place of four made the production GEMM's wait 25% of the time, and the kernel no slower (0.3%).
            win = min(found.win, facts.steady_share[consumer] * (1 - rate))
            found = replace(found, win=win, figures={**found.figures, "rate": rate})
        if found.win >= facts.minimum:
            yield found
        return
    held_back = facts.producer_waits(edge)
    if rate is not None:
        win = facts.steady_share[consumer] * (1 - rate)
        if held_back >= _HELD_BACK and win >= max(facts.minimum, _LEAST_OTHER):
            yield _slow(facts, edge, dst, groups, rate, win)
        return
    other = _other_work(facts, dst)
    if held_back >= _HELD_BACK and other is not None and other >= max(facts.minimum, _LEAST_OTHER):
        named = [number for number in facts.of_group(producer) if number in facts.waits]
        yield facts.finding(
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


def _slow(facts: Facts, edge: Edge, dst: int, groups: set[str], rate: float, win: float) -> Finding:
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


def _starved(facts: Facts, edge: Edge, at: int, waited: Waited, groups: set[str]) -> Finding:
    """The one of three findings that explains why a consumer waits."""
    dst, handoffs = edge.dst[at], facts.summary.handoffs
    producer, consumer = facts.group_of(edge.src), facts.group_of(dst)
    deepest, built = (int(handoffs[column][edge.rows[at]]) for column in ("depth_max", "built"))
    covered, computing = _covered(facts, edge, at)
    held_back = facts.producer_waits(edge)
    rule, win, by_name, more = "consumer-starved", waited.share, _by_name(facts, producer), ""
    if covered < _NO_OVERLAP and deepest <= 1 and min(waited.share, computing) >= facts.minimum:
        rule, win, by_name = "no-overlap", min(waited.share, computing), False
        more = f"; while it computes, {covered:.0%} of the time anything is in flight"
        next_ = "give the pipeline a second stage, so that the next load runs while the consumer computes"
    elif built > 1 and deepest < built and held_back >= facts.minimum:
        rule = "shallow-pipeline"
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
    return facts.finding(
        rule,
        seen=f"{consumer} waits {waited.share:.0%} of the time for {producer}, in {waited.often:.0%} of its iterations"
        + more,
        win=win,
        next=next_,
        groups=groups,
        roles=(WAIT,) if by_name else (),
        figures={
            "waits": waited.share,
            "often": waited.often,
            "covered": covered,
            "computes": computing,
            "producer_waits": held_back,
            "depth_max": deepest,
            "built": built,
        },
        ranges=(facts.names[edge.src], facts.names[dst]),
        ctas=facts.worst(waited.of_cta),
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
    """No overlap between the loads and the computations of one thread, in a loop."""
    ranges, finished = facts.summary.ranges, int(facts.timeline.ctas["finished"].sum())
    own = facts.of_group(group)
    if not finished or facts.cycles <= 0:
        return
    shares = []
    for chosen in (facts.loads, facts.computes):
        loop = [number for number in own if number in chosen and ranges["count"][number] >= 2 * finished]
        shares.append((loop, float(ranges["self"][loop].sum()) / facts.cycles))
    (loads, load), (computes, compute) = shares
    win = min(load, compute)
    if win >= facts.minimum:
        yield facts.finding(
            "no-overlap",
            seen=f"{group} loads for {load:.0%} of the time and computes for {compute:.0%}, one after the other",
            win=win,
            groups={group},
            roles=(LOAD, COMPUTE),
            next="load the next tile while this one is computed: asynchronous copies, or a group for loads alone",
            figures={"loads": load, "computes": compute},
            ranges=tuple(facts.names[number] for number in (*loads, *computes)),
        )
