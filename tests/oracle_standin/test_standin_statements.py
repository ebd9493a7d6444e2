"""The table of statements, and the simple queries that need no function."""

import re

import pytest

from tests.oracle_standin import standard
from tests.oracle_standin.counters import Work
from tests.oracle_standin.datatypes import Kind
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.expressions import Environment
from tests.oracle_standin.model import Database, Seat
from tests.oracle_standin.queries import computed, parse
from tests.oracle_standin.statements import Call, UnknownStatement
from tests.oracle_standin.storage import Tablespace
from tests.oracle_standin.tokens import canonical


@pytest.fixture
def database():
    found = Database()
    found.tablespaces += [Tablespace("BIG", 8, 3, size=100), Tablespace("SMALL", 9, 3, size=1)]
    return found


@pytest.fixture
def table():
    return standard.statements()


@pytest.fixture
def ask(database, table):
    """Adds a simple query and asks it."""
    seat = Seat(101, 1, "MON", database.users["MON"], 3)

    def rows(sql, *binds, **functions):
        table.select(sql, **functions)
        statement, _ = table.find(sql)
        return [tuple(row) for row in statement.answer(Call(database, seat, sql, [binds]), table.views).rows]

    return rows


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a from b", "SELECT  A\n\tFROM B -- end"),
        ("select /* x */ a from b", "select a from b"),
        ("select a from b where c='x''y'", "SELECT a FROM b WHERE c = 'x''y'"),
        ('select "A" from sys.b', "select a from SYS.B"),
        ("select :a from b", "select : A from b"),
        ("begin f(:1,:2); end;", "BEGIN\n  f( :1 , :2 ) ;\nEND ;"),
    ],
)
def test_texts_that_are_equal(one, other):
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select /*+ FULL(t) */ a from t", "select a from t"),
        ("select 'a' from b", "select 'A' from b"),
        ('select "a" from b', "select a from b"),
        ("select a from b;", "select a from b"),
        ("select :a from b", "select :b from b"),
        ("select a b from c", "select ab from c"),
    ],
)
def test_texts_that_are_not(one, other):
    assert canonical(one) != canonical(other)


def test_a_text_that_is_not_in_the_table(table):
    for sql in ("", "SELECT 2 FROM dual", "DROP TABLE tde.canary_plain", "SELECT id, payload FROM a, b WHERE id = :1"):
        with pytest.raises(UnknownStatement):
            table.find(sql)


def test_holes_stand_for_names_and_literals(table):
    table.add("DROP TABLE {table}", name="drop")(lambda call: None)
    table.add("SELECT {table}.a FROM {table} WHERE b = {literal}", name="twice")(lambda call: None)

    for sql, names in (
        ("drop table x", {"table": "X"}),
        ('drop table tde."x y"', {"table": 'TDE."x y"'}),
        ("select t.a from t where b = 'it''s'", {"table": "T", "literal": "'it''s'"}),
        ("select t.a from t where b = 1.5", {"table": "T", "literal": "1.5"}),
    ):
        assert table.find(sql)[1] == names
    for sql in (
        "drop table x purge",
        "drop table x, y",
        "select t.a from u where b = 1",
        "select t.a from t where b = c",
    ):
        with pytest.raises(UnknownStatement):
            table.find(sql)


def test_an_entry_replaces_an_older_one(table):
    for name in ("first", "second"):
        table.add("DROP TABLE {table}", name=name)(lambda call: None)
        table.add("COMMIT WORK", name=name)(lambda call: None)

    assert [table.find(sql)[0].name for sql in ("drop table x", "commit work")] == ["second", "second"]


def test_conditions(ask):
    names = "SELECT tablespace_name FROM dba_tablespaces"
    big = [("BIG",)]
    assert ask(f"{names} WHERE tablespace_name = 'BIG'") == big
    assert ask(f"{names} WHERE tablespace_name LIKE '%CANARY%' AND encrypted <> 'YES'") == [("CANARY_PLAIN",)]
    assert ask(f"{names} WHERE tablespace_name IN ('BIG', 'NONE') AND block_size >= 8192") == big
    assert ask(f"{names} WHERE tablespace_name NOT IN ('BIG', 'SMALL') AND encrypted = 'YES'") == [
        ("CANARY_ENCRYPTED",)
    ]
    assert ask(f"{names} WHERE tablespace_name NOT LIKE 'C%' AND LOWER(tablespace_name) <> 'system'") == [
        *big,
        ("SMALL",),
    ]
    assert ask(f"{names} WHERE tablespace_name = :name AND block_size = :size", "BIG", "8192") == big
    assert ask(f"{names} WHERE tablespace_name IS NULL") == []
    assert ask("SELECT name FROM v$tablespace WHERE encrypt_in_backup IS NULL AND ts# > 8") == [("SMALL",)]
    assert ask("SELECT name FROM v$tablespace WHERE encrypt_in_backup <> 'ON'") == []  # NULL is not different


