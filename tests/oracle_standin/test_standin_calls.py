"""Calls with the real driver: queries, bind variables, DML, PL/SQL, transactions, errors."""

import asyncio

import oracledb
import pytest

from tests.oracle_standin.profiles import PROFILES
from tests.oracle_standin.statements import Answer
from tests.processes import until

POINT = "SELECT id, payload FROM tde.canary_plain WHERE id = :1"
INSERT = "INSERT INTO tde.canary_plain (id, payload) VALUES (:1, :2)"


def error_of(raised):
    return raised.value.args[0]


@pytest.fixture
def many_rows(standin):
    rows = [(number, f"{number:>3000}") for number in range(250)]
    standin.statements.add("SELECT n, t FROM many", spec="N N, T V4000")(lambda call: rows)
    return rows


@pytest.mark.parametrize("version", sorted(PROFILES))
@pytest.mark.parametrize("arraysize", [1, 7, 100, 1000])
def test_many_rows_come_in_many_packets(make_standin, connect, version, arraysize):
    server = make_standin(version)
    rows = [(number, f"{number:>3000}") for number in range(120)]
    server.statements.add("SELECT n, t FROM many", spec="N N, T V4000")(lambda call: rows)
    with connect(server).cursor() as cursor:
        cursor.arraysize = arraysize
        assert cursor.execute("SELECT n, t FROM many").fetchall() == rows
        assert cursor.execute("SELECT n, t FROM many").fetchall() == rows


@pytest.mark.parametrize("prefetch", [0, 1, 500])
def test_rows_may_be_prefetched_or_not(cursor, many_rows, prefetch):
    cursor.prefetchrows = prefetch
    for _ in range(2):
        assert cursor.execute("SELECT n, t FROM many").fetchmany(3) == many_rows[:3]


def test_an_empty_result(standin, cursor):
    assert cursor.execute("SELECT name, value FROM v$parameter WHERE name = :1", ["nothing"]).fetchall() == []


def test_a_statement_is_known_whatever_its_spaces_comments_and_case(cursor):
    texts = ("select 1 from dual", "SELECT  1\n FROM dual -- all", "/* tde-exporter */ SELECT 1 FROM DUAL")
    assert [cursor.execute(text).fetchone() for text in texts] == [(1,)] * 3


def test_binds_by_position_and_by_name(standin, connection, cursor):
    standin.statements.add("SELECT :a, :b, :a FROM dual", spec="A N, B V9, C N")(lambda call: [call.binds])

    with connection.cursor() as other:
        assert other.execute("SELECT :a, :b, :a FROM dual", {"a": 1, "b": "x"}).fetchone() == (1, "x", 1)
    assert cursor.execute("SELECT :a, :b, :a FROM dual", [1, "x", 2]).fetchone() == (1, "x", 2)


def test_binds_that_change_their_type(standin, cursor):
    standin.statements.add("SELECT :1 FROM dual", spec="A V99")(lambda call: [[repr(call.binds[0])]])

    found = [cursor.execute("SELECT :1 FROM dual", [value]).fetchone()[0] for value in (1, "one", None, 2, "y" * 500)]

    assert found == ["1", "'one'", "None", "2", repr("y" * 500)]


def test_an_unknown_statement_is_an_error_and_is_remembered(standin, cursor):
    with pytest.raises(oracledb.DatabaseError, match="does not know") as raised:
        cursor.execute("SELECT * FROM v$active_session_history")

    assert error_of(raised).full_code == "ORA-00900"
    assert standin.unknown == ["SELECT * FROM v$active_session_history"]
    assert cursor.execute("SELECT 1 FROM dual").fetchone() == (1,)
    assert [each.sql for each in standin.executed][-1] == "SELECT 1 FROM dual"


@pytest.mark.parametrize("version", sorted(PROFILES))
def test_errors_have_a_position(make_standin, connect, version):
    server = make_standin(version)
    server.statements.select("SELECT nonsense FROM v$database")
    server.statements.select("SELECT name FROM v$nothing")
    for sql, code, word in (
        ("SELECT nonsense FROM v$database", "ORA-00904", "nonsense"),
        ("SELECT name FROM v$nothing", "ORA-00942", "v$nothing"),
    ):
        with pytest.raises(oracledb.DatabaseError) as raised, connect(server).cursor() as cursor:
            cursor.execute(sql)
        assert (error_of(raised).full_code, error_of(raised).offset) == (code, sql.index(word))


def test_dml_counts_rows_and_opens_a_transaction(standin, connection, cursor):
    cursor.execute(INSERT, [1, "x"])
    assert (cursor.rowcount, connection.transaction_in_progress) == (1, True)
    connection.commit()
    assert not connection.transaction_in_progress
    cursor.executemany(INSERT, [(number, str(number)) for number in range(500)])
    assert cursor.rowcount == 500
    connection.rollback()
    cursor.execute("UPDATE tde.canary_plain SET payload = :1 WHERE id = :2", ["x", 10**6])
    assert (cursor.rowcount, connection.transaction_in_progress) == (0, False)
    for _ in range(2):
        cursor.execute("DELETE FROM tde.canary_plain WHERE id = :1", [5])
        assert cursor.rowcount == 1
    assert standin.database.tables[1].inserted == 499


def test_autocommit(connection, cursor):
    connection.autocommit = True
    for number in range(3):
        cursor.execute(INSERT, [number, "x"])
        assert not connection.transaction_in_progress


def test_closing_with_an_open_transaction_rolls_back(standin, connection, cursor):
    cursor.execute(INSERT, [1, "x"])
    connection.close()
    until(lambda: standin.connections == 0, "the session to end")


