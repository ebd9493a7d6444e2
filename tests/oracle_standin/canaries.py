"""Canary statements: what they read and write, what that costs, and what is decrypted by it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from tests.oracle_standin.counters import Work
from tests.oracle_standin.datatypes import Value
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.statements import Answer, Call, Statements
from tests.oracle_standin.storage import Table
from tests.oracle_standin.tokens import position_of
from tests.oracle_standin.views import columns

Rows = Callable[[Table, Sequence[Any]], list[Sequence[Value]]]
"""The rows that a query of a canary gives for its bind variables."""

_DIRECT = ("ALWAYS", "TRUE")


def table_of(call: Call) -> Table:
    """The table that the statement names; raises what a database raises when it cannot be read now."""
    name = call.names["table"].replace('"', "")
    owner, _, own = name.rpartition(".")
    database, seat = call.database, call.seat
    if database.mounted:
        raise OraError(1219)
    table = database.table(owner or seat.user, own, seat.con_id)
    grants = seat.account.grants
    allowed = grants is None or seat.privilege == "SYSDBA" or (table is not None and table.owner == seat.user)
    if table is None or not (allowed or f"{table.owner}.{table.name}" in (grants or ())):
        raise OraError(942, position=position_of(own, call.sql))
    return table


def payload(table: Table, number: int) -> str:
    """The text of a row, the same in all tables with that seed."""
    return hashlib.sha256(f"{table.seed}:{number}".encode()).hexdigest()


def lob(table: Table, number: int) -> bytes:
    """The LOB of a row, as many bytes as its blocks hold."""
    block = hashlib.sha256(f"lob:{table.seed}:{number}".encode()).digest() * 254
    return block * table.lob_blocks


def work(call: Call, table: Table, operation: str, shape: str, rows: int) -> Work:
    """What running an operation does. `shape` is "rows" (some rows are read through the buffer cache), "full" (the
    whole table), "lob" (the LOBs of the rows, which are not cached) or "write".

    Raises ORA-28365, 28361 or 28374 where something must be decrypted and the key is not there.
    """
    database, cost = call.database, table.cost(operation)
    tablespace = database.tablespace(table.tablespace, table.con_id)
    touched = table.rows if shape == "full" else rows
    blocks = {"full": table.blocks, "lob": table.lob_blocks * rows}.get(shape, -(-rows * table.blocks // table.rows))
    direct = shape == "lob" or (shape == "full" and call.seat.settings.get("_SERIAL_DIRECT_READ") in _DIRECT)
    physical = (blocks if direct else min(blocks, table.cold)) if cost.blocks is None else cost.blocks
    ciphered = physical if tablespace.encrypted else 0
    values = touched * table.encrypted_columns
    if ciphered or values:
        _check_key(call, table, tablespace.master_key)
    if not direct:
        table.cold = max(0, table.cold - physical)
    written = blocks if shape == "write" and tablespace.encrypted else 0
    random = database.random
    return Work(
        elapsed=cost.latency(random) + (ciphered + written) * cost.block_latency + values * cost.value_latency,
        cpu=cost.cpu(random) + (ciphered + written) * cost.block_cpu + values * cost.value_cpu,
        logical_reads=blocks + 3,
        cache_reads=0 if direct else physical,
        direct_reads=physical if direct else 0,
        lob_blocks=physical if shape == "lob" else 0,
        decrypted=ciphered,
        encrypted=written,
    )


def _check_key(call: Call, table: Table, master_key: bytes) -> None:
    keystore = call.database.keystore_of(table.con_id)
    if keystore is None or keystore.error:
        raise OraError(keystore.error if keystore else 28365)
    if any(each.missing and each.key_id == master_key for each in call.database.keys):
        raise OraError(28374)


def query(statements: Statements, operation: str, sql: str, spec: str, rows: Rows, shape: str = "rows") -> None:
    """Add a canary that reads `{table}`. `spec` as in `Statements.add`; `operation` finds its cost."""
    found = tuple(column for _, column, _ in columns(spec))

    def function(call: Call) -> Answer:
        table = table_of(call)
        answer = rows(table, call.binds)
        done = work(call, table, operation, shape, max(1, len(answer)))
        return Answer(found, answer, work=done, tablespace=call.database.tablespace(table.tablespace, table.con_id))

    statements.add(sql, name=operation)(function)


def change(statements: Statements, operation: str, sql: str, affected: Callable[[Table, Call], int]) -> None:
    """Add a statement that changes `{table}`; `affected` changes the model and gives the number of rows."""

    def function(call: Call) -> Answer:
        table = table_of(call)
        if call.database.open_mode != "READ WRITE":
            raise OraError(16000)
        count = affected(table, call)
        done = work(call, table, operation, "write", max(1, count))
        tablespace = call.database.tablespace(table.tablespace, table.con_id)
        return Answer(affected=count, work=done, tablespace=tablespace, changes=count > 0)

    statements.add(sql, name=operation)(function)


def _number(value: Value) -> int:
    assert isinstance(value, int), f"{value!r} is no row number"
    return value


def _range(table: Table, low: Value, high: Value) -> list[Sequence[Value]]:
    return [(n, payload(table, n)) for n in range(max(1, _number(low)), min(table.rows, _number(high)) + 1)]


def _digest(table: Table) -> int:
    return int(hashlib.sha256(f"{table.seed}:{table.rows}".encode()).hexdigest()[:12], 16)


def _found(table: Table, key: Value) -> bool:
    return 1 <= _number(key) <= table.rows


def _insert(table: Table, call: Call) -> int:
    table.inserted += len(call.rows)
    return len(call.rows)


def _delete(table: Table, call: Call) -> int:
    count = min(table.inserted, len(call.rows))
    table.inserted -= count
    return count


def register(statements: Statements) -> None:
    """Add canaries on tables with the columns ID, PAYLOAD and DATA (a NOCACHE BLOB)."""
    query(
        statements,
        "point_select",
        "SELECT id, payload FROM {table} WHERE id = :1",
        "ID N, PAYLOAD V64",
        lambda table, binds: [(binds[0], payload(table, _number(binds[0])))] if _found(table, binds[0]) else [],
    )
    query(
        statements,
        "range_select",
        "SELECT id, payload FROM {table} WHERE id BETWEEN :1 AND :2",
        "ID N, PAYLOAD V64",
        lambda table, binds: _range(table, binds[0], binds[1]),
    )
    query(
        statements,
        "full_scan",
        "SELECT /*+ FULL(t) NO_PARALLEL(t) */ COUNT(*) n, SUM(ORA_HASH(payload)) digest FROM {table} t",
        "N N, DIGEST N",
        lambda table, _binds: [(table.rows, _digest(table))],
        "full",
    )
    query(
        statements,
        "lob_read",
        "SELECT DBMS_LOB.GETLENGTH(data) n, DBMS_LOB.INSTR(data, HEXTORAW('00FF00FF')) found FROM {table} WHERE id = :1",
        "N N, FOUND N",
        lambda table, binds: [(len(lob(table, 1)), 0)] if _found(table, binds[0]) else [],
        "lob",
    )
    query(
        statements,
        "lob_fetch",
        "SELECT data FROM {table} WHERE id = :1",
        "DATA BLOB",
        lambda table, binds: [(lob(table, _number(binds[0])),)] if _found(table, binds[0]) else [],
        "lob",
    )
    change(statements, "insert_batch", "INSERT INTO {table} (id, payload) VALUES (:1, :2)", _insert)
    change(
        statements,
        "update_batch",
        "UPDATE {table} SET payload = :1 WHERE id = :2",
        lambda table, call: sum(_found(table, row[1]) for row in call.rows),
    )
    change(statements, "delete_replenish", "DELETE FROM {table} WHERE id = :1", _delete)
