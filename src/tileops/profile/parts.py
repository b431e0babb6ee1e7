"""Parts of a trace, a label or a kernel, as something to diagnose."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np

from .columns import ON_GPU, Trace
from .diagnosis import A_FUNCTION, Measured, kernel_base
from .errors import ProfileError
from .facts import Times
from .kernel_names import uses_tensor_cores
from .peaks import Ceilings, ceilings
from .report.units import times
from .structure import Structure
from .structure.artifacts import first_passage, inside
from .structure.attribution import instances

# Of names, for a message.
_MOST = 6


def find(structure: Structure, name: str) -> tuple[str, bool]:
    """The label, kernel or copy of a name, or of one that holds it.

    Args:
        structure: of the trace.
        name: or a part of it that no other has.

    Returns:
        The whole name, and whether it is a label's. Labels come before kernels.

    Raises:
        ProfileError: if there is none, or several.
    """
    labels = list(dict.fromkeys(label.path[-1] for label in structure.labels))
    kernels = [row.name for row in structure.table if row.kind in ("kernel", "memcpy", "memset")]
    for names, is_label in ((labels, True), (kernels, False)):
        if name in names:
            return name, is_label
    found = [(whole, True) for whole in labels if name in whole]
    found += [(whole, False) for whole in kernels if name in whole and (whole, True) not in found]
    if len(found) == 1:
        return found[0]
    if found:
        raise ProfileError(
            f"{name!r} is part of several names: {_listed([whole for whole, _ in found])}; say more of one"
        )
    raise ProfileError(f"the trace has no label and no kernel {name!r}; it has {_listed([*labels, *kernels])}")


def measured(
    trace: Trace, structure: Structure, name: str, flops: float | None, bytes_moved: float | None, dtype: str
) -> tuple[Measured, str]:
    """What a trace has of a label or a kernel: per passage, or per run.

    Args:
        trace: the trace.
        structure: of it.
        name: as :func:`find` takes it.
        flops: operations of one passage or run.
        bytes_moved: bytes of the same.
        dtype: of the operands.

    Returns:
        The figures, and what was left out of them as a sentence, empty if nothing was.

    Raises:
        ProfileError: if there is no such part.
    """
    whole, is_label = find(structure, name)
    base = Measured(
        whole, flops=flops, bytes_moved=bytes_moved, ceilings=_ceilings(trace, structure, dtype), again=A_FUNCTION,
        part=command(trace, name),
    )  # fmt: skip
    if not is_label:
        rows = trace.of(*ON_GPU)
        taken = Times.of(rows["duration"][rows["name"] == trace.names.index(whole)].astype(float).tolist())
        assert taken is not None  # the table has it
        run = replace(
            base, gpu_ns=taken.median_ns, low_ns=taken.low_ns, high_ns=taken.high_ns, repeats=taken.count,
            kernel=whole, tensor_cores=uses_tensor_cores([whole]),
        )  # fmt: skip
        return run, ""
    passages = instances(trace, whole)
    doubts = [f"Inside it: {entry.kind} ({entry.name}, {times(entry.count)})." for entry in inside(trace, whole)]
    said = first_passage(passages)
    if said:
        passages = passages[1:]
    label = next(label for label in structure.labels if label.path[-1] == whole)
    gpu = Times.of([float(passage.gpu_ns) for passage in passages]) if label.kernels else None
    passage = replace(
        base,
        gpu_ns=gpu.median_ns if gpu else None,
        low_ns=gpu.low_ns if gpu else None,
        high_ns=gpu.high_ns if gpu else None,
        repeats=len(passages),
        wall_ns=float(np.median([passage.span_ns for passage in passages])) if gpu else None,
        launch_ns=float(np.median([passage.launch_ns for passage in passages])) if gpu else None,
        host_ns=float(np.median([passage.cpu_ns for passage in passages])),
        kernels=passages[-1].kernels if gpu else None,
        doubts=tuple(doubts),
        cold=bool(doubts),
        kernel=label.kernel_names[0] if label.kernel_names else "",
        tensor_cores=uses_tensor_cores(label.kernel_names),
        unmeasured="" if gpu else "Nothing on a GPU was launched inside it, as far as the trace shows.",
    )
    return passage, f"{said}: left out." if said else ""


def command(trace: Trace, name: str) -> str:
    """The command that takes the operations and bytes of a part."""
    return shlex.join(["tileops", "profile", "read", trace.path, "--of", name])


def heaviest(structure: Structure) -> str:
    """The label that most of the GPUs' time went to, else the kernel; empty if there is neither."""
    label = max(structure.labels, key=lambda label: label.self_gpu_ns or 0, default=None)
    if label is not None and label.self_gpu_ns:
        return label.path[-1]
    kernels = [row.name for row in structure.table if row.kind == "kernel"]
    if not kernels:
        return ""
    short = kernel_base(kernels[0])
    return short if sum(short in name for name in kernels) == 1 else kernels[0]


def _ceilings(trace: Trace, structure: Structure, dtype: str) -> Ceilings:
    """Of the trace's GPUs; nothing is known where these differ."""
    devices = {trace.device_name(entry.device): entry.device for entry in structure.sharing}
    if len(devices) != 1:
        return Ceilings("", dtype)
    ((name, device),) = devices.items()
    return ceilings(name, dtype, memory=trace.device_memory(device))


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name if len(name) <= 60 else name[:57] + "...") for name in names[:_MOST])
    return (shown or "none") + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
