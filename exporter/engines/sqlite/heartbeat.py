"""The primary of the standbys: a small encrypted database whose every transaction is captured to be shipped."""

from __future__ import annotations

import secrets
import time
from bisect import bisect_right
from pathlib import Path

import apsw

from exporter.domain.errors import VerificationFailed
from exporter.engines.sqlite import replica
from exporter.engines.sqlite.files import CIPHERS, Connections
from exporter.engines.sqlite.key import Key, KeyFile
from exporter.engines.sqlite.shipping import Change
from exporter.engines.sqlite.unlocking import fingerprint

MOST_KEPT = 4096
"""Points of time that are kept for heartbeats which some standby has not applied."""

COARSENESS = 0.005
"""Share of a lag by which it may be told too short when points of time had to be dropped. With it, five beats a
second fill no more than the points above in ten years."""


class Timeline:
    """When the changes were written that some standby has not got yet; seconds of the monotonic clock.

    Memory is bounded: when there are too many points of time, those are dropped whose neighbours tell nearly the
    same. A lag of hours may then be told too short, by `COARSENESS` of it at most.
    """

    def __init__(self, start: int) -> None:
        """`start` is the sequence that had been reached; when that was, nobody knows any more."""
        self._start = self._newest = start
        self._sequences: list[int] = []
        self._times: list[float] = []

    def note(self, sequence: int, at: float) -> None:
        if len(self._sequences) >= MOST_KEPT:
            self._thin_out()
        self._sequences.append(sequence)
        self._times.append(at)
        self._newest = sequence

    def forget(self, seen: int) -> None:
        """Every standby has seen this sequence: what was written until then matters no more."""
        dropped = bisect_right(self._sequences, seen)
        del self._sequences[:dropped], self._times[:dropped]
        self._start = max(self._start, min(seen, self._newest))

    def waiting(self, seen: int, now: float) -> float | None:
        """Seconds since the oldest change after `seen` was written; 0 when there is none, None when nobody knows.

        Who claims to have seen what was never written is not up to date, but the standby of something else.
        """
        if seen < self._start or seen > self._newest:
            return None
        if seen == self._newest:
            return 0.0
        first = bisect_right(self._sequences, seen)
        return max(0.0, now - self._times[first])

    def _thin_out(self) -> None:
        newest = self._times[-1]
        kept = [0]
        for place in range(1, len(self._times) - 1):
            after = self._times[place + 1]
            if after - self._times[kept[-1]] > COARSENESS * (newest - after):
                kept.append(place)
        kept.append(len(self._times) - 1)
        self._sequences = [self._sequences[place] for place in kept]
        self._times = [self._times[place] for place in kept]


class Primary:
    """`heartbeat.db` in the folder of the twins. Used by the session's thread."""

    def __init__(self, path: Path, connections: Connections, keys: KeyFile, cipher: str) -> None:
        self.path, self.cipher = path, cipher
        self._connections, self._keys = connections, keys
        self._connection: apsw.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._key: Key | None = None
        self.nonce = secrets.token_hex(8)
        self.at = replica.Position("", 0)
        self.timeline = Timeline(0)

    @property
    def key(self) -> Key | None:
        """The key with which the database is open; None while it is not."""
        return self._key

    @property
    def fingerprint(self) -> str:
        """That of the key with which the database is open, empty while it is not."""
        return "" if self._key is None else fingerprint(self._key.pragma, self.nonce)

    @property
    def ciphers(self) -> tuple[str, ...]:
        """The configured one, then all others that an older file of ours may be encrypted with."""
        return tuple(sorted(CIPHERS, key=lambda cipher: cipher != self.cipher))

    def beat(self) -> Change:
        """Write a heartbeat; the change to ship. Raises `KeystoreFailed`, `VerificationFailed`, apsw.Error, OSError."""
        connection = self._opened()
        session = apsw.Session(connection, "main")
        try:
            for table in replica.TABLES:
                session.attach(table)
            sequence = replica.beat(connection)
            # From here on it can be read on the primary, and so it can be missed on a standby.
            written = time.monotonic()
            changeset = session.changeset()
        finally:
            session.close()
        self.at = replica.Position(self.at.generation, sequence)
        self.timeline.note(sequence, written)
        return Change(sequence, changeset)

    def content(self) -> replica.Content:
        """All that a standby must hold. Raises as `beat` does."""
        return replica.Content.of(self._opened())

    def close(self) -> None:
        connection, self._connection, self._key = self._connection, None, None
        if connection is not None:
            self._connections.close(connection)

    def _opened(self) -> apsw.Connection:
        if self._connection is not None and self._identity == self._found():
            return self._connection
        self.close()
        # First of all: without a key nothing is made, and an encrypted file without its key is left alone.
        key = self._keys.read()
        connection, held = self._existing() or self._made(key)
        replica.settle(connection)
        self._connection, self._identity, self._key = connection, self._found(), key
        if held != self.at:
            self.at, self.timeline = held, Timeline(held.sequence)
        return connection

    def _existing(self) -> tuple[apsw.Connection, replica.Position] | None:
        """The database that is there; None when there is none, or was one for another cipher, which is removed."""
        if replica.missing(self.path):
            return None
        connection, cipher = self._connections.open(self.path)
        held = self._verified(connection, cipher)
        if cipher == self.cipher:
            return connection, held
        self._connections.close(connection)
        replica.remove(self.path)
        return None

    def _made(self, key: Key) -> tuple[apsw.Connection, replica.Position]:
        replica.make(self.path, self.cipher, key.pragma, replica.Content.new())
        connection = self._connections.connect(self.path, self.cipher, key)
        return connection, self._verified(connection, self.cipher)

    def _verified(self, connection: apsw.Connection, cipher: str | None) -> replica.Position:
        """Where the database is; closes it and raises `VerificationFailed` when it is not one of ours."""
        held = None
        try:
            held = replica.position(connection) if cipher is not None else None
        except apsw.SQLError:
            pass
        except BaseException:
            self._connections.close(connection)
            raise
        if held is None:
            self._connections.close(connection)
            raise VerificationFailed(f"{self.path} is a database that this exporter did not make; move it away")
        return held

    def _found(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino
