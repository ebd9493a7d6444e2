"""Rules that say "encryption costs too much", fed with minutes of samples: ours, and those that people write."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks import worlds
from benchmarks.worlds import World
from exporter.overhead.evidence import Name, for_bursts, for_units
from exporter.overhead.series_evidence import SeriesEvidence
from exporter.overhead.units import UnitPoint

THRESHOLD = 1.2
DAY = 86400.0
_QUIET = 600.0
"""Seconds without an alarm after which the next one is a new one."""
_HOUR_TICKS = 360

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Minute:
    """Log durations of six ticks, shape (2, 6, n): `usual` with 20 of each side, `full` as many as there were."""

    at: float
    usual: Samples
    full: Samples


def stream(
    world: World, ratio: Callable[[float], float], days: float, seed: int, boost: Callable[[], bool]
) -> Iterator[Minute]:
    """The minutes of a world, week by week; more samples in those for which `boost` says so."""
    random, at = np.random.default_rng(seed), 0.0
    while at < days * DAY:
        hours = min(7 * 24, math.ceil((days * DAY - at) / 3600))
        path = worlds.path(world, hours * _HOUR_TICKS, random)
        for begin in range(0, path.ticks, 6):
            if begin % _HOUR_TICKS == 0:
                hour = worlds.samples(path, begin, begin + _HOUR_TICKS, worlds.SIZE, 1.0, random)
            first, more = begin % _HOUR_TICKS, math.log(ratio(at))
            usual = hour[:, first : first + 6].astype(np.float32)
            usual[0] += np.float32(more)
            full = usual
            if boost():
                full = worlds.samples(path, begin, begin + 6, worlds.BOOSTED, 1.0, random).astype(np.float32)
                full[0] += np.float32(more)
            yield Minute(at, usual, full)
            at += 60.0


class Sequential:
    """Our detectors, with a pool of their own."""

    def __init__(self, percentiles: tuple[int, ...], critical: float | None = None) -> None:
        self._evidence = SeriesEvidence(for_bursts(percentiles, THRESHOLD, critical))
        self._rows: deque[tuple[int, Samples]] = deque()

    def add(self, at: float, minute: Samples) -> tuple[Name, ...]:
        """A minute as if it were one tick: enough for detectors whose blocks are a minute or longer."""
        return self._add(at, minute.reshape(2, -1))

    def add_ticks(self, at: float, minute: Samples) -> tuple[Name, ...]:
        """A minute tick by tick."""
        fired = [self._add(at + worlds.TICK * place, minute[:, place]) for place in range(minute.shape[1])]
        return tuple(name for names in fired for name in names)

    @property
    def boost_wanted(self) -> bool:
        return self._evidence.boost_wanted

    def _add(self, at: float, both: Samples) -> tuple[Name, ...]:
        block = int(at // 300)
        self._rows.append((block, both))
        while self._rows[0][0] < block - 12:
            self._rows.popleft()
        return self._evidence.add_logs(both[0], both[1], at, self._pool)

    def _pool(self) -> tuple[Samples, Samples]:
        pooled = np.concatenate([both for _, both in self._rows], axis=1)
        return pooled[0], pooled[1]


class NaiveRules:
    """A percentile of the last minutes, compared: with that of the first day, or with that of the twin."""

    BASELINE, BASELINE_FOR = "naive: p99 in 5 min against its baseline", "the same, for 15 min"
    TWIN, TWIN_FOR = "naive: p99 in 5 min against the twin", "the twin in 5 min, for 15 min"
    TWIN_HOUR = "naive: p99 in an hour against the twin"

    def __init__(self, baseline_minutes: int) -> None:
        self._minutes: deque[Samples] = deque(maxlen=60)
        self._first: list[Samples] = []
        self._baseline_minutes, self._baseline = baseline_minutes, math.nan
        self._since = {self.BASELINE: 0, self.TWIN: 0}

    def add(self, minute: Minute) -> dict[str, bool]:
        """Which rules hold at the end of this minute."""
        both = minute.usual.reshape(2, -1)
        self._minutes.append(both)
        if len(self._first) < self._baseline_minutes:
            self._first.append(both[0])
            self._baseline = math.nan
            if len(self._first) == self._baseline_minutes:
                self._baseline = _p99(np.concatenate(self._first))
        recent = list(self._minutes)
        five = np.concatenate(recent[-5:], axis=1)
        encrypted, plain, limit = _p99(five[0]), _p99(five[1]), math.log(THRESHOLD)
        now = {self.BASELINE: encrypted - self._baseline > limit, self.TWIN: _difference(encrypted, plain) > limit}
        for rule, holds in now.items():
            self._since[rule] = self._since[rule] + 1 if holds else 0
        now[self.BASELINE_FOR] = self._since[self.BASELINE] > 15
        now[self.TWIN_FOR] = self._since[self.TWIN] > 15
        if len(recent) == 60:
            hour = np.concatenate(recent, axis=1)
            now[self.TWIN_HOUR] = _difference(_p99(hour[0]), _p99(hour[1])) > limit
        return now


@dataclass
class Run:
    """When which rule gave alarm; `step` is when the ratio changed."""

    step: float = 0.0
    days: float = 0.0
    boosted: int = 0
    onsets: Counter[str] = field(default_factory=Counter)
    _held: dict[str, float] = field(default_factory=dict)
    _first: dict[str, float] = field(default_factory=dict)

    def note(self, rule: str, at: float) -> None:
        """The rule holds at the end of the minute that began at `at`."""
        self.onsets[rule] += at - self._held.get(rule, -math.inf) > _QUIET
        self._held[rule] = at
        if at >= self.step:
            self._first.setdefault(rule, at + 60.0)

    def alarms(self, rule: str) -> float:
        """In thirty days."""
        return 30 * self.onsets[rule] / self.days

    def delay(self, rule: str) -> float:
        """Minutes from the step to the first alarm after it; infinite when there was none."""
        return (self._first.get(rule, math.inf) - self.step) / 60


ESR = {percent: f"e-SR p{percent}" for percent in (99, 95, 50)}
BOOSTED = "e-SR p99 with boost"
FIRST = "e-SR p50, or p99 with boost"
RULES = (
    NaiveRules.BASELINE,
    NaiveRules.BASELINE_FOR,
    NaiveRules.TWIN,
    NaiveRules.TWIN_FOR,
    NaiveRules.TWIN_HOUR,
    *ESR.values(),
    BOOSTED,
    FIRST,
)


def simulate(world: World, ratio: Callable[[float], float], days: float, seed: int, step: float = 0.0) -> Run:
    """All rules on the same minutes; what happens before `step` (seconds) is the baseline of a naive rule, or a day."""
    plain, boosted = Sequential((50, 95, 99)), Sequential((99,))
    naive, run = NaiveRules(round(step / 60) or 1440), Run(step)
    for minutes, minute in enumerate(stream(world, ratio, days, seed, lambda: boosted.boost_wanted), 1):
        run.boosted += boosted.boost_wanted
        for name in plain.add(minute.at, minute.usual):
            run.note(ESR[name.percentile], minute.at)
            if name.percentile == 50:
                run.note(FIRST, minute.at)
        if boosted.add(minute.at, minute.full):
            run.note(BOOSTED, minute.at)
            run.note(FIRST, minute.at)
        for rule, holds in naive.add(minute).items():
            if holds:
                run.note(rule, minute.at)
        run.days = minutes / 1440
    return run


def scans(
    world: World, ratio: Callable[[float], float], days: float, seed: int, every: float, spread: float
) -> Iterator[tuple[float, Name]]:
    """When the detectors of units fire, where one scan of each side comes `every` so many seconds.

    `spread` is what a unit of two ticks scatters by, beside what disturbs one side alone for longer.
    """
    random, evidence = np.random.default_rng(seed), SeriesEvidence(for_units())
    path = worlds.path(world, round(days * DAY / worlds.TICK), random)
    apart = path.shift[0] - path.shift[1]
    step = round(every / worlds.TICK)
    for place in range(0, path.ticks - step, 2 * step):
        at = worlds.TICK * (place + step)
        between = 0.5 * float(apart[place] + apart[place + step]) + spread * float(random.standard_normal())
        for name in evidence.add_unit(UnitPoint(at, math.log(ratio(at)) + between, None)):
            yield at, name


def _p99(logs: Samples) -> float:
    place = math.ceil(0.99 * logs.size) - 1
    return float(np.partition(logs, place)[place])


def _difference(encrypted: float, plain: float) -> float:
    """Of two logarithms; where both are infinite a dashboard shows nothing."""
    return -math.inf if math.isinf(plain) else encrypted - plain
