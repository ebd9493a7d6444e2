"""What a standby, and its primary, tell of redo that is sent and applied; and what that means.

Works on a standby that is only mounted as well, by fixed views. Role and open mode are read each time: a switchover changes
them under us, and ends sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from exporter.domain.clock import Clock
from exporter.domain.errors import PermissionMissing
from exporter.domain.states import LagKind, StandbyState
from exporter.engines.beats import Memory, Primary, Reading, Row
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.heartbeat import Look, look, read_clock, table_of
from exporter.engines.oracle.identity import NOT_THERE
from exporter.engines.oracle.key_match import KeysSeen, compared, seen
from exporter.engines.oracle.lag import Lags, Redo, gap_of, lags_of, redo_of, sequences_of
from exporter.engines.oracle.questions import Questions
from exporter.engines.oracle.statements import Need, define, view

WIDEST_LOOK = 0.5
"""Seconds by which a clock may be read wrongly, for its skew to be told."""
SLOW_SHARE = 0.3
"""Of the time that is left, what a view may take that reads a long history in the control file."""

_STANDBY = (Need.STANDBY,)
DATABASE = define(
    "standby.database",
    "SELECT dbid, database_role, open_mode, db_unique_name FROM v$database",
    "standby",
    view("V$DATABASE"),
)
STATS = define(
    "standby.stats",
    "SELECT name, value, datum_time, TO_CHAR(SYSDATE, 'MM/DD/YYYY HH24:MI:SS') AS now FROM v$dataguard_stats",
    "standby",
    view("V$DATAGUARD_STATS"),
    needs=_STANDBY,
)
PROCESSES = define(
    "standby.processes",
    "SELECT name, action, sequence#, delay_mins FROM v$dataguard_process",
    "standby",
    view("V$DATAGUARD_PROCESS"),
    needs=_STANDBY,
)
MANAGED = define(
    "standby.managed",
    "SELECT process, status, sequence#, delay_mins FROM v$managed_standby",
    "standby",
    view("V$MANAGED_STANDBY"),
    needs=_STANDBY,
)
"""In place of PROCESSES, where that may not be read. Deprecated since 12.2, and there to this day."""
GAPS = define(
    "standby.gaps",
    "SELECT thread#, low_sequence#, high_sequence# FROM v$archive_gap",
    "standby",
    view("V$ARCHIVE_GAP"),
    needs=_STANDBY,
)
LOGS = define(
    "standby.logs",
    "SELECT l.thread#, l.applied, MAX(l.sequence#) AS newest FROM v$archived_log l"
    " JOIN v$database d ON d.resetlogs_change# = l.resetlogs_change#"
    " WHERE l.standby_dest = 'NO' AND l.first_time > SYSDATE - 7 GROUP BY l.thread#, l.applied",
    "standby",
    view("V$ARCHIVED_LOG", "V$DATABASE"),
    needs=_STANDBY,
)
DESTINATIONS = define(
    "standby.destinations",
    "SELECT db_unique_name, status, error, recovery_mode, gap_status FROM v$archive_dest_status"
    " WHERE status <> 'INACTIVE' AND type <> 'LOCAL'",
    "standby",
    view("V$ARCHIVE_DEST_STATUS"),
    needs=(Need.PRIMARY,),
)

NO_STANDBY = "it is no standby"
NOT_OURS = "it is a standby of another database than the target"
NO_WRITER = "no heartbeats are written at the moment"
NEVER_WRITTEN = "it shows a heartbeat that the primary never wrote"
MOUNTED = "it is only mounted, so its heartbeat cannot be read"
TARGET_IS_STANDBY = "the target is a standby itself"


@dataclass(slots=True)
class Answer:
    """What one standby answered, filled as far as it came; None is unknown. Times are ours, taken before asking.

    `reached`: it answered at all. `fault` says why it did not answer to the end.
    """

    reached: bool = False
    done: bool = False
    fault: str = ""
    dbid: int | None = None
    role: str = ""
    open_mode: str = ""
    unique_name: str = ""
    lags: Lags = field(default_factory=Lags)
    redo: Redo = field(default_factory=Redo)
    sequences: tuple[int | None, int | None] = (None, None)
    gap: int | None = None
    row: Row | None = None
    row_at: float = 0.0
    row_problem: str = ""
    clock: Reading | None = None
    keys: KeysSeen | None = None
    problems: tuple[str, ...] = ()

    def so_far(self) -> Answer:
        """As it is now; one that is not complete says so."""
        fault = self.fault if self.done else self.fault or "it did not answer in time"
        return replace(self, fault=fault)


def ask(connection: Connection, schema: str, answer: Answer, clock: Clock, timeout: float, compare_keys: bool) -> None:
    """Ask a standby everything, the most important first. Raises `TargetError` when it cannot be asked any further."""
    asked = Questions(connection, timeout, "asking the standby")
    try:
        known = asked.first(DATABASE, what="its role and its open mode")
        answer.reached = True
        if known is not None:
            answer.dbid, answer.role, answer.open_mode = int(known[0]), str(known[1]), str(known[2])
            answer.unique_name = str(known[3] or "").upper()
        if answer.role == "PRIMARY":
            return
        _ask_row(connection, schema, answer, clock, asked)
        answer.lags = lags_of(rows) if (rows := asked.ask(STATS, what="its lags")) is not None else Lags()
        answer.redo = _redo(asked)
        answer.clock = read_clock(connection, clock, Deadline(asked.left, "asking the standby"))
        if compare_keys:
            answer.keys = seen(asked)
        gaps = asked.ask(GAPS, what="gaps in its redo", most=SLOW_SHARE * asked.left)
        answer.gap = None if gaps is None else gap_of(gaps)
        logs = asked.ask(LOGS, what="which logs it has", most=SLOW_SHARE * asked.left)
        answer.sequences = sequences_of(logs or ())
    finally:
        answer.problems = asked.problems


def _redo(asked: Questions) -> Redo:
    rows = asked.ask(PROCESSES)
    if rows is None:
        rows = asked.ask(MANAGED, what="whether it receives and applies")
    return Redo() if rows is None else redo_of(rows)


def _ask_row(connection: Connection, schema: str, answer: Answer, clock: Clock, asked: Questions) -> None:
    answer.row_at = clock.monotonic()
    if answer.open_mode == "MOUNTED":
        answer.row_problem = MOUNTED
        return
    try:
        found = look(connection, schema, asked.left)
        answer.row = found.row if found else None
        answer.row_problem = "" if found else "it has no heartbeat yet"
    except PermissionMissing:
        answer.row_problem = (
            f"its heartbeat cannot be read: GRANT SELECT ON {table_of(schema)} to the account there, and let it connect to"
            " the container that has this table"
        )
    except NOT_THERE as error:
        answer.row_problem = f"its heartbeat cannot be read: {error}"


@dataclass(frozen=True, slots=True)
class Destination:
    """A row of V$ARCHIVE_DEST_STATUS: what the primary knows of a standby."""

    status: str
    error: str
    recovery: str
    gap: str

    @property
    def is_up(self) -> bool | None:
        if self.status == "VALID":
            return True
        return None if self.status in ("ALTERNATE", "IDLE", "") else False

    @property
    def problem(self) -> str:
        words = []
        if self.is_up is False:
            words.append(f"the primary does not send to it: {self.status.lower()}{self.error and f' ({self.error})'}")
        if self.gap not in ("", "NO GAP"):
            words.append(f"the primary sees a gap in its redo ({self.gap.lower()})")
        return "; ".join(words)


@dataclass(frozen=True, slots=True)
class AtPrimary:
    """What is known of the primary just before its standbys are asked; None is unknown. `destinations` are by
    DB_UNIQUE_NAME."""

    dbid: int | None = None
    role: str = ""
    seen: Look | None = None
    clock: Reading | None = None
    keys: KeysSeen | None = None
    destinations: Mapping[str, Destination] = field(default_factory=dict)
    problem: str = ""


def ask_primary(control: Connection, schema: str, clock: Clock, timeout: float, keys: bool) -> AtPrimary:
    """Ask the target, its master keys only if `keys`. Raises `TargetError` when it cannot be asked at all."""
    asked = Questions(control, timeout, "asking the primary")
    known = asked.first(DATABASE)
    dbid, role = (int(known[0]), str(known[1])) if known else (None, "")
    found, problem = None, ""
    try:
        found = look(control, schema, asked.left)
    except NOT_THERE as error:
        problem = f"the heartbeat of the primary cannot be read: {error}"
    if role not in ("", "PRIMARY"):
        problem = TARGET_IS_STANDBY
    rows = asked.ask(DESTINATIONS) or []
    return AtPrimary(
        dbid=dbid,
        role=role,
        seen=found,
        clock=read_clock(control, clock, Deadline(asked.left, "asking the primary")),
        keys=seen(asked) if keys else None,
        destinations={
            str(name or "").upper(): Destination(*(str(word or "").strip() for word in words)) for name, *words in rows
        },
        problem=problem,
    )


def state_of(
    standby: str, answer: Answer, primary: AtPrimary, memory: Memory, destination: Destination | None
) -> StandbyState:
    """What is known of one standby, by its own answer and by its primary's."""
    up = destination.is_up if destination else None
    sees = destination.problem if destination else ""
    if answer.reached and answer.role == "PRIMARY":
        return _no_standby(standby, NO_STANDBY)
    foreign = answer.dbid is not None and primary.dbid is not None and answer.dbid != primary.dbid
    if foreign and answer.role != "LOGICAL STANDBY":
        # A logical standby is a database of its own.
        return _no_standby(standby, NOT_OURS)
    lag, unseen = _heartbeat(answer, primary, memory)
    lags, redo = answer.lags, answer.redo
    receives, applies = redo.receives, redo.applies
    if receives and lags.frozen:
        receives = False  # connected, as it seems to the standby, and yet nothing comes
    if not answer.reached and destination is not None and up:
        receives, applies = True, _applies(destination)
    match, mismatch = (None, "")
    if answer.keys is not None and primary.keys is not None:
        match, mismatch = compared(primary.keys, answer.keys, applies)
    received, applied = answer.sequences
    words = (answer.fault, sees, lags.problem, redo.problem, mismatch, unseen, *answer.problems)
    return StandbyState(
        standby,
        transport_running=receives,
        apply_running=applies,
        lags=((LagKind.TRANSPORT, lags.transport), (LagKind.APPLY, lags.apply), (LagKind.HEARTBEAT, lag)),
        received_sequence=received if received is not None else redo.receiving,
        applied_sequence=applied,
        key_match=match,
        configured_delay=redo.delay,
        clock_skew=_skew(answer, primary),
        gap_sequences=answer.gap,
        destination_up=up,
        problem="; ".join(dict.fromkeys(part for part in words if part)),
    )


