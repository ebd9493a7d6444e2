"""A running daemon with Oracle targets: it measures, and what hangs or refuses costs its own lane and no secret.

Stand-ins for the databases, over real sockets and with the real driver.

oracle-db-appdev-monitoring#444 #423 #268 #372 #440, prometheus_oracle_exporter#73, godror#76
"""

from __future__ import annotations

import contextlib
import time
import uuid

import pytest

from tests.complaints.conftest import Process
from tests.daemons import ENDS_WITHIN
from tests.engines.oracle.standin_pair import StandinPair
from tests.engines.oracle.standin_targets import MAIN, opened, standin, target_of
from tests.oracle_standin.faults import Hang, Phase
from tests.oracle_standin.storage import Cost
from tests.watched import settings

UP = "tde_target_up"
RUNS = "tde_canary_runs_total"
ERRORS = "tde_target_connection_errors_total"
QUICK = {"canary": "1s", "encryption_state": "1s", "activity": "1s", "heartbeat": "200ms", "standby": "500ms"}
COMMON = {"intervals": QUICK, "budgets": {"time_share_ratio": 1.0}}
HEALTHY = {"name": "healthy", "engine": "fake", "operations": ["point_select"], **COMMON}
RUNS_EACH_SECOND = 10
"""Of the healthy target: five on each side."""
PHASES = (Phase.ACCEPT, Phase.NEGOTIATION, Phase.AUTHENTICATION)
PERIODS = 8
"""As many at least are watched; and until all that is silent was tried again."""


@pytest.fixture
def marker():
    return f"S3CR3T-{uuid.uuid4()}"


@pytest.fixture
def make_server(tmp_path, marker):
    """Starts stand-ins with twins, whose password is the marker; at the end nothing unknown must have been asked."""
    with contextlib.ExitStack() as stack:
        servers = []

        def make():
            server = stack.enter_context(standin())
            servers.append(server)
            server.database.users["MON"].password = marker
            with opened(target_of(server, tmp_path, password=marker), provisioned=True):
                return server

        yield make
        assert [text for server in servers for text in server.unknown] == []


def oracle(server, secret, **more):
    """A stand-in as a target."""
    values = {
        "name": "db",
        "engine": "oracle",
        "host": server.host,
        "port": server.port,
        "service": "pdb1",
        "user": "mon",
        "password": {"file": str(secret)},
        "schema": "tde",
        "pairs": [MAIN],
        "operations": ["point_select"],
    }
    return values | COMMON | more


@pytest.fixture
def run(daemon, marker):
    """Starts a daemon with these targets beside a healthy one; its secret must be nowhere when it has ended."""
    started = []

    def start(*targets, **more):
        started.append(daemon(settings(HEALTHY, *targets, log={"level": "debug"}, **more)).start().serving())
        return started[-1]

    yield start
    for exporter in started:
        exporter.kill()
        written = {str(path): path.read_bytes() for path in exporter.directory.rglob("*") if path.is_file()}
        assert str(exporter.log) in written
        assert [path for path, content in written.items() if is_in(marker, content)] == []


def is_in(marker, content):
    """Whether the marker is there, or a part of it that is as good."""
    return any(part.encode() in content for part in (marker, marker[7:]))


def assert_pages_are_silent(exporter, marker):
    for path in ("/", "/metrics", "/-/ready"):
        content = exporter.get(path).content
        assert content
        assert not is_in(marker, content), path


def until_runs(exporter, name, number):
    """Wait for so many further runs."""
    wanted = exporter.total(RUNS, target=name) + number
    exporter.until(lambda: exporter.total(RUNS, target=name) >= wanted, f"{number} runs of {name}")


# -- it measures -----------------------------------------------------------------------------------------


def test_a_target_with_a_standby_is_measured(run, tmp_path, marker):
    with StandinPair(tmp_path) as pair:
        secret = tmp_path / "daemon.secret"
        secret.write_text(marker)
        for database in (pair.primary, pair.standby):
            database.users["MON"].password = marker
        for twin in pair.primary.tables:
            # Others need the cache as well: each of these reads finds some of its blocks on disk.
            twin.costs["point_select"] = Cost(blocks=2)
        east = {"name": "east", "host": pair.servers[1].host, "port": pair.servers[1].port}
        target = oracle(pair.servers[0], secret, operations=["point_select", "lob_read"], standbys=[east])
        exporter = run(target, operations={name: {"samples": 5} for name in ("point_select", "lob_read")})
        for operation in ("point_select", "lob_read"):
            seen = {"target": "db", "operation": operation}
            exporter.until(
                lambda seen=seen: exporter.total("tde_canary_decrypts_total", variant="encrypted", **seen) > 0,
                f"decrypts of {operation}",
            )
            page = exporter.page()
            assert page.total("tde_canary_blocks_read_total", variant="plain", **seen) > 0
            assert page.value("tde_canary_decrypts_total", variant="plain", **seen) == 0
        exporter.until(lambda: exporter.value("tde_keystore_state", target="db", state="open") == 1, "an open keystore")
        assert exporter.value(UP, target="db") == 1
        assert exporter.value("tde_pair_valid", target="db", pair="main") == 1
        assert exporter.total("tde_canary_run_failures_total", target="db") == 0

        def lags():
            pair.ship()
            page = exporter.page()
            return {
                kind: page.value("tde_standby_lag_seconds", target="db", standby="east", kind=kind)
                for kind in ("transport", "apply", "heartbeat")
            }

        exporter.until(lambda: None not in lags().values(), "all lags")
        exporter.until(lambda: [lags()[kind] for kind in ("transport", "apply")] == [0, 0], "no lag")
        pair.standby.data_guard.transport_lag = 61.0
        exporter.until(lambda: lags()["transport"] == 61, "the lag of the standby")
        pair.standby.data_guard.transport_lag = None
        exporter.until(lambda: lags()["transport"] is None, "the lag to be unknown")
        known = {"name": "tde_standby_lag_known", "standby": "east", "kind": "transport"}
        exporter.until(lambda: exporter.value(**known) == 0, "that to be said")
        assert_pages_are_silent(exporter, marker)
        exporter.stop()
        assert pair.unknown == []


