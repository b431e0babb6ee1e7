"""Which events and CTAs are recorded, as users choose it: in finalize, or for all kernels by enable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tileops.trace import TraceError, probe, trace
from tileops.trace.lowering import MOST_EVENTS

from .building import T, cpu_kernel

BLOCKS, STEPS = 5, 10


def steps(blocks: Any = BLOCKS) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((blocks,), "float32"), b: T.Tensor((blocks,), "float32")):
        with T.Kernel(blocks, threads=1) as bx:
            for i in T.serial(STEPS):
                with trace.range("step", payload=i):
                    b[bx] = a[bx] * 2

    return kernel


@pytest.fixture(autouse=True)
def switched_off(tmp_path: Path) -> Iterator[None]:
    yield
    trace.disable()


def recorded(kernel: Any) -> dict[int, list[int]]:
    slices = trace.decode(kernel, kernel(torch.ones(BLOCKS))[1]).slices
    ctas = sorted({*slices["cta"].tolist()})
    return {cta: slices.where(cta=cta).payload.astype(int).tolist() for cta in ctas}


def test_enable_chooses_for_kernels_that_do_not_say(tmp_path: Path) -> None:
    trace.enable(str(tmp_path), keep="last", ctas=[3, 1])
    # An end and the next begin share a record, so eight records hold seven steps.
    assert recorded(cpu_kernel(steps, max_events=8)) == {cta: [*range(3, STEPS)] for cta in (1, 3)}
    assert [*recorded(cpu_kernel(steps, max_events=8, keep="first", ctas=slice(None)))] == [*range(BLOCKS)]
    trace.disable()
    assert [*recorded(cpu_kernel(steps, max_events=64))] == [*range(BLOCKS)]


def test_what_enable_chooses_does_not_reach_the_probe(tmp_path: Path) -> None:
    probe._found.cache_clear()
    trace.enable(str(tmp_path), keep="last", ctas=[2])
    kernel = cpu_kernel(steps, max_events=64)
    timeline = trace.decode(kernel, kernel(torch.ones(BLOCKS))[1], compensate=True)
    assert timeline.meta["probe"]["plain"] > 0


def test_enable_keeps_what_a_list_or_an_iterator_holds_now(tmp_path: Path) -> None:
    chosen = [0, 2]
    trace.enable(str(tmp_path), ctas=chosen)
    chosen.append(4)
    for _ in range(2):
        assert [*recorded(cpu_kernel(steps, max_events=64))] == [0, 2]
    trace.enable(str(tmp_path), ctas=(number for number in (1, 3)))
    for _ in range(2):
        assert [*recorded(cpu_kernel(steps, max_events=64))] == [1, 3]


@pytest.mark.parametrize(
    "ctas", [5, 2.5, "everything", [], [-1], [True], slice(3, 1), slice(None, None, -1), b"\x00", {0: 1}]
)
def test_what_is_no_choice_is_refused_where_it_is_made(ctas: Any, tmp_path: Path) -> None:
    for where, call in (
        ("enable", lambda: trace.enable(str(tmp_path), ctas=ctas)),
        ("finalize", lambda: trace.finalize(steps(), traced=False, ctas=ctas)),
        ("ctas", lambda: trace.finalize(steps(), traced=True, ctas=ctas)),
    ):
        with pytest.raises(TraceError, match=rf"{where}.*ctas|ctas"):
            call()


@pytest.mark.parametrize("traced", [True, False])
def test_other_mistakes_show_whether_tracing_is_on_or_off(traced: bool) -> None:
    with pytest.raises(TraceError, match=r'keep must be "first" or "last".*\'middle\''):
        trace.finalize(steps(), traced=traced, keep="middle")


def test_a_choice_of_enable_that_a_grid_lacks_names_enable(tmp_path: Path) -> None:
    trace.enable(str(tmp_path), ctas=[0, 100])
    with pytest.raises(TraceError, match=r"ctas of trace\.enable: the grid has CTAs 0 to 4, got \(0, 100\)"):
        trace.lower(steps())


def test_a_launch_without_a_chosen_cta_says_so() -> None:
    kernel = cpu_kernel(lambda: steps(T.dynamic("n")), max_events=64, ctas=slice(2, None))
    assert len(trace.decode(kernel, kernel(torch.ones(4))[1]).ctas) == 2
    with pytest.raises(TraceError, match="grid of this launch has none of them"):
        trace.decode(kernel, torch.zeros_like(kernel(torch.ones(2))[1]))


@pytest.mark.parametrize("events", [MOST_EVENTS + 1, 1 << 31, 1 << 63])
def test_more_events_than_a_row_can_hold_are_refused(events: int) -> None:
    with pytest.raises(TraceError, match=r"max_events can be 16,777,216 at most"):
        trace.lower(steps(), events)


def test_numbers_of_numpy_are_numbers() -> None:
    kernel = cpu_kernel(steps, max_events=np.int64(64), ctas=np.array([1, 4]))
    assert [*recorded(kernel)] == [1, 4]


@pytest.mark.parametrize("traced", ["yes", 1, [True]])
def test_traced_is_a_truth_value(traced: Any) -> None:
    with pytest.raises(TraceError, match="traced must be True, False, or None"):
        trace.finalize(steps(), traced=traced)
