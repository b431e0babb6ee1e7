"""Callables beside each other: warmed up, timed, profiled in turns, ranked and diagnosed."""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..answers import answers
from ..columns import RUNTIME, Trace
from ..counts import by_name
from ..diagnosis import Measured, diagnose
from ..errors import ProfileError
from ..facts import Candidate, Instructions, Report, Times
from ..kernel_names import uses_tensor_cores
from ..memory import memory as read_memory
from ..peaks import ASSUMED, Ceilings, ceilings, known_dtype
from ..reading import read_trace
from ..report.units import duration, times
from ..structure import analyze
from ..structure.artifacts import first_passage, inside
from ..structure.attribution import instances, labels
from ..structure.own import OWN, without_own
from . import ceilings as measured_ceilings
from . import failures
from . import instructions as machine_code
from .counting import count_flops
from .device import Device, this_device
from .recording import no_cuda_activity, recorded
from .sources import generated_sources, tensor_path, told
from .warmup import Warmup, warm_up

Work = Callable[[], object]
# Back-to-back timing: rounds, and what a round should take at least so that the clocks' resolution is nothing.
_ROUNDS = 20
_ROUND_NS = 1_000_000.0
_MOST_CALLS = 1000
# What a candidate may raise: one that ends the process ends here.
_FAILURES = (Exception, SystemExit)
# Kernels' times and those of calls that follow each other differ by less otherwise: by 0.9% at most in
# benchmarks/profile_verdicts.py on an H200, but for its two large GEMMs, where it was up to 16%.
_SLOWER = 1.05
# A cold L2 means that so many times its size was written since.
_FLUSH = 2.0


def profile(
    candidates: Mapping[str, Work] | Work,
    *,
    flops: float | Mapping[str, float] | None = None,
    bytes_moved: float | Mapping[str, float] | None = None,
    dtype: object | None = None,
    repeats: int = 20,
    warmup: int = 10,
    cold_l2: bool = False,
    graph: bool = False,
    memory: bool = False,
    with_stack: bool = False,
    instructions: bool = False,
    objective: str = "",
    target: str | Mapping[str, str] = "",
    again: str = "",
) -> Report:
    """Profiles callables and says what bounds each.

    Every candidate is called until its times settle; the first call, with all compilation in it, is timed apart. Then
    the candidates take turns: without a profiler for the time of a call, and under ``torch.profiler`` for what is
    inside it, each call in a ``record_function`` label of the candidate's name.

    Args:
        candidates: callables without arguments by name, or a single one.
        flops: operations of a call, a multiplication and an addition being two: one figure for all, or one by name.
            Without it, PyTorch's flop counter is asked.
        bytes_moved: bytes that a call must read from and write to memory, likewise.
        dtype: the operands' type, which decides the peak; without it, float16 is assumed.
        repeats: calls of each candidate in the profile; 5 at least for a verdict that is not provisional.
        warmup: the fewest calls before that.
        cold_l2: writes twice the size of the L2 cache before each profiled call. No effect without a GPU.
        graph: times each candidate replayed from a CUDA graph too. Needs a GPU.
        memory: records allocations too, by operator and by line.
        with_stack: records Python's frames.
        instructions: compiles the source of each TileLang kernel that a candidate names once more, after all is
            measured, and counts the instructions in it. Needs nvcc and nvdisasm or cuobjdump, and some seconds each.
        objective: what is to be found out, for the report's head.
        target: the command that runs this program, for the commands that the report recommends; one for all, or one by
            name. Without it, that is the script that is running.
        again: the ``tileops profile`` command that made this profile, if one did.

    Returns:
        The report.

    Raises:
        ProfileError: for arguments that make no sense, and where a candidate fails; running out of memory is no
            failure, but a finding.
    """
    named = _named(candidates)
    for what, count in (("repeats", repeats), ("warmup", warmup)):
        if not isinstance(count, int) or count < 1:
            raise ProfileError(f"{what} is {count!r}: it must be a whole number, 1 at least")
    kind = known_dtype(ASSUMED if dtype is None else dtype)
    of_flops, of_bytes = by_name("flops", flops, named), by_name("bytes_moved", bytes_moved, named)
    device = this_device()
    if not target and sys.argv[0] not in ("", "-c"):
        target = shlex.join(["python", *sys.argv])
    targets = target if isinstance(target, Mapping) else dict.fromkeys(named, target)
    missing: list[str] = []
    warmed = {}
    for name, work in list(named.items()):
        try:
            warmed[name] = warm_up(work, device, warmup)
        except _FAILURES as error:
            _or_out_of_memory(name, error, missing)
            del named[name]
    counted = {}
    for name, work in list(named.items()):
        if of_flops.get(name) is not None:
            continue
        try:
            of_flops[name], counted[name] = count_flops(work)
        except _FAILURES as error:
            _or_out_of_memory(name, error, missing)
            del named[name]
    if not named:
        raise ProfileError("No candidate is left to profile. " + " ".join(missing))
    calls = _back_to_back(named, warmed, device, missing)
    if not named:
        raise ProfileError("No candidate is left to profile. " + " ".join(missing))
    graphs = _replayed(named, warmed, device, missing) if graph else {}

    trace, files = _profiled(named, device, repeats, cold_l2, memory, with_stack, missing)
    structure = without_own(analyze(trace))
    if reason := no_cuda_activity(device, trace):
        missing.append(reason)
    known = [text for text in trace.missing if not text.startswith("There ")]
    top = ceilings(device.name, kind, measured_ceilings.load(device), device.memory) if device.gpu else Ceilings("", "")
    results, verdicts = [], []
    for name in named:
        sources = generated_sources(named[name])
        candidate, measured = _measured(
            name, trace, warmed[name], calls[name], graphs.get(name), of_flops.get(name), of_bytes.get(name), top,
            {"flops"} if counted.get(name) else set(), device, cold_l2, targets.get(name, ""),
        )  # fmt: skip
        said = [told(kernel, source) for kernel, source in sources.items()]
        compiled = [machine_code.instructions_of(*kernel, device.arch) for kernel in sources.items() if instructions]
        said += [machine_code.told(code) for code in compiled]
        said += [counted[name]] if counted.get(name) else []
        results.append(replace(candidate, evidence=said, instructions=compiled))
        tensor_cores = _tensor_cores(measured.tensor_cores, sources, compiled)
        why = reason or f"{name} launched nothing on the GPU."
        verdicts.append(diagnose(replace(measured, tensor_cores=tensor_cores, again=again, unmeasured=why)))
    return Report(
        objective=objective or _objective(list(named)),
        setup=_setup(
            device,
            kind if dtype is not None else f"{kind}, assumed: none was given (dtype)",
            top,
            repeats,
            cold_l2,
            graph,
        ),
        missing=list(dict.fromkeys([*missing, *known])),
        candidates=_ranked(results),
        steps=None,
        answers=answers(structure),
        verdicts=verdicts,
        structure=structure,
        memory=read_memory(trace) if memory else [],
        trace=trace.path,
        files=files,
    )


