"""Sequential evidence that a percentile of the encrypted side exceeds so many times that of the plain side.

At the end of each block of time the plain durations are multiplied by the ratio that is to be exceeded, both sides of
the last hour are pooled, and the pooled percentile u is taken. D is how many more encrypted than (scaled) plain samples
of the block reach u. As long as the true ratio is at most that ratio, exchanging the two sides of the block would turn
the sign of D and leave u where it is; so 2 / (1 + exp(-2 l D)) has an expectation of at most 1 for every l, whatever the
distribution and however heavy its tail. Such factors are summed up as Shiryaev and Roberts do, R := (R + 1) e: at the
boundary the mean time until the mean of R over five l reaches A is at least A blocks (Shin, Ramdas and Rinaldo,
"E-detectors", 2022). Nothing is estimated, nothing has to be learned first, and how often one looks does not matter.

What the guarantee does not cover is what disturbs one side alone for longer than a block: hence blocks of a minute and
of five minutes, and an A of ten times the blocks of thirty days.

Operations that are measured once in a tick have no 99th percentile. Their AB+BA units (`units`) are judged alike: D is
the number of units of a block above the ratio less the number below it; exchanging the sides turns the sign of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from exporter.overhead.words import DEFAULT_THRESHOLD

LAMBDAS = (0.04, 0.1, 0.25, 0.6, 1.5)
"""The bets: small ones see a small and lasting surplus best, large ones a large and sudden one."""

SUSPICIOUS = 1000.0
"""From this mean of R on, a series is under suspicion, and more samples are wanted: how often one measures may depend on
what was found. In simulations, 300 would find half as much again after 78 minutes rather than 92, at the price of more
samples in 2 % rather than 0.2 % of the time at 1.15 and in 10 % rather than 4 % at the threshold itself, where a ratio
that wanders by 2.8 % would then give alarm 3.2 times in thirty days rather than 2.1."""

FLOOR = -3.0
"""Of the evidence that is shown: what is below it all means "none"."""

CRITICAL_THRESHOLD = 2.0

MEDIAN_MARGIN = 0.015
"""By how much (natural logarithm) medians must exceed the threshold before it counts: half of what a ratio wanders by.

