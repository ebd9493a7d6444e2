"""What every engine must do.

An engine joins by a case: how to make a target in an empty folder, and how to break it.
"""

import threading
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import apsw
import pytest

from exporter.config.schema import StandbySettings
from exporter.domain.errors import Cancelled, DeadlineExceeded, TargetError, Unsupported
from exporter.domain.model import Execution, Operation, Slot, Variant
from exporter.domain.states import KeystoreState, LagKind
from exporter.engines import registry
from exporter.engines.base import Verdict
from exporter.engines.fake.settings import Fault, Side, Standby
from exporter.engines.fake.settings import Target as FakeTarget
from exporter.engines.sqlite.settings import Pair
from exporter.engines.sqlite.settings import Target as SqliteTarget
from exporter.probing.operations import CATALOGUE
from tests.engines.mysql_protocol.canary_targets import target_of
from tests.engines.oracle import standin_targets
from tests.oracle_standin.faults import Hang
from tests.processes import until
from tests.servers.server import Server
from tests.stopwatch import Stopwatch

COMMITTING = {Operation.INSERT_BATCH, Operation.UPDATE_BATCH, Operation.DELETE_REPLENISH}

SCHEMA = "contract"

ENDLESS = """
DROP TABLE phonebook;
CREATE TABLE phonebook (
  id INTEGER PRIMARY KEY, name TEXT, region TEXT, number TEXT, area INTEGER AS (length(hex(zeroblob(20000 + id % 7))))
);
INSERT INTO phonebook (id, name, region, number)
  WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n LIMIT 300000) SELECT id, 'x', 'y', 'z' FROM n;
"""
"""Each row takes tens of microseconds, so that a scan of them takes many seconds, and can be ended at any time."""


class EngineCase(ABC):
    """One engine under test. The methods that break something are called with no session open."""

    always_cold = True
    """Whether the engine has operations that decrypt each time."""

    def __init__(self, folder, request):
        self.folder = folder
        self.target = self.make()

    @abstractmethod
    def make(self):
        """The settings of a healthy target in `self.folder`."""

    def close(self):  # noqa: B027 - most have nothing to do
        """Let go of what was started, and mend what was broken for others."""

    @abstractmethod
    def exchange(self):
        """Let the two slots swap what they hold."""

    @abstractmethod
    def break_plain(self):
        """Make the object in slot b unusable."""

    @abstractmethod
    def hang_plain(self):
        """Let full scans in slot b last far longer than anybody waits."""


class SqliteCase(EngineCase):
    def make(self):
        standbys = (StandbySettings(name="near"), StandbySettings(name="far"))
        pairs = (Pair(name="phonebook", rows=3000),)
        return SqliteTarget(name="embedded", pairs=pairs, standbys=standbys).resolved(self.folder)

    @property
    def files(self):
        return self.target.directory / "phonebook.encrypted.db", self.target.directory / "phonebook.plain.db"

    def exchange(self):
        first, second = self.files
        first.rename(self.folder / "aside")
        second.rename(first)
        (self.folder / "aside").rename(second)

    def break_plain(self):
        self.files[1].write_bytes(b"SQLite format 3\x00" + bytes(10_000))

    def hang_plain(self):
        connection = apsw.Connection(str(self.files[1]))
        connection.execute(ENDLESS)
        connection.close()


class FakeCase(EngineCase):
    def make(self):
        standbys = (Standby(name="near"), Standby(name="far"))
        return FakeTarget(name="scripted", a=Side(encrypted=True, latency=0.0012, decrypts=10), standbys=standbys)

    def _change(self, **what):
        self.target = self.target.model_copy(update=what)

    def exchange(self):
        self._change(a=self.target.b, b=self.target.a)

    def break_plain(self):
        self._change(b=Side(encrypted=None), faults=(Fault(kind="error", slot=Slot.B),))

    def hang_plain(self):
        self._change(faults=(Fault(kind="hang", slot=Slot.B),))


