"""Exact percentiles: always a value that was measured, never one in between."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def rank(percent: float, count: int) -> int:
    """The 1-based nearest rank: the smallest k with k / count >= percent / 100, at least 1."""
    if not 0.0 < percent <= 100.0:
        raise ValueError(f"a percentile lies in (0, 100], not at {percent}")
    # 0.07 * 100 is a hair above 7 in binary; without the rounding it would become rank 8.
    return max(1, math.ceil(round(percent * count / 100.0, 9)))


def percentile(values: NDArray[Any], percent: float) -> float | None:
    """The nearest-rank percentile of `values` (any shape, any unit); None when there are none.

    Nearest rank needs no interpolation, so it works where some values are +inf (timed out): the
    answer is +inf exactly when the percentile lies among the timeouts. Raises ValueError on NaN.
    """
    return percentiles(values, (percent,))[0] if values.size else None


def percentiles(values: NDArray[Any], percents: tuple[float, ...]) -> tuple[float, ...]:
    """Several nearest-rank percentiles of non-empty `values` with one partial sort."""
    if values.size == 0:
        raise ValueError("percentiles of nothing")
    places = [rank(percent, values.size) - 1 for percent in percents]
    # NaN sorts last: looking at the last place as well finds any.
    ordered = np.partition(values, (*places, values.size - 1), axis=None)
    if np.isnan(ordered[-1]):
        raise ValueError("percentile of NaN")
    return tuple(float(ordered[place]) for place in places)
