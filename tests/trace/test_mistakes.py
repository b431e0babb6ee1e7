"""Mistakes are caught where they are made: each names the marker's file and line, and says what to do."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tilelang
import tilelang.language as T

from tileops.trace import TraceError, lowering, paths, trace
from tileops.trace.markers import SYMBOL

from .building import CPU, HOPPER, line_of, lowered, source, target_of

FLOAT = "float32"


def kernel(write: Callable[..., Any], threads: int | None = 128) -> Any:
    """A kernel around a macro that takes ``bx`` and the kernel's tensors."""
    inside = T.macro(write)

    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT), b: T.Tensor((64,), FLOAT)):
        with T.Kernel(4, threads=threads) as bx:
            inside(bx, a, b)

    return main


def rejected(build: Callable[[], Any], tag: str) -> str:
    """The message of the TraceError that names the line with the comment ``# tag``, without that line."""
    with pytest.raises(TraceError) as caught:
        build()
    message = str(caught.value)
    where = f"{__file__}:{line_of(__file__, '# ' + tag, after='# Mistakes')}: "
    assert message.startswith(where), message
    return message.removeprefix(where)


def both(func: Any) -> Callable[[], Any]:
    """Finalizes a kernel: a mistake shows whether tracing is on or off."""

    def build() -> None:
        with pytest.raises(TraceError) as stripped:
            trace.strip(func)
        with pytest.raises(TraceError, match=f"^{re.escape(str(stripped.value))}$"):
            lowered(func)
        raise stripped.value

    return build


# Mistakes, each at the line that its comment names ---------------------------------------------------------------


def test_a_token_ended_twice() -> None:
    def write(bx, a, b):
        token = trace.range_start("x")
        trace.range_end(token)
        trace.range_end(token)  # twice

    assert "range 'x' is ended twice on one path" in rejected(both(kernel(write)), "twice")


def test_a_token_ended_twice_on_one_path() -> None:
    def write(bx, a, b):
        token = trace.range_start("x")
        if bx > 1:
            trace.range_end(token)
        else:
            trace.range_end(token)
        trace.range_end(token)  # twice on a path

    assert "ended twice" in rejected(both(kernel(write)), "twice on a path")


def test_a_token_that_is_never_ended() -> None:
    def write(bx, a, b):
        trace.range_start("x")  # never
        b[bx] = a[bx]

    message = rejected(both(kernel(write)), "never")
    assert "range 'x' is never ended" in message
    assert "range_end" in message


@pytest.mark.parametrize("arm", [0, 1])
def test_a_token_ended_in_one_arm_only(arm: int) -> None:
    def write(bx, a, b):
        token = trace.range_start("x")  # one arm
        if bx > 1:
            if arm == 0:
                trace.range_end(token)
        else:
            if arm == 1:
                trace.range_end(token)
            b[bx] = a[bx]

    message = rejected(both(kernel(write)), "one arm")
    assert "one arm of an `if`" in message
    assert "every path" in message


def test_a_token_started_in_one_arm_and_ended_in_another() -> None:
    def write(bx, a, b):
        tokens = []
        if bx > 1:
            tokens.append(trace.range_start("x"))  # two ifs
        if bx > 1:
            trace.range_end(tokens[0])

    rejected(both(kernel(write)), "two ifs")


def test_a_token_left_open_by_a_loop() -> None:
    def write(bx, a, b):
        for i in T.serial(4):
            trace.range_start("x")  # open in a loop
            b[i] = a[i]

    assert "still open at the end of an iteration" in rejected(both(kernel(write)), "open in a loop")


def test_a_token_ended_by_a_loop() -> None:
    def write(bx, a, b):
        token = trace.range_start("x")  # ended in a loop
        for i in T.serial(4):
            b[i] = a[i]
            trace.range_end(token)

    assert "end it behind the loop" in rejected(both(kernel(write)), "ended in a loop")


