"""Dense GEMM for Hopper: C = A·B with TMA loads, WGMMA and warp specialization, annotated for tracing.

A block is one producer warpgroup and one or two consumer warpgroups around a ring of ``stages`` shared-memory tiles.
Each stage has a full barrier (the producer's arrival plus the bytes that TMA delivers) and an empty barrier (the
consumers' warps). Consumers split the tile along M and share the tile of B.

WGMMA is asynchronous. A consumer therefore keeps one group of it in flight: it issues stage k, waits until at most
one group is left, which says that the group of stage k-1 has read its operands, and only then gives stage k-1 back.
"""

import functools
from typing import Any

import tilelang
import tilelang.language as T

from tileops.trace import trace

WARPGROUP = 128
WARP = 32
# Bytes of shared memory that a block may use on Hopper (227 KiB), less 1 KiB for barriers and alignment.
SHARED_BYTES = 226 * 1024
ELEMENT_BYTES = 2
# TMA takes row strides that are multiples of 16 bytes.
ALIGNED_ELEMENTS = 16 // ELEMENT_BYTES
DTYPES = ("float16", "bfloat16")
# Streaming multiprocessors of an H100 or H200 in the SXM form.
MULTIPROCESSORS = 132

# The stages are written by TMA while other warpgroups read: TileLang's reuse of shared memory by lifetime must not put
# the staging buffer of C on top of them.
PASS_CONFIGS = {tilelang.PassConfigKey.TL_DISABLE_SHARED_MEMORY_REUSE: True}


def is_aligned(m: int, n: int, k: int, trans_a: bool = False, trans_b: bool = True) -> bool:
    """Whether TMA can load both operands: their rows must start at multiples of 16 bytes."""
    return (m if trans_a else k) % ALIGNED_ELEMENTS == 0 and (k if trans_b else n) % ALIGNED_ELEMENTS == 0


