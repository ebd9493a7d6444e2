"""The history file: opened, created, checked, brought to the newest schema, or set aside when damaged."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import stat
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from exporter.domain.errors import HistoryError
from exporter.history.schema import APPLICATION_ID, MIGRATIONS, VERSION

BUSY_SECONDS = 5.0
"""How long a statement waits for another process that writes."""
PARTS = ("", "-wal", "-shm")
"""SQLite keeps a database in up to three files."""
CHECK_SECONDS = 5.0
"""A check that takes longer is broken off, so that a large file does not keep the daemon from starting. On a warm disk
this is enough for several gigabytes."""
SUSPECT = ".suspect"
"""A file of this name beside the history says that damage was met while it was used: the next check is a whole one."""

_GLANCE_SECONDS = 0.5
_READ_ONLY = "read-only"
_DAMAGED = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
_WAL_LIMIT = 16 * 1024 * 1024
_log = logging.getLogger(__name__)


class _Damaged(Exception):
    """The file is not a sound SQLite database; never leaves this module."""


def open_file(path: Path, now: float, *, set_aside: bool = True) -> sqlite3.Connection:
    """A connection to a sound history of the newest schema; `now` is Unix time. Raises HistoryError.

    A damaged file is renamed to `<name>.damaged-<UTC time>` and a new one is begun, unless `set_aside` is false:
    whoever only looks must not move a file away from the daemon that uses it, and checks no more than a glance takes.
    """
    _prepare(path)
    try:
        return _connect(path, check=CHECK_SECONDS if set_aside else _GLANCE_SECONDS)
    except _Damaged as error:
        if not set_aside:
            raise HistoryError(f"{path}: {error}. Restart the daemon, which sets it aside") from None
        kept = _set_aside(path, now)
        _log.warning("%s: %s; it was set aside as %s and a new history is begun", path, error, kept.name)
    _prepare(path)
    try:
        return _connect(path, check=CHECK_SECONDS)
    except _Damaged as error:
        raise HistoryError(f"{path}: {error}, though it is new. Check the disk, or set history.path") from None


def suspect(path: Path) -> None:
    """Note that damage was met; the check at the next start then takes the time that it needs."""
    with contextlib.suppress(OSError):
        path.with_name(path.name + SUSPECT).touch(mode=0o600)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether it says that the file itself is damaged."""
    return (getattr(error, "sqlite_errorname", None) or "").startswith(_DAMAGED)


