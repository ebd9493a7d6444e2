"""The second level: what six-hour windows differ by beyond their own uncertainty."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from exporter.overhead.ratio import Ratio
from exporter.overhead.tau import MOST_WINDOWS, WINDOW, Wandering, WindowEstimate, tau_of, window_estimate
from exporter.overhead.two_level import DEFAULT_TAU


def windows(tau: float, error: float, count: int, seed: int = 1) -> list[WindowEstimate]:
    random = np.random.default_rng(seed)
    return [
        WindowEstimate(WINDOW * place, float(random.normal(0.1, math.hypot(tau, error))), error)
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
    wandering = Wandering()
    assert wandering.newest() == -math.inf
    for window in windows(0.05, 0.01, 60):
        wandering.add("50", window)
        wandering.add("50", window)
    assert wandering.tau("50") == tau_of(windows(0.05, 0.01, 60)[-MOST_WINDOWS:])
    assert wandering.tau("99") == DEFAULT_TAU
    assert wandering.newest() == 59 * WINDOW
    # A week later all of them are too old.
    wandering.add("50", WindowEstimate(WINDOW * 100, 0.1, 0.01))
    assert wandering.tau("50") == DEFAULT_TAU
    wandering.clear()
    assert wandering.newest() == -math.inf


def test_the_state_survives() -> None:
    wandering = Wandering()
    for window in windows(0.05, 0.01, 20):
        wandering.add("50", window)
        wandering.add("cpu", window)
    state = json.loads(json.dumps(wandering.to_state()))
    found = Wandering.from_state(state)
    assert found.to_state() == state
    assert found.tau("cpu") == wandering.tau("cpu") != DEFAULT_TAU
    for damaged in (
        {},
        {"version": 9, "windows": {}},
        {"version": 1, "windows": []},
        {"version": 1, "windows": {"50": [[1.0, 2.0]]}},
        {"version": 1, "windows": {"50": [[1.0, math.nan, 0.1]]}},
        {"version": 1, "windows": {"50": [[1.0, 0.1, -0.1]]}},
        {"version": 1, "windows": {"50": 3}},
    ):
        with pytest.raises(ValueError, match="windows"):
            Wandering.from_state(damaged)
