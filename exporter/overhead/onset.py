"""Since when encryption costs more: the best single split of the last day, with its uncertainty.

Two series are looked at: the ratio of the medians in each block of five minutes, which a change of everything moves
at once, and the surplus of the encrypted side in the slowest samples of each block, which a change of the tail moves. The
split is where the means of the two parts differ most, measured by their standard error; the series that shows it best
counts. It is an annotation for people, made
after the decision and never part of it.

The interval holds all splits whose likelihood is not much worse: twice the logarithm of its ratio has the maximum of two
Brownian motions with drift as its limit, P(<= x) = (1 - exp(-x / 2))² (Siegmund, "Confidence sets in change-point
problems", 1988). Neighbouring blocks resemble each other, so x is multiplied by what that inflates a variance by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from exporter.domain.model import Variant
from exporter.overhead.blocks import Block
from exporter.overhead.ratio import exponential
from exporter.overhead.sketch import BUCKETS_PER_DOUBLING, LogSketch

FEWEST_BLOCKS = 6
"""Half an hour: the shortest part that a split may leave on either side."""
MEDIANS, TAIL = "p50", "p99"
_SIGNIFICANT = 5.0
"""Standard errors by which the parts must differ; the largest of hundreds of splits of pure noise seldom does."""
_PLAUSIBLE = -2.0 * math.log(1.0 - math.sqrt(0.95))
_MOST_INFLATION = 5.0


@dataclass(frozen=True, slots=True)
class Onset:
    """The cost rose at `at`, with 95 % between `earliest` and `latest`; steady seconds, starts of blocks.

    `by` is the series that shows it best, `p50` or `p99`. `ratio_before` and `ratio_since` are encrypted / plain of that
    percentile; that since the onset is optimistic, for the onset was chosen to make it large. `marked` is true when a
    known event lies within the bounds: then `at` is its time.
    """

    at: float
    earliest: float
    latest: float
    by: str
    ratio_before: float | None
    ratio_since: float | None
    marked: bool = False


def find_onset(
    blocks: Sequence[Block], ratio: float, events: Iterable[float] = (), length: float = 300.0
) -> Onset | None:
    """The best split of `blocks`, closed ones of one epoch, oldest first; None when nothing shows.

    `ratio` is the one that the evidence was about. `events` are times at which something is known to have happened.
    Blocks without samples are left out. Takes tens of milliseconds for a day.
    """
    used = [block for block in blocks if block.encrypted.samples and block.plain.samples]
    series = ((MEDIANS, 0.5, _medians(used)), (TAIL, 0.99, _surpluses(used, ratio)))
    splits = [(split, by, quantile) for by, quantile, values in series if (split := best_split(values)) is not None]
    # Only a rise can be what the evidence is about; slow drift splits the medians a little nearly always.
    rises = [found for found in splits if found[0].rise > 0]
    if not rises:
        return None
    split, by, quantile = max(rises, key=lambda found: found[0].errors)
    at, marked = used[split.first].start, False
    earliest, latest = used[split.earliest].start, used[split.latest].start
    inside = [event for event in events if earliest - length <= event <= latest + length]
    if inside:
        at, marked = min(inside, key=lambda event: abs(event - used[split.first].start)), True
    before, since = _ratio(used[: split.first], quantile), _ratio(used[split.first :], quantile)
    return Onset(at, min(at, earliest), max(at, latest), by, before, since, marked)


@dataclass(frozen=True, slots=True)
class Split:
    """Numbers of the first value after the split; `rise` is what the later mean is larger by, `errors` the same in
    standard errors."""

    first: int
    earliest: int
    latest: int
    rise: float
    errors: float


def best_split(values: Sequence[float] | NDArray[np.float64], fewest: int = FEWEST_BLOCKS) -> Split | None:
    """Where the means of two parts of `values` differ most; None when they hardly do, or when a part would be short."""
    found = np.asarray(values, dtype=np.float64)
    count = found.size
    if count < 2 * fewest:
        return None
    firsts = np.arange(fewest, count - fewest + 1)
    sums = np.cumsum(found)
    before = sums[firsts - 1] / firsts
    since = (sums[-1] - sums[firsts - 1]) / (count - firsts)
    # The sum of squares that the split explains; what is left of the whole is scatter.
    explained = firsts * (count - firsts) / count * (since - before) ** 2
    whole = float(((found - found.mean()) ** 2).sum())
    left = np.maximum(whole - explained, 1e-12 * max(whole, 1e-300))
    best = int(np.argmax(explained))
    first = int(firsts[best])
    inflation = _inflation(found, first)
    variance = left[best] / (count - 2) * inflation
    if explained[best] < _SIGNIFICANT**2 * variance:
        return None
    worse = count * np.log(left / left[best]) / inflation
    plausible = firsts[worse <= _PLAUSIBLE]
    return Split(
        first,
        int(plausible.min()),
        int(plausible.max()),
        float(since[best] - before[best]),
        math.sqrt(explained[best] / variance),
    )


def _inflation(values: NDArray[np.float64], first: int) -> float:
    """What the likeness of neighbours multiplies the variance of a mean by, from the scatter about both parts."""
    rest = values.copy()
    rest[:first] -= rest[:first].mean()
    rest[first:] -= rest[first:].mean()
    scatter = float((rest**2).sum())
    if scatter <= 0.0:
        return 1.0
    likeness = min(max(float((rest[1:] * rest[:-1]).sum()) / scatter, 0.0), 0.9)
    return min((1 + likeness) / (1 - likeness), _MOST_INFLATION)


def _medians(blocks: Sequence[Block]) -> NDArray[np.float64]:
    """The log ratio of the medians of each block, of its units where ticks are single samples; where it is not known,
    that of its neighbour before."""
    values, last = [], 0.0
    in_bursts = sum(block.plain.samples for block in blocks) > 3 * sum(len(block.units) for block in blocks) + 3
    for block in blocks:
        if in_bursts:
            mine, theirs = _quantile(block.encrypted.sketch, 0.5), _quantile(block.plain.sketch, 0.5)
            last = last if mine is None or theirs is None else mine - theirs
        elif known := [unit.latency for unit in block.units if math.isfinite(unit.latency)]:
            last = fmean(known)
        values.append(last)
    return np.array(values)


def _surpluses(blocks: Sequence[Block], ratio: float) -> NDArray[np.float64]:
    """For each block, how many more encrypted samples than plain ones, scaled by `ratio`, are among the slowest
    hundredth of all, for every hundred samples."""
    pooled = LogSketch()
    for block in blocks:
        for variant in Variant:
            pooled.merge(block.side(variant).sketch)
    threshold = pooled.quantile(0.99)
    if threshold is None or not math.isfinite(threshold):
        return np.zeros(0)
    shift = round(math.log2(ratio) * BUCKETS_PER_DOUBLING)
    place = math.ceil(math.log2(threshold) * BUCKETS_PER_DOUBLING)
    return np.array(
        [
            100.0
            * (_above(block.encrypted.sketch, place) - _above(block.plain.sketch, place - shift))
            / block.encrypted.samples
            for block in blocks
        ]
    )


def _above(sketch: LogSketch, place: int) -> int:
    places, counts = sketch.arrays()
    return int(counts[places >= place].sum()) + sketch.infinite


def _ratio(blocks: Sequence[Block], quantile: float) -> float | None:
    sides = []
    for variant in (Variant.ENCRYPTED, Variant.PLAIN):
        merged = LogSketch()
        for block in blocks:
            merged.merge(block.side(variant).sketch)
        sides.append(_quantile(merged, quantile))
    return None if sides[0] is None or sides[1] is None else exponential(sides[0] - sides[1])


def _quantile(sketch: LogSketch, quantile: float) -> float | None:
    """Natural logarithm of seconds, between the edges of its bucket; None when it is not known, or among timeouts.

    The steps of buckets would be as large as what the medians of neighbouring blocks differ by.
    """
    places, counts = sketch.arrays()
    wanted = quantile * sketch.count
    reached = np.cumsum(counts)
    if not places.size or wanted > reached[-1]:
        return None
    bucket = int(np.searchsorted(reached, wanted))
    share = 1.0 - (reached[bucket] - wanted) / counts[bucket]
    return float((places[bucket] - 1 + share) / BUCKETS_PER_DOUBLING * math.log(2.0))
