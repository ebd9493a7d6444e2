"""A made-up fleet: four databases, what happens to them in some hours, and chance with a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


Series = tuple[dict[str, str], Values]


@dataclass(frozen=True)
class Operation:
    """One operation: median latency in seconds, true ratio before and after the event, samples in an hour, blocks read."""

    name: str
    median: float
    before: float
    after: float
    samples: int
    blocks: float
    final: str = "within_budget"
    cold: float = 0.6

    @property
    def rare(self) -> bool:
        """Measured once in a tick: no P99."""
        return self.samples < 100


@dataclass(frozen=True)
class Database:
    """One database of the fleet. `certifies` until: share of the history in which both twins are plain."""

    name: str
    engine: str
    operations: tuple[Operation, ...]
    keystores: tuple[str, ...] = ("main",)
    standbys: tuple[tuple[str, str], ...] = ()
    certifies: float = 0.0
    facts: dict[str, str] = field(default_factory=dict)
    host: bool = True
    key_days: float = 40.0
    busy: float = 0.4

    @property
    def labels(self) -> dict[str, str]:
        return {"target": self.name, "engine": self.engine}


FLEET = (
    Database(
        "orders",
        "oracle",
        (
            Operation("point_select", 0.0011, 1.0, 1.06, 3600, 2.4),
            Operation("range_select", 0.009, 1.01, 1.34, 1800, 60, "over_budget"),
            Operation("full_scan", 1.4, 1.0, 1.17, 60, 11000, "undecided", 1.0),
            Operation("lob_read", 0.004, 0.99, 1.12, 1800, 18, "undecided"),
        ),
        ("main", "reports"),
        (("east", ""), ("west", "")),
        0.45,
        {"flavor": "oracle", "version": "19.24", "role": "primary", "open_mode": "read_write", "edition": "EE"},
        key_days=340,
        busy=0.55,
    ),
    Database(
        "billing",
        "mariadb",
        (
            Operation("point_select", 0.0004, 1.05, 1.05, 3600, 1.8),
            Operation("range_select", 0.006, 1.09, 1.09, 1800, 40),
            Operation("full_scan", 0.7, 1.12, 1.12, 60, 6000),
        ),
        ("file_key_management",),
        (("mirror", "a"), ("mirror", "b")),
        0.0,
        {"flavor": "mariadb", "version": "11.8.3", "role": "primary", "open_mode": "read_write", "edition": ""},
        key_days=101,
    ),
    Database(
        "archive",
        "mysql",
        (
            Operation("point_select", 0.0005, 1.0, 1.0, 3600, 1.2, "certifying"),
            Operation("range_select", 0.008, 1.02, 1.02, 1800, 55, "certifying"),
        ),
        ("keyring",),
        (),
        1.0,
        {
            "flavor": "mysql",
            "version": "9.7.0",
            "role": "standalone",
            "open_mode": "read_write",
            "edition": "community",
        },
        host=False,
        key_days=380,
        busy=0.2,
    ),
    Database(
        "edge",
        "sqlite",
        (
            Operation("point_select", 4e-6, 1.01, 1.01, 3600, 0, "blind", 0.0),
            Operation("full_scan", 0.0079, 1.0, 1.0, 360, 0, "blind", 0.0),
            Operation("full_scan_cold", 0.009, 1.15, 1.15, 360, 1306, "within_budget", 1.0),
            Operation("insert_batch", 0.00019, 1.2, 1.2, 360, 5, "undecided"),
        ),
        ("key",),
        (("replica", ""),),
        0.0,
        {"flavor": "sqlite3mc", "version": "3.54.0", "role": "standalone", "open_mode": "read_write", "edition": ""},
        key_days=2,
        busy=0.15,
    ),
)


class World:
    """Time, chance and the fleet; `families` yields every series."""

    def __init__(self, end: int, hours: float, step: int) -> None:
        count = int(hours * 3600 / step)
        self.step, self.end = step, end
        self.times: Values = (end - step * np.arange(count - 1, -1, -1)).astype(np.float64)
        self.event = float(self.times[int(count * 0.45)])
        self._random = np.random.default_rng(11)

    def noise(self, around: float, spread: float = 0.05, slow: float = 0.04) -> Values:
        """A level with noise and a slow swing, never below 0."""
        size = self.times.size
        phase = self._random.uniform(0, 6.28)
        swing = np.sin(self.times / 3000 + phase) * slow
        return np.maximum(0.0, around * (1 + swing + self._random.normal(0, spread / 3, size)))

    def steady(self, value: float) -> Values:
        return np.full(self.times.size, value)

    def counter(self, per_second: float | Values, start: float = 100.0) -> Values:
        """A sum that grows at a rate, with some chance."""
        rate = np.broadcast_to(np.asarray(per_second, dtype=np.float64), self.times.shape)
        return start + np.cumsum(rate * self.step * self._random.gamma(30, 1 / 30, self.times.size))

    def rare(self, per_hour: float) -> Values:
        """A sum of single events."""
        happened = self._random.random(self.times.size) < per_hour * self.step / 3600
        return np.cumsum(happened).astype(np.float64)

    def since(self, share: float, value: Values) -> Values:
        """The values from a share of the history on, absent before."""
        first = self.times[0] + share * (self.times[-1] - self.times[0])
        return np.where(self.times >= first, value, np.nan)

    def switched(self, before: float, after: float, ramp: float = 600.0) -> Values:
        """One level before the event and another after it."""
        done = np.clip((self.times - self.event) / ramp, 0.0, 1.0)
        return before + (after - before) * done

    def enabled(self, database: Database) -> Values:
        """1 where the pair of a database has an encrypted twin."""
        if database.certifies in (0.0, 1.0):
            return self.steady(1.0 - database.certifies)
        return (self.times >= self.event).astype(np.float64)


Recipe = Callable[[World, str], Iterator[Series]]
