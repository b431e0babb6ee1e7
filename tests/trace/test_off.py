"""Off means off: what TileLang generates from a stripped kernel is what it generates without a marker in the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import tilelang.language as T
from hypothesis import strategies as st

from tileops.trace import trace

from . import marked
from .building import AMPERE, CPU, HOPPER, body, no_trace, source, traced_source, without_tracing

CASES = [
    *((make, HOPPER) for make in marked.ON_CUDA),
    *((make, AMPERE) for make in (marked.pipelined, marked.guarded, marked.scheduled)),
    *((make, CPU) for make in marked.ON_CPU),
]


@pytest.fixture(scope="module")
def unmarked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return marked.unmarked(tmp_path_factory.mktemp("unmarked"))


@pytest.mark.parametrize(("make", "arch"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_stripped_kernel_is_the_kernel_without_markers(make: Callable[[Any], Any], arch: str, unmarked: Any) -> None:
    func = make(trace)
    assert "tileops" in str(func)
    plain = getattr(unmarked, make.__name__)(trace)
    assert "tileops" not in str(plain)
    assert source(trace.strip(func), arch) == source(plain, arch)


def test_a_stand_in_for_trace_gives_the_kernel_without_markers_too(unmarked: Any) -> None:
    for make in (marked.branches, marked.serial_loops):
        assert source(make(no_trace)) == source(getattr(unmarked, make.__name__)(trace))


def test_an_arm_or_a_loop_of_nothing_but_markers_is_gone_where_tilelang_would_count_it() -> None:
    # On Ampere a statement more behind the last use of a tile gives the software pipeline another depth.
    def make(extra: bool) -> Any:
        @T.prim_func
        def kernel(a: T.Tensor((256, 256), "float16"), c: T.Tensor((256, 256), "float16")):
            with T.Kernel(4, 4, threads=128) as (bx, by):
                a_tile = T.alloc_shared((64, 32), "float16")
                b_tile = T.alloc_shared((32, 64), "float16")
                acc = T.alloc_fragment((64, 64), "float")
                T.clear(acc)
                for ki in T.Pipelined(8, num_stages=3):
                    T.copy(a[by * 64, ki * 32], a_tile)
                    T.copy(a[ki * 32, bx * 64], b_tile)
                    T.gemm(a_tile, b_tile, acc)
                    if extra:
                        if ki == 0:
                            trace.record("x")
                        else:
                            trace.record("y")
                        for i in T.serial(3):
                            with trace.range("z"):
                                trace.record("w", payload=i)
                T.copy(acc, c[by * 64, bx * 64])

        return kernel

    assert source(trace.strip(make(True)), AMPERE) == source(make(False), AMPERE)


BASE = """
import tilelang.language as T

def make(trace):
    @T.prim_func
    def kernel(a: T.Tensor((256, 128), "float16"), b: T.Tensor((128, 256), "float16"),
               c: T.Tensor((256, 256), "float16"), bias: T.Tensor((256,), "float16"), table: T.Tensor((16,), "int32")):
        with T.Kernel(4, 4, threads=128) as (bx, by):
            a_tile = T.alloc_shared((64, 32), "float16")
            b_tile = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float")
            own = T.alloc_local((2,), "int32")
            tx = T.get_thread_binding()
            own[0] = table[bx]
            T.clear(acc)
            for ki in T.LOOP:
                at = ki * 32
                T.copy(a[by * 64, at], a_tile)
                other = ki * 32
                T.copy(b[other, bx * 64], b_tile)
                T.gemm(a_tile, b_tile, acc)
                for i, j in T.Parallel(64, 64):
                    acc[i, j] = acc[i, j] * 0.5
            for q in T.serial(3):
                if q == 1:
                    for i, j in T.Parallel(64, 64):
                        acc[i, j] = acc[i, j] + bias[bx * 64 + j]
                else:
                    own[1] = own[0] + q
            if own[1] > 3:
                T.copy(acc, c[by * 64, bx * 64])
    return kernel
"""
PLACES = 18
LOOPS = {"pipelined": "Pipelined(4, num_stages=2)", "serial": "serial(4)"}
CHOICES = st.lists(st.sampled_from(["", "record", "range", "group", "both", "start"]), min_size=PLACES, max_size=PLACES)


@pytest.fixture(scope="module")
def plain_sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("plain")
    return {kind: source(marked.loaded(folder, BASE.replace("LOOP", loop)).make(trace)) for kind, loop in LOOPS.items()}


@pytest.mark.parametrize("loop", LOOPS)
@hypothesis.settings(
    max_examples=6, deadline=None, derandomize=True, phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)  # fmt: skip
@hypothesis.given(choices=CHOICES)
def test_markers_anywhere_come_off_without_a_trace(
    loop: str, choices: list[str], plain_sources: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    module = marked.remarked(tmp_path_factory.mktemp("marked"), BASE.replace("LOOP", LOOPS[loop]), choices)
    func = module.make(trace)
    assert source(trace.strip(func)) == plain_sources[loop]
    # On, they take nothing from the kernel but its place in registers and memory.
    assert without_tracing(traced_source(func)) == body(plain_sources[loop]).rstrip()