Medians are known so well that a ratio of 1.15 which wanders by 3 % would be found above 1.2 every now and then, and that
of 1.2 every day (in simulations 0.4 and 27 times in thirty days; with the margin 0 in 252 days, and 8). The price is a later
answer close to the threshold: the median delay is 500 instead of 210 minutes at 1.25, 126 instead of 116 at 1.3, and the
same from 1.5 on. The tail is never known so well.
"""

_MINUTE, _BLOCK = 60.0, 300.0
_MONTH = 30 * 86400.0
_CAUTION = 10.0
"""False alarms at the boundary are wanted this many times rarer than one in thirty days; see above for the reason."""
_TICK = 10.0
"""The shortest time between ticks that the alarm level of a detector with tick blocks is made for."""
_MOST_EXPONENT = 700.0  # math.exp of a little more overflows.


class Name(NamedTuple):
    """What a detector is about, as the labels of its metrics say it; unique within a series."""

    percentile: int
    reference: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Detector:
    """One question that is asked of one series, and how.

    `threshold` is the budget (1.2: 20 % more), `reference_ratio` what encrypted / plain is without encryption: 1.0 for
    reference `plain`, the upper bound of what was measured before encryption for `baseline`. `margin` is a natural
    logarithm on top of both. `block` is the length of a block in seconds, 0 when each tick is one. `scale` multiplies the
    bets, `alarm` is the A at which the evidence suffices. `units`: asked of AB+BA units rather than of samples. `boosts`:
    whether more samples would help; those of a median are enough at any rate.
    """

    percentile: int
    threshold: float
    block: float
    scale: float
    alarm: float
    boosts: bool = False
    units: bool = False
    margin: float = 0.0
    reference: str = "plain"
    reference_ratio: float = 1.0

    @property
    def ratio(self) -> float:
        """The ratio encrypted / plain that is to be exceeded."""
        return self.threshold * self.reference_ratio * math.exp(self.margin)

    @property
    def name(self) -> Name:
        return Name(self.percentile, self.reference, self.threshold)

    @property
    def alarm_evidence(self) -> float:
        """log10 of `alarm`, to be shown beside `Evidence.shown`."""
        return math.log10(self.alarm)


def _alarm(block: float) -> float:
    return _CAUTION * _MONTH / block


def for_bursts(
    percentiles: Sequence[int] = (50, 99),
    threshold: float = DEFAULT_THRESHOLD,
    critical: float | None = CRITICAL_THRESHOLD,
    reference: str = "plain",
    reference_ratio: float = 1.0,
) -> tuple[Detector, ...]:
    """The detectors of a series with several samples of each side in a tick.

    50 and 95 are judged in blocks of five minutes, 99 in minutes, and 99 at the `critical` threshold (None: not at
    all) tick by tick. Raises ValueError for other percentiles: no constants are known to be right for them.
    """
    found = []
    for percentile in percentiles:
        if percentile == 99:
            found.append(Detector(99, threshold, _MINUTE, 1.0, _alarm(_MINUTE), boosts=True))
            if critical is not None:
                found.append(Detector(99, critical, 0.0, 1.0, _alarm(_TICK), boosts=True))
        elif percentile == 95:
            found.append(Detector(95, threshold, _BLOCK, 1 / 2, _alarm(_BLOCK)))
        elif percentile == 50:
            found.append(Detector(50, threshold, _BLOCK, 1 / 6, _alarm(_BLOCK), margin=MEDIAN_MARGIN))
        else:
            raise ValueError(f"no evidence is gathered about percentile {percentile}, only about 50, 95 and 99")
    return tuple(_with_reference(detector, reference, reference_ratio) for detector in found)


def for_units(
    threshold: float = DEFAULT_THRESHOLD,
    critical: float | None = CRITICAL_THRESHOLD,
    reference: str = "plain",
    reference_ratio: float = 1.0,
) -> tuple[Detector, ...]:
    """The detectors of a series with one sample of each side in a tick: its median, at both thresholds.

    A unit counts +1 or -1, a block of five minutes holds 15 of them at most, so the bets need no scale.
    """
    thresholds = (threshold,) if critical is None else (threshold, critical)
    found = (Detector(50, limit, _BLOCK, 1.0, _alarm(_BLOCK), units=True, margin=MEDIAN_MARGIN) for limit in thresholds)
    return tuple(_with_reference(detector, reference, reference_ratio) for detector in found)


def _with_reference(detector: Detector, reference: str, ratio: float) -> Detector:
    return replace(detector, reference=reference, reference_ratio=ratio)


class Evidence:
    """The state of one detector: five sums, and when it last fired."""

    __slots__ = ("_bets", "detector", "fired_at", "sums")

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.sums = [0.0] * len(LAMBDAS)
        self.fired_at: float | None = None
        self._bets = tuple(-2.0 * detector.scale * bet for bet in LAMBDAS)

    def update(self, difference: int, at: float) -> bool:
        """Takes D of one block that ended at `at`; whether the evidence suffices now, after which it begins anew."""
        total = 0.0
        for place, bet in enumerate(self._bets):
            gain = 2.0 / (1.0 + math.exp(min(bet * difference, _MOST_EXPONENT)))
            grown = self.sums[place] = (self.sums[place] + 1.0) * gain
            total += grown
        if total < self.detector.alarm * len(LAMBDAS):
            return False
        self.sums = [0.0] * len(LAMBDAS)
        self.fired_at = at
        return True

    @property
    def mean(self) -> float:
        """The mean of the sums."""
        return math.fsum(self.sums) / len(self.sums)

    @property
    def shown(self) -> float:
        """log10 of the mean, at least -3."""
        mean = self.mean
        return max(FLOOR, math.log10(mean)) if mean > 0.0 else FLOOR

    @property
    def suspicious(self) -> bool:
        return self.mean > SUSPICIOUS

    @property
    def boost_wanted(self) -> bool:
        return self.detector.boosts and self.suspicious

    def to_state(self) -> dict[str, Any]:
        """For JSON."""
        percentile, reference, threshold = self.detector.name
        return {
            "percentile": percentile,
            "reference": reference,
            "threshold": threshold,
            "ratio": self.detector.ratio,
            "units": self.detector.units,
            "sums": list(self.sums),
            "fired_at": self.fired_at,
        }

    @classmethod
    def from_state(cls, detector: Detector, state: Mapping[str, Any]) -> Evidence | None:
        """The inverse of `to_state`; None when the state is that of another question. Raises ValueError when damaged."""
        asked = (*detector.name, detector.ratio, detector.units)
        try:
            if tuple(state[name] for name in ("percentile", "reference", "threshold", "ratio", "units")) != asked:
                return None
            sums = [float(value) for value in state["sums"]]
            fired_at = None if state["fired_at"] is None else float(state["fired_at"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("damaged evidence") from error
        limit = detector.alarm * len(LAMBDAS)
        if len(sums) != len(LAMBDAS) or not all(0.0 <= value <= limit for value in sums):
            raise ValueError("damaged evidence")
        if fired_at is not None and not math.isfinite(fired_at):
            raise ValueError("damaged evidence")
        found = cls(detector)
        found.sums, found.fired_at = sums, fired_at
        return found
