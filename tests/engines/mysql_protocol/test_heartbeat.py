"""Writing heartbeats on real servers: by one at a time, into nothing but our own row."""

from __future__ import annotations

import os
import time

import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.errors import Blocked, ConnectFailed, LockTimeout, PermissionMissing, QueryFailed, Unavailable
from exporter.domain.states import ScratchLock
from exporter.engines._mysql_protocol.heartbeat import SHARE, Heartbeats, lock_name, read_clock, read_identity, read_row
from exporter.engines._mysql_protocol.twins import create_heartbeat
from exporter.engines.beats import Position, Primary
from tests.engines.mysql_protocol.connectors import PATIENCE, connector
from tests.engines.mysql_protocol.heartbeat_tables import ddl_of, grants, make_table
from tests.processes import until
from tests.servers.mariadb import MariaDbServer

SCHEMA = "beating"
KINDS = ("mariadb", "mysql")


class Place:
    """A server with a heartbeat table and an account that may use it."""

    def __init__(self, server, schema=SCHEMA):
        self.server, self.schema = server, schema
        make_table(server, schema)
        self.password = server.create_user("beater", grants=grants(server, schema))
        self.opened = []

    def connected(self):
        self.opened.append(connector(self.server, "beater", self.password, socket=True).connect(PATIENCE))
        return self.opened[-1]

    @property
    def row(self):
        rows = self.server.query(f"SELECT id, seq, beat FROM `{self.schema}`.heartbeat")
        assert len(rows) == 1
        return rows[0]

    def close(self):
        for connection in self.opened:
            connection.close()


@pytest.fixture
def place(database):
    place = Place(database)
    yield place
    place.close()


@pytest.fixture
def heartbeats(place):
    return Heartbeats(place.schema)


def test_beats_count_up_in_one_row(place, heartbeats):
    control = place.connected()
    for number in (1, 2, 3):
        heartbeats.beat(control, PATIENCE)
        assert place.row["seq"] == number
    row = read_row(control, place.schema, PATIENCE)
    assert row is not None
    assert row.sequence == 3
    assert abs(row.beat - time.time()) < 60.0


def test_an_exporter_that_starts_anew_goes_on_counting(place):
    for number in (1, 2, 3):
        control = place.connected()
        Heartbeats(place.schema).beat(control, PATIENCE)
        assert place.row["seq"] == number
        control.close()
        until(lambda: not locked(place), "the lock to be free")


def locked(place):
    return place.server.value("SELECT IS_USED_LOCK(%s)", lock_name(place.schema)) is not None


def test_a_lost_session_loses_no_memory(place):
    clock = FakeClock()
    heartbeats = Heartbeats(place.schema, clock)
    control = place.connected()
    heartbeats.beat(control, PATIENCE)
    first = read_row(control, place.schema, PATIENCE)
    clock.advance(3.0)
    heartbeats.beat(control, PATIENCE)
    place.server.query(f"KILL {control.id}")
    until(lambda: not locked(place), "the lock to be free")
    with pytest.raises(ConnectFailed):
        heartbeats.beat(control, PATIENCE)
    clock.advance(1.0)
    heartbeats.beat(place.connected(), PATIENCE)
    assert place.row["seq"] == 3
    clock.advance(0.5)
    assert heartbeats.memory.heartbeat(first, Primary(), clock.monotonic()) == pytest.approx(1.5)


def test_a_second_exporter_is_told_who_writes(place, heartbeats):
    first, second = place.connected(), place.connected()
    heartbeats.beat(first, PATIENCE)
    late = Heartbeats(place.schema)
    assert late.lock(second) is None
    with pytest.raises(Blocked, match=f"writes the heartbeats of the schema {place.schema} .connection {first.id}, "):
        late.beat(second, PATIENCE)
    assert place.row["seq"] == 1
    first.close()
    until(lambda: not locked(place), "the lock to be free")
    late.beat(second, PATIENCE)
    assert place.row["seq"] == 2
    assert late.lock(second) == ScratchLock(True)


