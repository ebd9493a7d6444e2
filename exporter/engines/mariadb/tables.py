"""What MariaDB's own views say about the encryption of single tables, and what it means that one cannot be read."""

from __future__ import annotations

from typing import Any

from exporter.domain.errors import KeystoreFailed, QueryFailed, TargetError
from exporter.engines._mysql_protocol.inventory import (
    Questions,
    Rows,
    Source,
    TableEncryption,
    file_name,
    is_safe,
    names_condition,
    of_table,
)
from exporter.engines.mariadb.keys import NO_SUCH_KEY, PLUGIN, Plugin

PROCESS = "PROCESS ON *.*"
ALGORITHM = "file_key_management_encryption_algorithm"


def algorithm_of(variables: dict[str, str]) -> str:
    """Such as AES-CTR; empty where the plugin has no variable that tells it."""
    return variables.get(ALGORITHM, "").upper().replace("_", "-")


def table_encryption(
    connection: Source, schema: str, tables: tuple[str, ...], timeout: float
) -> dict[str, TableEncryption]:
    """What is known of some tables of one schema, by name. Cheap enough for once a minute: 2 ms with 2000 tables.

    Without PROCESS only a table that was made with an ENCRYPTED option can be told. Raises only what means that the
    server cannot be asked (see `Questions.ask`).
    """
    if not tables:
        return {}
    asked = Questions(connection, timeout, "reading the encryption of tables")
    return _look(asked, schema, tables, first_use=True)


def _look(asked: Questions, schema: str, tables: tuple[str, ...], first_use: bool) -> dict[str, TableEncryption]:
    spaces = _tablespaces_of(asked, schema, tables)
    algorithm = algorithm_of(asked.variables([ALGORITHM]))
    columns = (
        "name, space, encryption_scheme, min_key_version, current_key_version, current_key_id, rotating_or_flushing,"
        " @@lower_case_table_names"
    )
    where, values = names_condition("name", list(spaces.values()))
    listed = asked.ask(
        f"SELECT {columns} FROM information_schema.innodb_tablespaces_encryption WHERE {where}",
        values,
        what="the encryption of single tables, but for those made with an ENCRYPTED option",
        grant=PROCESS,
    )
    if listed is None:
        return _by_options(asked, schema, tables, algorithm)
    found = {table: _of_rows(listed, space, algorithm) for table, space in spaces.items()}
    unlisted = {table: spaces[table] for table, state in found.items() if state is None}
    rest = _not_listed(asked, unlisted) if unlisted else {}
    if first_use and any(state is _UNOPENED for state in rest.values()):
        # Without a plugin the server opens a tablespace, and lists it, when its table is first used.
        for table in (table for table, state in rest.items() if state is _UNOPENED):
            quoted = ".".join("`" + part.replace("`", "``") + "`" for part in (schema, table))
            asked.ask(f"SELECT 1 FROM {quoted} LIMIT 0")
        return _look(asked, schema, tables, first_use=False)
    return {table: state or rest[table] for table, state in found.items()}


def _tablespaces_of(asked: Questions, schema: str, tables: tuple[str, ...]) -> dict[str, str]:
    """The names of tablespaces, `schema/table`, by table; the server itself spells what is not plain ASCII."""
    spelled = {name: file_name(name) for name in (schema, *tables)}
    for name in spelled:
        if not is_safe(name):
            rows = asked.ask("SELECT CAST(CONVERT(%s USING filename) AS BINARY)", (name,))
            if rows:
                spelled[name] = bytes(rows[0][0]).decode("ascii")
    return {table: f"{spelled[schema]}/{spelled[table]}" for table in tables}


def _of_rows(listed: Rows, tablespace: str, algorithm: str) -> TableEncryption | None:
    """A table by its rows of INNODB_TABLESPACES_ENCRYPTION, one for each partition; None where there is none."""
    names = of_table((row[0] for row in listed), tablespace, any(row[7] for row in listed))
    rows = [row for row in listed if row[0] in names]
    if not rows:
        return None
    identity = "space " + " ".join(str(space) for space in sorted(row[1] for row in rows))
    states = {_of_space(row[2], row[3], row[4], row[6]) for row in rows}
    if len(states) > 1 or None in states:
        why = "it is being encrypted or decrypted" if None in states else "only some of its partitions are encrypted"
        return TableEncryption(None, "", identity, why)
    if not states.pop():
        return TableEncryption(False, "", identity)
    lost = sorted({row[5] for row in rows if row[4] == NO_SUCH_KEY})
    problem = f"the server does not have the key with the id {', '.join(map(str, lost))}" if lost else ""
    return TableEncryption(True, algorithm, identity, problem)


