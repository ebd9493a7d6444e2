"""Making and dropping twins, on a MariaDB and a MySQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from exporter.domain.errors import (
    Blocked,
    Cancelled,
    ConnectFailed,
    DeadlineExceeded,
    KeystoreFailed,
    PermissionMissing,
    Unavailable,
    VerificationFailed,
)
from exporter.domain.model import Phase, Slot
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.lock import lock_name
from exporter.engines._mysql_protocol.provisioning import provision
from exporter.engines._mysql_protocol.removal import drop
from exporter.engines._mysql_protocol.twins import AREAS
from tests.engines.mysql_protocol.twins_at_hand import SCHEMA, asked, comment, make, session, twins_on, verify
from tests.servers.mariadb import MariaDbServer
from tests.servers.server import Server

GRANTS = [f"CREATE, ALTER, SELECT, INSERT ON `{SCHEMA}`.*"]


def test_twins_are_made_alike_and_one_is_encrypted(database: Server, control: Connection) -> None:
    said: list[tuple[str, float]] = []
    twins = twins_on(database, rows=25_000)
    done = provision(control, twins, asked, lambda what, share: said.append((what, share)), 60)
    assert set(done.made) == {f"`{SCHEMA}`", twins.table(Slot.A), twins.table(Slot.B), f"`{SCHEMA}`.`heartbeat`"}
    assert list(done.grants) == GRANTS
    shares = [share for _, share in said]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert len(shares) > 10
    facts = verify(control, twins)
    assert facts.valid, facts.problem
    assert (facts.a.encrypted, facts.b.encrypted) == (True, False)
    assert facts.a.rows == facts.b.rows == 25_000
    # The canaries choose by id and by area.
    sql = f"SELECT MIN(id) AS a, MAX(id) AS b, COUNT(*) AS c, MIN(area) AS d, MAX(area) AS e FROM {twins.table(Slot.A)}"
    assert list(database.query(sql)[0].values())[:3] == [1, 25_000, 25_000]
    assert 0 <= database.query(sql)[0]["d"] < database.query(sql)[0]["e"] < AREAS
    tenth = database.value(f"SELECT COUNT(*) FROM {twins.table(Slot.B)} WHERE area BETWEEN 3000 AND 3999")
    assert 2_300 < tenth < 2_700


def test_a_second_run_changes_nothing(database: Server, control: Connection) -> None:
    twins = twins_on(database)
    make(control, twins)
    before = verify(control, twins)
    again = make(control, twins)
    assert again.made == ()
    assert again.grants == ()
    assert verify(control, twins).epoch == before.epoch


def test_the_grants_that_are_told_are_enough_and_all_needed(database: Server) -> None:
    twins = twins_on(database)
    password = database.create_user("maker", grants=GRANTS)
    maker = session(database, "maker", password)
    assert len(make(maker, twins).made) == 4
    maker.close()
    database.query("DROP USER maker")
    database.query(f"DROP DATABASE {SCHEMA}")
    password = database.create_user("maker")
    maker = session(database, "maker", password)
    with pytest.raises(PermissionMissing, match=r"CREATE, ALTER, SELECT, INSERT ON `tde_canary`\.\*"):
        make(maker, twins)
    maker.close()


def test_a_killed_run_is_completed_by_the_next(database: Server, control: Connection) -> None:
    twins = twins_on(database, rows=40_000)
    told = 0

    def kill(what: str, share: float) -> None:
        nonlocal told
        told += 1
        if share > 0.3 and control.alive and told > 0:
            told = -10_000
            database.query(f"KILL {control.id}")

    with pytest.raises(ConnectFailed):
        provision(control, twins, asked, kill, 60)
    loaded = [database.value(f"SELECT COUNT(*) FROM {twins.table(slot)}") for slot in Slot]
    assert all(5_000 < rows < 40_000 for rows in loaded), loaded
    assert abs(loaded[0] - loaded[1]) <= 10_000
    assert comment(database, "main_encrypted").endswith("building")
    fresh = session(database)
    half = verify(fresh, twins)
    assert not half.valid
    assert "half-built" in half.problem
    assert half.a.encrypted is True
    done = make(fresh, twins)
    assert set(done.made) == {twins.table(Slot.A), twins.table(Slot.B)}
    facts = verify(fresh, twins)
    assert facts.valid, facts.problem
    assert facts.a.rows == 40_000
    fresh.close()


def test_a_deadline_ends_the_run_in_time(database: Server, control: Connection) -> None:
    twins = twins_on(database, rows=3_000_000)
    begun = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        make(control, twins, timeout=1.0)
    assert time.monotonic() - begun < 50.0
    assert comment(database, "main_plain").endswith("building")


def test_closing_ends_the_run(database: Server, control: Connection) -> None:
    twins = twins_on(database, rows=3_000_000)
    started = threading.Event()

    def stop() -> None:
        started.wait(30)
        control.close()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        with pytest.raises(Cancelled):
            provision(control, twins, asked, lambda what, share: started.set() if share > 0.001 else None, 60)
    finally:
        started.set()
        stopper.join(30)


def test_a_table_of_somebody_else_is_left_alone(database: Server, control: Connection) -> None:
    twins = twins_on(database)
    database.query(f"CREATE DATABASE {SCHEMA}")
    database.query(f"CREATE TABLE {SCHEMA}.main_plain (id INT PRIMARY KEY) COMMENT 'salaries'")
    database.query(f"INSERT INTO {SCHEMA}.main_plain VALUES (42)")
    with pytest.raises(Blocked, match="main_plain` that this exporter did not make"):
        make(control, twins)
    with pytest.raises(Blocked, match="none that this exporter made"):
        drop(control, twins, 10)
    assert verify(control, twins).b.problem == "the table tde_canary.main_plain is none that this exporter made"
    assert database.value(f"SELECT id FROM {SCHEMA}.main_plain") == 42
    assert database.query(f"SHOW TABLES IN {SCHEMA}") == [{f"Tables_in_{SCHEMA}": "main_plain"}]


def test_a_view_of_that_name_is_left_alone(database: Server, control: Connection) -> None:
    twins = twins_on(database)
    database.query(f"CREATE DATABASE {SCHEMA}")
    database.query(f"CREATE VIEW {SCHEMA}.main_encrypted AS SELECT 1 AS id")
    with pytest.raises(Blocked, match="did not make"):
        make(control, twins)
    with pytest.raises(Blocked, match="none that this exporter made"):
        drop(control, twins, 10)


def test_a_foreign_heartbeat_table_is_left_alone(database: Server, control: Connection) -> None:
    twins = twins_on(database)
    make(control, twins)
    database.query(f"DROP TABLE {SCHEMA}.heartbeat")
    database.query(f"CREATE TABLE {SCHEMA}.heartbeat (id INT PRIMARY KEY)")
    with pytest.raises(Blocked, match=r"heartbeat` that this exporter did not make"):
        make(control, twins)
    assert drop(control, twins, 10) == (twins.table(Slot.A), twins.table(Slot.B))
    assert database.query(f"SHOW TABLES IN {SCHEMA}") == [{f"Tables_in_{SCHEMA}": "heartbeat"}]


def test_another_exporter_at_work_is_named(database: Server, control: Connection) -> None:
    twins, other = twins_on(database), session(database)
    make(control, twins)
    other.row("SELECT GET_LOCK(%s, 0)", (lock_name(SCHEMA),), timeout=5)
    with pytest.raises(
        Blocked, match=rf"its connection {other.id}, of the user root from localhost(, process \d+)?, holds the lock"
    ):
        drop(control, twins, 10)
    # Healthy twins need no lock, and missing ones do.
    assert make(control, twins).made == ()
    with pytest.raises(Blocked, match=f"connection {other.id}"):
        make(control, twins_on(database, name="second"))
    other.row("SELECT RELEASE_LOCK(%s)", (lock_name(SCHEMA),), timeout=5)
    other.close()
    assert len(drop(control, twins, 10)) == 3


def test_other_rows_than_configured_are_not_rebuilt(database: Server, control: Connection) -> None:
    make(control, twins_on(database))
    more = twins_on(database, rows=3_000)
    with pytest.raises(Blocked, match="has 2000 rows, but 3000 are configured; drop the pair, then provision it anew"):
        make(control, more)
    assert "has 2000 rows, but 3000 are configured" in verify(control, more).problem


def test_a_phase_that_changed_says_what_a_dba_can_do(database: Server, control: Connection) -> None:
    certifying = twins_on(database, phase=Phase.AA)
    make(control, certifying)
    facts = verify(control, certifying)
    assert facts.valid, facts.problem
    assert (facts.a.encrypted, facts.b.encrypted) == (False, False)
    enabled = twins_on(database)
    with pytest.raises(VerificationFailed) as told:
        make(control, enabled)
    assert enabled.conversion(Slot.A) in str(told.value)
    database.query(enabled.conversion(Slot.A))
    assert make(control, enabled).made == ()
    assert verify(control, enabled).valid
    # A pair that waits for its encryption becomes encrypted where it stands.
    assert (facts.found, facts.certifying) == (Phase.AA, True)
    converted = verify(control, certifying)
    assert (converted.valid, converted.found, converted.certifying) == (True, Phase.ENABLED, False)
    assert converted.epoch != facts.epoch


def test_twins_that_came_to_differ_while_they_were_built_are_not_completed(
    database: Server, control: Connection
) -> None:
    twins = twins_on(database, rows=10_000)

    def damage(what: str, share: float) -> None:
        if what.startswith("filling") and share > 0.8:
            database.query(f"UPDATE {twins.table(Slot.B)} SET pad = 'x' WHERE id = 777")

    with pytest.raises(VerificationFailed, match="differ or have gaps"):
        provision(control, twins, asked, damage, 60)
    assert comment(database, "main_plain").endswith("building")


def test_without_the_key_nothing_is_loaded(mariadb: MariaDbServer) -> None:
    connection = session(mariadb)
    twins = twins_on(mariadb, key_id=77, name="keyless")
    try:
        with pytest.raises(KeystoreFailed, match="no key 77: configure a key management plugin"):
            make(connection, twins)
        assert mariadb.query(f"SHOW TABLES IN {SCHEMA}") == []
    finally:
        mariadb.query(f"DROP DATABASE IF EXISTS {SCHEMA}")
        connection.close()


def test_the_heartbeat_goes_with_the_last_pair(database: Server, control: Connection) -> None:
    first, second = twins_on(database), twins_on(database, name="second")
    make(control, first)
    make(control, second)
    assert drop(control, first, 10) == (first.table(Slot.A), first.table(Slot.B))
    assert drop(control, first, 10) == ()
    assert drop(control, second, 10)[2:] == (f"`{SCHEMA}`.`heartbeat`",)
    # The schema stays.
    assert database.query(f"SHOW TABLES IN {SCHEMA}") == []


def test_nothing_to_drop(database: Server, control: Connection) -> None:
    assert drop(control, twins_on(database), 10) == ()


def test_a_read_only_server_is_left_alone(private: Server) -> None:
    private.query("SET GLOBAL read_only = 1")
    connection = session(private)
    with pytest.raises(Unavailable, match="read-only"):
        make(connection, twins_on(private))
    assert {SCHEMA} & {next(iter(row.values())) for row in private.query("SHOW DATABASES")} == set()
    connection.close()


@pytest.fixture(params=["mariadb", "mysql"])
def private(
    request: pytest.FixtureRequest, make_mariadb: Callable[..., Server], make_mysql: Callable[..., Server]
) -> Server:
    return make_mariadb() if request.param == "mariadb" else make_mysql()
