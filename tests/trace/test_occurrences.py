"""How often markers are passed, as far as the code alone tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tilelang.language as T
import torch

from tileops.trace import trace
from tileops.trace.sites import ATTRIBUTE, SiteTable

from . import marked
from .building import CPU, HOPPER, cpu_kernel, lowered

M, THREADS, FLOAT = 128, 64, "float32"


def totals(func: Any, arch: str = HOPPER) -> dict[str, int | None]:
    """The total of each range and instant by its name."""
    table = SiteTable.from_json(str(lowered(func, arch).attrs[ATTRIBUTE]))
    found: dict[str, int | None] = {}
    for r in table.ranges:
        assert r.name not in found
        found[r.name] = r.total
    return found


def straight() -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            trace.record("once", payload=bx)
            for i in T.serial(5):
                with trace.range("5"):
                    b[i] = a[i]
                for j in T.serial(3):
                    with trace.range("15", payload=j):
                        b[j] = a[i]
                    for k in T.unroll(2):
                        trace.record("30")
                        b[k] = a[j]
            for i in T.serial(0, 8, 2):
                with trace.range("stepped"):
                    b[i] = a[i]
            for i in T.serial(2, 9):
                with trace.range("7"):
                    b[i] = a[i]
            for i in T.serial(0):
                with trace.range("none"):
                    b[i] = a[i]
            for i in range(3):
                with trace.range(f"python {i}"):
                    b[i] = a[i]

    return kernel


STRAIGHT = {
    "once": 1, "5": 5, "15": 15, "30": 30, "stepped": 4, "7": 7, "none": 0, "python 0": 3,
}  # fmt: skip


def on_data() -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), n: T.int32, b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            count = T.alloc_var("int32")
            count = 0
            with trace.range("once"):
                b[bx] = a[bx]
            for i in T.serial(n):
                with trace.range("n times"):
                    b[i] = a[i]
                for j in T.serial(3):
                    trace.record("3 n times")
                    b[j] = a[i]
            for i in T.serial(4):
                for j in T.serial(i):
                    trace.record("triangle")
                    b[j] = a[i]
                if i > 0:
                    trace.record("not in the first iteration")
                    b[i] = a[i]
            if n > 3:
                trace.record("if the argument is large")
                b[0] = a[1]
            else:
                trace.record("else")
                b[1] = a[1]
            if a[0] > 0.0:
                trace.record("if the data is positive")
                b[0] = a[1]
            if bx == 0:
                trace.record("in the first CTA")
                b[2] = a[1]
            while count < n:
                trace.record("while")
                count = count + 1
            for i in T.serial(2):
                with trace.range("twice"):
                    while count < 2 * n:
                        count = count + 1

    return kernel


ON_DATA = {
    "once": 1, "twice": 2, "n times": None, "3 n times": None, "triangle": None, "not in the first iteration": None,
    "if the argument is large": None, "else": None, "if the data is positive": None, "in the first CTA": None,
    "while": None,
}  # fmt: skip


def on_threads() -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=(16, 4)) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            with trace.group("low", lead=3):
                for i in T.serial(6):
                    if tx == 3:
                        trace.record("low: its own")
                        b[i] = a[bx]
                    else:
                        trace.record("low: not its own")
                        b[i] = a[i]
                    if ty < 1:
                        trace.record("low: first row")
                        b[i] = a[0]
            with trace.group("high", lead=16 * 2 + 5):
                for i in T.serial(6):
                    if tx == 3:
                        trace.record("high: not its own")
                        b[i] = a[bx]
                    else:
                        trace.record("high: its own")
                        b[i] = a[i]
                    if ty < 1:
                        trace.record("high: first row")
                        b[i] = a[0]
                if tx < 6 and ty == 2:
                    trace.record("high: both")
                    b[2] = a[1]
                if tx < 5:
                    for i in T.serial(6):
                        trace.record("high: neither")
                        b[i] = a[1]
                warp = (tx + 16 * ty) // 32
                if warp == 1:
                    trace.record("high: its warp")
                    b[3] = a[1]
                else:
                    trace.record("high: the other warp")
                    b[4] = a[1]

    return kernel


ON_THREADS = {
    "low: its own": 6, "low: not its own": 0, "low: first row": 6, "high: not its own": 0, "high: its own": 6,
    "high: first row": 0, "high: both": 1, "high: neither": 0, "high: its warp": 1,
    "high: the other warp": 0,
}  # fmt: skip


@pytest.mark.parametrize("arch", [HOPPER, CPU])
@pytest.mark.parametrize(("make", "expected"), [(straight, STRAIGHT), (on_data, ON_DATA)], ids=["straight", "on data"])
def test_totals(make: Callable[[], Any], expected: dict[str, int | None], arch: str) -> None:
    found = totals(make(), arch)
    # A loop that Python's range writes is a loop of the kernel, whose marker has one name.
    if "python 0" in expected:
        python = [name for name in found if name.startswith("python")]
        assert sum(found.pop(name) or 0 for name in python) == expected["python 0"]
        expected = {name: total for name, total in expected.items() if name != "python 0"}
    assert found == expected


def test_an_if_on_threads_is_followed_by_the_lead() -> None:
    assert totals(on_threads()) == ON_THREADS


@pytest.mark.parametrize("leaves", ["return", "break", "continue"])
def test_nothing_is_known_where_threads_leave_early(leaves: str) -> None:
    @T.prim_func
    def returns(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            with trace.range("before"):
                b[bx] = a[bx]
            if a[0] > 1.0:
                T.thread_return()
            with trace.range("behind"):
                b[bx] = a[bx]

    @T.prim_func
    def breaks(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            with trace.range("before"):
                b[bx] = a[bx]
            for i in T.serial(4):
                if a[i] > 1.0:
                    break
                with trace.range("behind"):
                    b[bx] = a[bx]

    @T.prim_func
    def continues(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            with trace.range("before"):
                b[bx] = a[bx]
            for i in T.serial(4):
                if a[i] > 1.0:
                    continue
                with trace.range("behind"):
                    b[bx] = a[bx]

    kernels = {"return": returns, "break": breaks, "continue": continues}
    assert totals(kernels[leaves]) == {"before": None, "behind": None}


def test_pipelined_loops_count_as_they_are_written() -> None:
    func = marked.pipelined(trace)
    table = SiteTable.from_json(str(lowered(func).attrs[ATTRIBUTE]))
    found = {r.name: r.total for r in table.ranges}
    assert (found["copy"], found["mma"], found["loop"], found["store"]) == (8, 8, 1, 1)
    assert found["only in the first turn"] is None


@pytest.mark.parametrize(("make", "scalars"), [(straight, ()), (on_data, (5,))], ids=["straight", "on data"])
def test_totals_are_what_a_launch_counts(make: Callable[[], Any], scalars: tuple[int, ...]) -> None:
    """In each CTA of a launch on the CPU target."""
    compiled = cpu_kernel(make, max_events=256)
    *_, slots = compiled(torch.ones(M), *scalars)
    timeline = trace.decode(compiled, slots)
    names = [*timeline.slices.name, *timeline.instants.name]
    for r in SiteTable.from_json(str(compiled.prim_func.attrs[ATTRIBUTE])).ranges:
        assert r.total is None or names.count(r.name) == len(timeline.ctas) * r.total, r
