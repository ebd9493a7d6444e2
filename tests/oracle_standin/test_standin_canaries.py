"""Canaries: counters, costs and keys, as the real driver and the views see them."""

import asyncio
import time

import oracledb
import pytest

from tests.oracle_standin import canaries
from tests.oracle_standin.model import User
from tests.oracle_standin.storage import Cost, Table, constant, lognormal, mixed, normal, scripted

STATISTICS = "SELECT n.name, m.value FROM v$mystat m JOIN v$statname n ON n.statistic# = m.statistic#"
TIMES = "SELECT stat_name, value FROM v$sess_time_model WHERE sid = SYS_CONTEXT('USERENV', 'SID')"
SCAN = "SELECT /*+ FULL(t) NO_PARALLEL(t) */ COUNT(*) n, SUM(ORA_HASH(payload)) digest FROM {} t"
LOB = "SELECT DBMS_LOB.GETLENGTH(data) n, DBMS_LOB.INSTR(data, HEXTORAW('00FF00FF')) found FROM {} WHERE id = :1"
POINT = "SELECT id, payload FROM {} WHERE id = :1"
ENCRYPTED, PLAIN = "tde.canary_encrypted", "tde.canary_plain"
DIRECT = 'ALTER SESSION SET "_serial_direct_read" = ALWAYS'


@pytest.fixture
def delta(cursor):
    """What the session's statistics and times grow by while a statement runs once."""

    def counters():
        return dict(cursor.execute(STATISTICS).fetchall()) | dict(cursor.execute(TIMES).fetchall())

    def run(sql, *binds):
        before = counters()
        cursor.execute(sql, binds).fetchall()
        after = counters()
        return {name: after[name] - before[name] for name in after}

    return run


@pytest.mark.parametrize(("table", "decrypted"), [(ENCRYPTED, 256), (PLAIN, 0)])
def test_a_direct_scan_reads_and_decrypts_the_whole_table_each_time(cursor, delta, table, decrypted):
    cursor.execute(DIRECT)
    for _ in range(2):
        grown = delta(SCAN.format(table))
        assert (grown["physical reads direct"], grown["blocks decrypted"]) == (256, decrypted)


def test_a_buffered_scan_decrypts_what_is_not_cached(standin, delta):
    found = []
    for _ in range(2):
        grown = delta(SCAN.format(ENCRYPTED))
        found.append((grown["physical reads cache"], grown["physical reads direct"], grown["blocks decrypted"]))
    assert found == [(256, 0, 256), (0, 0, 0)]
    standin.database.tables[0].age_out()
    assert delta(POINT.format(ENCRYPTED), 1)["blocks decrypted"] == 1


def test_lobs_are_read_directly_each_time(standin, delta):
    for _ in range(2):
        grown = delta(LOB.format(ENCRYPTED), 1)
        assert (grown["physical reads direct (lob)"], grown["blocks decrypted"]) == (128, 128)
    assert standin.database.tablespaces[1].blocks_decrypted == 256
    assert standin.database.system.statistic("blocks decrypted") == 256


def test_twins_answer_alike(cursor):
    for sql, binds in ((SCAN, ()), (LOB, (7,)), (POINT, (7,)), ("SELECT data FROM {} WHERE id = :1", (9,))):
        with oracledb_defaults(fetch_lobs=False):
            answers = [cursor.execute(sql.format(table), binds).fetchall() for table in (ENCRYPTED, PLAIN)]
        assert answers[0] == answers[1]
        assert len(answers[0]) == 1
    assert cursor.execute(POINT.format(PLAIN), (10**6,)).fetchall() == []


class oracledb_defaults:  # noqa: N801
    """The driver's defaults, changed for a while."""

    def __init__(self, **values):
        self._values = values

    def __enter__(self):
        self._before = {name: getattr(oracledb.defaults, name) for name in self._values}
        for name, value in self._values.items():
            setattr(oracledb.defaults, name, value)

    def __exit__(self, *_):
        for name, value in self._before.items():
            setattr(oracledb.defaults, name, value)


def test_encrypted_columns_cost_cpu_by_the_row_and_decrypt_no_blocks(standin, delta):
    columns = Cost(value_cpu=2e-6, value_latency=1e-7)
    standin.database.tables.append(
        Table("TDE", "CANARY_COLUMN", "CANARY_PLAIN", rows=1000, encrypted_columns=3, costs={"*": columns})
    )
    grown = delta(SCAN.format("tde.canary_column"))
    assert (grown["blocks decrypted"], grown["DB CPU"]) == (0, 6000)
    assert grown["physical reads"] == 256


