"""A report as sections of paragraphs, lists and tables: what the text, the JSON and the page all show.

The order is the one in which an answer is given: the objective and what was measured, the summary table, the
diagnosis, the trace, the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..diagnosis import NO_VERDICT
from ..facts import Candidate, Instructions, Report, Times
from .units import UNKNOWN, duration, gpu, number, share, size

# Rows of the summary table: as many as PyTorch's own example prints.
ROWS = 20
# Gaps shown one by one.
LONGEST = 3


@dataclass(frozen=True)
class Paragraph:
    """Text; ``tone`` is ``plain``, ``warn`` for what limits the findings, ``lead`` for a finding, ``code``."""

    text: str
    tone: str = "plain"


@dataclass(frozen=True)
class Table:
    """Rows of texts under headings.

    Attributes:
        title, headings, rows: what it shows; without headings, a row is a heading and its text.
        numbers: the columns from this one on are figures...
        words: ...but for so many at the end.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    numbers: int = 1
    words: int = 0

    def is_figure(self, column: int) -> bool:
        """Whether a column holds figures."""
        return any(self.headings) and self.numbers <= column < len(self.headings) - self.words


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: list[Paragraph | Table] = field(default_factory=list)


def document(report: Report) -> list[Section]:
    """The report's sections, in order."""
    found = [_objective(report), _summary(report), _diagnosis(report), _trace(report)]
    return [*found, _memory(report)]


def _objective(report: Report) -> Section:
    blocks: list[Paragraph | Table] = [Paragraph(report.objective)]
    blocks += [Paragraph(text, "warn") for text in report.missing]
    blocks.append(Table("What was measured", ["", ""], [list(pair) for pair in report.setup], 2))
    if report.candidates:
        blocks.append(
            Table(
                "Before the measured region",
                ["candidate", "first call, with compilation", "warm-ups", "settled"],
                [
                    [candidate.name, duration(candidate.first_ns), str(candidate.warmups), _yes(candidate.settled)]
                    for candidate in report.candidates
                ],
            )
        )
        blocks.append(
            Table(
                "Times per call",
                [
                    "candidate",
                    "rank",
                    "on the GPU",
                    "quartiles",
                    "back to back",
                    "on the host",
                    "launch calls",
                    "kernels",
                ],
                [_times(candidate) for candidate in report.candidates],
            )
        )
        blocks += [
            Paragraph(f"{candidate.name}: {note}", "warn")
            for candidate in report.candidates
            for note in candidate.notes
        ]
    if report.steps is not None:
        blocks.append(Table("Steps", ["", *_STATISTICS], [["time per step", *_statistics(report.steps)]]))
    return Section("Objective", blocks)


_TIMES = ["candidate", "rank", "on the GPU", "quartiles", "back to back", "on the host", "launch calls", "kernels"]
_SHARING = ["GPU", "wall", "GPU busy", "host busy", "both", "neither", "copies", "hidden", "communication", "hidden"]
_STATISTICS = ["count", "median", "quartiles", "shortest", "longest"]


def _statistics(times: Times) -> list[str]:
    return [
        str(times.count),
        duration(times.median_ns),
        _quartiles(times),
        duration(times.shortest_ns),
        duration(times.longest_ns),
    ]


def _quartiles(times: Times | None) -> str:
    return duration(None) if times is None else f"{duration(times.low_ns)} to {duration(times.high_ns)}"


def _times(candidate: Candidate) -> list[str]:
    gpu, call, cpu = candidate.gpu, candidate.call, candidate.cpu
    return [
        candidate.name,
        "not ranked" if candidate.rank is None else str(candidate.rank),
        duration(gpu.median_ns if gpu else None),
        _quartiles(gpu or call),
        duration(call.median_ns if call else None),
        duration(cpu.median_ns if cpu else None),
        duration(candidate.launch_ns),
        "unknown" if candidate.kernels is None else str(candidate.kernels),
    ]


def _summary(report: Report) -> Section:
    rows = report.structure.table
    on_gpu = any(row.self_cuda_ns is not None for row in rows)
    sums = sum(row.self_cuda_ns or 0 for row in rows if row.kind in ("kernel", "memcpy", "memset"))
    headings = ["Name", "Kind", "Self CPU", "CPU total"]
    headings += ["Self CUDA", "Self CUDA %", "CUDA total"] if on_gpu else []
    table = []
    for row in rows[:ROWS]:
        on_host = row.kind not in ("kernel", "memcpy", "memset")
        cells = [row.name, row.kind, *map(duration, (row.self_cpu_ns, row.cpu_total_ns))]
        if not on_host:
            cells[2:] = ["–", "–"]
        if on_gpu:
            own = row.self_cuda_ns or 0
            cells += [duration(own), share(own / sums if sums else None), duration(row.cuda_total_ns)]
        table.append([*cells, f"{row.calls:,}"])
    order = "self_cuda_time_total" if on_gpu else "self_cpu_time_total"
    blocks: list[Paragraph | Table] = [
        Table(f"The first {len(table)} of {len(rows)} rows, by {order}", [*headings, "Calls"], table, 2)
    ]
    rows_of_answers = [[entry.question, entry.text, entry.column] for entry in report.answers]
    blocks.append(Table("What it answers", ["question", "answer", "rests on"], rows_of_answers, 3))
    return Section("Summary table", blocks)


