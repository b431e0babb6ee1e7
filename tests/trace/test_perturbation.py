"""The helper that measures what tracing costs: what it runs and what it says; no times are asserted."""

from __future__ import annotations

import collections
import functools
import gc
from typing import Any

import pytest
import torch

from tileops.trace import Trace, TraceError
from tileops.trace.perturbation import Perturbation, measure
from tileops.trace.told import told

from .building import T, cpu_kernel, trace


def test_both_builds_run_as_often_in_the_timed_rounds_and_get_the_inputs() -> None:
    calls: collections.Counter[str] = collections.Counter()

    def build(name: str):
        def run(a: int, b: int) -> None:
            assert (a, b) == (1, 2)
            calls[name] += 1
            sum(range(100_000))  # some work, so that the batch is of a sane size

        return run

    found = measure(build("stripped"), build("traced"), (1, 2), rounds=7)
    assert found.rounds == 7
    # Only the stripped build is run three times more, to size the batch.
    assert calls["stripped"] - 3 == calls["traced"] >= 3 + 7
    assert found.low <= found.ratio <= found.high


@pytest.mark.parametrize("rounds", [0, -1, True, 1.5, None])
def test_rounds_must_be_a_positive_number(rounds: object) -> None:
    with pytest.raises(TraceError, match="rounds must be an int of at least 1"):
        measure(print, print, (), rounds)  # type: ignore[arg-type]


def test_the_text_never_contradicts_the_ratio() -> None:
    text = str(Perturbation(1.012, 1.005, 1.020, stripped_us=195.0, traced_us=190.25, rounds=40))
    assert text.startswith("tracing made this kernel 1.2% slower")
    assert "190.25" not in text
    assert "+0.5% and +2.0%" in text
    assert "faster" in str(Perturbation(0.99, 0.98, 1.0, 10.0, 9.9, 5))


@functools.cache
def kernel(traced: bool) -> Any:
    def make() -> Any:
        @T.prim_func
        def doubled(a: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
            with T.Kernel(8, threads=1) as bx:
                with trace.range("double"):
                    for i in T.serial(8):
                        b[bx * 8 + i] = a[bx * 8 + i] * 2.0

        return doubled

    return cpu_kernel(make, traced=traced, max_events=8)


def test_what_was_measured_is_in_every_later_recording_of_that_kernel() -> None:
    tracer, inputs = Trace(), (torch.ones(64),)
    slots = kernel(True)(*inputs)[-1]
    assert "perturbation" not in tracer.fetch(kernel(True), slots).meta
    found = tracer.perturbation(kernel(False), kernel(True), inputs, rounds=3)
    assert found.rounds == 3
    for meta in (tracer.fetch(kernel(True), slots).meta, tracer.decode(kernel(True), slots).meta):
        assert meta["perturbation"] == {
            "ratio": found.ratio, "low": found.low, "high": found.high, "stripped_us": found.stripped_us,
            "traced_us": found.traced_us, "rounds": 3,
        }  # fmt: skip
        assert str(found) in told(meta)
    assert "perturbation" not in Trace().fetch(kernel(True), slots).meta


def test_the_newest_measurement_counts() -> None:
    tracer, inputs = Trace(), (torch.ones(64),)
    for rounds in (1, 2):
        tracer.perturbation(kernel(False), kernel(True), inputs, rounds=rounds)
    assert tracer.decode(kernel(True), kernel(True)(*inputs)[-1]).meta["perturbation"]["rounds"] == 2


def test_kernels_in_the_wrong_order_are_refused() -> None:
    inputs = (torch.ones(64),)
    with pytest.raises(TraceError, match="first kernel was built for tracing"):
        Trace().perturbation(kernel(True), kernel(False), inputs)
    with pytest.raises(TraceError, match="second kernel was not built for tracing"):
        Trace().perturbation(kernel(False), kernel(False), inputs)
    with pytest.raises(TraceError, match="expected a compiled kernel"):
        Trace().perturbation(print, kernel(True), inputs)


def test_a_kernel_is_not_kept_for_its_measurement() -> None:
    class Passing:  # TileLang keeps the kernels that it compiled, so it takes another one to go away
        prim_func = kernel(True).prim_func

        def __call__(self, *inputs: Any) -> Any:
            return kernel(True)(*inputs)

    tracer, passing = Trace(), Passing()
    tracer.perturbation(kernel(False), passing, (torch.ones(64),), rounds=1)
    assert len(tracer._perturbations) == 1
    del passing
    gc.collect()
    assert len(tracer._perturbations) == 0
