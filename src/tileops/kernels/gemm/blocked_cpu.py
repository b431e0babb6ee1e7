"""A blocked GEMM for TileLang's CPU target, annotated for tracing: C = A·B in float32.

It is there so that a machine without a GPU records a real timeline. Blocks run one after the other on one core, so
lead is always thread 0, the clock is the CPU's time stamp counter and the SM is the core's number.
"""

import functools
from typing import Any

import tilelang
import tilelang.language as T

from tileops.trace import trace


@functools.lru_cache(maxsize=32)
def build_gemm(m: int, n: int, k: int, traced: bool = False) -> Any:
    """Builds the GEMM for one problem.

    The kernel takes ``a`` of shape (m, k) and ``b`` of shape (k, n) and returns ``c`` of shape (m, n), all float32.

    Args:
        m: rows of C.
        n: columns of C.
        k: length of the sums.
        traced: whether to build the recording variant; it is part of the cache's key.

    Returns:
        A ``tilelang.jit`` factory with arguments ``block_m``, ``block_n`` and ``block_k``, which must divide the
        problem.
    """

    @tilelang.jit(out_idx=trace.out_idx(1, traced), target="c", execution_backend="cython")
    def factory(block_m: int = 32, block_n: int = 32, block_k: int = 32):
        for extent, block in ((m, block_m), (n, block_n), (k, block_k)):
            if extent % block:
                raise ValueError(f"blocks of {block} do not divide {extent}: choose block sizes that do")

        @T.prim_func
        def gemm(a: T.Tensor((m, k), "float32"), b: T.Tensor((k, n), "float32"), c: T.Tensor((m, n), "float32")):
            with T.Kernel(n // block_n, m // block_m, threads=1) as (bx, by):
                a_tile = T.alloc_local((block_m, block_k), "float32")
                b_tile = T.alloc_local((block_k, block_n), "float32")
                c_tile = T.alloc_local((block_m, block_n), "float32")
                with trace.group("core", lead=0):
                    with trace.range("clear"):
                        T.clear(c_tile)
                    for ki in T.serial(k // block_k):
                        with trace.range("load", lane="memory", payload=ki):
                            T.copy(a[by * block_m, ki * block_k], a_tile)
                            T.copy(b[ki * block_k, bx * block_n], b_tile)
                        with trace.range("multiply", lane="arithmetic", payload=ki):
                            for i, p, j in T.grid(block_m, block_k, block_n):
                                c_tile[i, j] += a_tile[i, p] * b_tile[p, j]
                    with trace.range("store"):
                        T.copy(c_tile, c[by * block_m, bx * block_n])
                trace.dag("load", "multiply")

        return trace.finalize(gemm, traced=traced, max_events=4 * (k // block_k) + 4)

    return factory
