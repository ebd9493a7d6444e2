"""What the whole server does: decrypted pages, physical reads and their time, its cache, its host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from exporter.domain.errors import PermissionMissing, QueryFailed
from exporter.domain.states import Activity
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.counters import PICO
from exporter.engines._mysql_protocol.deadlines import Deadline
from exporter.engines._mysql_protocol.identity import Identity
from exporter.engines._mysql_protocol.threads import ServerThread
from exporter.engines.host import Host

_STATUS = (
    "Innodb_num_pages_decrypted",
    "Innodb_num_pages_encrypted",
    "Innodb_data_reads",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_reads",
)
_POOL_SIZE = "SELECT @@GLOBAL.innodb_buffer_pool_size"
_EVENTS = "performance_schema.file_summary_by_event_name"
_READS = f"SELECT COUNT_READ, SUM_TIMER_READ FROM {_EVENTS} WHERE EVENT_NAME = 'wait/io/file/innodb/innodb_data_file'"


@dataclass(frozen=True, slots=True)
class Decrypts:
    """Pages decrypted and encrypted by the whole server, where that comes from, and why it is unknown."""

    decrypts: int | None = None
    encrypts: int | None = None
    source: str | None = None
    problem: str = ""


class DecryptsReader(Protocol):
    """What differs between the servers."""

    def read(self, control: Connection, status: dict[str, int], page_bytes: int, deadline: Deadline) -> Decrypts:
        """Raises only what means that the server cannot be asked."""


class ActivityReader:
    """Reads the activity of one server; outlives its sessions, for it remembers the reading before."""

    def __init__(self, host: Host, decrypts: DecryptsReader) -> None:
        self._host, self._decrypts = host, decrypts
        self._pool: tuple[int, int] | None = None

    def read(
        self,
        control: Connection,
        identity: Identity,
        server: ServerThread | None,
        problems: tuple[str, ...],
        deadline: Deadline,
    ) -> Activity:
        """`server` is a thread of the server, where that runs on this machine; `problems` what else is unknown."""
        names = ", ".join(["%s"] * len(_STATUS))
        rows = control.rows(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})", _STATUS, timeout=deadline.step())
        # What is no number is left out: one that cannot be read must not hide the others.
        status = {str(name): int(value) for name, value in rows if str(value).isascii() and str(value).isdigit()}
        found = self._decrypts.read(control, status, identity.page_bytes, deadline)
        reads, read_seconds = self._reads(control, status, deadline)
        words = [*([found.problem] if found.problem else []), *problems]
        if read_seconds is None:
            remedy = f"GRANT SELECT ON {_EVENTS}" if identity.performance_schema else "performance_schema=ON in my.cnf"
            words.append(f"the time of physical reads is unknown; {remedy} makes it known")
        if identity.needed:
            words.append(f"whether it is a primary is unknown; GRANT {identity.needed} makes it known")
        here = server is not None
        return Activity(
            decrypts=found.decrypts,
            encrypts=found.encrypts,
            decrypt_source=found.source,
            cpu_seconds=self._host.process_cpu(server.pid) if server is not None else None,
            reads=reads,
            read_seconds=read_seconds,
            buffer_hit_ratio=self._hit_ratio(status),
            host_cpu_ratio=self._host.cpu_ratio() if here else None,
            host_cpus=self._host.cpus() if here else None,
            host_aes=self._host.aes() if here else None,
            buffer_bytes=_pool_size(control, deadline),
            problems=tuple(words),
        )

    def _reads(
        self, control: Connection, status: dict[str, int], deadline: Deadline
    ) -> tuple[int | None, float | None]:
        try:
            row = control.row(_READS, timeout=deadline.step())
        except (PermissionMissing, QueryFailed):
            row = None
        if row is None or not row[0]:
            return status.get("Innodb_data_reads"), None
        return int(row[0]), int(row[1]) * PICO

    def _hit_ratio(self, status: dict[str, int]) -> float | None:
        """Share of page requests since the last reading that found their page in the buffer pool."""
        try:
            now = status["Innodb_buffer_pool_read_requests"], status["Innodb_buffer_pool_reads"]
        except KeyError:
            return None
        before, self._pool = self._pool, now
        if before is None or now[0] <= before[0] or now[1] < before[1]:
            return None
        return max(0.0, 1.0 - (now[1] - before[1]) / (now[0] - before[0]))


def _pool_size(control: Connection, deadline: Deadline) -> int | None:
    """Bytes of the buffer pool as it is set now, which needs no grant."""
    try:
        row = control.row(_POOL_SIZE, timeout=deadline.step())
    except QueryFailed:
        return None
    return None if row is None else int(row[0])
