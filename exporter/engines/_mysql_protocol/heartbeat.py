"""The heartbeat row: who may write it, writing it, reading it, and what is remembered of each beat."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from exporter.domain.clock import Clock, SystemClock
from exporter.domain.errors import (
    Blocked,
    Cancelled,
    ConnectFailed,
    DeadlineExceeded,
    PermissionMissing,
    QueryFailed,
    TargetError,
)
from exporter.domain.states import ScratchLock
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.lock import described, holding
from exporter.engines._mysql_protocol.marker import is_heartbeat
from exporter.engines._mysql_protocol.time_left import TimeLeft
from exporter.engines._mysql_protocol.twins import HEARTBEAT, quoted
from exporter.engines.beats import Memory, Position, Reading, Row

POSITION_STATEMENTS = ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS")
"""MariaDB has the first, MySQL had it until 8.3 and has the second since 8.2."""
POSITION_RETRY = 60.0
"""Seconds until the binary log is asked for again after it was refused or is off."""
LOOKS_AT_CLOCK = 3
SHARE = 0.7
"""Of the time for several statements, what the first may take; above that for which a lock is waited for."""

_EPOCH = "TIMESTAMP'1970-01-01 00:00:00'"
_LONGEST_LOCK = 64  # characters of the name of a lock


Step = Callable[[], float]
"""Seconds for the next of several statements. Raises `DeadlineExceeded` when the time for all is over."""


def steps(timeout: float, what: str, share: float = SHARE) -> Step:
    """The same for each as long as there is time, and from call to call: a session is told when its timeout changes."""
    left, each = TimeLeft(timeout, what), max(0.1, round(timeout * share, 1))
    return lambda: left(each)


def lost(error: TargetError) -> bool:
    """Whether the session is of no more use, or its time is over: then nothing else is asked."""
    return isinstance(error, ConnectFailed | DeadlineExceeded | Cancelled)


def lock_name(schema: str) -> str:
    """The advisory lock of the one who writes the heartbeats; another one than for work on the twins, which goes on
    beside it. Servers compare such names without regard to case."""
    name = f"tde-exporter heartbeat {schema.lower()}"
    if len(name) <= _LONGEST_LOCK:
        return name
    return f"tde-exporter heartbeat {hashlib.sha256(schema.lower().encode()).hexdigest()[:40]}"


def heartbeat_table(schema: str) -> str:
    """The table, to be written into a statement."""
    return f"{quoted(schema)}.{quoted(HEARTBEAT)}"


def no_select(what: str, schema: str) -> str:
    """Says that a heartbeat cannot be read, and which grant is missing."""
    return f"{what} cannot be read; GRANT SELECT ON {heartbeat_table(schema)} to our account there"


def read_row(connection: Connection, schema: str, timeout: float) -> Row | None:
    """The heartbeat as a server shows it; None while there is none. Raises `TargetError`."""
    sql = f"SELECT seq, TIMESTAMPDIFF(MICROSECOND, {_EPOCH}, beat) FROM {heartbeat_table(schema)} WHERE id = 1"
    row = connection.row(sql, timeout=timeout)
    if row is None or not all(isinstance(value, int) for value in row):
        return None
    return Row(row[0], row[1] / 1e6)


def read_clock(connection: Connection, clock: Clock, timeout: float) -> Reading | None:
    """The server's clock against ours, by the quickest of a few looks. Raises `TargetError`."""
    best: Reading | None = None
    for _ in range(LOOKS_AT_CLOCK):
        before = clock.monotonic()
        row = connection.row(f"SELECT TIMESTAMPDIFF(MICROSECOND, {_EPOCH}, UTC_TIMESTAMP(6))", timeout=timeout)
        half = (clock.monotonic() - before) / 2
        if row is not None and isinstance(row[0], int) and (best is None or half < best.give):
            best = Reading(row[0] / 1e6, before + half, half)
    return best


def read_identity(connection: Connection, timeout: float) -> tuple[int, str]:
    """server_id, and server_uuid where the flavour has one. Raises `TargetError`."""
    if connection.is_mariadb:
        row = connection.row("SELECT @@server_id, ''", timeout=timeout)
    else:
        row = connection.row("SELECT @@server_id, @@server_uuid", timeout=timeout)
    assert row is not None
    return int(row[0]), str(row[1])


