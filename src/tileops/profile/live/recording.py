"""torch.profiler around work, and the trace that it wrote, read back."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..columns import RUNTIME, Trace
from ..errors import ProfileError
from ..facts import Report
from ..structure.links import launch_calls
from .device import Device

# How the folders of traces begin that nobody gave a place.
FOLDER = "tileops-profile-"
# What the snapshot keeps: the last so many allocations and frees, so that a long run leaves a file of bounded size.
_SNAPSHOT_EVENTS = 100_000


def activities(device: Device) -> list[Any]:
    """CPU, and CUDA where PyTorch's build has it and there is a GPU."""
    from torch.profiler import ProfilerActivity

    wanted = [ProfilerActivity.CPU]
    if device.gpu and _has_cuda():
        wanted.append(ProfilerActivity.CUDA)
    return wanted


def no_cuda_activity(device: Device, trace: Trace) -> str:
    """Why a trace has no GPU activity, and what that leaves unknown; empty if it has."""
    if trace.has_gpu_activity:
        return ""
    if not device.gpu:
        return (
            "There is no GPU here: times on a GPU, launch overhead, gaps and what bounds the kernels stay unknown. "
            "What is shown is the host's."
        )
    if len(trace.of(RUNTIME)) and not len(launch_calls(trace)):
        # The wait at the end was recorded, so a launch would have been.
        return "Nothing was launched on the GPU: what is shown is the host's work."
    if not _has_cuda():
        reason = "this build of PyTorch has no CUPTI or ROCTracer"
    else:
        reason = "CUPTI gave nothing: it is missing, not permitted, or taken by another profiler (nsys, ncu, Proton)"
    return (
        f"There is a GPU, but its activity was not recorded: {reason}. The kernels' times, their launches and the gaps "
        "between them stay unknown; times of whole calls are by CUDA events."
    )


def _has_cuda() -> bool:
    """Whether PyTorch's build can record what a GPU does."""
    from torch import profiler

    supported: Any = profiler.supported_activities
    return profiler.ProfilerActivity.CUDA in supported()


@contextlib.contextmanager
def recorded(device: Device, memory: bool, with_stack: bool) -> Iterator[list[Path]]:
    """Profiles what runs inside.

    The list then holds the trace's path, and with ``memory`` on a GPU that of the allocator's snapshot, which
    https://pytorch.org/memory_viz draws; also where the work ended in an exception. The files are the caller's.

    Raises:
        ProfileError: if what runs inside runs a profiler of its own.
    """
    from torch.profiler import profile

    paths: list[Path] = []
    folder = Path(tempfile.mkdtemp(prefix=FOLDER))
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        stack.callback(_drop_empty, folder)
        # That there is no CUDA is said by the report.
        warnings.filterwarnings("ignore", module="torch.profiler")
        profiler = profile(activities=activities(device), profile_memory=memory, with_stack=with_stack or memory)
        history = contextlib.ExitStack()
        snapshot = history.enter_context(allocations(folder, memory and device.gpu))
        profiler.start()
        try:
            yield paths
            device.wait()
        finally:
            # Also after an exception: what led there is what one wants to see.
            history.close()
            paths += snapshot
            if not _is_running():
                # Of two profilers the inner one ends both. To stop or to read the outer one then ends the process:
                # a segmentation fault in PyTorch 2.13, an AttributeError in 2.11.
                raise ProfileError(
                    "the profiled code runs torch.profiler itself, which took the place of this one: profile a "
                    "function of it that does not (module:function), or read the trace that it writes with "
                    "`tileops profile read`"
                )
            with contextlib.suppress(RuntimeError):
                profiler.stop()
                profiler.export_chrome_trace(str(folder / "trace.json.gz"))
                paths.insert(0, folder / "trace.json.gz")


@contextlib.contextmanager
def allocations(folder: Path, wanted: bool) -> Iterator[list[Path]]:
    """Has the allocator of a GPU keep its history, and leaves its snapshot in a folder: the list then has the path.

    It is left also where memory ran out.
    """
    found: list[Path] = []
    if not wanted:
        yield found
        return
    _allocator()._record_memory_history(max_entries=_SNAPSHOT_EVENTS)
    try:
        yield found
    finally:
        try:
            _allocator()._dump_snapshot(str(folder / "memory_snapshot.pickle"))
            found.append(folder / "memory_snapshot.pickle")
        except (RuntimeError, OSError) as error:
            # Seen with PyTorch 2.11 on an H200: "stoi".
            warnings.warn(f"PyTorch cannot write the allocator's snapshot: {error}", stacklevel=2)
        _allocator()._record_memory_history(enabled=None)


def drop(report: Report) -> None:
    """Removes what a profile recorded into a folder of its own, once it is saved elsewhere."""
    folder = Path(report.trace).parent
    if folder.name.startswith(FOLDER):
        shutil.rmtree(folder, ignore_errors=True)


def _drop_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _is_running() -> bool:
    """Whether PyTorch is profiling now."""
    import torch

    enabled: Any = torch.autograd._profiler_enabled  # type: ignore[attr-defined]
    return bool(enabled())


def _allocator() -> Any:
    import torch

    return torch.cuda.memory
