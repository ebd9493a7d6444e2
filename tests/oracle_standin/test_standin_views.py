"""Views by release, grants, containers and open mode; the model shows through them."""

import datetime

import oracledb
import pytest

from tests.oracle_standin import standard
from tests.oracle_standin.data_guard import ArchivedLog, Destination, Process
from tests.oracle_standin.keys import Keystore, MasterKey
from tests.oracle_standin.model import PDB, ROOT, Container, User
from tests.oracle_standin.profiles import PROFILES
from tests.oracle_standin.storage import DependentObject, EncryptedColumn

LONG_AGO, FAR_AHEAD = datetime.datetime(2026, 1, 1), datetime.datetime(2999, 1, 1)  # noqa: DTZ001 - as Oracle's DATE
WALLET = "SELECT con_id, wrl_type, status, wallet_type, wallet_order, fully_backed_up FROM v$encryption_wallet"
TABLESPACES = "SELECT tablespace_name, block_size, contents, status, encrypted FROM dba_tablespaces"
LAGS = "SELECT name, value, unit, time_computed, datum_time FROM v$dataguard_stats"
NOT_IN = {
    "12.2": {"keystore_mode", "version_full", "masterkey_activated"},
    "19": {"masterkey_activated"},
    "21": set(),
    "23ai": set(),
}


def code_of(raised):
    return raised.value.args[0].full_code


@pytest.fixture
def ask(standin, connect):
    """Asks as MON in the root, or as told: `ask(sql, service="pdb1")`."""

    def rows(sql, *binds, **options):
        with connect(standin, **{"service": "orcl", **options}).cursor() as cursor:
            return cursor.execute(sql, binds).fetchall()

    return rows


@pytest.mark.parametrize("version", sorted(PROFILES))
def test_each_release_has_its_columns(make_standin, connect, version):
    server = make_standin(version)
    with connect(server).cursor() as cursor:
        for sql in standard.SELECTS:
            binds = [1] * sql.count(":") if "first_time" not in sql else [LONG_AGO]
            missing = [column for column in NOT_IN[version] if column in sql]
            if missing:
                with pytest.raises(oracledb.DatabaseError) as raised:
                    cursor.execute(sql, binds)
                assert (code_of(raised), raised.value.args[0].offset) == ("ORA-00904", sql.index(missing[0]))
            else:
                cursor.execute(sql, binds).fetchall()
                assert cursor.description
    assert server.unknown == []


def test_every_view_can_be_read_with_all_its_columns(standin, connect):
    views = standin.statements.views
    with connect(standin).cursor() as cursor:
        for name in views.names():
            columns = ", ".join(views.get(name).columns_of(standin.database.profile.release))
            standin.statements.select(f"SELECT {columns} FROM {name}")
            rows = cursor.execute(f"SELECT {columns} FROM {name}").fetchall()
            assert all(len(row) == len(cursor.description) for row in rows)
    assert len(views.names()) > 50


@pytest.mark.parametrize("grants", [set(), {"V_$DATABASE"}])
def test_a_missing_grant_hides_a_view(standin, ask, grants):
    standin.database.users["POOR"] = User("secret", grants=grants)
    with pytest.raises(oracledb.DatabaseError) as raised:
        ask(WALLET, user="poor")
    assert (code_of(raised), raised.value.args[0].offset) == ("ORA-00942", WALLET.index("v$encryption_wallet"))
    standin.database.users["POOR"].grants.add("V_$ENCRYPTION_WALLET")
    assert len(ask(WALLET, user="poor")) == 3


def test_a_view_may_be_refused_or_replaced(standin, ask):
    standin.database.refusals["V$ENCRYPTION_WALLET"] = 1031
    with pytest.raises(oracledb.DatabaseError) as raised:
        ask(WALLET)
    assert code_of(raised) == "ORA-01031"
    standin.database.refusals.clear()
    standin.database.overrides["V$ENCRYPTION_WALLET"] = [{"CON_ID": 1, "STATUS": "NEW_WORD"}]
    assert [row[2] for row in ask(WALLET)] == ["NEW_WORD"]


