"""torch.profiler around work, and the trace that it wrote, read back."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..columns import RUNTIME, Trace
from ..structure.links import launch_calls
from .device import Device

# Labels of what measuring itself does: its waits and gaps are none of the work's.
OWN = "tileops: "
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
    """
    from torch.profiler import profile

    paths: list[Path] = []
    with warnings.catch_warnings():
        # That there is no CUDA is said by the report.
        warnings.filterwarnings("ignore", module="torch.profiler")
        profiler = profile(activities=activities(device), profile_memory=memory, with_stack=with_stack or memory)
        folder = Path(tempfile.mkdtemp(prefix="tileops-profile-"))
        snapshot = memory and device.gpu
        if snapshot:
            _allocator()._record_memory_history(max_entries=_SNAPSHOT_EVENTS)
        try:
            with profiler:
                yield paths
                device.wait()
        finally:
            # Also after an exception: what led there is what one wants to see.
            with contextlib.suppress(RuntimeError):
                profiler.export_chrome_trace(str(folder / "trace.json.gz"))
                paths.append(folder / "trace.json.gz")
            if snapshot:
                with contextlib.suppress(RuntimeError, OSError):
                    _allocator()._dump_snapshot(str(folder / "memory_snapshot.pickle"))
                    paths.append(folder / "memory_snapshot.pickle")
                _allocator()._record_memory_history(enabled=None)


def _allocator() -> Any:
    import torch

    return torch.cuda.memory
