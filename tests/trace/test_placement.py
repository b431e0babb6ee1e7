"""Markers meet the compiler: ranges stand where what they hold went, or building says what became of them.

The source that TileLang generates shows it, and the machine code. On a GPU the same kernels run, too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilelang
import tvm_ffi

from tileops.trace import TraceWarning, trace
from tileops.trace.placing import CALLBACK, place
from tileops.trace.sites import ATTRIBUTE, BEGIN, SiteTable

from . import marked, placements
from .building import AMPERE, HOPPER, body, calls, line_of, no_trace, source, target_of, without_tracing
from .clock_reads import Traced, paths
from .sass import Function, disassemble, find_nvdisasm

BLACKWELL = "sm_100a"
PRODUCER = "main (producer)"
SIGNS = {BEGIN: "+", "end": "-", "instant": "="}
# What a line of generated source does, as far as it matters here.
STEPS = {
    r"if \(\(\(int\)threadIdx\.x\) < 128\) \{": "producer:", r"\} else \{": "consumer:",
    r"mbarrier\[.*\]\.wait\(": "wait", r"mbarrier\[.*\]\.arrive\(\)": "arrive",
    r"tl::tma_load\w*(?:<.*?>)?\(.*?\(\(half_t\*\)(\w+)\)": "load",
    r"tl::wgmma_\w\w<": "wgmma", r"\(\(half_t\*\)scales\).* = ": "scales", r"\*\(float4\*\)\(acc": "clear",
}  # fmt: skip

Build = tuple[Any, SiteTable, str, dict[int, str]]


def built(func: Any, arch: str = HOPPER, known: bool = True) -> Build:
    """A PrimFunc that records, its table, its source, and the warnings of its build by line.

    Without ``known``, the target is not known yet when the markers are lowered.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if known:
            with target_of(arch):
                made = trace.lower(func, 256)
        else:
            made = trace.lower(func, 256)
        text = source(made, arch)
    found = [one for one in caught if issubclass(one.category, TraceWarning)]
    assert all(one.filename in (placements.__file__, marked.__file__) for one in found)
    told: dict[int, str] = {}
    for one in found:
        told[one.lineno] = "; ".join([*([told[one.lineno]] if one.lineno in told else []), str(one.message)])
    return made, SiteTable.from_json(str(made.attrs[ATTRIBUTE])), text, told


def outline(build: Build) -> list[str]:
    """What happens in a kernel's source in order, markers as ``+range``, ``-range`` and ``=record``."""
    _, table, text, _ = build
    return [step for line in body(text).splitlines() for step in _steps(line.strip(), table)]


def _steps(line: str, table: SiteTable) -> Iterator[str]:
    mark = re.match(r"tileops_mark\w*\(\d+, (?:\(\(.*?\) \? )?(\d+)", line)
    if mark:
        yield from (SIGNS[kind] + table.ranges[index].name for kind, index in table.sites[int(mark[1])])
        return
    for pattern, step in STEPS.items():
        found = re.match(pattern, line)
        if found:
            yield " ".join([step, *found.groups()])
            return


def between(steps: list[str], begin: str, end: str) -> list[str]:
    at = steps.index(begin)
    return steps[at + 1 : steps.index(end, at)]


def line(text: str, make: Callable[..., Any]) -> int:
    return line_of(placements, text, after=f"def {make.__name__}(")


def payload_of(build: Build, mark: str) -> str:
    """The payload of a marker, as it stands in the source."""
    _, table, text, _ = build
    for call in calls(text):
        found = re.match(r"tileops_mark\w*_i32\(\d+,(\d+),\d+,(.*)\)$", call)
        if found and mark in [SIGNS[kind] + table.ranges[index].name for kind, index in table.sites[int(found[1])]]:
            return found[2]
    raise AssertionError(f"no payload of {mark} in {calls(text)}")


# ---------------------------------------------------------------------------------------------------------------------
# The producer's side


def test_copies_and_multiplications_each_get_their_ranges_on_their_side() -> None:
    build = built(placements.two_consumers(trace))
    assert build[3] == {}
    assert outline(build) == [
        "producer:", "wait", "+copy a", "load a_tile", "-copy a", "+copy b", "load b_tile", "-copy b",
        "consumer:", "clear", "wait", "+mma", "wgmma", "-mma", "arrive",
    ]  # fmt: skip


