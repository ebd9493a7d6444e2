"""Baselines: what was measured before something changed, and how now compares with it.

Three numbers for each percentile. *Raw*: the encrypted side now against then; it holds everything that changed
meanwhile, the workload above all. *Control*: the same for the plain twin, which shared all of that but the encryption.
*Adjusted*: raw / control, the difference in differences, which is the present ratio of the twins divided by that of
the baseline (`r0`); what both twins suffered cancels in it. The variances of logarithms add, so widths of intervals add
as the legs of a right triangle; each end is treated for itself, and an unknown end stays unknown.

A baseline measured while both twins were plain says what the twins differ by without any encryption. It can be held
against either side: which twin was encrypted later is only known later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import stdev

from exporter.domain.model import Operation, Phase, Slot, Variant
from exporter.overhead.blocks import Block
from exporter.overhead.hodges_lehmann import FEWEST_UNITS, hodges_lehmann
from exporter.overhead.pex import FEWEST_BLOCKS
from exporter.overhead.ratio import Ratio, exponential
from exporter.overhead.sketch import LogSketch
from exporter.overhead.sketch_pex import sketched_exceedance
from exporter.overhead.stretches import HOUR, Stretch, hour_of, merged
from exporter.overhead.two_level import Z, two_level
from exporter.overhead.units import thin
from exporter.overhead.words import DEFAULT_THRESHOLD

PERCENTILES = (50, 99)
_FEWEST_FOR_TAIL = 100
_FEWEST_IN_A_GROUP = 5
_FEWEST_GROUPS = 3
_ONE_ERROR = 0.994458
"""Two-sided 68 % quantile of the normal distribution."""

NEEDED = f"at least {FEWEST_BLOCKS} blocks of five minutes with enough samples for an interval"


@dataclass(frozen=True, slots=True)
class Level:
    """A percentile of one side: natural logarithm of seconds, and its standard error (None: unknown)."""

    log: float
    error: float | None = None

    @property
    def seconds(self) -> float:
        return math.exp(self.log)


@dataclass(frozen=True, slots=True)
class BaselineSide:
    """One side of a series in a baseline. A percentile among timeouts, or of too few samples, has no level."""

    samples: int
    failures: int
    sketch: LogSketch
    levels: Mapping[int, Level] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeriesBaseline:
    """One operation in a baseline; `ratio` is `r0`, encrypted / plain by percentile, both levels in its interval.

    `blocks` counts what it rests on: blocks of five minutes, or hours where there are many. `seconds` is the time that
    was measured in.
    """

    sides: Mapping[Variant, BaselineSide]
    ratio: Mapping[int, Ratio]
    blocks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PairBaseline:
    """What was frozen of one pair, from `since` to `until` (Unix time), all of one epoch.

    `slot` is the twin that was, or played, the encrypted side. `content` tells the data that the twins held. `event` is
    the id of the event that it was frozen for, empty where somebody asked for it, with `note`.
    """

    target: str
    pair: str
    frozen: float
    since: float
    until: float
    epoch: str
    phase: Phase
    slot: Slot
    content: str
    series: Mapping[Operation, SeriesBaseline]
    event: str = ""
    note: str = ""
    id: int = 0

    @property
    def plain(self) -> bool:
        """Whether both twins were still plain."""
        return self.phase is Phase.AA


@dataclass(frozen=True, slots=True)
class Comparison:
    """Now against a baseline, by percentile. What does not let itself be compared is missing; never 1."""

    raw: Mapping[int, Ratio] = field(default_factory=dict)
    control: Mapping[int, Ratio] = field(default_factory=dict)
    adjusted: Mapping[int, Ratio] = field(default_factory=dict)


def freeze(stretches: Sequence[Stretch]) -> SeriesBaseline | None:
    """From stretches of one series and one epoch; None when it is too little to say anything with an interval
    (`NEEDED`)."""
    held = [part for part in stretches if part.block.plain.samples]
    groups = _groups(held)
    found = _exceedance(groups) if any(part.in_bursts for part in held) else _of_units(groups)
    ratio = {percent: wide for percent, one in found.items() if (wide := two_level(one)) is not None}
    if not any(one.has_interval for one in ratio.values()):
        return None
    sides = {variant: _side(groups, variant) for variant in Variant}
    return SeriesBaseline(sides, ratio, len(groups), sum(part.measured for part in held))


def chosen(baselines: Iterable[PairBaseline]) -> PairBaseline | None:
    """The baseline that a pair is compared with: what somebody froze wins over what was frozen for an event; of the
    latter, what was measured before there was any encryption; then the newest."""
    return max(
        baselines,
        key=lambda held: (not held.event, bool(held.event) and held.phase is Phase.AA, held.frozen, held.id),
        default=None,
    )


def levels(blocks: Sequence[Block]) -> dict[Variant, dict[int, Level]]:
    """The percentiles of either side of these blocks, with the errors that their differences from block to block say."""
    groups = [[block] for block in blocks]
    return {variant: dict(_side(groups, variant).levels) for variant in Variant}


def compare(
    now: Mapping[int, Ratio], present: Mapping[Variant, Mapping[int, Level]], baseline: SeriesBaseline, swapped: bool
) -> Comparison:
    """`now` are the present ratios of the twins by percentile, `present` the present `levels`.

    `swapped`: the side that is encrypted now was the plain one in the baseline.
    """
    before = {variant: baseline.sides[variant.other if swapped else variant].levels for variant in Variant}
    then = reference(baseline, swapped)
    raw, control = (
        {
            percent: ratio
            for percent, level in present.get(variant, {}).items()
            if percent in before[variant] and (ratio := _step(level, before[variant][percent])) is not None
        }
        for variant in (Variant.ENCRYPTED, Variant.PLAIN)
    )
    adjusted = {
        percent: ratio for percent, found in now.items() if percent in then and (ratio := divided(found, then[percent]))
    }
    return Comparison(raw, control, adjusted)


def reference(baseline: SeriesBaseline, swapped: bool) -> dict[int, Ratio]:
    """`r0` by percentile, for the sides as they are now; `swapped` as in `compare`."""
    return {percent: inverse(ratio) if swapped else ratio for percent, ratio in baseline.ratio.items()}


def upper_reference(ratio: Ratio) -> float | None:
    """The upper end of the 68 % interval (one standard error) of `r0`, from its 95 % interval; None where it is unknown.

    A breach against a baseline means more than so many times this: what is not known well gives no alarm.
    """
    if not ratio.estimate or not ratio.upper:
        return None
    return exponential(math.log(ratio.estimate) + math.log(ratio.upper / ratio.estimate) * _ONE_ERROR / Z)


def divided(now: Ratio, before: Ratio) -> Ratio | None:
    """now / before of two independent ratios; None where neither an estimate nor an end is known."""
    if now.estimate is None or before.estimate is None:
        return None
    log = math.log(now.estimate / before.estimate)
    down = _legs(now.estimate, now.lower, before.upper, before.estimate)
    up = _legs(now.upper, now.estimate, before.estimate, before.lower)
    return Ratio(
        exponential(log),
        None if down is None else exponential(log - down),
        None if up is None else exponential(log + up),
        min(now.samples, before.samples),
    )


def inverse(ratio: Ratio) -> Ratio:
    """Plain / encrypted."""

    def turned(value: float | None) -> float | None:
        return 1.0 / value if value else None

    return Ratio(turned(ratio.estimate), turned(ratio.upper), turned(ratio.lower), ratio.samples)


def verdict(comparison: Comparison, percent: int, threshold: float = DEFAULT_THRESHOLD) -> str:
    """What a comparison says in words; empty where nothing grew beyond the threshold, or nothing is known."""
    adjusted, raw, control = (part.get(percent) for part in (comparison.adjusted, comparison.raw, comparison.control))
    if adjusted is not None and adjusted.lower is not None and adjusted.lower > threshold:
        return "attributable to encryption"
    if raw is None or raw.estimate is None or raw.estimate <= threshold:
        return ""
    if control is not None and control.lower is not None and control.lower > 1.0:
        return "the plain twin became slower too: workload, not encryption"
    return "undecided"


# -- steps -------------------------------------------------------------------------------------------------

_Group = list[Block]


def _groups(stretches: Sequence[Stretch]) -> list[_Group]:
    """Blocks by the hour, where there are enough hours for an interval or blocks have been joined to hours; else each
    for itself. Longer groups take in what drifts from block to block."""
    by_hour: dict[float, _Group] = {}
    for part in sorted(stretches, key=lambda part: part.block.start):
        by_hour.setdefault(hour_of(part.block.start), []).append(part.block)
    if len(by_hour) >= FEWEST_BLOCKS or any(part.seconds >= HOUR for part in stretches):
        return list(by_hour.values())
    return [[block] for group in by_hour.values() for block in group]


def _of_units(groups: Sequence[_Group]) -> dict[int, Ratio]:
    units = [unit for group in groups for block in group for unit in block.units]
    found = hodges_lehmann([unit.latency for unit in thin(units)]) if len(units) >= FEWEST_UNITS else None
    return {} if found is None else {50: found}


def _exceedance(groups: Sequence[_Group]) -> dict[int, Ratio]:
    encrypted, plain = (
        [merged(block.side(variant).sketch for block in group) for group in groups]
        for variant in (Variant.ENCRYPTED, Variant.PLAIN)
    )
    found = {percent: sketched_exceedance(encrypted, plain, percent / 100) for percent in PERCENTILES}
    return {percent: ratio for percent, ratio in found.items() if ratio is not None}


def _side(groups: Sequence[_Group], variant: Variant) -> BaselineSide:
    parts = [merged(block.side(variant).sketch for block in group) for group in groups]
    whole = merged(parts)
    sides = [block.side(variant) for group in groups for block in group]
    found = {percent: level for percent in PERCENTILES if (level := _level(whole, parts, percent)) is not None}
    return BaselineSide(sum(side.samples for side in sides), sum(side.failures for side in sides), whole, found)


def _level(whole: LogSketch, parts: Sequence[LogSketch], percent: int) -> Level | None:
    fewest = _FEWEST_IN_A_GROUP if percent <= 50 else _FEWEST_FOR_TAIL
    value = whole.quantile(percent / 100)
    if value is None or math.isinf(value) or (percent > 50 and whole.count < fewest):
        return None
    seen = [part.quantile(percent / 100) for part in parts if part.count >= fewest]
    logs = [math.log(one) for one in seen if one is not None and math.isfinite(one)]
    enough = len(logs) >= _FEWEST_GROUPS and len(logs) == len(seen)
    return Level(math.log(value), stdev(logs) / math.sqrt(len(logs)) if enough else None)


def _step(now: Level, before: Level) -> Ratio | None:
    log = now.log - before.log
    if now.error is None or before.error is None:
        return Ratio(exponential(log), None, None, 0)
    half = Z * math.hypot(now.error, before.error)
    return Ratio(exponential(log), exponential(log - half), exponential(log + half), 0)


def _legs(high: float | None, low: float | None, other_high: float | None, other_low: float | None) -> float | None:
    """The width, in logarithms, that two independent widths make together."""
    if not (high and low and other_high and other_low):
        return None
    return math.hypot(math.log(high / low), math.log(other_high / other_low))