def _no_standby(standby: str, problem: str) -> StandbyState:
    return StandbyState(
        standby,
        configured=False,
        transport_running=False,
        apply_running=False,
        lags=tuple((kind, None) for kind in LagKind),
        problem=problem,
    )


def _applies(destination: Destination) -> bool | None:
    """MANAGED and what begins so, or LOGICAL: it applies; IDLE: it does not."""
    if destination.recovery.startswith(("MANAGED", "LOGICAL", "MULTI")):
        return True
    return False if destination.recovery == "IDLE" else None


def _heartbeat(answer: Answer, primary: AtPrimary, memory: Memory) -> tuple[float | None, str]:
    """The lag of the heartbeat, and why it is unknown."""
    if answer.row is None:
        return None, answer.row_problem
    known = Primary(row=primary.seen.row if primary.seen else None, clock=primary.clock)
    lag = memory.heartbeat(answer.row, known, answer.row_at)
    if lag is not None:
        return lag, ""
    if known.row is None:
        return None, primary.problem or "the primary has no heartbeat yet"
    return None, NEVER_WRITTEN if answer.row.sequence > known.row.sequence else NO_WRITER


def _skew(answer: Answer, primary: AtPrimary) -> float | None:
    if answer.clock is None or primary.clock is None or answer.clock.give + primary.clock.give > WIDEST_LOOK:
        return None
    return answer.clock - primary.clock