def test_the_producer_s_markers_have_a_row_and_a_thread_of_their_own() -> None:
    _, table, text, _ = built(placements.two_consumers(trace))
    assert [(group.name, group.lead) for group in table.groups] == [(PRODUCER, 0), ("main", 0)]
    assert [(r.name, table.groups[r.group].name, r.lane, r.depth) for r in table.ranges] == [
        ("copy a", PRODUCER, "main", 0), ("copy b", PRODUCER, "b", 0), ("mma", "main", "main", 0)
    ]  # fmt: skip
    # The lead is thread 0 of those that are launched in one row, and of the author's 256 in the other.
    opened = [call.split(",")[4:6] for call in calls(text) if "open" in call]
    assert opened == [["0", "0"], ["0", "256"]]
    assert "__launch_bounds__(384, 1)" in text


def test_a_group_around_copies_alone_keeps_its_name() -> None:
    build = built(placements.own_group(trace))
    assert [(group.name, group.lead) for group in build[1].groups] == [("loads", 0), ("math", 128)]
    steps = outline(build)
    assert between(steps, "+copy", "-copy") == ["load a_tile", "load b_tile"]
    assert between(steps, "+mma", "-mma") == ["wgmma"]


def test_payloads_are_those_of_the_producer_s_iteration() -> None:
    build = built(placements.plain(trace))
    assert payload_of(build, "+copy a") == "ki"
    assert payload_of(build, "+copy b") == "(((int)blockIdx.y)-ki)"
    assert payload_of(build, "+mma") == "ki_1"


def test_ranges_and_marks_inside_a_range_around_copies_go_with_it() -> None:
    build = built(placements.nested(trace))
    assert outline(build) == [
        "producer:", "wait", "+copies", "=first", "+copy a", "load a_tile", "-copy a", "=between",
        "+copy b", "load b_tile", "-copy b", "=last", "-copies",
        "consumer:", "clear", "wait", "+step", "+mma", "wgmma", "-mma", "-step", "arrive",
    ]  # fmt: skip
    assert {r.name: r.depth for r in build[1].ranges if not r.instant} == {
        "step": 0, "copies": 0, "copy a": 1, "copy b": 1, "mma": 1
    }  # fmt: skip


def test_copies_with_barriers_of_their_own_keep_their_waits_outside() -> None:
    steps = outline(built(placements.attention(trace)))
    assert steps[1 : steps.index("consumer:")] == [
        "producer:", "wait", "+copy k", "load k_tile", "-copy k", "wait", "+copy v", "load v_tile", "-copy v"
    ]  # fmt: skip
    assert between(steps, "+pv", "-pv") == ["wgmma"]


def test_a_copy_by_the_threads_is_found_where_tilelang_put_it() -> None:
    build = built(placements.reordered(trace))
    assert build[3] == {}
    steps = outline(build)
    assert steps[: steps.index("consumer:")] == [
        "producer:", "wait", "+a and scales", "+scales", "scales", "-scales", "load a_tile", "-a and scales",
        "wait", "+b", "load b_tile", "-b",
    ]  # fmt: skip


def test_two_copies_into_one_buffer_are_told_apart() -> None:
    steps = outline(built(placements.halves(trace)))
    assert steps[2 : steps.index("consumer:")] == [
        "+upper", "load a_tile", "-upper", "+lower", "load a_tile", "-lower", "load b_tile"
    ]  # fmt: skip


def test_a_guarded_loop_records_copies_only_where_they_are_made() -> None:
    _, _, text, _ = built(marked.guarded(trace))
    lines = [line.strip() for line in body(text).splitlines()]
    begin, end = (at for at, line in enumerate(lines) if line.startswith("tileops_mark(1,"))
    assert lines[begin - 1] == "if (0 < wanted[ki]) {"
    assert lines[begin + 1] == "if (tl::tl_shuffle_elect<128>()) {"
    assert lines[end + 1] == "}"
    loads = [line.partition(",")[0] for line in lines[begin:end] if "tma_load" in line]
    assert loads == ["tl::tma_load(a_desc", "tl::tma_load(b_desc"]


