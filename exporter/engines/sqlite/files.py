"""The twin files: their names, their raw bytes, and the connections to them.

Raw bytes are read through SQLite's own file layer, never with `open`: closing a descriptor of a
database file would drop all POSIX locks that this process holds on it, and another process could then
take away the write-ahead log under our feet.
"""

from __future__ import annotations

import contextlib
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import apsw

from exporter.domain.errors import KeystoreFailed, QueryFailed, Unavailable
from exporter.domain.model import Slot
from exporter.engines.sqlite.failures import translated
from exporter.engines.sqlite.key import Key, KeyFile
from exporter.engines.sqlite.settings import Target, twin_name
from exporter.engines.sqlite.unlocking import readable, unlock

MAGIC = b"SQLite format 3\x00"
SIDE_FILES = ("-wal", "-shm", "-journal")
CIPHERS: tuple[str, ...] = get_args(Target.model_fields["cipher"].annotation)
BUSY_MILLISECONDS = 100
LONGEST_VALUE = 16 * 2**20
"""Bytes of one value. Ours have at most a tenth of that; a file that somebody exchanged could make them up at no cost."""
ENGINE_VERSION = f"{apsw.sqlite_lib_version()} ({getattr(apsw, 'mc_version', 'no page encryption')})"


def twin_path(directory: Path, pair: str, slot: Slot) -> Path:
    """Where the twin of a slot lives. The name says what we built there, not what is there now."""
    return directory / twin_name(pair, slot)


@dataclass(frozen=True, slots=True)
class Identity:
    """Tells one file from another that has taken its name, and a plain content from an encrypted one."""

    device: int
    inode: int
    plain: bool


class RawFile:
    """Read-only access to the bytes on disk, for use in a `with` statement. Raises apsw.Error, OSError, `Unavailable`."""

    def __init__(self, path: Path) -> None:
        # Opening a pipe would hang, and the whole process with it.
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unavailable(f"{path} is not a file; move it away")
        flags = [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0]
        # SQLite itself would follow a link only where it opens a database.
        self._file = apsw.VFSFile("unix", str(path.resolve()), flags)
        self.size = self._file.xFileSize()

    def read(self, amount: int, offset: int = 0) -> bytes:
        return self._file.xRead(min(amount, max(0, self.size - offset)), offset)

    def __enter__(self) -> RawFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.xClose()


def identity(path: Path) -> Identity | None:
    """Who the file is now; None when there is none. Raises OSError or apsw.Error when it cannot be read."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    with RawFile(path) as raw:
        return Identity(status.st_dev, status.st_ino, raw.read(len(MAGIC)) == MAGIC)


def distrust(connection: apsw.Connection) -> None:
    """Refuse what a twin of ours has not, and what answers without end or of any size are made of."""
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)


class Connections:
    """Opens twin files with the right key, and knows every connection that is open.

    `interrupt` may be called from any thread at any time; everything else by the session's thread.
    """

    def __init__(self, keys: KeyFile, preferred_cipher: str) -> None:
        self._keys = keys
        self._ciphers = sorted(CIPHERS, key=lambda cipher: cipher != preferred_cipher)
        self._open: set[apsw.Connection] = set()
        self._changing = threading.Lock()

    def connect(self, path: Path, cipher: str | None, key: Key | None = None) -> apsw.Connection:
        """A connection to an existing file; `cipher` None: without a key. Raises apsw.Error, `KeystoreFailed`.

        `key` stands for the one in the key file, for who has read it before and goes on without the file.
        """
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        with self._changing:
            self._open.add(connection)
        try:
            if cipher is not None:
                unlock(connection, cipher, (key or self._keys.read()).pragma)
            distrust(connection)
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            # An automatic checkpoint would land in some timed insert; ours runs outside of them.
            connection.wal_autocheckpoint(0)
        except BaseException:
            self.close(connection)
            raise
        return connection

    def open(self, path: Path) -> tuple[apsw.Connection, str | None]:
        """A connection to a twin, plain or with the key as its header demands, and its cipher (None: plain).

        Raises `KeystoreFailed`, `QueryFailed`, `Unavailable`.
        """
        with translated(str(path)):
            with RawFile(path) as raw:
                if raw.size == 0:
                    raise QueryFailed(f"{path} is empty; it is not a twin, move it away")
                plain = raw.read(len(MAGIC)) == MAGIC
            cipher = None if plain else self.cipher_of(path)
            return self.connect(path, cipher), cipher

    def cipher_of(self, path: Path) -> str:
        """The cipher with which our key opens an encrypted file. Raises `KeystoreFailed`, apsw.Error."""
        self._keys.read()
        for cipher in self._ciphers:
            if self.readable(path, cipher):
                return cipher
        raise KeystoreFailed(
            f"the key in {self._keys.path} does not open {path}: wrong key, or the file is damaged or not ours"
        )

    def readable(self, path: Path, cipher: str | None) -> bool:
        """Whether the file opens as a database with this cipher and our key, or with none. See `unlocking.readable`."""
        return readable(path, cipher, "" if cipher is None else self._keys.read().pragma)

    def interrupt(self) -> None:
        """Stop whatever statement is running; statements that begin later are not affected."""
        with self._changing:
            for connection in self._open:
                connection.interrupt()

    def close(self, connection: apsw.Connection) -> None:
        """Close one connection; never raises."""
        with self._changing:
            self._open.discard(connection)
        with contextlib.suppress(apsw.Error):
            connection.close()

    def close_all(self) -> None:
        for connection in tuple(self._open):
            self.close(connection)
