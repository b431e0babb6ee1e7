"""Loops: a profile of some of their steps, in files of bounded size."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

from ..answers import answers
from ..errors import ProfileError
from ..facts import Report, Times
from ..reading import read_trace
from ..report.build import report_on, step_times
from ..report.files import make_folder
from .device import this_device
from .recording import activities, allocations, no_cuda_activity


class ProfiledLoop:
    """Profiles some steps of a loop: waits, warms up, records, and that again.

    ::

        with ProfiledLoop("out/", wait=1, warmup=2, active=5) as loop:
            for batch in batches:
                train(batch)
                loop.step()
        print(loop.report())

    Each repetition writes a trace of ``active`` steps, so the files do not grow with the loop's length.

    Args:
        folder: for the traces; it is made.
        wait: steps that are not looked at, in each repetition.
        warmup: steps under the profiler that are thrown away: its own start is in them.
        active: steps that are recorded.
        repeat: repetitions.
        memory: whether allocations are recorded too; on a GPU also the allocator's snapshot, when the loop is over.
        with_stack: whether Python's frames are.
        tensorboard: whether the traces get the names that TensorBoard's plugin looks for.

    Raises:
        ProfileError: for numbers that make no sense, and where the folder cannot be made.
    """

    def __init__(
        self, folder: str, *, wait: int = 1, warmup: int = 2, active: int = 5, repeat: int = 1, memory: bool = False,
        with_stack: bool = False, tensorboard: bool = False,
    ):  # fmt: skip
        if wait < 0 or warmup < 0 or active < 1 or repeat < 1:
            raise ProfileError("wait and warmup must be 0 at least, active and repeat 1")
        self.traces: list[str] = []
        self.steps = 0
        self.needed = (wait + warmup + active) * repeat
        self._folder = Path(folder)
        self._suffix = ".pt.trace.json.gz" if tensorboard else ".json.gz"
        self._memory = memory
        self._options: dict[str, Any] = {"profile_memory": memory, "with_stack": with_stack or memory}
        self._schedule = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
        self._profiler: Any = None
        self._history = contextlib.ExitStack()
        self._snapshot: list[Path] = []
        self._failure = ""

    def __enter__(self) -> ProfiledLoop:
        from torch.profiler import profile, schedule

        make_folder(str(self._folder), "the traces")
        self._device = this_device()
        self._snapshot = self._history.enter_context(allocations(self._folder, self._memory and self._device.gpu))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="torch.profiler")
            self._profiler = profile(
                activities=activities(self._device),
                schedule=schedule(**self._schedule),
                on_trace_ready=self._ready,
                **self._options,
            )
            self._profiler.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            import torch

            what = "ran out of memory" if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)) else "failed"
            self._failure = (
                f"The loop {what} in step {self.steps}: {str(error).splitlines()[0] if str(error) else kind}"
            )
        # The steps until then are what one wants to see, and what held the memory.
        self._history.close()
        with contextlib.suppress(RuntimeError):
            self._profiler.__exit__(kind, error, traceback)

    def step(self) -> None:
        """Ends a step of the loop."""
        self.steps += 1
        self._profiler.step()

    def report(self) -> Report:
        """What the recorded steps say: times over all repetitions, the rest from the last trace.

        Raises:
            ProfileError: if no step was recorded, or before the loop is over.
        """
        if not self.traces:
            raise ProfileError(
                f"no step was recorded: the loop made {self.steps} steps, and {self.needed} are needed for all "
                "repetitions. Call loop.step() at the end of each, or lower wait and warmup."
            )
        times: list[float] = []
        for path in self.traces:
            times += step_times(trace := read_trace(path))
        report = report_on(trace)
        missing = [text for text in trace.missing if not text.startswith("There ")]
        reason = no_cuda_activity(self._device, trace)
        missing = [text for text in (self._failure, reason) if text] + missing
        if self.steps < self.needed:
            missing.append(f"The loop ended after {self.steps} of the {self.needed} steps that were planned for.")
        plan = ", ".join(f"{count} {name}" for name, count in self._schedule.items())
        return Report(
            objective="How long do the loop's steps take, and what bounds them?",
            setup=[("device", self._device.name), ("schedule", plan), *report.setup],
            missing=missing,
            candidates=[],
            steps=Times.of(times),
            answers=answers(report.structure),
            verdicts=report.verdicts,
            structure=report.structure,
            memory=report.memory,
            trace=trace.path,
            files=[*self.traces, *map(str, self._snapshot)],
        )

    def _ready(self, profiler: Any) -> None:
        path = self._folder / f"steps_{len(self.traces)}{self._suffix}"
        profiler.export_chrome_trace(str(path))
        self.traces.append(str(path))
