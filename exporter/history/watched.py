"""Which of two exporters knows more of a target that both have measured: whose conclusions are kept."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter

from exporter.overhead.stretches import BLOCK, HOUR

DAY = 86400.0
_REMEMBERED, _MOST_REMEMBERED = DAY + 2 * HOUR, 5000


class Watched:
    """How much somebody measured of a target, and until when: whose states of it are taken.

    A state is what was concluded from everything up to its last moment: evidence, a latched breach, what a ratio wanders
    by. Of two that of the exporter counts which went on for longer, by more than an hour, for in an hour it can have seen
    a breach end: a breach that is over by now must not come back with an old state. Within the hour that one counts which
    measured at least twice as much of the day before: who only began has concluded nothing yet, and a breach that lasts
    must not be lost to it. Else the younger one does, and of equals the one that is here.
    """

    def __init__(self) -> None:
        self._newest = -math.inf
        self._samples: Counter[float] = Counter()

    @classmethod
    def here(cls, connection: sqlite3.Connection, target: str) -> Watched:
        """What is in this history, without what was joined to hours long ago."""
        found = cls()
        for table, length in (("hours", HOUR), ("blocks", BLOCK)):
            of = f"FROM {table} JOIN series ON series.id = {table}.series WHERE target = ?"
            ((newest,),) = connection.execute(f"SELECT max(start) {of}", (target,))
            if newest is not None:
                query = f"SELECT start, sum(encrypted_samples + plain_samples) {of} AND start >= ? GROUP BY start"
                for start, samples in connection.execute(query, (target, newest - _REMEMBERED)):
                    found.add(start, length, samples)
        return found

    def add(self, start: float, length: float, samples: int) -> None:
        """Something that was measured; in any order."""
        self._newest = max(self._newest, start + length)
        self._samples[start] += samples
        if len(self._samples) > _MOST_REMEMBERED:
            limit = self._newest - _REMEMBERED
            self._samples = Counter({at: number for at, number in self._samples.items() if at >= limit})

    def outweighs(self, other: Watched) -> bool:
        """Whether its states count, and not those of the other."""
        if abs(self._newest - other._newest) > HOUR:
            return self._newest > other._newest
        until = min(self._newest, other._newest)
        mine, theirs = (
            sum(number for start, number in one._samples.items() if until - DAY <= start < until)
            for one in (self, other)
        )
        if mine >= 2 * theirs or theirs >= 2 * mine:
            return mine > theirs
        return self._newest > other._newest
