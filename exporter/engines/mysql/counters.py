"""Counters around a canary query on MySQL and Percona Server, which count reads of each file, but no decrypted pages.

What is read of an encrypted file is decrypted; so its reads stand for decrypted pages (`proxy`).
"""

from __future__ import annotations

from exporter.domain.model import Operation
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.counters import (
    FILES,
    HISTORY,
    NOT_THERE,
    THREADS,
    Counters,
    Mark,
    Sources,
    TwinTable,
)
from exporter.engines._mysql_protocol.deadlines import Deadline


class MySqlCounters(Counters):
    """See the module."""

    @property
    def decrypt_source(self) -> str | None:
        return "proxy" if self.sources.files else None

    @property
    def problems(self) -> tuple[str, ...]:
        missing, found = self.sources.not_granted, []
        if not self.sources.files:
            remedy = f"GRANT SELECT ON {FILES}" if FILES in missing else "performance_schema=ON in my.cnf"
            found.append(f"pages that canary queries read and decrypt are unknown; {remedy} makes them known")
        if self.sources.event_thread is None and HISTORY in missing:
            found.append(
                f"the server's own time of canary queries is unknown; GRANT SELECT ON {HISTORY} makes it known"
            )
        if THREADS in missing:
            found.append(
                "whether the server runs on this machine is unknown, and with it the CPU of its threads, of the server and"
                f" of its host; GRANT SELECT ON {THREADS} makes them known"
            )
        if not self.cpu_source:
            remedy = (
                "UPDATE performance_schema.setup_consumers SET ENABLED='YES' WHERE NAME='events_statements_cpu'"
                if HISTORY not in missing
                else f"GRANT SELECT ON {HISTORY} and the consumer events_statements_cpu"
            )
            found.append(f"CPU of canary queries is unknown; {remedy} makes it known")
        return tuple(found)

    def thread_id(self, connection: Connection, deadline: Deadline) -> int | None:
        sql = f"SELECT THREAD_OS_ID FROM {THREADS} WHERE PROCESSLIST_ID = %s"
        try:
            row = connection.row(sql, (connection.id,), timeout=deadline.step())
        except NOT_THERE:
            return None
        return int(row[0]) if row is not None and row[0] else None

    def own_event_thread(self, deadline: Deadline) -> int | None:
        try:
            row = self.canary.row("SELECT PS_CURRENT_THREAD_ID()", timeout=deadline.step())
        except NOT_THERE:
            return None
        return int(row[0]) if row is not None and row[0] else None

    def end_of_file(self, twin: TwinTable, deadline: Deadline) -> str:
        if twin.tablespace is None:
            return twin.file
        sql = "SELECT FILE_NAME FROM information_schema.FILES WHERE TABLESPACE_NAME = %s"
        try:
            row = self.control.row(sql, (twin.tablespace,), timeout=deadline.step())
        except NOT_THERE:
            row = None
        return "/" + str(row[0]).rpartition("/")[2] if row else twin.file

    def find_more(self, sources: Sources, deadline: Deadline) -> None:
        """There is nothing more."""

    def selects(self, twin: TwinTable, operation: Operation) -> list[tuple[str, tuple[object, ...]]]:
        return []

    def reads_and_decrypts(
        self, twin: TwinTable, operation: Operation, before: Mark, after: Mark, own: int | None
    ) -> tuple[int | None, int | None]:
        if twin.encrypted is None:
            return own, None
        return own, own if twin.encrypted else 0
