"""Reading generated source: statements, threads, operations, and who ends whose wait."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace.auto import barriers, syntax
from tileops.trace.auto.operations import all_operations, operations, split
from tileops.trace.auto.rewrite import instrument
from tileops.trace.auto.roles import roles
from tileops.trace.auto.syntax import UnreadableError

HEAD = 'extern "C" __global__ void __launch_bounds__(256, 1) k_kernel(float* __restrict__ A, float* __restrict__ B) {\n'


def kernel(*lines: str, head: str = HEAD) -> str:
    return head + "".join(f"  {line}\n" for line in lines) + "}\n"


# Statements ---------------------------------------------------------------------------------------------------------


def test_statements_have_their_lines_and_pragmas() -> None:
    loop_lines = "#pragma unroll", "for (int i = 0; i < 4; ++i) {", "  x[i] = A[i];", "}"
    source = kernel("float x[4];", *loop_lines, "B[0] = x[0];")
    parsed = syntax.parse(source)
    assert (parsed.name, parsed.parameters, parsed.threads) == ("k_kernel", ("A", "B"), 256)
    assert parsed.scopes == {"A": "global", "B": "global", "x": "local"}
    spans = [source.encode()[s.start : s.end].decode() for s in parsed.statements]
    assert spans == ["  float x[4];\n", "  #pragma unroll\n  for (int i = 0; i < 4; ++i) {\n    x[i] = A[i];\n  }\n",
                     "  B[0] = x[0];\n"]  # fmt: skip
    loop = parsed.statements[1]
    assert loop.unrolled
    assert loop.loop == syntax.Loop("i", "0", "i < 4", "++i")
    assert loop.writes == (syntax.Write("x[i]", "=", "A[i]"),)


def test_calls_have_plain_names() -> None:
    (statement,) = syntax.parse(kernel("x = tl::AllReduce<tl::SumOp, 4, 1, 0>::run(y[tl::f<2>(3)], 4);")).statements
    assert [(call.name, call.arguments) for call in statement.calls] == [
        ("AllReduce::run", ("y[tl::f<2>(3)]", "4")), ("f", ("3",))
    ]  # fmt: skip
    (statement,) = syntax.parse(kernel("bars[(i % 3)].wait((i & 1));")).statements
    assert statement.calls == (syntax.Call("wait", "bars[(i % 3)]", ("(i & 1)",)),)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("int x;\n", "holds 0 kernels"),
        (kernel("B[0] = 1;") + kernel("B[0] = 1;").replace("k_kernel", "l_kernel"), "holds 2 kernels"),
        (kernel("B[0] = ) 1;"), "line 2 of its source cannot be parsed"),
        (kernel("B[0] = 1; B[1] = 2;"), "line 2 of its source holds more than one statement"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(source: str, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        instrument(source, "slots")


# Threads ------------------------------------------------------------------------------------------------------------

PYTHON = {"&&": " and ", "((int)threadIdx.x)": "t"}
COMPARED = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=="]), st.integers(0, 255), st.booleans())


@given(st.lists(COMPARED, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_threads_are_split_as_the_condition_says(parts: list[tuple[str, int, bool]]) -> None:
    texts = [f"({number} {op} ((int)threadIdx.x))" if swapped else f"(((int)threadIdx.x) {op} {number})"
             for op, number, swapped in parts]  # fmt: skip
    condition = f"({' && '.join(texts)})"
    python = condition
    for c, p in PYTHON.items():
        python = python.replace(c, p)
    taken = [t for t in range(256) if eval(python, {"t": t})]
    then, otherwise = split(condition, (0, 256))
    if not taken:
        assert then is None
        return
    if then is not None:  # None: not told, which is always safe
        assert list(range(*then)) == taken
    if otherwise is not None:
        assert list(range(*otherwise)) == [t for t in range(256) if t not in taken]


def test_conditions_without_threads_and_elections() -> None:
    assert split("(k_1 == 0)", (128, 256)) == ((128, 256), (128, 256))
    assert split("(tl::tl_shuffle_elect<128>())", (128, 256)) == ((128, 129), None)
    assert split("((((int)threadIdx.x) % 32) == 0)", (0, 256)) == (None, None)


@given(st.sampled_from([0, 32, 64, 128, 256]), st.integers(0, 11), st.integers(1, 12))
def test_of_an_election_one_thread_is_taken(every: int, first: int, warps: int) -> None:
    """The first lane of a warp, of every so many threads from the block's first on: as TileLang's template elects."""
    threads = (first * 32, (first + warps) * 32)
    elected = [t for t in range(*threads) if t % 32 == 0 and (t % every == 0 if every else t == 0)]
    found, _ = split(f"(tl::tl_shuffle_elect<{every}>())", threads)
    assert found == ((elected[0], elected[0] + 1) if elected else None)


# Operations ---------------------------------------------------------------------------------------------------------


def names(source: str, level: str = "ops") -> list[str]:
    return [r.name for r in instrument(source, "slots", level).table.ranges]


def test_operations_are_named_after_buffers() -> None:
    source = kernel(
        "float x[4];", "__shared__ float s[4];", "x[0] = A[0];", "s[0] = x[0];", "__syncthreads();",
        "tl::__sync_thread_partial(3, 256);", "tl::cp_async_gs<16>((&(s[0])), A);", "tl::cp_async_commit();",
        "tl::cp_async_wait<0>();", "x[1] = x[0];", "AtomicAdd((&(B[0])), x[0]);", "tl::pdl_sync();",
    )  # fmt: skip
    assert names(source) == [
        "load x", "copy s", "barrier", "barrier 3", "load s", "wait cp.async", "compute x", "atomic B", "wait grid"
    ]  # fmt: skip
    assert names(source, "roles") == ["load x", "compute", "barrier", "barrier 3", "load s", "wait cp.async",
                                      "compute", "epilogue", "wait grid"]  # fmt: skip


def test_code_that_leaves_early_is_not_bracketed() -> None:
    source = kernel("if (A[0] > 1) {", "  B[0] = 1;", "  return;", "}", "B[1] = A[1];")
    made = instrument(source, "slots")
    assert [r.name for r in made.table.ranges] == ["store B"]
    assert made.source.index("return;") < made.source.index("tileops_mark", made.source.index("return;"))


def test_a_loop_may_be_left() -> None:
    source = kernel(
        "for (int i = 0; i < 4; ++i) {", "  if (A[i] > 1) {", "    break;;", "  }", "  __syncthreads();", "}"
    )
    made = instrument(source, "slots")
    assert [r.name for r in made.table.ranges] == ["barrier"]
    calls = [line.strip() for line in made.source.splitlines() if line.strip().startswith("tileops_mark")]
    assert len(calls) == 2  # inside the loop, around the barrier: nothing is recorded for an iteration that never comes
    assert made.source.index("break;;") < made.source.index(calls[0])


def test_iterations_of_nested_rings_are_counted_in_order() -> None:
    source = kernel(
        "for (int i = 0; i < A[0]; ++i) {", "#pragma unroll", "for (int s = 0; s < 2; ++s) {", "#pragma unroll",
        "for (int v = 0; v < 4; ++v) {", "tl::cp_async_wait<0>();", "}", "}", "}",
    )  # fmt: skip
    text = instrument(source, "slots").source
    # A loop's first begin is recorded ahead of it, the next one with the end of an iteration.
    ahead, following = re.findall(r"tileops_mark\w*_i32\(.*, \(int\)\((.*)\)\);", text)
    turns = [{"i": i, "s": s, "v": v} for i in range(3) for s in range(2) for v in range(4)]
    assert [eval(ahead, turn) for turn in turns if turn["v"] == 0] == [*range(0, 24, 4)]
    assert [eval(following, turn) for turn in turns] == [*range(1, 25)]


def test_roles_of_a_hand_written_split() -> None:
    source = kernel(
        "if (((int)threadIdx.x) < 32) {", "  full[0].wait(0);", "} else {", "  if (((int)threadIdx.x) < 128) {",
        "    empty[0].wait(0);", "  } else {", "    tl::mma_sync<1>(x, y);", "    empty[0].arrive();", "  }", "}",
    )  # fmt: skip
    found = roles(operations(syntax.parse(source), "ops"))
    assert [(role.names, role.threads) for role in found] == [
        (("warp 0",), (0, 32)), (("warps 1-3",), (32, 128)), (("consumer",), (128, 256))
    ]  # fmt: skip


# Barriers -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 3), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_arrows_are_where_the_barriers_say(stages: int, turns: int, lag: int, counted: bool, elected: bool) -> None:
    """Against a ring that is played turn by turn: who is released by whom, by completed phases."""
    lag = min(lag, stages - 1)
    k = "c[0]" if counted else "k"
    step = ["    c[0] = (c[0] + 1);"] if counted else []
    source = kernel(
        "int c[1];", "c[0] = 0;", "if (((int)threadIdx.x) < 128) {", f"  for (int k = 0; k < {turns}; ++k) {{",
        f"    bar[(({k} % {stages}) + {stages})].wait(((({k} / {stages}) & 1) ^ 1));", "    {",
        f"      tl::tma_load(A_desc, bar[({k} % {stages})], s);", "    }", *step, "  }", "} else {",
        f"  for (int k = 0; k < {turns}; ++k) {{", f"    bar[({k} % {stages})].wait((({k} / {stages}) & 1));",
        "    tl::mma_sync<1>(x, y);", f"    if (({k} >= {lag}){' && ((((int)threadIdx.x) % 32) == 0)' * elected}) {{",
        f"      bar[((({k} + {stages - lag}) % {stages}) + {stages})].arrive();", "    }", *step, "  }", "}",
    )  # fmt: skip
    nodes = operations(syntax.parse(source), "all")
    found = [*all_operations(nodes)]
    events = [barriers.events(nodes, lead, {o for o in found if o.threads[0] == lead}) for lead in (0, 128)]
    made = barriers.shifts(events, lambda operation: f"{operation.kind} {operation.threads[0]}")
    expected = {("load 0", "wait 128"): 0}
    # The arrival in turn k gives back what turn k - lag used, for the producer's wait k - lag + stages. An operation
    # behind an `if` that all threads take alike runs only where that holds; one of a single lane counts in each turn.
    if turns > stages:
        expected["arrive 128", "wait 0"] = stages - lag if elected else stages
    assert {pair: shift for pair, shift in made.items() if pair in expected} == expected
    for waiter, phases in itertools.groupby(barriers.released(events[0]), key=lambda pair: pair[0].barrier):
        numbers = [phase for _, phase in phases]
        assert min(numbers) >= -1, waiter


def test_no_arrow_where_counts_do_not_fit() -> None:
    source = kernel(
        "if (((int)threadIdx.x) < 128) {", "  for (int k = 0; k < 8; ++k) {", "    bar[k].wait(0);", "  }", "} else {",
        "  for (int k = 0; k < 8; ++k) {", "    bar[((k * 3) % 8)].arrive();", "  }", "}",
    )  # fmt: skip
    assert instrument(source, "slots").table.edges == ()
    unknown = kernel(
        "if (((int)threadIdx.x) < 128) {", "  bar[n].wait(0);", "} else {", "  bar[m].arrive();", "}"
    )  # fmt: skip
    assert instrument(unknown, "slots").table.edges == ()
