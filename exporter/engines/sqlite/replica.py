"""The database that a primary and its standbys hold alike: one heartbeat row, and rows that change with it.

The changing rows are what makes a standby encrypt pages again, as the standby of a real database does.
Imports the driver and the standard library only, for the standby's process uses it too.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from exporter.engines.sqlite.unlocking import unlock

TABLES = ("heartbeat", "filler")
FILLER_ROWS = 64
CHANGED_ROWS = 2
"""Neighbours, so that a heartbeat rewrites two or three pages: it beats every second, day and night."""

_FILLER_BYTES = 512
_LOG_PAGES = 256
_TEMPORARY = "tmp"
_SCHEMA = """
CREATE TABLE heartbeat (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  generation TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  written REAL NOT NULL
);
CREATE TABLE filler (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
"""


class Position(NamedTuple):
    """How far a replica is: `generation` names the history that its `sequence` counts in."""

    generation: str
    sequence: int


def position(connection: apsw.Connection) -> Position | None:
    """Where this replica is; None when it holds nothing yet. Raises apsw.SQLError when it is no replica."""
    row = connection.execute("SELECT generation, sequence FROM heartbeat").get
    return None if row is None else Position(str(row[0]), int(row[1]))


def beat(connection: apsw.Connection) -> int:
    """Write the next heartbeat in a transaction of its own; its sequence."""
    with connection:
        sequence: int = connection.execute(
            "UPDATE heartbeat SET sequence = sequence + 1, written = ? RETURNING sequence", (time.time(),)
        ).get
        first = sequence * CHANGED_ROWS % FILLER_ROWS
        connection.executemany(
            "UPDATE filler SET content = ? WHERE id = ?",
            ((secrets.token_bytes(_FILLER_BYTES), first + number) for number in range(CHANGED_ROWS)),
        )
    return sequence


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that a replica holds."""

    generation: str
    sequence: int
    written: float
    filler: tuple[tuple[int, bytes], ...]

    @classmethod
    def new(cls) -> Content:
        """The beginning of a history."""
        filler = tuple((number, secrets.token_bytes(_FILLER_BYTES)) for number in range(FILLER_ROWS))
        return cls(secrets.token_hex(8), 0, time.time(), filler)

    @classmethod
    def of(cls, connection: apsw.Connection) -> Content:
        """What a replica holds now."""
        with connection:
            heads: list[Any] = connection.execute("SELECT generation, sequence, written FROM heartbeat").fetchall()
            filler: list[Any] = connection.execute("SELECT id, content FROM filler").fetchall()
        generation, sequence, written = heads[0]
        return cls(generation, sequence, written, tuple(filler))

    def write(self, connection: apsw.Connection) -> None:
        """Replace all that a replica holds, in one transaction."""
        with connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM {table}")
            connection.execute(
                "INSERT INTO heartbeat VALUES (1, ?, ?, ?)", (self.generation, self.sequence, self.written)
            )
            connection.executemany("INSERT INTO filler VALUES (?, ?)", self.filler)

    def encode(self) -> bytes:
        rows = [[number, content.hex()] for number, content in self.filler]
        return json.dumps([self.generation, self.sequence, self.written, rows]).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Content:
        generation, sequence, written, rows = json.loads(encoded)
        return cls(generation, sequence, written, tuple((number, bytes.fromhex(text)) for number, text in rows))


def missing(path: Path) -> bool:
    """Whether a replica has yet to be made here: no file, or one that a crash left without any content."""
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        return True


def make(path: Path, cipher: str, key: str, content: Content | None) -> None:
    """Make an encrypted replica where there is none. It gets its name when it is complete, so a kill leaves no half.

    Raises OSError, apsw.Error.
    """
    for left in path.parent.glob(f".{path.name}.*.{_TEMPORARY}*"):
        left.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.{_TEMPORARY}")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = apsw.Connection(str(temporary), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            unlock(connection, cipher, key)
            connection.execute(_SCHEMA)
            if content is not None:
                content.write(connection)
            connection.pragma("journal_mode", "wal")
        finally:
            connection.close()
        # The log of an earlier file of this name must not be taken for this one's.
        remove(path)
        temporary.rename(path)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a replica, its log first, which must not be taken for that of the next one. Raises OSError."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def settle(connection: apsw.Connection) -> None:
    """Settings of a connection that writes: safe against a kill and, but for the last seconds, a loss of power."""
    connection.pragma("synchronous", "normal")
    connection.wal_autocheckpoint(_LOG_PAGES)
