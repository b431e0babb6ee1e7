"""Which records are stored together: those of a group that always run one after the other, and no others."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import tilelang.language as T
from hypothesis import given, settings
from hypothesis import strategies as st
from tilelang import tvm

from tileops.trace import trace
from tileops.trace.batches import LARGEST, batched
from tileops.trace.pipelined import is_pipelined
from tileops.trace.sites import ATTRIBUTE, SiteTable

from . import marked
from .building import AMPERE, HOPPER, calls, lowered, source

M, N, THREADS, FLOAT = 128, 64, 64, "float32"
tirx = tvm.tirx


def recorded(body: Any) -> list[str]:
    """The recording calls in a body of TIR, in order, as ``held0_i32 1``: what follows the name, and the group."""
    found: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Call) and getattr(node.op, "name", "") == "tirx.call_extern":
            name = str(node.args[0].value)
            if name.startswith("tileops_mark"):
                found.append(f"{name.removeprefix('tileops_mark').removeprefix('_') or 'alone'} {int(node.args[1])}")

    tirx.stmt_functor.post_order_visit(body, visit)
    return found


def ways(func: Any, arch: str = HOPPER) -> list[str]:
    return recorded(lowered(func, arch).body)


def test_those_in_a_row_are_a_batch() -> None:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            trace.record("1")
            b[bx] = a[bx]
            trace.record("2", payload=bx)
            b[bx + 2] = a[bx]
            trace.record("3", payload=T.cast(bx, FLOAT) * 0.5)
            if a[0] > 1.0:
                b[bx] = a[bx]
                trace.record("4", payload=T.cast(bx, FLOAT) * 0.5)
                b[bx + 4] = a[bx]
                trace.record("5", payload=bx)
                b[bx + 6] = a[bx]
            trace.record("6")

    func = lowered(kernel, HOPPER)
    assert recorded(func.body) == ["held0 0", "held1_i32 0", "store3_f32 0", "held0_f32 0", "store2_i32 0", "alone 0"]
    # TileLang prints them as they are.
    printed = [
        call.split("(")[0].removeprefix("tileops_mark") for call in calls(source(func, HOPPER)) if "mark" in call
    ]
    assert printed == ["_held0", "_held1_i32", "_store3_f32", "_held0_f32", "_store2_i32", ""]
    # The site table knows how many records are stored behind each clock read.
    table = SiteTable.from_json(str(func.attrs[ATTRIBUTE]))
    stored = {table.ranges[site[0][1]].name: count for site, count in zip(table.sites, table.stored)}
    assert stored == {"1": 0, "2": 0, "3": 3, "4": 0, "5": 2, "6": 1}


BATCHES = {
    1: ["alone"], 2: ["held0", "store2"], 3: ["held0", "held1", "store3"], 4: ["held0", "held1", "held2", "store4"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("records", "sizes"),
    [(1, [1]), (2, [2]), (3, [3]), (4, [4]), (5, [2, 3]), (6, [3, 3]), (7, [3, 4]), (8, [4, 4]), (9, [3, 3, 3])],
)
def test_many_are_several_batches_of_about_one_size(records: int, sizes: list[int]) -> None:
    body, stored = batched(tirx.SeqStmt([*(statement(0, site) for site in range(records)), statement(None)]))
    assert recorded(body) == [f"{way}_i32 0".replace("alone_", "") for size in sizes for way in BATCHES[size]]
    assert sorted(stored) == [*range(records)]
    assert [stored[site] for site in range(records) if stored[site]] == sizes


def test_a_call_that_chooses_its_site_tells_of_both() -> None:
    site = T.Select(tirx.Var("v", "int32") > 0, tirx.const(3), tirx.const(5))
    body, stored = batched(tirx.SeqStmt([statement(0, 1), statement(0, site), statement(None)]))
    assert recorded(body) == ["held0_i32 0", "store2_i32 0"]
    assert stored == {1: 0, 3: 2, 5: 2}


def test_what_another_group_does_in_between_does_not_matter() -> None:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            with trace.group("one", lead=0):
                trace.record("1", payload=bx)
                b[bx] = a[bx]
                with trace.group("other", lead=0):
                    trace.record("2")
                    for i in T.serial(3):
                        trace.record("3")
                        b[i] = a[bx]
                b[bx + 2] = a[bx]
                trace.record("4")
                with trace.group("other", lead=0):
                    trace.record("5")
                    b[bx + 4] = a[bx]
                    trace.record("6")

    assert ways(kernel) == ["held0_i32 0", "alone 1", "alone 1", "store2 0", "held0 1", "store2 1"]


def test_what_can_come_between_two_keeps_them_apart() -> None:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            with trace.group("loop", lead=0):
                trace.record("1")
                for i in T.serial(3):
                    b[i] = a[bx]
                    trace.record("2")
                    b[i + 3] = a[bx]
                trace.record("3")
            with trace.group("branch", lead=0):
                trace.record("4")
                if a[0] > 1.0:
                    b[7] = a[bx]
                    trace.record("5")
                trace.record("6")
            with trace.group("free", lead=0):
                trace.record("7")
                for i in T.serial(3):
                    b[i] = a[bx]
                if a[0] > 1.0:
                    b[7] = a[bx]
                trace.record("8")
            with trace.group("inside", lead=0):
                for i in T.serial(3):
                    b[i] = a[bx]
                    trace.record("9")
                    b[i + 4] = a[bx]
                    trace.record("10")
                    b[i + 8] = a[bx]

    assert ways(kernel) == [
        "alone 0", "alone 0", "alone 0", "alone 1", "alone 1", "alone 1", "held0 2", "store2 2", "held0 3", "store2 3"
    ]  # fmt: skip


def test_only_what_stands_in_one_list_of_statements_is_a_batch() -> None:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            b[bx] = a[bx]
            if a[0] > 1.0:
                trace.record("1")
                b[7] = a[bx]
            else:
                b[8] = a[bx]
                trace.record("2")
            for i in T.serial(3):
                trace.record("3")
                b[i] = a[bx]
            trace.record("4")

    assert ways(kernel) == ["alone 0"] * 4


@pytest.mark.parametrize("leaves", ["return", "break", "continue", "return inside"])
def test_what_can_leave_between_two_keeps_them_apart(leaves: str) -> None:
    """The first one would be lost."""

    @T.prim_func
    def returns(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            trace.record("1")
            if a[bx] > 1.0:
                T.thread_return()
            b[bx] = a[bx]
            trace.record("2")

    @T.prim_func
    def breaks(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            for i in T.serial(4):
                b[i] = a[bx]
                trace.record("1")
                if a[i] > 1.0:
                    break
                b[i + 4] = a[bx]
                trace.record("2")
                b[i + 8] = a[bx]

    @T.prim_func
    def continues(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            for i in T.serial(4):
                b[i] = a[bx]
                trace.record("1")
                if a[i] > 1.0:
                    continue
                b[i + 4] = a[bx]
                trace.record("2")
                b[i + 8] = a[bx]

    @T.prim_func
    def returns_inside(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            trace.record("1")
            for i in T.serial(4):
                for j in T.serial(4):
                    if a[i + j] > 1.0:
                        T.thread_return()
                    b[i + j] = a[bx]
            trace.record("2")

    kernels = {"return": returns, "break": breaks, "continue": continues, "return inside": returns_inside}
    assert ways(kernels[leaves]) == ["alone 0"] * 2


def test_a_loop_that_holds_a_break_of_its_own_is_taken_for_one_that_leaves() -> None:
    """More careful than it need be."""

    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(2, threads=THREADS) as bx:
            trace.record("1")
            for i in T.serial(4):
                if a[i] > 1.0:
                    break
                b[i] = a[bx]
            trace.record("2")

    assert ways(kernel) == ["alone 0"] * 2


@pytest.mark.parametrize("arch", [HOPPER, AMPERE])
@pytest.mark.parametrize("make", marked.PIPELINED, ids=lambda make: make.__name__)
def test_nothing_is_held_back_in_a_pipelined_loop(make: Any, arch: str) -> None:
    func = make(trace)
    if arch == AMPERE and make not in (marked.pipelined, marked.guarded, marked.indirect, marked.scheduled):
        pytest.skip("for Hopper")
    inside: list[Any] = []

    def visit(node: Any) -> None:
        if is_pipelined(node):
            inside.append(node)

    body = lowered(func, arch).body
    tirx.stmt_functor.post_order_visit(body, visit)
    assert inside
    assert {way.split()[0].split("_")[0] for loop in inside for way in recorded(loop)} <= {"alone", "i32", "f32"}
    check_whole(body)


MAKERS = [marked.first_and_last, marked.nothing_else, marked.serial_loops, marked.branches, marked.macros]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_batches_are_whole(make: Any) -> None:
    check_whole(lowered(make(trace)).body)


def check_whole(body: Any) -> None:
    """In each list of statements a group's batches are complete, with none of its other records in between."""

    def visit(node: Any) -> None:
        if not isinstance(node, tirx.SeqStmt):
            return
        held: dict[int, int] = {}  # group -> records that wait
        for stmt in node.seq:
            here = isinstance(stmt, tirx.Evaluate)
            for way in recorded(stmt):
                name, group = way.split()[0].split("_")[0], int(way.split()[1])
                if here and name.startswith("held"):
                    assert name == f"held{held.get(group, 0)}"
                    held[group] = held.get(group, 0) + 1
                elif here and name.startswith("store"):
                    assert name == f"store{held.pop(group) + 1}"
                else:
                    assert group not in held
        assert not held

    tirx.stmt_functor.post_order_visit(body, visit)


# Made-up bodies -----------------------------------------------------------------------------------------------------

# A body is a list of: a group's number (a marker of it), None (some other statement), "leave", or ("loop" or
# "pipelined", a body).
LEAVES = st.one_of(st.integers(0, 2), st.none(), st.sampled_from([0, 0, 1, "leave"]))
BODIES = st.recursive(
    st.lists(LEAVES, min_size=1, max_size=9),
    lambda inner: st.lists(
        LEAVES | st.tuples(st.sampled_from(["loop", "loop", "pipelined"]), inner), min_size=1, max_size=9
    ),
    max_leaves=8,
)


def statement(part: Any, site: Any = 7) -> Any:
    if part is None:
        return tirx.Evaluate(T.call_extern("int32", "something_else"))
    if part == "leave":
        return tirx.Evaluate(tirx.Call("int32", tvm.ir.Op.get("tirx.break_loop"), []))
    if isinstance(part, int):
        return tirx.Evaluate(T.call_extern("int32", "tileops_mark_i32", part, site, 1, 5))
    notes = {"num_stages": tirx.const(2)} if part[0] == "pipelined" else {}
    return tirx.For(tirx.Var("i", "int32"), 0, 4, tirx.ForKind.SERIAL, sequence_of(part[1]), None, notes)


def sequence_of(body: list[Any]) -> Any:
    stmts = [statement(part) for part in body]
    return stmts[0] if len(stmts) == 1 else tirx.SeqStmt(stmts)


