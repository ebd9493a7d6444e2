"""What becomes of the counters when a grant is missing, a feature is off, or the server runs elsewhere: unknown, in words."""

import random

import pytest

from exporter.domain.errors import Unavailable
from exporter.domain.model import Operation, Slot
from tests.engines.mysql_protocol.canary_targets import measurable, opened, run_both, target_of, wait_for_quiet
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer
from tests.servers.server import Server

ROWS = 40_000
FILES = "performance_schema.file_summary_by_instance"
HISTORY = "performance_schema.events_statements_history"


@pytest.fixture(scope="module")
def mysql_server():
    with MySqlServer(buffer_pool_mb=8) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb_server():
    with MariaDbServer("11.8", buffer_pool_mb=8) as server:
        yield server


@pytest.fixture(scope="module")
def prepared(mysql_server, mariadb_server, tmp_path_factory):
    """Twins on both, made once by root."""
    for server in (mysql_server, mariadb_server):
        with opened(target_of(server, tmp_path_factory.mktemp("made"), rows=ROWS), provisioned=True):
            pass


@pytest.fixture
def account(prepared, tmp_path):
    """Makes an account that may read the twins, and a target that logs in with it."""
    made: list[tuple[Server, str]] = []

    def make(server, *grants):
        user = f"narrow{len(made)}"
        password = server.create_user(user, grants=["SELECT ON `canary`.*", *grants])
        made.append((server, user))
        return target_of(server, tmp_path, rows=ROWS, account=(user, password))

    yield make
    for server, user in made:
        server.query(f"DROP USER '{user}'@'%'")


@pytest.fixture
def elsewhere(tmp_path):
    """Stands for /proc on a machine where the server is not."""
    folder = tmp_path / "proc"
    folder.mkdir()
    return folder


def known(work, field):
    """Whether a field of the runs is known on (slot a, slot b): all of them, or none."""
    found = [{getattr(one, field) is not None for one in work[slot]} for slot in Slot]
    assert all(len(answers) == 1 for answers in found), found
    return tuple(answers.pop() for answers in found)


def test_mysql_without_the_performance_schema_knows_neither_reads_nor_time(account, mysql_server, elsewhere):
    target = account(mysql_server, "PROCESS ON *.*")
    with measurable(target, hide=elsewhere) as (session, _):
        work = run_both(target, session)
        facts, problems = session.facts(), " | ".join(session.activity(5.0).problems)

    assert known(work, "blocks_read") == (False, False)
    assert known(work, "decrypts") == (False, True)
    assert known(work, "server_seconds") == known(work, "cpu_seconds") == (False, False)
    assert {one.decrypts for one in work[Slot.B]} == {0}
    assert (facts.clock, facts.decrypt_source, facts.cpu_source) == ("client", None, "")
    assert f"GRANT SELECT ON {FILES}" in problems
    assert f"GRANT SELECT ON {HISTORY}" in problems


@pytest.mark.parametrize(
    ("grants", "reads", "clock"),
    [((FILES,), True, "client"), ((HISTORY,), False, "server"), ((FILES, HISTORY), True, "server")],
)
def test_each_grant_of_mysql_makes_its_own_counter_known(account, mysql_server, elsewhere, grants, reads, clock):
    target = account(mysql_server, "PROCESS ON *.*", *(f"SELECT ON {table}" for table in grants))
    with measurable(target, hide=elsewhere) as (session, _):
        work = run_both(target, session)
        facts = session.facts()

    assert known(work, "blocks_read") == (reads, reads)
    assert facts.decrypt_source == ("proxy" if reads else None)
    assert facts.clock == clock
    assert known(work, "server_seconds") == ((True, True) if clock == "server" else (False, False))


