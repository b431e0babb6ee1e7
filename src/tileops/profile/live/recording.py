"""torch.profiler around work, and the trace that it wrote, read back."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .device import Device

# Labels of what measuring itself does: its waits and gaps are none of the work's.
OWN = "tileops: "


def activities(device: Device) -> list[Any]:
    """CPU, and CUDA where PyTorch's build has it and there is a GPU."""
    from torch.profiler import ProfilerActivity

    wanted = [ProfilerActivity.CPU]
    if device.gpu and _has_cuda():
        wanted.append(ProfilerActivity.CUDA)
    return wanted


def no_cuda_activity(device: Device, has_gpu_activity: bool) -> str:
    """Why a trace has no GPU activity, and what that leaves unknown; empty if it has."""
    if has_gpu_activity:
        return ""
    if not device.gpu:
        return (
            "There is no GPU here: times on a GPU, launch overhead, gaps and what bounds the kernels stay unknown. "
            "What is shown is the host's."
        )
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
    """Profiles what runs inside; the list then holds the trace's path. The file is the caller's to keep or delete."""
    from torch.profiler import profile

    paths: list[Path] = []
    with warnings.catch_warnings():
        # That there is no CUDA is said by the report.
        warnings.filterwarnings("ignore", module="torch.profiler")
        profiler = profile(activities=activities(device), profile_memory=memory, with_stack=with_stack or memory)
        try:
            with profiler:
                yield paths
                device.wait()
        finally:
            # Also after an exception: what led there is what one wants to see.
            with contextlib.suppress(RuntimeError):
                path = Path(tempfile.mkdtemp(prefix="tileops-profile-")) / "trace.json.gz"
                profiler.export_chrome_trace(str(path))
                paths.append(path)
