"""What an operation can say at the rate at which it is really measured.

The 99th percentile is dear: its ratio needs ten times the samples of the median's. How many samples come in an hour
follows from the number in a tick and from the time between ticks, which a budget may stretch.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.overhead.hodges_lehmann import FEWEST_UNITS
from exporter.overhead.pex import fewest_samples

_HOUR = 3600.0
_BLOCK = 300.0
"""Length of the blocks that paired exceedance compares, in seconds: each needs a tick."""


@dataclass(frozen=True, slots=True)
class Tier:
    """1: P99 within an hour. 2: P50 within an hour, P99 over a day. 3: P50 only, if anything. `words` for people."""

    number: int
    words: str


def tier(samples: int, period: float) -> Tier:
    """The tier of an operation with so many samples for each twin in a tick, and `period` seconds from tick to tick."""
    if samples < 1 or period <= 0:
        raise ValueError("a tick has samples, and time passes between ticks")
    per_hour = samples * _HOUR / period
    if samples == 1:
        # A unit is a tick in each order.
        enough = per_hour >= 2 * FEWEST_UNITS
        return Tier(3, "P50 only: one sample per tick" if enough else _too_few(per_hour))
    if period > _BLOCK or per_hour < fewest_samples(0.50):
        return Tier(3, _too_few(per_hour))
    if per_hour < fewest_samples(0.99):
        return Tier(2, "P50 in an hour, P99 only over a day")
    return Tier(1, "P99 in an hour")


def _too_few(per_hour: float) -> str:
    return f"too few for an hour: {per_hour:.0f} sample{'' if round(per_hour) == 1 else 's'}"