class ServerCase(EngineCase):
    """A schema on a server that all tests share: its twins stay for the next test, unless they were broken."""

    always_cold = False
    server_fixture: str
    used: ClassVar[set[Server]] = set()

    def __init__(self, folder, request):
        self.server = request.getfixturevalue(self.server_fixture)
        self.used.add(self.server)
        self._broken = False
        self._blocker = None
        super().__init__(folder, request)

    def make(self):
        return target_of(self.server, self.folder, rows=3000, schema=SCHEMA)

    def close(self):
        if self._blocker is not None:
            self._blocker.close()
        if self._broken:
            self.server.query(f"DROP DATABASE {SCHEMA}")

    def exchange(self):
        self._broken = True
        self.server.query(
            f"RENAME TABLE {SCHEMA}.main_plain TO {SCHEMA}.aside, {SCHEMA}.main_encrypted TO {SCHEMA}.main_plain,"
            f" {SCHEMA}.aside TO {SCHEMA}.main_encrypted"
        )

    def break_plain(self):
        self._broken = True
        self.server.query(f"DROP TABLE {SCHEMA}.main_plain")

    def hang_plain(self):
        self._blocker = self.server.connect()
        self._blocker.cursor().execute(f"LOCK TABLES {SCHEMA}.main_plain WRITE")


class MariaDbCase(ServerCase):
    server_fixture = "mariadb"


class MySqlCase(ServerCase):
    server_fixture = "mysql"


class OracleCase(EngineCase):
    """A stand-in of its own, for there is no Oracle database where tests run."""

    version = "19"

    def make(self):
        self.standin = standin_targets.standin(self.version)
        return standin_targets.target_of(self.standin, self.folder)

    def close(self):
        self.standin.close()
        assert self.standin.unknown == []

    def _twin(self, name):
        return self.standin.database.table("TDE", name, 3)

    def exchange(self):
        first, second = self._twin("MAIN_ENCRYPTED"), self._twin("MAIN_PLAIN")
        with self.standin.database.lock:
            first.tablespace, second.tablespace = second.tablespace, first.tablespace

    def break_plain(self):
        self.standin.database.tables.remove(self._twin("MAIN_PLAIN"))

    def hang_plain(self):
        self.standin.faults.on("SUM(ORA_HASH(payload)) AS digest FROM TDE.MAIN_PLAIN", Hang())


def oracle_case(version):
    return type(f"Oracle{version}Case", (OracleCase,), {"version": version})


CASES = {
    "sqlite": SqliteCase,
    "fake": FakeCase,
    "mariadb": MariaDbCase,
    "mysql": MySqlCase,
    **{f"oracle-{version}": oracle_case(version) for version in standin_targets.VERSIONS},
}
WITH_STANDBYS = pytest.mark.parametrize("case", ["fake", "sqlite"], indirect=True)
"""Those whose standbys need no server; replicas have tests of their own."""


@pytest.fixture(scope="module", autouse=True)
def _no_schema_is_left():
    yield
    for server in ServerCase.used:
        server.query(f"DROP DATABASE IF EXISTS {SCHEMA}")


@pytest.fixture(params=sorted(CASES))
def case(request, tmp_path):
    made = CASES[request.param](tmp_path, request)
    yield made
    made.close()


@pytest.fixture
def opened(case):
    """Opens sessions of the case's target with its twins provisioned, and closes them at the end."""
    sessions = []

    def open_session():
        session = registry.make(case.target).open(5.0)
        sessions.append(session)
        return session

    yield open_session
    for session in sessions:
        session.close()


@pytest.fixture
def session(case, opened):
    session = opened()
    session.provision(case.target.pairs[0], quiet, 30.0)
    return session


def quiet(_what, _share):
    pass


def provisioned_then(case, opened, breaking):
    """A session on a target that was healthy once and then broken."""
    before = opened()
    before.provision(case.target.pairs[0], quiet, 30.0)
    before.close()
    breaking()
    return opened()


