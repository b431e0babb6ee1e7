"""Traces a GEMM on the CPU: a first timeline on a machine without a GPU.

    python examples/cpu_gemm.py [--output DIR]

Writes DIR/cpu_gemm.html; open it in a browser.
"""

import argparse

import torch

from tileops.kernels.gemm.blocked_cpu import build_gemm
from tileops.trace import trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="debug", help="the folder to write to (default: %(default)s)")
    arguments = parser.parse_args()

    trace.enable(arguments.output)
    a, b = torch.randn(128, 256), torch.randn(256, 128)
    kernel = build_gemm(128, 128, 256, traced=trace.enabled)()
    c = trace.run(kernel, (a, b), stem="cpu_gemm")
    torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-3)
    print(f"wrote {trace.dumps[-1]}.html")


if __name__ == "__main__":
    main()
