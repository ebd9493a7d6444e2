"""What a replica says of its own replication: one row for each channel, in the words of any flavour and version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from exporter.domain.errors import QueryFailed, TargetError
from exporter.engines.beats import Position, seconds

Row = Mapping[str, object]
Ask = Callable[[str], Iterable[Row]]
"""Runs a statement; its rows by the names of their columns. Raises `TargetError`."""

STATEMENTS = ("SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
"""In this order: MariaDB has the first, and shows with the others only one of its channels; MySQL had the third until
8.3 and has the second since 8.0.22."""
_RUNNING = {"Yes": True, "No": False, "Connecting": False, "Preparing": False}

_FAULTS = {
    1032: "a row to be changed is not there",
    1040: "the source has too many connections",
    1045: "the source refuses the replication account",
    1049: "a schema is not there",
    1050: "a table is there already",
    1053: "the source is shutting down",
    1062: "a row is there already (duplicate key)",
    1129: "the source blocks this host",
    1130: "the source does not admit this host",
    1146: "a table is not there",
    1205: "another session held a lock for too long",
    1213: "deadlock with another session",
    1236: "the source cannot send what is asked for; its log may have been purged",
    1396: "an account cannot be changed",
    1593: "source and replica do not fit together, or have the same server id",
    1594: "the relay log cannot be read",
    1595: "the relay log cannot be written",
    1872: "the relay log cannot be opened",
    1877: "a table cannot be read: its key is not available, or its data is damaged",
    1950: "the order of transactions is not that of the source (GTID strict mode)",
    2002: "the source cannot be reached",
    2003: "the source cannot be reached",
    2005: "the source's name is not known",
    2006: "the connection to the source was lost",
    2013: "the connection to the source was lost",
    2026: "TLS to the source failed",
    2061: "the replication account wants a secure connection",
    3030: "another of its threads failed before",
    3185: "the master key is not in the keyring",
    13114: "the source cannot send what is asked for; its log may have been purged",
    13117: "source and replica do not fit together, or have the same server id",
    13121: "the relay log cannot be read",
}
"""In our words: the server's own show rows of the database, accounts and hosts."""


def not_permitted(mariadb: bool) -> str:
    """Says that the status cannot be read, and which grant is missing."""
    privilege = "SLAVE MONITOR" if mariadb else "REPLICATION CLIENT"
    return f"the status of its replication cannot be read; GRANT {privilege} ON *.* to our account there"


_DIGITS = 20
"""Of the longest number that servers count with; Python itself refuses to read very long ones."""
FOLLOWED = 3030
"""Error of an applying thread that only stopped because of another one's (ER_SLAVE_WORKER_STOPPED_PREVIOUS_THD_ERROR)."""
WORKERS = (
    "SELECT channel_name, MAX(last_error_number) FROM performance_schema.replication_applier_status_by_worker"
    f" WHERE last_error_number NOT IN (0, {FOLLOWED}) GROUP BY channel_name"
)
"""The errors of the threads that failed first; MySQL only, needs SELECT on that table."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel as it was read; None is unknown.

    `receives` and `applies` are what the two threads do (one that `connects` does not receive). `received` and `applied` are
    places in the binary log of the source. `source` and `source_uuid` name the server that sends, 0 and empty before
    it was connected to since the replica was started; `address` is where that server is said to be. `behind` is
    the lag in the replica's own opinion in seconds, `delay` the one that was asked for. The last two are the numbers of
    the errors that stopped the threads last, or kept them from starting; 0 is none.
    """

    name: str = ""
    receives: bool | None = None
    applies: bool | None = None
    received: Position | None = None
    applied: Position | None = None
    source: int = 0
    source_uuid: str = ""
    address: tuple[str, int] = ("", 0)
    behind: float | None = None
    delay: float | None = None
    connects: bool = False
    receiver_fault: int = 0
    applier_fault: int = 0

    @property
    def runs(self) -> bool:
        return self.receives is True and self.applies is True

    @property
    def problem(self) -> str:
        """Why a thread does not run; empty when both do."""
        receiver = _trouble("receiver", self.receives, self.connects, self.receiver_fault)
        applier = _trouble("applier", self.applies, False, self.applier_fault)
        return "; ".join(part for part in (receiver, applier) if part)


def parsed(row: Row) -> Channel:
    """A row of any of the statements."""

    def value(*names: str) -> object:
        return next((row[name] for name in names if name in row), None)

    receiving = value("Slave_IO_Running", "Replica_IO_Running")
    applying = value("Slave_SQL_Running", "Replica_SQL_Running")
    receives, applies = _RUNNING.get(str(receiving)), _RUNNING.get(str(applying))
    port = value("Master_Port", "Source_Port")
    return Channel(
        name=_text(value("Connection_name", "Channel_Name")),
        receives=receives,
        applies=applies,
        received=Position.of(
            value("Master_Log_File", "Source_Log_File"), value("Read_Master_Log_Pos", "Read_Source_Log_Pos")
        ),
        applied=Position.of(
            value("Relay_Master_Log_File", "Relay_Source_Log_File"), value("Exec_Master_Log_Pos", "Exec_Source_Log_Pos")
        ),
        source=_whole(value("Master_Server_Id", "Source_Server_Id")),
        source_uuid=_text(value("Master_UUID", "Source_UUID")),
        address=(_text(value("Master_Host", "Source_Host")), _whole(port)),
        # Only then it is more than a left-over: MySQL shows 0 for a channel that never connected.
        behind=seconds(value("Seconds_Behind_Master", "Seconds_Behind_Source")) if receives and applies else None,
        delay=seconds(value("SQL_Delay")),
        connects=receiving in ("Connecting", "Preparing"),
        receiver_fault=_whole(value("Last_IO_Errno")),
        applier_fault=_whole(value("Last_SQL_Errno", "Last_Errno")),
    )


def _trouble(who: str, running: bool | None, connecting: bool, fault: int) -> str:
    """Why a thread does not run, as far as its last error tells."""
    if running is None:
        return f"the state of the {who} is unknown"
    if running and not fault:
        return ""
    state = "runs again after a fault" if running else "is connecting" if connecting else "is stopped"
    if not fault:
        return f"the {who} {state}"
    return f"the {who} {state}: {_FAULTS.get(fault, 'see the log of the replica')} (error {fault})"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


class StatusReader:
    """Reads the channels of one replica; remembers which statement its server understands."""

    def __init__(self) -> None:
        self._statement: str | None = None

    def read(self, ask: Ask) -> tuple[Channel, ...]:
        """All channels; none on a server that replicates from nobody.

        Raises `TargetError` as `ask` does.
        """
        refusal: TargetError | None = None
        for statement in (self._statement,) if self._statement else STATEMENTS:
            try:
                channels = tuple(parsed(row) for row in ask(statement))
            except QueryFailed as error:
                # Mostly one that it does not know. Another version may be running when the next is read.
                self._statement, refusal = None, refusal or error
                continue
            self._statement = statement
            return channels
        raise refusal or QueryFailed("the status of the replication cannot be read")
