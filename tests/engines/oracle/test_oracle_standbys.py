"""Standbys: lags that are known, unknown or frozen, roles that change, and what is known of one that cannot be asked."""

from __future__ import annotations

import contextlib
import datetime

import pytest

from exporter.domain.errors import Blocked, ConnectFailed, TargetError, Unavailable
from exporter.domain.states import LagKind, ScratchLock
from exporter.engines import registry
from exporter.engines.oracle import dataguard, key_match, lag
from exporter.engines.oracle.standbys import FREE_FAILURES
from tests.engines.oracle.standin_pair import MRP, RFS, StandinPair
from tests.engines.oracle.standin_targets import VERSIONS, quiet
from tests.oracle_standin.data_guard import ArchivedLog, Destination, Process
from tests.oracle_standin.faults import Fail, Hang
from tests.oracle_standin.keys import MasterKey
from tests.oracle_standin.model import PDB, User
from tests.oracle_standin.statements_state import heartbeats_of
from tests.processes import until
from tests.stopwatch import Stopwatch

TRANSPORT, APPLY, HEARTBEAT = LagKind


@pytest.fixture
def make_pair(tmp_path):
    pairs = []

    def make(*args, **options):
        pair = StandinPair(tmp_path, *args, **options)
        pairs.append(pair.__enter__())
        return pair

    yield make
    for pair in pairs:
        pair.__exit__(None, None, None)
        assert pair.unknown == []


@pytest.fixture
def pair(make_pair):
    return make_pair()


def lags(state):
    return tuple(state.lag(kind) for kind in LagKind)


# -- lags ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_healthy_standby(make_pair, version):
    pair = make_pair(version)
    pair.beat()
    state = pair.state()
    assert (state.standby, state.channel, state.configured, state.problem) == ("east", "", True, "")
    assert lags(state) == (0.0, 0.0, 0.0)
    assert (state.transport_running, state.apply_running, state.destination_up) == (True, True, True)
    assert (state.received_sequence, state.applied_sequence, state.gap_sequences) == (101, 100, 0)
    assert (state.key_match, state.configured_delay) == (True, 0.0)
    assert abs(state.clock_skew) < 0.5


def test_lags_with_days(pair):
    pair.standby.data_guard.transport_lag, pair.standby.data_guard.apply_lag = 61.0, 86_400.0 + 17 * 3600 + 17 * 60 + 9
    assert lags(pair.state())[:2] == (61.0, 148_629.0)


def test_unknown_lags_are_unknown_and_never_zero(pair):
    pair.standby.data_guard.transport_lag = None
    pair.standby.data_guard.apply_lag = 90_000.0
    assert lags(pair.state())[:2] == (None, 90_000.0)
    pair.standby.data_guard.apply_lag = None
    assert lags(pair.state())[:2] == (None, None)


def test_a_frozen_standby_gets_later_and_later(pair):
    pair.beat()
    guard = pair.standby.data_guard
    guard.transport_lag, guard.apply_lag = 0.0, 3.0
    guard.frozen_since = pair.standby.now() - datetime.timedelta(seconds=100)
    state = pair.state()
    assert 99 <= state.lag(TRANSPORT) <= 115
    assert state.lag(APPLY) - state.lag(TRANSPORT) == 3.0
    assert state.transport_running is False
    assert lag.NO_NEWS in state.problem
    guard.frozen_since = pair.standby.now() - datetime.timedelta(seconds=200)
    assert pair.state().lag(TRANSPORT) >= 199


def test_a_stopped_apply_shows(pair):
    pair.standby.data_guard.processes = [RFS]
    state = pair.state()
    assert (state.transport_running, state.apply_running) == (True, False)


def test_a_stopped_transport_shows(pair):
    pair.standby.data_guard.processes = [MRP]
    state = pair.state()
    assert (state.transport_running, state.apply_running) == (False, True)


def test_a_gap_and_a_delay_show(pair):
    guard = pair.standby.data_guard
    guard.processes = [RFS, Process("MRP0", "WAIT_FOR_GAP", sequence=98, delay_minutes=30)]
    guard.gaps = [(1, 98, 100)]
    state = pair.state()
    assert (state.gap_sequences, state.configured_delay) == (3, 1800.0)
    assert "gap" in state.problem


