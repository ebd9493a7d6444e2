"""What a canary query made the database do: statistics of its session, read before and after it.

They are read by another session of the same instance, so that reading them adds nothing to them. On another instance of a
cluster, or without the grants for that, the canary's own session reads them: then its CPU and DB time hold the reading as
well, which hits both twins alike, and its DB time does not serve as a clock.

`blocks decrypted` counts what went through the tablespace cipher; it is looked up by its name, for numbers of statistics
differ between releases. Columns are decrypted in the SQL layer, where nothing counts: there the rows that an operation
reads stand for it. What has no source is unknown (None) and never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from exporter.domain.errors import PermissionMissing, QueryFailed
from exporter.domain.model import Work
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.identity import Place
from exporter.engines.oracle.statements import Statement, define, view

MICRO = 1e-6
DECRYPTED, ENCRYPTED = "blocks decrypted", "blocks encrypted"
READS, DIRECT, DIRECT_LOB = "physical reads", "physical reads direct", "physical reads direct (lob)"
NAMES = (DECRYPTED, ENCRYPTED, READS, DIRECT, DIRECT_LOB)
CPU, DB_TIME = "DB CPU", "DB time"
_ABSENT = -1
"""Stands for the number of a statistic that this release does not have; none has it."""

STATISTICS = define(
    "counters.names",
    "SELECT statistic#, name FROM v$statname WHERE name IN (:1, :2, :3, :4, :5)",
    "counters",
    view("V$STATNAME"),
    example=NAMES,
)
TIME_IDS = define(
    "counters.times",
    "SELECT stat_id, stat_name FROM v$sess_time_model WHERE sid = SYS_CONTEXT('USERENV', 'SID')"
    " AND stat_name IN ('DB CPU', 'DB time')",
    "counters",
    view("V$SESS_TIME_MODEL"),
)
OF_OTHER = define(
    "counters.of_session",
    "SELECT statistic# AS id, value FROM v$sesstat WHERE sid = :1 AND statistic# IN (:2, :3, :4, :5, :6)"
    " UNION ALL SELECT stat_id AS id, value FROM v$sess_time_model WHERE sid = :7"
    " AND stat_name IN ('DB CPU', 'DB time')",
    "counters",
    view("V$SESSTAT", "V$SESS_TIME_MODEL"),
    example=(1, 0, 1, 2, 3, 4, 1),
)
OF_OTHER_WITHOUT_TIMES = define(
    "counters.of_session_without_times",
    "SELECT statistic# AS id, value FROM v$sesstat WHERE sid = :1 AND statistic# IN (:2, :3, :4, :5, :6)",
    "counters",
    view("V$SESSTAT"),
    example=(1, 0, 1, 2, 3, 4),
)
OF_OWN = define(
    "counters.of_own_session",
    "SELECT statistic# AS id, value FROM v$mystat WHERE statistic# IN (:1, :2, :3, :4, :5)"
    " UNION ALL SELECT stat_id AS id, value FROM v$sess_time_model WHERE sid = :6"
    " AND stat_name IN ('DB CPU', 'DB time')",
    "counters",
    view("V$MYSTAT", "V$SESS_TIME_MODEL"),
    example=(0, 1, 2, 3, 4, 1),
)
OF_OWN_WITHOUT_TIMES = define(
    "counters.of_own_session_without_times",
    "SELECT statistic# AS id, value FROM v$mystat WHERE statistic# IN (:1, :2, :3, :4, :5)",
    "counters",
    view("V$MYSTAT"),
    example=(0, 1, 2, 3, 4),
)
NOT_THERE = (PermissionMissing, QueryFailed)

Reading = Mapping[str, int]
"""Values of one session by name; blocks, and microseconds."""


@dataclass(slots=True)
class _Source:
    """One way to read the statistics of the canary's session."""

    statement: Statement
    own: bool
    times: bool

    def values(self, sid: int, numbers: tuple[int, ...]) -> tuple[int, ...]:
        before = () if self.own else (sid,)
        return (*before, *numbers, *((sid,) if self.times else ()))


_SOURCES = (
    _Source(OF_OTHER, own=False, times=True),
    _Source(OF_OWN, own=True, times=True),
    _Source(OF_OTHER_WITHOUT_TIMES, own=False, times=False),
    _Source(OF_OWN_WITHOUT_TIMES, own=True, times=False),
)
"""The best first: one that tells the CPU is worth more than one that leaves the session alone."""


