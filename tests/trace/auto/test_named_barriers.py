"""Which kernels are refused because groups of their threads can take each other's places at a named barrier."""

from __future__ import annotations

from typing import Any

import pytest
import tilelang.language as T

from tileops.trace.auto.named_barriers import mistaken
from tileops.trace.auto.rewrite import instrument
from tileops.trace.auto.syntax import UnreadableError, parse

from .test_twin import lowered

FIRST, SECOND, LAST = "((int)threadIdx.x) < 128", "((int)threadIdx.x) < 256", "256 <= ((int)threadIdx.x)"
REDUCTION = "x = tl::AllReduce<tl::MaxOp, {}, 1, 0, tl::NamedBarrier<128>>::run(x);"


def kernel(text: str) -> Any:
    """A kernel of 384 threads."""
    head = 'extern "C" __global__ void __launch_bounds__(384, 1) some_kernel(float* __restrict__ a)'
    return parse(f"{head} {{\n  float x = 0;\n{text}\n}}\n")


def sync(barrier: int, threads: int) -> str:
    return f"tl::__sync_thread_partial({barrier}, {threads});"


def by(condition: str, text: str) -> str:
    return f"if ({condition}) {{\n{text}\n}}\n"


def loop(text: str) -> str:
    return f"for (int i = 0; i < 4; ++i) {{\n{text}\n}}\n"


@pytest.mark.parametrize(
    "text",
    [
        by(FIRST, sync(3, 128)) + by(LAST, sync(3, 128)),
        by(FIRST, sync(3, 128)) + "else {\n" + by(SECOND, "a[0] = x;") + "else {\n" + sync(3, 128) + "\n}\n}\n",
        by(FIRST, loop(sync(3, 128))) + by(LAST, "{\n" + sync(3, 128) + "\n}"),
        by(FIRST, REDUCTION.format(128)) + by(LAST, REDUCTION.format(64)),
        by(FIRST, REDUCTION.format(128)) + by(LAST, sync(1, 128)),
        # A barrier of the whole block in a loop does not part what is on its two sides.
        loop(by(FIRST, sync(3, 128)) + "__syncthreads();\n" + by(LAST, sync(3, 128))),
    ],
)
def test_groups_that_can_let_each_other_pass_are_found(text: str) -> None:
    reason = mistaken(kernel(text))
    assert reason.startswith("its threads 0-127 and 256-383 wait at the same named barrier, number ")


@pytest.mark.parametrize(
    "text",
    [
        sync(3, 384),
        by(FIRST, sync(3, 128)) + by(LAST, sync(4, 128)),
        by(FIRST, sync(3, 256)) + by(LAST, sync(3, 256)),  # they meet
        by(FIRST, sync(3, 128) + "\n" + sync(3, 128)),
        by(FIRST, sync(3, 128)) + "__syncthreads();\n" + by(LAST, sync(3, 128)),
        by(FIRST, REDUCTION.format(32)) + by(LAST, REDUCTION.format(4)),  # within a warp
        by("x < 1", sync(3, 384)) + by("1 <= x", sync(3, 384)),
        by(FIRST, sync(3, 128)) + sync(0, 384) + "\n" + by(LAST, sync(3, 128)),
        by(FIRST, sync(3, 128)) + "{\ntl::cluster_sync();\n}\n" + by(LAST, sync(3, 128)),
        by(FIRST, REDUCTION.replace("{}, 1", "64, 64")) + by(LAST, REDUCTION.replace("{}, 1", "64, 64")),
        # Who waits cannot be told.
        by("((int)threadIdx.x) % 2 == 0", sync(3, 128)) + by(LAST, sync(3, 128)),
        by(SECOND, by("(((int)threadIdx.x) >> 7) == 0", sync(5, 256))) + by(LAST, sync(5, 256)),
        by(FIRST, by("tl::get_warp_idx() == 0", sync(5, 64))) + by(LAST, by("tl::get_warp_idx() == 8", sync(5, 64))),
        by(FIRST, sync(3, 64)) + by("128 <= ((int)threadIdx.x)", by("x < 1 || ((int)threadIdx.x) < 160", sync(3, 64))),
        by(LAST, "return;") + by(FIRST, sync(3, 256)) + by("128 <= ((int)threadIdx.x)", sync(3, 256)),
    ],
)
def test_others_are_not(text: str) -> None:
    assert mistaken(kernel(text)) == ""


def test_without_launch_bounds_it_cannot_be_told() -> None:
    text = by(FIRST, sync(3, 256)) + by("128 <= ((int)threadIdx.x)", sync(3, 256))
    assert (
        mistaken(parse(f'extern "C" __global__ void some_kernel(float* __restrict__ a) {{\n  float x = 0;\n{text}}}\n'))
        == ""
    )


def shares_both_kinds_of_memory(scope: str) -> Any:
    """The first group shares dynamic shared memory, the last one that of ``scope``."""

    @T.prim_func
    def three(a: T.Tensor((256,), "float32"), b: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=384):
            first = T.alloc_shared((128,), "float32")
            last = T.alloc_shared((128,), "float32", scope=scope)
            thread = T.get_thread_binding()
            if thread < 128:
                first[thread] = a[thread]
                b[thread] = first[127 - thread]
            elif thread < 256:
                T.set_max_nreg(168, 1)
            else:
                last[thread - 256] = a[thread - 128]
                b[thread - 128] = last[383 - thread]

    return three


def test_tilelang_gives_one_number_twice_for_two_kinds_of_memory() -> None:
    """Once it no longer does, what refuses such kernels can go."""
    with pytest.raises(
        UnreadableError, match="its threads 0-127 and 256-383 wait at the same named barrier, number 3,"
    ):
        instrument(lowered(shares_both_kinds_of_memory("shared")), "slots")
    assert instrument(lowered(shares_both_kinds_of_memory("shared.dyn")), "slots").table.ranges
