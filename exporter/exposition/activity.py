"""What is known of the instance of one target: its sums as it tells them, and how fast they grew last.

The sums are the database's own: they begin anew when it is restarted, which Prometheus takes for what it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from exporter.domain.states import Activity
from exporter.exposition.screening import count, label, number, words
from exporter.exposition.view import ActivityView

SOURCES = ("counter", "proxy")
MOST_PROBLEMS = 16
ROUNDING = 1e-6
"""A share may exceed 1 by so little: it was divided, and is 1."""

T = TypeVar("T")


class ActivityBook:
    """The newest readings of one target. Times are paced seconds; sums stay, all else expires."""

    def __init__(self, expiry: float) -> None:
        """`expiry` is how long what is no sum is shown, in seconds."""
        self._expiry = expiry
        self._newest: Activity | None = None
        self._before: Activity | None = None
        self._read: float | None = None
        self._read_before: float | None = None

    def read(self, activity: Activity, now: float) -> int:
        """Take what was read at `now`; the number of values that cannot be true."""
        screened, invalid = screened_activity(activity)
        self._before, self._read_before = self._newest, self._read
        self._newest, self._read = screened, now
        return invalid

    def lost(self) -> None:
        """Nobody knows any more how busy it is; what it said that it had done stays true."""
        self._read = self._read_before = None

    def view(self, now: float) -> ActivityView | None:
        """As it can be shown now; None before the first reading."""
        if self._newest is None:
            return None
        if self._read is None or now - self._read > self._expiry:
            idle = replace(
                self._newest,
                buffer_hit_ratio=None,
                host_cpu_ratio=None,
                host_cpus=None,
                host_aes=None,
                buffer_bytes=None,
                problems=(),
            )
            return ActivityView(idle)
        return self._rated(self._newest)

    def _rated(self, newest: Activity) -> ActivityView:
        before, seconds = self._before, 0.0
        if self._read is not None and self._read_before is not None:
            seconds = self._read - self._read_before
        if before is None or not 0 < seconds <= self._expiry:
            return ActivityView(newest)

        def rate(now: float | None, then: float | None) -> float | None:
            # What fell began anew meanwhile: nobody knows how much was done before that.
            return None if now is None or then is None or now < then else (now - then) / seconds

        alike = (newest.decrypt_unit, newest.decrypt_source) == (before.decrypt_unit, before.decrypt_source)
        reads, waited = rate(newest.reads, before.reads), rate(newest.read_seconds, before.read_seconds)
        return ActivityView(
            newest,
            decrypts_per_second=rate(newest.decrypts, before.decrypts) if alike else None,
            encrypts_per_second=rate(newest.encrypts, before.encrypts) if alike else None,
            cpus_used=rate(newest.cpu_seconds, before.cpu_seconds),
            reads_per_second=reads,
            seconds_per_read=waited / reads if reads and waited is not None else None,
        )


def screened_activity(activity: Activity) -> tuple[Activity, int]:
    """The reading without what cannot be true, and how many values that were.

    Decrypts of which nobody knows where the number comes from are none.
    """
    screen = _Screen()
    source = activity.decrypt_source
    known = source in SOURCES
    screen.invalid += source is not None and not known
    result = Activity(
        decrypts=screen.sum(activity.decrypts) if known else None,
        encrypts=screen.sum(activity.encrypts) if known else None,
        decrypt_unit=label(activity.decrypt_unit),
        decrypt_source=source if known else None,
        cpu_seconds=screen.seconds(activity.cpu_seconds),
        reads=screen.sum(activity.reads),
        read_seconds=screen.seconds(activity.read_seconds),
        buffer_hit_ratio=screen.share(activity.buffer_hit_ratio),
        host_cpu_ratio=screen.share(activity.host_cpu_ratio),
        host_cpus=screen.number_of(activity.host_cpus),
        host_aes=screen.flag(activity.host_aes),
        buffer_bytes=screen.number_of(activity.buffer_bytes),
        problems=tuple(words(problem) for problem in activity.problems[:MOST_PROBLEMS]),
    )
    return result, screen.invalid


class _Screen:
    """Turns what cannot be true into None, and counts it."""

    def __init__(self) -> None:
        self.invalid = 0

    def sum(self, value: object) -> int | None:
        return self._noted(value, count(value))

    def number_of(self, value: object) -> int | None:
        return self._noted(value, count(value) or None)

    def seconds(self, value: object) -> float | None:
        return self._noted(value, number(value))

    def share(self, value: object) -> float | None:
        found = number(value)
        return self._noted(value, None if found is None or found > 1 + ROUNDING else min(1.0, found))

    def flag(self, value: object) -> bool | None:
        return self._noted(value, value if isinstance(value, bool) else None)

    def _noted(self, said: object, believed: T | None) -> T | None:
        self.invalid += said is not None and believed is None
        return believed
