"""Run in a process of its own by test_placement.py: compiles a kernel for Hopper and prints where its markers are."""

import json
import sys
import warnings

import placements
import tilelang

from tileops.trace import TraceWarning, trace

compilers: list[str] = []
target = tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})


def watch(event: str, arguments: tuple) -> None:
    if event == "subprocess.Popen" and "nvcc" in str(arguments[1]):
        compilers.append(str(arguments[1]))


sys.addaudithook(watch)
with target, warnings.catch_warnings():
    warnings.simplefilter("error", TraceWarning)
    func = trace.lower(placements.split_k(trace), 64)
source = tilelang.compile(func, out_idx=[-1], target=target).get_kernel_source()
lines = [line.strip() for line in source[source.rindex('extern "C" __global__') :].splitlines()]
at = next(number for number, line in enumerate(lines) if "tma_load(a_desc" in line)
ahead = next(line for line in reversed(lines[:at]) if line.startswith("tileops_mark"))
print(json.dumps({"ahead": ahead, "compiled": len(compilers)}))
