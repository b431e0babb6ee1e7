"""Order in small kernels: in their machine code, each range encloses what it was written around."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tilelang.language as T

from tileops.trace import trace

from .clock_reads import Traced, machine_code, paths

# ---------------------------------------------------------------------------------------------------------------------
# Kernels


def copies(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def copies(a: T.Tensor((1024, 128), "float16"), flat: T.Tensor((4096,), "float16"), c: T.Tensor((512,), "float16")):
        with T.Kernel(8, threads=256) as bx:
            tile = T.alloc_shared((128, 64), "float16")
            line = T.alloc_shared((512,), "float16")
            full = T.alloc_barrier(1)
            tx = T.get_thread_binding()
            if tx < 128:
                if tx < 32:
                    with trace.group("producer", lead=0):
                        with trace.range("tile", payload=value(bx)):
                            T.tma_copy(a[bx * 128, 64], tile, barrier=full)
                        T.sync_warp()
                        with trace.range("line", payload=value(tx)):
                            T.tma_copy(flat[bx * 512], line, barrier=full)
                        with trace.range("arrive", payload=value(1)):
                            if T.shuffle_elect(32):
                                T.barrier_arrive(full)
            else:
                with trace.group("consumer", lead=128):
                    with trace.range("wait", payload=value(bx)):
                        T.barrier_wait(full, 0)
                    with trace.range("read", payload=value(tx)):
                        c[tx] = tile[tx - 128, 3] + line[tx]

    return copies


def matrices(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def matrices(
        a: T.Tensor((64, 64), "float16"), b: T.Tensor((64, 64), "float16"), c: T.Tensor((64, 64), "float")
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a_tile = T.alloc_shared((64, 64), "float16")
            b_tile = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float")
            T.copy(a, a_tile)
            T.copy(b, b_tile)
            T.clear(acc)
            T.fence_proxy_async()
            T.sync_threads()
            with trace.range("issue", payload=value(1)):
                T.wgmma_gemm(a_tile, b_tile, acc)
            with trace.range("finish", payload=value(-1)):
                T.wait_wgmma(0)
            with trace.range("whole", payload=value(1.5)):
                T.wgmma_gemm(a_tile, b_tile, acc)
                T.wait_wgmma(0)
                T.warpgroup_fence_operand(acc, num_regs=32)
            with trace.range("store", payload=value(2)):
                T.copy(acc, c)

    return matrices


def loads(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def loads(a: T.Tensor((4096,), "float"), b: T.Tensor((4096,), "float"), c: T.Tensor((4096,), "float")):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            i = bx * 128 + tx
            x = T.alloc_local((1,), "float")
            line = T.alloc_shared((128,), "float")
            with trace.range("stored", payload=value(tx)):
                x[0] = a[i]
                for _ in T.unroll(4):
                    x[0] = x[0] * x[0] + b[i]
                line[tx] = x[0]
            with trace.range("sync", payload=value(bx)):
                T.sync_threads()
            with trace.range("divided", payload=value(i)):
                c[i] = line[127 - tx] / line[tx]

    return loads


def asynchronous(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def asynchronous(a: T.Tensor((4096,), "float"), b: T.Tensor((4096,), "float")):
        with T.Kernel(8, threads=128) as bx:
            tx = T.get_thread_binding()
            line = T.alloc_shared((512,), "float")
            with trace.range("issue", payload=value(tx)):
                T.async_copy(a[bx * 512], line)
            with trace.range("wait", payload=value(bx)):
                T.ptx_wait_group(0)
            with trace.range("sync"):
                T.sync_threads()
            with trace.range("read"):
                b[bx * 128 + tx] = line[511 - tx]

    return asynchronous


def atomics(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def atomics(a: T.Tensor((4096,), "float"), b: T.Tensor((4096,), "float")):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            i = bx * 128 + tx
            with trace.range("add", payload=value(tx)):
                T.atomic_add(a[tx], b[i])
            with trace.range("fetch", payload=value(bx)):
                b[i] = T.atomic_add(a[0], 1.0, return_prev=True)

    return atomics


def nested(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def nested(a: T.Tensor((4096,), "float"), n: T.int32):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            for k in T.serial(n):
                with trace.range("outer", payload=value(k)):
                    a[bx * 128 + tx] = 1.0
                    with trace.range("inner", payload=value(bx)):
                        T.sync_threads()
                    if k > bx:
                        trace.record("seen", payload=value(tx))
                        T.thread_return()
                    a[bx * 128 + 127 - tx] = 2.0

    return nested


SINGLE = (copies, matrices, loads, asynchronous, atomics, nested)

SMALL: list[tuple[Any, Any]] = [(build, with_payload) for build in SINGLE for with_payload in (False, True)]


def _payload(wanted: bool, value: Any) -> Any:
    return value if wanted else None


def misplaced(with_payload: bool) -> Any:
    @T.prim_func
    def misplaced(a: T.Tensor((4096,), "float")):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            line = T.alloc_shared((128,), "float")
            with trace.range("sync"):
                line[tx] = a[bx * 128 + tx]
            T.sync_threads()
            a[bx * 128 + tx] = line[127 - tx]

    return misplaced


def deferred(kept: str) -> Any:
    """What a range computes is needed in one branch behind it, and inside the range by what ``kept`` names."""

    @T.prim_func
    def deferred(a: T.Tensor((4096,), "float"), b: T.Tensor((4096,), "float")):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            x = T.alloc_local((2,), "float")
            line = T.alloc_shared((128,), "float")
            line[tx] = 1.0
            T.sync_threads()
            with trace.range("compute"):
                x[0] = a[bx * 128 + tx]
                x[1] = line[127 - tx]
                for _ in T.unroll(8):
                    x[0] = x[0] * 3.0 + 1.0
                if kept == "payload":
                    trace.record("result", payload=x[0] + x[1])
                if kept == "fence":
                    T.warpgroup_fence_operand(x, num_regs=2)
            if bx > 16:
                b[bx * 128 + tx] = x[0] + x[1]

    return deferred


ODD: list[tuple[Any, Any]] = [(misplaced, False), (deferred, ""), (deferred, "payload"), (deferred, "fence")]


@pytest.fixture
def small(cuda_target: Any, compile_cubin: Callable[..., Path], compiled: dict[str, Any]) -> Callable[..., Traced]:
    """``small(build, variant)``: one of the small kernels; the first call compiles them all."""

    def name(build: Any, variant: Any) -> str:
        return f"{build.__name__}_{variant}"

    def get(build: Any, variant: Any) -> Traced:
        if name(build, variant) not in compiled:
            wanted = [*SMALL, *ODD]
            funcs = [trace.lower(b(v)).with_attr("global_symbol", name(b, v)) for b, v in wanted]
            made = machine_code(funcs, cuda_target, compile_cubin)
            compiled.update(zip((name(b, v) for b, v in wanted), made))
        return Traced(*compiled[name(build, variant)])

    return get


# ---------------------------------------------------------------------------------------------------------------------
# Single ranges

# For each kernel, the ranges that instructions have to stand in, and its paths.
RANGES: dict[str, dict[str, tuple[str, ...]]] = {
    "copies": {
        "UTMALDG": ("tile",),
        "UBLKCP": ("line",),
        "SYNCS.ARRIVE.TRANS64.RED": ("tile", "line"),
        "SYNCS.ARRIVE.TRANS64.A1T0": ("arrive",),
        "SYNCS.PHASECHK": ("wait",),
        "LDS": ("read",),
        "STG": ("read",),
    },
    "matrices": {
        "HGMMA": ("issue", "whole"),
        "WARPGROUP.ARRIVE": ("issue", "whole"),
        "WARPGROUP.DEPBAR": ("finish", "whole"),
        "STG": ("store",),
    },
    "loads": {
        "LDG": ("stored",),
        "FFMA": ("stored", "divided"),
        "STS": ("stored",),
        "BAR": ("sync",),
        "LDS": ("divided",),
        "MUFU.RCP": ("divided",),
        "CALL": ("divided",),
        "RET": ("divided",),
        "STG": ("divided",),
    },
    "asynchronous": {
        "LDGSTS": ("issue",),
        "DEPBAR": ("wait",),
        "BAR": ("wait", "sync"),
        "LDS": ("read",),
        "STG": ("read",),
    },
    "atomics": {"LDG": ("add",), "REDG": ("add",), "ATOM": ("fetch",), "STG": ("fetch",)},
    "nested": {"BAR": ("inner",)},
}

PATHS = {
    "copies": {
        "producer": paths("> +tile -tile +line -line +arrive -arrive <", "> <"),
        "consumer": paths("> +wait -wait +read -read <", "> <"),
    },
    "matrices": {"main": paths("> +issue -issue +finish -finish +whole -whole +store -store <")},
    "loads": {"main": paths("> +stored -stored +sync -sync +divided -divided <")},
    "asynchronous": {"main": paths("> +issue -issue +wait -wait +sync -sync +read -read <")},
    "atomics": {"main": paths("> +add -add +fetch -fetch <")},
    "nested": {"main": paths("> +outer +inner -inner -outer +outer", "-inner =seen <", "-outer <", "> <")},
}


@pytest.mark.nvcc
@pytest.mark.parametrize(("build", "with_payload"), SMALL)
def test_single_ranges_enclose_what_they_were_written_around(
    small: Callable[..., Traced], build: Any, with_payload: bool
) -> None:
    traced = small(build, with_payload)
    traced.check()
    for group in traced.table.groups:
        traced.check_flow(group.name, PATHS[build.__name__][group.name])
    stray: list[str] = []
    for opcode, names in RANGES[build.__name__].items():
        positions = traced.find(opcode)
        inside = traced.inside(*names)
        assert inside <= {site for at in positions for marker in traced.last[at] for site in marker or ()}, opcode
        stray += traced.strays(positions, inside)
    assert stray == []


@pytest.mark.nvcc
@pytest.mark.parametrize(("build", "with_payload"), [(b, p) for b, p in SMALL if b in (loads, atomics)])
def test_what_is_loaded_is_used_before_its_range_ends(
    small: Callable[..., Traced], build: Any, with_payload: bool
) -> None:
    traced = small(build, with_payload)
    sources = {at: traced.code[at].written for at in traced.find("LDG", "LDS", "ATOM") if traced.code[at].written}
    users = traced.consumers(sources, lambda instruction: instruction.read)
    assert sources
    assert all(users.values())
    for source, found in users.items():
        assert all(traced.last[at] == traced.last[source] for at in found)


# ---------------------------------------------------------------------------------------------------------------------
# That these checks can fail


@pytest.mark.nvcc
def test_a_marker_on_the_wrong_side_is_noticed(small: Callable[..., Traced]) -> None:
    traced = small(misplaced, False)
    traced.check()
    (barrier,) = traced.find("BAR")
    assert traced.strays([barrier], traced.inside("sync")) == [f"{traced.code[barrier]} behind -sync"]


@pytest.mark.nvcc
def test_what_only_a_later_branch_needs_is_computed_there(small: Callable[..., Traced]) -> None:
    """It is the work that moves, as docs/markers.md tells: a reordering that is real, and that has to be seen."""
    traced = small(deferred, "")
    traced.check()
    work = traced.find("LDG", "LDS", "FFMA")
    assert len(work) == 10
    assert traced.strays(work, traced.inside("compute")) == [f"{traced.code[at]} behind -compute" for at in work]


@pytest.mark.nvcc
@pytest.mark.parametrize("kept", ["payload", "fence"])
def test_what_a_range_uses_itself_is_computed_inside(small: Callable[..., Traced], kept: str) -> None:
    traced = small(deferred, kept)
    traced.check()
    work = traced.find("LDG", "LDS", "FFMA")
    assert len(work) == 10
    assert traced.strays(work, traced.inside("compute")) == []
    sources = {at: traced.code[at].written for at in traced.find("LDG", "LDS")}
    if kept == "fence":
        # A fence is no instruction: the value that goes into nothing else inside is loaded there, but not waited for.
        with pytest.raises(AssertionError, match=r"-compute is read before anything used the result of .*LDS"):
            traced.consumers(sources, lambda instruction: instruction.read)
        sources = {at: traced.code[at].written for at in traced.find("LDG")}
    assert all(traced.consumers(sources, lambda instruction: instruction.read).values())
