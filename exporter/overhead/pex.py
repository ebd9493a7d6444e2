"""Paired exceedance: the ratio of a percentile of two interleaved streams, with its interval.

For a candidate ratio rho the plain durations are multiplied by rho, both sides are pooled, and the
pooled quantile u is taken. In each time block b, D_b counts how many more encrypted than (scaled)
plain samples exceed u. At the true ratio the expectation of D_b is zero, whatever the shape of the
distribution, and what slows both sides of a block down cancels in it. The point estimate is the
rho with sum D = 0; the interval holds every rho at which the t statistic of D_1..D_B does not
reject. A timeout is +inf and needs no special case: it exceeds everything.

Only ranks are used, so everything happens on log durations, where scaling is a shift.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporter.overhead.inversion import CAP, invert, t_statistic
from exporter.overhead.ratio import Ratio

__all__ = ["CAP", "FEWEST_BLOCKS", "FEWEST_EXCEEDANCES", "FEWEST_SAMPLES", "fewest_samples", "paired_exceedance"]

FEWEST_BLOCKS = 10
FEWEST_EXCEEDANCES = 12
FEWEST_SAMPLES = 60


def fewest_samples(quantile: float) -> int:
    """Samples per side below which no ratio of this quantile is given: 60 (p50), 120 (p95), 600 (p99)."""
    needed = FEWEST_EXCEEDANCES / (2.0 * (1.0 - quantile))
    return max(FEWEST_SAMPLES, math.ceil(round(needed, 6)))


def paired_exceedance(
    encrypted: NDArray[Any],
    encrypted_blocks: NDArray[Any],
    plain: NDArray[Any],
    plain_blocks: NDArray[Any],
    quantile: float,
    confidence: float = 0.95,
) -> Ratio | None:
    """The ratio encrypted / plain of the given quantile; None when there is too little to say.

    `encrypted` and `plain` have shape (n,): natural logarithms of durations, +inf for a timeout.
    The `_blocks` arrays, shape (n,), hold the integer number of the time block of each sample.
    Too little is: fewer than `fewest_samples(quantile)` per side, or fewer than ten blocks.

    Durations of a coarse clock go through `dither` first, or the interval is narrower than the truth.

    Bounds beyond 1/20 or 20 are one-sided (see `Ratio`); where timeouts leave even the sign open,
    all three numbers are None. Ties at the threshold count half on each side.
    Raises ValueError when the sides have different numbers of samples in any block (the comparison
    would be biased), on NaN or -inf, and unless 0.5 <= quantile < 1.
    """
    if not 0.5 <= quantile < 1.0:
        raise ValueError(f"paired exceedance is for quantiles in [0.5, 1), not {quantile}")
    if encrypted.size != plain.size:
        raise ValueError(f"unequal sides: {encrypted.size} encrypted and {plain.size} plain samples")
    count = encrypted.size
    if count < fewest_samples(quantile):
        return None
    numbers, positions = np.unique(np.concatenate([encrypted_blocks, plain_blocks]), return_inverse=True)
    mine, theirs = positions[:count], positions[count:]
    if not np.array_equal(np.bincount(mine, minlength=numbers.size), np.bincount(theirs, minlength=numbers.size)):
        raise ValueError("unequal sides inside a block")
    if numbers.size < FEWEST_BLOCKS:
        return None
    exceedances = min(count, round((1.0 - quantile) * 2 * count))
    return _Contest(encrypted, mine, plain, theirs, exceedances, numbers.size).ratio(confidence, count)


class _Contest:
    """Both sides reduced to the samples that can be among the `most` largest of the pool, ascending."""

    def __init__(
        self,
        encrypted: NDArray[Any],
        encrypted_blocks: NDArray[Any],
        plain: NDArray[Any],
        plain_blocks: NDArray[Any],
        most: int,
        blocks: int,
    ) -> None:
        self._most, self._blocks = most, blocks
        self._e, self._e_blocks = _largest(encrypted, encrypted_blocks, most)
        self._p, self._p_blocks = _largest(plain, plain_blocks, most)
        # Scalar access to lists is several times faster than to arrays.
        self._e_list: list[float] = self._e.tolist()
        self._p_list: list[float] = self._p.tolist()

    def ratio(self, confidence: float, count: int) -> Ratio:
        return invert(self._surplus, self._statistic, self._blocks, confidence, count)

    def _threshold(self, shift: float) -> float:
        """The `most`-th largest of the pool of encrypted and shifted plain values."""
        e, p, most = self._e_list, self._p_list, self._most
        # How many of the `most` largest are encrypted: more, as long as the next encrypted one is
        # larger than the smallest plain one taken. Index -k is the k-th largest.
        low, high = max(0, most - len(p)), min(most, len(e))
        while low < high:
            taken = (low + high) // 2
            if e[-taken - 1] > p[taken - most] + shift:
                low = taken + 1
            else:
                high = taken
        smallest = math.inf
        if low > 0:
            smallest = e[-low]
        if low < most:
            smallest = min(smallest, p[low - most] + shift)
        return smallest

    def _places(self, shift: float) -> tuple[int, int, int, int]:
        """For each side: index of the first value >= threshold, index of the first value above it."""
        threshold = self._threshold(shift)
        p = self._p + shift
        return (
            int(self._e.searchsorted(threshold, "left")),
            int(self._e.searchsorted(threshold, "right")),
            int(p.searchsorted(threshold, "left")),
            int(p.searchsorted(threshold, "right")),
        )

    def _surplus(self, shift: float) -> float:
        """Twice the sum of D."""
        e_from, e_above, p_from, p_above = self._places(shift)
        return 2 * (self._e.size - self._p.size) - e_from - e_above + p_from + p_above

    def _statistic(self, shift: float) -> float:
        """The t statistic of D_1..D_B; infinite when all D_b are equal and not zero."""
        e_from, e_above, p_from, p_above = self._places(shift)
        blocks = self._blocks
        difference = np.bincount(self._e_blocks[e_above:], minlength=blocks) - np.bincount(
            self._p_blocks[p_above:], minlength=blocks
        )
        ties = np.bincount(self._e_blocks[e_from:e_above], minlength=blocks) - np.bincount(
            self._p_blocks[p_from:p_above], minlength=blocks
        )
        # Doubled, so that half counts stay whole numbers and equal differences are exactly equal.
        return t_statistic((2 * difference + ties).tolist())


def _largest(values: NDArray[Any], blocks: NDArray[Any], most: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ascending values not below the `most`-th largest, with their blocks; checks for NaN and -inf."""
    wide = values.astype(np.float64)
    if np.isnan(wide).any() or np.isneginf(wide).any():
        raise ValueError("a log duration is a number or +inf")
    if most < wide.size:
        # A value below it can never reach the threshold of the pool, which holds all these values too.
        keep = wide >= np.partition(wide, wide.size - most)[wide.size - most]
        wide, blocks = wide[keep], blocks[keep]
    order = np.argsort(wide)
    return wide[order], blocks[order]
