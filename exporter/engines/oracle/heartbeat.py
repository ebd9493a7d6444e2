"""The heartbeat row: making its table, writing it, reading it, and what is remembered of each beat."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from exporter.domain.clock import Clock, SystemClock
from exporter.domain.errors import Blocked, PermissionMissing, QueryFailed
from exporter.domain.states import ScratchLock
from exporter.engines.beats import Memory, Reading, Row
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.statements import Need, Statement, define, quoted

TABLE = "HEARTBEAT"
COMMENT = "tde-exporter heartbeat v1"
"""By which we know our own table again."""
LOOKS_AT_CLOCK = 2

_LOGIN = (Need.PRIMARY, Need.LOGIN)
CREATE = define(
    "heartbeat.create",
    "CREATE TABLE {table} (id NUMBER(1) NOT NULL, seq NUMBER(18) NOT NULL, beat TIMESTAMP(6) NOT NULL,"
    " CONSTRAINT {key} PRIMARY KEY (id) USING INDEX TABLESPACE {tablespace}) NOCOMPRESS LOGGING TABLESPACE {tablespace}",
    "provision",
    ("CREATE ANY TABLE", "CREATE ANY INDEX"),
    needs=_LOGIN,
)
MARK = define(
    "heartbeat.mark",
    f"COMMENT ON TABLE {{table}} IS '{COMMENT}'",
    "provision",
    ("COMMENT ANY TABLE",),
    needs=_LOGIN,
)
GRANT = define(
    "heartbeat.grant",
    "GRANT SELECT, INSERT, UPDATE ON {table} TO {writer}",
    "provision",
    ("GRANT ANY OBJECT PRIVILEGE",),
    needs=_LOGIN,
)
DROP = define("heartbeat.drop", "DROP TABLE {table} PURGE", "provision", ("DROP ANY TABLE",), needs=_LOGIN)
WHOSE = define(
    "heartbeat.whose",
    "SELECT comments FROM all_tab_comments WHERE owner = :1 AND table_name = :2",
    "heartbeat",
    needs=(Need.OPEN,),
    example=("SYS", "DUAL"),
)
_SELECT = ("SELECT ON {table}",)
READ = define(
    "heartbeat.read",
    "SELECT seq, beat, SYS_EXTRACT_UTC(SYSTIMESTAMP) AS now FROM {table} WHERE id = 1",
    "standby",
    _SELECT,
    needs=(Need.OPEN, Need.TWINS),
)
BEGIN = define(
    "heartbeat.begin",
    "INSERT INTO {table} (id, seq, beat) VALUES (1, :1, SYS_EXTRACT_UTC(SYSTIMESTAMP))",
    "heartbeat",
    ("INSERT ON {table}",),
    needs=(Need.PRIMARY, Need.TWINS),
)
WRITE = define(
    "heartbeat.write",
    # The condition makes two writers notice each other. It reads, which takes SELECT where READ will not do.
    "UPDATE {table} SET seq = :1, beat = SYS_EXTRACT_UTC(SYSTIMESTAMP) WHERE id = 1 AND seq = :2",
    "heartbeat",
    ("SELECT ON {table}", "UPDATE ON {table}"),
    needs=(Need.PRIMARY, Need.TWINS),
    example=(0, -1),
)
CLOCK = define("heartbeat.clock", "SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) AS now FROM dual", "standby")


@dataclass(frozen=True, slots=True)
class Look:
    """The row as a database shows it, and how old it is by that database's clock, in seconds."""

    row: Row
    age: float


def table_of(schema: str) -> str:
    """Name of the table with its schema."""
    return f"{schema}.{TABLE}"


def look(connection: Connection, schema: str, timeout: float) -> Look | None:
    """The heartbeat as a database shows it; None while there is none. Raises `TargetError`."""
    found = connection.row(READ.on(table=table_of(schema)), timeout=timeout)
    if found is None:
        return None
    beat, now = unix(found[1]), unix(found[2])
    return Look(Row(int(found[0]), beat), now - beat)


def read_clock(connection: Connection, clock: Clock, deadline: Deadline) -> Reading | None:
    """The database's clock against ours, by the quickest of a few looks; also where it is only mounted."""
    best: Reading | None = None
    for _ in range(LOOKS_AT_CLOCK):
        before = clock.monotonic()
        row = connection.row(CLOCK, timeout=deadline.step())
        half = (clock.monotonic() - before) / 2
        if row is not None and (best is None or half < best.give):
            best = Reading(unix(row[0]), before + half, half)
    return best


def unix(moment: datetime.datetime) -> float:
    """Seconds, of a time of UTC as the driver gives it, without a zone."""
    return moment.replace(tzinfo=datetime.UTC).timestamp()


