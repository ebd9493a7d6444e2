"""T7: a lost session is replaced at the next run, sessions never pile up, and none is left behind.

free/sql_exporter#97 #80, oracledb_exporter#32, query-exporter#56 #266 #28, prometheus_oracle_exporter#21 #45,
postgres_exporter#921, nbari/pg_exporter#23, oracle-db-appdev-monitoring#427
"""

import contextlib

import pymysql
import pytest

from tests.processes import until
from tests.watched import BOTH, Count, settings

RUNS = "tde_canary_runs_total"
UP = "tde_target_up"
ERRORS = "tde_target_connection_errors_total"
SESSIONS = 3
"""What budgets.sessions allows; one pair takes two, one for its canaries and one for all else."""
BUDGETS = {"time_share_ratio": 1.0, "sessions": SESSIONS}


def succeeded(page, target):
    """Queries that worked."""
    return page.total(RUNS, target=target) - page.total("tde_canary_run_failures_total", target=target)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [6, pytest.param(100, marks=pytest.mark.long)])
def test_sessions_that_are_killed_or_dropped(everywhere, make_proxy, daemon, rounds):
    """By turns the servers end all sessions, and the network drops them; each time both targets are measured again."""
    proxies = [make_proxy(watched.server.address) for watched in everywhere]
    targets = [
        watched.target(proxy.address, budgets=BUDGETS) for watched, proxy in zip(everywhere, proxies, strict=True)
    ]
    exporter = daemon(settings(*targets)).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name), "runs")
    killed = 0
    with Count({watched.engine: proxy.port for watched, proxy in zip(everywhere, proxies, strict=True)}) as count:
        for number in range(rounds):
            if number % 2:
                killed += sum(watched.kill_sessions() for watched in everywhere)
            else:
                for proxy in proxies:
                    proxy.drop()
            before = {name: succeeded(exporter, name) for name in BOTH}
            exporter.until_all(
                BOTH, lambda page, name, old=before: succeeded(page, name) > old[name], f"round {number}"
            )
    assert killed >= rounds
    assert all(0 < most <= SESSIONS for most in count.most.values()), count.most
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up")

    exporter.stop()
    until(lambda: not any(watched.session_ids() for watched in everywhere), "the sessions to end")


def test_a_server_without_a_free_connection(everywhere, daemon):
    """It is unavailable, and says so; no attempt hurts others, and it is measured again when there is room."""
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name), "runs")
    with contextlib.ExitStack() as stack:
        for watched in everywhere:
            stack.enter_context(crowded(watched))
        exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 0, "both to be down")
        exporter.until_all(BOTH, lambda page, name: page.total(ERRORS, target=name, reason="unavailable"), "the reason")
        exporter.until_said("max_connections", times=2)
    before = {name: succeeded(exporter, name) for name in BOTH}
    exporter.until_all(BOTH, lambda page, name: succeeded(page, name) > before[name], "both to be measured again")
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up")


def test_an_account_that_is_admitted_once_only_is_down_all_the_while(everywhere, daemon):
    """What one session can read works; there is none for canaries."""
    for watched in everywhere:
        watched.server.query(f"ALTER USER {watched.user}@'%' WITH MAX_USER_CONNECTIONS 1")
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    success = {"name": "tde_exporter_collector_success", "collector": "canary"}
    exporter.until_all(BOTH, lambda page, name: page.value(**success, target=name) == 0, "a round of canaries")
    seen: set[float | None] = set()

    def more(page, name):
        seen.add(page.value(UP, target=name))
        return page.total(ERRORS, target=name, reason="unavailable") >= 5

    exporter.until_all(BOTH, more, "further attempts")
    assert seen == {0.0}
    exporter.until_said("(error 1226)", times=2)
    exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 1, "valid pairs")


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
