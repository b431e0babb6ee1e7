"""Kernels as people write them: without a marker. The corpus of generated sources is made from these."""

from collections.abc import Callable
from functools import partial
from typing import Any

import tilelang.language as T

HALF, FLOAT = "float16", "float32"


def gemm(
    m: int = 1024, n: int = 1024, k: int = 1024, block_m: int = 128, block_n: int = 128, block_k: int = 64,
    stages: int = 3, threads: int = 128, trans_a: bool = False, trans_b: bool = False, swizzle: int = 0,
    staged: bool = False, dtype: str = HALF,
) -> Any:  # fmt: skip
    """C = A·B with T.Pipelined."""
    a_shape, b_shape = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))
    a_tile, b_tile = (
        ((block_k, block_m) if trans_a else (block_m, block_k)),
        ((block_n, block_k) if trans_b else (block_k, block_n)),
    )

    @T.prim_func
    def matmul(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads) as (bx, by):
            As = T.alloc_shared(a_tile, dtype)
            Bs = T.alloc_shared(b_tile, dtype)
            Cl = T.alloc_fragment((block_m, block_n), FLOAT)
            if swizzle:
                T.use_swizzle(swizzle)
            T.clear(Cl)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                if trans_a:
                    T.copy(A[ko * block_k, by * block_m], As)
                else:
                    T.copy(A[by * block_m, ko * block_k], As)
                if trans_b:
                    T.copy(B[bx * block_n, ko * block_k], Bs)
                else:
                    T.copy(B[ko * block_k, bx * block_n], Bs)
                T.gemm(As, Bs, Cl, transpose_A=trans_a, transpose_B=trans_b)
            if staged:
                Cs = T.alloc_shared((block_m, block_n), dtype)
                T.copy(Cl, Cs)
                T.copy(Cs, C[by * block_m, bx * block_n])
            else:
                T.copy(Cl, C[by * block_m, bx * block_n])

    return matmul


def gemm_dynamic(block: int = 128, block_k: int = 64) -> Any:
    """C = A·B of any number of rows."""
    m = T.dynamic("m")
    n = k = 1024

    @T.prim_func
    def matmul(A: T.Tensor((m, k), HALF), B: T.Tensor((k, n), HALF), C: T.Tensor((m, n), HALF)):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=256) as (bx, by):
            As = T.alloc_shared((block, block_k), HALF)
            Bs = T.alloc_shared((block_k, block), HALF)
            Cl = T.alloc_fragment((block, block), FLOAT)
            T.clear(Cl)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=2):
                T.copy(A[by * block, ko * block_k], As)
                T.copy(B[ko * block_k, bx * block], Bs)
                T.gemm(As, Bs, Cl)
            T.copy(Cl, C[by * block, bx * block])

    return matmul