def test_logs_of_last_year_are_not_looked_at(pair):
    old = pair.standby.now().replace(tzinfo=None) - datetime.timedelta(days=30)
    pair.standby.data_guard.archived_logs = [ArchivedLog(7000, first_time=old), ArchivedLog(3), ArchivedLog(4, "NO")]
    state = pair.state()
    assert (state.received_sequence, state.applied_sequence) == (4, 3)


def test_the_older_view_of_processes_will_do(make_pair):
    pair = make_pair(user="few")
    granted = {"V_$DATABASE", "V_$DATAGUARD_STATS", "V_$MANAGED_STANDBY"}
    pair.standby.users["FEW"] = User("secret", grants=granted)
    state = pair.state()
    assert (state.transport_running, state.apply_running) == (True, True)
    assert (state.gap_sequences, state.key_match) == (None, None)
    assert "READ ON SYS.V_$ARCHIVE_GAP" in state.problem
    assert "GRANT SELECT ON TDE.HEARTBEAT" in state.problem


def test_a_clock_that_is_wrong_is_no_lag(pair):
    pair.beat()
    pair.standby.clock_skew = datetime.timedelta(seconds=-3600)
    state = pair.state()
    assert lags(state) == (0.0, 0.0, 0.0)
    assert state.clock_skew == pytest.approx(-3600, abs=1)


# -- the heartbeat ---------------------------------------------------------------------------------------


def test_a_heartbeat_that_did_not_arrive_is_late(pair):
    pair.beat()
    pair.beat(ship=False)
    first = pair.state().lag(HEARTBEAT)
    assert first > 0.0
    until(lambda: pair.state().lag(HEARTBEAT) > first, "a lag that grows")
    pair.ship()
    assert pair.state().lag(HEARTBEAT) == 0.0


def test_no_heartbeat_yet_is_unknown(pair):
    state = pair.state()
    assert state.lag(HEARTBEAT) is None
    assert "heartbeat" in state.problem


def test_a_second_exporter_notices_the_first(pair):
    pair.beat()
    other = registry.make(pair.target).open(10.0)
    try:
        other.heartbeat(5.0)  # looks, for the row was written a moment ago
        assert other.scratch_lock() is None
        before = heartbeats_of(pair.primary)[0].seq
        pair.beat()
        with pytest.raises(Blocked, match="another exporter"):
            other.heartbeat(5.0)
        pair.beat()
        assert heartbeats_of(pair.primary)[0].seq == before + 2
        assert pair.session.scratch_lock() == ScratchLock(True)
        told = other.scratch_lock()
        assert told is not None
        assert not told.held
        assert "another exporter" in told.holder
    finally:
        other.close()


def test_one_that_was_outrun_stops_writing(pair):
    pair.beat()
    heartbeats_of(pair.primary)[0].seq += 5
    pair.session.heartbeat(5.0)
    heartbeats_of(pair.primary)[0].seq += 5
    with pytest.raises(Blocked):
        pair.session.heartbeat(5.0)
    assert heartbeats_of(pair.primary)[0].seq == 11


def test_a_heartbeat_nobody_writes_any_more_is_taken_over(pair):
    pair.beat()
    row = heartbeats_of(pair.primary)[0]
    row.seq, row.beat = 500, row.beat - datetime.timedelta(minutes=5)
    other = registry.make(pair.target).open(10.0)
    try:
        other.heartbeat(5.0)
        assert row.seq == 501
        assert other.scratch_lock() == ScratchLock(True)
        # Whoever was away so long looks first, and then finds that somebody else writes.
        pair.session.heartbeat(5.0)
        assert pair.session.scratch_lock() is None
        other.heartbeat(5.0)
        with pytest.raises(Blocked):
            pair.session.heartbeat(5.0)
        told = pair.session.scratch_lock()
        assert told is not None
        assert not told.held
    finally:
        other.close()


def test_a_lost_session_goes_on_where_it_was(pair):
    pair.beat()
    pair.servers[0].end_sessions()
    with contextlib.suppress(ConnectFailed):  # where that was not noticed before
        pair.session.heartbeat(5.0)
    pair.beat()
    assert heartbeats_of(pair.primary)[0].seq in (2, 3)
    assert pair.state().lag(HEARTBEAT) == 0.0


def test_a_table_that_is_not_ours_is_left_alone(pair):
    heartbeats_of(pair.primary)[0].comment = "pulse of the ward"
    with pytest.raises(Blocked, match="not made by this exporter"):
        pair.session.heartbeat(5.0)
    assert heartbeats_of(pair.primary)[0].seq is None