def lasting(facts):
    """What two verifications of the same twins agree in: digests may be drawn anew, and statistics of pages grow."""
    a, b = (replace(twin, digest=None, rows_per_block=None) for twin in (facts.a, facts.b))
    return replace(facts, a=a, b=b)


def plainly(names):
    """Names without the quotes of their SQL. Engines that share a schema make and drop that along with the twins."""
    return {name.replace("`", "") for name in names}


def operations(case):
    return sorted(registry.engine_type(case.target.engine).operations)


def test_preparing_opens_no_more_sessions_than_the_engine_says(case, session):
    prepared = session.prepare(case.target.pairs[0], 5.0)

    assert 0 < prepared.connects <= registry.engine_type(case.target.engine).sessions_per_pair


def test_every_engine_has_a_case():
    assert set(registry.names()) == {name.partition("-")[0] for name in CASES}


def test_default_operations_are_among_those_it_can_do(case):
    assert set(case.target.canary_operations) <= set(operations(case))


def test_facts_name_the_database_and_what_can_be_counted(case, session):
    session.prepare(case.target.pairs[0], 5.0)
    facts = session.facts()

    assert facts.flavor
    assert facts.version
    assert facts.decrypt_unit in {"block", "value"}
    assert facts.decrypt_source in {"counter", "proxy"}
    assert facts.block_bytes in {2**power for power in range(9, 17)}
    assert facts.clock in {"client", "server"}


def test_provisioning_tells_its_progress_and_changes_nothing_the_second_time(case, opened):
    session, pair, shares = opened(), case.target.pairs[0], []
    session.provision(pair, lambda _what, share: shares.append(share), 30.0)
    facts = session.verify(pair, 5.0)
    answer = session.run(pair, Slot.A, Operation.POINT_SELECT, 7, 5.0).answer

    session.provision(pair, quiet, 30.0)

    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert lasting(session.verify(pair, 5.0)) == lasting(facts)
    assert session.run(pair, Slot.A, Operation.POINT_SELECT, 7, 5.0).answer == answer


def test_fresh_twins_are_valid(case, session):
    facts = session.verify(case.target.pairs[0], 5.0)

    assert facts.problem == ""
    assert facts.attribution == {Variant.ENCRYPTED: Slot.A, Variant.PLAIN: Slot.B}
    assert facts.a.algorithm
    assert facts.a.rows == facts.b.rows
    assert facts.epoch


def test_attribution_follows_the_data_and_starts_a_new_epoch(case, opened):
    pair, session = case.target.pairs[0], opened()
    session.provision(pair, quiet, 30.0)
    before = session.verify(pair, 5.0)
    session.close()
    case.exchange()

    after = opened().verify(pair, 5.0)

    assert after.valid
    assert after.attribution == {Variant.ENCRYPTED: Slot.B, Variant.PLAIN: Slot.A}
    assert after.epoch != before.epoch


def test_preparing_connects_once(case, session):
    pair = case.target.pairs[0]
    session.verify(pair, 5.0)
    first, second = session.prepare(pair, 5.0), session.prepare(pair, 5.0)

    assert first.connects > 0
    assert (second.connects, second.connect_seconds) == (0, 0.0)
    assert not first.changed
    assert not second.changed


def test_both_twins_answer_alike_and_report_what_they_did(case, session):
    pair = case.target.pairs[0]
    session.prepare(pair, 5.0)
    for operation in operations(case):
        for key in (0, 1, 12_345, 2**31 - 1):
            runs = [session.run(pair, slot, operation, key, 5.0) for slot in Slot]
            assert runs[0].answer == runs[1].answer, (operation, key)
            for run in runs:
                assert isinstance(run, Execution)
                assert min(run.execute_seconds, run.fetch_seconds, run.commit_seconds) >= 0.0
                assert run.duration > 0.0
                assert (run.commit_seconds > 0.0) == (operation in COMMITTING)


