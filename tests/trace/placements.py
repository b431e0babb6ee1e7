"""Kernels with markers that TileLang's warp specialization and launches of several CTAs have to leave truthful.

Each is made by a function of the ``trace`` to use, so that the same kernel can be had without a marker.
"""

from __future__ import annotations

from typing import Any

import tilelang.language as T

M = N = 256
K = 512
HALF, FLOAT = "float16", "float32"


def plain(trace: Any, threads: int = 128, stages: int = 3) -> Any:
    """A range around each copy and one around the multiplication."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=threads) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=stages):
                with trace.range("copy a", payload=ki):
                    T.copy(a[by * 128, ki * 64], a_tile)
                with trace.range("copy b", lane="b", payload=by - ki):
                    T.copy(b[ki * 64, bx * 128], b_tile)
                with trace.range("mma", payload=ki):
                    T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])
            trace.dag("copy b", "mma")

    return kernel


def two_consumers(trace: Any) -> Any:
    """The same with two consumer warpgroups."""
    return plain(trace, threads=256)


def nested(trace: Any) -> Any:
    """Ranges and marks inside a range around both copies, and inside one around everything."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=256) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=3):
                with trace.range("step"):
                    with trace.range("copies"):
                        trace.record("first")
                        with trace.range("copy a"):
                            T.copy(a[by * 128, ki * 64], a_tile)
                        trace.record("between", payload=ki)
                        with trace.range("copy b"):
                            T.copy(b[ki * 64, bx * 128], b_tile)
                        trace.record("last")
                    with trace.range("mma"):
                        T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def spanning(trace: Any) -> Any:
    """A range around a copy and what uses it, and no other."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=256) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=3):
                T.copy(a[by * 128, ki * 64], a_tile)
                with trace.range("load and multiply"):
                    T.copy(b[ki * 64, bx * 128], b_tile)
                    T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def empty(trace: Any) -> Any:
    """Ranges in which nothing is left: around nothing, and around a value that is computed elsewhere."""

    @T.prim_func
    def kernel(
        a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF), order: T.Tensor((8,), "int32")
    ):
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=3):
                with trace.range("look up"):
                    at = order[ki]
                with trace.range("copy", payload=ki):
                    T.copy(a[by * 128, at * 64], a_tile)
                    T.copy(b[at * 64, bx * 128], b_tile)
                with trace.range("nothing"):
                    pass
                T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def own_group(trace: Any) -> Any:
    """A group that holds copies alone."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=256) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=3):
                with trace.group("loads", lead=5):
                    with trace.range("copy", payload=ki):
                        T.copy(a[by * 128, ki * 64], a_tile)
                        T.copy(b[ki * 64, bx * 128], b_tile)
                with trace.group("math", lead=128):
                    with trace.range("mma"):
                        T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def attention(trace: Any) -> Any:
    """Two copies with a barrier each, what uses the first one ahead of the second in the text."""
    dim = block = 64

    @T.prim_func
    def kernel(q: T.Tensor((M, dim), HALF), k: T.Tensor((K, dim), HALF), v: T.Tensor((K, dim), HALF),
               o: T.Tensor((M, dim), FLOAT)):  # fmt: skip
        with T.Kernel(M // block, threads=128) as bx:
            q_tile = T.alloc_shared((block, dim), HALF)
            k_tile = T.alloc_shared((block, dim), HALF)
            v_tile = T.alloc_shared((block, dim), HALF)
            scores = T.alloc_fragment((block, block), FLOAT)
            weights = T.alloc_fragment((block, block), HALF)
            acc = T.alloc_fragment((block, dim), FLOAT)
            T.copy(q[bx * block, 0], q_tile)
            T.clear(acc)
            for ki in T.Pipelined(K // block, num_stages=2):
                with trace.range("copy k", payload=ki):
                    T.copy(k[ki * block, 0], k_tile)
                with trace.range("qk"):
                    T.clear(scores)
                    T.gemm(q_tile, k_tile, scores, transpose_B=True)
                with trace.range("scale"):
                    for i, j in T.Parallel(block, block):
                        scores[i, j] = scores[i, j] * 0.125
                    T.copy(scores, weights)
                with trace.range("copy v", payload=ki):
                    T.copy(v[ki * block, 0], v_tile)
                with trace.range("pv"):
                    T.gemm(weights, v_tile, acc)
            T.copy(acc, o[bx * block, 0])

    return kernel


def split_k(trace: Any) -> Any:
    """A quarter of the sums in each CTA, added with atomics."""
    split = 4

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), FLOAT)):
        with T.Kernel(N // 128, M // 128, split, threads=128) as (bx, by, bz):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64 // split, num_stages=2):
                with trace.range("copy", payload=bz * 100 + ki):
                    T.copy(a[by * 128, bz * (K // split) + ki * 64], a_tile)
                    T.copy(b[bz * (K // split) + ki * 64, bx * 128], b_tile)
                with trace.range("mma"):
                    T.gemm(a_tile, b_tile, acc)
            trace.record("add")
            for i, j in T.Parallel(128, 128):
                T.atomic_add(c[by * 128 + i, bx * 128 + j], acc[i, j])

    return kernel


def persistent(trace: Any, ctas: int = 3) -> Any:
    """Fewer CTAs than tiles, by T.Persistent."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(ctas, threads=256) as block:
            a_tile = T.alloc_shared((64, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((64, 128), FLOAT)
            for bx, by in T.Persistent([M // 64, N // 128], ctas, block):
                with trace.range("tile", payload=bx * 100 + by):
                    T.clear(acc)
                    for ki in T.Pipelined(K // 64, num_stages=3):
                        with trace.range("copy", payload=bx * 100 + ki):
                            T.copy(a[bx * 64, ki * 64], a_tile)
                            T.copy(b[ki * 64, by * 128], b_tile)
                        with trace.range("mma"):
                            T.gemm(a_tile, b_tile, acc)
                    T.copy(acc, c[bx * 64, by * 128])

    return kernel


def by_hand(trace: Any) -> Any:
    """One producer and two consumers with T.ws."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=384) as (bx, by):
            a_upper = T.alloc_shared((64, 64), HALF)
            a_lower = T.alloc_shared((64, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            upper = T.alloc_fragment((64, 128), FLOAT)
            lower = T.alloc_fragment((64, 128), FLOAT)
            full = T.alloc_barrier(128)
            free = T.alloc_barrier(256)
            with T.ws(0):
                with trace.group("consumer 0", lead=0):
                    T.clear(upper)
            with T.ws(1):
                with trace.group("consumer 1", lead=128):
                    T.clear(lower)
            # A loop for each group would have a barrier of the whole block ahead of it, and nobody would come.
            for ki in T.serial(K // 64):
                with T.ws(2):
                    with trace.group("producer", lead=256):
                        with trace.range("acquire"):
                            T.barrier_wait(free, (ki + 1) % 2)
                        with trace.range("load", payload=ki):
                            T.tma_copy(a[by * 128, ki * 64], a_upper, barrier=full)
                            T.tma_copy(a[by * 128 + 64, ki * 64], a_lower, barrier=full)
                            T.tma_copy(b[ki * 64, bx * 128], b_tile, barrier=full)
                        with trace.range("arrive"):
                            T.barrier_arrive(full)
                with T.ws(0):
                    with trace.group("consumer 0", lead=0):
                        with trace.range("wait", payload=ki):
                            T.barrier_wait(full, ki % 2)
                        with trace.range("mma"):
                            T.gemm(a_upper, b_tile, upper)
                        with trace.range("release"):
                            T.barrier_arrive(free)
                with T.ws(1):
                    with trace.group("consumer 1", lead=128):
                        with trace.range("wait", payload=ki):
                            T.barrier_wait(full, ki % 2)
                        with trace.range("mma"):
                            T.gemm(a_lower, b_tile, lower)
                        with trace.range("release"):
                            T.barrier_arrive(free)
            with T.ws(0):
                with trace.group("consumer 0", lead=0), trace.range("store"):
                    T.copy(upper, c[by * 128, bx * 128])
            with T.ws(1):
                with trace.group("consumer 1", lead=128), trace.range("store"):
                    T.copy(lower, c[by * 128 + 64, bx * 128])

    return kernel


def clustered(trace: Any) -> Any:
    """Clusters of two CTAs."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=128, cluster_dims=2) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            with trace.range("meet"):
                T.cluster_sync()
            for ki in T.Pipelined(K // 64, num_stages=3):
                with trace.range("copy", payload=ki):
                    T.copy(a[by * 128, ki * 64], a_tile)
                    T.copy(b[ki * 64, bx * 128], b_tile)
                with trace.range("mma"):
                    T.gemm(a_tile, b_tile, acc)
            with trace.range("store"):
                T.copy(acc, c[by * 128, bx * 128])

    return kernel


def two_ctas(trace: Any) -> Any:
    """A multiplication by the tensor cores of both CTAs of a cluster, for Blackwell."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(M // 128, N // 256, threads=256, cluster_dims=2) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_tmem((128, 256), FLOAT)
            out = T.alloc_fragment((128, 256), FLOAT)
            done = T.alloc_barrier(1)
            for ki in T.serial(K // 64):
                with trace.range("copy", payload=ki):
                    T.copy(a[bx * 128, ki * 64], a_tile)
                    T.copy(b[ki * 64, (by * 2 + bx % 2) * 128], b_tile)
                with trace.range("meet"):
                    T.cluster_sync()
                with trace.range("issue"):
                    T.tcgen05_gemm(a_tile, b_tile, acc, mbar=done, use_2cta=True, clear_accum=ki == 0)
                with trace.range("wait"):
                    T.mbarrier_wait_parity(done, ki % 2)
            T.copy(acc, out)
            with trace.range("store"):
                T.copy(out, c[bx * 128, by * 256])

    return kernel


def two_loops(trace: Any) -> Any:
    """Two pipelined loops, of which TileLang splits the first one."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            a_more = T.alloc_shared((128, 64), HALF)
            b_more = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(4, num_stages=2):
                with trace.range("copy"):
                    T.copy(a[by * 128, ki * 64], a_tile)
                    T.copy(b[ki * 64, bx * 128], b_tile)
                T.gemm(a_tile, b_tile, acc)
            for ki in T.Pipelined(4, num_stages=2):
                with trace.range("copy more"):
                    T.copy(a[by * 128, ki * 64 + 256], a_more)
                    T.copy(b[ki * 64 + 256, bx * 128], b_more)
                T.gemm(a_more, b_more, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def payloads(trace: Any) -> Any:
    """Payloads that both sides know, and such as the consumer alone knows."""

    @T.prim_func
    def kernel(
        a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF), order: T.Tensor((8,), "int32")
    ):
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            tx = T.get_thread_binding()
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            count = T.alloc_var("int32")
            count = 0
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=2):
                at = order[ki]
                with trace.range("looked up", payload=at):
                    with trace.range("counted", payload=count):
                        T.copy(a[by * 128, at * 64], a_tile)
                with trace.range("by thread", payload=tx):
                    T.copy(b[at * 64, bx * 128], b_tile)
                T.gemm(a_tile, b_tile, acc)
                count += 1  # noqa: SIM113, a variable of the kernel
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def halves(trace: Any) -> Any:
    """Two copies into one buffer."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=2):
                with trace.range("upper"):
                    T.copy(a[by * 128, ki * 64], a_tile[0:64, 0:64])
                with trace.range("lower"):
                    T.copy(a[by * 128 + 64, ki * 64], a_tile[64:128, 0:64])
                T.copy(b[ki * 64, bx * 128], b_tile)
                T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def reordered(trace: Any) -> Any:
    """A copy by threads, which TileLang puts ahead of those by TMA."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF),
               scale: T.Tensor((K,), HALF)):  # fmt: skip
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            scales = T.alloc_shared((64,), HALF)
            factor = T.alloc_fragment((64,), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=2):
                with trace.range("a and scales"):
                    T.copy(a[by * 128, ki * 64], a_tile)
                    with trace.range("scales"):
                        for i in T.Parallel(64):
                            scales[i] = scale[ki * 64 + i] * T.float16(2)
                with trace.range("b"):
                    T.copy(b[ki * 64, bx * 128], b_tile)
                T.copy(scales, factor)
                T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def torn(trace: Any) -> Any:
    """A range between whose copies TileLang puts another one."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF),
               scale: T.Tensor((K,), HALF)):  # fmt: skip
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            scales = T.alloc_shared((64,), HALF)
            factor = T.alloc_fragment((64,), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=2):
                with trace.range("a"):
                    T.copy(a[by * 128, ki * 64], a_tile)
                with trace.range("scales and b"):
                    for i in T.Parallel(64):
                        scales[i] = scale[ki * 64 + i] * T.float16(2)
                    T.copy(b[ki * 64, bx * 128], b_tile)
                T.copy(scales, factor)
                T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel


def conditional(trace: Any) -> Any:
    """A copy under a condition of its own, which TileLang leaves on the consumer's side."""

    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            a_tile = T.alloc_shared((128, 64), HALF)
            b_tile = T.alloc_shared((64, 128), HALF)
            acc = T.alloc_fragment((128, 128), FLOAT)
            T.clear(acc)
            for ki in T.Pipelined(K // 64, num_stages=2):
                with trace.range("always"):
                    T.copy(a[by * 128, ki * 64], a_tile)
                with trace.range("sometimes"):
                    if ki % 2 == 0:
                        T.copy(b[ki * 64, bx * 128], b_tile)
                T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * 128, bx * 128])

    return kernel
