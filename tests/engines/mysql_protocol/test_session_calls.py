"""The session as the daemon uses it: which servers it takes, its deadlines, its end, and connections that are lost."""

import threading

import pytest

from exporter.domain.errors import (
    Cancelled,
    ConnectFailed,
    DeadlineExceeded,
    KeystoreFailed,
    LockTimeout,
    TargetError,
    Unsupported,
)
from exporter.domain.model import Operation, Slot
from exporter.domain.states import KeystoreState, LagKind
from exporter.engines import registry
from tests.engines.mysql_protocol.canary_targets import measurable, opened, run_both, target_of
from tests.narrowing import known
from tests.processes import until
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer
from tests.stopwatch import Stopwatch

ROWS = 5_000
CANARIES = (
    "SELECT id AS id, info AS info FROM information_schema.processlist WHERE info LIKE '/* tde-exporter canary%%'"
)


@pytest.fixture(scope="module", params=["11.8", "mysql"])
def server(request):
    kind = request.param
    with MySqlServer(binlog=True) if kind == "mysql" else MariaDbServer(kind, encrypt_redo=True) as started:
        yield started


@pytest.fixture
def target(server, tmp_path):
    return target_of(server, tmp_path, rows=ROWS)


def canary_of(session):
    return session._canaries["main"].connection


def point(session, target, slot=Slot.A, key=1, timeout=10.0):
    return session.run(target.pairs[0], slot, Operation.POINT_SELECT, key, timeout)


def test_facts_tell_the_server(server, target):
    with measurable(target) as (session, _):
        facts = session.facts()

    mysql = server.binaries == "mysql"
    assert facts.flavor == ("mysql" if mysql else "mariadb")
    assert facts.version.startswith("9." if mysql else "11.8.")
    assert facts.role == "standalone"
    assert facts.open_mode == "read_write"
    assert facts.cpu_source == "thread+background"
    assert (facts.decrypt_unit, facts.decrypt_source) == ("block", "proxy" if mysql else "counter")
    assert facts.clock == ("server" if mysql else "client")
    assert facts.block_bytes == 16384
    assert facts.scope == "tablespace"
    assert facts.shared_costs == ("" if mysql else "redo")


def test_a_server_that_others_replicate_from_and_its_replica_tell_their_roles(mariadb_pair, tmp_path):
    def role(server):
        with opened(target_of(server, tmp_path)) as session:
            return session.facts().role

    primary, replica = mariadb_pair
    until(lambda: role(primary) == "primary", "the replica to have logged in")
    assert role(replica) == "replica"


def test_a_read_only_server_says_so(make_mariadb, tmp_path):
    with opened(target_of(make_mariadb("10.11", options={"read-only": ""}), tmp_path)) as session:
        assert session.facts().open_mode == "read_only"


def test_the_wrong_engine_is_refused_and_the_right_one_named(server, target):
    other = "mariadb" if target.engine == "mysql" else "mysql"
    values = target.model_dump(exclude={"engine", "pairs", "schema_name"}, exclude_unset=True)
    wrong = registry.target_types()[other].model_validate(values | {"engine": other})

    with pytest.raises(Unsupported, match=f"write `engine: {target.engine}`"):
        registry.make(wrong).open(10.0)
    until(lambda: not server.query(CANARIES.replace("canary", "control")), "its session to end")


def test_preparing_connects_once_and_again_after_the_connection_was_killed(server, target):
    with measurable(target) as (session, _):
        pair = target.pairs[0]
        assert session.prepare(pair, 10.0).connects == 0
        first = canary_of(session).id
        server.query(f"KILL {first}")

        assert session.prepare(pair, 10.0).connects == 1
        assert canary_of(session).id != first
        assert point(session, target).duration > 0


def test_a_connection_that_is_killed_in_between_costs_one_run_at_most(server, target):
    with measurable(target) as (session, _):
        server.query(f"KILL {canary_of(session).id}")
        with pytest.raises(ConnectFailed):
            point(session, target)


