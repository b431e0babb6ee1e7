"""Nothing leaks between builds: each kernel decodes with its own names, whatever was built before or beside it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tilelang
import tilelang.language as T
import torch

from tileops.trace import Timeline, TraceError, trace
from tileops.trace.sites import ATTRIBUTE, SiteTable

from .building import CPU, body, calls, cpu_kernel, source, target_of

FLOAT = "float32"


def named(prefix: str, turns: int = 2) -> Callable[[], Any]:
    def make() -> Any:
        @T.prim_func
        def main(a: T.Tensor((8,), FLOAT), b: T.Tensor((8,), FLOAT)):
            with T.Kernel(2, threads=1) as bx:
                with trace.group(f"{prefix} group", lead=0):
                    for i in T.serial(turns):
                        with trace.range(f"{prefix} range", lane=f"{prefix} lane", payload=i):
                            b[bx] = a[bx]
                trace.record(f"{prefix} record")

        return main

    return make


def decoded(kernel: Any) -> Timeline:
    return trace.decode(kernel, kernel(torch.ones(8))[-1])


def check_names(timeline: Timeline, prefix: str, turns: int = 2) -> None:
    assert timeline.groups == (f"{prefix} group", "main")
    assert timeline.slices.name.tolist() == [f"{prefix} range"] * 2 * turns
    assert timeline.slices.lane.tolist() == [f"{prefix} lane"] * 2 * turns
    assert timeline.slices.payload.tolist() == [*range(turns)] * 2
    assert timeline.instants.name.tolist() == [f"{prefix} record"] * 2
    assert timeline.instants.group.tolist() == ["main"] * 2


def fail(text: str) -> None:
    raise ZeroDivisionError(text)


def broken(text: str) -> None:
    @T.prim_func
    def main(a: T.Tensor((8,), FLOAT)):
        with T.Kernel(2, threads=1) as bx:
            with trace.group(text, lead=0):
                with trace.range(text):
                    fail(text)
                    a[bx] = 1.0


@pytest.mark.parametrize("at", ["group", "range", "token", "loop", "macro"])
def test_a_build_that_raises_half_way_leaves_nothing(at: str) -> None:
    @T.macro
    def failing():
        with trace.range("inner"):
            fail("macro")

    def broken() -> Any:
        @T.prim_func
        def main(a: T.Tensor((8,), FLOAT), b: T.Tensor((8,), FLOAT)):
            with T.Kernel(2, threads=1) as bx:
                with trace.group("broken", lead=0):
                    if at == "group":
                        fail(at)
                    with trace.range("broken range"):
                        if at == "range":
                            fail(at)
                        trace.range_start("broken token")
                        if at == "token":
                            fail(at)
                        for i in T.serial(4):
                            if at == "loop":
                                fail(at)
                            if at == "macro":
                                failing()
                            b[i] = a[bx]

        return main

    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match=at):
            broken()
        with pytest.raises(TraceError, match=r"inside `with T\.Kernel"):
            trace.record("stray")
    table = site_table(named("good")())
    assert [group.name for group in table.groups] == ["good group", "main"]
    assert [r.name for r in table.ranges] == ["good range", "good record"]


def site_table(func: Any) -> SiteTable:
    with target_of(CPU):
        return SiteTable.from_json(str(trace.lower(func, 8).attrs[ATTRIBUTE]))


def test_a_kernel_rejected_by_lowering_leaves_nothing() -> None:
    @T.prim_func
    def wrong(a: T.Tensor((8,), FLOAT)):
        with T.Kernel(2, threads=1) as bx:
            trace.range_start("left open")
            a[bx] = 1.0

    before = site_table(named("same")())
    for _ in range(2):
        with pytest.raises(TraceError, match="never ended"):
            trace.lower(wrong)
    assert site_table(named("same")()) == before


def test_stripped_and_traced_builds_interleave() -> None:
    first, second = named("first")(), named("second", 3)()
    stripped = trace.strip(first)
    tables = [site_table(func) for func in (second, first, second)]
    assert tables[0] == tables[2]
    assert {r.name for r in tables[1].ranges} == {"first range", "first record"}
    assert calls(source(stripped, CPU)) == []
    assert source(trace.strip(first), CPU) == source(stripped, CPU)
    # Names are no part of what is generated.
    with target_of(CPU):
        one, two = (body(source(trace.lower(named(prefix)(), 8), CPU)) for prefix in ("first", "second"))
    assert one == two


def test_kernels_that_differ_in_names_alone_are_two_kernels() -> None:
    kernels = {prefix: cpu_kernel(named(prefix)) for prefix in ("one", "two")}
    for prefix in ("one", "two", "one"):
        check_names(decoded(kernels[prefix]), prefix)


def parsed(make: Any) -> Any:
    """What ``make`` builds. CPython 3.11 counts the depth of an AST for all threads together, and stumbles over it."""
    for _ in range(20):
        try:
            return make()
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise
    raise AssertionError("no build in twenty got through CPython's parser")


def test_builds_in_several_threads_keep_their_names() -> None:
    results: dict[int, Any] = {}
    start = threading.Barrier(5)

    def build(number: int) -> None:
        start.wait()
        try:
            if number == 4:  # one that fails, again and again, among the others
                for _ in range(20):
                    with pytest.raises(ZeroDivisionError):
                        parsed(lambda: broken("among the others"))
                results[number] = None
                return
            funcs = [parsed(named(f"thread {number}.{turn}", number + 1)) for turn in range(10)]
            for func in funcs:
                site_table(func)
            kernel = parsed(lambda: cpu_kernel(named(f"thread {number}", number + 1)))
            results[number] = decoded(kernel), [site_table(f) for f in funcs]
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=build, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, result in results.items():
        if isinstance(result, BaseException):
            raise result
        if number < 4:
            timeline, tables = result
            check_names(timeline, f"thread {number}", number + 1)
            for turn, table in enumerate(tables):
                assert {group.name for group in table.groups} == {f"thread {number}.{turn} group", "main"}
                assert {r.name for r in table.ranges} == {
                    f"thread {number}.{turn} {kind}" for kind in ("range", "record")
                }
    assert len(results) == 5


def test_groups_of_one_thread_are_not_those_of_another() -> None:
    # A thread is inside a group while another builds a kernel with markers and no group.
    inside, done = threading.Event(), threading.Event()
    groups: list[str] = []

    def hold() -> None:
        @T.prim_func
        def main(a: T.Tensor((8,), FLOAT)):
            with T.Kernel(2, threads=1) as bx:
                with trace.group("held", lead=0):
                    inside.set()
                    done.wait(60)
                    trace.record("x")
                a[bx] = 1.0

        groups.append(site_table(main).groups[0].name)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    table = site_table(named("free")())
    done.set()
    thread.join()
    assert [group.name for group in table.groups] == ["free group", "main"]
    assert groups == ["held"]


def test_a_kernel_from_the_disk_cache_decodes_with_its_own_names(tmp_path: Path) -> None:
    def run(prefix: str) -> dict[str, Any]:
        script = Path(__file__).with_name("from_the_cache.py")
        environment = {**os.environ, "TILELANG_CACHE_DIR": str(tmp_path), "TILELANG_TMP_DIR": str(tmp_path / "tmp")}
        done = subprocess.run(
            [sys.executable, script, prefix], capture_output=True, text=True, env=environment, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def names(prefix: str) -> list[str]:
        return [f"{prefix} group", *[f"{prefix} range"] * 2, *[f"{prefix} record"] * 2]

    assert run("first") == {"names": names("first"), "compiled": 1}
    assert run("first") == {"names": names("first"), "compiled": 0}
    assert run("other") == {"names": names("other"), "compiled": 1}
    assert run("first") == {"names": names("first"), "compiled": 0}


def test_the_environment_s_cache_is_not_the_user_s() -> None:
    assert Path(tilelang.env.TILELANG_CACHE_DIR) == Path(os.environ["TILELANG_CACHE_DIR"])
