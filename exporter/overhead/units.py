"""Analysis units of a paired comparison: one tick in each order.

What runs second finds warmer caches. In the average of a tick that the encrypted side began and a
tick that the plain side began, this advantage cancels; in a single tick it does not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from exporter.domain.model import Burst, Tick, Variant
from exporter.overhead.percentiles import rank

SHORTEST = 1e-9
"""Seconds: the tick of the clock. A duration of 0 means "less than one tick", not "no time"."""
MOST_UNITS = 60
_MOST_WAITING = 8


@dataclass(frozen=True, slots=True)
class UnitPoint:
    """One AB+BA unit. `at` is the steady time of its later tick in seconds.

    `latency` and `cpu` are natural logarithms of encrypted / plain; `latency` may be +inf (the
    encrypted side timed out) or -inf (the plain side did); `cpu` is None when unknown.
    """

    at: float
    latency: float
    cpu: float | None


class UnitPairing:
    """Joins ticks of opposite order, first come first served."""

    def __init__(self) -> None:
        # Only one of the two orders can be waiting at a time. Bounded: should the orders ever be out
        # of balance, the oldest ticks are left out rather than kept for ever.
        self._waiting: deque[tuple[Variant, tuple[float, float | None, float]]] = deque(maxlen=_MOST_WAITING)

    def add(self, first: Variant, value: tuple[float, float | None, float]) -> UnitPoint | None:
        """Takes one tick, gives the unit that it completes.

        `first` is the side that ran first; `value` is (latency log ratio, CPU log ratio or None,
        steady time). None while the partner is missing, and when the two log ratios are +inf and
        -inf: each side timed out once, which says nothing about the ratio.
        """
        if not self._waiting or self._waiting[0][0] is first:
            self._waiting.append((first, value))
            return None
        _, other = self._waiting.popleft()
        latency = 0.5 * (value[0] + other[0])
        if math.isnan(latency):
            return None
        cpu = None if value[1] is None or other[1] is None else 0.5 * (value[1] + other[1])
        return UnitPoint(max(value[2], other[2]), latency, cpu)

    def clear(self) -> None:
        self._waiting.clear()


def log_ratios(tick: Tick) -> tuple[float, float | None]:
    """(latency, CPU): natural logarithms of encrypted / plain in one tick.

    Latency compares the medians (nearest rank) of the bursts: +inf or -inf when most of one side
    failed, NaN when most of both did. CPU compares CPU seconds per successful sample; None when a
    side does not know them or used none that its clock could see.
    """
    latency = _log(_median(tick.encrypted)) - _log(_median(tick.plain))
    encrypted_cpu, plain_cpu = _cpu_per_sample(tick.encrypted), _cpu_per_sample(tick.plain)
    if not encrypted_cpu or not plain_cpu:
        return latency, None
    return latency, math.log(encrypted_cpu / plain_cpu)


def thin(units: Sequence[UnitPoint], most: int = MOST_UNITS) -> tuple[UnitPoint, ...]:
    """At most `most` units, each the average of consecutive given ones.

    Averaging keeps all data where dropping would not, and lets neighbours that share a disturbance
    count as one. The groups differ in size by one at most. A group in which +inf meets -inf is
    left out; the CPU of a group is the average of what is known in it.
    """
    if most < 1:
        raise ValueError("thinning to nothing")
    if len(units) <= most:
        return tuple(units)
    groups = (units[len(units) * i // most : len(units) * (i + 1) // most] for i in range(most))
    return tuple(point for group in groups if (point := _average(group)) is not None)


def _average(group: Sequence[UnitPoint]) -> UnitPoint | None:
    latencies = [unit.latency for unit in group]
    if math.inf in latencies and -math.inf in latencies:
        return None
    known: Iterable[float] = [unit.cpu for unit in group if unit.cpu is not None]
    return UnitPoint(group[-1].at, fmean(latencies), fmean(known) if known else None)


def _median(burst: Burst) -> float:
    durations = sorted(burst.durations)
    return durations[rank(50, len(durations)) - 1]


def _log(seconds: float) -> float:
    return math.log(max(seconds, SHORTEST))


def _cpu_per_sample(burst: Burst) -> float | None:
    successes = len(burst.samples) - len(burst.failures)
    cpu = burst.work.cpu_seconds
    return None if cpu is None or not successes else cpu / successes