def test_mysql_tells_the_cpu_of_statements_once_a_dba_lets_it(account, mysql_server, elsewhere):
    """Scans stay unknown: half of what they decrypt is decrypted by other threads."""
    target = account(mysql_server, "PROCESS ON *.*", "SELECT ON performance_schema.*")
    with measurable(target, hide=elsewhere) as (session, _):
        assert session.facts().cpu_source == ""
        assert any("events_statements_cpu" in words for words in session.activity(5.0).problems)
    switch = "UPDATE performance_schema.setup_consumers SET ENABLED='{}' WHERE NAME='events_statements_cpu'"
    mysql_server.query(switch.format("YES"))
    try:
        with measurable(target, hide=elsewhere) as (session, _):
            points = run_both(target, session)
            scans = run_both(target, session, Operation.FULL_SCAN, runs=2)
            facts = session.facts()
    finally:
        mysql_server.query(switch.format("NO"))

    assert facts.cpu_source == "statement"
    assert known(points, "cpu_seconds") == (True, True)
    assert all(0 < one.cpu_seconds < 0.05 for slot in Slot for one in points[slot])
    assert known(scans, "cpu_seconds") == (False, False)


def test_a_switched_off_history_makes_runs_fail_and_the_next_preparation_goes_on_by_our_own_clock(
    account, mysql_server
):
    target = account(mysql_server, "PROCESS ON *.*", "SELECT ON performance_schema.*")
    pair = target.pairs[0]
    switch = "UPDATE performance_schema.setup_consumers SET ENABLED='{}' WHERE NAME='events_statements_history'"
    with measurable(target) as (session, _):
        assert session.facts().clock == "server"
        mysql_server.query(switch.format("NO"))
        try:
            with pytest.raises(Unavailable, match="how long the query took"):
                session.run(pair, Slot.A, Operation.POINT_SELECT, 1, 5.0)
            prepared = session.prepare(pair, 10.0)
            assert prepared.connects == 1
            assert session.facts().clock == "client"
            assert session.run(pair, Slot.A, Operation.POINT_SELECT, 1, 5.0).work.server_seconds is None
        finally:
            mysql_server.query(switch.format("YES"))
    with measurable(target) as (session, _):
        assert session.facts().clock == "server"


def test_mariadb_counts_what_it_decrypts_without_any_grant(account, mariadb_server):
    target = account(mariadb_server, "PROCESS ON *.*")
    with measurable(target) as (session, _):
        wait_for_quiet(session)
        work = run_both(target, session, runs=50)
        facts = session.facts()

    assert facts.decrypt_source == "counter"
    assert sum(one.decrypts for one in work[Slot.A]) > 25
    assert {one.decrypts for one in work[Slot.B]} == {0}
    assert sum(one.blocks_read for one in work[Slot.B]) > 25


def test_mariadb_elsewhere_tells_cpu_only_with_userstat(account, mariadb_server, elsewhere):
    target = account(mariadb_server, "PROCESS ON *.*")
    with measurable(target, hide=elsewhere) as (session, _):
        work = run_both(target, session)
        assert known(work, "cpu_seconds") == (False, False)
        assert session.facts().cpu_source == ""
        assert any("userstat=ON" in words for words in session.activity(5.0).problems)
    mariadb_server.query("SET GLOBAL userstat=ON")
    try:
        with measurable(target, hide=elsewhere) as (session, _):
            points = run_both(target, session, runs=40)
            scans = run_both(target, session, Operation.RANGE_SELECT, runs=3)
            assert session.facts().cpu_source == "session"
    finally:
        mariadb_server.query("SET GLOBAL userstat=OFF")

    assert known(points, "cpu_seconds") == (True, True)
    mean = sum(one.cpu_seconds for slot in Slot for one in points[slot]) / 80
    assert 3e-6 < mean < 2e-3
    assert known(scans, "cpu_seconds") == (False, False)


def test_userstat_that_is_switched_off_leaves_cpu_unknown_and_never_zero(account, mariadb_server, elsewhere):
    target = account(mariadb_server, "PROCESS ON *.*")
    mariadb_server.query("SET GLOBAL userstat=ON")
    try:
        with measurable(target, hide=elsewhere) as (session, _):
            run_both(target, session)
            mariadb_server.query("SET GLOBAL userstat=OFF")
            work = run_both(target, session)
    finally:
        mariadb_server.query("SET GLOBAL userstat=OFF")

    assert all(one.cpu_seconds is None for one in work[Slot.B][5:])


