"""How fast a large trace of torch.profiler is read, and in how much memory.

    python benchmarks/trace_reading.py [--bytes 1e9] [--gzip] [--keep FILE] [--repeats 3]

The trace is made: a training loop of one thread and one stream, with the fields, the names' lengths and the layout of
lines that PyTorch 2.4 and later write. Of each step, an operator inside another one, a launch, the arrow from it and
the kernel. With --gzip, throughput still counts the bytes of JSON.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "computeMajor": 9, "computeMinor": 0,
     "numSms": 132}
  ],
  "cuda_runtime_version": 12080,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1776162600000000000,
  "traceEvents": [
  {
    "ph": "M", "name": "process_name", "pid": 4021, "tid": 0, "ts": 5120000000000.000,
    "args": {"name": "python"}
  }"""
TAIL = """
  ],
  "traceName": "made.json"
}
"""
OPERATORS = ("aten::linear", "aten::addmm", "aten::add_", "aten::native_layer_norm", "aten::_softmax", "aten::copy_")
KERNELS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3> >",
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half, float, false>(int, float, float*)",
    "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t>, false, true>",
)
STEP = """,
  {{
    "ph": "X", "cat": "cpu_op", "name": "{operator}", "pid": 4021, "tid": 4021,
    "ts": {a:.3f}, "dur": 21.407,
    "args": {{
      "External id": {id},"Record function id": 0, "Sequence number": {id}, "Fwd thread id": 0, "Ev Idx": {id}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4021, "tid": 4021,
    "ts": {b:.3f}, "dur": 4.211,
    "args": {{
      "External id": {id}, "cbid": 211, "correlation": {id}
    }}
  }},
  {{
    "ph": "s", "id": {id}, "pid": 4021, "tid": 4021, "ts": {b:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7,
    "ts": {c:.3f}, "dur": 17.152,
    "args": {{
      "External id": {id}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {id},
      "registers per thread": 168, "shared memory": 213184, "blocks per SM": 1.000000, "warps per SM": 12.000000,
      "grid": [132, 1, 1], "block": [384, 1, 1], "est. achieved occupancy %": 18
    }}
  }},
  {{
    "ph": "f", "id": {id}, "pid": 0, "tid": 7, "ts": {c:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}"""


def pieces(size: float) -> Iterator[str]:
    """A trace of about that many bytes."""
    yield HEAD
    written, done = len(HEAD), 0
    while written < size:
        steps = []
        for number in range(done + 1, done + 2001):
            begin = 5120000001000.0 + 25 * number
            steps.append(
                STEP.format(
                    id=number, operator=OPERATORS[number % 6], kernel=KERNELS[number % 4], a=begin, b=begin + 9.803,
                    c=begin + 15.177,
                )
            )  # fmt: skip
        done += 2000
        text = "".join(steps)
        written += len(text)
        yield text
    yield TAIL


def make(path: Path, size: float, compress: bool) -> int:
    """Writes the trace; returns the bytes of JSON."""
    written = 0
    with gzip.open(path, "wb", compresslevel=1) if compress else open(path, "wb") as file:
        with Progress("Making the trace", BarColumn(), DownloadColumn()) as bar:
            task = bar.add_task("", total=size)
            for piece in pieces(size):
                written += file.write(piece.encode())
                bar.update(task, completed=written)
    return written


def read(path: Path, size: int) -> None:
    """Reads it once, with a progress bar, and prints what that took."""
    from tileops.profile.reading import read_trace

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    began, busy = time.perf_counter(), time.process_time()
    with Progress("Reading", *columns) as bar:
        task = bar.add_task("")
        trace = read_trace(path, lambda done, total: bar.update(task, completed=done, total=total))
    wall, busy = time.perf_counter() - began, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"{size / 1e6:,.0f} MB, {len(trace.events):,} events in {wall:.2f} s ({busy:.2f} s of CPU): "
        f"{size / wall / 1e6:.0f} MB/s; memory {before / 1e6:.0f} MB before, {peak / 1e6:.0f} MB at most",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=float, default=1e9)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--keep", type=Path, help="make the trace there, or read the one that is there")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(Path(arguments.read[0]), int(arguments.read[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder, "made.json.gz" if arguments.gzip else "made.json")
        if path.exists():
            size = sum(map(len, iter(lambda: file.read(1 << 20), b""))) if (file := _open(path)) else 0
        else:
            size = make(path, arguments.bytes, arguments.gzip)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        for _ in range(arguments.repeats):  # each in a process of its own, whose largest memory is its own
            subprocess.run([sys.executable, __file__, "--read", str(path), str(size)], check=True)


def _open(path: Path) -> gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # type: ignore[return-value]


if __name__ == "__main__":
    main()