def test_a_token_ended_by_a_while_loop() -> None:
    def write(bx, a, b):
        i = T.alloc_var("int32")
        i = 0
        token = trace.range_start("x")  # ended in a while
        while i < 4:
            i += 1
            trace.range_end(token)

    rejected(both(kernel(write)), "ended in a while")


@pytest.mark.parametrize("word", ["break", "continue"])
def test_a_loop_left_with_a_range_open(word: str) -> None:
    def write(bx, a, b):
        for i in T.serial(4):
            with trace.range("x"):  # left open
                if i == bx:
                    if word == "break":
                        break
                    else:
                        continue
                b[i] = a[i]

    assert f"left by {word}" in rejected(both(kernel(write)), "left open")


def test_a_range_from_outside_ended_on_the_way_out_of_a_loop() -> None:
    def write(bx, a, b):
        token = trace.range_start("x")  # ended at a break
        for i in T.serial(4):
            if i == bx:
                trace.range_end(token)
                break
            b[i] = a[i]
        trace.range_end(token)

    assert "end it behind the loop" in rejected(both(kernel(write)), "ended at a break")


def test_a_range_ended_in_another_group() -> None:
    def write(bx, a, b):
        with trace.group("one", lead=0):
            token = trace.range_start("x")  # started in one
        with trace.group("two", lead=64):
            trace.range_end(token)  # ended in two

    message = rejected(lambda: kernel(write), "ended in two")
    assert "ended in group 'two'" in message
    assert "group 'one'" in message
    assert f":{line_of(__file__, '# started in one', after='# Mistakes')}" in message


def test_something_else_than_a_token() -> None:
    def write(bx, a, b):
        trace.range_end("x")  # no token

    assert "token" in rejected(lambda: kernel(write), "no token")


def test_an_arrow_to_no_range() -> None:
    def write(bx, a, b):
        with trace.range("load"):
            trace.record("mark")
        with trace.range("store"):
            b[bx] = a[bx]
        trace.dag("load", "stored")  # no range

    assert rejected(both(kernel(write)), "no range") == (
        "dag names no range 'stored'; the kernel's ranges: 'load', 'store'"
    )


def test_an_arrow_to_a_record() -> None:
    def write(bx, a, b):
        with trace.range("load"):
            trace.record("mark")
        trace.dag("mark", "load")  # a record

    assert "'mark' (it is a record)" in rejected(both(kernel(write)), "a record")


def test_an_arrow_without_ranges() -> None:
    def write(bx, a, b):
        trace.dag("load", "load")  # no ranges

    assert "ranges: none" in rejected(both(kernel(write)), "no ranges")


def test_an_arrow_whose_shift_is_no_number() -> None:
    def write(bx, a, b):
        trace.dag("load", "load", shift=1.0)  # shift

    assert "shift" in rejected(lambda: kernel(write), "shift")


@pytest.mark.parametrize("lead", [-1, 128, 4096])
def test_a_lead_outside_the_block(lead: int) -> None:
    def write(bx, a, b):
        with trace.group("g", lead=lead):  # outside
            trace.record("x")

    message = rejected(lambda: kernel(write), "outside")
    assert f"lead {lead} is outside the block" in message
    assert "threads 0 to 127" in message


def test_a_lead_outside_the_block_that_tilelang_chose() -> None:
    def write(bx, a, b):
        with trace.group("g", lead=128):  # outside the default
            trace.record("x")

    assert "threads 0 to 127" in rejected(lambda: lowered(kernel(write, None)), "outside the default")


@pytest.mark.parametrize("lead", [True, 1.0, "0", None])
def test_a_lead_that_is_no_thread(lead: Any) -> None:
    def write(bx, a, b):
        with trace.group("g", lead=lead):  # no thread
            trace.record("x")

    assert "lead must be an int" in rejected(lambda: kernel(write), "no thread")


