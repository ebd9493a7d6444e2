"""The arithmetic of lags: what a standby has of what was written, and how long the next has been waiting. No I/O.

No clock of another host takes part, nor the difference of two: a lag is how long ago, by our own monotonic clock, the
oldest heartbeat was written that the standby does not have. So it is exact to one beat, and never too long. Only for a
heartbeat from before this process was started, two readings of the primary's clock are subtracted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

MOST_KEPT = 4096
"""Heartbeats whose time is remembered."""
COARSENESS = 0.005
"""Share of a lag by which it may be told too short when heartbeats had to be forgotten. With it, five beats a second
fill no more than the above in ten years."""
IN_FLIGHT = 30
"""Heartbeats that another exporter can write between our look at the primary and that at a standby."""
CHECKPOINT = 1.0
"""Seconds that what was applied may be told too far back: a MySQL that applies in several threads looks only every 0.3 s
how far all of them are. Beyond that it is believed, for its threads may pass each other."""
DOUBTFUL = 2.0
"""Seconds that a heartbeat may be older than the lag of the server's own account, before we doubt the latter."""

_INTERVAL = re.compile(r"\+?(\d+) (\d+):(\d\d?):(\d\d?(?:\.\d+)?)")
_LONGEST = 1e9  # seconds, some 30 years
_DIGITS = 20
"""Of the longest number that servers count with; Python itself refuses to read very long ones."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a binary log: those of the same `log` can be compared by `place`."""

    log: str
    place: tuple[int, int]

    @classmethod
    def of(cls, file: object, offset: object) -> Position | None:
        """From the name of a file and an offset, as a server tells them; None where it tells none."""
        log, _, number = str(file).rpartition(".")
        if not log or not number.isdecimal() or len(number) > _DIGITS:
            return None
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            return None
        return cls(log, (int(number), offset))


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat that we wrote: its number, our monotonic time when it could be read, what it is looked up by."""

    sequence: int
    at: float
    key: tuple[int, int]


class Trail:
    """The heartbeats we wrote, by a key that grows with each of them.

    Memory is bounded: when there are too many, those are forgotten whose neighbours tell nearly the same.
    """

    def __init__(self) -> None:
        self._beats: list[Beat] = []
        self._keys: list[tuple[int, int]] = []

    @property
    def newest(self) -> Beat | None:
        return self._beats[-1] if self._beats else None

    def note(self, beat: Beat) -> None:
        """One whose key is not above those before tells that they belong to another log: they are forgotten."""
        if self._keys and beat.key <= self._keys[-1]:
            self.clear()
        if len(self._beats) >= MOST_KEPT:
            self._thin_out()
        self._beats.append(beat)
        self._keys.append(beat.key)

    def clear(self) -> None:
        self._beats, self._keys = [], []

    def after(self, key: tuple[int, int]) -> Beat | None:
        """The oldest whose key is above the given one; None when there is none."""
        place = bisect_right(self._keys, key)
        return self._beats[place] if place < len(self._beats) else None

    def until(self, key: tuple[int, int]) -> Beat | None:
        """The newest whose key is not above the given one; None when there is none."""
        place = bisect_right(self._keys, key)
        return self._beats[place - 1] if place else None

    def numbered(self, sequence: int) -> Beat | None:
        """The newest that was written no later than the one with this number; None when there is none."""
        place = bisect_right(self._beats, sequence, key=lambda beat: beat.sequence)
        return self._beats[place - 1] if place else None

    def _thin_out(self) -> None:
        now = self._beats[-1].at
        kept = [self._beats[0]]
        for beat, following in zip(self._beats[1:-1], self._beats[2:], strict=True):
            if following.at - kept[-1].at > COARSENESS * (now - following.at):
                kept.append(beat)
        kept.append(self._beats[-1])
        self._beats, self._keys = kept, [beat.key for beat in kept]


@dataclass(frozen=True, slots=True)
class Row:
    """The heartbeat row as one server showed it: its number, and when it was written by the primary's clock (Unix)."""

    sequence: int
    beat: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A clock of a server: Unix seconds it showed when ours was at `at`, give or take `give` seconds."""

    shown: float
    at: float
    give: float

    def __sub__(self, other: Reading) -> float:
        """By how much this clock is ahead of the other."""
        return (self.shown - self.at) - (other.shown - other.at)


@dataclass(frozen=True, slots=True)
class Primary:
    """The primary as seen just before its standbys were asked; None where it could not be seen.

    `server` is its server_id, `uuid` its server_uuid (empty where the flavour has none).
    """

    server: int | None = None
    uuid: str = ""
    row: Row | None = None
    clock: Reading | None = None

    def age_of(self, row: Row, at: float) -> float | None:
        """Seconds from the writing of a row until our time `at`, both by the primary's clock."""
        if self.clock is None:
            return None
        return seconds(max(0.0, self.clock.shown + (at - self.clock.at) - row.beat))