def gemm_split_k(m: int = 256, n: int = 256, k: int = 4096, split: int = 4) -> Any:
    """C += A·B, a quarter of the sums in each CTA, added with atomics."""
    block, block_k = 128, 64

    @T.prim_func
    def matmul(A: T.Tensor((m, k), HALF), B: T.Tensor((k, n), HALF), C: T.Tensor((m, n), FLOAT)):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), split, threads=128) as (bx, by, bz):
            As = T.alloc_shared((block, block_k), HALF)
            Bs = T.alloc_shared((block_k, block), HALF)
            Cl = T.alloc_fragment((block, block), FLOAT)
            T.clear(Cl)
            for ko in T.Pipelined(k // block_k // split, num_stages=3):
                T.copy(A[by * block, bz * (k // split) + ko * block_k], As)
                T.copy(B[bz * (k // split) + ko * block_k, bx * block], Bs)
                T.gemm(As, Bs, Cl)
            for i, j in T.Parallel(block, block):
                T.atomic_add(C[by * block + i, bx * block + j], Cl[i, j])

    return matmul


def gemm_persistent(m: int = 1024, n: int = 1024, k: int = 1024, ctas: int = 132) -> Any:
    """C = A·B by as many CTAs as there are SMs."""
    block, block_k = 128, 64

    @T.prim_func
    def matmul(A: T.Tensor((m, k), HALF), B: T.Tensor((k, n), HALF), C: T.Tensor((m, n), HALF)):
        with T.Kernel(ctas, threads=256) as block_id:
            As = T.alloc_shared((block, block_k), HALF)
            Bs = T.alloc_shared((block_k, block), HALF)
            Cl = T.alloc_fragment((block, block), FLOAT)
            for bx, by in T.Persistent([T.ceildiv(m, block), T.ceildiv(n, block)], ctas, block_id):
                T.clear(Cl)
                for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=3):
                    T.copy(A[bx * block, ko * block_k], As)
                    T.copy(B[ko * block_k, by * block], Bs)
                    T.gemm(As, Bs, Cl)
                T.copy(Cl, C[bx * block, by * block])

    return matmul


def elementwise(n: int = 4096) -> Any:
    """C = A + B."""

    @T.prim_func
    def add(A: T.Tensor((n, n), FLOAT), B: T.Tensor((n, n), FLOAT), C: T.Tensor((n, n), FLOAT)):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(n, 32), threads=128) as (bx, by):
            As = T.alloc_shared((32, 128), FLOAT)
            Bs = T.alloc_shared((32, 128), FLOAT)
            Cl = T.alloc_fragment((32, 128), FLOAT)
            T.copy(A[by * 32, bx * 128], As)
            T.copy(B[by * 32, bx * 128], Bs)
            for i, j in T.Parallel(32, 128):
                Cl[i, j] = As[i, j] + Bs[i, j]
            T.copy(Cl, C[by * 32, bx * 128])

    return add


def doubled(n: int = 4096) -> Any:
    """A *= 2, in place, straight from global memory."""

    @T.prim_func
    def double(A: T.Tensor((n,), FLOAT)):
        with T.Kernel(T.ceildiv(n, 256), threads=256) as bx:
            for i in T.Parallel(256):
                A[bx * 256 + i] = A[bx * 256 + i] * 2.0

    return double


def softmax(m: int = 1024, n: int = 1024) -> Any:
    """Softmax of each row."""

    @T.prim_func
    def soft(A: T.Tensor((m, n), FLOAT), B: T.Tensor((m, n), FLOAT)):
        with T.Kernel(m // 4, threads=128) as bx:
            x = T.alloc_fragment((4, n), FLOAT)
            top = T.alloc_fragment((4,), FLOAT)
            total = T.alloc_fragment((4,), FLOAT)
            T.copy(A[bx * 4, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(4, n):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(4, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, B[bx * 4, 0])

    return soft


def layernorm(m: int = 1024, n: int = 2048) -> Any:
    """(x - mean) / std of each row, and both of them."""

    @T.prim_func
    def norm(
        X: T.Tensor((m, n), FLOAT), Y: T.Tensor((m, n), FLOAT), Mean: T.Tensor((m,), FLOAT), Rstd: T.Tensor((m,), FLOAT)
    ):
        with T.Kernel(m, threads=256) as bx:
            x = T.alloc_fragment((1, n), FLOAT)
            square = T.alloc_fragment((1, n), FLOAT)
            mean = T.alloc_fragment((1,), FLOAT)
            var = T.alloc_fragment((1,), FLOAT)
            T.copy(X[bx, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(1, n):
                x[i, j] = x[i, j] - mean[i] / n
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, var, dim=1)
            for i, j in T.Parallel(1, n):
                x[i, j] = x[i, j] * T.rsqrt(var[i] / n + 1e-5)
            T.copy(x, Y[bx, 0])
            for i in T.Parallel(1):
                Mean[bx + i] = mean[i] / n
                Rstd[bx + i] = T.rsqrt(var[i] / n + 1e-5)

    return norm


def attention(
    batch: int = 1, heads: int = 8, length: int = 1024, dim: int = 64, block_m: int = 128, block_n: int = 64,
    threads: int = 128, stages: int = 2,
) -> Any:  # fmt: skip
    """softmax(Q·Kᵀ)·V, row blocks of Q against all of K and V."""
    shape = (batch, length, heads, dim)
    scale = (1.0 / dim) ** 0.5 * 1.44269504

    @T.prim_func
    def attend(Q: T.Tensor(shape, HALF), K: T.Tensor(shape, HALF), V: T.Tensor(shape, HALF), O: T.Tensor(shape, HALF)):  # noqa: E741
        with T.Kernel(T.ceildiv(length, block_m), heads, batch, threads=threads) as (bx, by, bz):
            Qs = T.alloc_shared((block_m, dim), HALF)
            Ks = T.alloc_shared((block_n, dim), HALF)
            Vs = T.alloc_shared((block_n, dim), HALF)
            Os = T.alloc_shared((block_m, dim), HALF)
            S = T.alloc_fragment((block_m, block_n), FLOAT)
            P = T.alloc_fragment((block_m, block_n), HALF)
            Ol = T.alloc_fragment((block_m, dim), FLOAT)
            top = T.alloc_fragment((block_m,), FLOAT)
            before = T.alloc_fragment((block_m,), FLOAT)
            rescale = T.alloc_fragment((block_m,), FLOAT)
            total = T.alloc_fragment((block_m,), FLOAT)
            part = T.alloc_fragment((block_m,), FLOAT)
            T.copy(Q[bz, bx * block_m : (bx + 1) * block_m, by, :], Qs)
            T.fill(Ol, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity(FLOAT))
            for k in T.Pipelined(T.ceildiv(length, block_n), num_stages=stages):
                T.copy(K[bz, k * block_n : (k + 1) * block_n, by, :], Ks)
                T.clear(S)
                T.gemm(Qs, Ks, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(S, top, dim=1, clear=False)
                for i in T.Parallel(block_m):
                    rescale[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(block_m, block_n):
                    S[i, j] = T.exp2(S[i, j] * scale - top[i] * scale)
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(block_m):
                    total[i] = total[i] * rescale[i] + part[i]
                T.copy(S, P)
                for i, j in T.Parallel(block_m, dim):
                    Ol[i, j] *= rescale[i]
                T.copy(V[bz, k * block_n : (k + 1) * block_n, by, :], Vs)
                T.gemm(P, Vs, Ol, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_m, dim):
                Ol[i, j] /= total[i]
            T.copy(Ol, Os)
            T.copy(Os, O[bz, bx * block_m : (bx + 1) * block_m, by, :])

    return attend


def clustered() -> Any:
    """A copy by clusters of two CTAs, whose numbers a swizzle changes."""

    @T.prim_func
    def copy(A: T.Tensor((8, 64), FLOAT), B: T.Tensor((8, 64), FLOAT)):
        with T.Kernel(8, 2, threads=64, cluster_dims=2) as (bx, by):
            T.use_swizzle(4)
            T.cluster_sync()
            for i in T.Parallel(32):
                B[bx, by * 32 + i] = A[bx, by * 32 + i]

    return copy


def two_steps(n: int = 1024) -> Any:
    """B = 2·A, then C = B + 1, by a kernel each."""

    @T.prim_func
    def steps(A: T.Tensor((n,), FLOAT), B: T.Tensor((n,), FLOAT), C: T.Tensor((n,), FLOAT)):
        with T.Kernel(n // 128, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * 2.0
        with T.Kernel(n // 512, 2, threads=256) as (bx, by):
            Bs = T.alloc_shared((256,), FLOAT)
            T.copy(B[bx * 512 + by * 256], Bs)
            for i in T.Parallel(256):
                C[bx * 512 + by * 256 + i] = Bs[i] + 1.0

    return steps


def by_hand(m: int = 4096, n: int = 4096, k: int = 4096, consumers: int = 2) -> Any:
    """The project's own GEMM, specialized by hand, without its markers."""
    from tileops.kernels.gemm.dense import build_gemm

    config = {
        "block_m": 128,
        "block_n": 256 if consumers == 2 else 128,
        "stages": 4,
        "consumers": consumers,
        "panel": 8,
    }
    return build_gemm(m, n, k, traced=False).get_tir(**config)


KERNELS: dict[str, Callable[[], Any]] = {
    "gemm": gemm,
    "gemm_two_warpgroups": partial(gemm, threads=256),
    "gemm_nt": partial(gemm, trans_b=True),
    "gemm_tn": partial(gemm, trans_a=True, threads=256),
    "gemm_swizzled": partial(gemm, swizzle=10, staged=True, threads=256),
    "gemm_one_stage": partial(gemm, stages=0),
    "gemm_dynamic": gemm_dynamic,
    "gemm_split_k": gemm_split_k,
    "gemm_persistent": gemm_persistent,
    "gemm_by_hand": by_hand,
    "elementwise": elementwise,
    "doubled": doubled,
    "softmax": softmax,
    "layernorm": layernorm,
    "attention": attention,
    "attention_two_warpgroups": partial(attention, threads=256, dim=128),
    "clustered": clustered,
}
# Sources of several kernels.
SEVERAL: dict[str, Callable[[], Any]] = {"two_steps": two_steps}
# Those that are worth keeping for other targets than Hopper.
ELSEWHERE = ("gemm", "gemm_persistent", "gemm_dynamic", "softmax", "attention")


def gemm_through_shared(loads: int = 1, m: int = 256, n: int = 256, k: int = 512) -> Any:
    """A GEMM whose operand the threads write to shared memory: a barrier stands ahead of its WGMMAs.

    ``loads`` tiles come from global memory in each iteration, up to two.
    """

    @T.prim_func
    def through_shared(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(n // 128, m // 64, threads=128) as (bx, by):
            Bs = T.alloc_shared((64, 128), "float16")
            Written = T.alloc_shared((64, 64), "float16")
            held = T.alloc_fragment((64, 64), "float16")
            Cl = T.alloc_fragment((64, 128), "float32")
            T.clear(Cl)
            T.clear(held)
            T.copy(B[0, bx * 128], Bs)
            for ko in T.serial(k // 64):
                if loads > 0:
                    T.copy(B[ko * 64, bx * 128], Bs)
                if loads > 1:
                    T.copy(A[by * 64, ko * 64], held)
                T.copy(held, Written)
                T.gemm(Written, Bs, Cl)
            T.copy(Cl, C[by * 64, bx * 128])

    return through_shared
