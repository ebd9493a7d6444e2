"""What `provision` does, as SQL that a DBA reads, changes and runs in SQL*Plus or SQLcl, with the grants of the monitor.

Lines that begin with `--` are comments. Nothing here is a secret, and nothing makes a keystore, a key or a tablespace:
that is for the DBA to decide, who knows what is licensed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from exporter.domain.model import Phase, Slot
from exporter.engines.oracle import heartbeat
from exporter.engines.oracle.settings import Target
from exporter.engines.oracle.statements import Need, Statement, every, is_plain, quoted
from exporter.engines.oracle.twins import CHUNK_ROWS, FILL_LOB, INSERT, MARK, Twins

USER = "<account of the exporter>"


def script(target: Target) -> Iterator[str]:
    """The script for all pairs of a target, line by line."""
    yield from _comments(_head(target))
    yield "WHENEVER SQLERROR EXIT FAILURE"
    yield "SET DEFINE OFF"
    yield ""
    yield from _schema(target)
    for pair in target.pairs:
        yield ""
        yield from _pair(Twins(target.schema_name, pair), _account(target))
    if target.standbys and target.pairs:
        yield ""
        yield from _comments(
            ["The row by which standbys are measured; the account of the exporter writes it each second."]
        )
        space = Twins(target.schema_name, target.pairs[0]).tablespace(Slot.B)
        yield from heartbeat.script(target.schema_name, space, _account(target))
    yield ""
    yield from _grants(target)


def grants() -> dict[str, list[str]]:
    """What the account of the monitor needs, by collector; without what is granted on its own tables."""
    found: dict[str, list[str]] = {"connect": ["CREATE SESSION"]}
    for statement in every().values():
        if Need.LOGIN in statement.needs:
            continue
        wanted = found.setdefault(statement.collector, [])
        wanted += [grant for grant in statement.grants if "{" not in grant and grant not in wanted]
    return {collector: sorted(wanted) for collector, wanted in sorted(found.items()) if wanted}


def _head(target: Target) -> list[str]:
    return [
        f"Twins for tde-exporter on the target '{target.name}'. To be run as a DBA, connected to the container",
        "that shall hold the twins, in SQL*Plus or SQLcl. It stops at the first error, also where a table is there already;",
        "what a broken run left is completed by `tde-exporter provision`, or dropped by `tde-exporter drop`.",
        "",
        "LICENCE: an encrypted tablespace or column is use of Oracle Advanced Security, an option of the Enterprise Edition",
        "that is licensed apart (cloud services include it). The database records that use. Run this only where it is",
        "licensed.",
        "",
        "All of it is replicated to standby databases, which need the master key of the encrypted twin as well.",
    ]


def _schema(target: Target) -> Iterator[str]:
    schema = quoted(target.schema_name)
    spaces = {Twins(target.schema_name, pair).tablespace(slot) for pair in target.pairs for slot in Slot}
    encrypted = {
        pair.encrypted_tablespace
        for pair in target.pairs
        if pair.encryption == "tablespace" and pair.phase is Phase.ENABLED
    }
    yield from _comments(
        [
            "Tablespaces, where they are not there yet. Both with the same block size and on the same storage.",
            *(
                f"CREATE TABLESPACE {quoted(space)} DATAFILE SIZE 1G AUTOEXTEND ON MAXSIZE 8G"
                + (" ENCRYPTION USING 'AES256' ENCRYPT;" if space in encrypted else ";")
                for space in sorted(spaces)
            ),
            "",
            "The schema that owns the twins; nobody can log in to it. Before release 18: IDENTIFIED BY <password> ACCOUNT LOCK.",
        ]
    )
    yield f"CREATE USER {schema} NO AUTHENTICATION;"
    for space in sorted(spaces):
        yield f"ALTER USER {schema} QUOTA UNLIMITED ON {quoted(space)};"


def _pair(twins: Twins, account: str) -> Iterator[str]:
    pair = twins.pair
    yield from _comments([f"The pair '{pair.name}': {twins.rows} rows in each twin, phase '{pair.phase}'."])
    for slot in Slot:
        yield f"{twins.create(slot).sql};"
        yield f"{MARK[False].on(table=twins.table(slot)).sql};"
    chunks = -(-twins.rows // CHUNK_ROWS)
    first, last = f"chunk * {CHUNK_ROWS} + 1", f"LEAST({CHUNK_ROWS}, {twins.rows} - chunk * {CHUNK_ROWS})"
    yield "BEGIN"
    yield f"  FOR chunk IN 0 .. {chunks - 1} LOOP"
    for slot in Slot:
        yield f"    {_with(INSERT.on(table=twins.table(slot)), first, last)};"
        yield "    COMMIT;"
    yield "  END LOOP;"
    yield f"  FOR lob IN 1 .. {twins.lobs} LOOP"
    for slot in Slot:
        yield f"    {_with(FILL_LOB.on(table=twins.table(slot)), 'lob', str(twins.pieces), 'lob')}"
        yield "    COMMIT;"
    yield "  END LOOP;"
    for slot in Slot:
        yield f"  DBMS_STATS.GATHER_TABLE_STATS('{twins.schema}', '{twins.name(slot)}');"
    yield "END;"
    yield "/"
    for slot in Slot:
        yield f"{MARK[True].on(table=twins.table(slot)).sql};"
        yield f"GRANT READ ON {quoted(twins.table(slot))} TO {account};"


def _grants(target: Target) -> Iterator[str]:
    account = _account(target)
    yield from _comments(
        [
            "What the account of the exporter needs. Without one of these grants only what it is for is missing, and the",
            "exporter says which grant that is. A common account (C##...) gets them in the root, with CONTAINER=ALL, and",
            "sees all containers after ALTER USER ... SET CONTAINER_DATA=ALL CONTAINER=CURRENT.",
        ]
    )
    yield "WHENEVER SQLERROR CONTINUE"
    for collector, wanted in grants().items():
        yield from _comments([collector])
        for grant in wanted:
            yield f"GRANT {grant} TO {account};"


def _with(statement: Statement, *values: str) -> str:
    """The text with expressions in place of its values."""
    return re.sub(r":(\d+)\b", lambda match: values[int(match[1]) - 1], statement.sql)


def _account(target: Target) -> str:
    """A name of unusual characters is left for the DBA to write."""
    name = (target.reader or target.user).upper()
    return quoted(name) if is_plain(name) else USER


def _comments(lines: Iterable[str]) -> Iterator[str]:
    return (f"-- {line}".rstrip() for line in lines)
