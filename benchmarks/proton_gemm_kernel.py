"""The GEMM of ``proton_gemm.py`` in Gluon, with Proton's scopes for markers. Needs Triton 3.6 or newer.

C = A·Bᵀ with A of shape (m, k) and B of shape (n, k): a ring of shared-memory stages that TMA fills, WGMMA with one
group in flight. All warps do both, loads are issued by one thread of theirs.
"""

from __future__ import annotations

import triton.profiler.language as pl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma


@gluon.jit
def load(a_desc, b_desc, a_smem, b_smem, full, row, column, tile, tiles, STAGES: gl.constexpr):
    """Asks for the tiles of A and B at position ``tile`` along K, unless that is past the end."""
    BLOCK_K: gl.constexpr = a_desc.block_type.shape[1]
    BYTES: gl.constexpr = a_desc.block_type.nbytes + b_desc.block_type.nbytes
    stage = tile % STAGES
    at = tile * BLOCK_K
    there = tile < tiles
    arrived = full.index(stage)
    mbarrier.expect(arrived, BYTES, pred=there)
    tma.async_copy_global_to_shared(a_desc, [row, at], arrived, a_smem.index(stage), pred=there)
    tma.async_copy_global_to_shared(b_desc, [column, at], arrived, b_smem.index(stage), pred=there)


@gluon.jit
def gemm(a_desc, b_desc, c_desc, rows, columns, tiles, STAGES: gl.constexpr, PANEL: gl.constexpr, WARPS: gl.constexpr):
    """One block's tile of C; ``rows`` and ``columns`` count the blocks, ``tiles`` those along K."""
    BLOCK_M: gl.constexpr = c_desc.block_type.shape[0]
    BLOCK_N: gl.constexpr = c_desc.block_type.shape[1]

    # PANEL rows of blocks are walked together, for the sake of L2.
    block = gl.program_id(0)
    panel = block // (PANEL * columns)
    height = gl.minimum(rows - panel * PANEL, PANEL)
    row = (panel * PANEL + block % (PANEL * columns) % height) * BLOCK_M
    column = block % (PANEL * columns) // height * BLOCK_N

    # Gluon has no starred lists.
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)  # noqa: RUF005
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for first in gl.static_range(STAGES):
        mbarrier.init(full.index(first), count=1)
    for ahead in gl.static_range(STAGES - 1):
        load(a_desc, b_desc, a_smem, b_smem, full, row, column, ahead, tiles, STAGES)

    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, BLOCK_N, 16])
    acc = hopper.warpgroup_mma_init(gl.zeros((BLOCK_M, BLOCK_N), gl.float32, layout))
    for tile in range(tiles):
        stage = tile % STAGES
        pl.enter_scope("dot")
        mbarrier.wait(full.index(stage), tile // STAGES & 1)
        acc = hopper.warpgroup_mma(a_smem.index(stage), b_smem.index(stage).permute((1, 0)), acc, is_async=True)
        # The group of the tile before has read its operands; after the barrier, every warp's has.
        acc = hopper.warpgroup_mma_init(hopper.warpgroup_mma_wait(1, deps=(acc,)))
        pl.exit_scope("dot")
        gl.thread_barrier()
        pl.enter_scope("load")
        load(a_desc, b_desc, a_smem, b_smem, full, row, column, tile + STAGES - 1, tiles, STAGES)
        pl.exit_scope("load")
    acc = hopper.warpgroup_mma_wait(0, deps=(acc,))

    gl.thread_barrier()
    c_smem = gl.allocate_shared_memory(c_desc.dtype, [BLOCK_M, BLOCK_N], c_desc.layout)
    c_smem.store(acc.to(c_desc.dtype))
    hopper.fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [row, column], c_smem)
    tma.store_wait(0)