def test_a_database_that_is_read_only_takes_no_changes(standin, cursor):
    standin.database.become("PHYSICAL STANDBY", "READ ONLY WITH APPLY")
    assert cursor.execute(POINT, [1]).fetchone()[0] == 1
    with pytest.raises(oracledb.DatabaseError) as raised:
        cursor.execute(INSERT, [1, "x"])
    assert error_of(raised).full_code == "ORA-16000"


def test_ddl_commits(standin, connection, cursor):
    standin.statements.add("CREATE TABLE {table} (id NUMBER)")(lambda call: Answer(commits=True))
    cursor.execute(INSERT, [1, "x"])
    for _ in range(2):
        cursor.execute("CREATE TABLE tde.new (id NUMBER)")
    assert not connection.transaction_in_progress


def test_plsql_with_values_in_and_out(standin, cursor):
    module, action = cursor.var(str), cursor.var(str)
    for word in ("first", "second"):
        cursor.execute("BEGIN DBMS_APPLICATION_INFO.SET_MODULE(:1, :2); END;", ["tde-exporter", word])
        cursor.execute("BEGIN DBMS_APPLICATION_INFO.READ_MODULE(:1, :2); END;", [module, action])
        assert (module.getvalue(), action.getvalue()) == ("tde-exporter", word)
    (seat,) = standin.database.seats.values()
    assert (seat.module, seat.action) == ("tde-exporter", "second")


def test_plsql_with_numbers_out(standin, cursor):
    standin.statements.add("BEGIN :n := measure(:m); END;")(lambda call: Answer(outs={0: call.binds[1] * 2}))
    result = cursor.var(int)
    for number in (21, 22):
        cursor.execute("BEGIN :n := measure(:m); END;", {"n": result, "m": number})
        assert result.getvalue() == number * 2


def test_settings_of_a_session(standin, connection, cursor):
    cursor.execute("ALTER SESSION SET NLS_NUMERIC_CHARACTERS = '.,'")
    cursor.execute('ALTER SESSION SET "_serial_direct_read" = always')
    cursor.execute("ALTER SESSION SET TIME_ZONE = '+00:00'")
    (seat,) = standin.database.seats.values()
    assert seat.settings == {"NLS_NUMERIC_CHARACTERS": ".,", "_SERIAL_DIRECT_READ": "ALWAYS", "TIME_ZONE": "+00:00"}
    with pytest.raises(oracledb.DatabaseError, match="does not know"):
        cursor.execute("ALTER SESSION SET SQL_TRACE = TRUE")
    connection.current_schema = "tde"
    connection.ping()
    assert seat.settings["CURRENT_SCHEMA"] == "TDE"


def test_another_container(connect, standin):
    with connect(standin, service="orcl").cursor() as cursor:
        cursor.execute("ALTER SESSION SET CONTAINER = pdb1")
        assert [row[1] for row in cursor.execute("SELECT con_id, name, open_mode, restricted FROM v$pdbs")] == ["PDB1"]
        with pytest.raises(oracledb.DatabaseError) as raised:
            cursor.execute("ALTER SESSION SET CONTAINER = nowhere")
        assert error_of(raised).full_code == "ORA-65011"


def test_cursors_are_closed_that_the_driver_forgets(standin, connect):
    connection = connect(standin, stmtcachesize=3)
    standin.statements.add("SELECT {table} FROM dual", spec="A N")(lambda call: [(1,)])
    with connection.cursor() as cursor:
        for number in range(400):
            assert cursor.execute(f"SELECT c{number} FROM dual").fetchone() == (1,)
    sessions = standin._alive()
    assert [len(each._cursors) < 10 for each in sessions] == [True]


def test_two_cursors_take_turns(connection, many_rows):
    with connection.cursor() as first, connection.cursor() as second:
        first.arraysize = second.arraysize = 5
        first.execute("SELECT n, t FROM many")
        second.execute("SELECT n, t FROM many")
        pairs = [(first.fetchone(), second.fetchone()) for _ in range(50)]
    assert pairs == [(row, row) for row in many_rows[:50]]


def test_a_function_of_a_test_that_fails_is_an_error_there_and_here(make_standin, connect):
    server = make_standin()
    server.statements.add("SELECT broken FROM dual", spec="A N")(lambda call: 1 // 0)
    with pytest.raises(oracledb.DatabaseError, match="ZeroDivisionError"), connect(server).cursor() as cursor:
        cursor.execute("SELECT broken FROM dual")
    until(lambda: server.connections == 0, "the session to end")
    with pytest.raises(ZeroDivisionError):
        server.close()


def test_asyncio_does_the_same(standin):
    async def talk():
        async with oracledb.connect_async(user="mon", password="secret", dsn=standin.dsn()) as connection:
            connection.call_timeout = 10_000
            connection.module = "tde-exporter"
            with connection.cursor() as cursor:
                await cursor.executemany(INSERT, [(1, "a"), (2, "b")])
                assert cursor.rowcount == 2
                await connection.commit()
                with pytest.raises(oracledb.DatabaseError, match="ORA-00900"):
                    await cursor.execute("SELECT 2 FROM dual")
                await cursor.execute("SELECT data FROM tde.canary_plain WHERE id = :1", [1])
                ((lob,),) = await cursor.fetchall()
                assert len(await lob.read()) == await lob.size()
                rows = await connection.fetchall("SELECT name, value FROM v$sysstat", arraysize=3)
            assert len(rows) > 10
            assert [each.module for each in standin.database.seats.values()] == ["tde-exporter"]

    asyncio.run(talk())
