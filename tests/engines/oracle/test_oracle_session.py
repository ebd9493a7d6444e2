"""Open sessions: what goes wrong in calls, what can be counted, and what changes under them."""

from __future__ import annotations

import gc
import threading

import oracledb
import pytest

from exporter.domain.errors import (
    ConnectFailed,
    DeadlineExceeded,
    KeystoreFailed,
    PermissionMissing,
    QueryFailed,
    TargetError,
    Unavailable,
)
from exporter.domain.model import Operation, Slot
from exporter.engines import registry
from exporter.engines.oracle import connection
from exporter.engines.oracle.session import Session
from tests.engines.oracle.standin_targets import COLUMN, MAIN, canary_of, make_ready, opened, target_of
from tests.oracle_standin.faults import Cut, Drip, Endless, Fail, Hang, Slow, Without
from tests.oracle_standin.model import User
from tests.oracle_standin.statements_twins import engine_database
from tests.oracle_standin.storage import Cost, constant
from tests.processes import until
from tests.stopwatch import Stopwatch

LIMIT = 0.4
WITHIN = 5 * 0.1
LOB = Operation.LOB_READ
ON_ENCRYPTED, ON_PLAIN = "FROM TDE.MAIN_ENCRYPTED", "FROM TDE.MAIN_PLAIN"


def run(session, target, slot=Slot.A, operation=LOB, timeout=5.0, pair=0, key=1):
    return session.run(target.pairs[pair], slot, operation, key, timeout)


def failed(call, kind):
    with pytest.raises(kind) as raised:
        call()
    assert type(raised.value) is kind
    return str(raised.value)


def timed_out(call, limit=LIMIT):
    watch = Stopwatch()
    failed(call, DeadlineExceeded)
    assert watch.seconds < limit + WITHIN


# -- calls that do not end -------------------------------------------------------------------------


def test_a_call_that_is_broken_costs_no_session(server, target, session):
    before = server.connects
    server.faults.on(ON_ENCRYPTED, Hang(), times=2)
    for _ in range(2):
        timed_out(lambda: run(session, target, timeout=LIMIT))

    assert run(session, target).work.decrypts == 128
    assert server.connects == before


@pytest.mark.parametrize(
    ("action", "deaf"),
    [
        (Hang(), True),
        (Slow(3.0), True),
        (Drip(0.05, bytes_at_once=1), True),
        (Drip(0.05, bytes_at_once=1), False),
    ],
    ids=["deaf", "slow and deaf", "drips and deaf", "drips"],
)
def test_a_call_that_does_not_end_is_cut_in_time_and_the_next_one_works(server, target, session, action, deaf):
    server.faults.deaf = deaf
    for _ in range(2):
        server.faults.on(ON_ENCRYPTED, action, times=1)
        timed_out(lambda: run(session, target, timeout=LIMIT))
        assert run(session, target).work.decrypts == 128


def test_reading_what_hangs_does_not_hang_the_canaries(server, target, session):
    server.faults.deaf = True
    for view in ("V$SYSSTAT", "V$DATABASE"):
        server.faults.on(view, Hang(), times=1)
        timed_out(lambda: session.activity(LIMIT))
        assert run(session, target).work.decrypts == 128
        assert session.activity(5.0).decrypts is not None


def test_sessions_of_a_database_that_is_deaf_do_not_pile_up(server, target, session):
    server.faults.deaf = True
    for _ in range(5):
        server.faults.on(ON_PLAIN, Hang(), times=1)
        timed_out(lambda: run(session, target, Slot.B, timeout=0.15), 0.15)

    assert run(session, target).work.decrypts == 128
    until(lambda: server.connections == 2, "only control and canary to be left")


def test_rows_that_come_slowly_are_under_the_same_limit(server, target, session):
    for action in (Drip(0.2), Drip(0.05, bytes_at_once=20)):
        server.faults.on("V$SYSSTAT", action, times=1)
        timed_out(lambda: session.activity(LIMIT))
        assert session.activity(5.0).decrypts is not None