def _of_space(scheme: int, least: int, newest: int, moving: int) -> bool | None:
    """Whether a tablespace is encrypted; None when it is half-way. One that is given a new key is encrypted."""
    if least > 0:
        return None if moving and least >= newest else True
    return None if moving or scheme else False


def _not_listed(asked: Questions, spaces: dict[str, str]) -> dict[str, TableEncryption]:
    """Tables that encryption never touched, that cannot be opened, or that are not there."""
    where, values = names_condition("name", list(spaces.values()))
    views = ("innodb_sys_tablespaces", "innodb_sys_tables")
    rows = [
        asked.ask(
            f"SELECT name, space, @@lower_case_table_names FROM information_schema.{view} WHERE {where}",
            values,
            what="the encryption of single tables",
            grant=PROCESS,
        )
        for view in views
    ]
    return {table: _unlisted(space, rows[0], rows[1]) for table, space in spaces.items()}


_UNOPENED = TableEncryption(None, problem="the server has not opened its file: its key or the file is missing")


def _unlisted(tablespace: str, present: Rows | None, known: Rows | None) -> TableEncryption:
    def numbers(rows: Rows) -> list[int]:
        names = of_table((row[0] for row in rows), tablespace, any(row[2] for row in rows))
        return sorted(row[1] for row in rows if row[0] in names)

    if present is None or known is None:
        return TableEncryption(None, problem="the server does not show its tablespaces")
    spaces = numbers(known)
    identity = "space " + " ".join(map(str, spaces)) if spaces else ""
    if set(numbers(present)) >= set(spaces) and (spaces or numbers(present)):
        return TableEncryption(False, "", identity)
    if spaces == [0]:
        return TableEncryption(None, "", identity, "it lies in the system tablespace")
    if spaces:
        return _UNOPENED
    return TableEncryption(None, problem="InnoDB has no such table")


def _by_options(asked: Questions, schema: str, tables: tuple[str, ...], algorithm: str) -> dict[str, TableEncryption]:
    """By the options that a table was made with; only ENCRYPTED=YES and ENCRYPTED=NO prove something."""
    marks = ", ".join(["%s"] * len(tables))
    rows = asked.ask(
        "SELECT table_name, create_options, create_time FROM information_schema.tables"
        f" WHERE table_schema = %s AND table_name IN ({marks})",
        (schema, *tables),
    )
    by_name = {row[0]: row[1:] for row in rows or ()}
    return {table: _of_options(by_name.get(table), algorithm) for table in tables}


def _of_options(found: tuple[Any, ...] | None, algorithm: str) -> TableEncryption:
    options, made = found or (None, None)
    identity = f"made {made}" if made else ""
    said = str(options or "").lower().replace("'", "").replace("`", "")
    if "encrypted=yes" in said:
        return TableEncryption(True, algorithm, identity)
    if "encrypted=no" in said:
        return TableEncryption(False, "", identity)
    return TableEncryption(None, "", identity, f"the server does not say; it takes GRANT {PROCESS}")


def keystore_failure(connection: Source, schema: str, table: str, timeout: float) -> TargetError:
    """What an error 1877 on a table means, in words that are true: to be raised in its place.

    KeystoreFailed, but QueryFailed for a table that is not encrypted. Raises what means that the server cannot be asked.
    """
    name = f"the table {schema}.{table}"
    asked = Questions(connection, timeout, "asking for the key")
    rows = asked.ask(PLUGIN)
    plugin = Plugin.of_rows(rows)
    state = table_encryption(connection, schema, (table,), asked.left)[table]
    if state.encrypted is False:
        return QueryFailed(f"{name} cannot be read although it is not encrypted: its file is missing or damaged")
    cannot = f"{name} cannot be decrypted"
    if rows is not None and plugin is None:
        return KeystoreFailed(f"{cannot}: no encryption plugin is loaded, or it found no keys when the server started")
    if plugin is not None and not plugin.active:
        return KeystoreFailed(f"{cannot}: the plugin {plugin.name} is {plugin.status.lower()}")
    holder = f"the plugin {plugin.name}" if plugin else "the server"
    if state.problem and state.encrypted:
        return KeystoreFailed(f"{cannot}: {state.problem} ({holder})")
    if state.encrypted:
        return KeystoreFailed(
            f"{cannot}: the key that {holder} holds does not open it (another key, or another algorithm); or it is damaged"
        )
    return KeystoreFailed(f"{cannot}: {state.problem or 'its key is missing or wrong'}")