# ---------------------------------------------------------------------------------------------------------------------
# Kinds of kernels


def test_split_k_with_atomics() -> None:
    build = built(placements.split_k(trace))
    assert build[3] == {}
    steps = outline(build)
    assert between(steps, "+copy", "-copy") == ["load a_tile", "load b_tile"]
    assert between(steps, "+mma", "-mma") == ["wgmma"]
    assert payload_of(build, "+copy") == "((((int)blockIdx.z)*100)+ki)"
    lines = [line.strip() for line in body(build[2]).splitlines()]
    last = [line.partition("(")[0] for line in lines if line.startswith(("Atomic", "tileops_mark"))][-2:]
    assert last == ["tileops_mark", "AtomicAddx2"]


def test_a_persistent_kernel_by_t_persistent() -> None:
    build = built(placements.persistent(trace))
    steps = outline(build)
    assert steps[0] == "+tile"  # ahead of the split, by the consumer's lead
    assert between(steps, "+copy", "-copy") == ["load a_tile", "load b_tile"]
    assert between(steps, "+mma", "-mma") == ["wgmma"]
    assert steps.index("-copy") < steps.index("consumer:") < steps.index("+mma") < steps.index("-tile")
    assert payload_of(build, "+copy").endswith("*100)+ki)")
    assert set(build[3]) == {line('with trace.range("tile"', placements.persistent)}  # its fill moves behind the split


def test_a_kernel_launched_in_clusters() -> None:
    build = built(placements.clustered(trace))
    assert build[3] == {}
    steps = outline(build)
    assert steps[:2] == ["+meet", "-meet"]
    assert between(steps, "+copy", "-copy") == ["load a_tile", "load b_tile"]
    assert between(steps, "+mma", "-mma") == ["wgmma"]
    assert re.search(r"tileops_mark\w*\(.*\);\n\s*tl::cluster_sync\(\);\n\s*tileops_mark", body(build[2]))


def test_a_kernel_specialized_by_hand_keeps_what_was_written() -> None:
    build = built(placements.by_hand(trace))
    assert build[3] == {}
    assert [group.name for group in build[1].groups] == ["producer", "consumer 0", "consumer 1"]
    assert [call.split(",")[4:6] for call in calls(build[2]) if "open" in call] == [
        ["256", "384"], ["0", "384"], ["128", "384"]
    ]  # fmt: skip
    steps = outline(build)
    assert between(steps, "+load", "-load") == ["load a_upper", "load a_lower", "load b_tile"]
    assert [step for step in steps if step == "wgmma"] == between(steps, "+mma", "-mma") * 2


def test_a_kernel_of_two_ctas_keeps_what_was_written() -> None:
    build = built(placements.two_ctas(trace), BLACKWELL)
    assert build[3] == {}
    lines = [line.strip() for line in body(build[2]).splitlines()]
    wanted = ("tileops_mark", "tl::tcgen05_mma_arrive<true>", "done[0].wait", "tl::cluster_sync")
    found = [next(name for name in wanted if line.startswith(name)) for line in lines if line.startswith(wanted)]
    mark, meet = "tileops_mark", "tl::cluster_sync"
    assert found == [
        mark, mark, meet, mark, "tl::tcgen05_mma_arrive<true>", mark, "done[0].wait", mark, mark, mark, meet
    ]  # fmt: skip


KINDS = [
    placements.plain, placements.two_consumers, placements.nested, placements.spanning, placements.empty,
    placements.own_group, placements.attention, placements.split_k, placements.persistent, placements.by_hand,
    placements.clustered, placements.two_loops, placements.halves, placements.reordered, placements.torn,
    placements.conditional,
]  # fmt: skip


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_tracing_leaves_the_kernel_as_it_was(make: Callable[..., Any]) -> None:
    assert without_tracing(built(make(trace))[2]) == body(source(make(no_trace))).rstrip()
    stripped = trace.strip(make(trace)).with_attr("global_symbol", "kernel")
    assert body(source(stripped)) == body(source(make(no_trace)))


def test_tracing_leaves_the_kernel_of_two_ctas_as_it_was() -> None:
    make = placements.two_ctas
    assert without_tracing(built(make(trace), BLACKWELL)[2]) == body(source(make(no_trace), BLACKWELL)).rstrip()


