"""On means correct, as far as generated source and machine code show it without a GPU."""

from __future__ import annotations

import re
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tilelang.language as T

from tileops.trace import TraceError, TraceWarning, trace
from tileops.trace.sites import ATTRIBUTE, SiteTable

from . import marked, specified
from .building import AMPERE, HOPPER, body, calls, lowered, no_trace, source, target_of, traced_source, without_tracing

FLOAT = "float32"


def table_of(func: Any) -> SiteTable:
    return SiteTable.from_json(str(func.attrs[ATTRIBUTE]))


def recorded_by(func: Any, arch: str = HOPPER) -> list[list[str]]:
    """The events of each recording call, in the order of the generated source: ``begin copy``, ``instant done`` …"""
    table = table_of(func)
    names = [[f"{kind} {table.ranges[index].name}" for kind, index in site] for site in table.sites]
    marks = [call for call in calls(source(func, arch)) if call.startswith("tileops_mark")]
    return [names[int(re.split(r"[(,]", call)[2])] for call in marks]


# ---------------------------------------------------------------------------------------------------------------------
# What TileLang makes of a kernel stays the same


@pytest.mark.parametrize("arch", [HOPPER, AMPERE])
@pytest.mark.parametrize("make", marked.PIPELINED, ids=lambda make: make.__name__)
def test_tracing_adds_its_calls_to_a_pipelined_kernel_and_changes_nothing(make: Callable[..., Any], arch: str) -> None:
    traced = traced_source(make(trace), arch)
    assert len(calls(traced)) > 3
    # An `if` around nothing but markers is there only when traced.
    traced = re.sub(r"\n *if \(ki_?\d* == 0\) \{\n( *tileops_\w+\(.*\);\n)+ *\}", "", traced)
    assert without_tracing(traced) == body(source(make(no_trace), arch)).rstrip()


@pytest.mark.parametrize("make", [marked.pipelined, marked.guarded, marked.persistent, marked.indirect])
def test_hopper_still_specializes_warps_around_markers(make: Callable[..., Any]) -> None:
    text = body(traced_source(make(trace)))
    assert "__launch_bounds__(256, 1)" in text  # 128 of the author's threads and as many producers
    assert "tl::tma_load" in text
    assert "mbarrier" in text
    assert "tileops_mark" not in text[text.index("if (((int)threadIdx.x) < 128)") : text.index("} else {")]


def test_registers_are_still_reallocated_between_warpgroups() -> None:
    text = body(source(lowered(gemm(trace))))
    assert "__launch_bounds__(384, 1)" in text
    assert "tl::warpgroup_reg_dealloc<24>" in text
    assert "tl::warpgroup_reg_alloc<240>" in text


def gemm(trace: Any) -> Any:
    """256 threads, so that TileLang adds one producer warpgroup and reallocates registers."""

    @T.prim_func
    def main(a: T.Tensor((1024, 1024), "float16"), b: T.Tensor((1024, 1024), "float16"),
             c: T.Tensor((1024, 1024), "float16")):  # fmt: skip
        with T.Kernel(8, 8, threads=256) as (bx, by):
            a_tile = T.alloc_shared((128, 64), "float16")
            b_tile = T.alloc_shared((64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float")
            trace.record("first")
            T.clear(acc)
            for ki in T.Pipelined(16, num_stages=3):
                with trace.range("copy", payload=ki):
                    T.copy(a[by * 128, ki * 64], a_tile)
                    T.copy(b[ki * 64, bx * 128], b_tile)
                with trace.range("mma"):
                    T.gemm(a_tile, b_tile, acc)
            trace.record("after")
            T.copy(acc, c[by * 128, bx * 128])
            trace.record("last")

    return main


@pytest.mark.parametrize("arch", [HOPPER, AMPERE])
def test_a_range_around_a_gemm_in_a_pipelined_loop_holds_that_alone(arch: str) -> None:
    lines = [line.strip() for line in body(source(lowered(marked.indirect(trace), arch), arch)).splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.startswith("tileops_mark"))
    end = next(i for i in range(begin + 1, len(lines)) if lines[i].startswith("tileops_mark"))
    inside = "\n".join(lines[begin:end])
    assert "mma" in inside
    for other in ("wait(", "arrive(", "cp_async", "tma_load", "__syncthreads"):
        assert other not in inside


def test_markers_of_a_specialized_kernel_stand_in_the_order_that_was_written() -> None:
    assert sum(recorded_by(lowered(marked.pipelined(trace))), []) == [
        "instant first", "begin clear", "end clear", "instant before", "begin loop",
        "instant loop's first", "begin copy", "instant between copies", "end copy", "instant only in the first turn",
        "begin mma", "end mma", "instant loop's last",
        "end loop", "instant after", "begin store", "end store", "instant last",
    ]  # fmt: skip