def test_who_has_the_lock_is_known_by_user_place_and_process_as_far_as_the_server_tells(place, heartbeats):
    first, second = place.connected(), place.connected()
    assert heartbeats.lock(first) is None
    heartbeats.beat(first, PATIENCE)
    assert heartbeats.lock(first) == ScratchLock(True)
    late = Heartbeats(place.schema)
    with pytest.raises(Blocked):
        late.beat(second, PATIENCE)
    # MariaDB has the performance schema switched off by default.
    told = place.server.value("SELECT @@performance_schema")
    process = f", process {os.getpid()}" if told else ""
    words = f"connection {first.id}, of the user beater from localhost{process}"
    assert late.lock(second) == ScratchLock(False, words)
    place.server.query(f"KILL {first.id}")
    until(lambda: not locked(place), "the lock to be free")
    with pytest.raises(ConnectFailed):
        heartbeats.beat(first, PATIENCE)
    assert heartbeats.lock(first) is None
    late.beat(second, PATIENCE)
    assert late.lock(second) == ScratchLock(True)


def test_of_another_account_only_the_number_of_the_session_is_known_without_the_grant(place, heartbeats):
    place.server.query("REVOKE PROCESS ON *.* FROM beater@'%'")
    stranger = place.server.connect()
    try:
        with stranger.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, 0)", (lock_name(place.schema),))
        control = place.connected()
        with pytest.raises(Blocked):
            heartbeats.beat(control, PATIENCE)
        number = place.server.value("SELECT IS_USED_LOCK(%s)", lock_name(place.schema))
        assert heartbeats.lock(control) == ScratchLock(False, f"connection {number}")
    finally:
        stranger.close()


def test_who_has_the_lock_is_asked_once_and_not_with_each_beat(place, heartbeats):
    heartbeats.beat(place.connected(), PATIENCE)
    late, second = Heartbeats(place.schema), place.connected()
    for _ in range(3):
        with pytest.raises(Blocked):
            late.beat(second, PATIENCE)
    before = questions(second)
    for _ in range(10):
        with pytest.raises(Blocked):
            late.beat(second, PATIENCE)
    assert questions(second) - before == 2 * 10 + 1


def test_the_lock_is_ours_although_there_is_no_table(place, heartbeats):
    """Then nobody else could write either; who says that nobody had it would send people looking for somebody."""
    place.server.query(f"DROP TABLE `{place.schema}`.heartbeat")
    control = place.connected()
    with pytest.raises(QueryFailed):
        heartbeats.beat(control, PATIENCE)
    assert heartbeats.lock(control) == ScratchLock(True)


def test_two_schemas_of_a_server_do_not_block_each_other(place, heartbeats):
    heartbeats.beat(place.connected(), PATIENCE)
    make_table(place.server, "beating_too")
    other = connector(place.server, socket=True).connect(PATIENCE)
    Heartbeats("beating_too").beat(other, PATIENCE)
    other.close()


@pytest.mark.parametrize(("pause", "idle"), [(1.0, 300), (60.0, 600)])
def test_a_session_that_was_cut_off_does_not_keep_the_lock_for_hours(place, pause, idle):
    clock = FakeClock()
    heartbeats, control = Heartbeats(place.schema, clock), place.connected()
    heartbeats.beat(control, PATIENCE)
    clock.advance(pause)
    heartbeats.beat(control, PATIENCE)
    assert control.row("SELECT @@SESSION.wait_timeout", timeout=PATIENCE) == (idle,)


@pytest.mark.parametrize("schema", ["x" * 64, "Y" * 64])
def test_the_longest_schema_has_a_lock_of_its_own(database, schema):
    make_table(database, schema)
    connection, other = (connector(database, socket=True).connect(PATIENCE) for _ in range(2))
    try:
        Heartbeats(schema).beat(connection, PATIENCE)
        with pytest.raises(Blocked):
            Heartbeats(schema).beat(other, PATIENCE)
    finally:
        connection.close()
        other.close()
    assert len(lock_name(schema)) <= 64
    assert lock_name(schema) != lock_name("x" * 63)


