"""The script for a DBA, run as a client would."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from exporter.config.schema import BudgetSettings
from exporter.config.secrets import SecretSource
from exporter.domain.model import Slot
from exporter.engines._mysql_protocol.script import HOST, PASSWORD, script
from exporter.engines._mysql_protocol.settings import MySqlProtocolTarget
from exporter.engines.mariadb.settings import Pair as MariaDbPair
from exporter.engines.mariadb.settings import Target as MariaDbTarget
from exporter.engines.mysql.settings import Target as MySqlTarget
from tests.engines.mysql_protocol.twins_at_hand import SCHEMA, make, session, twins_on, verify
from tests.servers.mariadb import MariaDbServer
from tests.servers.server import Server

SECRET = "Aschenputtel-12"


def _target(server: Server, **more: Any) -> MySqlProtocolTarget:
    kind = MariaDbTarget if isinstance(server, MariaDbServer) else MySqlTarget
    pairs = [{"name": "main", "rows": 12_000}, {"name": "second", "rows": 1_000, "phase": "aa"}]
    return kind(**{"name": "unit", "engine": kind.model_fields["engine"].default, "pairs": pairs} | more)


def _script(server: Server, target: MySqlProtocolTarget) -> list[str]:
    return list(script(target, target.pairs, twins_on(server).ddl, "client"))  # type: ignore[arg-type]


def _statements(lines: Iterable[str]) -> list[str]:
    """As the clients split them: a statement ends with a line that ends in `;`."""
    found, open_lines = [], []
    for line in lines:
        if not line.startswith("--") and line:
            open_lines.append(line)
            if line.endswith(";"):
                found.append("\n".join(open_lines)[:-1])
                open_lines = []
    assert open_lines == []
    return found


def _run(server: Server, statements: Iterable[str]) -> None:
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                cursor.fetchall()
    finally:
        connection.close()


def test_what_a_dba_ran_is_accepted(database: Server) -> None:
    _run(database, _statements(_script(database, _target(database))))
    connection = session(database)
    main, second = twins_on(database, rows=12_000), twins_on(database, rows=1_000, name="second", phase="aa")
    for twins in (main, second):
        facts = verify(connection, twins)
        assert facts.valid, facts.problem
        # Nothing is left to do.
        assert make(connection, twins).made == ()
    # And the rows are those that `provision` makes.
    again = twins_on(database, rows=12_000, name="again")
    make(connection, again)
    sums = [
        database.value(f"SELECT SUM(CRC32(CONCAT(id, area, name, pad))) FROM {twins.table(slot)}")
        for twins in (main, again)
        for slot in Slot
    ]
    assert len(set(sums)) == 1
    connection.close()


def test_the_account_can_do_what_it_is_for(database: Server) -> None:
    lines = _script(database, _target(database))
    _run(database, _statements(lines))
    account = [line.removeprefix("-- ") for line in lines if re.match(r"-- (CREATE USER|GRANT) ", line)]
    assert [line.split()[0] for line in account] == ["CREATE", *["GRANT"] * (len(account) - 1)]
    assert len(account) == 1 + len(twins_on(database).ddl.grants(SCHEMA))
    filled = [line.replace(PASSWORD, SECRET).replace(HOST, "%")[:-1] for line in account]
    _run(database, filled)
    connection = session(database, "tde_exporter", SECRET)
    facts = verify(connection, twins_on(database, rows=12_000))
    assert facts.valid, facts.problem
    insert = f"INSERT INTO {SCHEMA}.heartbeat (id, seq, beat) VALUES (1, 1, UTC_TIMESTAMP(6))"
    assert connection.execute(insert, timeout=5) == 1
    assert connection.execute(f"UPDATE {SCHEMA}.heartbeat SET seq = 2 WHERE id = 1", timeout=5) == 1
    # And nothing else.
    for statement in (
        f"DELETE FROM {SCHEMA}.main_plain",
        f"UPDATE {SCHEMA}.main_plain SET area = 1",
        f"DROP TABLE {SCHEMA}.main_plain",
        f"CREATE TABLE {SCHEMA}.x (id INT)",
        "SELECT * FROM mysql.user",
        "SET GLOBAL max_connections = 10",
    ):
        with pytest.raises(Exception, match=r"missing|denied"):
            connection.execute(statement, timeout=5)
    connection.close()


def test_it_holds_no_secret_and_changes_no_setting(database: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIT_PASSWORD", SECRET)
    target = _target(database, password=SecretSource(env="UNIT_PASSWORD"), budgets=BudgetSettings(sessions=7))
    lines = _script(database, target)
    text = "\n".join(lines)
    assert SECRET not in text
    assert f"IDENTIFIED BY '{PASSWORD}' WITH MAX_USER_CONNECTIONS 14;" in text
    statements = _statements(lines)
    assert not [statement for statement in statements if re.search(r"GLOBAL|setup_consumers|GRANT|USER", statement)]
    # What would make more counters available is there to read, with its price.
    assert re.search(r"-- .*(userstat = ON|events_statements_cpu)", text)
    assert "microseconds" in text
    assert not [line for line in lines if len(line) > 130 and line.startswith("--")]


def test_a_table_that_is_there_stops_it(database: Server) -> None:
    database.query(f"CREATE DATABASE {SCHEMA}")
    database.query(f"CREATE TABLE {SCHEMA}.main_encrypted (id INT PRIMARY KEY) COMMENT 'salaries'")
    with pytest.raises(Exception, match="already exists"):
        _run(database, _statements(_script(database, _target(database))))
    assert database.value(f"SELECT COUNT(*) FROM {SCHEMA}.main_encrypted") == 0


def test_a_strange_user_is_left_for_the_dba(mariadb: Server) -> None:
    text = "\n".join(_script(mariadb, _target(mariadb, user="o'neill; DROP TABLE x")))
    assert "DROP TABLE" not in text
    assert "'<user>'@" in text


def test_a_large_pair_is_written_line_by_line(mariadb: Server) -> None:
    target = MariaDbTarget(name="unit", pairs=(MariaDbPair(name="huge", rows=3_500_000_000),))
    lines = script(target, target.pairs, twins_on(mariadb).ddl, "mariadb")
    first = [next(lines) for _ in range(1_000)]
    assert any(line.startswith("SET @first = 10001, @last = 20000;") for line in first)