@pytest.mark.parametrize("view", ["V$SYSSTAT", "V$OSSTAT"])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        (Without.FETCHES, "more than 30000 rows"),
        (Without.ROWS, "longer than 64 MiB"),
        (Without.VALUE, "longer than 64 MiB"),
    ],
)
def test_an_answer_without_end_is_cut_off_before_it_fills_the_memory(server, session, monkeypatch, view, what, words):
    monkeypatch.setattr(connection, "MOST_ROWS", 30_000)
    server.faults.on(view, Endless(what), times=1)

    assert f"the answer {'has' if 'rows' in words else 'is'} {words}, which we did not ask for" in failed(
        lambda: session.activity(30.0), ConnectFailed
    )
    # What is still under way, in the sockets and on the loop, is not much more.
    assert server.flooded < 96 * 2**20
    assert session.activity(5.0).decrypts is not None


def test_a_canary_whose_answer_does_not_end(server, target, session):
    server.faults.on(ON_ENCRYPTED, Endless(Without.VALUE), times=1)

    assert "longer than 64 MiB" in failed(lambda: run(session, target, timeout=30.0), ConnectFailed)
    assert run(session, target).work.decrypts == 128


def test_a_call_that_fails_leaves_no_cursor_to_the_garbage_collector(server, target, session):
    """The traceback keeps it. Ended by the collector, which may run amid a call, it takes a lock that the driver holds at
    that moment: the loop stands still for good."""
    server.faults.on("V$OSSTAT", Fail(942))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            assert session.activity(5.0).host_cpus is None
        cursors = [each for each in gc.get_objects() if isinstance(each, oracledb.AsyncCursor)]
        left = [each for each in cursors if f"(PORT={server.port})" in repr(each)]
        for cursor in left:
            with pytest.raises(oracledb.InterfaceError, match="DPY-1006"):
                assert cursor.description
    finally:
        gc.enable()


# -- sessions that are lost ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action", [Cut(after_rows=1), Cut(half_packet=True), Cut(reset=False)], ids=["row", "half", "closed"]
)
def test_a_connection_that_ends_amid_an_answer_is_replaced(server, target, session, action):
    server.faults.on(ON_ENCRYPTED, action, times=1)
    failed(lambda: run(session, target), ConnectFailed)
    server.faults.on("V$SYSSTAT", action, times=1)
    failed(lambda: session.activity(5.0), ConnectFailed)

    assert session.prepare(target.pairs[0], 5.0).connects == 1
    assert run(session, target).work.decrypts == 128
    assert session.activity(5.0).decrypts is not None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (28, "KILL SESSION"),
        (600, "internal error"),
        (1012, "lost"),
        (1092, "stopped"),
        (2396, "IDLE_TIME"),
        (3113, "lost"),
        (3135, "lost"),
    ],
)
def test_an_error_that_ends_the_session_is_a_lost_session(server, target, session, code, words):
    server.faults.on(ON_ENCRYPTED, Fail(code), times=1)
    assert words in failed(lambda: run(session, target), ConnectFailed)

    assert session.prepare(target.pairs[0], 5.0).connects == 1
    assert run(session, target).work.decrypts == 128


@pytest.mark.parametrize("code", [0, 28])
def test_sessions_that_are_ended_while_they_rest_are_replaced_when_prepared(server, target, session, code):
    for _ in range(3):
        server.end_sessions(code)
        until(lambda: code or server.connections == 0, "the sessions to end")
        try:
            prepared = session.prepare(target.pairs[0], 5.0)
        except ConnectFailed:
            # It was the control connection that found out.
            prepared = session.prepare(target.pairs[0], 5.0)
        assert prepared.connects == 1
        assert run(session, target).work.decrypts == 128


def test_a_database_that_is_restarted_is_found_again(server, target, session):
    server.deafen()
    server.end_sessions()
    with pytest.raises(TargetError):
        session.prepare(target.pairs[0], 2.0)
    server.database.restart()
    server.listen()

    assert session.prepare(target.pairs[0], 5.0).connects == 1
    assert session.verify(target.pairs[0], 5.0).valid
    assert run(session, target).work.decrypts == 128


