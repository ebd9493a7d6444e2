"""What the server says of our tables before anything is done with them: are they there, and are they ours?"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.domain.errors import PermissionMissing, QueryFailed, TargetError
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.failures import TableUnreadable
from exporter.engines._mysql_protocol.marker import TwinMarker, is_heartbeat, twin_marker
from exporter.engines._mysql_protocol.time_left import TimeLeft
from exporter.engines._mysql_protocol.twins import quoted

# Both values are constants, so that the server opens this one table and does not look through its directories.
_TABLE = (
    "SELECT table_type, engine, table_comment, data_length FROM information_schema.tables "
    "WHERE table_schema = %s AND table_name = %s"
)
_NO_SUCH_TABLE, _UNKNOWN_DATABASE = "(error 1146)", "(error 1049)"


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table (or a view) that is there.

    `readable` is False when the server cannot open it: then its comment is not known. `data_bytes` is what the server
    takes for the size of its rows; MySQL may tell what it was a day ago.
    """

    readable: bool
    comment: str
    data_bytes: int | None = None

    @property
    def marker(self) -> TwinMarker | None:
        """None: it is not one of our twins, or the server cannot tell."""
        return twin_marker(self.comment) if self.readable else None

    @property
    def is_heartbeat(self) -> bool:
        return self.readable and is_heartbeat(self.comment)


def found_table(kind: str, engine: str | None, comment: str | None, data_bytes: int | None = None) -> FoundTable:
    """What columns of `information_schema.tables` mean. A view has no engine, and nothing that makes it ours."""
    if kind.upper() != "BASE TABLE":
        return FoundTable(True, "")
    return FoundTable(engine is not None, comment or "", data_bytes)


def find_table(connection: Connection, schema: str, name: str, left: TimeLeft) -> FoundTable | None:
    """Look at a table; None when there is none. Raises PermissionMissing when it may be there, but not for us to see."""
    # Twice: what the view does not show and a statement finds may have been made by somebody in between.
    for _ in range(2):
        row = connection.row(_TABLE, (schema, name), timeout=left(10.0))
        if row is not None:
            return found_table(*row)
        if not _is_there(connection, quoted(schema, name), left):
            return None
    return FoundTable(False, "")


def _is_there(connection: Connection, table: str, left: TimeLeft) -> bool:
    """The view leaves out what the account has no right to; a statement says which of the two it is."""
    try:
        connection.row(f"SELECT 1 FROM {table} LIMIT 0", timeout=left(10.0))
    except (PermissionMissing, TableUnreadable):
        raise
    except QueryFailed as error:
        if str(error).endswith((_NO_SUCH_TABLE, _UNKNOWN_DATABASE)):
            return False
        raise
    return True


def unreadable(table: str, error: TargetError | None = None) -> str:
    """Why nothing is done with a table that is there and cannot be opened, in words."""
    reason = error or "its key is not available, or its data is damaged"
    return (
        f"the table {table} cannot be read ({reason}), so whether it is one of ours cannot be seen; it is left as it is"
    )