def _diagnosis(report: Report) -> Section:
    blocks: list[Paragraph | Table] = []
    besides = {candidate.name: candidate.evidence for candidate in report.candidates}
    compiled = {candidate.name: candidate.instructions for candidate in report.candidates}
    for verdict in report.verdicts:
        found = verdict.rates
        judged = verdict.bound != NO_VERDICT
        sure = f"{verdict.bound} ({verdict.strength})" if judged else "no verdict is possible"
        blocks.append(Paragraph(f"{verdict.name}: {sure}", "lead"))
        blocks.append(Paragraph(f"This is {verdict.nature}."))
        blocks += [Paragraph(f"{'Evidence' if judged else 'Why'}: {text}") for text in verdict.evidence]
        blocks += [Paragraph(text) for text in besides.get(verdict.name, ())]
        blocks += _instructions(compiled.get(verdict.name, ()))
        blocks += [Paragraph(f"Would change it: {text}") for text in verdict.would_change]
        blocks.append(Paragraph(f"Next: {verdict.next_step}"))
        if verdict.command:
            blocks.append(Paragraph(verdict.command, "code"))
        pairs = [
            ("TFLOP/s", number(found.tflops), found.tflops),
            ("GB/s", number(found.gbps), found.gbps),
            ("operations per byte", number(found.intensity), found.intensity),
            ("of the memory's bandwidth", share(found.bandwidth), found.bandwidth),
            ("of the tensor cores", share(found.matrix), found.matrix),
            ("of the ordinary cores", share(found.vector), found.vector),
            ("GPU busy", share(found.busy), found.busy),
        ]
        known = [[heading, text] for heading, text, value in pairs if value is not None]
        if known:
            blocks.append(Table(f"{verdict.name}: what it achieves", ["", ""], known))
    return Section("Diagnosis", blocks)


def _instructions(compiled: Sequence[Instructions]) -> list[Paragraph | Table]:
    return [
        Table(
            f"Instructions of {code.kernel}, compiled for {code.arch}",
            ["instruction", "in the code"],
            [*([name, f"{count:,}"] for name, count in code.counts.items()), ["all", f"{code.total:,}"]],
        )
        for code in compiled
        if not code.missing
    ]


def _trace(report: Report) -> Section:
    blocks: list[Paragraph | Table] = []
    if report.trace:
        blocks.append(Paragraph(f"The trace: {report.trace} (ui.perfetto.dev or chrome://tracing show it)."))
    if report.files:
        blocks.append(Paragraph(f"Further files: {', '.join(report.files)}"))
    for part in (_labels, _sharing, _streams, _gaps, _queues, _syncs, _artifacts):
        blocks += part(report)
    return Section("Trace", blocks)


def _sharing(report: Report) -> list[Paragraph | Table]:
    rows = []
    for entry in report.structure.sharing:
        times = (
            entry.wall_ns, entry.gpu_ns, entry.cpu_ns, entry.both_ns, entry.neither_ns, entry.copy_ns,
            entry.copy_hidden_ns, entry.communication_ns, entry.communication_hidden_ns,
        )  # fmt: skip
        rows.append([f"{_number(entry.device)} {entry.name}".strip(), *map(duration, times)])
    return [Table("Host and GPU", _SHARING, rows)] if rows else []


def _streams(report: Report) -> list[Paragraph | Table]:
    rows = [
        [*map(_number, (stream.device, stream.stream)), *map(str, (stream.kernels, stream.copies)),
         duration(stream.busy_ns), duration(stream.alone_ns)]
        for stream in report.structure.streams
    ]  # fmt: skip
    return [Table("Streams in use", ["GPU", "stream", "kernels", "copies", "busy", "alone"], rows, 2)] if rows else []


def _gaps(report: Report) -> list[Paragraph | Table]:
    blocks: list[Paragraph | Table] = []
    for gaps in [*report.structure.gaps, *report.structure.stream_gaps]:
        where = gpu(gaps.device) + ("" if gaps.stream is None else f", stream {gaps.stream}")
        if not gaps.causes:
            blocks.append(Paragraph(f"{where} had no gaps."))
            continue
        rows = [
            [g.cause, f"{g.count:,}", *map(duration, (g.total_ns, g.median_ns, g.longest_ns)), g.meaning]
            for g in gaps.causes
        ]
        headings = ["cause", "gaps", "total", "median", "longest", "meaning"]
        blocks.append(Table(f"Gaps of {where}: {duration(gaps.idle_ns)} idle", headings, rows, words=1))
        rows = [
            [g.before, g.after, g.cause, duration(g.begin_ns), duration(g.duration_ns)] for g in gaps.longest[:LONGEST]
        ]
        headings = ["after", "before", "cause", "at", "length"]
        blocks.append(Table(f"The longest gaps of {where}", headings, rows, 3))
    return blocks


