"""Timelines of kernels that are simulated, so that what costs time in them is known.

A kernel is a producer, a ring of stages and one or two consumers in each CTA, and CTAs that are put on SMs as they get
free. What a fault costs is what the same kernel takes without it, with the same random numbers: no rule is asked.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

import numpy as np

from tileops.trace import Table, Timeline

GHZ = 1.5
PROBE = {"plain": 15.5, "payload": 22.0}


@dataclass(frozen=True)
class Kernel:
    """What a kernel does. Times are cycles."""

    sms: int = 16
    ctas: int = 32
    resident: int = 1
    iterations: int = 40
    built: int = 4  # stages
    ring: int = 4  # stages that are really used
    consumers: int = 1
    issue: float = 60
    latency: float = 600
    compute: float = 600
    between: float = 15  # what a consumer does between two computations
    between_is_range: bool = False
    prologue: float = 200
    epilogue: float = 500
    jitter: float = 0.04
    outliers: float = 0.0  # part of the computations
    outlier: float = 10.0  # times as long
    second: float = 1.0  # the second consumer's work, of the first one's
    heavy: float = 0.0  # part of the CTAs
    heavier: float = 1.0  # times the work
    slow_sms: float = 0.0
    slower: float = 1.0  # times the time
    back_edge: bool = True
    edges: bool = True  # whether there are dag edges
    alone: bool = False  # one group that loads and computes by itself
    apart: float | None = None  # two groups that know nothing of each other; the second one's work, of the first one's
    tiny: float = 0.0  # a range of that length in each iteration
    ratio: float = 1.004  # of tracing
    dropped: float = 0.0  # part of the events of the producer's rows, in all CTAs
    seed: int = 0


@dataclass
class Ran:
    """What a kernel did: ranges as (group, lane, name, begins, ends), arrays over CTAs; and its launch."""

    cycles: np.ndarray
    begin_ns: np.ndarray
    end_ns: np.ndarray
    sm: np.ndarray
    fill: float  # mean cycles until the first data is there
    slow: float  # mean cycles that outliers take beyond the others
    ranges: list[tuple[str, str, str, np.ndarray, np.ndarray]] = field(default_factory=list)

    @property
    def span(self) -> float:
        return float(self.end_ns.max() - self.begin_ns.min())


def run(kernel: Kernel) -> Ran:
    """Simulates a kernel. Random numbers do not depend on anything but its size and its seed."""
    random = np.random.default_rng(kernel.seed)
    ctas, count = kernel.ctas, kernel.iterations
    noise = np.clip(1 + kernel.jitter * random.standard_normal((5, count, ctas)), 0.5, 2)
    chance = random.random((count, ctas))
    heavy = np.zeros(ctas, dtype=bool)
    heavy[random.permutation(ctas)[: round(kernel.heavy * ctas)]] = True
    slow = np.zeros(kernel.sms, dtype=bool)
    slow[random.permutation(kernel.sms)[: round(kernel.slow_sms * kernel.sms)]] = True
    satisfied = random.integers(70, 106, (3, count, ctas)).astype(float)
    work = np.where(heavy, kernel.heavier, 1.0)
    computing = kernel.compute * noise[1] * np.where(chance < kernel.outliers, kernel.outlier, 1.0) * work
    ranges: list[tuple[str, str, str, np.ndarray, np.ndarray]] = []

    def add(group: str, lane: str, name: str, begin: np.ndarray, end: np.ndarray) -> None:
        ranges.append((group, lane, name, np.rint(begin), np.rint(end)))

    names = ["consumer"] if kernel.consumers == 1 else ["consumer0", "consumer1"]
    names = ["block"] if kernel.alone else names if kernel.apart is None else ["reader", "writer"]
    producer = np.full(ctas, kernel.prologue)
    consumers = [np.full(ctas, kernel.prologue + 100.0) for _ in names]
    freed: list[np.ndarray] = []
    fill = 0.0
    for k in range(count):
        if kernel.apart is not None:
            for number, (group, part) in enumerate((("reader", 1.0), ("writer", kernel.apart))):
                begin = consumers[number]
                consumers[number] = begin + computing[k] * part
                add(group, "main", "scan" if number == 0 else "pack", begin, consumers[number])
            continue
        if kernel.alone:
            begin = consumers[0]
            loaded = begin + (kernel.latency + kernel.issue) * noise[0, k] * work
            done = loaded + computing[k]
            add("block", "copy", "copy", begin, loaded)
            add("block", "wgmma", "mma", loaded, done)
            consumers[0] = done + kernel.between * noise[3, k]
            continue
        begin = producer
        free = freed[k - kernel.ring] if k >= kernel.ring else np.zeros(ctas)
        producer = np.maximum(begin + satisfied[0, k], free + 25)
        add("producer", "barrier", "acquire", begin, producer)
        issued = producer + kernel.issue * noise[2, k] * work
        add("producer", "tma", "tma", producer, issued)
        add("producer", "barrier", "arrive", issued, issued)
        landed = issued + kernel.latency * noise[0, k]
        producer = issued + 5
        fill = float(landed.mean()) if k == 0 else fill
        releases = []
        for number, name in enumerate(names):
            begin = consumers[number]
            ready = np.maximum(begin + satisfied[1 + number, k], landed + 25)
            add(name, "barrier", "wait", begin, ready)
            done = ready + computing[k] * (kernel.second if number else 1.0)
            add(name, "wgmma", "mma", ready, done)
            if kernel.tiny:
                add(name, "main", "tick", done, done + kernel.tiny * noise[4, k])
                done = done + kernel.tiny * noise[4, k]
            add(name, "barrier", "release", done, done + 40)
            releases.append(done + 40)
            after = done + 42 + kernel.between * noise[3, k] * work
            if kernel.between_is_range:
                add(name, "main", "scale", done + 42, after)
            consumers[number] = after
        freed.append(np.max(releases, axis=0))
    ends = []
    for name, now in zip(names, consumers):
        end = now + kernel.epilogue * noise[4, 0] * work
        add(name, "main", "epilogue", now, end)
        ends.append(end)
    cycles = np.rint(np.max(ends, axis=0)) + 30
    begin_ns, end_ns, sm = _schedule(kernel, cycles, slow)
    slowed = np.where(chance < kernel.outliers, 1 - 1 / kernel.outlier, 0.0)
    slow_cycles = float((computing * slowed).sum(axis=0).mean())
    return Ran(cycles.astype(np.int64), begin_ns, end_ns, sm, fill, slow_cycles, ranges)


def _schedule(kernel: Kernel, cycles: np.ndarray, slow: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CTAs in order, each on the SM that is free first."""
    free = [(0.0, place, sm) for place in range(kernel.resident) for sm in range(kernel.sms)]
    heapq.heapify(free)
    begin, end, on = np.zeros(kernel.ctas), np.zeros(kernel.ctas), np.zeros(kernel.ctas, dtype=np.int64)
    for cta, took in enumerate(cycles):
        now, place, sm = heapq.heappop(free)
        begin[cta], on[cta] = now, sm
        end[cta] = now + took / GHZ * (kernel.slower if slow[sm] else 1.0)
        heapq.heappush(free, (end[cta] + 20, place, sm))
    return begin, end, on