def test_a_common_user_sees_other_containers_only_when_allowed(standin, ask):
    assert [row[0] for row in ask(WALLET)] == [1, 2, 3]
    standin.database.users["MON"].container_data_all = False
    assert [row[0] for row in ask(WALLET)] == [1]
    assert [row[0] for row in ask(WALLET, service="pdb1")] == [3]


def test_many_containers(standin, ask):
    standin.database.containers += [Container(number, f"PDB{number}") for number in range(4, 1004)]
    standin.database.keystores += [Keystore(number, mode="UNITED") for number in range(4, 1004)]

    assert len(ask("SELECT con_id, name, open_mode, restricted FROM v$pdbs")) == 1002
    assert len(ask(WALLET)) == 1003


def test_a_closed_container_disappears_from_the_dictionary(standin, ask):
    sql = "SELECT con_id, tablespace_name, block_size, contents, status, encrypted FROM cdb_tablespaces"
    assert {row[0] for row in ask(sql)} == {PDB}
    standin.database.container(PDB).open_mode = "MOUNTED"
    assert ask(sql) == []
    with pytest.raises(oracledb.OperationalError) as raised:
        ask(sql, service="pdb1")
    assert code_of(raised) == "ORA-01033"


def test_a_mounted_standby_shows_fixed_views_only(standin, ask):
    administrator = {"user": "sys", "mode": oracledb.AUTH_MODE_SYSDGD}
    standin.database.become("PHYSICAL STANDBY", "MOUNTED")
    standin.database.keystores[0].kind = "OKV"

    assert [row[2] for row in ask(WALLET, **administrator)] == [
        "OPEN_UNKNOWN_MASTER_KEY_STATUS",
        "OPEN_NO_MASTER_KEY",
        "OPEN",
    ]
    sql = "SELECT dbid, name, db_unique_name, cdb, database_role, open_mode, protection_mode FROM v$database"
    assert ask(sql, **administrator)[0][4:6] == ("PHYSICAL STANDBY", "MOUNTED")
    for sql in (TABLESPACES, "SELECT id, payload FROM tde.canary_plain WHERE id = :1"):
        with pytest.raises(oracledb.DatabaseError) as raised:
            ask(sql, *[1] * sql.count(":"), **administrator)
        assert code_of(raised) == "ORA-01219"


def test_an_administrator_of_keys_sees_little_else(ask):
    keeper = {"user": "sys", "mode": oracledb.AUTH_MODE_SYSKMT}
    assert len(ask(WALLET, **keeper)) == 3
    with pytest.raises(oracledb.DatabaseError) as raised:
        ask(LAGS, **keeper)
    assert code_of(raised) == "ORA-00942"


def test_keys_and_two_keystores_at_once(standin, ask):
    database = standin.database
    database.keystores[0].order = "SECONDARY"
    database.keystores.insert(0, Keystore(ROOT, kind="HSM", wallet_type="HSM", order="PRIMARY"))
    database.keys.append(MasterKey(PDB, number=3, activated=None, backed_up="NO"))

    assert [row[:5] for row in ask(WALLET)][:2] == [
        (1, "HSM", "OPEN", "HSM", "PRIMARY"),
        (1, "FILE", "OPEN", "AUTOLOGIN", "SECONDARY"),
    ]
    sql = (
        "SELECT con_id, key_id, creation_time, activation_time, keystore_type, origin, backed_up FROM v$encryption_keys"
    )
    rows = ask(sql, service="pdb1")
    assert [(row[3] is None, row[6]) for row in rows] == [(False, "YES"), (True, "NO")]


def test_lags_are_texts_and_unknown_ones_have_no_value(standin, ask):
    assert ask(LAGS) == []
    guard = standin.database.data_guard
    standin.database.become("PHYSICAL STANDBY", "READ ONLY WITH APPLY")
    guard.transport_lag, guard.apply_lag, guard.apply_finish = None, 148629.0, 1.25
    values = {row[0]: row[1] for row in ask(LAGS)}
    assert values == {
        "transport lag": None,
        "apply lag": "+01 17:17:09",
        "apply finish time": "+00 00:00:01.250",
        "estimated startup time": "14",
    }
    guard.frozen_since = LONG_AGO
    assert {row[4] for row in ask(LAGS)} == {"01/01/2026 00:00:00", None}