def test_joins_orders_and_limits(ask):
    sql = (
        "SELECT t.name, e.status FROM v$tablespace t LEFT JOIN v$encrypted_tablespaces e"
        " ON e.ts# = t.ts# AND e.con_id = t.con_id ORDER BY t.name DESC FETCH FIRST 4 ROWS ONLY"
    )
    assert ask(sql) == [("SYSTEM", None), ("SMALL", None), ("CANARY_PLAIN", None), ("CANARY_ENCRYPTED", "NORMAL")]
    sql = "SELECT t.name FROM v$tablespace t, v$encrypted_tablespaces e WHERE e.ts# = t.ts# AND e.con_id = t.con_id"
    assert ask(sql) == [("CANARY_ENCRYPTED",)]


def test_aggregates(ask):
    assert ask("SELECT COUNT(*), SUM(blocks), MIN(blocks) FROM dba_data_files") == [(5, 91237, 1)]
    assert ask("SELECT COUNT(*), SUM(blocks) FROM dba_data_files WHERE blocks > 99999") == [(0, None)]
    sql = "SELECT tablespace_name, MAX(bytes) AS most FROM dba_data_files WHERE blocks <= :1 GROUP BY tablespace_name"
    assert ask(sql, 100) == [("BIG", 819200), ("SMALL", 8192)]


def test_what_sql_computes_is_computed_in_python(ask, table, database):
    sql = "SELECT key_id, SYSDATE - CAST(SYS_EXTRACT_UTC(activation_time) AS DATE) AS age FROM v$encryption_keys"
    age = computed(Kind.NUMBER, lambda row: (row.database.now() - row.get("ACTIVATION_TIME")).days)
    assert [row[1] > 100 for row in ask(sql, age=age)] == [True]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT NVL(name, 'x') FROM v$database",
        "SELECT a FROM b WHERE c = 1 OR d = 2",
        "SELECT a FROM b HAVING COUNT(*) > 1",
        "SELECT a + 1 FROM b",
        "DELETE FROM b",
    ],
)
def test_what_is_not_simple_is_refused_when_it_is_added(sql):
    with pytest.raises(ValueError, match=r"stand-in cannot|expected"):
        parse(sql, {})


def test_an_added_statement_checks_what_it_reads(table, database):
    table.add("SELECT a FROM b", spec="A N", reads=["DBA_TABLESPACES"])(lambda call: [(1,)])
    statement, _ = table.find("SELECT a FROM b")
    database.users["MON"].grants = set()
    call = Call(database, Seat(1, 1, "MON", database.users["MON"], 3), "SELECT a FROM b")
    with pytest.raises(OraError, match="ORA-00942"):
        statement.answer(call, table.views)
    database.users["MON"].grants = {"DBA_TABLESPACES"}
    assert list(statement.answer(call, table.views).rows) == [(1,)]


def test_contexts(database):
    seat = Seat(101, 1, "MON", database.users["MON"], 3, service="pdb1")
    row = Environment(database, seat)
    assert [row.context(name) for name in ("SID", "con_name", "DB_UNIQUE_NAME", "NOTHING")] == [
        *("101", "PDB1", "ORCL_A"),
        None,
    ]


def test_counters_of_containers_add_up(database):
    for con_id in (1, 3, 3):
        seat = Seat(101, 1, "MON", database.users["MON"], con_id)
        database.count(seat, "x", Work(elapsed=1.0, decrypted=5))
    assert database.system.statistic("blocks decrypted") == 15
    assert database.by_container[3].statistic("blocks decrypted") == 10
    assert database.system.statistic("DB time") == 300


def test_the_example_in_the_readme_works(root):
    text = (root / "tests" / "oracle_standin" / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
