"""What the canaries of one target may take, and how often each operation runs so that they keep to it.

Three budgets are kept over any hour: the time in which canary queries run, the bytes they read, and the bytes
they write. Arithmetic on given times; thread-safe, for the lane charges while its process asks.

*Thinning.* As long as all operations fit, each runs at every interval. When they do not, each has a right
to an equal share of the budget, and what the cheap ones leave of theirs goes to the others: operations are run
less often, whole ticks on both twins at once, evenly spaced, the dearest first. None is starved.

*The hour.* Costs change, so a tick begins only if what was spent in the last hour leaves room for what such
a tick usually costs. So no hour holds more than its budget, unless a tick takes more than was known of it; and then
nothing begins until the hour has room again. A tick that costs more than a whole budget runs alone in its hour.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Self

from exporter.config.schema import BudgetSettings
from exporter.domain.model import Operation
from exporter.probing.messages import BYTES_READ, BYTES_WRITTEN, TIME
from exporter.probing.shares import fair_periods

HOUR = 3600.0
SLOT = 10.0
"""Seconds of spending that are kept as one sum."""
COSTS_KEPT = 10
"""Ticks that tell what the next one of an operation will cost."""

Key = tuple[str, Operation]
"""A pair by name, and one of its operations."""


class Amounts(NamedTuple):
    """So much of each budget: seconds, bytes read, bytes written."""

    seconds: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0

    @classmethod
    def per_hour(cls, settings: BudgetSettings) -> Self:
        """The limits of an hour."""
        share = settings.time_share_ratio * HOUR
        return cls(share, float(settings.bytes_read_per_hour), float(settings.bytes_written_per_hour))

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def times(self, factor: float) -> Amounts:
        return Amounts(*(value * factor for value in self))


NAMES = (TIME, BYTES_READ, BYTES_WRITTEN)
"""The budgets in the order of `Amounts`."""


class Hour:
    """What was spent in the last hour. Never less than the truth: a slot counts until its youngest part is too old."""

    def __init__(self) -> None:
        self._slots: deque[tuple[float, float, Amounts]] = deque()
        self._total = Amounts()

    def copy(self) -> Hour:
        """The same, for somebody else to go on with."""
        made = Hour()
        made._slots, made._total = self._slots.copy(), self._total
        return made

    def add(self, amounts: Amounts, now: float) -> None:
        """Spent until `now`, paced seconds that never fall."""
        if self._slots and now - self._slots[-1][0] < SLOT:
            begun, _, before = self._slots.pop()
            self._slots.append((begun, now, before.plus(amounts)))
        else:
            self._slots.append((now, now, amounts))
        self._total = self._total.plus(amounts)

    def total(self, now: float) -> Amounts:
        while self._slots and now - self._slots[0][1] >= HOUR:
            _, _, gone = self._slots.popleft()
            self._total = self._total.plus(gone.times(-1.0)) if self._slots else Amounts()
        return self._total


class _Line:
    """One operation: what its ticks cost, and when it is due."""

    def __init__(self, interval: float) -> None:
        self._costs: deque[Amounts] = deque(maxlen=COSTS_KEPT)
        self.expected: Amounts | None = None
        self.period = interval
        self.bound_by = ""
        self.due = -math.inf

    def succeed(self, former: _Line) -> None:
        """Know what the same operation cost under other settings."""
        self._costs, self.expected = former._costs.copy(), former.expected

    def learn(self, cost: Amounts) -> None:
        """Expect the mean of the last ticks without the dearest: one that met a hiccup slows nothing down."""
        self._costs.append(cost)
        kept = max(1, len(self._costs) - 1)
        columns = (sorted(column)[:kept] for column in zip(*self._costs, strict=True))
        self.expected = Amounts(*(math.fsum(column) / kept for column in columns))

    def run(self, begun: float, interval: float) -> None:
        """It had its turn. A turn late by less than an interval keeps its phase, so that any period can be kept."""
        anchor = self.due if 0 <= begun - self.due < interval else begun
        self.due = anchor + self.period


class Governor:
    """Decides when an operation may run. Times are paced seconds.

    `limits` are those of an hour, `interval` is the shortest time from tick to tick, `keys` names the operations.
    """

    def __init__(self, limits: Amounts, interval: float, keys: Iterable[Key]) -> None:
        self.limits, self._interval = limits, interval
        self._lines = {key: _Line(interval) for key in keys}
        self._hour = Hour()
        self._turn = 0
        self._lock = threading.Lock()

    def succeed(self, former: Governor) -> None:
        """Go on where the governor of the same target under other settings was: what was spent in the last hour counts, and
        whose turn it was is remembered."""
        with former._lock:
            hour = former._hour.copy()
            lines = {key: line for key, line in former._lines.items() if key in self._lines}
            turns = {key: line.due - line.period for key, line in lines.items()}
            for key, line in lines.items():
                self._lines[key].succeed(line)
        with self._lock:
            self._hour = hour
            self._plan()
            for key, turn in turns.items():
                self._lines[key].due = turn + self._lines[key].period

    def order(self, now: float) -> list[Key]:
        """All operations in the order of a round: who has waited too long first, the others beginning with another
        one each time, so that none always follows the same."""
        with self._lock:
            keys = list(self._lines)
            self._turn += 1
            first = self._turn % max(1, len(keys))
            return sorted(keys[first:] + keys[:first], key=lambda key: -self._lateness(key, now))

    def refuses(self, key: Key, now: float) -> str | None:
        """The budget for whose sake this operation must not begin at `now`; None when it may."""
        with self._lock:
            line = self._lines[key]
            if line.period > self._interval and now < line.due:
                return line.bound_by
            spent = self._hour.total(now)
            if short := self._short(line, spent):
                return short
            # Room that somebody has waited for is kept for him, or many small ticks would use it up for ever.
            patience = max(self._lateness(key, now), 0.0)
            for other, waiting in self._lines.items():
                if other != key and self._lateness(other, now) > patience:
                    short = self._short(waiting, spent)
                    if short and (line.expected is None or line.expected[NAMES.index(short)] > 0):
                        return short
            return None

    def charge(self, key: Key | None, spent: Amounts, begun: float, now: float) -> None:
        """Account for a tick that ran from `begun` to `now`; without key, for what belongs to no tick."""
        with self._lock:
            self._hour.add(spent, now)
            if key is None:
                return
            line = self._lines[key]
            line.learn(spent)
            self._plan()
            line.run(begun, self._interval)

    def passed(self, key: Key, now: float) -> None:
        """It had its turn and could not use it: it waits for its next one, and nobody waits for it."""
        with self._lock:
            self._lines[key].run(now, self._interval)

    def periods(self) -> dict[Key, float]:
        """Seconds from one tick of an operation to the next, as the budgets allow it now."""
        with self._lock:
            return {key: line.period for key, line in self._lines.items()}

    def period(self, key: Key) -> float:
        """Seconds from one tick of this operation to the next."""
        with self._lock:
            return self._lines[key].period

    def expected(self, key: Key) -> Amounts:
        """What a tick of this operation usually takes; nothing while that is unknown."""
        with self._lock:
            return self._lines[key].expected or Amounts()

    def thinned_by_bytes(self) -> bool:
        """Whether an operation runs less often for the sake of a budget of bytes."""
        with self._lock:
            return any(line.bound_by in (BYTES_READ, BYTES_WRITTEN) for line in self._lines.values())

    def spare(self, extra: Amounts, now: float) -> Amounts:
        """What may be taken of each budget beside ordinary ticks, when the last hour holds `extra` of such already.

        Room for the ordinary ticks of an hour is kept, one of each more than fit, for an hour may begin and end with one.
        """
        with self._lock:
            spent = self._hour.total(now)
            needs = Amounts()
            for line in self._lines.values():
                needs = needs.plus((line.expected or Amounts()).times(HOUR / line.period + 1))
            columns = zip(self.limits, spent, needs, extra, strict=True)
            return Amounts(*(limit - max(used, need + more) for limit, used, need, more in columns))

    def used(self, now: float) -> dict[str, float]:
        """Share of each budget that was spent in the last hour, by name; above 1 when it was exceeded."""
        with self._lock:
            spent = self._hour.total(now)
        return {name: part / limit for name, part, limit in zip(NAMES, spent, self.limits, strict=True)}

    def load_ratio(self, now: float) -> float:
        """Share of the last hour in which canaries ran; the time before the start counts as idle."""
        with self._lock:
            return self._hour.total(now).seconds / HOUR

    def _short(self, line: _Line, spent: Amounts) -> str | None:
        """The first budget that has no room for a tick; one larger than the budget needs all of it."""
        costs = line.expected or Amounts()
        for name, used, cost, limit in zip(NAMES, spent, costs, self.limits, strict=True):
            concerned = cost > 0 or line.expected is None
            if concerned and (used >= limit or used + min(cost, limit) > limit * (1 + 1e-9)):
                return name
        return None

    def _lateness(self, key: Key, now: float) -> float:
        """Seconds beyond one interval past the time it was due; 0 for all that are on time."""
        line = self._lines[key]
        return 0.0 if line.due == -math.inf else max(0.0, now - line.due - self._interval)

    def _plan(self) -> None:
        """Spread the budgets anew: the tightest one decides about each operation."""
        lines = list(self._lines.values())
        costs = [line.expected or Amounts() for line in lines]
        for line in lines:
            line.period, line.bound_by = self._interval, ""
        for place, name in enumerate(NAMES):
            periods = fair_periods([cost[place] for cost in costs], self._interval, self.limits[place])
            for line, period in zip(lines, periods, strict=True):
                if period > line.period:
                    line.period, line.bound_by = period, name