def test_a_missing_table_is_named_with_what_makes_it(place, heartbeats):
    place.server.query(f"DROP TABLE `{place.schema}`.heartbeat")
    control = place.connected()
    with pytest.raises(QueryFailed, match="tde-exporter provision"):
        heartbeats.beat(control, PATIENCE)
    place.server.query(create_heartbeat(place.schema, ddl_of(place.server)))
    heartbeats.beat(control, PATIENCE)
    assert place.row["seq"] == 1


def test_a_table_of_somebody_else_is_left_alone(place, heartbeats):
    table = f"`{place.schema}`.heartbeat"
    place.server.query(f"INSERT INTO {table} VALUES (1, 77, '2020-01-01')")
    place.server.query(f"ALTER TABLE {table} COMMENT='tde-exporter heartbeat v11'")
    control = place.connected()
    with pytest.raises(Blocked, match="not made by this exporter"):
        heartbeats.beat(control, PATIENCE)
    assert place.row["seq"] == 77


def test_a_table_that_is_exchanged_under_us_is_looked_at_anew(place, heartbeats):
    table, control = f"`{place.schema}`.heartbeat", place.connected()
    heartbeats.beat(control, PATIENCE)
    place.server.query(f"DROP TABLE {table}")
    with pytest.raises(QueryFailed):
        heartbeats.beat(control, PATIENCE)
    place.server.query(f"CREATE TABLE {table} (id INT PRIMARY KEY, seq INT, beat DATETIME(6))")
    with pytest.raises(Blocked):
        heartbeats.beat(control, PATIENCE)


@pytest.mark.parametrize("privilege", ["INSERT", "UPDATE", "SELECT"])
def test_a_missing_grant_is_named(place, heartbeats, privilege):
    where = "*" if privilege == "SELECT" else "heartbeat"
    place.server.query(f"REVOKE {privilege} ON `{place.schema}`.{where} FROM beater@'%'")
    with pytest.raises(PermissionMissing, match=f"the grant of {privilege} on") as caught:
        heartbeats.beat(place.connected(), PATIENCE)
    assert f"GRANT SELECT, INSERT, UPDATE ON `{place.schema}`.`heartbeat`" in str(caught.value)


def test_a_read_only_server_is_unavailable_and_then_is_not(place, heartbeats):
    control = place.connected()
    heartbeats.beat(control, PATIENCE)
    place.server.query("SET GLOBAL read_only = 1")
    try:
        with pytest.raises(Unavailable, match="read-only"):
            heartbeats.beat(control, PATIENCE)
    finally:
        place.server.query("SET GLOBAL read_only = 0")
    heartbeats.beat(control, PATIENCE)
    assert place.row["seq"] == 2


def test_a_locked_row_is_told_and_the_session_survives(place, heartbeats):
    control, other = place.connected(), place.server.connect(autocommit=False)
    heartbeats.beat(control, 2.0)
    try:
        with other.cursor() as cursor:
            cursor.execute(f"SELECT * FROM `{place.schema}`.heartbeat FOR UPDATE")
        with pytest.raises(LockTimeout):
            heartbeats.beat(control, 2.0)
    finally:
        other.close()
    until(lambda: beaten(heartbeats, control), "the row to be free")
    assert place.row["seq"] == 2


def beaten(heartbeats, control):
    try:
        heartbeats.beat(control, 2.0)
    except LockTimeout:
        return False
    return True


def test_without_a_binary_log_there_are_no_positions(place, heartbeats):
    heartbeats.beat(place.connected(), PATIENCE)
    assert heartbeats.position_problem == "the primary writes no binary log"
    assert heartbeats.memory.is_fresh(time.monotonic())


def test_the_clock_of_a_server_is_read_in_utc_whatever_its_zone(place):
    control = place.connected()
    place.server.query("SET GLOBAL time_zone = '+08:00'")
    try:
        elsewhere = place.connected()
        heartbeats = Heartbeats(place.schema)
        heartbeats.beat(elsewhere, PATIENCE)
        row = read_row(elsewhere, place.schema, PATIENCE)
    finally:
        place.server.query("SET GLOBAL time_zone = 'SYSTEM'")
    clock = FakeClock()
    for connection in (control, elsewhere):
        reading = read_clock(connection, clock, PATIENCE)
        assert reading is not None
        assert abs(reading.shown - time.time()) < 60.0
    assert row is not None
    assert abs(row.beat - time.time()) < 60.0