def test_a_locked_twin_keeps_its_deadline_and_the_session_goes_on(server, target):
    with measurable(target) as (session, _), server.connect() as blocker:
        kept = canary_of(session).id
        blocker.cursor().execute("LOCK TABLES canary.main_plain WRITE")
        watch = Stopwatch()
        with pytest.raises(DeadlineExceeded):
            point(session, target, Slot.B, timeout=0.3)
        took, passed = watch.seconds, watch.passed
        assert point(session, target, Slot.A).duration > 0
        with pytest.raises(LockTimeout):
            point(session, target, Slot.B, timeout=20.0)
        blocker.cursor().execute("UNLOCK TABLES")

        # The server ends it, and may have to wait for a processor as well.
        assert passed >= 0.2
        assert took < 5.0
        assert point(session, target, Slot.B).duration > 0
        assert canary_of(session).id == kept


def test_a_frozen_server_keeps_its_deadline_and_the_next_call_finds_its_way_back(server, target):
    with measurable(target) as (session, _):
        before = point(session, target, key=5).answer
        server.freeze()
        try:
            for _ in range(2):
                watch = Stopwatch()
                with pytest.raises(TargetError):
                    point(session, target, timeout=0.4)
                assert watch.seconds < 0.4 + 5 * 0.1
            watch = Stopwatch()
            with pytest.raises(TargetError):
                session.activity(0.4)
            assert watch.seconds < 0.4 + 5 * 0.1
        finally:
            server.thaw()

        def works_again():
            try:
                return point(session, target, key=5).answer == before
            except DeadlineExceeded:
                return False

        until(works_again, "the session to work again")
        assert session.verify(target.pairs[0], 10.0).valid


def test_a_query_that_was_cut_off_does_not_go_on_at_the_server(server, target):
    """The server is held while the deadline passes, so that its own limit cannot be what ends the query."""
    with measurable(target) as (session, _):
        canary = canary_of(session)
        running = threading.Thread(target=lambda: _ignored(canary.row, "SELECT SLEEP(60)", timeout=1.0))
        canary._limit = 0.9  # as if told already: the server knows of no limit
        running.start()
        until(lambda: server.query(CANARIES), "the query to run")
        canary._line.cut()
        running.join(50.0)
        session._orphans.append(canary.id)

        assert point(session, target).duration > 0
        until(lambda: not server.query(CANARIES), "the orphan to be ended")


def _ignored(call, *args, **named):
    try:
        call(*args, **named)
    except TargetError:
        return


def test_a_deadline_that_is_too_short_for_anything_is_kept_and_costs_no_connection(server, target):
    with measurable(target) as (session, _):
        kept = canary_of(session).id
        for operation in sorted(registry.engine_type(target.engine).operations):
            with pytest.raises(DeadlineExceeded):
                session.run(target.pairs[0], Slot.A, operation, 0, 1e-7)

        assert point(session, target).duration > 0
        assert canary_of(session).id == kept


def test_closing_from_another_thread_ends_what_runs_at_once(server, target):
    with measurable(target) as (session, _), server.connect() as blocker:
        blocker.cursor().execute("LOCK TABLES canary.main_plain WRITE")
        ended = []

        def run():
            try:
                point(session, target, Slot.B, timeout=30.0)
            except TargetError as error:
                ended.append(type(error))

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: server.query(CANARIES), "the query to run")
        watch = Stopwatch()
        session.close()
        thread.join(50.0)

        assert watch.seconds < 5.0
        assert ended == [Cancelled]
        with pytest.raises(Cancelled):
            session.activity(1.0)


def test_closing_a_session_whose_server_is_frozen_takes_no_time(server, target):
    with measurable(target) as (session, _):
        server.freeze()
        try:
            watch = Stopwatch()
            session.close()
            session.close()
            assert watch.seconds < 5.0
        finally:
            server.thaw()


def test_nothing_of_a_closed_session_is_left_on_the_server(server, target):
    before = {row["id"] for row in server.query("SELECT id AS id FROM information_schema.processlist")}
    with measurable(target) as (session, _):
        run_both(target, session, runs=2)
        own = {session._control.id, canary_of(session).id}
    until(
        lambda: not own & {row["id"] for row in server.query("SELECT id AS id FROM information_schema.processlist")},
        "the sessions to end",
    )
    assert not own & before