def test_cpu_and_time_are_counted_as_scripted(standin, cursor, delta):
    standin.database.tables[0].costs = {
        "full_scan": Cost(latency=constant(0.001), cpu=scripted(0.010, 0.030), block_cpu=1e-5, block_latency=1e-6)
    }
    cursor.execute(DIRECT)
    grown = [delta(SCAN.format(ENCRYPTED)) for _ in range(3)]
    assert [each["DB CPU"] for each in grown] == [12_560, 32_560, 12_560]
    assert [each["DB time"] for each in grown] == [1256] * 3  # the time model's, in microseconds
    rows = cursor.execute("SELECT sql_id, sql_text, executions, cpu_time, elapsed_time FROM v$sqlstats").fetchall()
    assert [row[2:] for row in rows if row[1] == SCAN.format(ENCRYPTED)] == [(3, 57_680, 3768)]


def test_latency_is_waited_for(standin, cursor):
    standin.database.tables[1].costs = {"point_select": Cost(latency=constant(0.05))}
    began = time.monotonic()
    cursor.execute(POINT.format(PLAIN), [1])
    assert time.monotonic() - began >= 0.05


def test_a_slow_canary_is_broken_off_and_others_go_on(standin):
    standin.database.tables[1].costs = {"full_scan": Cost(latency=constant(60.0))}

    async def talk():
        arguments = {"user": "mon", "password": "secret", "dsn": standin.dsn()}
        async with oracledb.connect_async(**arguments) as one, oracledb.connect_async(**arguments) as other:
            one.call_timeout = 400
            slow = asyncio.create_task(one.fetchone(SCAN.format(PLAIN)))
            assert await other.fetchone(SCAN.format(ENCRYPTED))
            with pytest.raises(oracledb.DatabaseError, match="DPY-4024"):
                await slow
            one.call_timeout = 10_000
            assert await one.fetchone("SELECT 1 FROM dual") == (1,)

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda database: setattr(database.keystores[2], "status", "CLOSED"), "ORA-28365"),
        (lambda database: setattr(database.keystores[2], "status", "OPEN_NO_MASTER_KEY"), "ORA-28361"),
        (lambda database: setattr(database.keys[1], "missing", True), "ORA-28374"),
        (lambda database: database.keystores.clear(), "ORA-28365"),
    ],
)
def test_without_the_key_only_what_is_not_cached_fails(standin, cursor, change, code):
    change(standin.database)
    with pytest.raises(oracledb.DatabaseError) as raised:
        cursor.execute(SCAN.format(ENCRYPTED))
    assert raised.value.args[0].full_code == code
    assert cursor.execute(SCAN.format(PLAIN)).fetchall()
    standin.database.tables[0].cold = 0
    assert cursor.execute(SCAN.format(ENCRYPTED)).fetchall()


def test_writing_encrypts_on_the_instance_and_not_in_the_session(standin, connection, cursor):
    cursor.executemany(f"INSERT INTO {ENCRYPTED} (id, payload) VALUES (:1, :2)", [(n, "x") for n in range(100)])
    connection.commit()
    tablespace, system = standin.database.tablespaces[1], standin.database.system
    assert tablespace.blocks_encrypted == system.statistic("blocks encrypted") > 0
    assert dict(cursor.execute(STATISTICS).fetchall())["blocks encrypted"] == 0


def test_a_table_needs_its_grant(standin, connect):
    standin.database.users["POOR"] = User("secret", grants={"TDE.CANARY_PLAIN"})
    with connect(standin, user="poor").cursor() as cursor:
        assert cursor.execute(POINT.format(PLAIN), [1]).fetchall()
        for table in (ENCRYPTED, "tde.nothing", "canary_plain"):
            with pytest.raises(oracledb.DatabaseError) as raised:
                cursor.execute(POINT.format(table), [1])
            assert raised.value.args[0].full_code == "ORA-00942"


def test_a_canary_of_ones_own(standin, cursor):
    canaries.query(
        standin.statements,
        "mine",
        "SELECT /*+ INDEX(t) */ MAX(id) FROM {table} t WHERE id < :1",
        "N N",
        lambda table, binds: [(min(table.rows, binds[0] - 1),)],
    )
    standin.database.tables[1].costs = {"mine": Cost(cpu=constant(0.5), blocks=12)}
    before = standin.database.system.statistic("physical reads")
    assert cursor.execute(f"select /*+ index(t) */ max(id) from {PLAIN} t where id < :1", [9]).fetchone() == (8,)
    assert standin.database.system.statistic("physical reads") - before == 12
    assert standin.database.system.microseconds("DB CPU") == 500_000


def test_distributions(standin):
    random = standin.database.random
    assert {constant(2.0)(random), scripted(2.0, 3.0)(random)} == {2.0}
    draws = [lognormal(1.0, 0.1)(random) for _ in range(500)]
    assert 0.98 < sorted(draws)[250] < 1.02
    assert min(normal(0.0, 1.0)(random) for _ in range(100)) == 0.0
    seldom = sum(mixed(constant(0.0), constant(1.0), 0.1)(random) for _ in range(1000))
    assert 60 < seldom < 140