def test_a_key_chooses_the_row(case, session):
    pair = case.target.pairs[0]
    for operation in {Operation.POINT_SELECT, Operation.POINT_SELECT_COLD} & set(operations(case)):
        answers = {session.run(pair, Slot.A, operation, key, 5.0).answer for key in range(50)}
        assert len(answers) == 50


def test_only_the_encrypted_twin_decrypts_and_encrypts(case, session):
    pair = case.target.pairs[0]
    session.verify(pair, 5.0)
    session.prepare(pair, 5.0)
    decrypts, encrypts = {}, {}
    for slot in Slot:
        works = [session.run(pair, slot, operation, 3, 5.0).work for operation in operations(case)]
        decrypts[slot] = sum(work.decrypts for work in works)
        encrypts[slot] = sum(work.encrypts for work in works)
        assert all(work.blocks_read is not None and work.cpu_seconds is not None for work in works)

    if case.always_cold:
        assert decrypts[Slot.A] > 0
    assert (encrypts[Slot.A] > 0) == any(CATALOGUE[operation].writes for operation in operations(case))
    assert (decrypts[Slot.B], encrypts[Slot.B]) == (0, 0)


def test_an_operation_that_is_not_listed_is_refused(case, session):
    for operation in {*Operation, "vacuum"} - set(operations(case)):
        with pytest.raises(Unsupported):
            session.run(case.target.pairs[0], Slot.A, operation, 0, 5.0)


def test_writing_changes_nothing_that_is_read(case, session):
    """Whatever the order: a written batch finds what it needs, and reading answers as before."""
    pair = case.target.pairs[0]
    session.prepare(pair, 5.0)
    facts = session.verify(pair, 5.0)
    reading = [operation for operation in operations(case) if not CATALOGUE[operation].writes]

    def answers():
        return [session.run(pair, slot, operation, 5, 5.0).answer for operation in reading for slot in Slot]

    before = answers()
    for order in (operations(case), operations(case)[::-1]):
        for operation in order:
            assert len({session.run(pair, slot, operation, 6, 5.0).answer for slot in Slot}) == 1, operation
    assert answers() == before
    assert lasting(session.verify(pair, 5.0)) == lasting(facts)


def test_every_operation_that_writes_encrypts_on_the_encrypted_twin(case, session):
    pair = case.target.pairs[0]
    session.prepare(pair, 5.0)
    for operation in operations(case):
        encrypts = [session.run(pair, slot, operation, 9, 5.0).work.encrypts for slot in Slot]
        assert (encrypts[0] > 0) == CATALOGUE[operation].writes, operation


def test_every_cold_operation_decrypts_each_time(case, session):
    pair = case.target.pairs[0]
    session.prepare(pair, 5.0)
    for operation in operations(case):
        if operation.endswith("_cold"):
            assert all(session.run(pair, Slot.A, operation, 9, 5.0).work.decrypts > 0 for _ in range(3)), operation


def test_an_unusable_twin_is_a_fact_and_its_runs_fail_while_the_other_works(case, opened):
    session, pair = provisioned_then(case, opened, case.break_plain), case.target.pairs[0]

    facts = session.verify(pair, 5.0)
    session.prepare(pair, 5.0)

    assert not facts.valid
    assert facts.problem
    with pytest.raises(TargetError):
        session.run(pair, Slot.B, Operation.POINT_SELECT, 1, 5.0)
    assert session.run(pair, Slot.A, Operation.POINT_SELECT, 1, 5.0).duration > 0


def test_the_deadline_holds_and_the_session_lives_on(case, opened):
    session, pair = provisioned_then(case, opened, case.hang_plain), case.target.pairs[0]
    session.prepare(pair, 5.0)
    watch = Stopwatch()
    with pytest.raises(DeadlineExceeded):
        session.run(pair, Slot.B, Operation.FULL_SCAN, 0, 0.2)

    # A server ends its statement a little earlier, and so spares the session.
    assert watch.passed >= 0.15
    assert watch.seconds < 0.2 + 5 * 0.1
    assert session.run(pair, Slot.A, Operation.FULL_SCAN, 0, 5.0).duration > 0


