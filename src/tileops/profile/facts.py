"""What a report consists of, as plain data, whatever it was made from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .diagnosis import Verdict
from .memory import Memory
from .structure import Structure

# Of the layout of the JSON form: a number that grows when a field is renamed, removed or changes its meaning.
SCHEMA = "tileops.profile/1"


@dataclass(frozen=True)
class Times:
    """Times of one thing, over its repeats, in ns.

    Attributes:
        median_ns, low_ns, high_ns: the median and the quartiles.
        shortest_ns, longest_ns: the extremes.
        count: of repeats.
    """

    median_ns: float
    low_ns: float
    high_ns: float
    shortest_ns: float
    longest_ns: float
    count: int

    @classmethod
    def of(cls, samples: list[float]) -> Times | None:
        """Their statistics; None if there are none."""
        if not samples:
            return None
        low, median, high = np.percentile(samples, [25, 50, 75]).tolist()
        return cls(median, low, high, float(min(samples)), float(max(samples)), len(samples))


@dataclass(frozen=True)
class Instructions:
    """What a kernel's source is compiled to.

    Attributes:
        kernel: its name.
        arch: what it was compiled for, such as ``sm_90a``.
        total: instructions that can run, of all kernels in the source; 0 if unknown.
        counts: of those that tell a path, by name without modifiers: the tensor cores' first, then multiply-adds,
            loads, stores and copies.
        missing: why nothing is known, as a sentence; empty otherwise.
    """

    kernel: str
    arch: str
    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    missing: str = ""


@dataclass(frozen=True)
class Candidate:
    """A candidate of a live profile. None is unknown.

    Attributes:
        name: its label.
        first_ns: its first call, with all compilation in it, until the device was done.
        warmups: calls before the measured region.
        settled: whether their times had settled by then.
        call: a call's time when calls follow each other, without a profiler attached.
        gpu: a call's time on the GPU.
        cpu: a call's time on the host.
        graph_ns: a call's time when replayed from a CUDA graph.
        kernels: launched by a call.
        launch_ns: its launch calls' time on the host.
        flops, bytes_moved: of a call.
        counted: which of these a program counted.
        rank: 1 for the fastest; None if it is not ranked.
        notes: what was seen of it, in sentences.
        evidence: besides times: what the source shows that TileLang generated, and who counted the operations.
        instructions: of each TileLang kernel that it names, if they were asked for.
    """

    name: str
    first_ns: float
    warmups: int
    settled: bool
    call: Times | None
    gpu: Times | None
    cpu: Times | None
    graph_ns: float | None = None
    kernels: int | None = None
    launch_ns: float | None = None
    flops: float | None = None
    bytes_moved: float | None = None
    counted: list[str] = field(default_factory=list)
    rank: int | None = None
    notes: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    instructions: list[Instructions] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """A question that the summary table answers.

    Attributes:
        question, text: in words.
        column: which of the table's columns it rests on.
    """

    question: str
    text: str
    column: str


@dataclass(frozen=True)
class Report:
    """A profile's findings. ``print`` shows them; :meth:`save` writes them.

    Attributes:
        objective: what was to be found out.
        setup: what was measured, and how: pairs of a heading and a text.
        missing: sentences on what is unknown, and why.
        candidates: of a live profile.
        steps: times of the steps of a scheduled loop.
        answers: in words, from the summary table.
        verdicts: on each candidate, or on the trace as a whole.
        structure: of the trace, the summary table first.
        memory: of each device; empty where it was not recorded.
        trace: the trace's file, empty if it is gone.
        files: others that belong to it.
        schema: of the JSON form.
    """

    objective: str
    setup: list[tuple[str, str]]
    missing: list[str]
    candidates: list[Candidate]
    steps: Times | None
    answers: list[Answer]
    verdicts: list[Verdict]
    structure: Structure
    memory: list[Memory]
    trace: str = ""
    files: list[str] = field(default_factory=list)
    schema: str = SCHEMA

    def __str__(self) -> str:
        from .report.text import to_text

        return to_text(self)

    def save(self, folder: str) -> list[str]:
        """Writes the report as text, JSON and a page, with the trace beside them.

        Args:
            folder: where; it is made.

        Returns:
            The files' paths: ``report.txt``, ``report.json``, ``report.html`` and ``trace.json.gz``.

        Raises:
            ProfileError: if they cannot be written.
        """
        from .report.files import save

        return save(self, folder)[1]

    def save_for_tensorboard(self, folder: str) -> str:
        """Writes the trace into a log folder, under a name that TensorBoard's profiler plugin looks for.

        Args:
            folder: where; it is made. Further runs go beside this one.

        Returns:
            The file's path.

        Raises:
            ProfileError: if it cannot be written, or the trace is gone.
        """
        from .report.files import save_for_tensorboard

        return save_for_tensorboard(self, folder)
