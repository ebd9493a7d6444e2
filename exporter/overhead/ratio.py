"""A ratio encrypted / plain with its uncertainty: the only form in which a cost leaves this room."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the plain value the encrypted value is, with its two-sided interval.

    All numbers are linear (1.0 means no cost) and finite. None means that the data do not say:
    `upper` None with `lower` given reads "at least `lower`", `lower` None with `upper` given reads
    "at most `upper`"; `estimate` is None where the point estimate itself is beyond what was
    measured. `samples` counts samples per side, or AB+BA units, whichever the method rests on.
    """

    estimate: float | None
    lower: float | None
    upper: float | None
    samples: int

    @property
    def has_interval(self) -> bool:
        """Whether at least one end is known; without any, the estimate is no fact and is not shown."""
        return self.lower is not None or self.upper is not None

    def to_dict(self) -> dict[str, float | int | None]:
        """For JSON: never infinite, never NaN."""
        return {"estimate": self.estimate, "lower": self.lower, "upper": self.upper, "samples": self.samples}


def exponential(log_ratio: float) -> float | None:
    """The linear ratio; None where it would not be a finite positive number."""
    if not math.isfinite(log_ratio) or abs(log_ratio) > 700:
        return None
    return math.exp(log_ratio)
