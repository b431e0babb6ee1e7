"""From measured figures to what bounds a piece of work, with the evidence and how far it goes.

Pure functions: figures in, a verdict out. The order of the questions is that of :func:`diagnose`:

1. Is there a time on the GPU at all?
2. Did the GPU wait for the host? Then rates against peaks say little about the program's time.
3. Is a rate near a peak that it can reach? The nearest one, measured in parts of its threshold, is the bound.
4. Otherwise timing alone does not explain the time, and a deeper tool has to.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .peaks import Ceilings

IO, VECTOR, MATRIX, LAUNCH, INCONCLUSIVE = (
    "IO-bound",
    "CUDA-core bound",
    "tensor-core bound",
    "launch-overhead bound",
    "inconclusive underperformance",
)
# Without a time on a GPU there is nothing to judge.
NO_VERDICT = "no verdict"
STRONG, WEAK, PROVISIONAL, NONE = "strong", "weak", "provisional", "none"
_STRENGTHS = (STRONG, WEAK, PROVISIONAL)


@dataclass(frozen=True)
class Threshold:
    """From which part of a peak on a verdict stands: strongly, or weakly."""

    strong: float
    weak: float


# Parts of a ceiling that was measured on this GPU by a program that does nothing else: a good kernel comes near.
MEASURED = {"bandwidth": Threshold(0.80, 0.65), "matrix": Threshold(0.80, 0.65), "vector": Threshold(0.80, 0.65)}
# Parts of a datasheet's peak, which no program reaches: memory loses to refresh and turnarounds, tensor cores run at
# lower clocks than the datasheet's under their power limit.
DATASHEET = {"bandwidth": Threshold(0.70, 0.55), "matrix": Threshold(0.60, 0.45), "vector": Threshold(0.60, 0.45)}
# The GPU was busy for at most this part of the time: it waited.
WAITED = Threshold(0.50, 0.80)
# The host's time in launch calls, in parts of the kernels' time on the GPU.
LAUNCHING = Threshold(1.00, 0.80)
# Of the time that the GPU was idle, so much at least must be the host's work or launches, or these are not the cause.
EXPLAINED = 0.30
# A rate beyond a peak by more than rounding.
BEYOND = 1.05
# Times scatter: from this part of the median on, their middle half weakens a verdict, resp. leaves it provisional.
SCATTER = Threshold(0.10, 0.30)
# Fewer repeats than that are an anecdote.
REPEATS = 5
# Below this the clocks' resolution and the launch itself are much of what is measured.
SHORTEST_NS = 2_000.0
# What commands name where the program is not known.
A_SCRIPT, A_FUNCTION = "python script.py", "tileops profile module:function"
_WARM_UP = (
    "Warm up until none of a first call's work falls inside, and profile again: what was measured includes it. If the "
    "verdict stays the same:"
)
# So near to a measured ceiling there is no room for another cause.
PROOF = 0.90


@dataclass(frozen=True)
class Measured:
    """What is known of one piece of work, per call. None is unknown, never zero.

    Attributes:
        name: of the candidate.
        gpu_ns: its kernels' time on the GPU, the median over repeats.
        low_ns, high_ns: the quartiles of that.
        repeats: how many times were taken.
        wall_ns: from one call to the next when they follow each other without a wait, or the time that the call's
            kernels spanned on the GPU.
        launch_ns: the launch calls' time on the host.
        host_ns: all of its time on the host, without waiting.
        kernels: kernels and copies that a call has the GPU do.
        flops, bytes_moved: of the work; bytes are counted to and from memory.
        counted: which of the two were counted by a program, rather than given.
        ceilings: of the GPU for this type.
        tensor_cores: whether the code uses them, if something other than timing says so.
        graph_ns: the time of a call when it is replayed from a CUDA graph.
        cold_l2: whether the L2 cache was emptied between calls.
        l2_bytes: its size.
        doubts: what may have spoiled the times, in sentences.
        cold: whether the work of a first call is among these.
        whole: whether it is all that a trace has, and no call of something.
        kernel: the name of the longest kernel, for commands.
        target: the program, such as ``python script.py``, for a tool that has to be the only profiler; empty if it is
            not known.
        again: the ``tileops profile`` command that takes options for another such profile; empty if there is none.
        part: the command that takes operations and bytes of a part of a trace; empty if there is none.
        unmeasured: why there is no time on the GPU, as a sentence.
    """

    name: str
    gpu_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    repeats: int = 0
    wall_ns: float | None = None
    launch_ns: float | None = None
    host_ns: float | None = None
    kernels: int | None = None
    flops: float | None = None
    bytes_moved: float | None = None
    counted: frozenset[str] = field(default_factory=frozenset)
    ceilings: Ceilings = field(default_factory=lambda: Ceilings("", ""))
    tensor_cores: bool | None = None
    graph_ns: float | None = None
    cold_l2: bool = False
    l2_bytes: float | None = None
    doubts: tuple[str, ...] = ()
    cold: bool = False
    whole: bool = False
    kernel: str = ""
    target: str = ""
    again: str = ""
    part: str = ""
    unmeasured: str = ""


@dataclass(frozen=True)
class Rates:
    """What the work achieved. None where something needed is unknown.

    Attributes:
        tflops, gbps: 1e12 operations a second, 1e9 bytes a second.
        intensity: operations per byte.
        bandwidth, matrix, vector: parts of the ceilings.
        busy: the part of the wall time that the GPU worked.
        launching: the launch calls' time in parts of the GPU's.
        hosting: the host's time in parts of the GPU's.
        spread: ``tflops`` at the slower and the faster quartile of the times.
    """

    tflops: float | None = None
    gbps: float | None = None
    intensity: float | None = None
    bandwidth: float | None = None
    matrix: float | None = None
    vector: float | None = None
    busy: float | None = None
    launching: float | None = None
    hosting: float | None = None
    spread: tuple[float, float] | None = None


@dataclass(frozen=True)
class Verdict:
    """What bounds the work.

    Attributes:
        name: of the candidate.
        bound: one of the five, or ``no verdict``.
        strength: ``strong``, ``weak`` or ``provisional``; ``none`` without a verdict.
        proof: whether the cause is shown, and not only where the time goes.
        nature: that in words.
        evidence: what the verdict rests on, in sentences that name the figures.
        would_change: what would change it.
        next_step: what to do.
        command: for a deeper look; empty if none is needed.
        rates: the figures behind it.
    """

    name: str
    bound: str
    strength: str
    proof: bool
    nature: str
    evidence: tuple[str, ...]
    would_change: tuple[str, ...]
    next_step: str
    command: str
    rates: Rates


def rates(measured: Measured, time_ns: float | None = None) -> Rates:
    """What the work achieved.

    Args:
        measured: the figures.
        time_ns: of a call on the GPU, instead of the median.
    """
    time = measured.gpu_ns if time_ns is None else time_ns
    top = measured.ceilings
    if not time:
        return Rates()
    tflops = measured.flops / time / 1e3 if measured.flops else None
    gbps = measured.bytes_moved / time if measured.bytes_moved else None
    spread = None
    if measured.flops and measured.low_ns and measured.high_ns:
        spread = (measured.flops / measured.high_ns / 1e3, measured.flops / measured.low_ns / 1e3)
    return Rates(
        tflops=tflops,
        gbps=gbps,
        intensity=measured.flops / measured.bytes_moved if measured.flops and measured.bytes_moved else None,
        bandwidth=_part(gbps, top.bandwidth),
        matrix=_part(tflops, top.matrix) if measured.tensor_cores is not False else None,
        vector=_part(tflops, top.vector) if measured.tensor_cores is not True else None,
        # Kernels of several streams may sum to more than the time they took.
        busy=min(time / measured.wall_ns, 1.0) if measured.wall_ns else None,
        launching=_part(measured.launch_ns, time),
        hosting=_part(measured.host_ns, time),
        spread=spread,
    )


def diagnose(measured: Measured) -> Verdict:
    """What bounds a piece of work; see the module for the order of the questions."""
    verdict = _at(measured, measured.gpu_ns)
    if not measured.gpu_ns:
        return verdict
    weaker, doubts = 0, list(measured.doubts)
    if measured.doubts:
        weaker = 2
    if measured.repeats < REPEATS:
        doubts.append(_few(measured))
        weaker = 2
    if measured.gpu_ns < SHORTEST_NS:
        doubts.append(f"It takes {measured.gpu_ns / 1000:.2f} µs: too short for the clocks.")
        weaker = 2
    if measured.low_ns is not None and measured.high_ns is not None:
        scatter = (measured.high_ns - measured.low_ns) / measured.gpu_ns
        if scatter > SCATTER.strong:
            doubts.append(f"The middle half of the times spreads over {scatter:.0%} of the median.")
            weaker = max(weaker, 2 if scatter > SCATTER.weak else 1)
        others = {_at(measured, time).bound for time in (measured.low_ns, measured.high_ns)} - {verdict.bound}
        if others:
            doubts.append(f"At a quartile of the times the verdict is another: {', '.join(sorted(others))}.")
            weaker = 2
    if not doubts:
        return verdict
    strength = _STRENGTHS[min(_STRENGTHS.index(verdict.strength) + weaker, 2)]
    proof = verdict.proof and strength == STRONG
    return replace(
        verdict,
        strength=strength,
        proof=proof,
        nature=_nature(verdict.bound, proof),
        evidence=(*verdict.evidence, *doubts),
        would_change=("A run without what is in doubt: " + " ".join(doubts), *verdict.would_change),
        next_step=f"{_WARM_UP} {verdict.next_step}" if measured.cold else verdict.next_step,
    )


def _few(measured: Measured) -> str:
    if measured.whole and measured.repeats <= 1:
        return "The trace has no steps that could be compared with each other: all of it counts as one repeat."
    return "There is only one repeat." if measured.repeats == 1 else f"There are only {measured.repeats} repeats."


def _at(measured: Measured, time: float | None) -> Verdict:
    """The verdict for one time of a call."""
    if not time:
        return _without_gpu(measured)
    found = rates(measured, time)
    return _waiting(measured, found) or _near_a_peak(measured, found, time) or _unexplained(measured, found)


def _without_gpu(measured: Measured) -> Verdict:
    return _verdict(
        measured,
        NO_VERDICT,
        NONE,
        Rates(),
        (f"No time on a GPU was measured, and each verdict rests on one. {measured.unmeasured}".strip(),),
        ("A profile on a machine with a GPU, with ProfilerActivity.CUDA and no other profiler attached.",),
        "Profile on the GPU. Until then only the host's side of the work is known.",
        measured.again or measured.target,
    )


def _waiting(measured: Measured, found: Rates) -> Verdict | None:
    """Whether the GPU waited for launches."""
    overhead = max(found.launching or 0.0, found.hosting or 0.0)
    if found.busy is not None and found.busy >= WAITED.weak:
        return None
    known = found.busy is not None
    if overhead < LAUNCHING.weak:
        return None
    # Idle for as long as that, in parts of the time that it worked.
    if found.busy and overhead < EXPLAINED * (1 / found.busy - 1):
        return None
    strong = known and found.busy is not None and found.busy < WAITED.strong and overhead >= LAUNCHING.strong
    evidence = []
    if found.launching is not None:
        evidence.append(
            f"The launch calls' CPU time is {found.launching:.2f} times the GPU's (CPU total of the launch rows, Self "
            "CUDA)."
        )
    if found.hosting is not None:
        evidence.append(f"The host's time is {found.hosting:.2f} times the GPU's (Self CPU, Self CUDA).")
    if found.busy is not None:
        evidence.append(f"The GPU was busy for {_share(found.busy)} of the time.")
    else:
        evidence.append("How long the GPU was busy is unknown.")
    if measured.kernels and measured.gpu_ns:
        mean = measured.gpu_ns / measured.kernels / 1000
        what = "kernel or copy" if measured.kernels == 1 else "kernels and copies"
        where = "The trace" if measured.whole else "A call"
        evidence.append(f"{where} has {measured.kernels:,} {what}, of {mean:.1f} µs on average.")
    proof = bool(measured.graph_ns and measured.wall_ns and measured.graph_ns < 0.7 * measured.wall_ns)
    if proof and measured.graph_ns and measured.wall_ns:
        evidence.append(
            f"Replayed from a CUDA graph a call takes {measured.graph_ns / 1000:.1f} µs instead of "
            f"{measured.wall_ns / 1000:.1f}: the launches were the cause."
        )
    return _verdict(
        measured,
        LAUNCH,
        STRONG if strong or proof else WEAK if known else PROVISIONAL,
        found,
        tuple(evidence),
        ("Larger kernels, or fewer: batching, fusion.", "The same work replayed from a CUDA graph."),
        "Capture the work in a CUDA graph (graph=True measures what that gives), fuse the small kernels, or give each "
        "launch more to do.",
        _again(measured, "--graph"),
        proof,
    )


def _near_a_peak(measured: Measured, found: Rates, time: float) -> Verdict | None:
    """The peak that the work comes nearest to, if it comes near to one."""
    top = measured.ceilings
    parts = {"bandwidth": found.bandwidth, "matrix": found.matrix, "vector": found.vector}
    thresholds = {key: (MEASURED if key in top.measured else DATASHEET)[key] for key in parts}
    if _beyond(top, "vector", found.vector):
        if found.matrix is None:
            return None
        parts["vector"] = None  # faster than the ordinary cores can: it is the tensor cores
    if _beyond(top, "matrix", found.matrix):
        return None
    scores = {key: part / thresholds[key].weak for key, part in parts.items() if part is not None}
    scores = {key: score for key, score in scores.items() if score >= 1}
    if not scores:
        return None
    # Both cores' peaks are passed by the same rate: the tensor cores' is the one that was harder to reach.
    key = (
        "matrix"
        if "matrix" in scores and scores["matrix"] >= scores.get("bandwidth", 0)
        else max(scores, key=lambda k: scores[k])
    )
    part = parts[key]
    assert part is not None
    strong = part >= thresholds[key].strong
    where = "measured on this GPU" if key in top.measured else "by its datasheet"
    ceiling = {"bandwidth": top.bandwidth, "matrix": top.matrix, "vector": top.vector}[key]
    evidence, change = [], []
    if key == "bandwidth":
        evidence.append(
            f"{found.gbps:,.0f} GB/s are {part:.0%} of the {ceiling:,.0f} GB/s that the memory gives, {where}."
        )
        change.append("Another count of the bytes that really go to memory.")
        step = "Move fewer bytes: fuse with what comes before or after, use a smaller type, keep tiles on the chip."
    else:
        unit = "tensor cores" if key == "matrix" else "ordinary cores"
        evidence.append(f"{found.tflops:,.1f} TFLOP/s are {part:.0%} of the {ceiling:,.1f} of the {unit}, {where}.")
        change.append("Another count of the operations that are needed.")
        step = (
            "Little is left on this path: a smaller type, sparsity, or fewer operations."
            if key == "matrix"
            else "Move the work to tensor cores if it is a product of matrices, or use fewer or cheaper operations."
        )
    if found.intensity is not None and top.bandwidth:
        evidence.append(f"There are {found.intensity:,.1f} operations per byte.")
    if key == "bandwidth" and _beyond(top, key, part):
        return _verdict(
            measured, IO, PROVISIONAL, found,
            (*evidence, "That is more than the memory can give: part of it was served from L2, so the rate is L2's."),
            ("A cold L2 between calls, or operands larger than L2.", *change),
            "Measure with a cold L2 (cold_l2=True) to see the memory's part.",
            _again(measured, "--cold-l2"),
        )  # fmt: skip
    strength = STRONG if strong else WEAK
    if key == "vector" and found.matrix is not None:
        # Whether tensor cores are used, nothing but the rate says: a bad kernel on them may look the same.
        strength = PROVISIONAL
        change.append("Generated code that uses tensor cores: then the same rate is far from its peak.")
    close = [other for other in scores if other not in (key, "vector") and scores[other] > 0.9 * scores[key]]
    if close and key != "vector":
        evidence.append(f"The {'memory' if close[0] == 'bandwidth' else 'tensor cores'} come as near: both limit it.")
        strength = WEAK if strength == STRONG else strength
    fits = measured.l2_bytes and measured.bytes_moved and measured.bytes_moved < measured.l2_bytes
    if key == "bandwidth" and fits and not measured.cold_l2:
        evidence.append("The operands fit into L2 and it was warm: the rate may be L2's.")
        change.append("A cold L2 between calls.")
        strength = PROVISIONAL
    counted = "bytes" if key == "bandwidth" else "flops"
    proof = key in top.measured and part >= PROOF and strength == STRONG and counted not in measured.counted
    return _verdict(measured, {"bandwidth": IO, "matrix": MATRIX, "vector": VECTOR}[key], strength, found,
                    tuple(evidence), tuple(change), step, "", proof)  # fmt: skip


def _unexplained(measured: Measured, found: Rates) -> Verdict:
    """Timing does not explain it."""
    top = measured.ceilings
    evidence, change = [], []
    strength = STRONG
    key, beyond = ("matrix", found.matrix) if found.matrix is not None else ("vector", found.vector)
    if beyond is not None and _beyond(top, key, beyond):
        evidence.append(
            f"{found.tflops:,.1f} TFLOP/s are {beyond:.0%} of the peak, which cannot be: the operations, the type or "
            "the peak are wrong."
        )
        strength = PROVISIONAL
        change.append("The right count of operations, or the right type.")
    else:
        for text, part, key in (
            ("of the memory's bandwidth", found.bandwidth, "bandwidth"),
            ("of the tensor cores' peak", found.matrix, "matrix"),
            ("of the ordinary cores' peak", found.vector, "vector"),
        ):
            if part is not None:
                where = "measured" if key in top.measured else "datasheet"
                evidence.append(f"It reaches {part:.1%} {text} ({where}).")
        if not evidence and (measured.flops or measured.bytes_moved):
            evidence.append("No peak is known that this work could be compared with.")
            strength = PROVISIONAL
    missing = []
    if measured.flops is None:
        missing.append("the operations (flops=)")
    if measured.bytes_moved is None:
        missing.append("the bytes moved (bytes_moved=)")
    if top.bandwidth is None and top.matrix is None and top.vector is None:
        missing.append("the GPU's peaks")
    if missing:
        evidence.append(f"Unknown: {', '.join(missing)}.")
        change.append(f"To know {', '.join(missing)}.")
        strength = PROVISIONAL
    if found.busy is not None and found.busy < WAITED.weak:
        evidence.append(
            f"The GPU was busy for {_share(found.busy)} of the time, and launching does not explain that: waits do, or "
            "what the host did between operators and launches. The gaps' causes in the trace tell."
        )
        strength = WEAK if strength == STRONG else strength
    if found.busy is not None and found.busy < WAITED.strong:
        step = (
            "Most of the time the GPU had nothing to do, which no kernel can change. See what the host did then: with "
            "Python's frames (with_stack), and in the gaps."
        )
        command = _again(measured, "--with-stack") or measured.target or A_SCRIPT
    elif missing == ["the GPU's peaks"]:
        step, command = "Measure the GPU's ceilings, on that GPU, and profile again.", "tileops profile peaks"
    elif missing:
        step = "Say how many operations and bytes the work needs, and profile again."
        if measured.part:
            step = "Say how many operations and bytes one passage of a label needs, or one run of a kernel."
        if "the GPU's peaks" in missing:
            step += " `tileops profile peaks` measures its GPU's ceilings, which are not listed."
        counts = "--flops N --bytes N"
        command = f"{measured.part} {counts}" if measured.part else _again(measured, counts)
        command = command or measured.target or A_SCRIPT
    else:
        step = (
            "Timing has said what it can. Look at the generated code for the path it took, then at the hardware's "
            "counters; for a TileLang kernel, tileops.trace shows where inside it the time goes. The command ends the "
            "program after one launch, before a profiler in it can compete with ncu for CUPTI."
        )
        command = ncu_command(measured.kernel, measured.target)
        change.append("Counters that show what the kernel waits for.")
    return _verdict(measured, INCONCLUSIVE, strength, found, tuple(evidence), tuple(change), step, command)


def ncu_command(kernel: str, target: str) -> str:
    """Nsight Compute on the third launch of a kernel.

    Args:
        kernel: its name, as the profiler has it.
        target: the program. It must not start a profiler before that launch, since one alone can have CUPTI: so it is
            never ``tileops profile``, and a script that calls :func:`~tileops.profile.profile` is ended in its warm-up.
            Empty if it is not known.
    """
    name = kernel_base(kernel)
    chosen = f' --kernel-name "regex:{name}"' if name else ""
    launch = "--launch-skip 2 --launch-count 1 --kill yes"
    return f"ncu --set full{chosen} {launch} -o {name or 'profile'} {target or A_SCRIPT}"


def kernel_base(kernel: str) -> str:
    """A kernel's name as ncu's base names are: without template arguments and namespaces."""
    bare = kernel.replace("(anonymous namespace)::", "")
    return bare.split("<")[0].split("(")[0].split("::")[-1].split(" ")[-1].strip()


def _beyond(top: Ceilings, key: str, part: float | None) -> bool:
    """Whether a rate, as a part of its ceiling, is more than the GPU can do."""
    ceiling = {"bandwidth": top.bandwidth, "matrix": top.matrix, "vector": top.vector}[key]
    if part is None or not ceiling:
        return False
    return part * ceiling > BEYOND * max(top.limits.get(key, 0.0), ceiling)


def _again(measured: Measured, option: str) -> str:
    """The same profile with another option, where the command line can make it."""
    return f"{measured.again} {option}" if measured.again else ""


def _verdict(
    measured: Measured, bound: str, strength: str, found: Rates, evidence: tuple[str, ...], change: tuple[str, ...],
    step: str, command: str, proof: bool = False,
) -> Verdict:  # fmt: skip
    if not measured.target and command.endswith(A_SCRIPT):
        step += f" `{A_SCRIPT}` is a placeholder: put your program there, without a profiler in it."
    if measured.again == A_FUNCTION and command.startswith(A_FUNCTION):
        step += " `module:function` is a placeholder: put a function there that does the work."
    return Verdict(measured.name, bound, strength, proof, _nature(bound, proof), evidence, change, step, command, found)


def _nature(bound: str, proof: bool) -> str:
    if proof and bound == LAUNCH:
        return "proof: the same work without its launches took much less time"
    if proof:
        return "proof: no program that does as much can take much less time on this GPU"
    if bound == NO_VERDICT:
        return "no finding: nothing on a GPU was measured"
    if bound == INCONCLUSIVE:
        return "attribution: this says where the time goes, not why"
    return "attribution: the figures fit this cause, and do not exclude another"


def _share(part: float) -> str:
    return f"{part:.0%}" if part >= 0.1 else f"{part:.1%}" if part >= 0.001 else "less than 0.1%"


def _part(value: float | None, whole: float | None) -> float | None:
    return value / whole if value is not None and whole else None