# -- errors that leave the session -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (942, PermissionMissing, 'READ ON "TDE"."MAIN_ENCRYPTED"'),
        (1031, PermissionMissing, "EXECUTE ON SYS.DBMS_LOB"),
        (1013, QueryFailed, "somebody stopped"),
        (904, QueryFailed, "ORA-00904"),
        (1219, Unavailable, "mounted"),
        (28365, KeystoreFailed, "not open"),
        (28374, KeystoreFailed, "not in the keystore"),
    ],
)
def test_an_error_of_a_statement_is_told_and_costs_no_session(server, target, session, code, kind, words):
    before = server.connects
    server.faults.on(ON_ENCRYPTED, Fail(code), times=1)

    found = failed(lambda: run(session, target), kind)

    assert words in found
    assert "\n" not in found
    assert "Help" not in found
    assert run(session, target).work.decrypts == 128
    assert server.connects == before


def test_a_closed_keystore_fails_the_encrypted_twin_only(server, target, session):
    pair = target.pairs[0]
    server.database.keystores[2].status = "CLOSED"

    failed(lambda: run(session, target), KeystoreFailed)
    assert run(session, target, Slot.B).work.decrypts == 0
    facts = session.verify(pair, 5.0)
    assert (facts.a.encrypted, facts.b.encrypted) == (True, False)
    assert "keystore is not open" in facts.problem

    server.database.keystores[2].status = "OPEN"
    assert session.verify(pair, 5.0).valid
    assert run(session, target).work.decrypts == 128


# -- roles -----------------------------------------------------------------------------------------


def test_a_switchover_is_seen_in_the_next_cycle(server, target, session):
    pair = target.pairs[0]
    before = session.verify(pair, 5.0)
    assert (session.facts().role, session.facts().open_mode) == ("primary", "read_write")

    server.database.become("PHYSICAL STANDBY", "READ ONLY WITH APPLY")
    server.end_sessions()
    until(lambda: server.connections == 0, "the sessions to end")
    after = session.verify(pair, 5.0)

    assert (session.facts().role, session.facts().open_mode) == ("physical_standby", "read_only_with_apply")
    assert after.valid
    assert after.epoch != before.epoch
    assert session.prepare(pair, 5.0).connects == 1
    assert run(session, target).work.decrypts == 128


def test_a_database_that_is_mounted_now_has_no_tables(server, target, session):
    server.database.become("PHYSICAL STANDBY", "MOUNTED")

    assert "mounted" in failed(lambda: session.verify(target.pairs[0], 5.0), Unavailable)
    failed(lambda: run(session, target), Unavailable)
    assert session.activity(5.0).decrypts is not None
    assert session.facts().open_mode == "mounted"


# -- counters --------------------------------------------------------------------------------------

OWN = {"TDE.MAIN_ENCRYPTED", "TDE.MAIN_PLAIN"}
ALL = {
    "V_$STATNAME",
    "V_$SESSTAT",
    "V_$MYSTAT",
    "V_$SESS_TIME_MODEL",
    "V_$DATABASE",
    "V_$PARAMETER",
    "V_$VERSION",
    "V_$ENCRYPTED_TABLESPACES",
    "V_$TABLESPACE",
    "DBA_TABLESPACES",
}


@pytest.fixture
def narrow(make_server, tmp_path):
    """A session of an account with some grants, on twins that somebody else has made."""
    sessions = []

    def make(grants, **more):
        server = make_server(database=engine_database(app=set(grants) | OWN))
        owner = target_of(server, tmp_path, **more)
        with opened(owner, provisioned=True):
            pass
        server.database.tables[0].costs = {"*": Cost(cpu=constant(0.002), latency=constant(0.003))}
        target = target_of(server, tmp_path, user="app", **more)
        session = registry.make(target).open(5.0)
        assert isinstance(session, Session)
        sessions.append(session)
        session.verify(target.pairs[0], 5.0)
        session.prepare(target.pairs[0], 5.0)
        return server, target, session

    yield make
    for session in sessions:
        session.close()


