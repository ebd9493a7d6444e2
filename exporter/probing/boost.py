"""More samples of an operation while the evidence about it is near a decision, from a limit of time of their own.

A tick of such an operation takes 7.5 times the samples: bigger bursts rather than more ticks, as the simulations of
the verdicts assume (`benchmarks/alarm_rules.py`). Operations with one sample in a tick are not boosted, for theirs
are long. The configured samples come first and are charged to the ordinary budgets, as ever; the extra ones are charged
to a limit of their own (`budgets.boost_time_share_ratio`), and bytes always to the budgets of bytes.

What is wanted is refused

* while the host of the database is busy: more than 85 % of its processors by the last reading of its activity, or, where
  the host is not seen, that much of them used by the database itself. Unknown is not busy, for most hosts cannot be
  seen, and the limits hold all the same;
* while a budget of bytes thins ordinary ticks, or leaves no room beside them;
* when the last hour holds as much of it as it may, or the last six hours an hour of it.

Arithmetic on given times (paced seconds); thread-safe, for wishes come while the lane measures.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from exporter.config.schema import BudgetSettings
from exporter.domain.states import Activity
from exporter.probing.budget import HOUR, NAMES, Amounts, Governor, Hour, Key
from exporter.probing.messages import BOOST_TIME, BYTES_READ, BoostedNow

FACTOR = 7.5
"""Two samples a second of each twin, the default, become fifteen."""
MOST_SAMPLES = 200
BUSY = 0.85
SIX_HOURS = 6 * HOUR
LONGEST_SHARE = 0.25
"""Share of the interval that the extra samples of one tick may take: other work of the lane waits meanwhile. It also ends
a tick whose queries have become slow; as it is the time of both twins that ends it, neither side is favoured."""

_REFUSED = "more samples are wanted to decide sooner, and are not taken: "
HOST_BUSY = f"{_REFUSED}the processors of the database's host are more than {BUSY:.0%} busy"
BYTES_SHORT = f"{_REFUSED}the budget of bytes is needed for the ordinary ones"
HOUR_FULL = f"{_REFUSED}budgets.boost_time_share_ratio of the last hour is used up"
SIX_HOURS_FULL = f"{_REFUSED}they were taken for an hour of the last six"


def extra_samples(samples: int) -> int:
    """Samples of each twin that a boosted tick takes beyond the configured ones; 0 where an operation is not boosted."""
    return 0 if samples == 1 else max(0, min(MOST_SAMPLES, int(FACTOR * samples)) - samples)


class Grant(NamedTuple):
    """So many more pairs of samples, for so many seconds at most."""

    pairs: int
    seconds: float


class Boost:
    """What is wanted of the operations of one target, and what is granted. `samples` are those configured for a tick."""

    def __init__(
        self,
        target: str,
        settings: BudgetSettings,
        interval: float,
        activity_interval: float,
        samples: Mapping[Key, int],
        governor: Governor,
    ) -> None:
        self._target, self._governor, self._interval = target, governor, interval
        self._limit = settings.boost_time_share_ratio * HOUR
        self._extra = {key: extra for key, count in samples.items() if (extra := extra_samples(count))}
        self._samples = dict(samples)
        self._busyness = _Busyness(2 * activity_interval)
        self._hour, self._stretches = Hour(), _Stretches()
        self._wanted: frozenset[Key] = frozenset()
        self._until: dict[Key, float] = {}
        self._now: set[Key] = set()
        self._round = 0.0
        self._words = ""
        self._lock = threading.Lock()

    def succeed(self, former: Boost) -> None:
        """Go on where the boost of the same target under other settings was: what was taken counts."""
        with former._lock:
            hour, stretches = former._hour.copy(), former._stretches.copy()
        with self._lock:
            self._hour, self._stretches = hour, stretches

    # -- what is wanted, and what stands against it ----------------------------------------------------

    def want(self, keys: Iterable[Key]) -> None:
        """From now on these are wanted, and no others; what cannot be boosted is ignored."""
        with self._lock:
            self._wanted = frozenset(keys) & self._extra.keys() if self._limit > 0 else frozenset()

    def wanted(self, key: Key) -> bool:
        return key in self._wanted

    def read_activity(self, activity: Activity, now: float) -> None:
        """How busy the database and its host are."""
        with self._lock:
            self._busyness.read(activity, now)

    # -- a round of canaries ---------------------------------------------------------------------------

    def begin_round(self, now: float) -> None:
        with self._lock:
            self._now, self._words, self._round = set(), "", now

    def not_due(self, key: Key, now: float) -> None:
        """A budget left this operation out of the round: for a time it is what it was at its last tick."""
        with self._lock:
            if key in self._wanted and now < self._until.get(key, now):
                self._now.add(key)

    def grant(self, key: Key, now: float) -> Grant | None:
        """What may be measured beyond a tick that has just been charged; None: nothing."""
        with self._lock:
            if key not in self._wanted:
                return None
            spent = self._hour.total(now)
            expected = self._governor.expected(key).times(self._extra[key] / self._samples[key])
            needed = min(expected.seconds, self._longest)
            words = self._refusal(key, expected._replace(seconds=needed), spent, now)
            self._words = self._words or words
            return None if words else Grant(self._extra[key], min(self._longest, self._limit - spent.seconds))

    def charge(self, key: Key, spent: Amounts, begun: float, now: float) -> None:
        """Account for the extra samples of a tick, which were taken from `begun` to `now`."""
        with self._lock:
            self._hour.add(spent, now)
            # Whole rounds are counted, whenever in a round an operation has its turn.
            self._until[key] = self._round + self._lasting(key)
            self._stretches.add(self._round, self._until[key])
            self._now.add(key)
        self._governor.charge(None, spent._replace(seconds=0.0), begun, now)

    def state(self) -> BoostedNow:
        """What is boosted as of the last round."""
        with self._lock:
            return BoostedNow(self._target, frozenset(self._now), self._words)

    # -- what was used ---------------------------------------------------------------------------------

    def seconds(self, now: float) -> float:
        """Seconds of the last hour in which extra samples were taken."""
        with self._lock:
            return self._hour.total(now).seconds

    def used(self, now: float) -> dict[str, float]:
        """The share of its limit that is in use, by name; empty where boosting is switched off."""
        return {BOOST_TIME: self.seconds(now) / self._limit} if self._limit > 0 else {}

    # -- steps -----------------------------------------------------------------------------------------

    @property
    def _longest(self) -> float:
        return LONGEST_SHARE * self._interval

    def _lasting(self, key: Key) -> float:
        """Seconds for which an operation counts as boosted after such a tick: whole rounds, until its next one, which is
        begun in the first round after its period."""
        period = self._governor.period(key)
        return self._interval * (1 if period <= self._interval else 1 + math.ceil(period / self._interval))

    def _refusal(self, key: Key, expected: Amounts, spent: Amounts, now: float) -> str:
        """Why there is no room for what the extra samples are expected to take; empty where there is."""
        if self._busyness.busy(now):
            return HOST_BUSY
        if self._governor.thinned_by_bytes() or self._short_of_bytes(expected, spent, now):
            return BYTES_SHORT
        if spent.seconds + expected.seconds > self._limit:
            return HOUR_FULL
        if self._stretches.with_more(self._round, self._round + self._lasting(key)) > HOUR:
            return SIX_HOURS_FULL
        return ""

    def _short_of_bytes(self, expected: Amounts, spent: Amounts, now: float) -> bool:
        spare = self._governor.spare(spent, now)
        first = NAMES.index(BYTES_READ)
        return any(cost > 0 and cost > room for cost, room in zip(expected[first:], spare[first:], strict=True))


class _Stretches:
    """When anything was boosted, of the last six hours and a little into the future: until the next tick."""

    def __init__(self) -> None:
        self._stretches: deque[tuple[float, float]] = deque()

    def copy(self) -> _Stretches:
        """The same, for somebody else to go on with."""
        made = _Stretches()
        made._stretches = self._stretches.copy()
        return made

    def add(self, begin: float, end: float) -> None:
        """`begin` never falls."""
        if self._stretches and begin <= self._stretches[-1][1]:
            before, until = self._stretches.pop()
            begin, end = before, max(end, until)
        self._stretches.append((begin, end))

    def with_more(self, now: float, until: float) -> float:
        """Seconds of all stretches since six hours before `now`, if one from `now` to `until` were added."""
        since = now - SIX_HOURS
        while self._stretches and self._stretches[0][1] <= since:
            self._stretches.popleft()
        more = until - max([now, *(end for _, end in list(self._stretches)[-1:])])
        return math.fsum(end - max(begin, since) for begin, end in self._stretches) + max(0.0, more)


class _Busyness:
    """How much of the processors of a database's host is in use, by readings that are forgotten after `expiry` seconds."""

    def __init__(self, expiry: float) -> None:
        self._expiry = expiry
        self._at = -math.inf
        self._share: float | None = None
        self._cpu_seconds: float | None = None

    def read(self, activity: Activity, now: float) -> None:
        cpu, cpus = _known(activity.cpu_seconds), _known(activity.host_cpus)
        passed, before = now - self._at, self._cpu_seconds
        self._share = _known(activity.host_cpu_ratio)
        if self._share is None and cpu is not None and before is not None and cpus and 0 < passed < self._expiry:
            # After a restart of the database the sum has fallen, and tells nothing.
            self._share = (cpu - before) / passed / cpus
        self._at, self._cpu_seconds = now, cpu

    def busy(self, now: float) -> bool:
        return self._share is not None and now - self._at <= self._expiry and self._share > BUSY


def _known(value: object) -> float | None:
    """A number that a driver said, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return float(value) if math.isfinite(value) else None