class Heartbeats:
    """Writes the heartbeats of one target. Used by the target's lane; outlives its sessions, so that what it
    remembers survives a lost one. A call that hung may go on beside the calls of the next session.

    `memory` holds the beats that were written, `position_problem` says why the binary log's end after them is unknown.
    """

    def __init__(self, schema: str, clock: Clock | None = None, interval: float = 1.0) -> None:
        """`interval` is the number of seconds between two beats, as far as is known; it is learnt from the beats."""
        self.schema, self.memory = schema, Memory(interval)
        self.position_problem = "this exporter has written no heartbeat"
        self._clock = clock or SystemClock()
        self._noting = threading.Lock()
        self._held_by: Connection | None = None
        self._lock: tuple[Connection, ScratchLock] | None = None
        self._holder: tuple[int, str] | None = None
        self._identity: tuple[int, str] | None = None
        self._limited: Connection | None = None
        self._sequence = self._beats_here = 0
        self._statement: str | None = None
        self._ask_again = 0.0

    def lock(self, control: Connection) -> ScratchLock | None:
        """Who has the lock, by the last beat in this session; None before the first, and when the session is lost."""
        if not control.alive:
            return None
        if self._held_by is control:
            return ScratchLock(True)
        return self._lock[1] if self._lock is not None and self._lock[0] is control else None

    def beat(self, control: Connection, timeout: float) -> None:
        """Write a heartbeat and remember when.

        Raises `Blocked` when another exporter writes them or the table is not ours, `PermissionMissing` with the
        grant that is missing, `QueryFailed` when the table is missing, any other `TargetError` as the connection does.
        """
        step = steps(timeout, "the heartbeat")
        try:
            if self._held_by is not control:
                self._take(control, step)
            sequence = self._sequence + 1
            self._write(control, sequence, step)
        except PermissionMissing as error:
            table = heartbeat_table(self.schema)
            raise PermissionMissing(f"{error}; heartbeats need GRANT SELECT, INSERT, UPDATE ON {table}") from None
        written = self._clock.monotonic()
        position = None
        try:
            position = self._position(control, step)
        finally:
            self._note(control, sequence, written, position)
        if self._limited is not control:
            self._limit_idleness(control, step)

    def _limit_idleness(self, control: Connection, step: Step) -> None:
        """A session that is cut off by the network would keep the lock for as long as it may be idle. How long it is
        between two beats shows at the second."""
        gap = self.memory.gap
        if gap is not None and self._beats_here > 1:
            control.execute("SET SESSION wait_timeout = %s", (int(max(300.0, 10.0 * gap)),), timeout=step())
            self._limited = control

    def _note(self, control: Connection, sequence: int, written: float, position: Position | None) -> None:
        with self._noting:
            # A call that hung may end long after a new session has taken over.
            if self._held_by is control:
                self._sequence = sequence
                self._beats_here += 1
                self.memory.note(sequence, written, position, self._clock.monotonic())

    def _take(self, control: Connection, step: Step) -> None:
        """Become the only writer of a row that is ours, and learn where to go on."""
        self._held_by = None
        name = lock_name(self.schema)
        answer = control.row("SELECT GET_LOCK(%s, 0)", (name,), timeout=step())
        if answer is None or answer[0] != 1:
            raise Blocked(
                f"another session writes the heartbeats of the schema {self.schema} ({self._who(control, name, step)}); it "
                "belongs to another exporter, or was cut off from this one, which the server notices within minutes"
            )
        # Ours as long as this session lasts, whatever becomes of the table.
        self._lock, self._holder = (control, ScratchLock(True)), None
        row = self._existing(control, step)
        identity = read_identity(control, step())
        with self._noting:
            if identity != self._identity:
                self.memory.other_log()
            self._identity, self._held_by = identity, control
            self._sequence, self._beats_here = row.sequence if row else 0, 0
            self._ask_again = 0.0
            self.memory.begin(self._sequence)

    def _who(self, control: Connection, name: str, step: Step) -> str:
        """Who has the lock, in words. Beats come often, so it is asked anew only when it is another session."""
        known, self._lock, self._holder = self._holder, None, None
        number = holding(control, name, step())
        if number is None:
            return "it has just ended"
        if known is None or known[0] != number:
            known = number, described(control, number, step)
        self._lock, self._holder = (control, ScratchLock(False, known[1])), known
        return known[1]

    def _existing(self, control: Connection, step: Step) -> Row | None:
        """The row, if the table is one that we made."""
        table = heartbeat_table(self.schema)
        try:
            row = read_row(control, self.schema, step())
        except QueryFailed as error:
            raise QueryFailed(
                f"there is no table for heartbeats; `tde-exporter provision` makes it ({error})"
            ) from None
        sql = "SELECT table_comment FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        comment = control.row(sql, (self.schema, HEARTBEAT), timeout=step())
        if comment is None or not is_heartbeat(str(comment[0])):
            raise Blocked(f"the table {table} was not made by this exporter, which leaves it alone")
        return row

    def _write(self, control: Connection, sequence: int, step: Step) -> None:
        table = heartbeat_table(self.schema)
        update = f"UPDATE {table} SET seq = %s, beat = UTC_TIMESTAMP(6) WHERE id = 1"
        try:
            if not control.execute(update, (sequence,), timeout=step()):
                insert = f"INSERT INTO {table} (id, seq, beat) VALUES (1, %s, UTC_TIMESTAMP(6))"
                control.execute(insert, (sequence,), timeout=step())
        except QueryFailed:
            # The table may have been exchanged: look at it anew.
            if self._held_by is control:
                self._held_by = None
            raise

    def _position(self, control: Connection, step: Step) -> Position | None:
        """Where the binary log ends; None where it is off, or not for us to know."""
        if self.position_problem and self._clock.monotonic() < self._ask_again:
            return None
        for statement in (self._statement,) if self._statement else POSITION_STATEMENTS:
            try:
                row = control.row(statement, timeout=step())
            except PermissionMissing:
                privilege = "BINLOG MONITOR" if control.is_mariadb else "REPLICATION CLIENT"
                self._no_position(
                    f"the end of the binary log cannot be read; GRANT {privilege} ON *.* to our account there"
                )
                return None
            except QueryFailed:
                self._statement = None
                continue
            self._statement = statement
            position = Position.of(row[0], row[1]) if row else None
            if position is None:
                self._no_position("the primary writes no binary log")
            else:
                self.position_problem = ""
            return position
        self._no_position("the primary does not tell where its binary log ends")
        return None

    def _no_position(self, words: str) -> None:
        self.position_problem = words
        self._ask_again = self._clock.monotonic() + POSITION_RETRY
