"""The statements of the engine's keystores, inventory, heartbeat and standbys, answered on the model.

Texts come from the engine's own list, by name. The heartbeat's table lies in `Database.tables`; `ship` brings it, as it
is, from a primary to a standby, as redo does.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from exporter.engines.oracle import statements as engine
from tests.oracle_standin import canaries, statements_twins
from tests.oracle_standin.datatypes import Kind, Value
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.expressions import Environment
from tests.oracle_standin.model import Database
from tests.oracle_standin.queries import computed
from tests.oracle_standin.statements import Answer, Call, Function, Statements
from tests.oracle_standin.storage import Table

SIMPLE = (
    "keystore.wallets",
    "keystore.wallets_12",
    "keystore.containers",
    "inventory.encrypted_tablespaces",
    "inventory.tablespace_names",
    "inventory.tablespaces",
    "inventory.tablespaces_of_all",
    "inventory.data_files",
    "inventory.data_files_of_all",
    "inventory.encrypted_columns",
    "inventory.encrypted_columns_of_all",
    "heartbeat.whose",
    "standby.database",
    "standby.processes",
    "standby.managed",
    "standby.gaps",
    "standby.destinations",
    "standby.master_keys",
)
"""Queries of views that need no function."""
_STAMP = "%m/%d/%Y %H:%M:%S"


@dataclass
class Heartbeat(statements_twins.Twin):
    """The table of the heartbeat; without `seq`, it has no row."""

    seq: Any = None
    beat: Any = None


def ship(primary: Database, standby: Database) -> None:
    """Apply all redo: the standby has the heartbeat that the primary has."""
    with primary.lock, standby.lock:
        standby.tables[:] = [each for each in standby.tables if not isinstance(each, Heartbeat)]
        standby.tables += [replace(each) for each in primary.tables if isinstance(each, Heartbeat)]


def heartbeats_of(database: Database) -> list[Heartbeat]:
    """The table, where it was made."""
    return [each for each in database.tables if isinstance(each, Heartbeat)]


def register(table: Statements) -> None:
    """Add the statements to a table that has those of the twins."""
    texts = {name: statement.sql for name, statement in engine.every().items()}
    for name in SIMPLE:
        table.select(texts[name], name=name)
    table.select(texts["keystore.keys"], activated=computed(Kind.TIMESTAMP, _activated))
    table.select(texts["standby.stats"], now=computed(Kind.VARCHAR2, _now_text, 19))
    table.select(texts["heartbeat.clock"], now=computed(Kind.TIMESTAMP, lambda row: _utc(row.database)))
    _logs(table, texts["standby.logs"])
    _heartbeat(table, texts)
    for kind, name in (("index", "indexes"), ("lob", "lobs"), ("mview", "materialized_views")):
        statement = engine.every()[f"dependents.{name}"]
        reads = [grant.removeprefix("READ ON SYS.") for grant in statement.grants]
        table.add(statement.sql, spec="N N", reads=reads)(_dependents(kind))


def _activated(row: Environment) -> Value:
    moment = row.get("ACTIVATION_TIME")
    return None if moment is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _now_text(row: Environment) -> Value:
    return row.database.now().strftime(_STAMP)


def _utc(database: Database) -> datetime.datetime:
    return database.now().astimezone(datetime.UTC).replace(tzinfo=None)


def _logs(table: Statements, sql: str) -> None:
    @table.add(sql, spec="THREAD# N, APPLIED V9, NEWEST N", reads=["V$ARCHIVED_LOG", "V$DATABASE"])
    def _newest(call: Call) -> Iterable[Sequence[Value]]:
        week = call.database.now().replace(tzinfo=None) - datetime.timedelta(days=7)
        found: dict[tuple[int, str], int] = {}
        for each in call.database.data_guard.archived_logs:
            if each.standby == "NO" and each.first_time > week:
                at = (each.thread, each.applied)
                found[at] = max(found.get(at, 0), each.sequence)
        return [(*at, newest) for at, newest in found.items()]


def _dependents(kind: str) -> Function:
    return lambda call: [(_in_the_clear(call, kind),)]


def _in_the_clear(call: Call, kind: str) -> int:
    """Dependents in plain tablespaces, of tables of users in encrypted ones."""
    database, con_id = call.database, call.seat.con_id
    encrypted = {each.name: bool(each.encrypted) for each in database.tablespaces if each.con_id == con_id}

    def of_encrypted(owner: str, name: str) -> bool:
        table = database.table(owner, name, con_id)
        return table is not None and owner != "SYS" and encrypted.get(table.tablespace, False)

    return sum(
        each.kind == kind
        and each.con_id == con_id
        and each.tablespace is not None
        and not encrypted[each.tablespace]
        and of_encrypted(each.table_owner, each.table)
        for each in database.dependents
    )


# -- the heartbeat ---------------------------------------------------------------------------------


def _heartbeat(table: Statements, texts: dict[str, str]) -> None:
    @table.add(texts["heartbeat.create"])
    def _create(call: Call) -> Answer:
        _writable(call)
        _may(call, "CREATE ANY TABLE")
        owner, _, name = call.names["table"].rpartition(".")
        database, con_id = call.database, call.seat.con_id
        space = database.tablespace(call.names["tablespace"], con_id)
        if database.table(owner, name, con_id) is not None:
            raise OraError(955)
        database.tables.append(Heartbeat(owner, name, space.name, con_id, rows=0, blocks=1))
        return Answer(commits=True)

    @table.add(texts["heartbeat.grant"])
    def _grant(call: Call) -> Answer:
        _may(call, "GRANT ANY OBJECT PRIVILEGE")
        found, account = _found(call), call.database.users[call.names["writer"]]
        if account.grants is not None:
            account.grants |= {f"{found.owner}.{found.name}", "WRITES HEARTBEAT"}
        return Answer(commits=True)

    @table.add(texts["heartbeat.read"], spec="SEQ N, BEAT TS, NOW TS")
    def _read(call: Call) -> Iterator[Sequence[Value]]:
        found = _found(call)
        if found.seq is not None:
            yield found.seq, found.beat, _utc(call.database)

    @table.add(texts["heartbeat.begin"])
    def _begin(call: Call) -> Answer:
        found = _written(call)
        if found.seq is not None:
            raise OraError(1, "(TDE.HEARTBEAT_PK)")
        found.seq, found.beat = int(call.binds[0]), _utc(call.database)
        return Answer(affected=1, changes=True)

    @table.add(texts["heartbeat.write"])
    def _write(call: Call) -> Answer:
        found = _written(call)
        wanted, before = (int(value) for value in call.binds)
        if found.seq != before:
            return Answer()
        found.seq, found.beat = wanted, _utc(call.database)
        return Answer(affected=1, changes=True)


def _found(call: Call) -> Heartbeat:
    found: Table = canaries.table_of(call)
    if not isinstance(found, Heartbeat):
        raise OraError(904, '"SEQ"')
    return found


def _written(call: Call) -> Heartbeat:
    found = _found(call)
    grants = call.seat.account.grants
    if grants is not None and "WRITES HEARTBEAT" not in grants:
        raise OraError(1031)
    _writable(call)
    return found


def _may(call: Call, privilege: str) -> None:
    grants = call.seat.account.grants
    if grants is not None and privilege not in grants:
        raise OraError(1031)


def _writable(call: Call) -> None:
    if call.database.open_mode != "READ WRITE":
        raise OraError(16000)
