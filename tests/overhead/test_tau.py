"""The second level: what six-hour windows differ by beyond their own uncertainty."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from exporter.overhead.ratio import Ratio
from exporter.overhead.tau import HOUR, SIX_HOURS, WEEK, Wandering, WindowEstimate, tau_of, window_estimate
from exporter.overhead.two_level import DEFAULT_TAU


def windows(tau: float, error: float, count: int, seed: int = 1) -> list[WindowEstimate]:
    random = np.random.default_rng(seed)
    return [
        WindowEstimate(SIX_HOURS * place, float(random.normal(0.1, math.hypot(tau, error))), error)
        for place in range(count)
    ]


def test_tau_is_what_is_left_of_the_scatter() -> None:
    found = [tau_of(windows(0.04, 0.02, 28, seed)) ** 2 for seed in range(100)]
    assert np.mean(found) == pytest.approx(0.04**2, rel=0.1)
    assert tau_of(windows(0.0, 0.05, 28, 2)) < 0.03
    assert tau_of([WindowEstimate(0.0, 0.1, 0.5)] * 14) == 0.0


def test_fewer_than_fourteen_windows_assume_three_per_cent() -> None:
    assert tau_of(windows(0.2, 0.01, 13)) == DEFAULT_TAU == 0.03
    assert tau_of(windows(0.2, 0.01, 14)) > 0.1
    assert tau_of([]) == DEFAULT_TAU


def test_what_is_told_follows_what_is_learned() -> None:
    wandering = Wandering(SIX_HOURS)
    assert (wandering.tau("50"), wandering.to_state()["windows"]) == (DEFAULT_TAU, {})
    for window in windows(0.2, 0.01, 14):
        wandering.add("50", window)
    assert wandering.tau("50") > 0.1
    told = wandering.to_state()
    assert len(told["windows"]["50"]) == 14
    wandering.add("50", windows(0.2, 0.01, 14)[-1])
    assert wandering.to_state() is told

    wandering.clear()
    assert (wandering.tau("50"), wandering.to_state()["windows"]) == (DEFAULT_TAU, {})


def test_the_error_of_a_window_is_that_of_its_interval() -> None:
    ratio = Ratio(1.1, 1.1 * math.exp(-0.2), 1.1 * math.exp(0.2), 700)
    window = window_estimate(7.0, ratio)
    assert window is not None
    assert window.start == 7.0
    assert window.log_ratio == pytest.approx(math.log(1.1))
    assert window.error == pytest.approx(0.2 / 1.959964)
    window = window_estimate(7.0, ratio, 5)
    assert window is not None
    assert window.error == pytest.approx(0.2 / 2.570582)
    for unknown in (None, Ratio(None, 1.0, 2.0, 7), Ratio(1.1, None, 2.0, 7), Ratio(1.1, 1.0, None, 7)):
        assert window_estimate(7.0, unknown) is None


def test_a_week_is_remembered_and_windows_do_not_count_twice() -> None:
    wandering = Wandering(SIX_HOURS)
    assert wandering.newest() == -math.inf
    for window in windows(0.05, 0.01, 60):
        wandering.add("50", window)
        wandering.add("50", window)
    assert wandering.tau("50") == tau_of(windows(0.05, 0.01, 60)[-28:])
    assert wandering.tau("99") == DEFAULT_TAU
    assert wandering.newest() == 59 * SIX_HOURS
    # A week later all of them are too old.
    wandering.add("50", WindowEstimate(SIX_HOURS * 100, 0.1, 0.01))
    assert wandering.tau("50") == DEFAULT_TAU
    wandering.clear()
    assert wandering.newest() == -math.inf


def test_a_week_of_hours_is_small() -> None:
    wandering = Wandering(HOUR)
    for place in range(400):
        for figure in ("50", "99", "cpu"):
            wandering.add(figure, WindowEstimate(HOUR * place, -0.123456789, 0.0123456789))
    kept = wandering.to_state()["windows"]["99"]
    assert len(kept) == WEEK / HOUR
    assert len(json.dumps(wandering.to_state())) < 20_000


def test_the_state_survives() -> None:
    wandering = Wandering(SIX_HOURS)
    for window in windows(0.05, 0.01, 20):
        wandering.add("50", window)
        wandering.add("cpu", window)
    state = json.loads(json.dumps(wandering.to_state()))
    found = Wandering.from_state(SIX_HOURS, state)
    assert found.to_state() == state
    assert found.tau("cpu") == pytest.approx(wandering.tau("cpu"), rel=1e-3)
    assert found.tau("cpu") != DEFAULT_TAU
    for damaged in (
        {},
        {**state, "version": 9},
        {**state, "length": HOUR},
        {**state, "windows": []},
        {**state, "windows": {"50": [[1.0, 2.0]]}},
        {**state, "windows": {"50": [[1.0, math.nan, 0.1]]}},
        {**state, "windows": {"50": [[1.0, 0.1, -0.1]]}},
        {**state, "windows": {"50": 3}},
    ):
        with pytest.raises(ValueError, match="windows"):
            Wandering.from_state(SIX_HOURS, damaged)