def _queues(report: Report) -> list[Paragraph | Table]:
    blocks: list[Paragraph | Table] = [
        Paragraph(
            f"Launch queue of {gpu(queue.device)}: at most {queue.deepest:,} kernels waited, {queue.mean:.1f} on "
            f"average; for {queue.empty_share:.0%} of the time none did."
        )
        for queue in report.structure.queues
    ]
    rows = report.structure.pipelines
    if rows:
        first = rows[0]
        text = (
            f"{sum(row.kernels for row in rows):,} kernels stand in {len(rows):,} rows of 20 and more that are shorter "
            f"than 10 µs: a pipeline of many small kernels. The longest row has {first.kernels:,}, of {first.names} "
            f"kinds, {duration(first.median_ns)} each; they ran for {duration(first.busy_ns)} of "
            f"{duration(first.span_ns)}."
        )
        blocks.append(Paragraph(text, "warn"))
    return blocks


def _syncs(report: Report) -> list[Paragraph | Table]:
    found = report.structure
    if not found.syncs:
        text = "The host waited for no GPU while it had work to launch."
        return [Paragraph(text)] if found.launches.count else []
    rows = [
        [sync.call, sync.inside or "no operator or label", f"{sync.count:,}", duration(sync.total_ns),
         duration(sync.longest_ns)]
        for sync in found.syncs[:ROWS]
    ]  # fmt: skip
    title = "Waits of the host with work still to launch"
    return [Table(title, ["call", "inside", "count", "total", "longest"], rows, 2)]


def _artifacts(report: Report) -> list[Paragraph | Table]:
    blocks: list[Paragraph | Table] = []
    rows = [
        [a.kind, a.name, f"{a.count:,}", duration(a.total_ns), duration(a.first_ns)]
        for a in report.structure.artifacts[:ROWS]
    ]
    if rows:
        title = "Inside the trace, though a warm-up should have done it"
        blocks.append(Table(title, ["kind", "what", "count", "total", "first at"], rows, 2))
    for entry in report.structure.outliers:
        text = (
            f"The first passage through {entry.label} took {duration(entry.first_ns)}, the median of the other "
            f"{entry.calls - 1} is {duration(entry.median_ns)}: the warm-up did not cover it."
        )
        blocks.append(Paragraph(text, "warn"))
    return blocks


def _labels(report: Report) -> list[Paragraph | Table]:
    labels = report.structure.labels
    if not labels:
        return []
    rows = [
        [
            "› " * (len(label.path) - 1) + label.path[-1],
            f"{label.calls:,}",
            duration(label.cpu_ns),
            duration(label.gpu_ns),
            duration(label.self_gpu_ns),
            f"{label.kernels:,}" if label.gpu_ns is not None else "unknown",
            label.kernel_names[0] if label.kernel_names else "",
        ]
        for label in labels[: 2 * ROWS]
    ]
    headings = ["label", "calls", "on the host", "on GPUs", "of that its own", "kernels", "most of it"]
    found: list[Paragraph | Table] = [Table("Labels", headings, rows, words=1)]
    guessed = sum(label.by_time for label in labels if len(label.path) == 1)
    if guessed:
        found.append(
            Paragraph(
                f"{guessed:,} of the kernels were launched by another thread (autograd's, for one) while a label was "
                "open: that they belong to it is likely, not certain.",
                "warn",
            )
        )
    return found


def _memory(report: Report) -> Section:
    if not report.memory:
        return Section(
            "Memory", [Paragraph("It was not recorded (memory=True, or profile_memory of PyTorch's profiler).")]
        )
    blocks: list[Paragraph | Table] = []
    for entry in report.memory:
        blocks.append(
            Table(
                f"Memory of {entry.device}",
                ["", ""],
                [
                    ["peak", f"{size(entry.peak_bytes)} at {duration(entry.peak_ns)}"],
                    ["at the beginning", size(entry.begin_bytes)],
                    ["at the end", size(entry.end_bytes)],
                    ["allocations", f"{entry.allocations:,}"],
                    ["given back", f"{entry.frees:,}"],
                    ["churn", size(entry.churn_bytes)],
                    ["reserved by the allocator", size(entry.reserved_bytes)],
                ],
            )
        )
        for title, holders in (
            ("held at the peak, by operator", entry.holders),
            ("allocated, by operator", entry.by_operator),
            ("allocated, by line", entry.by_line),
        ):
            if holders:
                rows = [[holder.name, f"{holder.count:,}", size(holder.bytes)] for holder in holders]
                blocks.append(Table(f"{entry.device}: {title}", ["where", "allocations", "bytes"], rows))
        for growth in entry.growth:
            verb = "grows" if growth.grows else "does not grow steadily"
            blocks.append(
                Paragraph(
                    f"Memory of {entry.device} {verb} over the {len(growth.at_end)} passages of {growth.label}: "
                    f"{size(growth.per_passage)} each.",
                    "warn" if growth.grows else "plain",
                )
            )
    return Section("Memory", blocks)


def _number(value: int) -> str:
    return str(value) if value >= 0 else UNKNOWN


def _yes(value: bool) -> str:
    return "yes" if value else "no"