def test_two_leads_for_a_group() -> None:
    def write(bx, a, b):
        with trace.group("g", lead=0):  # first lead
            trace.record("x")
        with trace.group("g", lead=1):  # second lead
            trace.record("y")

    message = rejected(both(kernel(write)), "second lead")
    assert "lead 1 here and lead 0" in message
    assert f"{__file__}:{line_of(__file__, '# first lead', after='# Mistakes')}" in message


def test_another_lead_for_the_group_that_is_there_without_one() -> None:
    def write(bx, a, b):
        trace.record("x")  # in main
        with trace.group("main", lead=1):  # main again
            trace.record("y")

    message = rejected(both(kernel(write)), "main again")
    assert f"{__file__}:{line_of(__file__, '# in main', after='# Mistakes')}" in message


@pytest.mark.parametrize("spread", ["T.Parallel", "T.vectorized"])
def test_a_marker_in_a_loop_that_is_spread_over_threads(spread: str) -> None:
    loop = T.Parallel if spread == "T.Parallel" else T.vectorized

    def write(bx, a, b):
        for i in loop(64):
            for _ in T.serial(2):
                with trace.range("x"):  # spread
                    b[i] = a[i]

    message = rejected(both(kernel(write)), "spread")
    assert spread in message
    assert "put it around the loop" in message


@pytest.mark.parametrize("mark", [
    lambda: trace.record("x"),  # record outside
    lambda: trace.range_start("x"),
    lambda: trace.dag("x", "x"),
    lambda: trace.group("x", lead=0),
    lambda: trace.range("x").__enter__(),
])  # fmt: skip
def test_a_marker_outside_a_kernel(mark: Callable[[], Any]) -> None:
    with pytest.raises(TraceError, match=rf"^{__file__}:\d+: .*inside `with T\.Kernel"):
        mark()


def test_a_marker_beside_the_launch() -> None:
    def build() -> None:
        @T.prim_func
        def main(a: T.Tensor((64,), FLOAT)):
            with T.Kernel(4, threads=32) as bx:
                a[bx] = 1.0
            trace.record("x")  # beside

    assert "inside `with T.Kernel" in rejected(build, "beside")


@pytest.mark.parametrize("name", ["", 3, None, b"x", ["x"]])
def test_names_that_are_no_texts(name: Any) -> None:
    def marker(index: int) -> Callable[..., Any]:
        def write(bx, a, b):
            if index == 0:
                with trace.group(name, lead=0):  # group's name
                    trace.record("x")
            if index == 1:
                with trace.range(name):  # range's name
                    b[bx] = a[bx]
            if index == 2:
                with trace.range("x", lane=name):  # lane
                    b[bx] = a[bx]
            if index == 3:
                trace.record(name)  # record's name
            if index == 4:
                trace.dag("x", name)  # dag's name

        return write

    for index, tag in enumerate(["group's name", "range's name", "lane", "record's name", "dag's name"]):
        assert "must be a text" in rejected(lambda index=index: kernel(marker(index)), tag)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ("text", "got 'text'"),
        (1 << 32, "does not fit into 32 bits"),
        (-(1 << 31) - 1, "does not fit into 32 bits"),
        (1e39, "does not fit into a float32"),
        (3.4028235677973366e38, "does not fit into a float32"),
        ([1], r"got [1]"),
        (1j, "got 1j"),
    ],
)
def test_payloads_that_are_no_numbers_of_32_bits(payload: Any, said: str) -> None:
    def write(bx, a, b):
        trace.record("x", payload=payload)  # payload

    assert said in rejected(lambda: kernel(write), "payload")


@pytest.mark.parametrize("dtype", ["int64", "float16", "float64", "uint64"])
def test_payloads_of_other_types(dtype: str) -> None:
    def write(bx, a, b):
        with trace.range("x", payload=T.cast(bx, dtype)):  # typed payload
            b[bx] = a[bx]

    message = rejected(lambda: kernel(write), "typed payload")
    assert dtype in message
    assert "T.cast" in message


