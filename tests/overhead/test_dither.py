"""A coarse clock must widen the interval, not sharpen it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from exporter.overhead.dither import dither
from exporter.overhead.pex import paired_exceedance

TICK = 50e-6


def coarse(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(1, np.round(np.exp(logs) / TICK)) * TICK)


def test_fine_data_and_no_data_come_back_unchanged() -> None:
    random = np.random.default_rng(1)
    for size in (60, 7200):
        fine = random.normal(-8, 0.25, size).astype(np.float32), random.normal(-8, 0.25, size).astype(np.float32)
        same = dither(*fine)
        assert same[0] is fine[0]
        assert same[1] is fine[1]
    nothing = np.empty(0)
    assert dither(nothing, nothing)[0].size == 0
    timeouts = np.full(5, np.inf)
    assert (dither(timeouts, timeouts)[0] == np.inf).all()


def test_a_reading_moves_by_half_a_tick_at_most_and_a_timeout_not_at_all() -> None:
    logs = coarse(np.random.default_rng(2).normal(-8, 0.5, 1000))
    logs[7] = np.inf
    spread, other = dither(logs, logs)
    finite = np.isfinite(logs)
    assert np.abs(np.exp(spread[finite]) - np.exp(logs[finite])).max() <= TICK / 2 * 1.0001
    assert spread[7] == np.inf
    assert not np.array_equal(spread, other)
    assert np.unique(spread).size > 900


def test_the_interval_is_honest_about_a_coarse_clock() -> None:
    """A true ratio of 1.05 hides in a tick that is a fifth of the median: raw readings say "exactly 1"."""
    blocks, truth, windows = np.repeat(np.arange(12), 100), 1.05, 100
    covered = {"raw": 0, "spread": 0}
    for seed in range(windows):
        random = np.random.default_rng(seed)
        plain = random.normal(math.log(0.25e-3), 0.25, 1200)
        encrypted = random.normal(math.log(0.25e-3 * truth), 0.25, 1200)
        sides = coarse(encrypted), coarse(plain)
        for name, (mine, theirs) in {"raw": sides, "spread": dither(*sides)}.items():
            found = paired_exceedance(mine, blocks, theirs, blocks, 0.5)
            assert found is not None
            assert found.lower is not None
            assert found.upper is not None
            covered[name] += found.lower <= truth <= found.upper
    assert covered["spread"] >= 88
    assert covered["raw"] < 20
