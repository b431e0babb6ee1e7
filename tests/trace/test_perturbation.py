"""The helper that measures what tracing costs: what it runs and what it says; no times are asserted."""

from __future__ import annotations

import collections

import pytest

from tileops.trace import TraceError
from tileops.trace.perturbation import Perturbation, measure


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
