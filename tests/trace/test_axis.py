"""The nanosecond axis against launches whose true times are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops.trace.axis import Axis, fit_axis

STEP = 32


@dataclass
class Truth:
    """A made-up launch: where its CTAs really lie, and what they read."""

    sm: np.ndarray
    begin_ns: np.ndarray
    end_ns: np.ndarray
    clock: np.ndarray
    timer: np.ndarray

    def axis(self, finished: np.ndarray | None = None) -> Axis:
        if finished is None:
            finished = np.ones(len(self.sm), dtype=bool)
        return fit_axis(self.sm, self.clock, self.timer, self.clock[:, 0], finished)

    @property
    def cycles(self) -> np.ndarray:
        return (self.clock[:, -1] - self.clock[:, 0]).view(np.int64)

    def ghz(self, axis: Axis) -> np.ndarray:
        return axis.ghz(self.cycles)


def launch(
    rates: np.ndarray,
    length_ns: float,
    waves: int = 1,
    seed: int = 0,
    step: int = STEP,
    drift: float = 0.0,
    gap_ns: float = 800.0,
) -> Truth:
    """CTAs of about ``length_ns``, one after the other on each SM.

    Args:
        rates: (SMs,) GHz.
        length_ns: of a CTA, give or take a tenth.
        waves: CTAs of each SM.
        seed: of the random numbers.
        step: of the timer.
        drift: how much faster the clocks are at the end of the launch, as a part of their rate.
        gap_ns: between the CTAs of an SM.
    """
    random = np.random.default_rng(seed)
    sms = len(rates)
    lengths = length_ns * random.uniform(0.9, 1.1, (waves, sms))
    begin = np.cumsum(lengths + gap_ns, axis=0) - lengths + random.uniform(0, 500, sms)
    begin, end, sm = begin.reshape(-1), (begin + lengths).reshape(-1), np.tile(np.arange(sms), waves)
    origin = random.integers(0, 1 << 64, sms, dtype=np.uint64)
    origin[0] = (1 << 64) - 1000  # this one wraps within the launch

    def clock(t: np.ndarray) -> np.ndarray:
        cycles = rates[sm] * (t + drift * t * t / (2 * end.max()))
        return origin[sm] + cycles.astype(np.uint64)

    def timer(t: np.ndarray) -> np.ndarray:
        return (t // step).astype(np.uint64) * np.uint64(step) + np.uint64(1_700_000_000_000_000_000 // step * step)

    return Truth(
        sm, begin, end, np.stack([clock(begin), clock(end)], axis=1), np.stack([timer(begin), timer(end)], axis=1)
    )


def begins(axis: Axis) -> np.ndarray:
    ctas = np.arange(len(axis.zero))
    return axis.nanoseconds(ctas, np.zeros_like(ctas))


def worst(axis: Axis, truth: Truth) -> float:
    """How far the axis is from the truth, at most, if their zeros are laid where that is least."""
    end_ns = axis.nanoseconds(np.arange(len(truth.sm)), truth.cycles)
    off = np.concatenate([begins(axis) - truth.begin_ns, end_ns - truth.end_ns])
    return float(off.max() - off.min()) / 2


@pytest.mark.parametrize(("length_ns", "waves"), [(2_000, 1), (2_000, 4), (20_000, 2), (300_000, 3), (10_000_000, 1)])
def test_one_clock_for_all_sms(length_ns: float, waves: int) -> None:
    truth = launch(np.full(132, 1.755), length_ns, waves)
    axis = truth.axis()
    # A reading is rounded by 9 ns (rms); 264 of them and more are averaged, so the rate is known ten times as well.
    assert truth.ghz(axis) == pytest.approx(1.755, rel=5 * 9.3 / length_ns / 10)
    assert np.ptp(truth.ghz(axis)) < 1e-5
    assert worst(axis, truth) <= axis.error_ns <= 1.5 * STEP


@pytest.mark.parametrize("length_ns", [100_000, 1_000_000, 10_000_000])
def test_each_sm_has_a_rate_of_its_own(length_ns: float) -> None:
    rates = np.linspace(0.35, 1.98, 40)
    truth = launch(rates, length_ns, waves=3)
    axis = truth.axis()
    assert truth.ghz(axis) == pytest.approx(rates[truth.sm], rel=STEP / length_ns)
    # All of an SM's readings are one line.
    assert all(np.ptp(truth.ghz(axis)[truth.sm == sm]) < 1e-5 for sm in range(len(rates)))
    assert worst(axis, truth) <= axis.error_ns <= 1.5 * STEP


def test_a_clock_that_changes_during_the_launch_is_followed_cta_by_cta() -> None:
    truth = launch(np.full(8, 1.0), 20_000, waves=50, drift=0.4)
    axis = truth.axis()
    late = truth.begin_ns / truth.end_ns.max()
    assert truth.ghz(axis) == pytest.approx(1 + 0.4 * late, rel=0.01)
    assert worst(axis, truth) <= axis.error_ns <= STEP


def test_a_clock_that_changes_within_a_cta_is_followed_from_reading_to_reading() -> None:
    """A CTA whose four rows end one after the other, while its clock goes from 1.4 to 1.7 GHz and back."""
    times = np.array([0.0, 0, 0, 0, 10_000, 20_000, 24_000, 28_000])
    rates = np.array([1.4, 1.7, 1.5, 1.6])
    clock = np.concatenate([np.zeros(4), np.cumsum(rates * np.diff(times[3:]))]).astype(np.uint64)[None, :]
    timer = (times // STEP * STEP).astype(np.uint64)[None, :]
    axis = fit_axis(np.array([5]), clock, timer, clock[:, 0], np.array([True]))
    assert axis.error_ns <= 1.5 * STEP
    at = clock[0, 3:].astype(np.int64)
    middle = (at[1:] + at[:-1]) // 2
    length_ns = 1000 / (
        axis.nanoseconds(np.zeros(4, int), middle + 500) - axis.nanoseconds(np.zeros(4, int), middle - 500)
    )
    assert length_ns == pytest.approx(rates, rel=0.015)
    assert axis.ghz(at[-1:]) == pytest.approx(at[-1] / 28_000, rel=0.002)


@pytest.mark.parametrize("at_ns", range(5_000, 6_200, 75))
def test_readings_that_are_near_each_other_make_no_rate(at_ns: int) -> None:
    """Two rows end within 40 ns, where the timer says 32 or 64 ns."""
    times = np.array([0.0, 0, at_ns, at_ns + 40, 20_000, 20_000])
    clock = np.where(times > at_ns, at_ns * 1.4 + (times - at_ns) * 1.7, times * 1.4).astype(np.uint64)[None, :]
    timer = (times // STEP * STEP).astype(np.uint64)[None, :]
    axis = fit_axis(np.array([5]), clock, timer, clock[:, 0], np.array([True]))
    at, none = clock[0, 2:4].astype(np.int64), np.zeros(1, int)
    for first in (at[0] - 300, at[0] - 20, at[0] + 10, at[1] + 20, at[1] + 300):
        [took] = axis.nanoseconds(none, first + 30 + none) - axis.nanoseconds(none, first + none)
        assert 30 / took == pytest.approx(1.55, rel=0.12)


def test_one_cta_alone() -> None:
    truth = launch(np.array([1.2]), 2_000)
    axis = truth.axis()
    assert truth.ghz(axis) == pytest.approx([1.2], rel=STEP / 1_800)
    assert begins(axis).tolist() == [0.0]
    assert axis.error_ns >= STEP / 2


def test_readings_that_came_late_do_not_bend_the_rate() -> None:
    truth = launch(np.full(132, 1.755), 4_000, waves=4)
    late = np.arange(0, len(truth.sm), 100)
    truth.timer[late, 0] += np.uint64(10 * STEP)  # an instruction cache miss between clock and timer
    axis = truth.axis()
    assert truth.ghz(axis) == pytest.approx(1.755, rel=0.005)
    assert np.ptp(truth.ghz(axis)) < 1e-5
    assert 8 * STEP <= axis.error_ns <= 11 * STEP  # and the axis says how far off such a reading is


def test_no_frequency_is_assumed() -> None:
    for rate in (0.02, 0.1, 25.0):
        truth = launch(np.full(20, rate), 50_000)
        axis = truth.axis()
        assert truth.ghz(axis) == pytest.approx(rate, rel=0.002)


def test_another_timer_step_is_found() -> None:
    truth = launch(np.full(132, 1.5), 50_000, step=1024)
    axis = truth.axis()
    assert np.ptp(truth.ghz(axis)) < 1e-5  # the same clock, as far as this timer can tell
    assert truth.ghz(axis) == pytest.approx(1.5, rel=0.01)
    assert worst(axis, truth) <= axis.error_ns <= 1.5 * 1024


def test_a_cta_of_no_length_lies_where_its_sm_was() -> None:
    truth = launch(np.full(4, 1.6), 10_000, waves=3)
    truth.clock[5, 1], truth.timer[5, 1] = truth.clock[5, 0], truth.timer[5, 0]
    axis = truth.axis()
    assert np.isfinite(begins(axis)).all()
    assert truth.ghz(axis) == pytest.approx(1.6, rel=0.003)


@pytest.mark.parametrize("still", ["clock", "timer"])
def test_readings_that_span_no_time_give_no_axis(still: str) -> None:
    truth = launch(np.full(4, 1.6), 10_000)
    getattr(truth, still)[:] = getattr(truth, still)[:, :1] if still == "clock" else truth.timer[0, 0]
    axis = truth.axis()
    assert np.isnan(begins(axis)).all()
    assert np.isnan(truth.ghz(axis)).all()
    assert np.isnan(axis.error_ns)


def test_ctas_that_did_not_finish_have_no_place() -> None:
    truth = launch(np.full(8, 1.6), 10_000, waves=2)
    truth.clock[::3], truth.timer[::3] = 7, 1 << 63
    finished = np.ones(len(truth.sm), dtype=bool)
    finished[::3] = False
    axis = truth.axis(finished)
    assert np.isnan(begins(axis)[::3]).all()
    assert np.isnan(truth.ghz(axis)[::3]).all()
    assert np.isfinite(begins(axis)[finished]).all()
    assert np.nanmin(begins(axis)) == 0
    assert truth.ghz(axis)[finished] == pytest.approx(1.6, rel=0.003)
    nothing = truth.axis(np.zeros(len(truth.sm), dtype=bool))
    assert np.isnan(begins(nothing)).all()


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 5), st.floats(300, 1e6), st.floats(0.35, 1.98), st.floats(0, 0.5),
    st.sampled_from([0.0, 0.02, 0.4]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_the_error_is_never_understated(
    sms: int, waves: int, length_ns: float, rate: float, spread: float, drift: float, seed: int
) -> None:
    rates = rate * (1 + spread * np.random.default_rng(seed).uniform(0, 1, sms))
    truth = launch(rates, length_ns, waves, seed, drift=drift)
    axis = truth.axis()
    if np.isnan(axis.error_ns):  # shorter than a step of the timer
        assert np.ptp(truth.timer) < 2 * STEP
        return
    assert worst(axis, truth) <= axis.error_ns + 2  # a clock is read in whole cycles, of up to 3 ns
    # What lies within a CTA in cycles lies within it in nanoseconds, exactly.
    cycles, cta = truth.cycles, np.arange(len(truth.sm))
    inner = axis.nanoseconds(cta, cycles // 3)
    length = axis.nanoseconds(cta, cycles) - inner
    assert (inner >= begins(axis)).all()
    assert (inner + length == axis.nanoseconds(cta, cycles)).all()
