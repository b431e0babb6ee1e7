"""A GEMM in fp16, checked against PyTorch.

    python examples/pipelined_gemm.py [--stages N] [--threads N] [--block-n N] ...

Prints microseconds a launch and TFLOP/s, its own and those of torch.matmul.
"""

import argparse
import statistics
import sys

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul(m, n, k, block_m=128, block_n=128, block_k=64, stages=1, threads=128):
    @T.prim_func
    def matmul(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads) as (bx, by):
            As = T.alloc_shared((block_m, block_k), "float16")
            Bs = T.alloc_shared((block_k, block_n), "float16")
            Cl = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(Cl)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                T.copy(A[by * block_m, ko * block_k], As)
                T.copy(B[ko * block_k, bx * block_n], Bs)
                T.gemm(As, Bs, Cl)
            T.copy(Cl, C[by * block_m, bx * block_n])

    return matmul


def microseconds(run, warm_ups=10, launches=30):
    """The median time of a launch."""
    for _ in range(warm_ups):
        run()
    times = []
    for _ in range(launches):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of all three matrices")
    parser.add_argument("--block-m", type=int, default=128, help="rows of a tile of the result")
    parser.add_argument("--block-n", type=int, default=128, help="its columns")
    parser.add_argument("--block-k", type=int, default=64, help="how much of the sum an iteration adds")
    parser.add_argument("--stages", type=int, default=1, help="stages of the pipeline")
    parser.add_argument("--threads", type=int, default=128, help="threads that compute")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this program needs an NVIDIA GPU, and PyTorch finds none")

    size = options.size
    kernel = matmul(
        size, size, size, options.block_m, options.block_n, options.block_k, options.stages, options.threads
    )
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-2, atol=1e-1)
    for name, run in (("this kernel", lambda: kernel(a, b)), ("torch.matmul", lambda: torch.matmul(a, b))):
        taken = microseconds(run)
        print(f"{name:12} {taken:8.1f} us {2 * size**3 / taken / 1e6:6.0f} TFLOP/s")


if __name__ == "__main__":
    main()
