"""Whether twins that are both plain are alike enough to say later what encryption costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from exporter.overhead import formats
from exporter.overhead.baseline import SeriesBaseline
from exporter.overhead.ratio import Ratio
from exporter.overhead.window_day import HOUR, DaySummary

Name = TypeVar("Name")

LONG_ENOUGH = 86400.0
"""Seconds of measurements: a day has all the hours that a workload has."""
LIMITS = {50: (0.90, 1.11), 99: (0.83, 1.20)}
"""The whole interval of the ratio of two plain twins must lie in here, by percentile."""


class Certificate(StrEnum):
    """What can be said of a pair of plain twins; the later a word, the more stands against them."""

    CERTIFIED = "certified"
    UNDECIDED = "undecided"
    TOO_SHORT = "too_short"
    REFUSED = "refused"

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Certified:
    """The judgement and its reason in one sentence."""

    word: Certificate
    reason: str


def certify(baseline: SeriesBaseline) -> Certified:
    """The twins of one series, by what was frozen while both were plain; see `certify_ratios`."""
    return certify_ratios(baseline.ratio, baseline.seconds)


def certify_day(day: DaySummary) -> Certified:
    """The twins of one series, by the last day, with both twins plain all the time; see `certify_ratios`."""
    return certify_ratios(day.latency_ratio, day.hours * HOUR)


def weakest(judged: Mapping[Name, Certified]) -> tuple[Name, Certified] | None:
    """The one that stands most against twins of which several series were judged; None without any."""
    order = list(Certificate)
    return max(judged.items(), key=lambda item: order.index(item[1].word), default=None)


def certify_ratios(ratios: Mapping[int, Ratio], seconds: float) -> Certified:
    """Twins by their ratio by percentile, from `seconds` of measurements.

    Refused where the twins surely differ, undecided where the interval is only too wide to tell; neither is certified.
    """
    wide = []
    for percent, (low, high) in LIMITS.items():
        ratio = ratios.get(percent)
        if ratio is None:
            if percent == min(LIMITS):
                wide.append(f"P{percent} is unknown")
            continue
        limits = f"{formats.overhead(low)} … {formats.overhead(high)}"
        words = f"P{percent} {formats.with_interval(ratio)}"
        if (ratio.lower is not None and ratio.lower > high) or (ratio.upper is not None and ratio.upper < low):
            reason = f"the twins differ: {words} without encryption, allowed is {limits}; give them the same rows, order and place"
            return Certified(Certificate.REFUSED, reason)
        if ratio.lower is None or ratio.upper is None or ratio.lower < low or ratio.upper > high:
            wide.append(f"{words} reaches beyond {limits}")
    if seconds < LONG_ENOUGH:
        reason = f"{formats.age(seconds)} of measurements, a day is needed"
        return Certified(Certificate.TOO_SHORT, reason)
    if wide:
        return Certified(Certificate.UNDECIDED, "; ".join(wide))
    return Certified(Certificate.CERTIFIED, "the twins are alike without encryption")