class Memory:
    """The heartbeats that we wrote to one primary; by number, and by the end of its binary log after each."""

    def __init__(self, interval: float = 1.0) -> None:
        """`interval` seconds are between two beats until the beats themselves show it."""
        self._interval = interval
        self._gaps: deque[float] = deque(maxlen=3)
        self._start: int | None = None
        self._numbers, self._places = Trail(), Trail()
        self._log = ""

    @property
    def gap(self) -> float | None:
        """Seconds between two beats: the shortest of the last three times; None before the second beat."""
        return min(self._gaps, default=None)

    @property
    def fresh(self) -> float:
        """Seconds within which a beat must have been written, for there to be somebody who writes them."""
        gap = self.gap
        return max(10.0, 3.0 * (self._interval if gap is None else gap))

    def begin(self, sequence: int) -> None:
        """We write from here on, after what was in the row. What we remember holds if that is our own last beat."""
        newest = self._numbers.newest
        known = newest.sequence if newest else self._start
        # One more may be a beat of ours that was written although we were told that it failed.
        if known is None or sequence not in (known, known + 1):
            self._start = sequence
            self._numbers.clear()
            self._places.clear()

    def note(self, sequence: int, at: float, position: Position | None, then: float) -> None:
        """A beat could be read at `at`; `then`, the binary log ended at `position`, which is unknown if None."""
        newest = self._numbers.newest
        if newest is not None:
            self._gaps.append(at - newest.at)
        self._numbers.note(Beat(sequence, at, (sequence, 0)))
        if position is None:
            return
        if position.log != self._log:
            self._places.clear()
            self._log = position.log
        last = self._places.newest
        if last is None or position.place != last.key:
            self._places.note(Beat(sequence, then, position.place))

    def other_log(self) -> None:
        """The primary is another server than before: its positions cannot be compared with the former ones."""
        self._places.clear()

    def knows(self, position: Position) -> bool:
        """Whether a position is in the log of the beats that are remembered."""
        return position.log == self._log and self._places.newest is not None

    def is_fresh(self, at: float) -> bool:
        """Whether beats have been written lately."""
        newest = self._numbers.newest
        return newest is not None and at - newest.at <= self.fresh

    def heartbeat(self, row: Row | None, primary: Primary, at: float) -> float | None:
        """Seconds that the oldest heartbeat has been waiting that a standby did not show at our time `at`.

        None when there is no row, when nobody writes heartbeats, and when the standby shows what never was written.
        """
        if row is None:
            return None
        newest = self._numbers.newest
        at_primary = primary.row.sequence if primary.row else None
        if newest is not None and self._start is not None and self._start <= row.sequence <= newest.sequence:
            missing = self._numbers.after((row.sequence, 0))
            if missing is not None:
                return max(0.0, at - missing.at)
            if at_primary is None or at_primary <= newest.sequence:
                return 0.0 if self.is_fresh(at) else None
        return self._by_the_row(row, primary, at)

    def _by_the_row(self, row: Row, primary: Primary, at: float) -> float | None:
        """Of heartbeats that others wrote, or we before this process was started."""
        if primary.row is None or row.sequence > primary.row.sequence + IN_FLIGHT:
            return None
        if row.sequence < primary.row.sequence:
            return primary.age_of(row, at)
        age = primary.age_of(primary.row, at)
        return 0.0 if age is not None and age <= self.fresh else None

    def transport(
        self, received: Position, applied: Position | None, heartbeat: float | None, up: bool, at: float
    ) -> float | None:
        """Seconds that the oldest change has been waiting that is beyond `received`; None is unknown.

        `up`: whether the standby receives. While it does not, that nothing waits yet is no good news.
        """
        if received.log != self._log:
            return None
        missing = self._places.after(received.place)
        if missing is None:
            return 0.0 if up and self.is_fresh(at) else None
        if self.until(received) is None:
            # It has been waiting since before we remember. All that was received is applied: then it is the heartbeat.
            return heartbeat if applied is not None and applied.place >= received.place else None
        return max(0.0, at - missing.at)

    def apply(
        self,
        received: Position,
        applied: Position,
        heartbeat: float | None,
        up: bool,
        at: float,
        shown: int | None = None,
    ) -> float | None:
        """The same for what is not beyond `received` but beyond `applied`.

        `up`: it receives and applies. `shown` is the number of the heartbeat that came by this way and can be read.
        """
        if applied.log != self._log or received.log != self._log:
            return None
        done = applied.place
        waiting = self._places.after(done)
        if waiting is not None and shown is not None and at - waiting.at <= CHECKPOINT:
            seen = self._places.numbered(shown)
            done = max(done, seen.key) if seen else done
            waiting = self._places.after(done)
        if waiting is None or waiting.key > received.place:
            nothing = done >= received.place or self.is_fresh(at)
            return 0.0 if up and nothing else None
        if self._places.until(done) is None:
            return heartbeat
        return max(0.0, at - waiting.at)

    def until(self, position: Position) -> Beat | None:
        """The newest beat that is not beyond a position."""
        return self._places.until(position.place) if position.log == self._log else None

    def sequence(self, position: Position) -> int | None:
        """The number of that beat; None where beats around it are forgotten."""
        beat = self.until(position)
        if beat is None:
            return None
        following = self._places.after(position.place)
        return beat.sequence if following is None or following.sequence == beat.sequence + 1 else None


def believed(behind: float | None, heartbeat: float | None) -> float | None:
    """The lag by the server's own account, unless the heartbeats contradict it: it stays 0 while the network stalls."""
    if behind is None or (heartbeat is not None and heartbeat > behind + DOUBTFUL):
        return None
    return behind


def seconds(value: object) -> float | None:
    """A lag as servers tell it, in whatever type; None where it is none.

    Numbers (also as text or bytes), intervals such as `+01 02:03:04.5` (days, hours, minutes, seconds). Negative
    numbers stand for a fault in some servers, so they are unknown.
    """
    if isinstance(value, bytes | bytearray):
        value = value.decode("ascii", "replace")
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, str):
        value = _from_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):  # a signalling NaN, an endless integer
        return None
    return found if 0.0 <= found < _LONGEST else None


def _from_text(text: str) -> float | None:
    if found := _INTERVAL.fullmatch(text):
        days, hours, minutes, rest = (float(part) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + rest
    try:
        return float(text)
    except ValueError:
        return None
