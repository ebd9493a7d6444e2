"""The lag of real replicas: stopped, broken, stalled, delayed, dropped, restarted; each shows, and no zero is invented."""

from __future__ import annotations

import threading

import pytest

from exporter.domain.errors import Blocked
from exporter.domain.states import LagKind
from exporter.engines._mysql_protocol.channels import NO_PLACE, NO_WRITER, NOT_A_REPLICA, NOT_YET
from exporter.engines._mysql_protocol.heartbeat import Heartbeats
from exporter.engines._mysql_protocol.standbys import FREE_FAILURES
from tests.engines.mysql_protocol.connectors import PATIENCE, connector
from tests.engines.mysql_protocol.replicated import SCHEMA, USER, Watch
from tests.processes import until
from tests.stopwatch import Stopwatch

KINDS = ("mariadb", "mysql")
TRANSPORT, APPLY, HEARTBEAT = LagKind
ALL_UNKNOWN = (None, None, None)


@pytest.fixture(params=KINDS)
def watch(request):
    watch = Watch(*request.getfixturevalue(f"{request.param}_pair"))
    yield watch
    watch.close()


@pytest.fixture
def rewired(watch):
    """Sets the replication up in another way, and at the end as it was."""
    yield watch.replicate
    watch.replicate()


def behind(watch, channel=""):
    """The lag in the replica's own opinion."""
    row = watch.replica.replica_status(channel)
    return row["Seconds_Behind_Master" if watch.maria else "Seconds_Behind_Source"]


def lags(state):
    return tuple(state.lag(kind) for kind in LagKind)


def test_a_healthy_replica(watch):
    state = watch.in_step()
    assert (state.standby, state.channel, state.configured, state.problem) == ("east", "", True, "")
    assert (state.transport_running, state.apply_running, state.configured_delay) == (True, True, 0.0)
    assert state.received_sequence == state.applied_sequence
    assert state.applied_sequence == watch.primary.value(f"SELECT seq FROM {SCHEMA}.heartbeat")
    assert state.clock_skew is not None
    assert abs(state.clock_skew) < 0.5


def test_a_stopped_applier_shows_and_recovers(watch):
    before = watch.in_step()
    watch.thread("STOP", "SQL_THREAD")
    try:
        assert behind(watch) is None
        state = watch.until_late(APPLY)
        assert state.lag(HEARTBEAT) > 0.0
        assert (state.transport_running, state.apply_running, state.configured) == (True, False, True)
        assert state.applied_sequence == before.applied_sequence
        until(lambda: (watch.state().received_sequence or 0) > before.applied_sequence + 1, "beats to be received")
        assert "the applier is stopped" in state.problem
        grown = watch.until_late(APPLY, 2 * state.lag(APPLY))
        assert grown.lag(HEARTBEAT) > state.lag(HEARTBEAT)
    finally:
        watch.thread("START", "SQL_THREAD")
    assert watch.in_step().problem == ""


def test_a_stopped_receiver_shows_and_recovers(watch):
    before = watch.in_step()
    watch.thread("STOP", "IO_THREAD")
    try:
        state = watch.until_late(TRANSPORT)
        assert state.lag(HEARTBEAT) > 0.0
        assert state.lag(APPLY) is None
        assert (state.transport_running, state.apply_running) == (False, True)
        assert state.received_sequence == state.applied_sequence == before.applied_sequence
        assert "the receiver is stopped" in state.problem
    finally:
        watch.thread("START", "IO_THREAD")
    watch.in_step()


def test_a_duplicate_key_shows_without_the_row_and_recovers(watch):
    watch.in_step()
    watch.primary.query(f"CREATE TABLE {SCHEMA}.people (name VARCHAR(40) PRIMARY KEY)")
    watch.replica.wait_for(watch.primary)
    insert = f"INSERT INTO {SCHEMA}.people VALUES ('alice-secret')"
    watch.replica.query(insert)
    try:
        watch.primary.query(insert)
        state = watch.until_late(APPLY)
        assert state.apply_running is False
        assert state.transport_running is True
        assert "(error 1062)" in state.problem
        assert "duplicate key" in state.problem
        assert "alice" not in repr(state)
    finally:
        watch.replica.query(f"DELETE FROM {SCHEMA}.people")
        watch.thread("START", "SQL_THREAD" if not watch.maria else "")
    assert watch.in_step().problem == ""