def test_a_deadline_that_is_too_short_for_any_query_is_kept(case, session):
    pair = case.target.pairs[0]
    session.prepare(pair, 5.0)
    for operation in operations(case):
        with pytest.raises(DeadlineExceeded):
            session.run(pair, Slot.A, operation, 0, 1e-7)

    assert session.verify(pair, 5.0).valid
    for operation in operations(case):
        assert session.run(pair, Slot.A, operation, 0, 5.0).duration > 0


def test_closing_ends_a_running_query_at_once(case, opened):
    session, pair = provisioned_then(case, opened, case.hang_plain), case.target.pairs[0]
    session.prepare(pair, 5.0)
    ended, running = [], threading.Event()

    def run():
        running.set()
        try:
            session.run(pair, Slot.B, Operation.FULL_SCAN, 0, 30.0)
        except TargetError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    running.wait()
    watch = Stopwatch()
    session.close()
    thread.join(50.0)

    assert watch.seconds < 5 * 1.0
    assert [type(error) for error in ended] == [Cancelled]


def test_closing_twice_is_harmless_and_a_closed_session_says_so(case, session):
    pair = case.target.pairs[0]
    session.close()
    session.close()

    calls = [
        lambda: session.provision(pair, quiet, 1.0),
        lambda: session.drop(pair, 1.0),
        lambda: session.verify(pair, 1.0),
        lambda: session.prepare(pair, 1.0),
        lambda: session.run(pair, Slot.A, Operation.POINT_SELECT, 1, 1.0),
        lambda: session.encryption_state(1.0),
        lambda: session.activity(1.0),
        lambda: session.heartbeat(1.0),
        lambda: session.standbys(1.0),
    ]
    for call in calls:
        with pytest.raises(Cancelled):
            call()


def test_the_encryption_state_lists_keystore_and_objects(session):
    state = session.encryption_state(5.0)

    assert [keystore.state for keystore in state.keystores] == [KeystoreState.OPEN]
    for wanted in ("encrypted", "plain"):
        assert sum(number for _, found, number in state.objects if found == wanted) >= 1


def test_making_names_what_it_made(case, opened):
    session, pair = opened(), case.target.pairs[0]
    session.provision(pair, quiet, 30.0)
    session.drop(pair, 30.0)

    done = session.provision(pair, quiet, 30.0)
    facts = session.verify(pair, 5.0)

    assert {facts.a.name, facts.b.name} <= plainly(done.made)
    assert facts.valid
    assert session.provision(pair, quiet, 30.0).made == ()
    assert session.provision(pair, quiet, 30.0).grants == ()


def test_dropping_names_what_it_removed_and_leaves_nothing_of_the_pair(case, session):
    pair = case.target.pairs[0]
    session.prepare(pair, 5.0)
    before = session.verify(pair, 5.0)

    removed = session.drop(pair, 30.0)

    assert {before.a.name, before.b.name} <= plainly(removed)
    assert session.drop(pair, 30.0) == ()
    after = session.verify(pair, 5.0)
    for twin in (after.a, after.b):
        assert (twin.encrypted, twin.rows, twin.digest) == (None, None, None)
        assert f"{twin.name} is missing" in twin.problem
    session.prepare(pair, 5.0)
    for slot in Slot:
        with pytest.raises(TargetError):
            session.run(pair, slot, Operation.POINT_SELECT, 1, 5.0)


def test_twins_that_were_made_again_are_like_those_before(case, session):
    pair = case.target.pairs[0]
    answer = session.run(pair, Slot.A, Operation.POINT_SELECT, 7, 5.0).answer
    session.drop(pair, 30.0)
    session.provision(pair, quiet, 30.0)

    assert session.run(pair, Slot.A, Operation.POINT_SELECT, 7, 5.0).answer == answer