# -- it does no harm -------------------------------------------------------------------------------------


def test_databases_that_are_silent_or_refuse_cost_their_own_lanes_only(run, make_server, tmp_path, marker):
    """T1: three fall silent while they are logged in to. T8: one has another password, which is tried once."""
    servers = {phase.value: make_server() for phase in PHASES}
    refusing, wrong = make_server(), tmp_path / "wrong.secret"
    for phase in PHASES:
        servers[phase.value].faults.silent = phase
    wrong.write_text(f"{marker}-not")
    logins = {name: server.logins for name, server in servers.items()}
    refusals = refusing.logins + 1
    targets = [oracle(server, tmp_path / "mon.secret", name=name) for name, server in servers.items()]
    exporter = run(*targets, oracle(refusing, wrong, name="refused"))

    assert_rhythm_and_bounds(exporter, [*servers, "refused"], servers)
    exporter.until_all(servers, lambda page, name: page.total(ERRORS, target=name, reason="timeout"), "the reason")
    exporter.until(
        lambda: exporter.total(ERRORS, target="refused", reason="auth") >= PERIODS, "what is not tried again"
    )
    exporter.until_said("when the secret has changed")
    page = exporter.page()
    assert page.value(UP, target="healthy") == 1
    for name, server in servers.items():
        assert page.value(UP, target=name) == 0
        assert page.total(ERRORS, target=name) == page.total(ERRORS, target=name, reason="timeout")
        assert server.logins == logins[name], "no password was sent"
    assert page.value(UP, target="refused") == 0
    assert (refusing.logins, refusing.database.users["MON"].failed_logins) == (refusals, 1)
    assert_pages_are_silent(exporter, marker)

    processes = exporter.children()
    wrong.write_text(marker)
    for server in servers.values():
        server.faults.heal()
        server.end_sessions()  # as when it is started again: what hangs would be waited for otherwise
    everyone = [*servers, "refused"]
    exporter.until_all(everyone, lambda page, name: page.value(UP, target=name) == 1, "all to be up")
    exporter.until_all(everyone, lambda page, name: page.total(RUNS, target=name), "all to be measured")
    assert refusing.database.users["MON"].failed_logins == 0
    assert exporter.children() == processes
    exporter.stop()
    assert "no session in time" in exporter.log.read_text()


def assert_rhythm_and_bounds(exporter, names, silent):
    """The healthy target is measured every second, the silent ones are tried again, and nothing piles up."""
    process = Process(exporter)
    threads: list[int] = []
    files: list[int] = []
    begun, before = time.monotonic(), {name: server.connects for name, server in silent.items()}
    while len(threads) < PERIODS or any(server.connects <= before[name] for name, server in silent.items()):
        until_runs(exporter, "healthy", RUNS_EACH_SECOND)
        threads.append(process.threads)
        files.append(process.files)
    assert time.monotonic() - begun < 5 * len(threads)
    for server in silent.values():
        assert server.connections <= 2, "what was given up was let go"
    # Of each: its lane and the loop of its driver, which has three handles, and one connection. The rest is the process's.
    assert max(threads) <= 2 * len(names) + 6
    assert max(files) <= 4 * len(names) + 8


def test_the_daemon_ends_in_time_while_a_database_hangs(run, make_server, tmp_path, marker):
    """T14: calls have a minute, and the database is deaf to breaks."""
    server = make_server()
    exporter = run(
        oracle(server, tmp_path / "mon.secret"), operations={"point_select": {"samples": 5, "timeout": "60s"}}
    )
    exporter.until(lambda: exporter.total(RUNS, target="db"), "runs")
    server.faults.deaf = True
    server.faults.on("/*+ INDEX(t) */ id, payload", Hang())

    def in_call():
        return {seat.sid for seat in list(server.database.seats.values()) if seat.in_call}

    def stuck():
        # Nothing else asks for half a second.
        before = in_call()
        time.sleep(0.5)
        return before & in_call()

    exporter.until(stuck, "a call that hangs")
    assert_pages_are_silent(exporter, marker)
    assert exporter.stop() < ENDS_WITHIN
    assert server.connections <= 2
