"""T7: a lost session is replaced at the next run, sessions never pile up, and none is left behind.

free/sql_exporter#97 #80, oracledb_exporter#32, query-exporter#56 #266 #28, prometheus_oracle_exporter#21 #45,
postgres_exporter#921, nbari/pg_exporter#23, oracle-db-appdev-monitoring#427
"""

import contextlib
import threading

import pymysql
import pytest

from tests.processes import until
from tests.watched import BOTH, settings

RUNS = "tde_canary_runs_total"
UP = "tde_target_up"
ERRORS = "tde_target_connection_errors_total"
SESSIONS = 3
"""What budgets.sessions allows; one pair takes two, one for its canaries and one for all else."""
ROUNDS = 5
BUDGETS = {"time_share_ratio": 1.0, "sessions": SESSIONS}


def succeeded(page, target):
    """Queries that worked."""
    return page.total(RUNS, target=target) - page.total("tde_canary_run_failures_total", target=target)


class Count:
    """Counts the sessions of the accounts all the while."""

    def __init__(self, everywhere):
        self._stop, self._everywhere = threading.Event(), everywhere
        self.most = dict.fromkeys([watched.engine for watched in everywhere], 0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._stop.wait(0.05):
            for watched in self._everywhere:
                self.most[watched.engine] = max(self.most[watched.engine], len(watched.session_ids()))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(30)


def broken(everywhere, exporter, break_all):
    """Break the sessions again and again; each time both targets are measured again, within the cap."""
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name), "runs")
    with Count(everywhere) as count:
        for number in range(ROUNDS):
            break_all()
            before = {name: succeeded(exporter.page(), name) for name in BOTH}
            exporter.until_all(
                BOTH, lambda page, name, old=before: succeeded(page, name) > old[name], f"round {number}"
            )
    assert all(0 < most <= SESSIONS for most in count.most.values()), count.most
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up")


def assert_nothing_is_left(everywhere, exporter):
    exporter.stop()
    until(lambda: not any(watched.session_ids() for watched in everywhere), "the sessions to end", patience=2.0 * 5)


@pytest.mark.timeout(120)
def test_killed_sessions(everywhere, daemon):
    targets = [watched.target(budgets=BUDGETS) for watched in everywhere]
    exporter = daemon(settings(*targets)).start().serving()
    killed: list[int] = []
    broken(everywhere, exporter, lambda: killed.extend(watched.kill_sessions() for watched in everywhere))

    assert sum(killed) >= 2 * ROUNDS
    assert_nothing_is_left(everywhere, exporter)


@pytest.mark.timeout(120)
def test_dropped_connections(everywhere, make_proxy, daemon):
    proxies = [make_proxy(watched.server.address) for watched in everywhere]
    targets = [
        watched.target(proxy.address, budgets=BUDGETS) for watched, proxy in zip(everywhere, proxies, strict=True)
    ]
    exporter = daemon(settings(*targets)).start().serving()
    broken(everywhere, exporter, lambda: [proxy.drop() for proxy in proxies])

    assert_nothing_is_left(everywhere, exporter)


@pytest.mark.timeout(120)
def test_a_server_without_a_free_connection(everywhere, daemon):
    """It is unavailable, and says so; no attempt hurts others, and it is measured again when there is room."""
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name), "runs")
    with contextlib.ExitStack() as stack:
        for watched in everywhere:
            stack.enter_context(crowded(watched))
        exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 0, "both to be down")
        exporter.until_all(BOTH, lambda page, name: page.total(ERRORS, target=name, reason="unavailable"), "the reason")
        assert exporter.get("/").text.count("max_connections") >= 2
    before = {name: succeeded(exporter.page(), name) for name in BOTH}
    exporter.until_all(BOTH, lambda page, name: succeeded(page, name) > before[name], "both to be measured again")
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up")


@contextlib.contextmanager
def crowded(watched):
    """Somebody else has all connections that the server admits, and the exporter has lost its own."""
    server = watched.server
    password = server.create_user("crowd")
    usual = server.value("SELECT @@global.max_connections")
    with contextlib.closing(server.connect()) as root, contextlib.ExitStack() as crowd, root.cursor() as cursor:

        def taken():
            """Take what is free, and what the exporter has; whether it has none then."""
            cursor.execute("SELECT id AS number FROM information_schema.processlist WHERE user = %s", (watched.user,))
            ours = [row["number"] for row in cursor.fetchall()]
            for number in ours:
                with contextlib.suppress(pymysql.err.MySQLError):  # it may have ended meanwhile
                    cursor.execute(f"KILL {number}")
            while (another := admitted(server, password)) is not None:
                crowd.enter_context(contextlib.closing(another))
            return not ours

        cursor.execute("SET GLOBAL max_connections = 12")
        until(taken, "the crowd to have all connections")
        yield
        cursor.execute("SET GLOBAL max_connections = %s", (usual,))
    server.query("DROP USER crowd")


def admitted(server, password):
    """A session of the crowd; None where the server has too many."""
    try:
        return server.connect(user="crowd", password=password)
    except pymysql.err.OperationalError as error:
        if error.args[0] != 1040:
            raise
        return None