@pytest.mark.parametrize(
    ("missing", "cpu_source", "cpu", "server_seconds"),
    [
        (set(), "session", 0.002, 0.003),
        ({"V_$SESSTAT"}, "session+reading", 0.002, None),
        ({"V_$SESS_TIME_MODEL"}, "", None, None),
        ({"V_$SESSTAT", "V_$SESS_TIME_MODEL"}, "", None, None),
    ],
    ids=["all", "own session", "no times", "own session without times"],
)
def test_counters_are_what_the_account_may_read(narrow, missing, cpu_source, cpu, server_seconds):
    _, target, session = narrow(ALL - missing)
    work = run(session, target).work

    assert (work.decrypts, work.blocks_read, work.encrypts) == (128, 128, 0)
    assert work.cpu_seconds == (None if cpu is None else pytest.approx(cpu))
    assert work.server_seconds == (None if server_seconds is None else pytest.approx(server_seconds))
    assert (session.facts().cpu_source, session.facts().decrypt_source) == (cpu_source, "counter")
    problems = "; ".join(session.activity(5.0).problems)
    for grant in missing:
        assert f"SYS.{grant}" in problems


@pytest.mark.parametrize("missing", [{"V_$STATNAME"}, {"V_$SESSTAT", "V_$MYSTAT"}])
def test_without_counters_nothing_is_known_and_canaries_run(narrow, missing):
    _, target, session = narrow(ALL - missing)
    execution = run(session, target)

    assert set(execution.work.values()) == {None}
    assert execution.duration > 0
    assert session.facts().decrypt_source is None
    assert any(f"SYS.{grant}" in problem for grant in missing for problem in session.activity(5.0).problems)


def test_the_memory_that_was_set_for_the_cache_is_told(server, session):
    settings = server.database.parameters
    assert session.activity(5.0).buffer_bytes is None
    for name in ("db_cache_size", "sga_target", "memory_target"):
        settings |= {name: str(len(name) * 2**20)}
        assert session.activity(5.0).buffer_bytes == len(name) * 2**20
    settings["memory_target"] = "0"
    assert session.activity(5.0).buffer_bytes == len("sga_target") * 2**20


def test_grants_that_are_missing_for_activity_are_named(narrow):
    _, _, session = narrow(ALL)
    activity = session.activity(5.0)

    assert (activity.decrypts, activity.decrypt_source, activity.cpu_seconds) == (None, None, None)
    for view in ("V_$SYSSTAT", "V_$SYS_TIME_MODEL", "V_$OSSTAT"):
        assert any(f"READ ON SYS.{view}" in problem for problem in activity.problems)


def test_without_any_grant_but_on_the_twins_latency_is_measured(narrow):
    _, target, session = narrow({"DBA_TABLESPACES"})

    assert session.verify(target.pairs[0], 5.0).valid
    assert run(session, target).duration > 0
    facts = session.facts()
    assert (facts.role, facts.open_mode, facts.block_bytes) == ("primary", "", 8192)
    problems = session.activity(5.0).problems
    assert any("V_$DATABASE" in problem for problem in problems)
    assert any(problem.startswith("the size of the buffer cache") and "V_$PARAMETER" in problem for problem in problems)


def test_a_twin_whose_tablespace_may_not_be_looked_up_is_of_unknown_state(narrow):
    _, target, session = narrow(ALL - {"DBA_TABLESPACES", "V_$ENCRYPTED_TABLESPACES"})
    facts = session.verify(target.pairs[0], 5.0)

    assert (facts.a.encrypted, facts.attribution) == (None, None)
    assert "DBA_TABLESPACES" in facts.problem


def test_one_source_of_the_state_of_tablespaces_is_enough(narrow):
    for missing in ("DBA_TABLESPACES", "V_$ENCRYPTED_TABLESPACES"):
        _, target, session = narrow(ALL - {missing})
        assert session.verify(target.pairs[0], 5.0).valid


def test_a_release_without_the_statistic_leaves_decrypts_unknown(server, target, session):
    server.database.missing_statistics = {"blocks decrypted", "blocks encrypted"}
    server.end_sessions()
    until(lambda: server.connections == 0, "the sessions to end")
    session.prepare(target.pairs[0], 5.0)
    work = run(session, target).work

    assert (work.decrypts, work.encrypts, work.blocks_read) == (None, None, 128)
    assert session.facts().decrypt_source is None
    assert any("blocks decrypted" in problem for problem in session.activity(5.0).problems)


def test_on_another_instance_of_a_cluster_the_canary_counts_for_itself(server, target):
    with opened(target) as session:
        # The control connection is on instance 1, the next one lands on instance 2.
        server.database.instance_number = 2
        make_ready(session, target)
        work = run(session, target).work

        assert (work.decrypts, work.server_seconds) == (128, None)
        assert session.facts().cpu_source == "session+reading"