# ---------------------------------------------------------------------------------------------------------------------
# What can't be placed


def test_a_range_around_a_copy_and_what_uses_it_is_told_what_it_lost() -> None:
    make = placements.spanning
    build = built(make(trace))
    (where,) = build[3]
    assert where == line('with trace.range("load and multiply"', make)
    assert "T.copy into 'b_tile'" in build[3][where]
    assert "a_tile" not in build[3][where]
    assert "producer" in build[3][where]
    assert between(outline(build), "+load and multiply", "-load and multiply") == ["wgmma"]


def test_empty_ranges_are_told() -> None:
    make = placements.empty
    build = built(make(trace))
    lines = {line(f'with trace.range("{name}"', make) for name in ("look up", "nothing")}
    assert build[3].keys() == lines
    assert all("is empty" in text for text in build[3].values())


def test_payloads_that_the_consumer_alone_knows_are_told_and_the_others_placed() -> None:
    make = placements.payloads
    build = built(make(trace))
    assert build[3].keys() == {line(f'with trace.range("{name}"', make) for name in ("counted", "by thread")}
    assert all("payload" in text and "consumer" in text for text in build[3].values())
    assert payload_of(build, "+looked up") == "at"  # which is at_1 on the consumer's side
    steps = outline(build)
    assert between(steps, "+looked up", "-looked up") == ["load a_tile"]
    assert not {"+counted", "-counted", "+by thread", "-by thread"} & {*steps}


def test_a_copy_put_between_a_range_s_is_told() -> None:
    make = placements.torn
    build = built(make(trace))
    (where,) = build[3]
    assert where == line('with trace.range("scales and b"', make)
    assert "'a_tile' in between" in build[3][where]
    steps = outline(build)
    assert between(steps, "+a", "-a") == ["load a_tile"]
    assert "+scales and b" not in steps


def test_a_copy_under_a_condition_stays_and_is_told() -> None:
    make = placements.conditional
    build = built(make(trace))
    assert build[3].keys() == {line('with trace.range("sometimes"', make)}
    assert between(outline(build), "+always", "-always") == ["load a_tile"]


def test_the_second_pipelined_loop_is_told() -> None:
    make = placements.two_loops
    build = built(make(trace))
    assert build[3].keys() == {line('with trace.range("copy more"', make)}
    assert between(outline(build), "+copy", "-copy") == ["load a_tile", "load b_tile"]


@pytest.mark.parametrize("known", [True, False])
def test_without_specialization_the_ranges_stay_and_are_told(known: bool) -> None:
    make = placements.plain
    build = built(make(trace), AMPERE, known)
    assert build[3].keys() == {line(f'with trace.range("copy {name}"', make) for name in "ab"}
    assert all("another iteration" in text for text in build[3].values())
    # Only where it can be that a producer will be there do the copies' ranges have a row of their own.
    assert [group.name for group in build[1].groups] == (["main"] if known else [PRODUCER, "main"])
    steps = outline(build)
    assert steps.count("+copy a") == steps.count("+mma")


def test_warp_specialization_turned_off_is_noticed() -> None:
    make = placements.plain
    with tilelang.transform.PassContext(config={"tl.disable_warp_specialized": True}):
        build = built(make(trace))
    assert build[3].keys() == {line(f'with trace.range("copy {name}"', make) for name in "ab"}
    assert all("not specialized" in text for text in build[3].values())


# ---------------------------------------------------------------------------------------------------------------------
# The callback


@pytest.fixture
def callback() -> list[str]:
    """A user's own callback: notes what it sees and adds a comment."""
    seen: list[str] = []

    def own(text: Any, target: Any) -> str:
        seen.append(str(text))
        return f"// the user's\n{text}"

    tilelang.register_cuda_postproc(own)
    return seen


def test_a_user_s_callback_runs_and_sees_the_placed_markers(callback: list[str]) -> None:
    build = built(placements.plain(trace))
    assert build[2].startswith("// the user's\n")
    assert between(outline(build), "+copy a", "-copy a") == ["load a_tile"]
    assert callback == [build[2].removeprefix("// the user's\n")]