def test_a_dropped_channel_is_no_standby_and_may_come_back(watch):
    watch.in_step()
    watch.thread("STOP")
    try:
        watch.replica.query(f"RESET {watch.noun} ALL")
        for _ in range(2):
            state = watch.state()
            assert (state.configured, state.transport_running, state.apply_running) == (False, False, False)
            assert lags(state) == ALL_UNKNOWN
            assert NOT_A_REPLICA in state.problem
    finally:
        watch.replicate()
    assert watch.in_step().configured is True


def test_a_stalled_network_shows_where_the_server_sees_no_lag(watch, rewired, make_proxy):
    proxy = make_proxy(watch.primary.address)
    rewired(via=proxy)
    watch.in_step()
    proxy.go_silent()
    state = watch.until_late(TRANSPORT)
    until(lambda: behind(watch) == 0, "the server to see no lag")  # a MySQL wavers between 0 and 1
    assert state.transport_running is True
    assert state.lag(HEARTBEAT) > 0.0
    assert state.lag(APPLY) == 0.0
    proxy.go_on()
    watch.in_step()


def test_a_source_that_cannot_be_reached_shows(watch, rewired, make_proxy):
    proxy = make_proxy(watch.primary.address)
    rewired(via=proxy)
    watch.in_step()
    proxy.refuse()
    until(lambda: watch.state().transport_running is False, "the receiver to notice")
    state = watch.until_late(TRANSPORT)
    assert state.lag(APPLY) is None
    assert "the receiver is connecting" in state.problem
    proxy.go_on()
    watch.in_step()


def test_a_channel_that_never_connected_has_no_lag_of_its_own(watch, rewired, make_proxy):
    """MySQL shows 0 for it."""
    watch.in_step()
    proxy = make_proxy(watch.primary.address)
    proxy.refuse()
    rewired(via=proxy)
    watch.restart()
    state = watch.state()
    assert (state.configured, state.transport_running) == (True, False)
    assert (state.lag(TRANSPORT), state.lag(APPLY)) == (None, None)
    if not watch.maria:
        assert behind(watch) == 0
    # MariaDB keeps the id of the former source until it has connected to the new one.
    assert (NO_PLACE if watch.maria else NOT_YET) in state.problem
    assert watch.until_late(HEARTBEAT).lag(APPLY) is None


def test_a_delayed_replica_is_as_late_as_it_shall_be(watch, rewired):
    rewired(delay_s=1)
    state = watch.until_late(APPLY, 0.8)
    assert state.configured_delay == 1.0
    assert (state.transport_running, state.apply_running) == (True, True)
    assert state.lag(HEARTBEAT) > 0.0
    until(lambda: (watch.state().applied_sequence or 0) > (state.applied_sequence or 0), "it to follow")


def test_several_channels_are_told_apart(watch, make_proxy):
    watch.in_step()
    proxy = make_proxy(watch.primary.address)
    proxy.refuse()
    try:
        watch.replica.replica_of(watch.primary, channel="west", via=proxy)
        assert [state.channel for state in watch.read()] == ["", "west"]
        watch.in_step()
        west = watch.state("west")
        assert lags(west) == ALL_UNKNOWN
        assert (west.transport_running, west.received_sequence, west.applied_sequence) == (False, None, None)
    finally:
        if watch.maria:
            watch.replica.query("STOP SLAVE 'west'")
            watch.replica.query("RESET SLAVE 'west' ALL")
        else:
            watch.replica.query("STOP REPLICA FOR CHANNEL 'west'")
            watch.replica.query("RESET REPLICA ALL FOR CHANNEL 'west'")


def test_a_restarted_replica_whose_threads_do_not_start(watch):
    """MariaDB does not know any more whom it replicates from, and tells no lag."""
    watch.in_step()
    watch.thread("STOP")
    watch.replica.options["skip-slave-start" if watch.maria else "skip-replica-start"] = ""
    try:
        watch.replica.restart()
        state = watch.until_late(TRANSPORT)
        assert (state.transport_running, state.apply_running, state.lag(APPLY)) == (False, False, None)
        assert state.lag(HEARTBEAT) > 0.0
    finally:
        watch.replica.options.clear()
        watch.thread("START")
    watch.in_step()


