"""Paced time runs as many times as fast as a test says; real time and Unix time never do, and nobody gets it by chance."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.clock import FakeClock, SystemClock
from exporter.domain.errors import ConfigError
from exporter.domain.time_scale import CONSENT, CONSENT_VARIABLE, REAL, SCALE_VARIABLE, TimeScale, time_scale
from tests.scaled import scaled

FACTORS = (1.0, 2.5, 720.0)


def between(first: Callable[[], float], middle: Callable[[], float]) -> tuple[float, float, float]:
    """A reading of one clock, with one of another before and after it."""
    before = first()
    read = middle()
    return before, read, first()


@pytest.mark.parametrize("factor", FACTORS)
def test_paced_and_steady_time_run_factor_times_as_fast_as_the_machine(factor: float) -> None:
    clock = SystemClock(TimeScale(factor, time.time() - 5.0))
    for read in (clock.paced, clock.steady):
        first = between(clock.monotonic, read)
        until = clock.monotonic() + 0.05
        while clock.monotonic() < until:
            pass
        last = between(clock.monotonic, read)

        paced = last[1] - first[1]
        assert (last[0] - first[2]) * factor <= paced + 1e-3
        assert paced <= (last[2] - first[0]) * factor + 1e-3


@pytest.mark.parametrize("factor", FACTORS)
def test_unix_time_and_monotonic_time_are_those_of_the_machine(factor: float) -> None:
    clock = SystemClock(TimeScale(factor, 1.0))
    before, read, after = between(time.time, clock.wall)
    assert before <= read <= after
    before, read, after = between(time.monotonic, clock.monotonic)
    assert before <= read <= after


def test_both_times_agree_at_the_anchor_in_every_process_that_is_told_it() -> None:
    anchor = time.time() - 10.0
    clocks = [SystemClock(TimeScale(720.0, anchor)) for _ in range(3)]
    before = time.time()
    read = [clock.steady() for clock in clocks]
    after = time.time()

    for steady in read:
        assert anchor + (before - anchor) * 720.0 - 1.0 <= steady <= anchor + (after - anchor) * 720.0 + 1.0
    assert all(later >= earlier - 1.0 for earlier, later in pairwise(read))


@given(st.floats(-1e6, 1e6), st.sampled_from(FACTORS))
def test_a_moment_is_the_same_in_unix_and_in_steady_time(ago: float, factor: float) -> None:
    clock = SystemClock(TimeScale(factor, time.time()))
    # In between, too: a millisecond that others take of the processor is most of a second at the largest factor.
    walls: list[float] = []

    def moment() -> float:
        walls.append(clock.wall() + ago)
        return clock.steady_at(walls[-1])

    before, steady, after = between(clock.steady, moment)

    assert before + ago * factor - 1.0 <= steady <= after + ago * factor + 1.0
    assert clock.wall_at(steady) == pytest.approx(walls[-1], abs=0.1)


def test_waits_shrink_with_the_factor() -> None:
    assert SystemClock(TimeScale(720.0, 0.0)).real(240.0) == pytest.approx(1 / 3)
    assert SystemClock().real(240.0) == 240.0


def test_without_a_scale_all_times_are_real() -> None:
    clock = SystemClock()
    before, read, after = between(clock.monotonic, clock.paced)
    assert before <= read <= after
    before, read, after = between(time.time, clock.steady)
    # Both readings of the anchor were taken one after the other.
    assert before - 0.1 <= read <= after + 0.1


def test_a_stepped_fake_clock_tells_the_steady_time_of_what_its_wall_clock_says() -> None:
    clock = FakeClock()
    clock.step(-3600.0)
    assert clock.steady_at(clock.wall()) == clock.steady()
    assert clock.wall_at(clock.steady()) == clock.wall()


def test_the_environment_of_a_test_is_believed() -> None:
    environ = scaled(720.0)
    assert time_scale(environ).factor == 720.0
    assert time_scale(environ).anchor == pytest.approx(time.time(), abs=60.0)
    assert time_scale({}) == REAL
    assert time_scale({CONSENT_VARIABLE: CONSENT}) == REAL


@pytest.mark.parametrize("consent", [None, "", "1", "yes", "true", CONSENT.upper()])
def test_a_scale_is_refused_where_nobody_said_that_this_is_a_test(consent: str | None) -> None:
    environ = {SCALE_VARIABLE: "720@1800000000"} | ({} if consent is None else {CONSENT_VARIABLE: consent})
    with pytest.raises(ConfigError, match=f"{SCALE_VARIABLE}: .*only the tests.*Unset it"):
        time_scale(environ)


@pytest.mark.parametrize(
    "text",
    ["", "720", "@", "720@", "@5", "fast@5", "720@now", "0.5@5", "0@5", "-3@5", "nan@5", "inf@5", "1e9@5", "2@inf"],
)
def test_what_is_no_scale_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="FACTOR@ANCHOR"):
        time_scale({SCALE_VARIABLE: text, CONSENT_VARIABLE: CONSENT})
