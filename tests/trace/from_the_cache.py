"""Run in a process of its own by test_isolation.py: builds a kernel, runs it, and prints the names it recorded."""

import json
import sys

import tilelang
import tilelang.language as T
import torch

from tileops.trace import trace

prefix = sys.argv[1]
compilers: list[str] = []


@tilelang.jit(out_idx=trace.out_idx(1, True), target="c", execution_backend="cython")
def factory():
    @T.prim_func
    def main(a: T.Tensor((8,), "float32"), b: T.Tensor((8,), "float32")):
        with T.Kernel(2, threads=1) as bx:
            with trace.group(f"{prefix} group", lead=0):
                with trace.range(f"{prefix} range", payload=bx):
                    b[bx] = a[bx]
                trace.record(f"{prefix} record")

    return trace.finalize(main, traced=True, max_events=8)


def watch(event: str, arguments: tuple) -> None:
    if event == "subprocess.Popen" and "g++" in str(arguments[0]):
        compilers.append(str(arguments[0]))


sys.addaudithook(watch)
kernel = factory()
slots = kernel(torch.ones(8))[-1]
compiled = len(compilers)  # decoding may build the kernel that measures what a record costs
timeline = trace.decode(kernel, slots)
names = [*timeline.groups, *timeline.slices.name.tolist(), *timeline.instants.name.tolist()]
print(json.dumps({"names": names, "compiled": compiled}))