def test_the_largest_and_smallest_payloads_are_taken() -> None:
    def write(bx, a, b):
        for payload in [(1 << 32) - 1, -(1 << 31), 3.4028234663852886e38, -3.4028234663852886e38]:
            trace.record("x", payload=payload)

    lowered(kernel(write))


def test_a_marker_that_would_break_an_explicit_schedule() -> None:
    @T.prim_func
    def main(a: T.Tensor((64, 64), FLOAT), b: T.Tensor((64, 64), FLOAT)):
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_shared((16, 16), FLOAT)
            for i in T.Pipelined(4, order=[0, 1], stage=[0, 1]):
                T.copy(a[bx * 16, i * 16], tile)
                trace.record("x")  # in a schedule
                T.copy(tile, b[bx * 16, i * 16])

    assert "order=" in rejected(lambda: lowered(main), "in a schedule")


# Building ------------------------------------------------------------------------------------------------------------


def plain_kernel() -> Any:
    def write(bx, a, b):
        with trace.range("x"):
            b[bx] = a[bx]

    return kernel(write)


@pytest.mark.parametrize("max_events", [0, -1, True, 1.5, None, "8"])
def test_rows_of_no_size(max_events: Any) -> None:
    func = plain_kernel()
    message = rejected(lambda: trace.lower(func, max_events), "rows of no size")  # rows of no size
    assert "max_events must be an int of at least 1" in message
    with pytest.raises(TraceError, match="max_events"):
        trace.finalize(func, traced=True, max_events=max_events)


@pytest.mark.parametrize("finalize", [trace.strip, trace.lower, trace.finalize])
@pytest.mark.parametrize("wrong", [None, "text", plain_kernel, 3])
def test_something_else_than_a_prim_func(finalize: Callable[[Any], Any], wrong: Any) -> None:
    assert "PrimFunc" in rejected(lambda: finalize(wrong), "no PrimFunc")  # no PrimFunc


@pytest.mark.parametrize("again", [trace.strip, trace.lower])
def test_finalizing_what_records_already(again: Callable[[Any], Any]) -> None:
    func = trace.lower(plain_kernel())
    assert "records already" in rejected(lambda: again(func), "again")  # again


def test_stripping_twice_is_harmless() -> None:
    stripped = trace.strip(trace.strip(plain_kernel()))
    assert source(stripped, CPU) == source(trace.strip(plain_kernel()), CPU)


@pytest.mark.parametrize("target", ["llvm", "hip", "metal"])
def test_targets_that_cannot_record(target: str) -> None:
    with tilelang.tvm.target.Target(target):
        assert target in rejected(lambda: trace.lower(plain_kernel()), "target")  # target
        trace.strip(plain_kernel())


def test_two_launches_in_a_function() -> None:
    @T.prim_func
    def main(a: T.Tensor((64,), FLOAT)):
        with T.Kernel(4, threads=32) as bx:
            trace.record("x")
            a[bx] = 1.0
        with T.Kernel(4, threads=32) as bx:
            a[bx] = 2.0

    assert "this one has 2" in rejected(lambda: trace.lower(main), "two launches")  # two launches


def test_a_symbolic_grid_that_the_cpu_cannot_allocate_for() -> None:
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def main(a: T.Tensor((m, n), FLOAT)):
        with T.Kernel(m + n, threads=1) as bx:
            a[0, 0] = bx

    with target_of(CPU):
        assert "m + n" in rejected(lambda: trace.lower(main), "grid")  # grid


def test_a_kernel_that_is_not_finalized_fails_with_a_symbol_that_says_so_on_the_cpu(capfd: Any) -> None:
    @tilelang.jit(out_idx=[-1], target="c", execution_backend="cython")
    def factory() -> Any:
        return plain_kernel()

    with pytest.raises((RuntimeError, OSError, tilelang.tvm.error.TVMError)) as caught:
        factory()
    assert SYMBOL in str(caught.value) + "".join(capfd.readouterr())
    assert "finalize" in SYMBOL


