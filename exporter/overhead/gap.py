"""Whether the 99th percentile lies in the gap between two ways in which a query is answered.

Where one query in a hundred misses a cache, the 99th percentile is sometimes the slowest hit and sometimes the fastest
miss: its ratio then jumps with the share of misses, and its interval is honestly useless. It shows in how
far apart its neighbours are. The mean of the slowest two per cent moves smoothly there; elsewhere it has no advantage.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporter.overhead.percentiles import percentiles
from exporter.overhead.ratio import exponential
from exporter.overhead.sketch import LogSketch

STRADDLES = 3.5
"""From this gap on, the 99th percentile says little; one mode alone, heavy tail included, gives 1.2 to 2.7."""
FEWEST = 1200
"""Samples of both sides together that six must lie above the larger neighbour of."""
_SLOWEST = 0.02


def tail_gap(encrypted: NDArray[Any], plain: NDArray[Any]) -> float | None:
    """P99.5 / P98 of the pool of both sides' log durations, shape (n,) each; None for too few, or among timeouts."""
    pooled = np.concatenate([encrypted, plain])
    if pooled.size < FEWEST:
        return None
    low, high = percentiles(pooled, (98.0, 99.5))
    return exponential(high - low) if math.isfinite(high) else None


def tail_gap_of_sketch(pooled: LogSketch) -> float | None:
    """The same of a sketch of both sides, within 2.2 %."""
    if pooled.count < FEWEST:
        return None
    low, high = pooled.quantile(0.98), pooled.quantile(0.995)
    return high / low if low and high and math.isfinite(high) else None


def slowest_ratio(encrypted: NDArray[Any], plain: NDArray[Any]) -> float | None:
    """How many times as long the slowest two per cent take: the ratio of their geometric means; log durations, (n,).

    To be shown where `tail_gap` is above 3.5. None for fewer than 600 samples of a side, or with timeouts among them.
    """
    if min(encrypted.size, plain.size) < FEWEST // 2:
        return None
    means = []
    for side in (encrypted, plain):
        most = round(_SLOWEST * side.size)
        means.append(float(np.partition(side, side.size - most)[side.size - most :].astype(np.float64).mean()))
    return exponential(means[0] - means[1]) if all(map(math.isfinite, means)) else None
