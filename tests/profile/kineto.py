"""Traces as torch.profiler writes them, made to measure: what the tests know the answers of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tileops.profile.columns import Trace
from tileops.profile.reading import read_trace

PID, TID = 100, 101


class Maker:
    """Collects events; times are microseconds."""

    def __init__(self, **frame: Any):
        self.events: list[dict[str, Any]] = []
        self.frame = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}],
            "displayTimeUnit": "ms",
        } | frame
        self._number = 0

    def add(self, cat: str, name: str, ts: float, dur: float, pid: Any = PID, tid: Any = TID, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )

    def op(self, name: str, ts: float, dur: float, **args: Any) -> None:
        self.add("cpu_op", name, ts, dur, **args)

    def label(self, name: str, ts: float, dur: float, **args: Any) -> None:
        self.add("user_annotation", name, ts, dur, **args)

    def call(self, name: str, ts: float, dur: float, **args: Any) -> None:
        self.add("cuda_runtime", name, ts, dur, **args)

    def launch(
        self, ts: float, dur: float, begin: float, length: float, name: str = "kernel_a", *, stream: int = 7,
        device: int = 0, call: str = "cudaLaunchKernel", tid: int = TID,
    ) -> int:  # fmt: skip
        """A launch call and its kernel; returns the correlation id."""
        self._number += 1
        number = self._number
        cat = "cuda_driver" if call.startswith("cu") and not call.startswith("cuda") else "cuda_runtime"
        self.add(cat, call, ts, dur, tid=tid, correlation=number)
        self.add(
            "kernel", name, begin, length, pid=device, tid=stream, device=device, stream=stream, correlation=number
        )
        return number

    def text(self) -> str:
        return json.dumps(self.frame | {"traceEvents": self.events})

    def trace(self, folder: Path, name: str = "made.json") -> Trace:
        path = folder / name
        path.write_text(self.text())
        return read_trace(path)
