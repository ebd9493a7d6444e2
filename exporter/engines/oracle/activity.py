"""What the whole instance does: decrypted blocks, CPU, physical reads and their time, its cache, its host."""

from __future__ import annotations

from exporter.domain.errors import TargetError
from exporter.domain.states import Activity
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.counters import DECRYPTED, ENCRYPTED
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.identity import NOT_THERE
from exporter.engines.oracle.statements import Statement, define, view

CENTI, MICRO = 0.01, 1e-6

STATISTICS = define(
    "activity.statistics",
    "SELECT name, value FROM v$sysstat WHERE name IN ('blocks decrypted', 'blocks encrypted',"
    " 'physical read IO requests', 'user I/O wait time', 'physical reads cache', 'session logical reads',"
    " 'consistent gets direct')",
    "activity",
    view("V$SYSSTAT"),
)
TIMES = define(
    "activity.times",
    "SELECT stat_name, value FROM v$sys_time_model WHERE stat_name IN ('DB CPU', 'background cpu time')",
    "activity",
    view("V$SYS_TIME_MODEL"),
)
HOST = define(
    "activity.host",
    "SELECT stat_name, value FROM v$osstat WHERE stat_name IN ('NUM_CPUS', 'BUSY_TIME', 'IDLE_TIME')",
    "activity",
    view("V$OSSTAT"),
)
MEMORY = define(
    "activity.memory",
    "SELECT name, value FROM v$parameter WHERE name IN ('memory_target', 'sga_target', 'db_cache_size')",
    "activity",
    view("V$PARAMETER"),
)
_SIZES = ("memory_target", "sga_target", "db_cache_size")
"""The first that is set decides. Within the others the database moves memory about as it likes, which is no event."""


class ActivityReader:
    """Reads the activity of one instance; outlives its sessions, for it remembers the reading before."""

    def __init__(self) -> None:
        self._cache: tuple[int, int] | None = None
        self._host: tuple[int, int] | None = None

    def read(self, control: Connection, problems: tuple[str, ...], deadline: Deadline) -> Activity:
        """`problems` is what else is unknown. Works in a database that is only mounted."""
        words: list[str] = []
        statistics = self._named(control, STATISTICS, deadline, words)
        times = self._named(control, TIMES, deadline, words)
        host = self._named(control, HOST, deadline, words)
        sizes = self._named(control, MEMORY, deadline, words)
        counted = DECRYPTED in statistics
        waited = statistics.get("user I/O wait time")
        return Activity(
            decrypts=statistics.get(DECRYPTED),
            encrypts=statistics.get(ENCRYPTED),
            decrypt_source="counter" if counted else None,
            cpu_seconds=sum(times.values()) * MICRO if "DB CPU" in times else None,
            reads=statistics.get("physical read IO requests"),
            read_seconds=None if waited is None else waited * CENTI,
            buffer_hit_ratio=self._hit_ratio(statistics),
            host_cpu_ratio=self._busy_ratio(host),
            host_cpus=host.get("NUM_CPUS"),
            buffer_bytes=next((sizes[name] for name in _SIZES if sizes.get(name)), None),
            problems=(*words, *problems),
        )

    def _named(
        self, control: Connection, statement: Statement, deadline: Deadline, problems: list[str]
    ) -> dict[str, int]:
        try:
            rows = control.rows(statement, timeout=deadline.step())
        except NOT_THERE as error:
            problems.append(_unknown(statement, error))
            return {}
        return {str(name): int(value) for name, value in rows if value is not None}

    def _hit_ratio(self, statistics: dict[str, int]) -> float | None:
        """Share of the blocks since the last reading that were found in the buffer cache, of those looked for there."""
        try:
            wanted = statistics["session logical reads"] - statistics["consistent gets direct"]
            now = wanted, statistics["physical reads cache"]
        except KeyError:
            return None
        before, self._cache = self._cache, now
        if before is None or now[0] <= before[0] or now[1] < before[1]:
            return None
        return max(0.0, 1.0 - (now[1] - before[1]) / (now[0] - before[0]))

    def _busy_ratio(self, host: dict[str, int]) -> float | None:
        if not {"BUSY_TIME", "IDLE_TIME"} <= host.keys():
            return None
        now = host["BUSY_TIME"], host["BUSY_TIME"] + host["IDLE_TIME"]
        before, self._host = self._host, now
        if before is None or now[1] <= before[1] or now[0] < before[0]:
            return None
        return min(1.0, (now[0] - before[0]) / (now[1] - before[1]))


def _unknown(statement: Statement, error: TargetError) -> str:
    what = {
        "activity.statistics": "decrypted blocks and reads",
        "activity.times": "CPU of the instance",
        "activity.memory": "the size of the buffer cache",
    }
    return f"{what.get(statement.name, 'the load of the host')}: unknown; {error}"
