"""Views of statistics, the time model and the host."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from tests.oracle_standin.counters import TIME_MODEL, Counters, numbered
from tests.oracle_standin.model import Database, Row, Seat
from tests.oracle_standin.views import Views

VIEWS = Views()

_NAMED = "STATISTIC# N, NAME V64, CLASS N, VALUE N, STAT_ID N, CON_ID N"
_TIMES = "STAT_ID N, STAT_NAME V64, VALUE N, CON_ID N"
_ALPHABET = "0123456789abcdfghjkmnpqrstuvwxyz"


def sql_id(sql: str) -> str:
    """The id of a text, as Oracle derives it from its MD5."""
    number = int.from_bytes(hashlib.md5(sql.encode() + b"\0").digest()[8:12][::-1], "big") << 32
    number |= int.from_bytes(hashlib.md5(sql.encode() + b"\0").digest()[12:16][::-1], "big")
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in range(12, -1, -1))


def _rows(database: Database) -> Iterator[Row]:
    for number, name, group, identifier in numbered(database.profile.release, database.missing_statistics):
        yield {"STATISTIC#": number, "NAME": name, "CLASS": group, "STAT_ID": identifier, "CON_ID": 0}


@VIEWS.define("V$STATNAME", "STATISTIC# N, NAME V64, CLASS N, STAT_ID N, CON_ID N", container_rows=False)
def _names(database: Database, _seat: Seat) -> Iterable[Row]:
    return _rows(database)


def _statistics(database: Database, counters: Counters, extra: Row) -> Iterator[Row]:
    for row in _rows(database):
        yield {**row, "VALUE": counters.statistic(str(row["NAME"])), **extra}


@VIEWS.define("V$MYSTAT", "SID N, STATISTIC# N, VALUE N, CON_ID N", container_rows=False)
def _my_statistics(database: Database, seat: Seat) -> Iterable[Row]:
    return _statistics(database, seat.counters, {"SID": seat.sid, "CON_ID": seat.con_id})


@VIEWS.define("V$SESSTAT", "SID N, STATISTIC# N, VALUE N, CON_ID N")
def _session_statistics(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in list(database.seats.values()):
        yield from _statistics(database, each.counters, {"SID": each.sid, "CON_ID": each.con_id})


@VIEWS.define("V$SYSSTAT", _NAMED)
def _system_statistics(database: Database, _seat: Seat) -> Iterable[Row]:
    return _statistics(database, database.system, {"CON_ID": 0})


@VIEWS.define("V$CON_SYSSTAT", _NAMED)
def _container_statistics(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.containers:
        counters = database.by_container.get(each.con_id, Counters())
        yield from _statistics(database, counters, {"CON_ID": each.con_id})


def _times(counters: Counters, extra: Row) -> Iterator[Row]:
    for name, identifier in TIME_MODEL.items():
        yield {"STAT_ID": identifier, "STAT_NAME": name, "VALUE": counters.microseconds(name), **extra}


@VIEWS.define("V$SESS_TIME_MODEL", "SID N, " + _TIMES)
def _session_times(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in list(database.seats.values()):
        yield from _times(each.counters, {"SID": each.sid, "CON_ID": each.con_id})


@VIEWS.define("V$SYS_TIME_MODEL", _TIMES)
def _system_times(database: Database, _seat: Seat) -> Iterable[Row]:
    return _times(database.system, {"CON_ID": 0})


@VIEWS.define("V$CON_SYS_TIME_MODEL", _TIMES)
def _container_times(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.containers:
        yield from _times(database.by_container.get(each.con_id, Counters()), {"CON_ID": each.con_id})


@VIEWS.define("V$OSSTAT", "STAT_NAME V64, VALUE N, OSSTAT_ID N, COMMENTS V64, CUMULATIVE V3, CON_ID N")
def _host(database: Database, _seat: Seat) -> Iterator[Row]:
    busy, idle = database.host_busy_seconds * 100, database.host_idle_seconds * 100
    values = {
        "NUM_CPUS": database.host_cpus,
        "NUM_CPU_CORES": database.host_cpus,
        "NUM_CPU_SOCKETS": 1,
        "LOAD": 0.5,
        "IDLE_TIME": int(idle),
        "BUSY_TIME": int(busy),
        "USER_TIME": int(busy * 0.8),
        "SYS_TIME": int(busy * 0.2),
        "IOWAIT_TIME": 0,
        "NICE_TIME": 0,
    }
    for number, (name, value) in enumerate(values.items()):
        cumulative = "YES" if name.endswith("_TIME") else "NO"
        yield {"STAT_NAME": name, "VALUE": value, "OSSTAT_ID": number, "CUMULATIVE": cumulative, "CON_ID": 0}


@VIEWS.define(
    "V$SQLSTATS",
    "SQL_ID V13, SQL_TEXT V1000, SQL_FULLTEXT CLOB, EXECUTIONS N, CPU_TIME N, ELAPSED_TIME N, CON_ID N",
)
def _sql(database: Database, _seat: Seat) -> Iterator[Row]:
    for text, (executions, cpu, elapsed) in list(database.statements.items()):
        yield {
            "SQL_ID": sql_id(text),
            "SQL_TEXT": text[:1000],
            "SQL_FULLTEXT": text,
            "EXECUTIONS": int(executions),
            "CPU_TIME": round(cpu * 1e6),
            "ELAPSED_TIME": round(elapsed * 1e6),
            "CON_ID": 0,
        }
