"""The loop of ``markers.py`` in Triton, with Proton's scopes for markers. Needs Triton 3.6 or newer."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
import triton.profiler as proton
import triton.profiler.language as pl

ITERATIONS = 256


@triton.jit
def clock():
    return tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def gap(x):
    return tl.inline_asm_elementwise("fma.rn.f32 $0, $1, $1, $1;", "=f,f", [x], dtype=tl.float32, is_pure=False, pack=1)


@triton.jit
def loop(cycles, out, iterations, PAIRS: tl.constexpr, MARKED: tl.constexpr):
    x = tl.full((), 0.0, tl.float32) + iterations
    begin = clock()
    for _ in range(iterations):
        for _pair in tl.static_range(PAIRS):
            if MARKED:
                pl.enter_scope("pair")
            x = gap(x)
            if MARKED:
                pl.exit_scope("pair")
            x = gap(x)
    end = clock()
    tl.store(cycles, end - begin)
    tl.store(out, x)


def cycles_a_record(pairs: int, buffer: str, launches: int) -> np.ndarray:
    """Cycles that one of Proton's records costs, net of the loop, for each launch."""
    pl.enable_semantic("triton")
    cycles = torch.zeros(1, dtype=torch.int64, device="cuda")
    out = torch.zeros(1, device="cuda")

    def run(marked: bool) -> int:
        loop[(1,)](cycles, out, ITERATIONS, PAIRS=pairs, MARKED=marked, num_warps=1)
        return int(cycles.item())

    plain = [run(False) for _ in range(launches + 3)][3:]
    mode: Any = proton.mode.Default(buffer_type=buffer, buffer_size=8192)
    with tempfile.TemporaryDirectory() as folder:
        proton.start(f"{folder}/proton", data="trace", backend="instrumentation", mode=mode)
        marked = [run(True) for _ in range(launches + 3)][3:]
        proton.finalize()
    return (np.array(marked) - np.median(plain)) / (ITERATIONS * 2 * pairs)