def test_a_table_that_is_missing_says_what_makes_it(pair):
    pair.primary.tables.remove(heartbeats_of(pair.primary)[0])
    with pytest.raises(TargetError, match="tde-exporter provision"):
        pair.session.heartbeat(5.0)
    made = pair.session.provision(pair.target.pairs[0], quiet, 10.0).made
    assert made == ("TDE.HEARTBEAT",)
    pair.beat()
    assert pair.state().lag(HEARTBEAT) == 0.0


def test_the_table_goes_with_the_last_pair(pair):
    pair.beat()
    assert "TDE.HEARTBEAT" in pair.session.drop(pair.target.pairs[0], 10.0)
    assert heartbeats_of(pair.primary) == []


def test_nothing_is_written_where_no_standby_is_configured(server, target, session):
    session.heartbeat(5.0)
    assert session.standbys(5.0) == ()
    assert heartbeats_of(server.database) == []


# -- keys ------------------------------------------------------------------------------------------------


def test_a_key_that_was_not_copied_is_missing(pair):
    new = MasterKey(PDB, number=7, activated=datetime.datetime(2026, 7, 1, tzinfo=datetime.UTC))
    pair.primary.keys.append(new)
    state = pair.state()
    assert state.key_match is False
    assert key_match.LACKS in state.problem
    assert new.name not in repr(state)


def test_a_key_that_was_copied_ahead_matches(pair):
    new = MasterKey(PDB, number=7, activated=datetime.datetime(2026, 7, 1, tzinfo=datetime.UTC))
    pair.primary.keys.append(new)
    pair.standby.keys.append(MasterKey(PDB, number=7, activated=None))
    assert pair.state().key_match is True


def test_a_keystore_that_is_shut_gives_no_key(pair):
    for keystore in pair.standby.keystores:
        keystore.status = "CLOSED"
    state = pair.state()
    assert state.key_match is False
    assert key_match.SHUT in state.problem


def test_the_control_file_tells_where_the_keystore_does_not(pair):
    pair.standby.refusals["V$ENCRYPTION_KEYS"] = 1031
    assert pair.state().key_match is True


def test_a_changed_key_in_the_control_file_is_a_mismatch_once_the_apply_has_stopped(pair):
    pair.standby.refusals["V$ENCRYPTION_KEYS"] = 1031
    later = datetime.datetime(2026, 7, 1, tzinfo=datetime.UTC)
    pair.primary.keys.append(MasterKey(PDB, number=7, activated=later))
    state = pair.state()
    assert state.key_match is None
    assert key_match.NOT_YET in state.problem
    pair.standby.data_guard.processes = [RFS]
    assert pair.state().key_match is False


def test_a_primary_without_keys_needs_none(pair):
    pair.primary.keys.clear()
    state = pair.state()
    assert state.key_match is None
    assert state.problem.count("key") == 0


# -- roles -----------------------------------------------------------------------------------------------


def test_a_mounted_standby_by_sysdg(make_pair):
    pair = make_pair(open_mode="MOUNTED", user="sys", privilege="sysdg", service="orcl")
    pair.beat()
    pair.standby.data_guard.apply_lag = 4.0
    state = pair.state()
    assert lags(state) == (0.0, 4.0, None)
    assert (state.transport_running, state.apply_running, state.configured) == (True, True, True)
    assert (state.received_sequence, state.applied_sequence, state.key_match) == (101, 100, True)
    assert state.problem == dataguard.MOUNTED
    sent = {each.sql for each in pair.servers[1].executed}
    assert not [sql for sql in sent if "DBA_" in sql.upper() or "HEARTBEAT" in sql.upper()]


def test_a_mounted_standby_admits_no_ordinary_account(make_pair):
    pair = make_pair(open_mode="MOUNTED")
    state = pair.state()
    assert lags(state) == (None, None, None)
    assert "ORA-01033" in state.problem
    assert "SYSDG" in state.problem
    # What the primary knows is known all the same.
    assert (state.destination_up, state.transport_running, state.apply_running) == (True, True, True)