def _named(candidates: Mapping[str, Work] | Work) -> dict[str, Work]:
    if callable(candidates):
        return {getattr(candidates, "__name__", "candidate").replace("<lambda>", "candidate"): candidates}
    if not isinstance(candidates, Mapping) or not candidates:
        raise ProfileError('give the candidates as {"name": callable, ...}, one at least')
    for name, work in candidates.items():
        if not isinstance(name, str) or not name or name.startswith((OWN, "ProfilerStep#")):
            raise ProfileError(f"{name!r} cannot be the name of a candidate: it must be a text of its own")
        if not callable(work):
            raise ProfileError(f"candidate {name!r} is no callable: write `lambda: kernel(a, b)`")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ProfileError(f"{name!r} cannot be the name of a candidate: it has no UTF-8") from None
    return dict(candidates)


def _or_out_of_memory(name: str, error: BaseException, missing: list[str]) -> None:
    """Notes that a candidate ran out of memory.

    Raises:
        ProfileError: if it was something else.
    """
    import torch

    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        reason = failures.first_line(error) or "out of memory"
        missing.append(f"{name} ran out of memory and has no figures: {reason}")
        return
    if isinstance(error, ProfileError):
        raise ProfileError(f"candidate {name!r}: {error}") from error
    ended = "ended with" if isinstance(error, SystemExit) else "failed:"
    raise ProfileError(f"candidate {name!r} {ended} {failures.told(error)}") from error


def _back_to_back(
    named: dict[str, Work], warmed: Mapping[str, Warmup], device: Device, missing: list[str]
) -> dict[str, Times | None]:
    """A call's time when calls follow each other, candidates in turns, without a profiler.

    A candidate that runs out of memory is noted and taken from ``named``.
    """
    samples: dict[str, list[float]] = {name: [] for name in named}
    calls = {name: _calls(warmed[name].typical_ns) for name in named}
    for names in _turns(list(named), _ROUNDS):
        for name in names:
            if name not in named:
                continue
            device.wait()
            try:
                samples[name].append(device.time(named[name], calls[name]))
            except _FAILURES as error:
                _or_out_of_memory(name, error, missing)
                del named[name]
    return {name: Times.of(taken) for name, taken in samples.items()}