def may_follow(body: list[Any], first: int, second: int) -> bool:
    """Whether nothing can come between two markers of a group that stand in one list, one behind the other."""
    return not any(mentions(part, body[first]) or mentions(part, "leave") for part in body[first + 1 : second])


def mentions(part: Any, what: Any) -> bool:
    return any(mentions(one, what) for one in part[1]) if isinstance(part, tuple) else part == what


def expected(body: list[Any], pipelined: bool = False) -> list[str]:
    """The calls of a body: runs of a group's markers that may follow each other, cut into batches."""
    ways: list[list[str]] = [[] for _ in body]
    for at, part in enumerate(body):
        if isinstance(part, tuple):
            ways[at] = expected(part[1], pipelined or part[0] == "pipelined")
    for group in range(3):
        runs: list[list[int]] = []
        for at in (at for at, part in enumerate(body) if part == group):
            if runs and not pipelined and may_follow(body, runs[-1][-1], at):
                runs[-1].append(at)
            else:
                runs.append([at])
        for run in runs:
            count = -(-len(run) // LARGEST)
            cuts = [number * len(run) // count for number in range(count + 1)]
            names = [name for low, high in itertools.pairwise(cuts) for name in BATCHES[high - low]]
            for at, name in zip(run, names):
                ways[at] = [f"{name}_i32 {group}".replace("alone_", "")]
    return [way for made in ways for way in made]


@settings(max_examples=200, deadline=None)
@given(BODIES)
def test_batches_of_any_body(body: list[Any]) -> None:
    made, _ = batched(sequence_of(body))
    assert recorded(made) == expected(body)
    # Nothing but names changed.
    check_whole(made)
    assert re.sub(r"_(held|store)\d", "", str(made)) == str(sequence_of(body))
