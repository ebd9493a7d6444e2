"""Drops the twins of a pair, and nothing that we did not make.

The schema itself stays, also when it is empty: what another session makes in it between a look and a DROP DATABASE would
go with it, and so would what the account is not allowed to see. An empty schema costs nothing.
"""

from __future__ import annotations

from exporter.domain.errors import Blocked, TargetError
from exporter.domain.model import Slot
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.failures import TableUnreadable
from exporter.engines._mysql_protocol.lock import schema_lock
from exporter.engines._mysql_protocol.tables import find_table, found_table, unreadable
from exporter.engines._mysql_protocol.time_left import TimeLeft
from exporter.engines._mysql_protocol.twins import HEARTBEAT, Twins, quoted

_DROP_SECONDS = 300.0


def drop(connection: Connection, twins: Twins, timeout: float) -> tuple[str, ...]:
    """Drop both twins, half-built ones too, and with the last pair of the schema the heartbeat table.

    Returns the names of what was dropped. Both tables are looked at before either is dropped. Raises Blocked for a table
    that is not ours, for one that cannot be read (its key may come back), and when another exporter holds the lock.
    """
    left = TimeLeft(timeout, f"dropping the twins of {twins.pair.name}")
    with schema_lock(connection, twins.schema, left):
        there = [slot for slot in Slot if _ours(connection, twins, slot, left)]
        dropped = [_drop(connection, twins.table(slot), left) for slot in there]
        if _heartbeat_is_left_over(connection, twins.schema, left):
            dropped.append(_drop(connection, quoted(twins.schema, HEARTBEAT), left))
    return tuple(dropped)


def _ours(connection: Connection, twins: Twins, slot: Slot, left: TimeLeft) -> bool:
    """Whether a twin is there; raises Blocked when a table of its name is not to be dropped."""
    table = twins.table(slot)
    try:
        found = find_table(connection, twins.schema, twins.name(slot), left)
    except TableUnreadable as error:
        raise Blocked(unreadable(table, error)) from error
    if found is not None and not found.readable:
        raise Blocked(unreadable(table, _why(connection, table, left)))
    if found is not None and found.marker is None:
        raise Blocked(f"the table {table} is none that this exporter made; it is left as it is")
    return found is not None


def _why(connection: Connection, table: str, left: TimeLeft) -> TargetError | None:
    try:
        connection.row(f"SELECT 1 FROM {table} LIMIT 1", timeout=left(10.0))
    except TargetError as error:
        return error
    return None


def _drop(connection: Connection, table: str, left: TimeLeft) -> str:
    connection.execute(f"DROP TABLE {table}", timeout=left(_DROP_SECONDS))
    return table


def _heartbeat_is_left_over(connection: Connection, schema: str, left: TimeLeft) -> bool:
    """Whether our heartbeat table is there, and no twin that needs it, nor a table that might be one."""
    sql = "SELECT table_name, table_type, engine, table_comment FROM information_schema.tables WHERE table_schema = %s"
    rows = connection.rows(sql, (schema,), timeout=left(10.0))
    tables = {str(row[0]): found_table(*row[1:]) for row in rows}
    heartbeat = tables.pop(HEARTBEAT, None)
    if heartbeat is None or not heartbeat.is_heartbeat:
        return False
    return all(table.readable and table.marker is None for table in tables.values())