def _calls(typical_ns: float) -> int:
    return int(min(max(_ROUND_NS / max(typical_ns, 1.0), 1), _MOST_CALLS))


def _turns(names: list[str], rounds: int) -> list[list[str]]:
    """An order for each round: each candidate comes first as often as the others, so that none has the clocks' best."""
    return [names[shift % len(names) :] + names[: shift % len(names)] for shift in range(rounds)]


def _replayed(
    named: Mapping[str, Work], warmed: Mapping[str, Warmup], device: Device, missing: list[str]
) -> dict[str, float]:
    """A call's time when replayed from a CUDA graph, by name, where it can be captured."""
    if not device.gpu:
        missing.append("CUDA graphs need a GPU: times of replays are unknown.")
        return {}
    import torch

    found: dict[str, float] = {}
    for name, work in named.items():
        captured = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(captured):
                work()
        except SystemExit as error:
            _or_out_of_memory(name, error, missing)
        except Exception as error:  # whatever a capture does not allow, each has its own
            reason = failures.first_line(error) or type(error).__name__
            missing.append(f"{name} cannot be captured in a CUDA graph: {reason}")
            device.wait()
            continue
        captured.replay()
        device.wait()
        calls = _calls(warmed[name].typical_ns)
        times = Times.of([device.time(captured.replay, calls) for _ in range(_ROUNDS)])
        if times is not None:
            found[name] = times.median_ns
    return found


def _profiled(
    named: dict[str, Work], device: Device, repeats: int, cold_l2: bool, memory: bool, with_stack: bool,
    missing: list[str],
) -> tuple[Trace, list[str]]:  # fmt: skip
    """The trace of calls in turns, and further files."""
    from torch.profiler import record_function

    flush = _flusher(device) if cold_l2 and device.gpu else None
    with recorded(device, memory, with_stack) as paths:
        for name in itertools.chain.from_iterable(_turns(list(named), repeats)):
            if flush is not None:
                with record_function(OWN + "cold L2"):
                    flush()
            try:
                with record_function(name):
                    named[name]()
            except _FAILURES as error:
                _or_out_of_memory(name, error, missing)
                continue
            if device.gpu:
                # So that no call finds the queue full, which would count as the host's time.
                with record_function(OWN + "wait"):
                    device.wait()
    if not paths:
        raise ProfileError("PyTorch's profiler wrote no trace; is another one active in this process?")
    return read_trace(paths[0]), [str(path) for path in paths[1:]]


def _flusher(device: Device) -> Work:
    import torch

    size = int(_FLUSH * (device.l2_bytes or 128e6))
    buffer = torch.empty(size, dtype=torch.int8, device="cuda")
    return buffer.zero_


