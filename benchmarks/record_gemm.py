"""Records one launch of the production GEMM, on a Hopper GPU.

    python benchmarks/record_gemm.py 4096x8192x4608 gemm_1024_ctas.tltrace

The shape is MxNxK, in float16. What is recorded is a launch behind ten others, with what a record costs and what
tracing does to the kernel measured on the same GPU.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

WARM_UPS = 10
ROUNDS = 40  # of stripped against traced


def shape_of(text: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no shape such as 4096x4096x4096")
    return int(found[1]), int(found[2]), int(found[3])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", type=shape_of, metavar="MxNxK")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("TILELANG_PRINT_ON_COMPILATION", "0")
    import torch

    from tileops.kernels.gemm.dense import build_gemm, default_config
    from tileops.trace import trace

    m, n, k = options.shape
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(n, k, device="cuda", dtype=torch.float16)
    config = default_config(m, n, k)
    stripped, traced = (build_gemm(m, n, k, "float16", traced=on)(**config) for on in (False, True))
    print(trace.perturbation(stripped, traced, (a, b), ROUNDS))
    for _ in range(WARM_UPS):
        _, slots = traced(a, b)
    path = trace.fetch(traced, slots).save(options.file)
    timeline = trace.decode(traced, slots)
    print(f"{path}: {path.stat().st_size:,} bytes, {timeline.recorded:,} events; {timeline}; {config}")


if __name__ == "__main__":
    main()
