"""Holding the advisory lock of a schema while its twins are made, filled or dropped.

It belongs to a session and ends with it, however that ends. Each server keeps its own locks; a cluster does not share them
between its nodes (Galera, Group Replication). Whoever writes the heartbeat has a lock of his own: twins can be made while
a daemon is at work.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator

from exporter.domain.errors import Blocked, PermissionMissing, QueryFailed, TargetError, Unavailable, Unsupported
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.time_left import TimeLeft

_LONGEST = 64  # characters of a name; MySQL refuses longer ones
_RELEASE_SECONDS = 2.0


def lock_name(schema: str) -> str:
    """One lock for each schema. Servers compare such names without regard to case."""
    name = f"tde-exporter twins {schema.lower()}"
    if len(name) <= _LONGEST:
        return name
    return f"tde-exporter twins {hashlib.sha256(schema.lower().encode()).hexdigest()[:40]}"


@contextlib.contextmanager
def schema_lock(connection: Connection, schema: str, left: TimeLeft) -> Iterator[None]:
    """Hold the lock of a schema; raises Blocked at once when another session has it, and names that session.

    A session that has it already takes it once more.
    """
    name = lock_name(schema)
    row = connection.row("SELECT GET_LOCK(%s, 0)", (name,), timeout=left(10.0))
    taken = row[0] if row else None
    if taken is None:
        raise Unsupported("the server gives no advisory lock (GET_LOCK), so two exporters could not be told apart")
    if not taken:
        raise Blocked(f"another exporter works in the schema {schema}: {_holder(connection, name, left)}")
    try:
        yield
    finally:
        # A session that is lost has lost its locks as well.
        if connection.alive:
            with contextlib.suppress(TargetError):
                connection.row("SELECT RELEASE_LOCK(%s)", (name,), timeout=_RELEASE_SECONDS)


def _holder(connection: Connection, name: str, left: TimeLeft) -> str:
    number = holding(connection, name, left(10.0))
    if number is None:
        return "it has just ended, so try again"
    return f"its {described(connection, number, lambda: left(10.0))}, holds the lock {name}"


def holding(connection: Connection, name: str, timeout: float) -> int | None:
    """The session that holds a lock, by its number in the server's list; None when nobody does. Raises `TargetError`."""
    row = connection.row("SELECT IS_USED_LOCK(%s)", (name,), timeout=timeout)
    return None if row is None or row[0] is None else int(row[0])


def described(connection: Connection, number: int, step: Callable[[], float]) -> str:
    """A session in words: its number, and as far as the server tells us, whose it is, and from where.

    Another account's sessions are seen with PROCESS only, processes of clients only where the performance schema is on.
    Raises nothing but what ends our own session or the time: `step` gives the seconds for the next statement.
    """
    words = f"connection {number}"
    session = _told(connection, "SELECT user, host FROM information_schema.processlist WHERE id = %s", number, step)
    if session is None:
        return words
    attribute = (
        "SELECT attr_value FROM performance_schema.session_account_connect_attrs"
        " WHERE processlist_id = %s AND attr_name = '_pid'"
    )
    process = _told(connection, attribute, number, step)
    return f"{words}, of the user {session[0]} from {session[1]}{f', process {process[0]}' if process else ''}"


def _told(connection: Connection, sql: str, number: int, step: Callable[[], float]) -> tuple[object, ...] | None:
    try:
        return connection.row(sql, (number,), timeout=step())
    except (PermissionMissing, QueryFailed, Unavailable, Unsupported):
        return None