def test_a_switchover_is_seen_from_one_reading_to_the_next(pair):
    pair.beat()
    assert pair.state().configured is True
    pair.standby.become("PRIMARY", "READ WRITE")
    pair.primary.become("PHYSICAL STANDBY", "READ ONLY WITH APPLY")
    for server in pair.servers:
        server.end_sessions()
    with contextlib.suppress(ConnectFailed):
        pair.session.standbys(5.0)
    state = pair.state()
    assert (state.standby, state.configured, state.transport_running, state.apply_running) == (
        "east",
        False,
        False,
        False,
    )
    assert lags(state) == (None, None, None)
    assert dataguard.NO_STANDBY in state.problem
    with pytest.raises(Unavailable):
        pair.session.heartbeat(5.0)
    assert pair.session.facts().role == "primary"  # as it was when it was last looked at
    pair.session.activity(5.0)
    assert pair.session.facts().role == "physical_standby"
    # And back.
    pair.standby.become("PHYSICAL STANDBY", "READ ONLY WITH APPLY")
    pair.primary.become("PRIMARY", "READ WRITE")
    for server in pair.servers:
        server.end_sessions()
    with contextlib.suppress(ConnectFailed):
        pair.session.standbys(5.0)
    assert pair.state().configured is True


def test_a_standby_that_is_mounted_again_goes_on_by_its_privilege(make_pair):
    pair = make_pair(user="sys", privilege="sysdg", service="orcl")
    assert lags(pair.state())[:2] == (0.0, 0.0)
    pair.standby.become("PHYSICAL STANDBY", "MOUNTED")
    pair.servers[1].end_sessions()
    assert lags(pair.state())[:2] == (0.0, 0.0)


def test_a_standby_of_another_database_is_told(pair):
    pair.standby.dbid = 4711
    state = pair.state()
    assert (state.configured, lags(state)) == (False, (None, None, None))
    assert dataguard.NOT_OURS in state.problem


# -- faults ----------------------------------------------------------------------------------------------


def test_a_destination_in_error_is_told_as_the_primary_sees_it(pair):
    pair.primary.data_guard.destinations[1] = Destination(2, status="ERROR", error="ORA-12541: TNS:no listener")
    pair.servers[1].deafen()
    pair.servers[1].end_sessions()
    state = pair.state()
    assert (state.destination_up, state.transport_running, state.apply_running) == (False, None, None)
    assert "ORA-12541" in state.problem
    assert lags(state) == (None, None, None)


def test_a_standby_that_hangs_is_unknown_in_time_and_comes_back(pair):
    pair.beat()
    assert pair.state().problem == ""
    pair.servers[1].faults.on("V$DATAGUARD_STATS", Hang())
    pair.servers[1].faults.deaf = True
    watch = Stopwatch()
    state = pair.state(timeout=1.5)
    assert watch.seconds < 5 * 1.5
    assert lags(state)[:2] == (None, None)
    assert state.problem
    pair.servers[1].faults.heal()
    pair.servers[1].end_sessions()
    until(lambda: pair.state().problem == "", "the standby to be asked again")
    assert lags(pair.state()) == (0.0, 0.0, 0.0)


def test_a_session_that_was_killed_while_it_rested_is_replaced_at_once(pair):
    assert pair.state().lag(APPLY) == 0.0
    pair.servers[1].end_sessions(28)
    state = pair.state()
    assert state.lag(APPLY) == 0.0, state.problem


@pytest.mark.parametrize("code", [942, 1031, 1219, 904])
def test_a_view_that_is_refused_costs_its_own_part(pair, code):
    pair.beat()
    pair.servers[1].faults.on("V$DATAGUARD_STATS", Fail(code))
    state = pair.state()
    assert lags(state) == (None, None, 0.0)
    assert (state.transport_running, state.key_match) == (True, True)
    assert "its lags" in state.problem


def test_a_wrong_password_is_not_sent_again(make_pair):
    pair = make_pair(user="wrong")
    pair.standby.users["WRONG"] = User("another")
    words = {pair.state().problem for _ in range(4)}
    assert pair.standby.users["WRONG"].failed_logins == 1
    assert all("ORA-01017" in text for text in words)


def test_a_standby_that_is_gone_is_asked_less_and_less(pair):
    pair.servers[1].deafen()
    pair.servers[1].end_sessions()
    for _ in range(FREE_FAILURES + 1):
        pair.state()
    assert "tried again within" in pair.state().problem
    connects = pair.servers[1].connects
    pair.servers[1].listen()
    assert pair.state().lag(APPLY) is None
    assert pair.servers[1].connects == connects


def test_closing_ends_the_sessions_there(pair):
    pair.state()
    pair.session.close()
    until(lambda: pair.servers[1].connections == 0, "the standby to be left")