def test_the_time_zone_of_the_replica_does_not_matter(watch):
    watch.replica.query("SET GLOBAL time_zone = '+08:00'")
    try:
        watch.restart()
        state = watch.in_step()
        assert state.clock_skew is not None
        assert abs(state.clock_skew) < 0.5
        watch.thread("STOP", "SQL_THREAD")
        watch.beat()
        watch.restart()  # what it shows now is older than what is remembered
        assert 0.0 < watch.until_late(HEARTBEAT).lag(HEARTBEAT) < 3600.0
    finally:
        watch.replica.query("SET GLOBAL time_zone = 'SYSTEM'")
        watch.thread("START", "SQL_THREAD")


def test_an_exporter_that_starts_anew_tells_the_old_lag(watch):
    watch.in_step()
    watch.thread("STOP", "SQL_THREAD")
    try:
        late = watch.until_late(APPLY)
        watch.restart()
        state = watch.state()
        assert state.lag(HEARTBEAT) > late.lag(HEARTBEAT)
        until(lambda: watch.state().lag(APPLY) is not None, "the beat to be received")
        state = watch.state()
        assert state.lag(APPLY) > late.lag(APPLY)
    finally:
        watch.thread("START", "SQL_THREAD")
    watch.in_step()


def test_heartbeats_that_nobody_writes_leave_the_lag_unknown(watch):
    watch.in_step()
    watch.clock.later += 60.0
    (state,) = watch.read()
    assert (state.lag(TRANSPORT), state.lag(HEARTBEAT)) == (None, None)
    assert NO_WRITER in state.problem
    watch.in_step()


def test_a_second_exporter_reads_what_the_first_one_writes(watch):
    watch.in_step()
    other, control = Heartbeats(SCHEMA, watch.clock), watch.connected()
    with pytest.raises(Blocked, match=str(watch.control.id)):
        other.beat(control, PATIENCE)
    asked = watch.standbys(other)
    watch.beat()
    until(lambda: heartbeat_of(asked, control) == 0.0, "the replica to be in step")
    watch.thread("STOP", "SQL_THREAD")
    try:
        watch.beat()
        until(lambda: (heartbeat_of(asked, control) or 0.0) > 0.4, "the heartbeat lag to grow")
    finally:
        watch.thread("START", "SQL_THREAD")
    (state,) = asked.states(control, PATIENCE)
    assert state.lag(TRANSPORT) is None


def heartbeat_of(asked, control):
    (state,) = asked.states(control, PATIENCE)
    return state.lag(HEARTBEAT)


# -- grants ----------------------------------------------------------------------------------------------------------


def only_there(server, statement):
    """Run a statement whose effect is not replicated."""
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(statement)
    finally:
        connection.close()


def test_without_the_status_of_the_replica_the_heartbeat_is_known(watch):
    privilege = "SLAVE MONITOR" if watch.maria else "REPLICATION CLIENT"
    only_there(watch.replica, f"REVOKE {privilege} ON *.* FROM {USER}@'%'")
    watch.restart()
    state = watch.settled(None, None, 0.0)
    assert (state.transport_running, state.apply_running, state.configured) == (None, None, True)
    assert f"GRANT {privilege} ON *.*" in state.problem


def test_without_select_on_the_replica_the_rest_is_known(watch):
    only_there(watch.replica, f"REVOKE SELECT ON {SCHEMA}.* FROM {USER}@'%'")
    watch.restart()
    state = watch.settled(0.0, 0.0, None)
    assert f"GRANT SELECT ON `{SCHEMA}`.`heartbeat`" in state.problem


def test_without_the_binary_log_of_the_primary_the_server_is_believed(watch):
    privilege = "BINLOG MONITOR" if watch.maria else "REPLICATION CLIENT"
    only_there(watch.primary, f"REVOKE {privilege} ON *.* FROM {USER}@'%'")
    watch.restart()
    assert f"GRANT {privilege} ON *.*" in watch.settled(None, 0.0, 0.0).problem


def test_without_process_the_keys_are_unknown_and_the_rest_is_known(watch):
    only_there(watch.replica, f"REVOKE PROCESS ON *.* FROM {USER}@'%'")
    watch.restart()
    state = watch.in_step()
    assert state.key_match is None
    assert "GRANT PROCESS ON *.*" in state.problem


def test_without_the_right_to_write_others_are_believed(watch):
    only_there(watch.primary, f"REVOKE UPDATE ON {SCHEMA}.heartbeat FROM {USER}@'%'")
    watch.restart()
    with pytest.raises(Exception, match="UPDATE"):
        watch.beat()
    (state,) = watch.read()
    assert (state.lag(TRANSPORT), state.lag(HEARTBEAT)) == (None, None)
    assert (state.transport_running, state.apply_running) == (True, True)