def test_sources_of_other_kernels_are_left_alone(callback: list[str]) -> None:
    built(placements.plain(trace))
    plain = source(placements.plain(no_trace))
    assert callback[-1] == plain.removeprefix("// the user's\n")
    assert place(plain) is plain


def test_markers_are_placed_once_and_for_all() -> None:
    text = built(placements.plain(trace))[2]
    assert place(text) is text


def test_building_again_registers_nothing_more() -> None:
    built(placements.plain(trace))
    first = tvm_ffi.get_global_func(CALLBACK)
    built(placements.nested(trace))
    assert tvm_ffi.get_global_func(CALLBACK) == first


def registered() -> Any:
    return tvm_ffi.get_global_func(CALLBACK, allow_missing=True)


@pytest.mark.filterwarnings("ignore::tileops.trace.TraceWarning")  # nothing is built inside
@pytest.mark.parametrize("removed", [False, True])
def test_a_block_leaves_what_it_found(removed: bool) -> None:
    built(placements.plain(trace))
    if removed:
        tvm_ffi.remove_global_func(CALLBACK)
    first = registered()
    for _ in range(2):
        with trace.auto():
            assert registered() != first
        assert registered() == first
    if first is not None:
        with trace.auto():
            built(placements.plain(trace))  # registers another, behind the block's own
        assert registered() == first


@pytest.mark.filterwarnings("ignore::tileops.trace.TraceWarning")
def test_a_kernel_lowered_inside_a_block_that_failed_can_be_compiled_behind_it() -> None:
    lowered = []

    def fails() -> None:
        with trace.auto(), target_of(HOPPER):
            lowered.append(trace.lower(placements.plain(trace), 256))
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fails()
    text = source(lowered[0])
    assert place(text) is text


@pytest.mark.parametrize("before", [False, True])
def test_a_kernel_lowered_inside_a_block_can_be_compiled_behind_it(before: bool) -> None:
    """A block takes back what was registered inside; the callback that places markers stays."""
    if before:
        built(placements.plain(trace))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # nothing is built inside
        with trace.auto(), target_of(HOPPER):
            func = trace.lower(placements.plain(trace), 256)
    text = source(func)
    assert place(text) is text
    made = func, SiteTable.from_json(str(func.attrs[ATTRIBUTE])), text, {}
    assert between(outline(made), "+copy a", "-copy a") == ["load a_tile"]


def test_source_that_cannot_be_read_is_told_and_left_compiling() -> None:
    with target_of(HOPPER):
        func = trace.lower(placements.plain(trace), 256)
    raw = str(dict(next(iter(_roots(func))).annotations)["pragma_import_c"])
    text = f'{raw}extern "C" __global__ void kernel() {{\n  int x = ;;; )\n}}\n'
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = place(text)
    assert made == text[text.index("\n") + 1 :]
    wanted = [line(f'with trace.range("copy {name}"', placements.plain) for name in "ab"]
    assert sorted({one.lineno for one in caught}) == wanted
    assert all("is not in the timeline" in str(one.message) for one in caught)


@pytest.mark.nvcc
def test_a_kernel_from_the_disk_cache_has_its_markers_in_place(tmp_path: Path) -> None:
    def run() -> dict[str, Any]:
        script = Path(__file__).with_name("placed_from_the_cache.py")
        environment = {**os.environ, "TILELANG_CACHE_DIR": str(tmp_path), "TILELANG_TMP_DIR": str(tmp_path / "tmp")}
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    ahead = "tileops_mark_i32(0, 0, 1, ((((int)blockIdx.z) * 100) + ki));"
    first, again = run(), run()
    assert first["ahead"] == again["ahead"] == ahead
    assert first["compiled"] > 0
    assert again["compiled"] == 0


def _roots(func: Any) -> Iterator[Any]:
    found: list[Any] = []
    tirx = tilelang.tvm.tirx
    tirx.stmt_functor.post_order_visit(
        func.body, lambda node: found.append(node) if isinstance(node, tirx.SBlock) else None
    )
    yield from (block for block in found if "pragma_import_c" in block.annotations)


# ---------------------------------------------------------------------------------------------------------------------
# Machine code

COMPILED = {
    make.__name__: make
    for make in (
        placements.plain, placements.two_consumers, placements.nested, placements.attention, placements.split_k,
        placements.persistent, placements.by_hand, placements.clustered,
    )
}  # fmt: skip