def default_config(m: int, n: int, k: int) -> dict[str, int]:
    """The arguments of :func:`build_gemm`'s factory that suit a problem: the largest tile that still fills the GPU.

    The order and the thresholds come from ``benchmarks/gemm.py --tune`` on an H200.
    """
    large = {"block_m": 128, "block_n": 256, "block_k": 64, "stages": 4, "consumers": 2, "panel": 16}
    medium = {"block_m": 128, "block_n": 128, "block_k": 64, "stages": 6, "consumers": 2, "panel": 8}
    # Half the blocks of `small` and twice the work between two barriers: 43 against 49 us at 16x8192x8192.
    flat = {"block_m": 64, "block_n": 128, "block_k": 128, "stages": 4, "consumers": 1, "panel": 0}
    # Reading the operands bounds these: many blocks with much in flight matter more than a wide tile.
    small = {"block_m": 64, "block_n": 64, "block_k": 128, "stages": 6, "consumers": 1, "panel": 8}
    for config, least in ((large, MULTIPROCESSORS * 3 // 4), (medium, MULTIPROCESSORS), (flat, MULTIPROCESSORS // 3)):
        if -(-m // config["block_m"]) * -(-n // config["block_n"]) >= least:
            return config
    return small


@functools.lru_cache(maxsize=64)
def build_gemm(
    m: int, n: int, k: int, dtype: str = "float16", trans_a: bool = False, trans_b: bool = True, traced: bool = False
) -> Any:
    """Builds the GEMM for one problem.

    The kernel takes ``a`` of shape (m, k), or (k, m) with ``trans_a``, and ``b`` of shape (k, n), or (n, k) with
    ``trans_b``, and returns ``c`` of shape (m, n). All are row-major and of type ``dtype``; sums are kept in float32.

    Args:
        m: rows of C, at least 1.
        n: columns of C, at least 1.
        k: length of the sums, at least 1.
        dtype: ``"float16"`` or ``"bfloat16"``.
        trans_a: whether ``a`` comes transposed.
        trans_b: whether ``b`` comes transposed.
        traced: whether to build the recording variant; it is part of the cache's key.

    Returns:
        A ``tilelang.jit`` factory. Its arguments, see :func:`default_config`: ``block_m``, ``block_n``, ``block_k``
        (a block's tile, in elements), ``stages``, ``consumers`` (1 or 2 warpgroups), ``panel`` (rows of tiles that
        are walked together for the sake of L2; 0 walks row by row) and ``store_columns`` (how many columns of C leave
        through shared memory at a time; 0 stores from registers, ``None`` takes what fits).

    Raises:
        ValueError: if the problem is empty, the type is another one, or a row stride is no multiple of 16 bytes.
    """
    _check_problem(m, n, k, dtype)
    if not is_aligned(m, n, k, trans_a, trans_b):
        raise ValueError(
            f"TMA needs rows that start at multiples of 16 bytes: with m={m}, n={n}, k={k}, trans_a={trans_a}, "
            f"trans_b={trans_b} the rows of a have {m if trans_a else k} elements and those of b "
            f"{k if trans_b else n}; pad both to multiples of {ALIGNED_ELEMENTS}, or use build_gemm_unaligned"
        )
    a_shape, b_shape = _operand_shapes(m, n, k, trans_a, trans_b)

    @tilelang.jit(out_idx=trace.out_idx(1, traced), pass_configs=PASS_CONFIGS)
    def factory(
        block_m: int = 128,
        block_n: int = 128,
        block_k: int = 64,
        stages: int = 4,
        consumers: int = 1,
        panel: int = 8,
        store_columns: int | None = None,
    ):
        columns = checked_store_columns(n, block_m, block_n, block_k, stages, consumers, store_columns)
        a_tile, b_tile = _operand_shapes(block_m, block_n, block_k, trans_a, trans_b)
        rows = block_m // consumers  # of a consumer
        threads = WARPGROUP * (1 + consumers)
        k_tiles = -(-k // block_k)
        # Whole turns around the ring, and what is left of one, stage by stage in the code. With the stage and the phase
        # computed from ki, a consumer of small tiles took longer to issue its WGMMAs than they take.
        turns, rest = divmod(k_tiles, stages)
        # Groups of WGMMA that a consumer keeps in flight. With one stage there is nothing to go on with.
        lag = 1 if stages > 1 else 0

        @T.macro
        def load(a, b, a_smem, b_smem, full, empty, bx, by, ki, stage, parity):
            with trace.range("acquire", lane="barrier"):
                T.barrier_wait(empty[stage], parity)
            with trace.range("tma", lane="tma"):
                T.tma_copy(_tile(a, by, ki, a_tile, trans_a), a_smem[stage, :, :], barrier=full[stage])
                T.tma_copy(_tile(b, bx, ki, b_tile, not trans_b), b_smem[stage, :, :], barrier=full[stage])
                # The lane that tma_copy elected as well (the election is deterministic), so that the bytes are
                # announced before the phase can complete.
                if T.shuffle_elect(WARP):
                    T.barrier_arrive(full[stage])
            # TileLang makes one instruction of the arrival and the announcement of b's bytes, as long as no marker
            # stands between the two: a range around an arrival of its own took 69 cycles. So the arrival is a point in
            # time here, the one by which it has been issued.
            with trace.range("arrive", lane="barrier"):
                pass

        @T.macro
        def produce(a, b, a_smem, b_smem, full, empty, bx, by):
            with trace.group("producer", lead=0):
                # A fresh barrier counts as having just completed the phase of parity 1: the first pass through the ring
                # does not wait.
                if turns:
                    for turn in T.serial(turns):
                        for stage in T.unroll(stages):
                            load(a, b, a_smem, b_smem, full, empty, bx, by, turn * stages + stage, stage, turn % 2 ^ 1)
                if rest:
                    for stage in T.unroll(rest):
                        load(a, b, a_smem, b_smem, full, empty, bx, by, turns * stages + stage, stage, turns % 2 ^ 1)

        def consumer(index):
            first_row = index * rows
            lead = WARPGROUP * (1 + index)
            name = "consumer" if consumers == 1 else f"consumer{index}"

            def own_rows(a_smem, stage):
                own = slice(first_row, first_row + rows)
                return a_smem[stage, :, own] if trans_a else a_smem[stage, own, :]

            @T.macro
            def multiply(a_smem, b_smem, acc, full, empty, tx, ki, stage, parity):
                with trace.range("wait", lane="barrier"):
                    T.barrier_wait(full[stage], parity)
                with trace.range("mma", lane="wgmma"):
                    T.wgmma_gemm(
                        own_rows(a_smem, stage), b_smem[stage, :, :], acc, transpose_A=trans_a, transpose_B=trans_b
                    )
                    T.wait_wgmma(lag)
                    # This warp's part of the group of stage k-lag is done; one arrival a warp.
                    if ki >= lag and tx % WARP == 0:
                        T.barrier_arrive(empty[(stage + stages - lag) % stages])

            @T.macro
            def consume(a_smem, b_smem, c, c_smem, full, empty, bx, by, tx):
                with trace.group(name, lead=lead):
                    acc = T.alloc_fragment((rows, block_n), "float")
                    T.clear(acc)
                    if turns:
                        for turn in T.serial(turns):
                            for stage in T.unroll(stages):
                                multiply(a_smem, b_smem, acc, full, empty, tx, turn * stages + stage, stage, turn % 2)
                    if rest:
                        for stage in T.unroll(rest):
                            multiply(a_smem, b_smem, acc, full, empty, tx, turns * stages + stage, stage, turns % 2)
                    with trace.range("drain", lane="wgmma"):
                        T.wait_wgmma(0)
                        # Keeps the compiler from reading the sums ahead of the wait.
                        T.warpgroup_fence_operand(acc, num_regs=rows * block_n // WARPGROUP)
                    with trace.range("epilogue"):
                        if columns:
                            for part in T.unroll(block_n // columns):
                                T.copy(acc[:, part * columns : (part + 1) * columns], c_smem[index, :, :])
                                # Every writing thread, before the barrier that TileLang puts ahead of the store.
                                T.fence_proxy_async()
                                T.tma_copy(
                                    c_smem[index, :, :],
                                    c[
                                        by * block_m + first_row : by * block_m + first_row + rows,
                                        bx * block_n + part * columns : bx * block_n + (part + 1) * columns,
                                    ],
                                )
                                T.tma_store_wait(0)
                        else:
                            T.copy(acc, c[by * block_m + first_row, bx * block_n])

            return consume

        consume0, consume1 = consumer(0), consumer(1)

        @T.prim_func
        def gemm(a: T.Tensor(a_shape, dtype), b: T.Tensor(b_shape, dtype), c: T.Tensor((m, n), dtype)):
            with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads) as (bx, by):
                a_smem = T.alloc_shared((stages, *a_tile), dtype)
                b_smem = T.alloc_shared((stages, *b_tile), dtype)
                c_smem = T.alloc_shared((consumers, rows, columns), dtype) if columns else None
                full = T.alloc_barrier([1] * stages)
                empty = T.alloc_barrier([consumers * WARPGROUP // WARP] * stages)
                tx = T.get_thread_binding()
                T.use_swizzle(panel, enable=panel > 0)

                if tx < WARPGROUP:
                    if consumers == 2:
                        T.dec_max_nreg(40)
                    if tx < WARP:
                        produce(a, b, a_smem, b_smem, full, empty, bx, by)
                else:
                    if consumers == 1:
                        consume0(a_smem, b_smem, c, c_smem, full, empty, bx, by, tx)
                    else:
                        # 128 · 40 + 256 · 232 of the 65,536 registers.
                        T.inc_max_nreg(232)
                        if tx < 2 * WARPGROUP:
                            consume0(a_smem, b_smem, c, c_smem, full, empty, bx, by, tx)
                        else:
                            consume1(a_smem, b_smem, c, c_smem, full, empty, bx, by, tx)

                trace.dag("arrive", "wait")

        # Three ranges a tile of K in the producer; two in a consumer, and two after the loop.
        return trace.finalize(gemm, traced=traced, max_events=6 * k_tiles + 4)

    return factory


@functools.lru_cache(maxsize=64)
def build_gemm_unaligned(
    m: int, n: int, k: int, dtype: str = "float16", trans_a: bool = False, trans_b: bool = True, traced: bool = False
) -> Any:
    """Builds a GEMM for rows of any length: plain loads, one stage, no specialization.

    For problems that :func:`build_gemm` refuses. It reads element by element where it has to, and is many times
    slower: padding the operands pays wherever they are used more than once.

    Args, results and errors: as of :func:`build_gemm`. The factory takes ``block_m``, ``block_n`` and ``block_k``.
    """
    _check_problem(m, n, k, dtype)
    a_shape, b_shape = _operand_shapes(m, n, k, trans_a, trans_b)

    @tilelang.jit(out_idx=trace.out_idx(1, traced))
    def factory(block_m: int = 128, block_n: int = 128, block_k: int = 64):
        a_tile, b_tile = _operand_shapes(block_m, block_n, block_k, trans_a, trans_b)
        k_tiles = -(-k // block_k)

        @T.prim_func
        def gemm(a: T.Tensor(a_shape, dtype), b: T.Tensor(b_shape, dtype), c: T.Tensor((m, n), dtype)):
            with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=2 * WARPGROUP) as (bx, by):
                a_smem = T.alloc_shared(a_tile, dtype)
                b_smem = T.alloc_shared(b_tile, dtype)
                acc = T.alloc_fragment((block_m, block_n), "float")
                with trace.group("block", lead=0):
                    T.clear(acc)
                    for ki in T.serial(k_tiles):
                        with trace.range("copy", lane="copy"):
                            T.copy(_tile(a, by, ki, a_tile, trans_a), a_smem, disable_tma=True)
                            T.copy(_tile(b, bx, ki, b_tile, not trans_b), b_smem, disable_tma=True)
                            T.fence_proxy_async()
                        with trace.range("mma", lane="wgmma"):
                            T.gemm(a_smem, b_smem, acc, transpose_A=trans_a, transpose_B=trans_b)
                    with trace.range("epilogue"):
                        T.copy(acc, c[by * block_m, bx * block_n])

        return trace.finalize(gemm, traced=traced, max_events=4 * k_tiles + 2)

    return factory


def _operand_shapes(m: int, n: int, k: int, trans_a: bool, trans_b: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    return ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))


def _tile(matrix: Any, outer: Any, inner: Any, shape: tuple[int, int], swapped: bool) -> Any:
    """The region of a tile: ``outer`` counts tiles along M or N, ``inner`` along K; ``swapped`` if K comes first."""
    row, column = (inner, outer) if swapped else (outer, inner)
    first, second = row * shape[0], column * shape[1]
    return matrix[first : first + shape[0], second : second + shape[1]]


def _check_problem(m: int, n: int, k: int, dtype: str) -> None:
    if min(m, n, k) < 1:
        raise ValueError(f"m, n and k must be at least 1, got m={m}, n={n}, k={k}")
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")


def checked_store_columns(
    n: int, block_m: int, block_n: int, block_k: int, stages: int, consumers: int, wanted: int | None
) -> int:
    """How many columns of C are staged in shared memory at a time, 0 for none, once the configuration is valid.

    Raises:
        ValueError: if the configuration cannot be built; the message says why.
    """
    if consumers not in (1, 2):
        raise ValueError(f"consumers must be 1 or 2, got {consumers}")
    if block_m < 1 or block_m % (64 * consumers) or block_m > 256:
        raise ValueError(f"block_m must be a multiple of {64 * consumers} (64 a consumer) up to 256, got {block_m}")
    if block_n < 1 or block_n % 16 or block_n > 256:
        raise ValueError(f"block_n must be a multiple of 16 up to 256, got {block_n}")
    if block_k not in (32, 64, 128):
        raise ValueError(f"block_k must be 32, 64 or 128, got {block_k}")
    if stages < 1:
        raise ValueError(f"stages must be at least 1, and 2 for loads to overlap with the multiplication; got {stages}")
    registers = block_m // consumers * block_n // WARPGROUP
    if registers > 192:
        raise ValueError(
            f"a {block_m}x{block_n} tile over {consumers} consumer(s) needs {registers} registers a thread for the "
            "sums; 192 leave room for the rest: use a smaller tile or more consumers"
        )
    left = SHARED_BYTES - stages * (block_m + block_n) * block_k * ELEMENT_BYTES
    if left < 0:
        raise ValueError(f"{stages} stages of this tile exceed shared memory by {-left} bytes: use fewer stages")
    if n % ALIGNED_ELEMENTS:
        return 0  # C's rows are not aligned for TMA.
    if wanted is None:
        fits = [part for part in (1, 2, 4) if block_n % (16 * part) == 0]
        columns = next((c for c in (block_n // part for part in fits) if block_m * c * ELEMENT_BYTES <= left), 0)
        return columns
    if wanted and (block_n % wanted or wanted % 16 or block_m * wanted * ELEMENT_BYTES > left):
        raise ValueError(
            f"store_columns must divide block_n={block_n}, be a multiple of 16 and fit into the {left} bytes of "
            f"shared memory that the stages leave; got {wanted}"
        )
    return wanted