class Heartbeats:
    """Writes the heartbeats of one target. Used by the target's lane; outlives its sessions, so that what it remembers
    survives a lost one. A call that hung may go on beside the calls of the next session.

    Each beat is written only over the one that we know. So two exporters never write by turns: who finds another
    number waits until nobody has written for a while.
    """

    def __init__(self, schema: str, clock: Clock | None = None, interval: float = 1.0) -> None:
        """`interval` is the number of seconds between two beats, as far as is known; it is learnt from the beats."""
        self.schema, self.memory = schema, Memory(interval)
        self._table = table_of(schema)
        self._clock = clock or SystemClock()
        self._noting = threading.Lock()
        self._held_by: Connection | None = None
        self._sequence: int | None = None
        self._seen: int | None = None
        self._others: Connection | None = None

    def lock(self, control: Connection) -> ScratchLock | None:
        """Whose the row is, by the beats in this session. It does not say who else writes it."""
        if not control.alive:
            return None
        if self._held_by is control:
            return ScratchLock(True)
        return ScratchLock(False, "another exporter, which the row does not name") if self._others is control else None

    def beat(self, control: Connection, timeout: float) -> None:
        """Write a heartbeat and remember when. The first ones after a start may only look whether another exporter writes.

        Raises `Blocked` when it does, or the table is not ours; `PermissionMissing` with the grant that is missing,
        `Unavailable` where the database is open for reading only; any other `TargetError` as the connection does.
        """
        deadline = Deadline(timeout, "the heartbeat")
        for _ in range(2):
            if self._held_by is not control and not self._take(control, deadline):
                return
            before = self._sequence or 0
            changed = control.execute(self._on(WRITE), (before + 1, before), timeout=deadline.step())
            control.commit(timeout=deadline.step())
            if changed:
                self._note(control, before + 1, self._clock.monotonic())
                return
            # Somebody else wrote, or a beat of ours was written although we were told that it failed.
            self._held_by = None

    def _note(self, control: Connection, sequence: int, written: float) -> None:
        with self._noting:
            # A call that hung may end long after a new session has taken over.
            if self._held_by is control:
                self._sequence = sequence
                self.memory.note(sequence, written, None, written)

    def _take(self, control: Connection, deadline: Deadline) -> bool:
        """Become the writer of the row, and learn where to go on; False: not yet, for somebody may be writing it."""
        found = self._existing(control, deadline)
        if found is None:
            control.execute(self._on(BEGIN), (0,), timeout=deadline.step())
            control.commit(timeout=deadline.step())
            return self._taken(control, 0)
        sequence, ours = found.row.sequence, self._sequence
        if ours is not None and sequence in (ours, ours + 1):
            return self._taken(control, sequence)
        seen, self._seen = self._seen, sequence
        if found.age >= self.memory.fresh:
            return self._taken(control, sequence)
        if seen is not None and seen != sequence:
            self._others = control
            raise Blocked(f"another exporter writes the heartbeats of the schema {self.schema}")
        return False

    def _taken(self, control: Connection, sequence: int) -> bool:
        with self._noting:
            self._held_by, self._sequence, self._seen, self._others = control, sequence, None, None
            self.memory.begin(sequence)
        return True

    def _existing(self, control: Connection, deadline: Deadline) -> Look | None:
        """The row, if the table is one that we made."""
        try:
            found = look(control, self.schema, deadline.step())
        except (PermissionMissing, QueryFailed) as error:
            raise type(error)(
                f"there is no table {self._table} for heartbeats, or it may not be read; `tde-exporter provision` makes it:"
                f" {error}"
            ) from None
        comment = control.row(WHOSE, (self.schema, TABLE), timeout=deadline.step())
        if comment is None or not str(comment[0] or "").startswith(COMMENT):
            raise Blocked(f"the table {self._table} was not made by this exporter, which leaves it alone")
        return found

    def _on(self, statement: Statement) -> Statement:
        return statement.on(table=self._table)


def provision(
    connection: Connection, schema: str, tablespace: str, writer: str | None, deadline: Deadline
) -> list[str]:
    """Make the table if it is missing, in a plain tablespace, so that a lost key is not taken for lag; the names of what
    was made. `writer` is the account that shall write it. Raises `Blocked` for a table that is not ours."""
    table = table_of(schema)
    if _is_there(connection, schema, deadline):
        return []
    made = CREATE.on(table=table, key=f"{TABLE}_PK", tablespace=tablespace)
    connection.execute(made, timeout=deadline.step())
    connection.execute(MARK.on(table=table), timeout=deadline.step())
    if writer is not None:
        connection.execute(GRANT.on(table=table, writer=writer.upper()), timeout=deadline.step())
    return [table]


def drop(connection: Connection, schema: str, deadline: Deadline) -> list[str]:
    """Drop the table, unless it is not ours; the names of what was dropped."""
    table = table_of(schema)
    try:
        if not _is_there(connection, schema, deadline):
            return []
    except Blocked:
        return []
    connection.execute(DROP.on(table=table), timeout=deadline.step())
    return [table]


def _is_there(connection: Connection, schema: str, deadline: Deadline) -> bool:
    comment = connection.row(WHOSE, (schema, TABLE), timeout=deadline.step())
    if comment is None:
        return False
    if not str(comment[0] or "").startswith(COMMENT):
        raise Blocked(f"the table {table_of(schema)} was not made by this exporter, which leaves it alone")
    return True


def script(schema: str, tablespace: str, account: str) -> Iterator[str]:
    """What `provision` does, as SQL for a DBA, line by line; `account` as it is to be written."""
    table = table_of(schema)
    yield f"{CREATE.on(table=table, key=f'{TABLE}_PK', tablespace=tablespace).sql};"
    yield f"{MARK.on(table=table).sql};"
    yield f"GRANT SELECT, INSERT, UPDATE ON {quoted(table)} TO {account};"