@pytest.mark.parametrize("kind", ["11.8", "mysql"])
def test_a_lost_key_is_told_as_that_and_the_plain_twin_goes_on(kind, tmp_path):
    """The server is started again without its key; MariaDB itself says that the table is damaged."""
    with MySqlServer() if kind == "mysql" else MariaDbServer(kind) as server:
        target = target_of(server, tmp_path, rows=ROWS)
        with measurable(target):
            pass
        server.remove_key()
        server.restart()
        with opened(target) as session:
            facts = session.verify(target.pairs[0], 20.0)
            session.prepare(target.pairs[0], 10.0)
            assert not facts.valid
            with pytest.raises(KeystoreFailed):
                point(session, target, Slot.A)
            assert point(session, target, Slot.B).duration > 0
        server.restore_key()
        server.restart()
        with measurable(target) as (session, _):
            assert point(session, target).duration > 0


def test_activity_tells_the_instance_and_its_host(server, target):
    with measurable(target) as (session, _):
        first = session.activity(10.0)
        run_both(target, session, Operation.FULL_SCAN, runs=5)
        second = session.activity(10.0)

    assert first.decrypt_unit == "block"
    assert first.decrypt_source == session.facts().decrypt_source
    assert known(second.decrypts) >= known(first.decrypts)
    assert known(second.encrypts) >= known(first.encrypts) > 0
    assert known(second.cpu_seconds) >= known(first.cpu_seconds) > 0
    assert known(second.reads) >= known(first.reads) > 0
    assert 0 <= known(second.buffer_hit_ratio) <= 1
    assert 0 <= known(second.host_cpu_ratio) <= 1
    assert known(second.host_cpus) >= 1
    assert second.host_aes is not None
    if server.binaries == "mysql":
        assert known(second.read_seconds) > 0
        assert second.problems == ()
    else:
        assert second.read_seconds is None
        assert [words for words in second.problems if "performance_schema=ON" in words]


def test_decrypts_of_mysql_go_on_when_an_encrypted_table_vanishes(mysql, tmp_path):
    target = target_of(mysql, tmp_path, rows=ROWS, schema="vanishing")
    engine = registry.make(target)
    session = engine.open(10.0)
    session.provision(target.pairs[0], lambda *_: None, 60.0)
    before = session.activity(10.0)
    session.drop(target.pairs[0], 10.0)
    after = session.activity(10.0)
    session.close()
    again = engine.open(10.0)
    reopened = again.activity(10.0)
    again.close()
    mysql.query("DROP DATABASE vanishing")

    assert known(before.encrypts) > 50
    assert known(after.encrypts) >= known(before.encrypts)
    assert known(reopened.encrypts) >= known(after.encrypts)


def test_a_twin_in_a_general_tablespace_is_counted_by_the_file_of_that(mysql, tmp_path):
    mysql.query("CREATE TABLESPACE canary_space ADD DATAFILE 'elsewhere.ibd' ENCRYPTION='Y'")
    pairs = ({"name": "main", "rows": ROWS, "tablespace": "canary_space"},)
    target = target_of(mysql, tmp_path, schema="general", pairs=pairs)
    try:
        with measurable(target) as (session, _):
            work = run_both(target, session)
            files = session._canaries["main"].counters._names
    finally:
        mysql.query("DROP DATABASE general")
        mysql.query("DROP TABLESPACE canary_space")

    assert files["main_encrypted"].endswith("/elsewhere.ibd")
    assert files["main_plain"].endswith("/general/main_plain.ibd")
    assert all(one.blocks_read is not None for slot in Slot for one in work[slot])


def test_heartbeats_and_standbys_are_told_through_the_session(mariadb_pair, tmp_path):
    primary, replica = mariadb_pair
    secret = tmp_path / "replica.secret"
    secret.write_text(replica.password)
    standby = {"name": "near", "socket": replica.socket, "user": replica.user, "password": {"file": str(secret)}}
    target = target_of(primary, tmp_path, rows=1_000, schema="beating", standbys=(standby,))
    with opened(target, provisioned=True) as session:

        def caught_up():
            session.heartbeat(5.0)
            (state,) = session.standbys(5.0)
            return state.lag(LagKind.HEARTBEAT) is not None and state.apply_running

        until(caught_up, "the replica to show a heartbeat")
        (state,) = session.standbys(5.0)
    primary.query("DROP DATABASE beating")

    assert (state.standby, state.transport_running) == ("near", True)


def test_the_encryption_state_is_told_through_the_session(server, target):
    with measurable(target) as (session, _):
        state = session.encryption_state(10.0)

    assert [keystore.state for keystore in state.keystores] == [KeystoreState.OPEN]