# -- standbys that do not answer -------------------------------------------------------------------------------------


def test_a_frozen_standby_does_not_eat_the_time_of_the_others(watch, make_proxy):
    watch.in_step()
    frozen = make_proxy(watch.replica.address)
    watch.asked = watch.standbys(watch.heartbeats, ("west", watch.connector(frozen)))
    assert [state.standby for state in watch.read()] == ["east", "west"]
    frozen.go_silent()
    for _ in range(2):
        watch.beat()
        timer = Stopwatch()
        east, west = watch.read(2.0)
        assert timer.seconds < 5.0
        assert east.transport_running is True
        assert None not in lags(east)
        assert lags(west) == ALL_UNKNOWN
        assert (west.configured, west.transport_running, west.apply_running) == (True, None, None)
        assert west.problem
    frozen.go_on()
    until(lambda: watch.read()[1].transport_running is True, "the standby to answer again")


def test_one_that_is_down_is_asked_again_but_not_all_the_time(watch, make_proxy):
    down = make_proxy(watch.replica.address)
    down.refuse()
    watch.asked = watch.standbys(watch.heartbeats, ("west", watch.connector(down)))
    for _ in range(FREE_FAILURES + 1):
        assert "refused" in watch.read()[1].problem
    assert "tried again in" in watch.read()[1].problem


def test_a_session_that_was_ended_is_opened_anew_in_the_same_reading(watch):
    watch.in_step()
    rows = watch.replica.query("SELECT id FROM information_schema.processlist WHERE user = %s", USER)
    for row in rows:
        watch.replica.query(f"KILL {next(iter(row.values()))}")
    assert watch.state().transport_running is True


def test_a_refused_password_is_sent_once(watch, make_proxy):
    proxy = make_proxy(watch.replica.address)
    watch.asked = watch.standbys(watch.heartbeats, ("west", connector(proxy, USER, "wrong", purpose="standby")))
    for _ in range(4):
        east, west = watch.read()
        assert east.transport_running is True
        assert "refused" in west.problem or "denied" in west.problem
    assert proxy.accepted == 1


def test_closing_ends_what_hangs(watch, make_proxy):
    proxy = make_proxy(watch.replica.address)
    watch.asked = watch.standbys(watch.heartbeats, ("west", watch.connector(proxy)))
    watch.read()
    proxy.go_silent()
    watch.read(0.5)
    timer = Stopwatch()
    watch.asked.close()
    assert timer.seconds < 5.0
    until(lambda: not any(thread.name.startswith("standby-") for thread in threading.enumerate()), "the threads to end")
    watch.asked = watch.standbys(watch.heartbeats)


def test_each_standby_keeps_one_session(watch):
    for _ in range(5):
        watch.state()
    sessions = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s"
    assert watch.replica.value(sessions, USER) == 1
    watch.asked.close()
    until(lambda: watch.replica.value(sessions, USER) == 0, "the session to end")


# -- a second primary ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server_id", [1, 9])
def test_a_channel_of_another_source_is_not_measured_by_our_log(make_mariadb, mariadb_pair, server_id):
    """Also not when it has the same id and names its log alike, as a MariaDB of its own accord does."""
    watch = Watch(*mariadb_pair)
    other = make_mariadb("11.8", binlog=True, server_id=server_id)
    try:
        other.query(f"SET GLOBAL gtid_domain_id = {100 + server_id}")
        watch.replica.replica_of(other, channel="west")
        other.query("CREATE DATABASE elsewhere")
        watch.replica.wait_for(other, "west")
        until(lambda: watch.state("west").transport_running is True, "the other source to be connected")
        until(lambda: watch.state().apply_running is True and watch.state().lag(APPLY) == 0.0, "it to be in step")
        west, east = watch.state("west"), watch.state()
        assert west.lag(TRANSPORT) is None
        assert west.lag(HEARTBEAT) is None
        assert west.lag(APPLY) == 0.0
        assert (east.lag(TRANSPORT) is None) is (server_id == 1)
        assert (east.lag(HEARTBEAT) is None) is (server_id == 1)
    finally:
        watch.replica.query("STOP SLAVE 'west'")
        watch.replica.query("RESET SLAVE 'west' ALL")
        watch.replica.query("DROP DATABASE IF EXISTS elsewhere")
        watch.close()
