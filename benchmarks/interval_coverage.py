"""Whether the intervals hold what they promise: those of an hour, of a day, and of the ratio in the long run."""

from __future__ import annotations

import math

import numpy as np

from benchmarks import worlds
from benchmarks.worlds import Floats, World
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.pex import paired_exceedance
from exporter.overhead.ratio import Ratio
from exporter.overhead.sketch import LogSketch
from exporter.overhead.sketch_pex import sketched_exceedance
from exporter.overhead.tau import SIX_HOURS, Wandering, tau_of, window_estimate
from exporter.overhead.two_level import DEFAULT_TAU, two_level
from exporter.overhead.window_day import DayWindow

PERCENTS = (50, 95, 99)
TRUE = 1.2
"""The ratio that is to be covered."""
Rows = list[tuple[str, ...]]

_HOUR_TICKS = 360
_NUMBERS = np.repeat(np.arange(12), 600)
_RESAMPLED = 100
_ALONE, _ASSUMED, _SIX_HOURS, _ONE_HOUR = (
    "window alone",
    f"tau {DEFAULT_TAU:.0%}",
    "tau of 6 h windows",
    "tau of 1 h windows",
)


def of_an_hour(world: World, windows: int, seed: int) -> tuple[str, ...]:
    """A row: the world, for each percentile "covered share, median half-width", those on sketches, those of a bootstrap
    of single samples."""
    random = np.random.default_rng(seed)
    truths = {percent: _truth(world, percent, seed) for percent in PERCENTS}
    found: dict[tuple[str, int], list[Ratio | None]] = {}
    resampled = dict.fromkeys((50, 99), 0)
    for number in range(windows):
        logs = worlds.samples(worlds.path(world, _HOUR_TICKS, random), 0, _HOUR_TICKS, worlds.SIZE, TRUE, random)
        encrypted, plain = logs.reshape(2, -1)
        blocks = hourly_blocks(0, logs)
        sketches = [[block.encrypted.sketch for block in blocks], [block.plain.sketch for block in blocks]]
        for percent in PERCENTS:
            ratio = paired_exceedance(encrypted, _NUMBERS, plain, _NUMBERS, percent / 100)
            found.setdefault(("samples", percent), []).append(ratio)
            ratio = sketched_exceedance(sketches[0], sketches[1], percent / 100)
            found.setdefault(("sketches", percent), []).append(ratio)
        if number < _RESAMPLED:
            for percent in resampled:
                resampled[percent] += _bootstrap_covers(encrypted, plain, percent, truths[percent], random)
    cells = [
        f"{100 * np.mean([_covers(one, truths[percent]) for one in ratios]):.0f}"
        + (f" ±{np.median([_half_width(one) for one in ratios]):.1f}" if kind == "samples" else "")
        for (kind, percent), ratios in sorted(found.items())
    ]
    few = min(_RESAMPLED, windows)
    return (world.name, *cells, *(f"{100 * resampled[percent] / few:.0f}" for percent in (50, 99)))


def in_the_long_run(targets: int, seed: int) -> Rows:
    """Two weeks for each target: the first teaches tau, the windows of the second are judged against the true ratio."""
    hits: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    for target in range(targets):
        _two_weeks(np.random.default_rng(seed + target), hits)
        print(".", end="", flush=True)
    return [
        (window, kind, f"{100 * np.mean([hit for hit, _ in cells]):.0f} %", f"{np.median([w for _, w in cells]):.1f} %")
        for (window, kind), cells in sorted(hits.items())
    ]


def _two_weeks(random: np.random.Generator, hits: dict[tuple[str, str], list[tuple[bool, float]]]) -> None:
    day, wandering = DayWindow(PERCENTS), Wandering(SIX_HOURS)
    hourly: dict[int, list[Ratio | None]] = {percent: [] for percent in PERCENTS}

    def note(window: str, kind: str, ratio: Ratio | None) -> None:
        hits.setdefault((window, kind), []).append((_covers(ratio, TRUE), _half_width(ratio)))

    for week in range(2):
        path = worlds.path(worlds.MONTH, 7 * 24 * _HOUR_TICKS, random)
        for hour in range(7 * 24):
            begin, at = hour * _HOUR_TICKS, hour + week * 7 * 24
            logs = worlds.samples(path, begin, begin + _HOUR_TICKS, worlds.SIZE, TRUE, random)
            for block in hourly_blocks(at, logs):
                day.add(block)
            now = 3600.0 * (at + 1)
            day.teach(wandering, now)
            encrypted, plain = logs.reshape(2, -1)
            for percent in PERCENTS:
                ratio = paired_exceedance(encrypted, _NUMBERS, plain, _NUMBERS, percent / 100)
                hourly[percent].append(ratio)
                if week:
                    note(f"1 h p{percent}", _ALONE, ratio)
                    note(f"1 h p{percent}", _ASSUMED, two_level(ratio, DEFAULT_TAU))
                    note(f"1 h p{percent}", _SIX_HOURS, two_level(ratio, wandering.tau(str(percent))))
            if week and hour % 24 == 23:
                for percent, published in day.summary(now, wandering).latency_ratio.items():
                    note(f"24 h p{percent}", _SIX_HOURS, published)
    for percent, ratios in hourly.items():
        first = [window_estimate(0.0, ratio, 11) for ratio in ratios[: 7 * 24]]
        tau = tau_of([one for one in first if one is not None])
        for ratio in ratios[7 * 24 :]:
            note(f"1 h p{percent}", _ONE_HOUR, two_level(ratio, tau))


def hourly_blocks(hour: int, logs: Floats) -> list[Block]:
    """Twelve blocks from log durations of shape (2, 360, n)."""
    blocks = []
    for number in range(12):
        sides = []
        for side in logs[:, 30 * number : 30 * number + 30]:
            sketch = LogSketch()
            sketch.add(np.exp(side))
            sides.append(BlockSide(samples=side.size, sketch=sketch))
        blocks.append(Block(3600.0 * hour + 300.0 * number, "one", sides[0], sides[1]))
    return blocks


def _truth(world: World, percent: int, seed: int) -> float:
    """The ratio itself, or, where only misses cost, that of very many samples."""
    if not world.only_misses:
        return TRUE
    random, total = np.random.default_rng(seed + 1000), []
    for _ in range(30):
        path = worlds.path(world, 10 * _HOUR_TICKS, random)
        total.append(worlds.samples(path, 0, path.ticks, worlds.SIZE, TRUE, random).reshape(2, -1))
    encrypted, plain = np.quantile(np.concatenate(total, axis=1), percent / 100, axis=1)
    return math.exp(encrypted - plain)


def _bootstrap_covers(
    encrypted: Floats, plain: Floats, percent: int, truth: float, random: np.random.Generator
) -> bool:
    """Whether the interval covers that draws single samples again, as if they were independent."""
    place, ratios = round(percent / 100 * encrypted.size) - 1, []
    for _ in range(100):
        mine, theirs = (side[random.integers(0, side.size, side.size)] for side in (encrypted, plain))
        ratios.append(np.partition(mine, place)[place] - np.partition(theirs, place)[place])
    low, high = np.quantile(ratios, (0.025, 0.975))
    return bool(low <= math.log(truth) <= high)


def _covers(ratio: Ratio | None, truth: float) -> bool:
    return ratio is not None and (ratio.lower or 0.0) <= truth <= (ratio.upper or math.inf)


def _half_width(ratio: Ratio | None) -> float:
    """In per cent."""
    if ratio is None or not ratio.lower or not ratio.upper:
        return math.inf
    return 100 * (math.sqrt(ratio.upper / ratio.lower) - 1)
