"""How often an inventory is taken, whether work on it stands still, and its sums; the same for all servers. No I/O."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from exporter.domain.clock import Clock

STANDSTILL_SECONDS = 3600.0
CHEAP_SECONDS = 0.02
PAUSE_PER_COST = 1000.0
LONGEST_PAUSE_SECONDS = 3600.0


class Pace:
    """How often an inventory is taken: each time while it costs next to nothing, else so that it takes a thousandth of
    the time, and once an hour at least. `clock` is asked for its paced time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: float | None = None
        self._cost = 0.0

    def due(self) -> bool:
        if self._last is None or self._cost < CHEAP_SECONDS:
            return True
        pause = min(LONGEST_PAUSE_SECONDS, PAUSE_PER_COST * self._cost)
        return self._clock.paced() - self._last >= pause

    def took(self, seconds: float) -> None:
        """An inventory was taken just now, in so many seconds."""
        self._last, self._cost = self._clock.paced(), seconds

    def forget(self) -> None:
        """The next one is due at once."""
        self._last = None


class Standstill:
    """Whether work that waits to be done has not moved for an hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mark: Hashable = None
        self._since: float | None = None

    def judge(self, waiting: bool | None, mark: Hashable) -> bool | None:
        """`waiting`: something is to be done (None: unknown). `mark` differs whenever something has moved."""
        if not waiting:
            self._since = None
            return waiting
        now = self._clock.paced()
        if self._since is None or mark != self._mark:
            self._since, self._mark = now, mark
        return now - self._since >= STANDSTILL_SECONDS


class Restarts:
    """Tells that a server was started anew, by its uptime."""

    def __init__(self) -> None:
        self._uptime: int | None = None

    def happened(self, uptime: int | None) -> bool:
        """Whether the uptime (seconds) is less than it was at the last call."""
        if uptime is None:
            return False
        before, self._uptime = self._uptime, uptime
        return before is not None and uptime < before


def summed(parts: Iterable[tuple[str, str, int]]) -> tuple[tuple[str, str, int], ...]:
    """Amounts by kind and state, each pair once; without those that are 0."""
    total: dict[tuple[str, str], int] = {}
    for kind, state, amount in parts:
        total[kind, state] = total.get((kind, state), 0) + amount
    return tuple((kind, state, amount) for (kind, state), amount in total.items() if amount)


def condition(encrypted: bool | None) -> str:
    """The state of an object in the inventory."""
    return "unknown" if encrypted is None else "encrypted" if encrypted else "plain"
