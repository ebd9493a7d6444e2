"""Views of redo transport and apply."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from tests.oracle_standin.data_guard import lag_text
from tests.oracle_standin.model import Database, Row, Seat
from tests.oracle_standin.views import Views

VIEWS = Views()

_STAMP = "%m/%d/%Y %H:%M:%S"


@VIEWS.define(
    "V$DATAGUARD_STATS",
    "SOURCE_DBID N, SOURCE_DB_UNIQUE_NAME V32, NAME V32, VALUE V64, UNIT V30, TIME_COMPUTED V30, DATUM_TIME V30,"
    "CON_ID N",
)
def _lags(database: Database, _seat: Seat) -> Iterator[Row]:
    """No rows on a primary. Unknown lags are rows without a value."""
    guard = database.data_guard
    if database.role == "PRIMARY":
        return
    now = database.now()
    seconds, milliseconds = "day(2) to second(0) interval", "day(2) to second(3) interval"
    items = (
        ("transport lag", lag_text(guard.transport_lag), seconds, True),
        ("apply lag", lag_text(guard.apply_lag), seconds, True),
        ("apply finish time", lag_text(guard.apply_finish, digits=3), milliseconds, False),
        ("estimated startup time", str(guard.startup_seconds), "second", False),
    )
    for name, value, unit, dated in items:
        yield {
            "SOURCE_DBID": guard.source_dbid,
            "SOURCE_DB_UNIQUE_NAME": guard.source_unique_name,
            "NAME": name,
            "VALUE": value,
            "UNIT": unit,
            "TIME_COMPUTED": now.strftime(_STAMP),
            "DATUM_TIME": (guard.frozen_since or now).strftime(_STAMP) if dated else None,
            "CON_ID": 0,
        }


@VIEWS.define(
    "V$DATAGUARD_PROCESS",
    "NAME V5, PID V24, TYPE V6, ROLE V31, ACTION V12, CLIENT_PID N, CLIENT_ROLE V16, GROUP# N, RESETLOG_ID N,"
    "THREAD# N, SEQUENCE# N, BLOCK# N, BLOCK_COUNT N, DELAY_MINS N, DEST_ID N, CON_ID N",
)
def _processes(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.data_guard.processes:
        yield {
            "NAME": each.name,
            "PID": each.pid,
            "TYPE": each.type,
            "ROLE": each.role or ("managed recovery" if each.name == "MRP0" else "RFS async"),
            "ACTION": each.action,
            "CLIENT_ROLE": each.client,
            "GROUP#": 0,
            "THREAD#": each.thread,
            "SEQUENCE#": each.sequence,
            "BLOCK#": each.block,
            "BLOCK_COUNT": each.blocks,
            "DELAY_MINS": each.delay_minutes,
            "CON_ID": 0,
        }


@VIEWS.define(
    "V$MANAGED_STANDBY",
    "PROCESS V9, PID V24, STATUS V12, CLIENT_PROCESS V8, CLIENT_DBID V40, GROUP# V40, RESETLOG_ID N, THREAD# N,"
    "SEQUENCE# N, BLOCK# N, BLOCKS N, DELAY_MINS N, CON_ID N",
)
def _managed(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.data_guard.processes:
        yield {
            "PROCESS": each.name,
            "PID": each.pid,
            "STATUS": each.action,
            "CLIENT_PROCESS": each.client,
            "GROUP#": "N/A",
            "THREAD#": each.thread,
            "SEQUENCE#": each.sequence,
            "BLOCK#": each.block,
            "BLOCKS": each.blocks,
            "DELAY_MINS": each.delay_minutes,
            "CON_ID": 0,
        }


@VIEWS.define(
    "V$ARCHIVE_DEST_STATUS",
    "DEST_ID N, DEST_NAME V256, STATUS V9, TYPE V16, DATABASE_MODE V15, RECOVERY_MODE V34, PROTECTION_MODE V20,"
    "DESTINATION V256, ARCHIVED_THREAD# N, ARCHIVED_SEQ# N, APPLIED_THREAD# N, APPLIED_SEQ# N, ERROR V256,"
    "DB_UNIQUE_NAME V30, SYNCHRONIZATION_STATUS V22, SYNCHRONIZED V3, GAP_STATUS V24, CON_ID N",
)
def _destinations(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.data_guard.destinations:
        yield {
            "DEST_ID": each.dest_id,
            "DEST_NAME": f"LOG_ARCHIVE_DEST_{each.dest_id}",
            "STATUS": each.status,
            "TYPE": each.type,
            "DATABASE_MODE": each.database_mode,
            "RECOVERY_MODE": each.recovery_mode,
            "PROTECTION_MODE": database.protection_mode,
            "DESTINATION": each.unique_name.lower(),
            "ARCHIVED_THREAD#": 1,
            "ARCHIVED_SEQ#": each.archived,
            "APPLIED_THREAD#": 1,
            "APPLIED_SEQ#": each.applied,
            "ERROR": each.error,
            "DB_UNIQUE_NAME": each.unique_name,
            "SYNCHRONIZATION_STATUS": each.synchronization,
            "SYNCHRONIZED": each.synchronized,
            "GAP_STATUS": each.gap,
            "CON_ID": 0,
        }


@VIEWS.define(
    "V$ARCHIVE_DEST",
    "DEST_ID N, DEST_NAME V256, STATUS V9, BINDING V9, TARGET V16, ARCHIVER V10, DELAY_MINS N, NET_TIMEOUT N,"
    "FAIL_DATE D, FAIL_SEQUENCE N, ERROR V256, VALID_NOW V16, DB_UNIQUE_NAME V30, CON_ID N",
)
def _configured_destinations(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.data_guard.destinations:
        yield {
            "DEST_ID": each.dest_id,
            "DEST_NAME": f"LOG_ARCHIVE_DEST_{each.dest_id}",
            "STATUS": each.status,
            "BINDING": "OPTIONAL",
            "TARGET": "PRIMARY" if each.type == "LOCAL" else "STANDBY",
            "ARCHIVER": "ARCH" if each.type == "LOCAL" else "LGWR",
            "DELAY_MINS": each.delay_minutes,
            "NET_TIMEOUT": 30,
            "FAIL_SEQUENCE": 0,
            "ERROR": each.error,
            "VALID_NOW": "YES",
            "DB_UNIQUE_NAME": each.unique_name,
            "CON_ID": 0,
        }


@VIEWS.define("V$ARCHIVE_GAP", "THREAD# N, LOW_SEQUENCE# N, HIGH_SEQUENCE# N, CON_ID N")
def _gaps(database: Database, _seat: Seat) -> Iterator[Row]:
    for thread, low, high in database.data_guard.gaps:
        yield {"THREAD#": thread, "LOW_SEQUENCE#": low, "HIGH_SEQUENCE#": high, "CON_ID": 0}


@VIEWS.define(
    "V$ARCHIVED_LOG",
    "RECID N, DEST_ID N, THREAD# N, SEQUENCE# N, RESETLOGS_ID N, FIRST_TIME D, NEXT_TIME D, COMPLETION_TIME D,"
    "STANDBY_DEST V3, ARCHIVED V3, APPLIED V9, REGISTRAR V7, STATUS V1, DELETED V3, FAL V3, CON_ID N",
)
def _archived_logs(database: Database, _seat: Seat) -> Iterator[Row]:
    for number, each in enumerate(database.data_guard.archived_logs, 1):
        following = each.first_time + datetime.timedelta(seconds=each.seconds)
        yield {
            "RECID": number,
            "DEST_ID": each.dest_id,
            "THREAD#": each.thread,
            "SEQUENCE#": each.sequence,
            "RESETLOGS_ID": 1,
            "FIRST_TIME": each.first_time,
            "NEXT_TIME": following,
            "COMPLETION_TIME": following,
            "STANDBY_DEST": each.standby,
            "ARCHIVED": "YES",
            "APPLIED": each.applied,
            "REGISTRAR": each.registrar,
            "STATUS": "A",
            "DELETED": "NO",
            "FAL": "NO",
            "CON_ID": 0,
        }


@VIEWS.define(
    "V$RECOVERY_PROGRESS",
    "START_TIME D, TYPE V64, ITEM V32, UNITS V32, SOFAR N, TOTAL N, TIMESTAMP D, COMMENTS V4000, CON_ID N",
)
def _recovery(database: Database, _seat: Seat) -> Iterator[Row]:
    started = database.started.replace(tzinfo=None)
    for item, units, value in database.data_guard.recovery:
        yield {
            "START_TIME": started,
            "TYPE": "Media Recovery",
            "ITEM": item,
            "UNITS": units,
            "SOFAR": value,
            "TOTAL": value,
            "CON_ID": 0,
        }
