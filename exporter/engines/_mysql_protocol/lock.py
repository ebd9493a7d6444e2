"""Holding the advisory lock of a schema while its twins are made, filled or dropped.

It belongs to a session and ends with it, however that ends. Each server keeps its own locks; a cluster does not share them
between its nodes (Galera, Group Replication). Whoever writes the heartbeat has a lock of his own: twins can be made while
a daemon is at work.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

from exporter.domain.errors import Blocked, TargetError, Unsupported
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
    row = connection.row("SELECT IS_USED_LOCK(%s)", (name,), timeout=left(10.0))
    if row is None or row[0] is None:
        return "it has just ended, so try again"
    user = None
    with contextlib.suppress(TargetError):
        # Another user's sessions are seen with PROCESS only.
        sql = "SELECT user FROM information_schema.processlist WHERE id = %s"
        user = connection.row(sql, (row[0],), timeout=left(10.0))
    return f"its connection {row[0]}{f', of the user {user[0]},' if user else ''} holds the lock {name}"
