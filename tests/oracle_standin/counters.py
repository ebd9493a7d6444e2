"""Session and system statistics, and the time model: what a run adds, and how the views show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

STATISTICS: dict[str, tuple[int, int]] = {
    "user calls": (1, 2882015696),
    "execute count": (64, 2453370665),
    "session logical reads": (1, 3143187968),
    "CPU used by this session": (1, 24469293),
    "DB time": (1, 3649082374),
    "user I/O wait time": (1, 3332107451),
    "consistent gets": (8, 4162191256),
    "consistent gets from cache": (8, 2839918855),
    "consistent gets direct": (8, 420374750),
    "physical reads": (8, 2263124246),
    "physical reads cache": (8, 4171507801),
    "physical reads direct": (8, 2589616721),
    "physical reads direct (lob)": (8, 2564935310),
    "physical read IO requests": (8, 789768877),
    "physical read bytes": (8, 523531786),
    "physical read total IO requests": (8, 3343375620),
    "physical read total bytes": (8, 2572010804),
    "blocks decrypted": (8, 559990478),
    "blocks encrypted": (8, 584993340),
    "securefile bytes encrypted": (8, 1264180345),
    "cell physical IO interconnect bytes": (64, 2957355214),
}
"""Names with class and STAT_ID. STATISTIC# is the place here, plus an offset that differs by release."""

TIME_MODEL: dict[str, int] = {
    "DB time": 3649082374,
    "DB CPU": 2748282437,
    "background elapsed time": 4157170894,
    "background cpu time": 2451517896,
    "sql execute elapsed time": 2821698184,
    "parse time elapsed": 1431595225,
    "hard parse elapsed time": 372226525,
    "connection management call elapsed time": 1990024365,
    "PL/SQL execution elapsed time": 2643905994,
}

_BLOCK = 8192
_MICRO = 1_000_000


@dataclass(frozen=True)
class Work:
    """What one statement did: seconds, and blocks; `lob_blocks` are among the direct reads."""

    elapsed: float = 0.0
    cpu: float = 0.0
    logical_reads: int = 0
    cache_reads: int = 0
    direct_reads: int = 0
    lob_blocks: int = 0
    decrypted: int = 0
    encrypted: int = 0


class Counters:
    """The statistics of one session, of a container or of the instance; they only grow, unless `reset`."""

    def __init__(self) -> None:
        self._values: Counter[str] = Counter()
        self._elapsed = 0.0
        self._cpu = 0.0

    def add(self, work: Work) -> None:
        self._elapsed += work.elapsed
        self._cpu += work.cpu
        physical = work.cache_reads + work.direct_reads
        self._values.update(
            {
                "user calls": 1,
                "execute count": 1,
                "session logical reads": work.logical_reads,
                "consistent gets": work.logical_reads,
                "consistent gets direct": work.direct_reads,
                "consistent gets from cache": max(0, work.logical_reads - work.direct_reads),
                "physical reads": physical,
                "physical reads cache": work.cache_reads,
                "physical reads direct": work.direct_reads,
                "physical reads direct (lob)": work.lob_blocks,
                "physical read IO requests": -(-physical // 16),
                "physical read total IO requests": -(-physical // 16),
                "physical read bytes": physical * _BLOCK,
                "physical read total bytes": physical * _BLOCK,
                "blocks decrypted": work.decrypted,
                "blocks encrypted": work.encrypted,
            }
        )

    def bump(self, name: str, by: int) -> None:
        """Let one statistic grow, which may be one that has no name here."""
        self._values[name] += by

    def reset(self) -> None:
        """As after a restart of the instance."""
        self._values.clear()
        self._elapsed = self._cpu = 0.0

    def statistic(self, name: str) -> int:
        """In the statistic's own unit; times in hundredths of a second."""
        if name == "DB time":
            return self._values[name] + int(self._elapsed * 100)
        if name == "CPU used by this session":
            return self._values[name] + int(self._cpu * 100)
        return self._values[name]

    def microseconds(self, name: str) -> int:
        """One row of the time model."""
        known = {"DB time": self._elapsed, "DB CPU": self._cpu, "sql execute elapsed time": self._elapsed}
        return round(known.get(name, 0.0) * _MICRO) + self._values[f"time model: {name}"]


def numbered(release: int, missing: set[str]) -> Iterator[tuple[int, str, int, int]]:
    """STATISTIC#, name, class and STAT_ID of all statistics of a release, without those that are missing."""
    for place, (name, (group, identifier)) in enumerate(STATISTICS.items()):
        if name not in missing:
            yield place + release * 7, name, group, identifier
