"""What `provision` does, as SQL that a DBA reads, changes and runs, with what the monitor would like beyond it.

Lines that begin with `--` are comments; of the others, those that end in `;` end a statement. Nothing here is a secret: the password of the account is for the DBA to choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from exporter.config.schema import BudgetSettings
from exporter.domain.model import Slot
from exporter.engines._mysql_protocol.settings import MySqlProtocolTarget, TwinPair
from exporter.engines._mysql_protocol.twins import CHUNK_ROWS, Ddl, Twins, create_heartbeat, insert, quoted

PASSWORD = "<password>"
HOST = "<host of the exporter>"
_SESSIONS_FOR_ONE = 2
"""The account may have twice the sessions that the exporter allows itself: the server may not have missed lost ones yet."""


def script(target: MySqlProtocolTarget, pairs: tuple[TwinPair, ...], ddl: Ddl, client: str) -> Iterator[str]:
    """The script for all pairs of a target, line by line. `client` is the program that runs it."""
    schema = target.schema_name
    yield from _comments(_head(target, client))
    yield f"CREATE DATABASE IF NOT EXISTS {quoted(schema)};"
    for pair in pairs:
        yield ""
        yield from _pair(Twins(schema, pair, ddl))
    yield ""
    yield from _comments(["The row by which the lag of standbys is seen."])
    yield from f"{create_heartbeat(schema, ddl)};".splitlines()
    yield ""
    yield from _comments(_account(target, ddl))
    yield ""
    yield from _comments(["What follows is for the DBA to decide; the exporter never changes a global variable.", ""])
    yield from _comments(ddl.advice())


def _head(target: MySqlProtocolTarget, client: str) -> list[str]:
    return [
        f"Twins for tde-exporter on the target '{target.name}'. To be run as a DBA, with:",
        f"  {client} --user=... < this file",
        "It stops at the first error, also where a table is there already. Rows are loaded in short transactions; what a",
        "broken run left is completed by `tde-exporter provision`, or dropped by `tde-exporter drop`.",
        "All of it is replicated. A replica that has no key of its own for the encrypted twin stops replicating, so see to",
        "the keys of all replicas first.",
    ]


def _pair(twins: Twins) -> Iterator[str]:
    yield from _comments([f"The pair '{twins.pair.name}': {twins.rows} rows in each twin, phase '{twins.pair.phase}'."])
    for slot in Slot:
        yield from f"{twins.create(slot)};".splitlines()
        yield f"SET @load = {_literal(insert(twins.table(slot), '?', '?'))};"
        yield f"PREPARE load_{slot} FROM @load;"
    for first in range(1, twins.rows + 1, CHUNK_ROWS):
        yield f"SET @first = {first}, @last = {min(first + CHUNK_ROWS - 1, twins.rows)};"
        for slot in Slot:
            yield f"EXECUTE load_{slot} USING @first, @last;"
    for slot in Slot:
        yield f"DEALLOCATE PREPARE load_{slot};"
        yield f"ANALYZE TABLE {twins.table(slot)};"
        yield f"{twins.mark(slot, complete=True)};"


def _account(target: MySqlProtocolTarget, ddl: Ddl) -> list[str]:
    account = f"{_literal(_printable(target.user))}@'{HOST}'"
    sessions = _SESSIONS_FOR_ONE * (target.budgets or BudgetSettings()).sessions
    return [
        "The account of the exporter. Choose a password and a host, and take the marks of comment away:",
        f"CREATE USER {account} IDENTIFIED BY '{PASSWORD}' WITH MAX_USER_CONNECTIONS {sessions};",
        *(f"GRANT {grant} TO {account};" for grant in ddl.grants(target.schema_name)),
        "Without one of these grants only what it is for is missing, and the exporter says which grant that is.",
    ]


def _comments(lines: Iterator[str] | list[str] | tuple[str, ...]) -> Iterator[str]:
    return (f"-- {line}".rstrip() for line in lines)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _printable(user: str) -> str:
    """A name of unusual characters is left for the DBA to write: what they mean in SQL depends on the server's settings."""
    return user if re.fullmatch(r"[\w.@+-]+", user) else "<user>"