class Counters:
    """The statistics around the runs of one canary connection. Used by one thread at a time."""

    def __init__(self, control: Connection, at: Place, canary: Connection, canary_at: Place) -> None:
        self.control, self.control_at = control, at
        self._canary, self._canary_at = canary, canary_at
        self._source: _Source | None = None
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self.problems: tuple[str, ...] = ()
        """In words what is unknown, and which grant would make it known."""

    # -- what works ------------------------------------------------------------------------------

    @property
    def decrypt_source(self) -> str | None:
        """As in `TargetFacts`, for tablespaces."""
        return "counter" if self._source is not None and DECRYPTED in self._numbers else None

    @property
    def cpu_source(self) -> str:
        """Where CPU comes from; empty: unknown."""
        if self._source is None or not self._source.times or CPU not in self._names.values():
            return ""
        return "session+reading" if self._source.own else "session"

    @property
    def times_runs(self) -> bool:
        """Whether DB time is that of a run alone, so that it can be a clock."""
        return self._source is not None and not self._source.own and DB_TIME in self._names.values()

    def discover(self, deadline: Deadline) -> None:
        """Find out which way works for this account."""
        self._source, missing = None, []
        try:
            found = self.control.rows(STATISTICS, NAMES, timeout=deadline.step())
        except NOT_THERE as error:
            self.problems = (f"nothing of a canary's work is known: {error}",)
            return
        self._numbers = {str(name): int(number) for number, name in found}
        self._names = {number: name for name, number in self._numbers.items()}
        try:
            times = self._canary.rows(TIME_IDS, timeout=deadline.step())
            self._names |= {int(number): str(name) for number, name in times}
        except NOT_THERE as error:
            missing.append(f"the CPU of canaries is unknown: {error}")
        for source in _SOURCES:
            if self._works(source, deadline):
                self._source = source
                break
        else:
            missing = [f"nothing of a canary's work is known; GRANT {', '.join(OF_OTHER.grants)} to the account"]
        if self._source is not None and self._source.own and self._here:
            missing.append(f"the CPU of canaries holds that of reading it; GRANT {OF_OTHER.grants[0]} to the account")
        if DECRYPTED not in self._numbers:
            missing.append(f"this release has no statistic `{DECRYPTED}`")
        self.problems = tuple(missing)

    @property
    def _here(self) -> bool:
        return self.control_at.instance == self._canary_at.instance

    def _works(self, source: _Source, deadline: Deadline) -> bool:
        if not source.own and not self._here:
            return False
        try:
            return bool(self._rows(source, deadline))
        except NOT_THERE:
            return False

    # -- around a run ----------------------------------------------------------------------------

    def read(self, deadline: Deadline) -> Reading:
        """The statistics as they are; the canary's connection rests meanwhile. Empty where nothing can be read."""
        if self._source is None:
            return {}
        rows = self._rows(self._source, deadline)
        return {self._names[int(number)]: int(value) for number, value in rows if int(number) in self._names}

    def work(self, before: Reading, after: Reading) -> Work:
        """What lies between two readings."""

        def risen(name: str) -> int | None:
            if name not in before or name not in after:
                return None
            # A session that was replaced under its number.
            return None if after[name] < before[name] else after[name] - before[name]

        cpu, time = risen(CPU), risen(DB_TIME)
        return Work(
            cpu_seconds=None if cpu is None else cpu * MICRO,
            server_seconds=None if time is None or not self.times_runs else time * MICRO,
            blocks_read=risen(READS),
            decrypts=risen(DECRYPTED),
            encrypts=risen(ENCRYPTED),
        )

    def _rows(self, source: _Source, deadline: Deadline) -> list[tuple[int, int]]:
        numbers = tuple(self._numbers.get(name, _ABSENT) for name in NAMES)
        connection = self._canary if source.own else self.control
        return connection.rows(source.statement, source.values(self._canary_at.sid, numbers), timeout=deadline.step())


def in_values(work: Work, values: int, encrypted: bool | None) -> Work:
    """The work of a run on a twin with an encrypted column: values that were decrypted, in place of blocks."""
    decrypts = None if encrypted is None else values if encrypted else 0
    return replace(work, decrypts=decrypts, encrypts=None if encrypted is None else 0)
