"""What this process computes on, and how it is waited for and timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Device:
    """Where the work runs.

    Attributes:
        name: the driver's for a GPU, else the machine's processor.
        gpu: whether PyTorch has one.
        index: its number; 0 without one.
        memory, l2_bytes: of the GPU; None if unknown.
        arch: what nvcc calls it, such as ``sm_90a``; empty without an NVIDIA GPU.
    """

    name: str
    gpu: bool
    index: int = 0
    memory: float | None = None
    l2_bytes: float | None = None
    arch: str = ""

    def wait(self) -> None:
        """Until the device has done all it was given."""
        if self.gpu:
            import torch

            torch.cuda.synchronize(self.index)

    def time(self, work: Callable[[], object], calls: int) -> float:
        """Nanoseconds a call takes when calls follow each other.

        On a GPU these are events on its current stream, so that the host's time counts only where the GPU waits for it.
        One more call goes ahead of them: on a GPU that has nothing to do, the first event would be over at once, and
        the host's way to the first launch would count.
        """
        if not self.gpu:
            began = time.perf_counter_ns()
            for _ in range(calls):
                work()
            return (time.perf_counter_ns() - began) / calls
        import torch

        event: Any = torch.cuda.Event
        first, last = event(enable_timing=True), event(enable_timing=True)
        work()
        first.record()
        for _ in range(calls):
            work()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e6 / calls


def this_device() -> Device:
    """The current GPU, else the CPU."""
    import platform

    import torch

    if not torch.cuda.is_available():
        return Device(platform.processor() or platform.machine() or "CPU", False)
    index = torch.cuda.current_device()
    properties: Any = torch.cuda.get_device_properties(index)
    l2 = getattr(properties, "L2_cache_size", None)
    memory, arch = float(properties.total_memory), ""
    if torch.version.hip is None:
        major, minor = torch.cuda.get_device_capability(index)
        # From Hopper on, tensor cores and TMA take instructions of one architecture alone: the suffix has these.
        arch = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    return Device(properties.name, True, index, memory, float(l2) if l2 else None, arch)