def test_processes_destinations_gaps_and_logs(standin, ask):
    guard = standin.database.data_guard
    guard.processes = [Process("MRP0", "APPLYING_LOG", sequence=99), Process("RFS", sequence=100)]
    guard.destinations = [
        Destination(1, type="LOCAL"),
        Destination(2, error="ORA-12514", status="ERROR"),
        Destination(3),
    ]
    guard.destinations[2].status = "INACTIVE"
    guard.gaps = [(1, 95, 97)]
    guard.archived_logs = [ArchivedLog(98), ArchivedLog(99, applied="IN-MEMORY")]

    sql = "SELECT process, pid, status, client_process, thread#, sequence#, block#, delay_mins FROM v$managed_standby"
    assert [(row[0], row[2], row[5]) for row in ask(sql)] == [("MRP0", "APPLYING_LOG", 99), ("RFS", "IDLE", 100)]
    sql = "SELECT dest_id, status, target, delay_mins, error FROM v$archive_dest WHERE status <> 'INACTIVE'"
    assert ask(sql) == [(1, "VALID", "PRIMARY", 0, None), (2, "ERROR", "STANDBY", 0, "ORA-12514")]
    assert ask("SELECT thread#, low_sequence#, high_sequence# FROM v$archive_gap") == [(1, 95, 97)]
    sql = "SELECT thread#, sequence#, first_time, applied, registrar FROM v$archived_log WHERE first_time > :1"
    assert [row[3] for row in ask(sql, LONG_AGO)] == ["YES", "IN-MEMORY"]
    assert ask(sql, FAR_AHEAD) == []


def test_columns_and_dependents(standin, ask):
    standin.database.encrypted_columns.append(EncryptedColumn("APP", "CARDS", "NUMBER"))
    standin.database.dependents += [
        DependentObject("index", "APP", "CARDS_I", "APP", "CARDS", "USERS"),
        DependentObject("lob", "APP", "SYS_LOB1", "APP", "CARDS", "USERS", "SCAN"),
        DependentObject("mview", "APP", "CARDS_MV", "APP", "CARDS", "USERS"),
    ]
    in_pdb = {"service": "pdb1"}
    sql = "SELECT owner, table_name, column_name, encryption_alg, salt, integrity_alg FROM dba_encrypted_columns"
    assert ask(sql, **in_pdb) == [("APP", "CARDS", "NUMBER", "AES 192 bits key", "YES", "SHA-1")]
    sql = "SELECT owner, index_name, table_owner, table_name, tablespace_name FROM dba_indexes WHERE table_owner = :1"
    assert ask(sql, "APP", **in_pdb) == [("APP", "CARDS_I", "APP", "CARDS", "USERS")]
    assert ask(sql, "OTHER", **in_pdb) == []
    assert ask("SELECT encrypted, COUNT(*) AS n FROM dba_tablespaces GROUP BY encrypted", **in_pdb) == [
        ("NO", 2),
        ("YES", 1),
    ]


def test_counters_may_be_huge_missing_or_new(standin, ask):
    standin.database.system.bump("blocks decrypted", 2**53 + 1)
    standin.database.missing_statistics.add("blocks encrypted")
    values = dict(ask("SELECT name, value FROM v$sysstat"))

    assert values["blocks decrypted"] == 2**53 + 1
    assert "blocks encrypted" not in values
    standin.database.restart()
    assert dict(ask("SELECT name, value FROM v$sysstat"))["blocks decrypted"] == 0


def test_the_clock_of_the_host_may_be_wrong(standin, ask):
    standin.database.clock_skew = datetime.timedelta(days=10)
    ((now,),) = ask("SELECT SYSDATE FROM dual")
    assert now - datetime.datetime.now().astimezone().replace(tzinfo=None) > datetime.timedelta(days=9)
