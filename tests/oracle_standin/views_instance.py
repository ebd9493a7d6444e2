"""Views of the instance, the database, its containers and its sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.oracle_standin.model import ROOT, Database, Row, Seat
from tests.oracle_standin.views import Views

VIEWS = Views()


@VIEWS.define("DUAL", "DUMMY V1", public=True, container_rows=False)
def _dual(_database: Database, _seat: Seat) -> Iterable[Row]:
    return [{"DUMMY": "X"}]


@VIEWS.define(
    "V$DATABASE",
    "DBID N, NAME V9, DB_UNIQUE_NAME V30, CDB V3, CON_ID N, DATABASE_ROLE V16, OPEN_MODE V20, PROTECTION_MODE V20,"
    "PROTECTION_LEVEL V20, SWITCHOVER_STATUS V20, FORCE_LOGGING V39, FS_FAILOVER_STATUS V22, CURRENT_SCN N, CREATED D,"
    "RESETLOGS_CHANGE# N, RESETLOGS_TIME D, LOG_MODE V12, PRIMARY_DB_UNIQUE_NAME V30, PLATFORM_NAME V101",
)
def _database(database: Database, _seat: Seat) -> Iterable[Row]:
    primary = database.role == "PRIMARY"
    yield {
        "DBID": database.dbid,
        "NAME": database.name,
        "DB_UNIQUE_NAME": database.unique_name,
        "CDB": "YES" if database.cdb else "NO",
        "CON_ID": 0,
        "DATABASE_ROLE": database.role,
        "OPEN_MODE": database.open_mode,
        "PROTECTION_MODE": database.protection_mode,
        "PROTECTION_LEVEL": database.protection_mode,
        "SWITCHOVER_STATUS": "TO STANDBY" if primary else "NOT ALLOWED",
        "FORCE_LOGGING": "YES",
        "FS_FAILOVER_STATUS": "DISABLED",
        "CURRENT_SCN": 1 << 40,
        "CREATED": database.started.replace(tzinfo=None),
        "RESETLOGS_CHANGE#": 1,
        "RESETLOGS_TIME": database.started.replace(tzinfo=None),
        "LOG_MODE": "ARCHIVELOG",
        "PRIMARY_DB_UNIQUE_NAME": database.unique_name if primary else database.data_guard.source_unique_name,
        "PLATFORM_NAME": "Linux x86 64-bit",
    }


@VIEWS.define(
    "V$INSTANCE",
    "INSTANCE_NUMBER N, INSTANCE_NAME V16, HOST_NAME V64, VERSION V17, VERSION_FULL V17 @18, STARTUP_TIME D, STATUS V12,"
    "PARALLEL V3, THREAD# N, DATABASE_STATUS V17, INSTANCE_ROLE V18, EDITION V7, CON_ID N",
)
def _instance(database: Database, _seat: Seat) -> Iterable[Row]:
    major = database.profile.version[0]
    yield {
        "INSTANCE_NUMBER": database.instance_number,
        "INSTANCE_NAME": database.instance,
        "HOST_NAME": database.host,
        "VERSION": database.profile.full if database.profile.release < 18 else f"{major}.0.0.0.0",
        "VERSION_FULL": database.profile.full,
        "STARTUP_TIME": database.started.astimezone().replace(tzinfo=None, microsecond=0),
        "STATUS": "MOUNTED" if database.mounted else "OPEN",
        "PARALLEL": "NO",
        "THREAD#": 1,
        "DATABASE_STATUS": "ACTIVE",
        "INSTANCE_ROLE": "PRIMARY_INSTANCE",
        "EDITION": "EE",
        "CON_ID": 0,
    }


@VIEWS.define("V$VERSION", "BANNER V80, BANNER_FULL V160 @18, CON_ID N")
def _version(database: Database, _seat: Seat) -> Iterable[Row]:
    banner = database.profile.banner
    yield {"BANNER": banner[:80], "BANNER_FULL": f"{banner}\nVersion {database.profile.full}", "CON_ID": 0}


_CONTAINER = "CON_ID N, DBID N, CON_UID N, GUID R16, NAME V128, OPEN_MODE V10, RESTRICTED V3"


@VIEWS.define("V$PDBS", _CONTAINER + ", RECOVERY_STATUS V8, TOTAL_SIZE N")
def _pdbs(database: Database, _seat: Seat) -> Iterator[Row]:
    return (row for row in _containers(database, _seat) if row["CON_ID"] != ROOT)


@VIEWS.define("V$CONTAINERS", _CONTAINER)
def _containers(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.containers if database.cdb else []:
        yield {
            "CON_ID": each.con_id,
            "DBID": database.dbid + each.con_id,
            "CON_UID": database.dbid + each.con_id,
            "GUID": each.guid or each.con_id.to_bytes(16, "big"),
            "NAME": each.name,
            "OPEN_MODE": "MOUNTED" if database.mounted else each.open_mode,
            "RESTRICTED": "YES" if each.restricted else "NO",
            "RECOVERY_STATUS": "ENABLED",
            "TOTAL_SIZE": 0,
        }


@VIEWS.define("V$PARAMETER", "NUM N, NAME V80, TYPE N, VALUE V4000, DISPLAY_VALUE V4000, ISDEFAULT V9, CON_ID N")
def _parameters(database: Database, _seat: Seat) -> Iterator[Row]:
    for number, (name, value) in enumerate(database.parameters.items(), 1):
        yield {
            "NUM": number,
            "NAME": name,
            "TYPE": 2,
            "VALUE": value,
            "DISPLAY_VALUE": value,
            "ISDEFAULT": "FALSE",
            "CON_ID": 0,
        }


@VIEWS.define(
    "V$SESSION",
    "SID N, SERIAL# N, USERNAME V128, STATUS V8, TYPE V10, SERVICE_NAME V64, PROGRAM V84, MODULE V64, ACTION V64,"
    "MACHINE V64, OSUSER V128, CLIENT_IDENTIFIER V64, CLIENT_INFO V64, CON_ID N",
)
def _sessions(database: Database, seat: Seat) -> Iterator[Row]:
    for each in list(database.seats.values()):
        yield {
            "SID": each.sid,
            "SERIAL#": each.serial,
            "USERNAME": each.user,
            "STATUS": "ACTIVE" if each.in_call or each is seat else "INACTIVE",
            "TYPE": "USER",
            "SERVICE_NAME": each.service,
            "PROGRAM": each.program,
            "MODULE": each.module or each.program,
            "ACTION": each.action,
            "MACHINE": each.machine,
            "OSUSER": each.osuser,
            "CLIENT_IDENTIFIER": each.client_identifier,
            "CLIENT_INFO": each.client_info,
            "CON_ID": each.con_id,
        }
