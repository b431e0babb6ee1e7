"""Reports on traces that somebody else made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..answers import answers
from ..columns import LABEL, Trace
from ..counts import by_name
from ..diagnosis import A_FUNCTION, Measured, Verdict, diagnose
from ..facts import Report, Times
from ..memory import memory
from ..parts import command, heaviest, measured
from ..peaks import ASSUMED, ceilings, known_dtype
from ..structure import Structure, analyze
from ..structure.launching import launch_time
from ..structure.own import without_own
from .units import duration, gpu


def report_on(
    trace: Trace,
    target: str = "",
    *,
    flops: Mapping[str, float] | None = None,
    bytes_moved: Mapping[str, float] | None = None,
    dtype: object | None = None,
) -> Report:
    """What a trace says: of the whole, and of those of its parts whose operations or bytes are given.

    Args:
        trace: as :func:`~tileops.profile.read_trace` gives it.
        target: the program, such as ``python script.py``, for the commands that the report recommends. Without it
            they have placeholders, and say so.
        flops: operations by the name of a label or kernel, or a part of that name: of one passage through the label, or
            one run of the kernel. A multiplication and an addition are two.
        bytes_moved: bytes that it must read from and write to memory, likewise.
        dtype: the operands' type, which decides the peak; without it, float16 is assumed.

    Raises:
        ProfileError: for names that the trace does not have, and figures that make no sense.
    """
    named = list(dict.fromkeys([*(flops or {}), *(bytes_moved or {})]))
    counts = by_name("flops", flops, named), by_name("bytes_moved", bytes_moved, named)
    kind = ASSUMED if dtype is None else known_dtype(dtype)
    structure = without_own(analyze(trace))
    parts = [measured(trace, structure, name, counts[0].get(name), counts[1].get(name), kind) for name in named]
    steps = Times.of(step_times(trace))
    return Report(
        objective="Where does the time go in this trace, and what bounds it?",
        setup=[*_setup(trace), *([("type", kind if dtype is not None else f"{kind}, assumed")] if parts else [])],
        missing=trace.missing,
        candidates=[],
        steps=steps,
        answers=answers(structure),
        verdicts=[*(_of_part(*part) for part in parts), *_verdicts(trace, structure, steps, target)],
        structure=structure,
        memory=memory(trace),
        trace=trace.path,
    )


def _of_part(measured: Measured, left_out: str) -> Verdict:
    verdict = diagnose(measured)
    return replace(verdict, evidence=(*verdict.evidence, left_out)) if left_out else verdict


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
        why = next((text for text in trace.missing if text.startswith("There ")), "")
        return [diagnose(Measured("the trace", target=target, again=A_FUNCTION, unmeasured=why))]
    heavy, found = heaviest(structure), []
    busy = {stream.device: 0 for stream in structure.streams}
    for stream in structure.streams:
        busy[stream.device] += stream.kernels + stream.copies
    for entry in structure.sharing:
        rows = [row for row in structure.table if row.kind == "kernel"]
        found.append(
            diagnose(
                Measured(
                    gpu(entry.device),
                    gpu_ns=float(entry.gpu_ns),
                    repeats=steps.count if steps else 1,
                    wall_ns=float(entry.wall_ns),
                    launch_ns=float(launch_time(trace, entry.device)) if structure.launches.count else None,
                    host_ns=float(entry.cpu_ns),
                    kernels=busy[entry.device],
                    ceilings=ceilings(entry.name, ASSUMED, memory=trace.device_memory(entry.device)),
                    doubts=doubts,
                    cold=bool(doubts),
                    whole=True,
                    kernel=rows[0].name if rows else "",
                    target=target,
                    again=A_FUNCTION,
                    # A script's trace may be moved; the script itself is there.
                    part=command(trace, heavy) if heavy and not target else "",
                )
            )
        )
    return found