def test_who_a_server_is(place):
    control = place.connected()
    server, uuid = read_identity(control, PATIENCE)
    assert server == place.server.server_id
    assert uuid == ("" if isinstance(place.server, MariaDbServer) else place.server.value("SELECT @@server_uuid"))


@pytest.fixture(params=KINDS)
def logged(request):
    """Of each kind one that writes a binary log."""
    primary, _ = request.getfixturevalue(f"{request.param}_pair")
    place = Place(primary, "logged")
    yield place
    place.close()
    primary.query("DROP DATABASE logged")
    primary.query("DROP USER beater@'%'")


def test_the_end_of_the_binary_log_is_read_after_each_beat(logged):
    heartbeats, control = Heartbeats("logged"), logged.connected()
    before = end_of_log(logged.server)
    heartbeats.beat(control, PATIENCE)
    after = end_of_log(logged.server)
    assert heartbeats.position_problem == ""
    assert heartbeats.memory.sequence(after) == 1
    assert heartbeats.memory.sequence(before) is None
    logged.server.query("FLUSH BINARY LOGS")
    heartbeats.beat(control, PATIENCE)
    assert heartbeats.memory.sequence(end_of_log(logged.server)) == 2


def end_of_log(server):
    statement = "SHOW MASTER STATUS" if isinstance(server, MariaDbServer) else "SHOW BINARY LOG STATUS"
    (row,) = server.query(statement)
    return Position.of(row["File"], row["Position"])


def test_without_the_grant_for_the_binary_log_the_beat_is_written_all_the_same(logged):
    maria = isinstance(logged.server, MariaDbServer)
    privilege = "BINLOG MONITOR" if maria else "REPLICATION CLIENT"
    logged.server.query(f"REVOKE {privilege} ON *.* FROM beater@'%'")
    clock = FakeClock()
    heartbeats, control = Heartbeats("logged", clock), logged.connected()
    heartbeats.beat(control, PATIENCE)
    assert f"GRANT {privilege} ON *.*" in heartbeats.position_problem
    assert logged.row["seq"] == 1
    logged.server.query(f"GRANT {privilege} ON *.* TO beater@'%'")
    again = logged.connected()
    control.close()
    until(lambda: not locked(logged), "the lock to be free")
    heartbeats.beat(again, PATIENCE)
    assert heartbeats.position_problem == ""


def test_a_grant_given_later_is_noticed_within_a_minute(logged):
    maria = isinstance(logged.server, MariaDbServer)
    privilege = "BINLOG MONITOR" if maria else "REPLICATION CLIENT"
    logged.server.query(f"REVOKE {privilege} ON *.* FROM beater@'%'")
    clock = FakeClock()
    heartbeats, control = Heartbeats("logged", clock), logged.connected()
    heartbeats.beat(control, PATIENCE)
    refused = status(logged.server)
    for _ in range(5):
        heartbeats.beat(control, PATIENCE)
    assert status(logged.server) == refused  # not asked again and again
    clock.advance(61.0)
    heartbeats.beat(control, PATIENCE)
    assert status(logged.server) > refused


def status(server):
    """How often the end of the binary log was asked for."""
    name = "Com_show_binlog_status" if isinstance(server, MariaDbServer) else "Com_show_binary_log_status"
    return server.status(name)


def test_a_beat_is_two_statements(logged):
    """Also when the timeout is what is left of one, and so a little different each time."""
    heartbeats, control = Heartbeats("logged"), logged.connected()
    for number in range(3):
        heartbeats.beat(control, PATIENCE - number * 0.0013)
    before = questions(control)
    for number in range(10):
        heartbeats.beat(control, PATIENCE - number * 0.0013)
    assert questions(control) - before == 20 + 1  # and the question itself


def questions(control):
    # With the timeout of the beats, so that it costs nothing else.
    ((_, value),) = control.rows("SHOW SESSION STATUS LIKE 'Questions'", timeout=round(PATIENCE * SHARE, 1))
    return int(value)
