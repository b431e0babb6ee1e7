"""What changed between two traces."""

from __future__ import annotations

from dataclasses import dataclass

from .columns import Trace
from .report.build import step_times
from .report.document import Paragraph, Section, Table
from .report.units import duration
from .structure import Structure, analyze
from .structure.attribution import Row

# Smaller changes are within what two runs of the same program differ by, more often than not.
NOTABLE = 0.05


@dataclass(frozen=True)
class Change:
    """A row of the two summary tables.

    Attributes:
        name, kind: of the row.
        before_ns, after_ns: self CUDA time, or self CPU time where neither trace has GPU activity; None where the row
            is missing.
        before_calls, after_calls: how often.
    """

    name: str
    kind: str
    before_ns: int | None
    after_ns: int | None
    before_calls: int
    after_calls: int

    @property
    def difference(self) -> int:
        """Nanoseconds more than before."""
        return (self.after_ns or 0) - (self.before_ns or 0)


@dataclass(frozen=True)
class Comparison:
    """What changed from one trace to another.

    Attributes:
        column: which column of the summary tables is compared.
        totals: pairs of figures that stand for the whole: a heading, before, after, in ns; None is unknown.
        changes: rows by how much they changed.
        missing: sentences on what limits the comparison.
    """

    column: str
    totals: list[tuple[str, float | None, float | None]]
    changes: list[Change]
    missing: list[str]

    def sections(self) -> list[Section]:
        """For the same renderers as a report's."""
        blocks: list[Paragraph | Table] = [Paragraph(text, "warn") for text in self.missing]
        rows = [[name, duration(old), duration(new), _ratio(old, new)] for name, old, new in self.totals]
        blocks.append(Table("As a whole", ["", "before", "after", "change"], rows))
        notable = [change for change in self.changes if self._notable(change)]
        if not notable:
            blocks.append(Paragraph(f"No row of the summary table changed by {NOTABLE:.0%} or more."))
            return [Section("Comparison", blocks)]
        table = [
            [
                change.name,
                change.kind,
                duration(change.before_ns) if change.before_ns is not None else "–",
                duration(change.after_ns) if change.after_ns is not None else "–",
                ("+" if change.difference > 0 else "−") + duration(abs(change.difference)),
                "new" if change.before_ns is None else "gone" if change.after_ns is None
                else _ratio(change.before_ns, change.after_ns),
                f"{change.before_calls:,} → {change.after_calls:,}",
            ]
            for change in notable[:30]
        ]  # fmt: skip
        headings = ["Name", "Kind", "before", "after", "difference", "change", "calls"]
        blocks.append(Table(f"What changed, by {self.column}", headings, table, 2))
        return [Section("Comparison", blocks)]

    @staticmethod
    def _notable(change: Change) -> bool:
        if change.before_ns is None or change.after_ns is None:
            return True
        return abs(change.difference) >= NOTABLE * max(change.before_ns, 1) or change.before_calls != change.after_calls


def compare(before: Trace, after: Trace) -> Comparison:
    """Compares two traces, row by row of their summary tables."""
    old, new = analyze(before), analyze(after)
    on_gpu = before.has_gpu_activity and after.has_gpu_activity
    missing = [f"Before: {text}" for text in before.missing] + [f"After: {text}" for text in after.missing]
    names = [{trace.device_name(entry.device) for entry in found.sharing} for trace, found in
             ((before, old), (after, new))]  # fmt: skip
    if on_gpu and names[0] != names[1]:
        missing.append(f"The GPUs differ: {', '.join(sorted(names[0]))} before, {', '.join(sorted(names[1]))} after.")
    rows = [_rows(found, on_gpu) for found in (old, new)]
    changes = []
    for key in rows[0].keys() | rows[1].keys():
        first, second = rows[0].get(key), rows[1].get(key)
        changes.append(
            Change(
                *key,
                _time(first, on_gpu),
                _time(second, on_gpu),
                first.calls if first else 0,
                second.calls if second else 0,
            )
        )
    changes.sort(key=lambda change: (-abs(change.difference), change.name, change.kind))
    return Comparison("Self CUDA" if on_gpu else "Self CPU", _totals(before, after, old, new), changes, missing)


def _rows(found: Structure, on_gpu: bool) -> dict[tuple[str, str], Row]:
    """Rows that stand for themselves: kernels and copies, or what ran on the host."""
    kinds = ("kernel", "memcpy", "memset") if on_gpu else ("operator", "runtime", "label")
    return {(row.name, row.kind): row for row in found.table if row.kind in kinds}


def _time(row: Row | None, on_gpu: bool) -> int | None:
    return None if row is None else row.self_cuda_ns if on_gpu else row.self_cpu_ns


def _totals(
    before: Trace, after: Trace, old: Structure, new: Structure
) -> list[tuple[str, float | None, float | None]]:
    def length(trace: Trace) -> float | None:
        events = trace.events
        return float((events["begin"] + events["duration"]).max() - trace.start) if len(events) else None

    def step(trace: Trace) -> float | None:
        times = step_times(trace)
        return sum(times) / len(times) if times else None

    def gpu(found: Structure) -> float | None:
        return float(sum(entry.gpu_ns for entry in found.sharing)) if found.sharing else None

    def idle(found: Structure) -> float | None:
        return float(sum(entry.idle_ns for entry in found.gaps)) if found.gaps else None

    def launch(found: Structure) -> float | None:
        return float(found.launches.cpu_ns) if found.launches.count else None

    totals = [
        ("from the first event to the last", length(before), length(after)),
        ("a step, the mean", step(before), step(after)),
        ("GPU busy", gpu(old), gpu(new)),
        ("GPU idle in gaps", idle(old), idle(new)),
        ("launch calls", launch(old), launch(new)),
    ]
    return [entry for entry in totals if entry[1] is not None or entry[2] is not None]


def _ratio(old: float | None, new: float | None) -> str:
    if not old or new is None:
        return "unknown"
    return f"{new / old - 1:+.1%}"