def test_counters_that_begin_anew_are_unknown_for_that_run(server, target, session):
    assert run(session, target).work.decrypts == 128
    canary = next(seat for seat in server.database.seats.values() if seat.action.startswith("canary"))
    canary.counters.bump("blocks decrypted", 10**12)
    running = threading.Thread(target=canary.counters.reset)
    server.faults.on(ON_ENCRYPTED, Slow(0.3), times=1)
    timer = threading.Timer(0.15, running.start)
    timer.start()
    work = run(session, target).work
    timer.join()

    assert work.decrypts is None
    assert run(session, target).work.decrypts == 128


def test_counters_beyond_what_a_float_holds_are_exact(server, target, session):
    canary = next(seat for seat in server.database.seats.values() if seat.action.startswith("canary"))
    canary.counters.bump("blocks decrypted", 2**60 + 1)

    assert run(session, target).work.decrypts == 128


def test_the_clock_of_the_database_decides_when_asked_for(server, tmp_path):
    target = target_of(server, tmp_path, clock="server")
    with opened(target, provisioned=True) as session:
        assert session.facts().clock == "server"
        assert run(session, target).work.server_seconds is not None


# -- columns ---------------------------------------------------------------------------------------


def test_a_column_pair_counts_the_values_that_are_read(server, tmp_path):
    target = target_of(server, tmp_path, pairs=(COLUMN,))
    with opened(target, provisioned=True) as session:
        facts = session.facts()
        assert (facts.scope, facts.decrypt_unit, facts.decrypt_source) == ("column", "value", "proxy")
        wanted = {
            Operation.POINT_SELECT: 1,
            Operation.RANGE_SELECT: 300,
            Operation.FULL_SCAN: 3000,
            Operation.LOB_READ: 1,
        }
        for operation, values in wanted.items():
            works = [run(session, target, slot, operation).work for slot in Slot]
            assert [work.decrypts for work in works] == [values, 0], operation
            assert [work.encrypts for work in works] == [0, 0]


def test_beside_blocks_values_are_unknown(server, tmp_path):
    target = target_of(server, tmp_path, pairs=(MAIN, COLUMN))
    with opened(target, provisioned=True) as session:
        assert session.facts().decrypt_unit == "block"
        assert run(session, target, pair=0).work.decrypts == 128
        assert run(session, target, pair=1).work.decrypts is None


# -- settings of sessions --------------------------------------------------------------------------


def test_hidden_parameters_are_set_only_when_asked_for(make_server, tmp_path):
    for wanted in (False, True):
        server = make_server()
        target = target_of(server, tmp_path, serial_direct_read=wanted, smart_scan=wanted)
        with opened(target, provisioned=True) as session:
            canary = next(seat for seat in server.database.seats.values() if seat.action.startswith("canary"))
            control = next(seat for seat in server.database.seats.values() if seat.action.startswith("control"))
            assert canary.settings.get("_SERIAL_DIRECT_READ") == ("ALWAYS" if wanted else None)
            assert canary.settings.get("CELL_OFFLOAD_PROCESSING") == (None if wanted else "FALSE")
            assert not {"_SERIAL_DIRECT_READ", "CELL_OFFLOAD_PROCESSING"} & control.settings.keys()
            scans = [run(session, target, operation=Operation.FULL_SCAN).work.decrypts for _ in range(3)]
        # 120 blocks: cached after the first scan, unless every scan is read directly.
        assert scans[1:] == ([120, 120] if wanted else [0, 0])


def test_nothing_that_canaries_do_empties_a_cache_or_changes_the_instance(server, target, session):
    for operation in sorted(registry.engine_type("oracle").operations):
        canary_of(target, operation, 2).tick(session, session.verify(target.pairs[0], 5.0))
    texts = [" ".join(each.sql.upper().split()) for each in server.executed]

    assert not [text for text in texts if "FLUSH" in text or text.startswith("ALTER SYSTEM")]


def test_a_user_of_the_root_is_told_apart_by_its_container(server, target):
    server.database.users["C##MON"] = User("secret")
    with opened(target.model_copy(update={"user": "c##mon", "service": "orcl"})) as session:
        assert session.facts().role == "primary"
        assert session.activity(5.0).decrypts == 0
