"""What a canary query made the server do: counters read before and after it, over another connection than its own.

Both readings are one statement each, put together from the sources that this server grants; nothing of them lies inside
the timed part. Which sources work is tried out when the canary's connection is opened, and again every few minutes, for a
DBA may switch them on and off. What has no source is unknown (None) and never 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event

from exporter.domain.errors import PermissionMissing, QueryFailed, Unavailable
from exporter.domain.model import Operation, Work
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.deadlines import Deadline
from exporter.engines._mysql_protocol.operations import READING_AHEAD
from exporter.engines._mysql_protocol.threads import BURST, CpuOfRuns, ServerThread, ThreadMark, find_out
from exporter.engines.host import Host

PICO = 1e-12
SETTLE_SECONDS = 0.001
"""Pause after a query that reads ahead: pages that were asked for may still be on their way."""
LATE_EVENTS = tuple(0.0005 * 2**number for number in range(9))
"""Seconds between looks for an event: the server writes it after it has answered, at once as a rule, but a busy machine
may put its thread off for a tenth of a second right then."""

THREADS = "performance_schema.threads"
HISTORY = "performance_schema.events_statements_history"
FILES = "performance_schema.file_summary_by_instance"

FILE, EVENT, FIRST_FREE = 1, 2, 3
"""Numbers of the sources in the rows of a reading."""

Row = tuple[int | None, ...]
NOT_THERE = (PermissionMissing, QueryFailed)
"""Errors of a source that this server does not have or does not grant; all others are errors of the connection."""


@dataclass(frozen=True, slots=True)
class TwinTable:
    """One twin: where it is, and the end of the name of its data file (`/schema/table.ibd`).

    `encrypted` is what the newest verification found, None: unknown. `tablespace` names the general tablespace that
    holds it in place of a file of its own.
    """

    schema: str
    name: str
    file: str
    encrypted: bool | None = None
    tablespace: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """One reading: rows of the sources by their number, what the threads have used, and what the session itself tells."""

    counts: Mapping[int, Row]
    threads: ThreadMark | None = None
    session_cpu: float | None = None

    def get(self, source: int, place: int = 0) -> int | None:
        row = self.counts.get(source)
        return row[place] if row is not None else None


@dataclass(slots=True)
class Sources:
    """What works on this server, for one connection of a canary."""

    files: bool = False
    event_thread: int | None = None
    event_cpu: bool = False
    thread: ServerThread | None = None
    session_cpu_cost: float | None = None
    not_granted: set[str] = field(default_factory=set)
    """Tables that the account may not read."""


class Counters(ABC):
    """The counters around the runs of one canary connection. Used by one thread at a time."""

    def __init__(self, control: Connection, canary: Connection, host: Host, page_bytes: int) -> None:
        self.control, self.canary, self.host, self.page_bytes = control, canary, host, page_bytes
        self.sources = Sources()
        self._cpu: CpuOfRuns | None = None
        self._names: dict[str, str] = {}

    # -- what differs ----------------------------------------------------------------------------

    @abstractmethod
    def thread_id(self, connection: Connection, deadline: Deadline) -> int | None:
        """The operating system's number of the thread that serves a connection."""

    @abstractmethod
    def find_more(self, sources: Sources, deadline: Deadline) -> None:
        """Look for the sources that only this kind of server has."""

    @abstractmethod
    def selects(self, twin: TwinTable, operation: Operation) -> list[tuple[str, tuple[object, ...]]]:
        """Further parts of a reading: SELECTs of a number (from `FIRST_FREE` on) and three integers or NULLs."""

    @abstractmethod
    def reads_and_decrypts(
        self, twin: TwinTable, operation: Operation, before: Mark, after: Mark, own: int | None
    ) -> tuple[int | None, int | None]:
        """Blocks that a run read and decrypted; `own` is what was read of the twin's own file, where that is known."""

    @property
    @abstractmethod
    def decrypt_source(self) -> str | None:
        """As in `TargetFacts`."""

    @property
    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """In words what is unknown, and which grant or setting would make it known."""

    # -- what works ------------------------------------------------------------------------------

    @property
    def clock(self) -> str:
        """`server` where each run comes with the server's own time."""
        return "server" if self.sources.event_thread is not None else "client"

    @property
    def cpu_source(self) -> str:
        """Where CPU comes from, for short queries and for those that read ahead; empty: unknown."""
        if self.sources.thread is not None:
            return "thread+background"
        if self.sources.event_cpu:
            return "statement"
        return "session" if self.sources.session_cpu_cost is not None else ""

    def discover(self, deadline: Deadline) -> None:
        """Try out all sources. The first time it also tries out whether the server runs on this machine."""
        found = Sources(thread=self.sources.thread)
        if self._cpu is None:
            self._find_threads(found, deadline)
        found.files = self.can_read(found, FILES, f"SELECT COUNT_READ FROM {FILES} LIMIT 1", deadline)
        self._find_events(found, deadline)
        self.find_more(found, deadline)
        self.sources = found
        self._names.clear()

    def _find_threads(self, found: Sources, deadline: Deadline) -> None:
        """Only where each session has a thread of its own does a thread's CPU say something of a session."""
        row = self.control.row("SHOW GLOBAL VARIABLES LIKE 'thread_handling'", timeout=deadline.step())
        if row is None or row[1] != "one-thread-per-connection":
            return
        tid = self.thread_id(self.canary, deadline)
        found.thread = find_out(self.host, self.canary, tid, deadline.step())
        if found.thread is not None:
            mine = self.thread_id(self.control, deadline)
            self._cpu = CpuOfRuns(self.host, found.thread, (mine,) if mine is not None else ())

    def _find_events(self, found: Sources, deadline: Deadline) -> None:
        thread = self._event_thread(found, deadline)
        if thread is None:
            return
        with_cpu = self._has_cpu_column(deadline)
        sql = _event(with_cpu)
        try:
            before = self.control.row(sql, (thread,), timeout=deadline.step())
        except NOT_THERE as error:
            self._note(found, HISTORY, error)
            return
        self.canary.rows(BURST, (2000,), timeout=deadline.step())
        for pause in LATE_EVENTS:
            event = self.control.row(sql, (thread,), timeout=deadline.step())
            if event is not None and (before is None or event[1] > before[1]):
                found.event_thread, found.event_cpu = thread, bool(event[3])
                return
            Event().wait(min(pause, deadline.left))

    def _event_thread(self, found: Sources, deadline: Deadline) -> int | None:
        """The performance schema's number of the canary's thread."""
        sql = f"SELECT THREAD_ID FROM {THREADS} WHERE PROCESSLIST_ID = %s"
        try:
            row = self.control.row(sql, (self.canary.id,), timeout=deadline.step())
        except NOT_THERE as error:
            self._note(found, THREADS, error)
            return self.own_event_thread(deadline)
        return None if row is None else int(row[0])

    def end_of_file(self, twin: TwinTable, deadline: Deadline) -> str:
        """The end of the name of the file that a twin is in."""
        return twin.file

    def own_event_thread(self, deadline: Deadline) -> int | None:
        """The same without a grant, where the server has a function for it."""
        return None

    def _has_cpu_column(self, deadline: Deadline) -> bool:
        sql = (
            "SELECT 1 FROM information_schema.columns WHERE table_schema = 'performance_schema'"
            " AND table_name = 'events_statements_history' AND column_name = 'CPU_TIME'"
        )
        return self.control.row(sql, timeout=deadline.step()) is not None

    def can_read(self, found: Sources, table: str, sql: str, deadline: Deadline) -> bool:
        """Whether a statement is granted and finds something."""
        try:
            return bool(self.control.rows(sql, timeout=deadline.step()))
        except NOT_THERE as error:
            self._note(found, table, error)
            return False

    def _note(self, found: Sources, table: str, error: Exception) -> None:
        if isinstance(error, PermissionMissing):
            found.not_granted.add(table)

    # -- around a run ----------------------------------------------------------------------------

    def before(self, twin: TwinTable, operation: Operation, deadline: Deadline) -> Mark:
        """The reading before a run; the canary's connection rests."""
        counts = self._read(twin, operation, deadline)
        return Mark(counts, self._threads(operation), self.session_cpu(operation, deadline))

    def after(self, twin: TwinTable, operation: Operation, before: Mark, deadline: Deadline) -> Mark:
        """The reading after a run. Raises `Unavailable` where the server's time decides and is not there."""
        session_cpu = self.session_cpu(operation, deadline)
        if operation in READING_AHEAD:
            Event().wait(SETTLE_SECONDS)
        for pause in LATE_EVENTS:
            counts = self._read(twin, operation, deadline)
            if self.sources.event_thread is None or _is_new(before.counts.get(EVENT), counts.get(EVENT)):
                return Mark(counts, self._threads(operation), session_cpu)
            Event().wait(min(pause, deadline.left))
        raise Unavailable(
            "the server did not tell how long the query took: somebody switched off the statement events"
            " (setup_consumers, setup_actors, setup_instruments); they are looked for again"
        )

    def work(self, twin: TwinTable, operation: Operation, before: Mark, after: Mark) -> Work:
        """What a run made the server do."""
        own = self._blocks_of_file(before, after)
        reads, decrypts = self.reads_and_decrypts(twin, operation, before, after, own)
        timer = after.get(EVENT, 1) if self.sources.event_thread is not None else None
        return Work(
            cpu_seconds=self._cpu_seconds(operation, before, after),
            server_seconds=None if timer is None else timer * PICO,
            blocks_read=reads,
            decrypts=decrypts,
            encrypts=0,
        )

    def session_cpu(self, operation: Operation, deadline: Deadline) -> float | None:
        """CPU as the canary's own session tells it."""
        return None

    def _threads(self, operation: Operation) -> ThreadMark | None:
        return None if self._cpu is None else self._cpu.mark(operation in READING_AHEAD)

    def _cpu_seconds(self, operation: Operation, before: Mark, after: Mark) -> float | None:
        if self._cpu is not None and before.threads is not None and after.threads is not None:
            return self._cpu.between(before.threads, after.threads)
        if operation in READING_AHEAD:
            # Half and more of the decryption happens in threads that no session is charged for.
            return None
        if self.sources.event_cpu:
            picoseconds = after.get(EVENT, 2)
            # A consumer that is off makes it 0.
            return picoseconds * PICO if picoseconds else None
        cost = self.sources.session_cpu_cost
        if cost is not None and before.session_cpu is not None and after.session_cpu is not None:
            risen = after.session_cpu - before.session_cpu
            # Asking alone takes some; where nothing is counted any more, it stands still.
            return max(0.0, risen - cost) if risen > 0.0 else None
        return None

    def _blocks_of_file(self, before: Mark, after: Mark) -> int | None:
        then, now = before.get(FILE, 1), after.get(FILE, 1)
        if then is None or now is None or now < then:
            # The file was exchanged, or the counters were reset.
            return None
        return -(-(now - then) // self.page_bytes)

    def _read(self, twin: TwinTable, operation: Operation, deadline: Deadline) -> dict[int, Row]:
        parts = self.selects(twin, operation)
        if self.sources.files and (name := self._file_name(twin, deadline)):
            sql = f"SELECT {FILE}, COUNT_READ, SUM_NUMBER_OF_BYTES_READ, NULL FROM {FILES} WHERE FILE_NAME = %s"
            parts.append((sql, (name,)))
        if self.sources.event_thread is not None:
            parts.append((f"({_event(self.sources.event_cpu)})", (self.sources.event_thread,)))
        if not parts:
            return {}
        sql = " UNION ALL ".join(part for part, _ in parts)
        values = tuple(value for _, some in parts for value in some)
        rows = self.control.rows(sql, values, timeout=deadline.step())
        return {int(row[0]): tuple(None if value is None else int(value) for value in row[1:]) for row in rows}

    def _file_name(self, twin: TwinTable, deadline: Deadline) -> str | None:
        """The whole name of a twin's file; None until the server has opened it."""
        if twin.name not in self._names:
            end = self.end_of_file(twin, deadline)
            pattern = "%" + end.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")
            sql = f"SELECT FILE_NAME FROM {FILES} WHERE FILE_NAME LIKE %s"
            rows = self.control.rows(sql, (pattern,), timeout=deadline.step())
            if len(rows) != 1:
                return None
            self._names[twin.name] = str(rows[0][0])
        return self._names[twin.name]


def _event(with_cpu: bool) -> str:
    """The newest query of a thread (the parameter). What else its session was told is no query: SET, SHOW."""
    cpu = "CPU_TIME" if with_cpu else "NULL"
    return (
        f"SELECT {EVENT}, EVENT_ID, TIMER_WAIT, {cpu} FROM {HISTORY}"
        " WHERE THREAD_ID = %s AND EVENT_NAME = 'statement/sql/select' ORDER BY EVENT_ID DESC LIMIT 1"
    )


def _is_new(before: Row | None, after: Row | None) -> bool:
    """Whether a statement has ended in between. Between two readings a canary's connection runs only its query."""
    if after is None or after[0] is None or after[1] is None:
        return False
    return before is None or before[0] is None or after[0] > before[0]
