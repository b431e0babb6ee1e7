"""Order in the production GEMM: in its machine code, clocks are read where the markers stand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileops.kernels.gemm import build_gemm, default_config
from tileops.trace.sites import SiteTable

from .clock_reads import Traced, machine_code, paths
from .sass import Function

GEMMS: dict[str, tuple[Any, ...]] = {
    "large": (4096, 4096, 4096),
    "flat": (128, 2112, 7168),
    "not transposed": (4096, 4096, 4096, "bfloat16", False, False),
}

# Three of the producer's four warps have nothing to do, and of all the others' threads none meets a foreign marker.
PRODUCER = paths("> +acquire -acquire +tma -tma +arrive -arrive +acquire", "-arrive <", "> <")

CONSUMER = paths("> +wait -wait +mma -mma +wait", "-mma +drain -drain +epilogue -epilogue <", "> <")


@pytest.fixture
def gemm(cuda_target: Any, compile_cubin: Callable[..., Path], compiled: dict[str, Any]) -> Callable[[str], Traced]:
    """``gemm(name)``: the production GEMM for one of the problems; the first call compiles them all."""

    def lowered(name: str) -> Any:
        problem = GEMMS[name]
        func = build_gemm(*problem, traced=True).get_tir(**default_config(*problem[:3]))
        return func.with_attr("global_symbol", "gemm_" + name.replace(" ", "_"))

    def get(name: str) -> Traced:
        if not compiled:
            made = machine_code([lowered(one) for one in GEMMS], cuda_target, compile_cubin)
            compiled.update(zip(GEMMS, made))
        return Traced(*compiled[name])

    return get


@pytest.mark.nvcc
@pytest.mark.parametrize("name", GEMMS)
def test_gemm_reads_its_clocks_where_its_markers_stand(gemm: Callable[[str], Traced], name: str) -> None:
    traced = gemm(name)
    traced.check()
    consumers = [group.name for group in traced.table.groups[1:]]
    assert len(consumers) == (1 if name == "flat" else 2)
    # Every marker once on every path: none dropped, none read twice, none out of turn.
    traced.check_flow("producer", PRODUCER)
    for consumer in consumers:
        traced.check_flow(consumer, CONSUMER)
    assert strays_of_gemm(traced) == []
    # Each consumer's WGMMA stands inside its own range.
    products = traced.find("HGMMA")
    own = [[at for at in products if not traced.strays([at], traced.inside("mma", group=one))] for one in consumers]
    assert sorted(itertools.chain(*own)) == products
    assert len({len(found) for found in own}) == 1


def strays_of_gemm(traced: Traced) -> list[str]:
    """The instructions of the production GEMM that stand outside the ranges around them in its source."""
    loads, products = traced.find("UTMALDG"), traced.find("HGMMA")
    waits, arrivals = set(traced.find("SYNCS.PHASECHK")), set(traced.find("SYNCS.ARRIVE"))
    # What waits and arrives on a path with TMA loads is the producer's, and on one with WGMMA a consumer's: the
    # producer waits for empty stages and fills them, a consumer waits for full ones and gives them back.
    produces, consumes = (
        {at for at in waits | arrivals if at in behind or traced.function.reachable([at]) & set(work)}
        for work, behind in ((work, traced.function.reachable(work)) for work in (loads, products))
    )
    assert not produces & consumes
    assert produces | consumes == waits | arrivals
    expected = [
        (loads, traced.inside("tma")),
        (waits & produces, traced.inside("acquire")),
        (waits & consumes, traced.inside("wait")),
        (arrivals & produces, traced.inside("tma", "arrive")),
        (arrivals & consumes, traced.inside("mma")),
        (products, traced.inside("mma")),
        (traced.find("WARPGROUP.ARRIVE"), traced.inside("mma")),
        (traced.find("WARPGROUP.DEPBAR"), traced.inside("mma", "drain")),
        # The sums are converted, staged and stored in the epilogue. TMA's stores are waited for with DEPBAR.
        (traced.find("F2FP", "STS", "MEMBAR", "UTMASTG", "UTMACMDFLUSH", "DEPBAR"), traced.inside("epilogue")),
        (traced.find("BAR"), traced.inside("epilogue") | {None}),  # and one at the kernel's start
    ]
    assert all(positions for positions, _ in expected)
    return [stray for positions, sites in expected for stray in traced.strays(sorted(positions), sites)]


# ---------------------------------------------------------------------------------------------------------------------
# That these checks can fail

DOCTORED = [
    # what is moved, the marker that it is moved across, and whether to before or behind it
    ("UTMALDG", "+tma", "before"),
    ("SYNCS.ARRIVE", "+tma", "before"),
    ("SYNCS.PHASECHK", "+acquire", "before"),
    ("SYNCS.PHASECHK", "+wait", "before"),
    ("HGMMA", "+mma", "before"),
    ("UTMALDG", "-tma", "behind"),
    ("HGMMA", "-mma", "behind"),
    ("WARPGROUP.DEPBAR", "-mma", "behind"),
    ("WARPGROUP.DEPBAR", "-drain", "behind"),
    ("F2FP", "+epilogue", "before"),
    ("UTMASTG", "-epilogue", "behind"),
    ("DEPBAR", "-epilogue", "behind"),
]


@pytest.mark.nvcc
@pytest.mark.parametrize(("opcode", "event", "side"), DOCTORED)
def test_an_instruction_swapped_with_a_clock_read_is_noticed(
    gemm: Callable[[str], Traced], opcode: str, event: str, side: str
) -> None:
    traced = gemm("flat")
    marks = sorted(at for at, site in traced.clocks.sites.items() if event in traced.label(site).split())
    found = traced.find(opcode)
    if side == "before":
        mark = next(mark for mark in marks if any(at > mark for at in found))
        at, to = next(at for at in found if at > mark), mark
    else:
        mark = next(mark for mark in marks if any(at < mark for at in found))
        at, to = next(at for at in reversed(found) if at < mark), mark + 1
    moved = Traced(traced.function.moved(at, to), traced.table)
    assert len(moved.code) == len(traced.code)
    assert any(stray.startswith(f"{traced.code[at]} behind ") for stray in strays_of_gemm(moved))


@pytest.mark.nvcc
def test_a_clock_read_before_the_branch_on_a_waits_result_is_noticed(gemm: Callable[[str], Traced]) -> None:
    traced = gemm("flat")
    clock = min(at for at, site in traced.clocks.sites.items() if "-wait" in traced.label(site))
    branch = max(at for at in traced.find("BRA") if at < clock)
    assert traced.code[branch].conditional
    moved = Traced(traced.function.moved(clock, branch), traced.table)
    with pytest.raises(AssertionError, match=r"-wait.* is read before anything used the result of .*PHASECHK"):
        moved.check()


@pytest.mark.nvcc
def test_a_clock_read_that_is_missing_or_there_twice_is_noticed(gemm: Callable[[str], Traced]) -> None:
    traced = gemm("flat")
    for clock in traced.clocks.sites:
        with pytest.raises(AssertionError):
            checked_flow(traced.function.without(clock), traced.table)
    for clock in traced.clocks.sites:
        line = traced.code[clock].line
        twice = Function("gemm", traced.function.lines[: line + 1] + traced.function.lines[line:])
        with pytest.raises(AssertionError, match="is not stored"):
            checked_flow(twice, traced.table)


def checked_flow(function: Function, table: SiteTable) -> None:
    traced = Traced(function, table)
    traced.check()
    traced.check_flow("producer", PRODUCER)
    traced.check_flow("consumer", CONSUMER)
