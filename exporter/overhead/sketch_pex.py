"""Paired exceedance on sketches: the ratio of a percentile over a day, from what is kept of its hours.

The same contest as in `pex`, with counts in place of samples. Those of a bucket are spread evenly over its logarithms:
in the middle of the bucket they would all cross the threshold at once, which costs the median most of its precision.
So the number of samples above a threshold is a broken line, and nothing has to be drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporter.overhead.inversion import invert, t_statistic
from exporter.overhead.pex import FEWEST_BLOCKS, fewest_samples
from exporter.overhead.ratio import Ratio
from exporter.overhead.sketch import BUCKETS_PER_DOUBLING, LogSketch

_PER_BUCKET = BUCKETS_PER_DOUBLING / math.log(2.0)
"""Width of a natural logarithm of one, in buckets."""
_NOTHING = 1e-6
"""Samples: a difference that is smaller than this is rounding."""


def sketched_exceedance(
    encrypted: Sequence[LogSketch],
    plain: Sequence[LogSketch],
    quantile: float,
    confidence: float = 0.95,
    fewest_blocks: int = FEWEST_BLOCKS,
) -> Ratio | None:
    """The ratio encrypted / plain of the given quantile, from one sketch for each side and block; None for too little.

    As `pex.paired_exceedance`, which see; blocks without samples do not count. Raises ValueError when the sides of a
    block differ in their number of samples, and unless 0.5 <= quantile < 1.
    """
    if not 0.5 <= quantile < 1.0:
        raise ValueError(f"paired exceedance is for quantiles in [0.5, 1), not {quantile}")
    pairs = [(mine, theirs) for mine, theirs in zip(encrypted, plain, strict=True) if mine.count or theirs.count]
    if any(mine.count != theirs.count for mine, theirs in pairs):
        raise ValueError("unequal sides inside a block")
    count = sum(mine.count for mine, _ in pairs)
    if count < fewest_samples(quantile) or len(pairs) < max(2, fewest_blocks):
        return None
    exceedances = min(count, round((1.0 - quantile) * 2 * count))
    contest = _Contest(_Side([mine for mine, _ in pairs]), _Side([theirs for _, theirs in pairs]), exceedances)
    return invert(contest.surplus, contest.statistic, len(pairs), confidence, count)


class _Side:
    """How many samples of each block lie above any place; places are logarithms in units of a bucket's width."""

    def __init__(self, sketches: Sequence[LogSketch]) -> None:
        arrays = [sketch.arrays() for sketch in sketches]
        known = [places for places, _ in arrays if places.size]
        self._low = min((int(places[0]) for places in known), default=1) - 1
        high = max((int(places[-1]) for places in known), default=self._low + 1)
        counts = np.zeros((len(sketches), high - self._low))
        for row, (places, number) in enumerate(arrays):
            counts[row, places - self._low - 1] = number
        infinite = np.array([sketch.infinite for sketch in sketches], dtype=np.float64)
        below = np.cumsum(counts, axis=1)
        # above[:, i] counts what lies above the place low + i, timeouts included.
        self._above = np.concatenate([below[:, -1:], below[:, -1:] - below], axis=1) + infinite[:, None]
        self._infinite = infinite
        self.total_infinite = float(infinite.sum())
        self.edges: NDArray[Any] = self._low + np.arange(counts.shape[1] + 1, dtype=np.float64)
        self.totals: NDArray[Any] = self._above.sum(axis=0)

    def above(self, place: float) -> NDArray[Any]:
        """Samples of each block above `place`, shape (blocks,)."""
        if place == math.inf:
            return self._infinite
        index = min(max(place - self._low, 0.0), self._above.shape[1] - 1.0)
        whole = min(int(index), self._above.shape[1] - 2)
        share = index - whole
        between: NDArray[Any] = self._above[:, whole] * (1.0 - share) + self._above[:, whole + 1] * share
        return between


class _Contest:
    def __init__(self, encrypted: _Side, plain: _Side, most: int) -> None:
        self._encrypted, self._plain, self._most = encrypted, plain, most
        self._known: tuple[float, NDArray[Any]] = (math.nan, np.zeros(0))

    def surplus(self, shift: float) -> float:
        total = float(self._differences(shift).sum())
        return 0.0 if abs(total) < _NOTHING else total

    def statistic(self, shift: float) -> float:
        # Whole millionths of a sample: equal differences are equal, whatever was rounded on the way.
        return t_statistic([round(value / _NOTHING) for value in self._differences(shift).tolist()])

    def _differences(self, shift: float) -> NDArray[Any]:
        if self._known[0] != shift:
            moved = shift * _PER_BUCKET
            threshold = self._threshold(moved)
            self._known = shift, self._encrypted.above(threshold) - self._plain.above(threshold - moved)
        return self._known[1]

    def _threshold(self, moved: float) -> float:
        """The place above which the `most` largest of the pool lie, the plain ones moved."""
        encrypted, plain = self._encrypted, self._plain
        if self._most <= encrypted.total_infinite + plain.total_infinite:
            return math.inf
        places = np.sort(np.concatenate([encrypted.edges, plain.edges + moved]))
        pooled = np.interp(places, encrypted.edges, encrypted.totals) + np.interp(
            places - moved, plain.edges, plain.totals
        )
        # The pool falls with the place; np.interp wants it to rise.
        return float(np.interp(self._most, pooled[::-1], places[::-1]))
