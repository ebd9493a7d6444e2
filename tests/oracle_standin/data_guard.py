"""What the model knows about redo: on a standby its lags and processes, on a primary its destinations."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field


def _local(*, minutes_ago: float) -> datetime.datetime:
    """A time as DATE columns have it: of the server's host, without a zone."""
    moment = datetime.datetime.now().astimezone() - datetime.timedelta(minutes=minutes_ago)
    return moment.replace(tzinfo=None)


@dataclass
class Process:
    """A row of V$DATAGUARD_PROCESS and of V$MANAGED_STANDBY."""

    name: str
    action: str = "IDLE"
    type: str = ""
    role: str = ""
    pid: str = "4711"
    client: str = "N/A"
    thread: int = 1
    sequence: int = 0
    block: int = 0
    blocks: int = 0
    delay_minutes: int = 0


@dataclass
class Destination:
    """A row of V$ARCHIVE_DEST_STATUS and of V$ARCHIVE_DEST."""

    dest_id: int
    status: str = "VALID"
    type: str = "PHYSICAL"
    database_mode: str = "MOUNTED-STANDBY"
    recovery_mode: str = "MANAGED REAL TIME APPLY"
    unique_name: str = "ORCL_B"
    archived: int = 100
    applied: int = 99
    error: str | None = None
    synchronization: str = "CHECK CONFIGURATION"
    synchronized: str = "NO"
    gap: str = "NO GAP"
    delay_minutes: int = 0


@dataclass
class ArchivedLog:
    """A row of V$ARCHIVED_LOG; `applied` is NO, IN-MEMORY or YES."""

    sequence: int
    applied: str = "YES"
    thread: int = 1
    dest_id: int = 1
    standby: str = "NO"
    registrar: str = "RFS"
    first_time: datetime.datetime = field(default_factory=lambda: _local(minutes_ago=9))
    seconds: float = 300.0


@dataclass
class DataGuard:
    """Lags are seconds, and None is unknown. `frozen_since` is the time of the last redo from the primary, when none
    arrives any more: the lags then stand still, and so does DATUM_TIME."""

    source_dbid: int = 1575462417
    source_unique_name: str = "ORCL_A"
    transport_lag: float | None = 0.0
    apply_lag: float | None = 0.0
    apply_finish: float | None = 0.0
    startup_seconds: int = 14
    frozen_since: datetime.datetime | None = None
    processes: list[Process] = field(default_factory=list)
    destinations: list[Destination] = field(default_factory=list)
    archived_logs: list[ArchivedLog] = field(default_factory=list)
    gaps: list[tuple[int, int, int]] = field(default_factory=list)
    """Thread, lowest and highest missing sequence."""
    recovery: list[tuple[str, str, int]] = field(default_factory=list)
    """Item, unit and value of V$RECOVERY_PROGRESS."""


def lag_text(seconds: float | None, *, digits: int = 0) -> str | None:
    """As V$DATAGUARD_STATS writes an interval: +01 17:17:09, with three digits behind it for "apply finish time"."""
    if seconds is None:
        return None
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    width = 3 + digits if digits else 2
    return f"+{int(days):02} {int(hours):02}:{int(minutes):02}:{rest:0{width}.{digits}f}"
