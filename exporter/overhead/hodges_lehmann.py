"""Hodges-Lehmann estimate of a ratio from paired log ratios, with the signed-rank interval.

The estimate is the median of all pairwise means (Walsh averages); the interval is the set of shifts
that Wilcoxon's signed-rank test does not reject (Hollander and Wolfe, Nonparametric Statistical
Methods, 3.2 and 3.3). Exact null distribution up to 60 units, normal approximation above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporter.overhead.ratio import Ratio, exponential

FEWEST_UNITS = 6
"""With fewer there is no two-sided 95 % interval at all: 2 / 2**5 is more than 0.05."""
_MOST_EXACT = 60


def hodges_lehmann(log_ratios: Sequence[float], confidence: float = 0.95) -> Ratio | None:
    """The ratio behind `log_ratios` (natural logarithms, one per independent unit).

    None without units. With one to five units there is an estimate but no interval. A unit of +inf
    (the encrypted side timed out) or -inf (the plain side did) takes its place in the order without
    a value of its own: whatever would depend on its value becomes None. Raises ValueError on NaN:
    a unit in which both sides timed out says nothing about the ratio and must be left out.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    if values.size == 0:
        return None
    if np.isnan(values).any():
        raise ValueError("a log ratio is a number, +inf or -inf")
    lows, highs = _walsh_averages(values)
    count = lows.size
    below = _lower_place(values.size, confidence)
    places = {(count - 1) // 2, count // 2}
    if below is not None:
        places |= {below, count - 1 - below}
    lows, highs = np.partition(lows, sorted(places)), np.partition(highs, sorted(places))
    estimate = _middle([lows[(count - 1) // 2], lows[count // 2], highs[(count - 1) // 2], highs[count // 2]])
    if below is None:
        return Ratio(estimate, None, None, values.size)
    return Ratio(estimate, exponential(float(lows[below])), exponential(float(highs[count - 1 - below])), values.size)


def _walsh_averages(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """All pairwise means, n (n + 1) / 2 of them, at their lowest and at their highest.

    The two differ only where +inf meets -inf: that mean may be anything.
    """
    first, second = np.triu_indices(values.size)
    with np.errstate(invalid="ignore"):
        means = 0.5 * (values[first] + values[second])
    open_ended = np.isnan(means)
    if not open_ended.any():
        return means, means
    return np.where(open_ended, -np.inf, means), np.where(open_ended, np.inf, means)


def _middle(candidates: list[Any]) -> float | None:
    if not all(math.isfinite(candidate) for candidate in candidates):
        return None
    return exponential(float(sum(candidates) / len(candidates)))


@lru_cache(maxsize=256)
def _lower_place(units: int, confidence: float) -> int | None:
    """The 0-based place of the lower bound among the ascending Walsh averages; None when no interval exists.

    It is the largest k with P(signed-rank sum <= k) <= (1 - confidence) / 2; the upper bound is as
    far from the other end.
    """
    tail = 0.5 * (1.0 - confidence)
    if units <= _MOST_EXACT:
        ways = np.zeros(units * (units + 1) // 2 + 1)
        ways[0] = 1.0
        for place in range(1, units + 1):
            ways[place:] = ways[place:] + ways[:-place]
        reached = np.cumsum(ways) / 2.0**units
        place = int(np.searchsorted(reached, tail, side="right")) - 1
        return None if place < 0 else place
    mean = units * (units + 1) / 4
    spread = math.sqrt(units * (units + 1) * (2 * units + 1) / 24)
    return math.floor(mean + NormalDist().inv_cdf(tail) * spread - 0.5)
