"""Synthetic latencies of twins, for the simulations of the statistics: from independent samples to a hostile month.

None of this comes from a real database; it is what makes naive rules fail. A point query hits a cache (0.25 ms,
lognormal) or misses it (2 ms), and some queries are held up (Pareto). Both sides share what disturbs the machine;
some disturbances concern one side alone. A tick comes every ten seconds, 20 samples of each side, in two runs of ten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TICK = 10.0
SIZE = 20
BOOSTED = 150
RUN = 10
"""Samples of one side that follow each other: what holds one of them up often holds up its neighbours."""
_PER_DAY = round(86400 / TICK)
_REFILL = 90.0
"""Seconds: a cache that one side lost is full again but for an eighth after three minutes."""


@dataclass(frozen=True, slots=True)
class World:
    """What disturbs the samples; standard deviations are of natural logarithms, times are seconds."""

    name: str
    miss: float = 0.0
    miss_drift: float = 0.0
    held_up: float = 0.0
    shared: float = 0.0
    runs: float = 0.0
    stalls: float = 0.0
    own: float = 0.0
    only_misses: bool = False
    # Of months only.
    cycle: float = 0.0
    slow_shared: float = 0.0
    neighbours: float = 0.0
    slow_own: float = 0.0
    evictions: float = 0.0
    restarts: bool = False
    brown_outs: float = 0.0


_S3 = World("S3 misses 3 %", miss=0.03)
_S5 = replace(_S3, name="S5 shared drift, tail", held_up=0.02, shared=0.25, miss_drift=0.5)
_S6 = replace(_S5, name="S6 runs and stalls", runs=0.05, stalls=0.002)
_S7 = replace(_S6, name="S7 drift of one side", own=0.05)
SHORT_WORLDS = (
    World("S1 independent"),
    World("S2 tail", held_up=0.02),
    _S3,
    World("S4 misses 1 %", miss=0.01),
    _S5,
    _S6,
    _S7,
    replace(_S7, name="S8 misses only", only_misses=True),
)
MONTH = replace(
    _S7,
    name="month",
    cycle=0.2,
    slow_shared=0.2,
    neighbours=8.0,
    slow_own=0.02,
    evictions=1.0,
    restarts=True,
    brown_outs=1.0,
)
HOSTILE = replace(MONTH, name="hostile", shared=0.5, slow_shared=0.4, miss=0.01, held_up=0.05, stalls=0.005)
VERY_HOSTILE = replace(MONTH, name="very hostile", evictions=12.0)
STEADY_MONTH = replace(MONTH, name="month without slow drift of one side", slow_own=0.0)


@dataclass(frozen=True, slots=True)
class Path:
    """The state of the world tick by tick; arrays of shape (2, ticks), encrypted side first, or (ticks,).

    `shift` is of the log durations, `miss` a probability, `timeout` one that both sides share.
    """

    world: World
    shift: Floats
    miss: Floats
    timeout: Floats

    @property
    def ticks(self) -> int:
        return self.timeout.size


def path(world: World, ticks: int, random: np.random.Generator) -> Path:
    """A new state of the world for so many ticks."""
    shared = _drift(ticks, world.shared, 300.0, random) + _drift(ticks, world.slow_shared, 3 * 3600.0, random)
    hours = np.arange(ticks) * TICK / 3600.0 + random.uniform(0, 24)
    shared += world.cycle * np.sin(2 * math.pi * hours / 24)
    for begin, end in _episodes(ticks, world.neighbours, 600.0, random):
        shared[begin:end] += random.uniform(0.3, 1.0)
    own = np.stack(
        [_drift(ticks, world.own, 90.0, random) + _drift(ticks, world.slow_own, 2 * 3600.0, random) for _ in range(2)]
    )
    odds = _drift(ticks, world.miss_drift, 1800.0, random)
    base = world.miss / (1 - world.miss) * np.exp(odds)
    miss = np.tile(base / (1 + base), (2, 1))
    for side in range(2):
        for begin, _ in _episodes(ticks, world.evictions, 180.0, random):
            lost = 0.24 * np.exp(-TICK * np.arange(min(120, ticks - begin)) / _REFILL)
            miss[side, begin : begin + lost.size] += lost
    timeout = np.zeros(ticks)
    for begin, end in _episodes(ticks, world.brown_outs, 120.0, random):
        timeout[begin:end] = 0.2
    if world.restarts:
        _restart(miss, timeout, random)
    return Path(world, shared + own, np.minimum(miss, 1.0), timeout)


def samples(path: Path, begin: int, end: int, size: int, ratio: float, random: np.random.Generator) -> Floats:
    """Log durations of the ticks from `begin` on, shape (2, end - begin, size), +inf for a timeout.

    `ratio` is that of the encrypted side, or of its misses.
    """
    world, shape = path.world, (2, end - begin, size)
    missed = random.random(shape) < path.miss[:, begin:end, None]
    normal = random.standard_normal(shape)
    logs = np.where(missed, math.log(2e-3) + 0.5 * normal, math.log(0.25e-3) + 0.25 * normal)
    logs += path.shift[:, begin:end, None]
    if world.runs or world.stalls:
        run_shape = (2, end - begin, size // RUN)
        effect = world.runs * random.standard_normal(run_shape)
        stalled = random.random(run_shape) < world.stalls
        effect += np.where(stalled, math.log(6.0) + 0.5 * random.standard_normal(run_shape), 0.0)
        logs += np.repeat(effect, RUN, axis=2)
    if world.held_up:
        held = random.random(shape) < world.held_up
        extra = 0.5e-3 * random.pareto(1.8, int(held.sum()))
        logs[held] = np.log(np.exp(logs[held]) + extra)
    logs[0] += np.where(missed[0], math.log(ratio), 0.0) if world.only_misses else math.log(ratio)
    late = path.timeout[begin:end]
    if late.any():
        logs[random.random(shape) < late[None, :, None]] = np.inf
    return logs


def _drift(ticks: int, spread: float, time: float, random: np.random.Generator) -> Floats:
    """An Ornstein-Uhlenbeck process: it wanders by `spread` and forgets within `time`."""
    if not spread:
        return np.zeros(ticks)
    keep = math.exp(-TICK / time)
    steps = random.standard_normal(ticks) * spread * math.sqrt(1 - keep * keep)
    steps[0] = random.standard_normal() * spread
    return _recursive(steps, keep)


def _recursive(steps: Floats, keep: float) -> Floats:
    """x[i] = keep x[i - 1] + steps[i], by doubling: log2(n) passes over the array."""
    found, factor, reach = steps.copy(), keep, 1
    while reach < found.size and factor > 1e-12:
        found[reach:] = found[reach:] + factor * found[:-reach]
        factor, reach = factor * factor, 2 * reach
    return found


def _episodes(ticks: int, per_day: float, seconds: float, random: np.random.Generator) -> list[tuple[int, int]]:
    if not per_day:
        return []
    begins = random.integers(0, ticks, random.poisson(per_day * ticks / _PER_DAY))
    return [(int(begin), int(begin + 1 + random.exponential(seconds / TICK))) for begin in begins]


def _restart(miss: NDArray[Any], timeout: Floats, random: np.random.Generator) -> None:
    """Two minutes without an answer, then cold caches for twenty, each side's at its own pace; once, in mid-path."""
    ticks = timeout.size
    if ticks < 7 * _PER_DAY:
        return
    begin = int(random.integers(ticks // 4, ticks // 2))
    timeout[begin : begin + 12] = 1.0
    since = np.arange(ticks - begin - 12) * TICK
    for side in range(2):
        miss[side, begin + 12 :] += 0.5 * np.exp(-since / (400.0 * random.uniform(0.7, 1.4)))