def _measured(
    name: str, trace: Trace, warmed: Warmup, call: Times | None, graph_ns: float | None, flops: float | None,
    bytes_moved: float | None, top: Ceilings, counted: set[str], device: Device, cold_l2: bool, target: str,
) -> tuple[Candidate, Measured]:  # fmt: skip
    """A candidate's figures from the trace."""
    passages = instances(trace, name, outermost=True)
    notes, doubts = [], []
    for artifact in inside(trace, name):
        doubts.append(f"{artifact.kind} fell inside the measured calls: {artifact.name}, {times(artifact.count)}.")
    if first := first_passage(passages):
        notes.append(f"{first}: left out.")
        passages = passages[1:]
    if not warmed.settled:
        notes.append(f"Its times had not settled after {warmed.count} warm-ups.")
    on_gpu = any(passage.kernels for passage in passages)
    blind = device.gpu and not trace.has_gpu_activity and not len(trace.of(RUNTIME))
    gpu = Times.of([float(passage.gpu_ns) for passage in passages]) if on_gpu else None
    cpu = Times.of([float(passage.cpu_ns) for passage in passages])
    kernels = passages[-1].kernels if on_gpu else None
    if gpu and call and kernels == 1 and not cold_l2 and gpu.median_ns > _SLOWER * call.median_ns:
        notes.append(
            f"Its kernel took {gpu.median_ns / call.median_ns - 1:.0%} longer in the profiled calls than calls that "
            f"follow each other, {duration(gpu.median_ns)} against {duration(call.median_ns)}: other clocks, most "
            "likely, of a GPU at its power limit. The rates are those of the profiled calls."
        )
    launching = Times.of([float(passage.launch_ns) for passage in passages]) if on_gpu else None
    launch_ns = launching.median_ns if launching else None
    label = next((label for label in labels(trace) if label.path == (name,)), None)
    names = label.kernel_names if label is not None else ()
    taken = gpu
    if blind and call is not None:
        # Without CUPTI, the time between events is what there is: the kernels took no longer.
        taken = call
        unsure = ["The kernels' times are unknown: the rates are those of calls that follow each other, or higher."]
    else:
        unsure = []
    candidate = Candidate(
        name, warmed.first_ns, warmed.count, warmed.settled, call, gpu, cpu, graph_ns, kernels, launch_ns, flops,
        bytes_moved, sorted(counted), None if doubts else 0, [*notes, *doubts],
    )  # fmt: skip
    measured = Measured(
        name,
        gpu_ns=taken.median_ns if taken else None,
        low_ns=taken.low_ns if taken else None,
        high_ns=taken.high_ns if taken else None,
        repeats=taken.count if taken else len(passages),
        wall_ns=call.median_ns if call and device.gpu else None,
        launch_ns=launch_ns,
        host_ns=cpu.median_ns if cpu else None,
        kernels=kernels,
        flops=flops,
        bytes_moved=bytes_moved,
        counted=frozenset(counted),
        ceilings=top,
        graph_ns=graph_ns,
        cold_l2=cold_l2,
        l2_bytes=device.l2_bytes,
        doubts=(*doubts, *unsure),
        cold=bool(doubts),
        kernel=names[0] if names else "",
        tensor_cores=uses_tensor_cores(names),
        target=target,
    )
    return candidate, measured


def _tensor_cores(
    by_name: bool | None, sources: Mapping[str, str], compiled: Sequence[Instructions] = ()
) -> bool | None:
    """Whether a candidate uses tensor cores: by its kernels' names, else by their code, else by their sources."""
    if by_name is not None or not sources:
        return by_name
    by_code = [machine_code.uses_tensor_cores(code) for code in compiled]
    if any(by_code):
        return True
    if by_code and None not in by_code:
        return False
    return any(map(tensor_path, sources.values()))


def _ranked(results: list[Candidate]) -> list[Candidate]:
    """Candidates with their ranks: by time on the GPU if all have one, else by the time of a call."""
    able = [candidate for candidate in results if candidate.rank is not None]
    by_gpu = all(candidate.gpu is not None for candidate in able)

    def key(candidate: Candidate) -> float:
        times = candidate.gpu if by_gpu else candidate.call
        return times.median_ns if times is not None else float("inf")

    order = {candidate.name: place for place, candidate in enumerate(sorted(able, key=key), 1)}
    return [replace(candidate, rank=order.get(candidate.name)) for candidate in results]


def _objective(names: list[str]) -> str:
    if len(names) == 1:
        return f"Where does the time of {names[0]} go, and what bounds it?"
    return f"Which of {', '.join(names[:-1])} and {names[-1]} is the fastest, and what bounds each?"


def _setup(device: Device, kind: str, top: Ceilings, repeats: int, cold_l2: bool, graph: bool) -> list[tuple[str, str]]:
    import torch

    found = [
        ("device", device.name),
        ("PyTorch", str(torch.__version__)),
        ("type", kind),
        ("profiled calls", f"{repeats} of each candidate, in turns"),
        ("L2 between them", "emptied" if cold_l2 and device.gpu else "as the calls leave it"),
        ("CUDA graph", "timed too" if graph else "no"),
        ("back to back", f"{_ROUNDS} rounds without a profiler, candidates in turns"),
    ]
    if device.gpu:
        known = ", ".join(
            f"{what} {value:,.0f} {unit} ({'measured' if key in top.measured else 'datasheet'})"
            for what, key, value, unit in (
                ("memory", "bandwidth", top.bandwidth, "GB/s"), ("tensor cores", "matrix", top.matrix, "TFLOP/s"),
                ("ordinary cores", "vector", top.vector, "TFLOP/s"),
            )
            if value is not None
        )  # fmt: skip
        found.append(("gaps in the trace", "those between calls are the measurement's own: the host waits there"))
        found.append(("peaks", f"{known or 'unknown'}; {top.source}"))
    return found