def timeline(kernel: Kernel, ran: Ran | None = None) -> Timeline:
    """The Timeline of a kernel."""
    ran = ran or run(kernel)
    groups = tuple(dict.fromkeys(entry[0] for entry in ran.ranges))
    texts = {
        "group": groups,
        **{key: tuple(dict.fromkeys(e[at] for e in ran.ranges)) for at, key in ((1, "lane"), (2, "name"))},
    }
    ctas, count = kernel.ctas, len(ran.ranges)
    codes = {
        key: np.repeat([texts[key].index(entry[at]) for entry in ran.ranges], ctas)
        for at, key in enumerate(("group", "lane", "name"))
    }
    cta, emitted = np.tile(np.arange(ctas), count), np.repeat(np.arange(count), ctas)
    start, end = (np.concatenate([entry[at] for entry in ran.ranges]).astype(np.int64) for at in (3, 4))
    order = np.lexsort((emitted, start, codes["group"], cta))
    lost = np.zeros(len(groups) * ctas, dtype=np.int64)
    events = 2 * np.bincount(cta * len(groups) + codes["group"], minlength=len(lost))
    if kernel.dropped:
        # Rows of the first group are full before their end.
        nth = np.arange(len(order)) - np.searchsorted(
            (cta * len(groups) + codes["group"])[order], (cta * len(groups) + codes["group"])[order]
        )
        of_row = events[(cta * len(groups) + codes["group"])[order]] // 2
        keep = (codes["group"][order] > 0) | (nth < of_row * (1 - kernel.dropped))
        order = order[keep]
        left = 2 * np.bincount((cta * len(groups) + codes["group"])[order], minlength=len(lost))
        lost, events = events - left, left
    cta, start, end = cta[order], start[order], end[order]
    codes = {key: values[order] for key, values in codes.items()}
    ghz = ran.cycles / (ran.end_ns - ran.begin_ns)
    slices = Table(
        {
            "cta": cta, **codes, "start": start, "duration": end - start, "payload": np.full(len(cta), np.nan),
            "payload_kind": np.zeros(len(cta), dtype=np.uint8), "depth": np.zeros(len(cta), dtype=np.int16),
            "start_ns": ran.begin_ns[cta] + start / ghz[cta], "duration_ns": (end - start) / ghz[cta],
            "cut": np.zeros(len(cta), dtype=bool), "site": codes["name"],
        },
        texts,
    )  # fmt: skip
    number = np.arange(ctas)
    per_cta = {"recorded": events.reshape(ctas, -1).sum(axis=1), "dropped": lost.reshape(ctas, -1).sum(axis=1)}
    ones = np.ones(ctas, dtype=bool)
    return Timeline(
        slices=slices,
        instants=Table({key: np.empty(0) for key in ("cta", "time")}),
        flows=_flows(kernel, slices),
        rows=Table(
            {"cta": np.repeat(number, len(groups)), "group": np.tile(np.arange(len(groups)), ctas),
             "recorded": events, "dropped": lost, "finished": np.repeat(ones, len(groups))},
            {"group": groups},
        ),
        ctas=Table(
            {"cta": number, "x": number, "y": 0 * number, "z": 0 * number, "sm": ran.sm, "begin_ns": ran.begin_ns,
             "end_ns": ran.end_ns, "cycles": ran.cycles, "ghz": ghz, **per_cta, "finished": ones}
        ),
        grid=(ctas, 1, 1),
        groups=groups,
        axis_error_ns=20.0,
        meta={"kernel": "simulated", "target": "cuda", "probe": dict(PROBE), "perturbation": {"ratio": kernel.ratio}},
    )  # fmt: skip