@pytest.mark.nvcc
def test_a_kernel_that_is_not_finalized_fails_with_a_symbol_that_says_so_in_cuda(nvcc: Path, tmp_path: Path) -> None:
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    path = tmp_path / "kernel.cu"
    path.write_text(source(plain_kernel(), HOPPER))
    command = [nvcc, "-cubin", "-std=c++17", "-arch=sm_90a", "-I", TILELANG_TEMPLATE_PATH, "-I", CUTLASS_INCLUDE_DIR,
               "-o", tmp_path / "kernel.cubin", path]  # fmt: skip
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode != 0
    assert f'"{SYMBOL}" is undefined' in done.stderr


def raises(node: ast.AST) -> bool:
    """Whether an error begins here; a bare ``raise`` passes on one that came from elsewhere."""
    return isinstance(node, ast.Raise) and node.exc is not None


def test_errors_keep_their_type_wherever_they_arise() -> None:
    # TVM turns what a callback of its visitors raises into a RuntimeError.
    for source_file in Path(lowering.__file__).parent.rglob("*.py"):
        tree = ast.parse(source_file.read_text())
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                callbacks = [inner for inner in ast.walk(function) if isinstance(inner, ast.FunctionDef)][1:]
                raising = [callback.name for callback in callbacks if any(map(raises, ast.walk(callback)))]
                assert not raising, (source_file.name, raising)


# What is right -------------------------------------------------------------------------------------------------------


def right() -> Iterator[Callable[..., Any]]:
    def both_arms(bx, a, b):
        token = trace.range_start("x")
        if bx > 1:
            trace.range_end(token)
        else:
            b[bx] = a[bx]
            trace.range_end(token)

    def both_arms_of_two(bx, a, b):
        outer, inner = trace.range_start("x"), trace.range_start("y", lane="other")
        if bx > 1:
            trace.range_end(inner)
            trace.range_end(outer)
        else:
            trace.range_end(outer)
            trace.range_end(inner)

    def leaves(bx, a, b):
        with trace.range("x"):
            if bx > 1:
                T.thread_return()
            for i in T.serial(4):
                with trace.range("y"):
                    b[i] = a[i]
                if i == bx:
                    break
                if i == 2:
                    continue
                trace.record("z")

    def python_loops(bx, a, b):
        for i in [0, 1, 2, 3]:
            with trace.range("x"):
                if i == 1:
                    continue
                b[i] = a[i]
                if i == 2:
                    break

    def overlapping(bx, a, b):
        first = trace.range_start("x")
        second = trace.range_start("y")
        trace.range_end(first)
        trace.range_end(second)

    def nested_groups(bx, a, b):
        with trace.group("one", lead=1):
            with trace.range("x"):
                with trace.group("two", lead=2):
                    trace.record("y")
            trace.record("z")

    def across_group_blocks(bx, a, b):
        with trace.group("one", lead=1):
            token = trace.range_start("x")
        b[bx] = a[bx]
        with trace.group("one", lead=1):
            trace.range_end(token)

    yield from (both_arms, both_arms_of_two, leaves, python_loops, overlapping, nested_groups, across_group_blocks)


@pytest.mark.parametrize("write", [*right()], ids=lambda write: write.__name__)
def test_what_is_right_is_taken(write: Callable[..., Any]) -> None:
    func = kernel(write)
    trace.strip(func)
    lowered(func)


def test_a_range_left_by_break_from_a_python_loop_is_ended() -> None:
    func = kernel(next(write for write in right() if write.__name__ == "python_loops"))
    assert [marker.kind for marker in paths.read(func).markers] == ["range_begin", "range_end"] * 3
