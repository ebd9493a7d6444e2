"""Hodges-Lehmann estimate of a ratio from paired log ratios, with the signed-rank interval.

The estimate is the median of all pairwise means (Walsh averages); the interval is the set of shifts
that Wilcoxon's signed-rank test does not reject (Hollander and Wolfe, Nonparametric Statistical
Methods, 3.2 and 3.3). Exact null distribution up to 60 units, normal approximation above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist, fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporter.overhead.ratio import Ratio, exponential

FEWEST_UNITS = 6
"""With fewer there is no two-sided 95 % interval at all: 2 / 2**5 is more than 0.05."""
_MOST_EXACT = 60


def hodges_lehmann(log_ratios: Sequence[float], confidence: float = 0.95) -> Ratio | None:
    """The ratio behind `log_ratios` (natural logarithms, one per independent unit).

    None without units. With one to five units there is an estimate but no interval. Raises
    ValueError on NaN: a unit in which both sides timed out says nothing and must be left out.

    A unit of +inf (the encrypted side timed out) or -inf (the plain side did) takes its place in
    the order without a value of its own. The lower bound assumes of +inf no more than the largest
    finite unit, the upper bound of -inf no less than the smallest; whatever would depend on more
    becomes None.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    if values.size == 0:
        return None
    if np.isnan(values).any():
        raise ValueError("a log ratio is a number, +inf or -inf")
    first, second = np.triu_indices(values.size)

    def averages(units: NDArray[Any], unknown: float) -> NDArray[Any]:
        """All pairwise means, n (n + 1) / 2 of them; `unknown` where +inf meets -inf, which may be anything."""
        with np.errstate(invalid="ignore"):
            means = 0.5 * (units[first] + units[second])
        return np.where(np.isnan(means), unknown, means)

    estimate = _median(averages(values, -np.inf), averages(values, np.inf))
    place = _lower_place(values.size, confidence)
    if place is None:
        return Ratio(estimate, None, None, values.size)
    finite = values[np.isfinite(values)]
    at_least = np.where(values == np.inf, finite.max(initial=-np.inf), values)
    at_most = np.where(values == -np.inf, finite.min(initial=np.inf), values)
    lower = np.partition(averages(at_least, -np.inf), place)[place]
    upper = np.partition(averages(at_most, np.inf), -1 - place)[-1 - place]
    return Ratio(estimate, exponential(float(lower)), exponential(float(upper)), values.size)


def location(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float] | None:
    """Estimate, lower and upper bound of what finite `values`, one per independent unit, lie around.

    In the unit of the values, on a linear scale. None with fewer than `FEWEST_UNITS`, which give no interval.
    """
    return slope(values, [1.0] * len(values), confidence)


def slope(values: Sequence[float], per: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float] | None:
    """Estimate, lower and upper bound of what finite `values` grow by for each of `per` (positive), one per unit.

    The regression through the origin that the signed-rank test gives: what remains of the values lies around zero,
    however differently the units scatter. With equal `per` it is `location`. None with fewer than `FEWEST_UNITS`.
    """
    found, divisors = np.asarray(values, dtype=np.float64), np.asarray(per, dtype=np.float64)
    place = _lower_place(found.size, confidence) if found.size else None
    if place is None:
        return None
    if not np.isfinite(found).all() or not (np.isfinite(divisors).all() and (divisors > 0).all()):
        raise ValueError("a slope is found among finite numbers")
    first, second = np.triu_indices(found.size)
    slopes = np.sort((found[first] + found[second]) / (divisors[first] + divisors[second]))
    return float(np.median(slopes)), float(slopes[place]), float(slopes[-1 - place])


def _median(lows: NDArray[Any], highs: NDArray[Any]) -> float | None:
    """The ratio at the middle of the medians of both; None when any of it is infinite."""
    places = ((lows.size - 1) // 2, lows.size // 2)
    candidates = [float(values[place]) for values in (np.sort(lows), np.sort(highs)) for place in places]
    return exponential(fmean(candidates)) if all(map(math.isfinite, candidates)) else None


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
