"""Rules about work that is spread unevenly: over groups, over CTAs, over SMs, over waves."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..statistics.numbering import runs
from .facts import NAMED, Facts
from .finding import Finding

# A group among others that do something else dominates if it works for so much of the time, and the next one for no
# more than half of that. One that computes may: there the rest is meant to hide behind it.
_MOST, _NEXT = 0.5, 0.5
# Of the spread of the CTAs' durations, so much must lie between SMs for the SMs to be the cause, and more than in this
# part of so many deals of the same CTAs to the same SMs: two long CTAs come together by chance.
_OF_SMS, _SURE, _DEALS = 0.75, 0.995, 400


def lanes(facts: Facts) -> Iterator[Finding]:
    """A lane that works while those beside it do not."""
    if facts.cycles <= 0 or not facts.supported(facts.timeline.groups):
        return
    own = facts.summary.ranges["self"] / facts.cycles
    works: dict[str, dict[str, float]] = {}
    does: dict[str, set[tuple[str, str]]] = {}
    for number, (group, lane, name) in enumerate(facts.names):
        works.setdefault(group, {}).setdefault(lane, 0.0)
        does.setdefault(group, set()).add((lane, name))
        if number not in facts.waits:
            works[group][lane] += float(own[number])
    share = {group: sum(of_lane.values()) for group, of_lane in works.items()}
    alike: dict[frozenset[tuple[str, str]], list[str]] = {}
    for group, names in does.items():
        alike.setdefault(frozenset(names), []).append(group)
    for peers in alike.values():
        first = max(peers, key=share.__getitem__)
        if len(peers) > 1:
            yield from _dominating(facts, first, peers, share, works, "")
    if len(share) > 1 and len(alike) == len(share) and not facts.edges:
        first, following = sorted(share, key=share.__getitem__, reverse=True)[:2]
        computes = any(facts.group_of(number) == first for number in facts.computes)
        if share[first] >= _MOST and share[following] <= _NEXT * share[first] and not computes:
            doubt = "the groups do different things, and no dag edge says how they depend on each other"
            yield from _dominating(facts, first, [*share], share, works, doubt)


def _dominating(
    facts: Facts, first: str, among: list[str], share: dict[str, float], works: dict[str, dict[str, float]], doubt: str
) -> Iterator[Finding]:
    mean = float(np.mean([share[group] for group in among]))
    win = share[first] - mean
    if win < facts.minimum:
        return
    lane = max(works[first], key=works[first].__getitem__)
    others = ", ".join(f"{group} {share[group]:.0%}" for group in among if group != first)
    yield facts.finding(
        "dominating-lane",
        seen=f"{first} / {lane} works {share[first]:.0%} of the time, while beside it {others}",
        win=win,
        groups=among,
        doubt=doubt,
        next=f"split the work of {first} more evenly over {', '.join(among)}",
        figures={"works": share[first], "mean": mean},
        ranges=tuple(facts.names[number] for number in facts.of_group(first)),
    )


def launch(facts: Facts) -> Iterator[Finding]:
    """What the SMs' idle time comes from: waves that are not full, CTAs that differ, SMs that differ."""
    timeline = facts.timeline
    span = facts.summary.span_ns
    if not facts.whole_launch or timeline.meta.get("target") == "c" or not span > 0:
        return
    load, ctas = facts.summary.load, timeline.ctas
    sms = int(load["sm"].max()) + 1
    lost = 1 - float(load["busy_ns"].sum()) / (sms * span)
    slots = sms * int(load["resident"].max())
    waves = math.ceil(len(ctas) / slots)
    unfilled = 1 - len(ctas) / (waves * slots)
    groups = timeline.groups
    took = ctas["end_ns"] - ctas["begin_ns"]
    tail = min(unfilled, lost)
    # How far off the axis is: what is lost must be more than that.
    error = 0.0 if math.isnan(timeline.axis_error_ns) else timeline.axis_error_ns / span
    if lost <= 2 * error:
        return
    if tail >= facts.minimum:
        idle = sms - len(load)
        last = float(np.sort(ctas["begin_ns"])[(waves - 1) * slots])
        what = f"{len(ctas):,} CTAs on {sms} SMs are {len(ctas) / slots:.2f} waves"
        # A CTA that has an SM to itself may be no faster than one that shares it: an SM that holds fewer CTAs than it
        # could is then lost in part.
        unused = 1 - float(took.sum()) / (slots * span)
        shared = f", and {unused:.0%} of the places for CTAs on them" if slots > sms else ""
        yield facts.finding(
            "tail-wave",
            seen=f"{what}: {lost:.0%} of the SMs' time is lost{shared}" + (f", {idle} SMs ran none" if idle else ""),
            win=min(unfilled, unused),
            groups=groups,
            next="choose tiles whose number fills whole waves, split the sum (split-K, stream-K), or keep CTAs and "
            "hand them tiles",
            figures={"waves": len(ctas) / slots, "lost": lost, "sms": sms, "idle_sms": idle},
            span_ns=(last, float(ctas["end_ns"].max())),
        )
    # Of CTAs that share an SM each has a part of it.
    uneven = 1 - float(took.sum()) / (slots * span) - unfilled
    spread = float(np.std(took) / np.mean(took)) if np.mean(took) > 0 else 0.0
    if uneven < facts.minimum or spread < facts.minimum / 2:
        return
    between, by_chance = _between_sms(ctas["sm"], ctas["begin_ns"], took)
    order = np.argsort(-took, kind="stable")[:NAMED]
    figures = {"lost": uneven, "spread": spread, "between_sms": between, "longest_ns": float(took.max())}
    seen = f"CTAs take {took.min() / 1000:,.1f} to {took.max() / 1000:,.1f} µs"
    if between >= _OF_SMS and between > by_chance:
        mean = {int(sm): float(took[ctas["sm"] == sm].mean()) for sm in np.unique(ctas["sm"])}
        slow = sorted(mean, key=mean.__getitem__, reverse=True)[:NAMED]
        # If all SMs were as fast as the fastest, instead of sharing the work better.
        each = np.array([mean[sm] for sm in ctas["sm"].tolist()])
        fastest = float((took * min(mean.values()) / np.maximum(each, 1)).sum())
        win = 1 - fastest / (slots * span) - unfilled
        yield facts.finding(
            "sm-imbalance",
            seen=f"{seen}, and {between:.0%} of that lies between SMs; slowest are {', '.join(map(str, slow))}",
            win=win,
            groups=groups,
            next="see whether these SMs run at a lower clock or farther from the data they read; hand tiles to CTAs as "
            "they get free",
            figures=figures,
            ctas=tuple(ctas["cta"][order].tolist()),
        )
    else:
        told = by_chance < 1
        doubt = "" if told else "some SMs ran one CTA alone: a slow CTA and a slow SM look the same"
        yield facts.finding(
            "cta-imbalance",
            seen=f"{seen}; {uneven:.0%} of the SMs' time is lost to it",
            win=uneven,
            groups=groups,
            doubt=doubt,
            next="begin with the CTAs that have most to do, make tiles smaller, or hand tiles to CTAs as they get free",
            figures=figures,
            ctas=tuple(ctas["cta"][order].tolist()),
        )


def _between_sms(sm: np.ndarray, began: np.ndarray, took: np.ndarray) -> tuple[float, float]:
    """The part of the variance of CTAs' durations that lies between SMs, and how much of it chance can make.

    Of each SM as many CTAs are taken as all SMs ran, the first ones: an SM with a long CTA gets fewer of them later,
    and would look slow for that alone. The second figure is 1 where that is less than two: then nothing can be told.
    """
    order = np.lexsort((began, sm))
    sm, took = sm[order], took[order]
    starts = runs(sm)
    count = np.diff(np.append(starts, len(sm)))
    each = int(count.min())
    if each < 2 or len(starts) < 2:
        return 0.0, 1.0
    first = took[starts[:, None] + np.arange(each)]  # (SMs, each)
    first = first - first.mean()
    total = float((first**2).sum())
    if total <= 0:
        return 0.0, 1.0

    def between(dealt: np.ndarray) -> float:
        return float(each * (dealt.mean(axis=1) ** 2).sum()) / total

    random = np.random.default_rng(0)
    flat = first.reshape(-1)
    deals = [between(random.permutation(flat).reshape(first.shape)) for _ in range(_DEALS)]
    return between(first), float(np.quantile(deals, _SURE))
