"""A profiler's trace as plain columns: what every later part reads, and nothing that depends on the file's format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Kinds of activity. Kineto has renamed its categories over the releases; `reading.categories` maps all of them here.
OTHER, OP, LABEL, PYTHON, RUNTIME, KERNEL, MEMCPY, MEMSET, GPU_LABEL, SYNC, OVERHEAD, SPAN = range(12)
KINDS = (
    "other", "operator", "label", "python", "runtime", "kernel", "memcpy", "memset", "gpu label", "sync", "overhead",
    "span",
)  # fmt: skip
ON_GPU = (KERNEL, MEMCPY, MEMSET)
# In a column of ids, device or stream numbers and bytes: not said.
UNKNOWN = -1

EVENTS = np.dtype([
    ("begin", np.int64),  # ns from the trace's own zero
    ("duration", np.int64),  # ns
    ("name", np.int32),  # index into Trace.names
    ("track", np.int32),  # index into Trace.tracks: a thread, or a stream of a device
    ("correlation", np.int64),  # the same number for a launch call and what it started
    ("external", np.int64),  # the same number for an operator and what it started
    ("bytes", np.int64),  # of a copy or a memset
    ("stream", np.int32),
    ("device", np.int16),
    ("kind", np.int8),
])  # fmt: skip

ALLOCATIONS = np.dtype([
    ("time", np.int64),  # ns
    ("bytes", np.int64),  # negative where memory is given back
    ("total", np.int64),  # allocated after it, in bytes
    ("reserved", np.int64),  # held by the allocator after it, in bytes
    ("address", np.int64),
    ("device", np.int16),
    ("device_type", np.int16),  # PyTorch's: 0 CPU, 1 CUDA
    ("track", np.int32),
])  # fmt: skip


@dataclass(frozen=True)
class Track:
    """Where events stand in the trace: a thread of a process, or a stream of a device.

    Attributes:
        pid, tid: as the file has them; for activity on a GPU, the device and the stream.
        process, thread: their names, empty where the file gives none.
    """

    pid: int | str
    tid: int | str
    process: str = ""
    thread: str = ""


@dataclass(frozen=True)
class Trace:
    """A trace, read.

    Attributes:
        path: the file.
        events: durations, ordered by their beginning; see ``EVENTS``.
        allocations: what ``profile_memory`` recorded, in order; see ``ALLOCATIONS``.
        names: of events.
        tracks: where they stand.
        devices: the GPUs' properties, as the file has them.
        rank, world_size: of a distributed run; None where the file says nothing.
        meta: the file's other entries.
        missing: sentences on what the file should hold and does not, or holds and was not read.
        bytes_read: of JSON, decompressed.
    """

    path: str
    events: np.ndarray
    allocations: np.ndarray
    names: list[str]
    tracks: list[Track]
    devices: list[dict[str, Any]] = field(default_factory=list)
    rank: int | None = None
    world_size: int | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    bytes_read: int = 0

    def of(self, *kinds: int) -> np.ndarray:
        """The events of these kinds, in order."""
        return self.events[np.isin(self.events["kind"], kinds)]

    @property
    def start(self) -> int:
        """When the first event begins, in ns: what moments in reports count from."""
        return int(self.events["begin"][0]) if len(self.events) else 0

    @property
    def has_gpu_activity(self) -> bool:
        """Whether anything ran on a GPU, as far as the trace knows."""
        return bool(np.isin(self.events["kind"], ON_GPU).any())

    def device_name(self, device: int = 0) -> str:
        """What the file calls a device, or an empty text."""
        return str(self._properties(device).get("name", ""))

    def device_memory(self, device: int = 0) -> float | None:
        """A device's memory in bytes, if the file has it."""
        size = self._properties(device).get("totalGlobalMem")
        return float(size) if isinstance(size, (int, float)) and size > 0 else None

    def _properties(self, device: int) -> dict[str, Any]:
        return next((entry for entry in self.devices if entry.get("id") == device), {})
