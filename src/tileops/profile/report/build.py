"""Reports on traces that somebody else made."""

from __future__ import annotations

from ..answers import answers
from ..columns import LABEL, Trace
from ..diagnosis import Measured, Verdict, diagnose
from ..facts import Report, Times
from ..memory import memory
from ..peaks import ceilings
from ..structure import Structure, analyze
from .units import duration


def report_on(trace: Trace, target: str = "python script.py") -> Report:
    """What a trace says, without knowing anything about the program.

    Args:
        trace: as :func:`~tileops.profile.read_trace` gives it.
        target: the program, for the commands that the report recommends.
    """
    structure = analyze(trace)
    steps = Times.of(step_times(trace))
    return Report(
        objective="Where does the time go in this trace, and what bounds it?",
        setup=_setup(trace),
        missing=trace.missing,
        candidates=[],
        steps=steps,
        answers=answers(structure),
        verdicts=_verdicts(trace, structure, steps, target),
        structure=structure,
        memory=memory(trace),
        trace=trace.path,
    )


def step_times(trace: Trace) -> list[float]:
    """Nanoseconds of each of the profiler's steps."""
    labels = trace.events[trace.events["kind"] == LABEL]
    return [
        float(event["duration"]) for event in labels if trace.names[event["name"]].startswith("ProfilerStep#")
    ]  # fmt: skip


def _setup(trace: Trace) -> list[tuple[str, str]]:
    events = trace.events
    length = int((events["begin"] + events["duration"]).max() - events["begin"].min()) if len(events) else None
    used = sorted(set(events["device"][events["device"] >= 0].tolist()))
    names = sorted({trace.device_name(device) for device in used} - {""})
    found = [
        ("trace", trace.path),
        ("events", f"{len(events):,}"),
        ("from the first to the last", duration(length)),
        ("GPUs in use", f"{len(used)}" + (f": {', '.join(names)}" if names else "") if used else "none"),
    ]
    if trace.rank is not None:
        of = f" of {trace.world_size}" if trace.world_size is not None else ""
        found.append(("rank", f"{trace.rank}{of}"))
    for key, heading in (("cuda_runtime_version", "CUDA runtime"), ("hip_runtime_version", "HIP runtime")):
        if key in trace.meta:
            found.append((heading, str(trace.meta[key])))
    return found


def _verdicts(trace: Trace, structure: Structure, steps: Times | None, target: str) -> list[Verdict]:
    """On each GPU as a whole; a trace says nothing of operations and bytes."""
    doubts = tuple(f"Inside the trace: {entry.kind} ({entry.name})." for entry in structure.artifacts[:3]
                   if entry.kind != "profiler")  # fmt: skip
    if not structure.sharing:
        return [diagnose(Measured("the trace", target=target))]
    found = []
    for entry in structure.sharing:
        rows = [row for row in structure.table if row.kind == "kernel"]
        found.append(
            diagnose(
                Measured(
                    f"GPU {entry.device}",
                    gpu_ns=float(entry.gpu_ns),
                    repeats=steps.count if steps else 1,
                    wall_ns=float(entry.wall_ns),
                    launch_ns=float(structure.launches.cpu_ns) if structure.launches.count else None,
                    host_ns=float(entry.cpu_ns),
                    kernels=structure.launches.kernels or None,
                    ceilings=ceilings(entry.name, "float16"),
                    doubts=doubts,
                    kernel=rows[0].name if rows else "",
                    target=target,
                )
            )
        )
    return found
