"""The summary table's answers, in words."""

from __future__ import annotations

from .columns import KINDS, ON_GPU
from .facts import Answer
from .report.units import duration
from .structure import Structure

# From this part of the kernels' time on, the host's is worth a look...
_NOTABLE = 0.5
# ...and from this one on, it is what the program waits for.
_LARGE = 1.0


def answers(structure: Structure) -> list[Answer]:
    """What the table says on its own; the diagnosis goes further."""
    return [
        _dominant(structure),
        _host(structure),
        _launching(structure),
        *_both_rows(structure),
    ]


def _dominant(structure: Structure) -> Answer:
    question = "What dominates?"
    on_gpu = [row for row in structure.table if row.kind in {KINDS[kind] for kind in ON_GPU}]
    total = sum(row.self_cuda_ns or 0 for row in on_gpu)
    if on_gpu and total:
        row = max(on_gpu, key=lambda row: row.self_cuda_ns or 0)
        share = (row.self_cuda_ns or 0) / total
        text = f"{row.name}: {share:.0%} of the time on GPUs, {duration(row.self_cuda_ns or 0)} in {_calls(row.calls)}."
        return Answer(question, text, "Self CUDA")
    rows = [row for row in structure.table if row.kind in ("operator", "runtime")]
    total = sum(row.self_cpu_ns for row in rows)
    if not rows or not total:
        return Answer(question, "Nothing that the table lists.", "Self CPU")
    row = max(rows, key=lambda row: row.self_cpu_ns)
    share = row.self_cpu_ns / total
    took = f"{duration(row.self_cpu_ns)} in {_calls(row.calls)}"
    text = f"{row.name}: {share:.0%} of the operators' time on the host, {took}."
    return Answer(question, text, "Self CPU")


def _host(structure: Structure) -> Answer:
    question = "Is the host's own time large?"
    kernels = sum(row.self_cuda_ns or 0 for row in structure.table if row.kind == "kernel")
    # Launch calls have the next question, and waiting is not work.
    host = sum(row.self_cpu_ns for row in structure.table if row.kind == "operator")
    if not kernels:
        return Answer(
            question, f"Operators took {duration(host)}; there are no kernels to compare that with.", "Self CPU"
        )
    ratio = host / kernels
    said = "large" if ratio >= _LARGE else "notable" if ratio >= _NOTABLE else "small"
    text = f"It is {said}: operators took {duration(host)}, {ratio:.2f} times the kernels' {duration(kernels)}."
    if ratio >= _LARGE:
        text += " That hints at host overhead: see whether the GPU had gaps."
    return Answer(question, text, "Self CPU, Self CUDA")


def _launching(structure: Structure) -> Answer:
    question = "Is launching as expensive as the kernels?"
    found = structure.launches
    if not found.count:
        return Answer(question, "There are no launch calls in the trace.", "CPU total")
    calls = ", ".join(f"{name} {count:,}×" for name, count in sorted(found.calls.items(), key=lambda item: -item[1]))
    text = f"{calls}: {duration(found.cpu_ns)} on the host, {duration(found.median_ns)} each (median)."
    if found.ratio is not None:
        said = "as much or more" if found.ratio >= 0.8 else "notable" if found.ratio >= _NOTABLE else "little"
        text += f" Beside {duration(found.kernel_ns)} of kernels that is {said} ({found.ratio:.2f} times)."
    return Answer(question, text, "CPU total, Self CUDA")


def _both_rows(structure: Structure) -> list[Answer]:
    """Whether labels have the kernels that were launched inside them."""
    found = []
    for label in structure.labels[:8]:
        if label.gpu_ns is None:
            continue
        name = " › ".join(label.path)
        if label.kernels:
            most = label.kernel_names[0] if label.kernel_names else "of no length"
            text = f"Both are there: {label.kernels:,} on the GPU, {duration(label.gpu_ns)}; most of it {most}."
        else:
            text = "Only the label is there: nothing on the GPU was launched inside it."
        found.append(Answer(f"Does {name} show as its label and as kernels?", text, "Name, CUDA total"))
    return found


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"