def _flows(kernel: Kernel, slices: Table) -> Table:
    """The hand-offs: arrive to wait, and release to acquire ``built`` later if the kernel says so."""
    parts = []
    edges = [("arrive", "wait", 0)] + ([("release", "acquire", kernel.built)] if kernel.back_edge else [])
    names, groups = slices.vocabulary("name"), slices.vocabulary("group")
    # By code and not by text: most of the time that a case takes would go into comparing texts.
    name, group = slices.codes("name"), slices.codes("group")
    for src, dst, shift in edges if kernel.edges and {*names} >= {"arrive", "wait", "release", "acquire"} else []:
        for one in range(len(groups)):
            for other in range(len(groups)):
                a = np.flatnonzero((name == names.index(src)) & (group == one))
                b = np.flatnonzero((name == names.index(dst)) & (group == other))
                if len(a) == 0 or len(b) == 0:
                    continue
                cta_a, cta_b = slices.cta[a], slices.cta[b]
                nth_a = np.arange(len(a)) - np.searchsorted(cta_a, cta_a)
                target = np.searchsorted(cta_b, cta_a) + nth_a + shift
                inside = (nth_a + shift) < np.searchsorted(cta_b, cta_a, side="right") - np.searchsorted(cta_b, cta_a)
                parts.append((a[inside], b[target[inside]], nth_a[inside]))
    src, dst, nth = (np.concatenate(c) for c in zip(*(parts or [(np.empty(0, dtype=np.int64),) * 3])))
    order = np.argsort(src, kind="stable")
    src, dst, nth = src[order], dst[order], nth[order]
    start = slices.start[src] + slices.duration[src]
    begun = slices.start[dst]
    end = np.where(begun < start, begun + slices.duration[dst], begun)
    return Table(
        {
            "cta": slices.cta[src], "src": slices.codes("name")[src], "dst": slices.codes("name")[dst],
            "src_group": slices.codes("group")[src], "dst_group": slices.codes("group")[dst],
            "src_slice": src, "dst_slice": dst, "occurrence": nth, "start": start, "end": end,
        },
        {"src": names, "dst": names, "src_group": groups, "dst_group": groups},
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Cases

RULES = (
    "consumer-starved", "producer-held-back", "no-overlap", "shallow-pipeline", "long-prologue", "long-epilogue",
    "dominating-lane", "cta-imbalance", "sm-imbalance", "tail-wave", "slow-outliers", "too-short-to-measure",
    "disturbed", "dropped-events",
)  # fmt: skip
MINIMUM = 0.05
LONG = 0.1  # for what is normal in part: prologue, epilogue, and what a loop does between its computations
NEGLIGIBLE = 0.01  # part of the CTAs' time that the records of short ranges take
# A win this far above the minimum is there, one this far below it is not; between them nothing is claimed.
THERE, NOT_THERE = 1.3, 0.6


@dataclass(frozen=True)
class Case:
    """A Timeline, and which rules must and must not speak; of others nothing is claimed."""

    kernel: Kernel
    timeline: Timeline
    there: frozenset[str]
    not_there: frozenset[str]
    ran: Ran


def healthy(random: np.random.Generator) -> Kernel:
    """A kernel without a fault: loads that hide behind the computation, whole waves."""
    sms, resident = int(random.integers(8, 25)), int(random.choice([1, 1, 2]))
    compute = float(random.uniform(400, 1200))
    built = int(random.integers(3, 7))
    iterations = int(random.integers(30, 90))
    return Kernel(
        sms=sms, resident=resident, ctas=sms * resident * int(random.integers(1, 4)), iterations=iterations,
        built=built, ring=built, consumers=int(random.integers(1, 3)), issue=float(random.uniform(40, 0.2 * compute)),
        latency=float(random.uniform(0.3, 0.65) * compute * (built - 1)), compute=compute,
        between=float(random.uniform(0, 0.03) * compute), between_is_range=bool(random.random() < 0.5),
        prologue=float(random.uniform(50, 0.02 * iterations * compute)),
        epilogue=float(random.uniform(100, 0.04 * iterations * compute)), jitter=float(random.uniform(0.005, 0.06)),
        back_edge=bool(random.random() < 0.6), edges=bool(random.random() < 0.9),
        ratio=float(random.uniform(0.995, 1.01)),
        seed=int(random.integers(1 << 31)),
    )  # fmt: skip


def faulty(rule: str, random: np.random.Generator) -> Kernel:
    """A kernel with one fault, of any strength from nearly none."""
    kernel = healthy(random)
    compute, total = kernel.compute, kernel.compute * kernel.iterations
    strength = float(random.uniform(0, 1) ** 0.7)
    if rule == "consumer-starved":
        if random.random() < 0.5:  # a slow producer
            return replace(kernel, issue=compute * (0.5 + 2 * strength))
        stages = int(random.integers(2, 5))  # too few stages for the latency
        return replace(kernel, built=stages, ring=stages, latency=compute * (stages - 0.5 + 4 * strength))
    if rule == "producer-held-back":
        return replace(kernel, between=compute * 1.2 * strength, between_is_range=bool(random.random() < 0.5))
    if rule == "no-overlap":
        if random.random() < 0.4:
            return replace(kernel, alone=True, consumers=1, edges=False, issue=0.0, latency=compute * 1.5 * strength)
        return replace(kernel, built=1, ring=1, latency=compute * (0.1 + 2 * strength))
    if rule == "shallow-pipeline":
        ring = int(random.integers(2, 4))
        built = ring + int(random.integers(1, 4))
        latency = compute * (ring - 0.7 + 2 * strength)
        return replace(kernel, ring=ring, built=built, latency=latency, issue=min(kernel.issue, 60), back_edge=True)
    if rule == "long-prologue":
        return replace(kernel, prologue=total * 0.6 * strength)
    if rule == "long-epilogue":
        return replace(kernel, epilogue=total * 0.6 * strength)
    if rule == "dominating-lane" and random.random() < 0.4:
        apart = float(random.uniform(0.02, 1.2))
        return replace(kernel, apart=apart, between=0.0, prologue=100.0, outliers=0.0)
    if rule == "dominating-lane":
        return replace(kernel, consumers=2, second=1 - 0.8 * strength)
    if rule == "cta-imbalance":
        return replace(kernel, heavy=float(random.uniform(0.05, 0.4)), heavier=1 + 1.5 * strength)
    if rule == "sm-imbalance":
        waves = int(random.integers(3, 6))
        ctas = kernel.sms * kernel.resident * waves
        return replace(kernel, ctas=ctas, slow_sms=float(random.uniform(0.1, 0.5)), slower=1 + 0.8 * strength)
    if rule == "tail-wave":
        slots = kernel.sms * kernel.resident
        return replace(kernel, ctas=int(random.integers(1, 4)) * slots + int(random.integers(0, slots)))
    if rule == "slow-outliers":
        return replace(kernel, outliers=float(random.uniform(0.003, 0.03)), outlier=2.5 + 25 * strength)
    if rule == "too-short-to-measure":
        return replace(kernel, tiny=float(random.uniform(2, 90)))
    if rule == "disturbed":
        return replace(kernel, ratio=1 + 0.3 * strength)
    return replace(kernel, dropped=0.6 * strength)


def case(rule: str, seed: int) -> Case:
    """The case of a rule with this seed: with its fault, or with no fault in a fifth of the seeds."""
    random = np.random.default_rng([RULES.index(rule), seed])
    kernel = healthy(random) if random.random() < 0.2 else faulty(rule, random)
    ran = run(kernel)
    wins = true_wins(kernel, ran)
    there = {name for name, (win, least) in wins.items() if win >= THERE * least}
    not_there = {name for name, (win, least) in wins.items() if win <= NOT_THERE * least}
    return Case(kernel, timeline(kernel, ran), frozenset(there), frozenset(not_there), ran)


def true_wins(kernel: Kernel, ran: Ran) -> dict[str, tuple[float, float]]:
    """For each rule what its fault costs, as a share of the span, and the least that is to be found."""

    def win(**without: float) -> float:
        return 1 - run(replace(kernel, **without)).span / ran.span

    wins: dict[str, tuple[float, float]] = {}
    # Why consumers wait: with one stage nothing overlaps; with fewer than built it is the ring; else the producer.
    # That they wait for the first load is the prologue.
    cycles = float(ran.cycles.mean())
    fill = ran.fill - run(replace(kernel, latency=1.0, issue=1.0)).fill
    single = kernel.alone or kernel.apart is not None
    waits = 0.0 if single or not kernel.edges else win(latency=1.0, issue=1.0) - fill / cycles
    cause = "no-overlap" if kernel.ring == 1 else "consumer-starved"
    if kernel.ring < kernel.built and kernel.edges:
        deeper = win(ring=kernel.built)
        cause = "shallow-pipeline" if deeper >= THERE * MINIMUM else ""
        if waits <= NOT_THERE * MINIMUM:
            cause = "shallow-pipeline"
    for rule in ("consumer-starved", "no-overlap", "shallow-pipeline"):
        if cause:
            wins[rule] = (waits if rule == cause else 0.0, MINIMUM)
    if kernel.ring == 1 and kernel.edges:  # what overlap can win is the smaller one of the two
        wins["no-overlap"] = (min(waits, win(ring=2, built=2)), MINIMUM)
    if kernel.alone:
        load = kernel.latency + kernel.issue
        wins["no-overlap"] = (min(load, kernel.compute) * kernel.iterations / cycles, MINIMUM)
    other = 42 + kernel.tiny + kernel.between
    held = 0.0 if single or not kernel.edges or waits >= MINIMUM else other * kernel.iterations / cycles
    if waits <= NOT_THERE * MINIMUM or held == 0.0:
        wins["producer-held-back"] = (held, LONG)
    wins["long-prologue"] = ((kernel.prologue + 100 if single else ran.fill) / cycles, LONG)
    wins["long-epilogue"] = (kernel.epilogue / cycles, LONG)
    uneven = 0.0
    if kernel.consumers == 2 and not single:
        uneven = (1 - kernel.second) / 2 * kernel.compute * kernel.iterations / cycles
    wins["dominating-lane"] = (uneven, MINIMUM)
    if not kernel.edges and not single:  # then a producer that has most to do is a lane like others
        of_producer = 0.5 * kernel.issue / (kernel.compute + 82), 1.0
        wins["dominating-lane"] = max(wins["dominating-lane"], of_producer, key=lambda pair: pair[0] / pair[1])
    if kernel.apart is not None:  # less than half as much is what makes it one, whichever of the two it is
        wins["dominating-lane"] = (0.5 / max(min(kernel.apart, 1 / kernel.apart), 0.01), 1.0)
    even, slots = _even_span(kernel, ran), kernel.sms * kernel.resident
    unfilled = 1 - kernel.ctas / (-(-kernel.ctas // slots) * slots)
    lost = 1 - float((ran.end_ns - ran.begin_ns).sum()) / (slots * ran.span)
    wins["tail-wave"] = (min(unfilled, lost) if kernel.resident == 1 or unfilled == 0 else _lost(kernel, ran), MINIMUM)
    imbalance = 1 - even / ran.span
    by_sm = kernel.slow_sms > 0 and kernel.slower > 1
    wins["sm-imbalance"] = (imbalance if by_sm else 0.0, MINIMUM)
    wins["cta-imbalance"] = (0.0 if by_sm else imbalance, MINIMUM)
    wins["slow-outliers"] = (ran.slow / cycles, MINIMUM)
    shortest = min(
        kernel.tiny or np.inf if not single else np.inf,
        kernel.between if kernel.between_is_range and not single else np.inf,
        kernel.latency + kernel.issue if kernel.alone else np.inf,
        kernel.compute * kernel.apart if kernel.apart is not None else np.inf,
    )
    # Ranges whose records take next to nothing are left out.
    records = 2 * PROBE["plain"]
    part = records * kernel.iterations * (kernel.consumers if not single else 1) / cycles / NEGLIGIBLE
    wins["too-short-to-measure"] = (min(records / max(shortest, 1), part), 1.0)
    wins["disturbed"] = (abs(kernel.ratio - 1), 0.05)
    if kernel.dropped == 0 or kernel.dropped > 0.1:
        wins["dropped-events"] = (kernel.dropped, 0.1)
    return wins


def real_win(kernel: Kernel, ran: Ran, rule: str) -> float | None:
    """What the kernel wins, as a share of its span, if a rule's fault alone is removed as well as can be.

    It is what a finding's bound is held against: all that is waited for, not what overlap alone would win. None of
    rules about the recording.
    """
    slots = kernel.sms * kernel.resident
    if rule == "no-overlap" and kernel.alone:
        without = replace(kernel, latency=0.0, issue=0.0)
    elif rule in ("consumer-starved", "no-overlap"):  # all is loaded ahead; what the first load takes stays
        without = replace(kernel, issue=1.0, ring=kernel.iterations, built=kernel.iterations)
    elif rule == "shallow-pipeline":
        without = replace(kernel, ring=kernel.built)
    elif rule == "producer-held-back":
        without = replace(kernel, between=0.0, tiny=0.0)
    elif rule in ("long-prologue", "long-epilogue"):
        without = replace(kernel, **{rule.removeprefix("long-"): 0.0})
    elif rule == "dominating-lane" and kernel.apart is not None:
        without = replace(kernel, compute=kernel.compute * (1 + kernel.apart) / 2, apart=1.0)
    elif rule == "dominating-lane":
        without = replace(kernel, compute=kernel.compute * (1 + kernel.second) / 2, second=1.0)
    elif rule == "slow-outliers":
        without = replace(kernel, outliers=0.0)
    elif rule == "sm-imbalance":
        without = replace(kernel, slower=1.0)
    elif rule == "cta-imbalance":
        return 1 - _even_span(kernel, ran) / ran.span
    elif rule == "tail-wave":  # the same work in as many CTAs as fill the waves
        full = -(-kernel.ctas // slots) * slots
        return 1 - run(replace(kernel, ctas=full)).span * kernel.ctas / full / ran.span
    else:
        return None
    return 1 - run(without).span / ran.span


def _even_span(kernel: Kernel, ran: Ran) -> float:
    """The span if all CTAs took as long as the average one."""
    mean = np.full(kernel.ctas, float((ran.end_ns - ran.begin_ns).mean()) * GHZ)
    _, end, _ = _schedule(replace(kernel, slower=1.0), mean, np.zeros(kernel.sms, dtype=bool))
    return float(end.max())


def _lost(kernel: Kernel, ran: Ran) -> float:
    """The part of the SMs' time in which they hold no CTA."""
    idle = 0.0
    for sm in range(kernel.sms):
        held = np.zeros(1000, dtype=bool)
        for begin, end in zip(ran.begin_ns[ran.sm == sm], ran.end_ns[ran.sm == sm]):
            held[int(begin / ran.span * 1000) : int(end / ran.span * 1000)] = True
        idle += 1 - held.mean()
    return idle / kernel.sms
