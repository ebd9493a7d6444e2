"""What to do when the clock that timed the samples ticks coarsely."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

COARSE = 0.01
"""Share of the median from which the tick of the clock matters."""
_SAME = 1e-5  # Relative difference that rounding alone can make.


def dither(encrypted: NDArray[Any], plain: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both sides (log durations, shape (n,)) with ties of a coarse clock spread over one tick of it.

    When the smallest step between measured durations is above 1 % of their median, the clock itself
    rounds: identical readings would make a ratio look exact to the last digit, when all that is
    known is that it lies within one tick. Uniform noise of half a tick either way puts that
    uncertainty back into the interval. Deterministic; finer data come back unchanged.
    """
    pool = np.sort(np.concatenate([encrypted, plain]).astype(np.float64))
    pool = np.exp(pool[np.isfinite(pool)])
    steps = np.diff(pool)
    steps = steps[steps > _SAME * pool[1:]] if pool.size else steps
    if not steps.size or steps.min() <= COARSE * pool[pool.size // 2]:
        return encrypted, plain
    # Seeded by the data: the same window gives the same answer, different windows err independently.
    tick, random = steps.min(), np.random.default_rng(zlib.crc32(pool.tobytes()))

    def spread(logs: NDArray[Any]) -> NDArray[Any]:
        durations = np.exp(logs.astype(np.float64)) + tick * (random.random(logs.size) - 0.5)
        # A reading of less than one tick stays positive.
        shifted: NDArray[np.float64] = np.log(np.maximum(durations, 0.01 * tick))
        return shifted

    return spread(encrypted), spread(plain)
