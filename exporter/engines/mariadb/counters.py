"""Counters around a canary query on MariaDB, which counts decrypted pages itself, but for the whole server only.

What others do meanwhile must not be taken for ours: a run never decrypts more than it reads of its twin's own file, where
that is known, and a plain twin decrypts nothing. Where only counters of the whole server are there, runs that show what
they cannot have done themselves tell that others are at work; when there are more than a few of them, nothing is known.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from exporter.domain.model import Operation
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.counters import (
    FILES,
    FIRST_FREE,
    HISTORY,
    NOT_THERE,
    THREADS,
    Counters,
    Mark,
    Sources,
    TwinTable,
)
from exporter.engines._mysql_protocol.deadlines import Deadline
from exporter.engines._mysql_protocol.operations import READING_AHEAD

DECRYPTED, PAGES_READ, TABLE = FIRST_FREE, FIRST_FREE + 1, FIRST_FREE + 2
_VARIABLES = ((DECRYPTED, "INNODB_NUM_PAGES_DECRYPTED"), (PAGES_READ, "INNODB_PAGES_READ"))
SESSION_CPU = "SHOW SESSION STATUS LIKE 'Cpu_time'"
CALIBRATIONS = 40
WATCHED_RUNS, FEWEST_RUNS, FOREIGN_SHARE = 100, 40, 0.05
SLOWEST_FILES = 0.0004
"""Seconds. MariaDB looks through all files for one; where there are very many, that would cost more than the canaries."""


class MariaDbCounters(Counters):
    """See the module."""

    def __init__(self, *args: object, **others: object) -> None:
        super().__init__(*args, **others)  # type: ignore[arg-type]
        self._foreign: deque[bool] = deque(maxlen=WATCHED_RUNS)
        self._counts_decrypts = self._counts_tables = self._userstat = self._performance_schema = False

    @property
    def decrypt_source(self) -> str | None:
        return "counter" if self._counts_decrypts else None

    @property
    def problems(self) -> tuple[str, ...]:
        found, missing = [], self.sources.not_granted if self._performance_schema else set()
        remedy = f"GRANT SELECT ON {FILES}" if FILES in missing else "performance_schema=ON in my.cnf"
        if self.polluted:
            found.append(
                "pages that canary queries read and decrypt are unknown, for others read as well and only the whole"
                f" server is counted; {remedy} makes them known"
            )
        elif FILES in missing:
            found.append(
                "pages that canary queries read are known only while nobody else reads, for the whole server is counted;"
                f" {remedy} makes them known at any time"
            )
        found += [
            f"the server's own time of canary queries is unknown; GRANT SELECT ON {table} makes it known"
            for table in (THREADS, HISTORY)
            if table in missing
        ]
        if not self.cpu_source:
            found.append("CPU of canary queries is unknown; SET GLOBAL userstat=ON makes it known")
        return tuple(found)

    @property
    def polluted(self) -> bool:
        """Whether others read so much that the server's own counters say nothing of a single query."""
        if self.sources.files or len(self._foreign) < FEWEST_RUNS:
            return False
        return sum(self._foreign) > FOREIGN_SHARE * len(self._foreign)

    def thread_id(self, connection: Connection, deadline: Deadline) -> int | None:
        sql = "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = %s"
        try:
            row = connection.row(sql, (connection.id,), timeout=deadline.step())
        except NOT_THERE:
            return None
        return int(row[0]) if row is not None and row[0] else None

    def find_more(self, sources: Sources, deadline: Deadline) -> None:
        self._counts_decrypts = self.can_read(sources, "", _status("Innodb_num_pages_decrypted"), deadline)
        switches = self.control.row("SELECT @@GLOBAL.userstat, @@GLOBAL.performance_schema", timeout=deadline.step())
        self._userstat, self._performance_schema = (value == 1 for value in switches or (0, 0))
        columns = (
            "SELECT 1 FROM information_schema.columns WHERE table_schema = 'information_schema'"
            " AND table_name = 'TABLE_STATISTICS' AND column_name = 'PAGES_READ_FROM_DISK'"
        )
        self._counts_tables = self._userstat and bool(self.control.rows(columns, timeout=deadline.step()))
        if sources.files:
            sources.files = self._files_are_quick(deadline)
        if sources.thread is None and self._userstat:
            sources.session_cpu_cost = self._cost_of_asking(deadline)

    def _files_are_quick(self, deadline: Deadline) -> bool:
        sql = f"SELECT COUNT_READ FROM {FILES} WHERE FILE_NAME = ''"
        seconds = min(self.control.timed(sql, timeout=deadline.step()).execute_seconds for _ in range(3))
        return seconds <= SLOWEST_FILES

    def _cost_of_asking(self, deadline: Deadline) -> float | None:
        """CPU seconds of one question for the session's own CPU; None when it is not counted."""
        readings = [self._session_cpu(deadline) for _ in range(CALIBRATIONS + 1)]
        costs = sorted(later - earlier for earlier, later in pairwise(readings))
        if readings[-1] <= 0.0 or costs[-1] <= 0.0:
            return None
        kept = costs[: -CALIBRATIONS // 10]
        return sum(kept) / len(kept)

    def _session_cpu(self, deadline: Deadline) -> float:
        row = self.canary.row(SESSION_CPU, timeout=deadline.step())
        return float(row[1]) if row is not None else 0.0

    def session_cpu(self, operation: Operation, deadline: Deadline) -> float | None:
        if self.sources.session_cpu_cost is None or operation in READING_AHEAD:
            return None
        return self._session_cpu(deadline) or None

    def selects(self, twin: TwinTable, operation: Operation) -> list[tuple[str, tuple[object, ...]]]:
        names = [name for _, name in _VARIABLES]
        cases = " ".join(f"WHEN '{name}' THEN {number}" for number, name in _VARIABLES)
        status = (
            f"SELECT CASE VARIABLE_NAME {cases} END, CAST(VARIABLE_VALUE AS UNSIGNED), NULL, NULL"
            f" FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ({', '.join(['%s'] * len(names))})"
        )
        parts: list[tuple[str, tuple[object, ...]]] = [(status, tuple(names))]
        if self._counts_tables and not self.sources.files and operation not in READING_AHEAD:
            table = (
                f"SELECT {TABLE}, PAGES_READ_FROM_DISK, NULL, NULL FROM information_schema.TABLE_STATISTICS"
                " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
            )
            parts.append((table, (twin.schema, twin.name)))
        return parts

    def reads_and_decrypts(
        self, twin: TwinTable, operation: Operation, before: Mark, after: Mark, own: int | None
    ) -> tuple[int | None, int | None]:
        decrypted = _rise(before, after, DECRYPTED)
        if own is None:
            own = _rise(before, after, TABLE)
        if own is None:
            own = _rise(before, after, PAGES_READ)
            self._watch(twin, operation, decrypted, own)
            if self.polluted:
                return None, 0 if twin.encrypted is False else None
        if twin.encrypted is None or decrypted is None:
            return own, None
        if not twin.encrypted:
            return own, 0
        return own, decrypted if own is None else min(decrypted, own)

    def _watch(self, twin: TwinTable, operation: Operation, decrypted: int | None, read: int | None) -> None:
        """Note whether this run shows something that it cannot have done itself."""
        if decrypted is None or read is None or twin.encrypted is None:
            return
        if not twin.encrypted:
            self._foreign.append(decrypted > 0)
        elif operation not in READING_AHEAD:
            # Nearly all pages of an encrypted file are encrypted: not its first one, and not those that were never
            # used, which lie at its end and are found by reading ahead.
            self._foreign.append(read > 1.05 * decrypted + 2)


def _status(name: str) -> str:
    return f"SHOW GLOBAL STATUS LIKE '{name}'"


def _rise(before: Mark, after: Mark, source: int) -> int | None:
    """By how much a counter rose; None when it is not there or was reset."""
    then, now = before.get(source), after.get(source)
    return None if then is None or now is None or now < then else now - then