def explain(path: Path, error: sqlite3.Error) -> HistoryError:
    """What SQLite complains about, in one line that names the fix."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and _is_full(path.parent):
        # Of the file that is shared between processes SQLite does not say why it cannot grow.
        name = "SQLITE_FULL"
    if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")) and _is_read_only(path.parent):
        name = _READ_ONLY
    remedies = (
        (
            _READ_ONLY,
            "the file system is read-only. See why (dmesg), mount it for writing, or set history.path to another",
        ),
        ("SQLITE_FULL", "the disk is full. Free some space, or set history.path to another disk"),
        ("SQLITE_READONLY", "it cannot be written. Give this user the right to write the file and its directory"),
        ("SQLITE_CANTOPEN", "it cannot be opened. Give this user the right to write the file and its directory"),
        ("SQLITE_PERM", "it cannot be opened. Give this user the right to write the file and its directory"),
        ("SQLITE_BUSY", "another process has locked it. End that process, or set history.path to another file"),
        ("SQLITE_IOERR", "it cannot be read or written. Check the disk, or set history.path to another one"),
        ("SQLITE_CORRUPT", "it is damaged. Restart: it will be set aside and a new one begun"),
        ("SQLITE_NOTADB", "it is damaged. Restart: it will be set aside and a new one begun"),
    )
    for prefix, words in remedies:
        if name.startswith(prefix):
            return HistoryError(f"{path}: {words} ({error})")
    return HistoryError(f"{path}: {error}")


def _is_full(directory: Path) -> bool:
    """Whether not one block is left for this user."""
    try:
        return os.statvfs(directory).f_bavail == 0
    except OSError:
        return False


def _is_read_only(directory: Path) -> bool:
    try:
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _prepare(path: Path) -> None:
    """Make the directory (0700) and the file (0600) when they are missing."""
    try:
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite would create the file as the umask has it; its two companions take over our mode.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        regular = stat.S_ISREG(os.fstat(file).st_mode)
        os.close(file)
    except IsADirectoryError:
        raise HistoryError(f"{path}: this is a directory. Set history.path to a file") from None
    except OSError as error:
        remedy = "Give this user the right to write there, or set history.path to a file that it may write"
        raise HistoryError(f"{path}: the history cannot be opened ({error.strerror}). {remedy}") from None
    if not regular:
        raise HistoryError(f"{path}: this is a pipe or a device. Set history.path to a file")


def _connect(path: Path, check: float) -> sqlite3.Connection:
    try:
        # Transactions are begun and ended by hand: the module's own rules begin them late and for writes only.
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise explain(path, error) from None
    try:
        _ensure_ours(path, connection)
        _check(path, connection, check)
        _configure(path, connection)
        _migrate(connection)
    except sqlite3.Error as error:
        connection.close()
        if is_damage(error):
            raise _Damaged(f"the file is damaged ({error})") from None
        raise explain(path, error) from None
    except Exception:
        connection.close()
        raise
    return connection


def _ensure_ours(path: Path, connection: sqlite3.Connection) -> None:
    version, identity = _pragma(connection, "user_version"), _pragma(connection, "application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if identity != APPLICATION_ID and (tables or version or identity):
        raise HistoryError(f"{path}: this is the database of another program. Set history.path to a file of its own")
    if version > VERSION:
        raise HistoryError(
            f"{path}: written by a newer tde-exporter (schema {version}, this one knows {VERSION}). "
            "Upgrade tde-exporter, or set history.path to another file"
        )


def _check(path: Path, connection: sqlite3.Connection, seconds: float) -> None:
    mark, thorough = path.with_name(path.name + SUSPECT), seconds >= CHECK_SECONDS
    try:
        found = _quick_check(connection, None if thorough and mark.exists() else seconds)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", None) != "SQLITE_INTERRUPT":
            raise
        if thorough:
            _log.warning("%s is large: not all of it was checked in %.0f s; it is used as it is", path, seconds)
        return
    if found != "ok":
        raise _Damaged(f"the file is damaged ({' '.join(found.split())})")
    if thorough:
        mark.unlink(missing_ok=True)


def _quick_check(connection: sqlite3.Connection, seconds: float | None) -> str:
    """The first thing that is wrong, else `ok`; raises `OperationalError` (interrupted) when it takes too long."""
    if seconds is None:
        return str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        return str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    finally:
        timer.cancel()
        # An interrupt that is under way must not reach a statement that comes after.
        timer.join()


def _configure(path: Path, connection: sqlite3.Connection) -> None:
    # Only possible while the file is empty; lets `prune` give space back.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise HistoryError(f"{path}: this file system cannot hold it (no WAL). Set history.path to a local disk")
    # In WAL mode this loses the last transactions when the power fails, and nothing when we are killed.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")


def _migrate(connection: sqlite3.Connection) -> None:
    while _pragma(connection, "user_version") < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        # Read again under the lock: another process may have done this step in the meantime.
        version = _pragma(connection, "user_version")
        if version < VERSION:
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute("COMMIT")


def _set_aside(path: Path, now: float) -> Path:
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    try:
        # The file itself goes last: should we be killed in between, the next start finds it and tries again.
        for part in reversed(PARTS):
            source = path.with_name(path.name + part)
            if source.exists():
                source.rename(kept.with_name(kept.name + part))
        path.with_name(path.name + SUSPECT).unlink(missing_ok=True)
    except OSError as error:
        raise HistoryError(
            f"{path}: it is damaged and cannot be renamed ({error.strerror}). Move it away, or set history.path"
        ) from None
    return kept


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    with closing(connection.execute(f"PRAGMA {name}")) as cursor:
        return int(cursor.fetchone()[0])