def test_dropping_one_pair_leaves_the_other(case):
    first = case.target.pairs[0]
    second = first.model_copy(update={"name": "another"})
    session = registry.make(case.target.model_copy(update={"pairs": (first, second)})).open(5.0)
    for pair in (first, second):
        session.provision(pair, quiet, 30.0)
    session.drop(second, 30.0)

    assert session.verify(first, 5.0).valid
    assert not session.verify(second, 5.0).valid
    session.close()


def test_the_activity_of_an_instance_is_known_or_unknown_and_never_shrinks(session):
    first, second = session.activity(5.0), session.activity(5.0)

    for name in ("decrypts", "encrypts", "cpu_seconds", "reads", "read_seconds"):
        before, after = getattr(first, name), getattr(second, name)
        assert (before is None) == (after is None)
        assert before is None or 0 <= before <= after
    assert first.decrypt_source in {"counter", "proxy", None}
    assert (first.decrypts is None and first.encrypts is None) == (first.decrypt_source is None)
    assert isinstance(first.problems, tuple)


def test_the_script_for_a_dba_is_whole_lines_or_unsupported(case):
    try:
        lines = list(registry.make(case.target).script())
    except Unsupported:
        return
    assert any(line.strip() for line in lines)
    assert all("\n" not in line for line in lines)


@WITH_STANDBYS
def test_standbys_are_told_in_the_order_of_the_configuration_before_any_heartbeat(session):
    states = session.standbys(5.0)

    assert [state.standby for state in states] == ["near", "far"]
    assert all(dict(state.lags).keys() == set(LagKind) for state in states)


@WITH_STANDBYS
def test_standbys_catch_up_with_the_heartbeats(session):
    def caught_up():
        session.heartbeat(5.0)
        time.sleep(0.01)
        return all(set(dict(state.lags).values()) == {0.0} for state in session.standbys(5.0))

    until(caught_up, "every standby to have everything")
    for state in session.standbys(5.0):
        assert (state.configured, state.transport_running, state.apply_running) == (True, True, True)
        assert state.received_sequence == state.applied_sequence > 0
        assert state.key_match is True
        assert state.problem == ""


@WITH_STANDBYS
def test_a_lag_is_never_negative(session):
    for _ in range(20):
        session.heartbeat(5.0)
        for state in session.standbys(5.0):
            assert all(lag is None or lag >= 0.0 for _, lag in state.lags)


def test_without_standbys_heartbeats_do_nothing(case):
    session = registry.make(case.target.model_copy(update={"standbys": ()})).open(5.0)
    session.heartbeat(5.0)

    assert session.standbys(5.0) == ()
    session.close()


def test_canaries_and_heartbeats_do_not_mind_each_other(case, session):
    pair = case.target.pairs[0]
    for _ in range(5):
        session.heartbeat(5.0)
        for operation in operations(case):
            assert (
                session.run(pair, Slot.A, operation, 3, 5.0).answer
                == session.run(pair, Slot.B, operation, 3, 5.0).answer
            )
    assert session.verify(pair, 5.0).valid


def test_a_self_test_tells_of_every_statement_or_is_unsupported(case, session):
    told: list[float] = []
    if case.target.engine not in ("fake", "oracle"):
        with pytest.raises(Unsupported, match=r"\w+ \w+"):
            session.selftest(lambda _what, share: told.append(share), 30.0)
        return
    outcomes = session.selftest(lambda _what, share: told.append(share), 30.0)
    assert all(0.0 <= share <= 1.0 for share in told)
    names = [outcome.statement for outcome in outcomes]
    assert len(names) == len(set(names)) > 0
    assert {outcome.verdict for outcome in outcomes} <= {Verdict.OK, Verdict.NOT_TRIED, Verdict.NOT_THERE}
    for outcome in outcomes:
        assert outcome.collector
        assert (outcome.seconds is not None) is (outcome.verdict is Verdict.OK)
    # Nothing was changed by it.
    assert session.verify(case.target.pairs[0], 5.0).valid