def test_others_who_read_encrypted_tables_make_mariadbs_counts_unknown_and_words_say_why(
    account, mariadb_server, tmp_path
):
    """The rest of the server is another session of ours on another pair, which scans all the time."""
    target = account(mariadb_server, "PROCESS ON *.*")
    other = target_of(mariadb_server, tmp_path, rows=ROWS, schema="other")
    with opened(other, provisioned=True) as noisy, measurable(target) as (session, _):
        wait_for_quiet(session)
        pair, rng, last = target.pairs[0], random.Random(3), []
        for _ in range(60):
            key = rng.randrange(2**31)
            for slot in Slot:
                before = session._canaries["main"].counters.before
                session._canaries["main"].counters.before = _disturbed(before, noisy, other)
                last.append(session.run(pair, slot, Operation.POINT_SELECT, key, 10.0).work)
                session._canaries["main"].counters.before = before
        problems = session.activity(5.0).problems

    assert last[-2].decrypts is None
    assert last[-2].blocks_read is last[-1].blocks_read is None
    assert last[-1].decrypts == 0
    assert any("others read as well" in words for words in problems)


def _disturbed(before, noisy, other):
    """Reads encrypted pages of another table between the first reading of the counters and the query."""

    def reading(*args):
        mark = before(*args)
        noisy.run(other.pairs[0], Slot.A, Operation.RANGE_SELECT, random.randrange(2**31), 10.0)
        return mark

    return reading


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_verification_decides_whose_pages_count_as_decrypted(kind, request, account):
    server = request.getfixturevalue(f"{kind}_server")
    target = account(server, "PROCESS ON *.*", "SELECT ON performance_schema.*")
    with opened(target) as session:
        session.prepare(target.pairs[0], 10.0)
        unverified = run_both(target, session)
        session.verify(target.pairs[0], 10.0)
        verified = run_both(target, session)

    assert known(unverified, "decrypts") == (False, False)
    assert {one.decrypts for one in verified[Slot.B]} == {0}


@pytest.fixture(scope="module")
def talkative_mariadb():
    """With everything switched on that a DBA may switch on."""
    consumers = ("events_statements_current", "events_statements_history")
    with MariaDbServer(
        "10.11", buffer_pool_mb=8, performance_schema=True, consumers=consumers, userstat=True
    ) as server:
        yield server


@pytest.mark.parametrize("hidden", [False, True])
def test_mariadb_with_everything_switched_on_tells_everything(talkative_mariadb, tmp_path, elsewhere, hidden):
    """The question for the session's CPU is a statement as well, and must not be taken for the query."""
    target = target_of(talkative_mariadb, tmp_path, rows=ROWS)
    with measurable(target, hide=elsewhere if hidden else None) as (session, _):
        work = run_both(target, session, runs=40)
        facts, activity = session.facts(), session.activity(5.0)

    assert facts.clock == "server"
    assert facts.cpu_source == ("session" if hidden else "thread+background")
    assert facts.decrypt_source == "counter"
    for slot in Slot:
        for one in work[slot]:
            assert 0 < one.server_seconds < 1
            assert one.cpu_seconds is not None
            assert one.decrypts <= one.blocks_read
    assert sum(one.decrypts for one in work[Slot.A]) > 20
    assert sum(one.blocks_read for one in work[Slot.B]) > 20
    assert {one.decrypts for one in work[Slot.B]} == {0}
    assert activity.read_seconds > 0
    assert activity.problems == ()
    # The query's own time, not that of the question after it: a scan takes longer than asking.
    with measurable(target, hide=elsewhere if hidden else None) as (session, _):
        scan = session.run(target.pairs[0], Slot.B, Operation.FULL_SCAN, 1, 10.0)
    assert scan.work.server_seconds > 0.003


def test_reads_of_others_are_not_ours_where_mariadb_counts_each_file(talkative_mariadb, tmp_path):
    target = target_of(talkative_mariadb, tmp_path, rows=ROWS)
    other = target_of(talkative_mariadb, tmp_path, rows=ROWS, schema="other")
    with opened(other, provisioned=True) as noisy, measurable(target) as (session, _):
        counters = session._canaries["main"].counters
        counters.before = _disturbed(counters.before, noisy, other)
        work = run_both(target, session, runs=20)

    assert all(one.decrypts <= one.blocks_read <= 10 for one in work[Slot.A])
    assert {one.decrypts for one in work[Slot.B]} == {0}