@pytest.fixture(scope="module")
def machine_codes() -> dict[str, tuple[Function, SiteTable]]:
    """What some test has compiled already."""
    return {}


@pytest.fixture
def machine_code(
    machine_codes: dict[str, tuple[Function, SiteTable]], compile_cubin: Callable[..., Path]
) -> Callable[[str], Traced]:
    """The machine code of one of the kernels; the first call compiles them all, in one run of nvcc."""
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        pytest.skip("needs nvdisasm")

    def get(name: str) -> Traced:
        if name not in machine_codes:
            texts, tables = [], {}
            for number, (one, make) in enumerate(COMPILED.items()):
                _, tables[one], text, _ = built(make(trace).with_attr("global_symbol", one))
                texts.append(text.replace("tileops_trace", f"tileops_trace{number}"))  # each brings its own recorder
            functions = disassemble(compile_cubin("\n".join(texts)), nvdisasm)
            machine_codes.update({one: (functions[f"{one}_kernel"], table) for one, table in tables.items()})
        return Traced(*machine_codes[name])

    return get


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("name", "copied", "computed"),
    [
        ("plain", ["copy a", "copy b"], ["mma"]), ("two_consumers", ["copy a", "copy b"], ["mma"]),
        ("nested", ["copies", "copy a", "copy b"], ["mma"]), ("attention", ["copy k", "copy v"], ["qk", "pv"]),
        ("split_k", ["copy"], ["mma"]), ("persistent", ["copy"], ["mma"]), ("clustered", ["copy"], ["mma"]),
        ("by_hand", ["load"], ["mma"]),
    ],
)  # fmt: skip
def test_loads_and_multiplications_are_issued_inside_their_ranges(
    name: str, copied: list[str], computed: list[str], machine_code: Callable[[str], Traced]
) -> None:
    kernel = machine_code(name)
    kernel.check()
    loads, multiplications = kernel.find("UTMALDG"), kernel.find("HGMMA")
    assert loads
    assert multiplications
    in_the_loop = [at for at in loads if name != "attention" or kernel.last[at] != {None}]  # one loads Q ahead of it
    assert kernel.strays(in_the_loop, kernel.inside(*copied)) == []
    assert kernel.strays(multiplications, kernel.inside(*computed)) == []
    # And none of the producer's waits for room.
    inside = kernel.inside(*copied)
    waits = kernel.find("SYNCS.PHASECHK")
    assert waits
    assert not [at for at in waits if any((marker or {None}) & inside for marker in kernel.last[at])]


@pytest.mark.nvcc
def test_both_sides_pass_their_markers_in_order(machine_code: Callable[[str], Traced]) -> None:
    kernel = machine_code("clustered")
    kernel.check_flow(PRODUCER, paths("> +copy -copy +copy", "-copy <", "> <"))
    # The producer's threads pass the one ahead of the split, too.
    kernel.check_flow("main", paths("> +meet -meet +mma -mma +mma", "-mma +store -store <", "-meet <"))


@pytest.mark.nvcc
def test_a_kernel_of_two_ctas_compiles(compile_cubin: Callable[..., Path]) -> None:
    text = built(placements.two_ctas(trace), BLACKWELL)[2]
    assert compile_cubin(text, arch=BLACKWELL).stat().st_size > 0


# ---------------------------------------------------------------------------------------------------------------------
# On a GPU

# How often each range runs in a launch, by kernel; of the kernels that compute C = A·B.
RUNS: dict[str, dict[str, int]] = {
    "plain": {"copy a": 32, "copy b": 32, "mma": 32},
    "two_consumers": {"copy a": 32, "copy b": 32, "mma": 32},
    "nested": {"step": 32, "copies": 32, "copy a": 32, "copy b": 32, "mma": 32},
    "spanning": {"load and multiply": 32},
    "own_group": {"copy": 32, "mma": 32},
    "halves": {"upper": 32, "lower": 32},
    "split_k": {"copy": 32, "mma": 32},
    "persistent": {"tile": 8, "copy": 64, "mma": 64},
    "clustered": {"meet": 4, "copy": 32, "mma": 32, "store": 4},
    "by_hand": {"acquire": 32, "load": 32, "arrive": 32, "wait": 64, "mma": 64, "release": 64, "store": 8},
}


# The row of what happens on the producer's side, where it is not the one that is split off for it.
ROWS = {"own_group": "loads", "halves": "main"}


def is_in_its_row(kernel: str, name: str, group: str) -> bool:
    """Whether a range is in a row of its side."""
    if name.startswith("cop") or name in ("upper", "lower"):
        return group == ROWS.get(kernel, PRODUCER)
    return group != PRODUCER


@pytest.mark.parametrize("name", RUNS)
def test_ranges_are_in_the_row_of_their_side(name: str) -> None:
    table = built(getattr(placements, name)(trace))[1]
    ranges = [found for found in table.ranges if not found.instant]
    assert {found.name for found in ranges} == {*RUNS[name]}
    assert all(is_in_its_row(name, found.name, table.groups[found.group].name) for found in ranges)


@pytest.mark.gpu(capability=(9, 0))
@pytest.mark.parametrize("name", RUNS)
def test_kernels_record_on_both_sides_and_compute_what_they_did(name: str) -> None:
    import torch

    make = getattr(placements, name)
    adds = name == "split_k"  # to what is in C

    def run(traced: bool) -> tuple[Any, Any, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceWarning)
            func = trace.finalize(make(trace), traced=traced, max_events=256)
        kernel = tilelang.compile(func, out_idx=trace.out_idx(0 if adds else 1, traced))
        c = torch.zeros((placements.M, placements.N), device="cuda")
        made = kernel(a, b, c) if adds else kernel(a, b)
        if adds:
            return kernel, c, made
        return (kernel, *made) if traced else (kernel, made, None)

    torch.manual_seed(0)
    a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) / 8
            for shape in ((placements.M, placements.K), (placements.K, placements.N)))  # fmt: skip
    kernel, c, slots = run(traced=True)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    if not adds:  # the order of atomic additions changes the result
        assert torch.equal(c, run(traced=False)[1])

    timeline = trace.decode(kernel, slots)
    assert timeline.dropped == 0
    assert timeline.never_fired == ()
    assert not len(timeline.unfinished)
    slices = timeline.slices
    names, counts = np.unique(slices.name, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist())) == RUNS[name]
    assert not slices.cut.any()
    assert all(is_in_its_row(name, one.name, one.group) for one in slices)
    copied = next((one for one in ("copy b", "copy") if one in names), None)
    for cta in np.unique(slices.cta).tolist() if copied else []:
        loads, products = (slices.where(cta=cta, name=one) for one in (copied, "mma"))
        assert (loads.start <= products.start + products.duration).all()
        assert (np.diff(loads.start) > 0).all()
        assert (np.diff(products.start) > 0).all()


@pytest.mark.gpu(capability=(9, 0))
def test_payloads_of_both_sides_arrive() -> None:
    import torch

    a, b = (torch.randn(shape, device="cuda", dtype=torch.float16)
            for shape in ((placements.M, placements.K), (placements.K, placements.N)))  # fmt: skip
    order = torch.arange(8, device="cuda", dtype=torch.int32).flip(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        kernel = tilelang.compile(trace.finalize(placements.payloads(trace), traced=True), out_idx=[2, 4])
        slots = kernel(a, b, order)[-1]
    timeline = trace.decode(kernel, slots)
    for cta in range(4):
        assert timeline.slices.where(cta=cta, name="looked up").payload.tolist() == list(range(7, -1, -1))
    assert len(timeline.never_fired) == 2
    assert all("counted" in text or "by thread" in text for text in timeline.never_fired)


@pytest.mark.gpu(capability=(10, 0))
def test_a_kernel_of_two_ctas_records() -> None:
    import torch

    a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) / 8
            for shape in ((placements.M, placements.K), (placements.K, placements.N)))  # fmt: skip
    kernel = tilelang.compile(trace.finalize(placements.two_ctas(trace), traced=True), out_idx=trace.out_idx(1, True))
    c, slots = kernel(a, b)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    timeline = trace.decode(kernel, slots)
    assert timeline.never_fired == ()
    names, counts = np.unique(timeline.slices.name, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist())) == {"copy": 16, "meet": 16, "issue": 16, "wait": 16, "store": 2}
