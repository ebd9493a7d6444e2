"""T1: a database that does not answer costs its own lane: not the page, not its neighbours, no threads and no sockets.

oracle-db-appdev-monitoring#444 #423 #268, postgres_exporter#388, sql_exporter#383, prometheus_oracle_exporter#73,
PyMySQL#338 #1177 #136
"""

import time

from tests.complaints.conftest import Process
from tests.stopwatch import crowded
from tests.watched import settings

ERRORS = "tde_target_connection_errors_total"
UP = "tde_target_up"
PAGE_SECONDS = 0.5 * 5
GOOD = ("healthy", "neighbour")
HEALTHY = {
    "name": "healthy",
    "engine": "fake",
    "intervals": {"canary": "1s", "encryption_state": "1s"},
    "operations": ["point_select"],
    "budgets": {"time_share_ratio": 1.0},
}


def runs(page, name):
    return page.total("tde_canary_runs_total", target=name)


def assert_rhythm(exporter, *names, rounds):
    """Targets with a tick a second, of five samples on each side, are measured about once a second. Five times as
    much is allowed, and ten times where others wait for a processor."""
    page = exporter.page()
    begun, busy, enough = time.monotonic(), crowded(), {name: runs(page, name) + 10 * rounds for name in names}
    exporter.until_all(names, lambda page, name: runs(page, name) >= enough[name], f"{rounds} rounds")
    assert time.monotonic() - begun < 5 * rounds + min(5 * rounds, crowded() - busy)
    assert [exporter.value(UP, target=name) for name in names] == [1.0] * len(names)


def test_peers_that_do_not_answer_cost_their_own_lane_only(everywhere, make_proxy, daemon, scraped):
    """Some are mute or drip from the beginning; others become so in the middle of queries, and one server freezes."""
    mariadb, mysql = everywhere
    proxies = {
        name: (watched, make_proxy(watched.server.address))
        for watched, name in (
            *((watched, f"{watched.engine}-{how}") for watched in everywhere for how in ("mute", "dripping")),
            (mariadb, "muted"),
            (mariadb, "slowed"),
        )
    }
    targets = [watched.target(proxy.address, name=name) for name, (watched, proxy) in proxies.items()]
    targets += [HEALTHY, mariadb.target(name="neighbour"), mysql.target(name="frozen")]
    bad = [*proxies, "frozen"]
    for watched in everywhere:
        proxies[f"{watched.engine}-mute"][1].go_silent()
        proxies[f"{watched.engine}-dripping"][1].drip()
    exporter = daemon(settings(*targets)).start().serving()
    with scraped(exporter) as scraper:
        exporter.until_all([*GOOD, "muted", "slowed", "frozen"], runs, "runs")
        proxies["muted"][1].go_silent()
        proxies["slowed"][1].drip()
        mysql.server.freeze()
        try:
            exporter.until_all(bad, lambda page, name: page.value(UP, target=name) == 0, "all bad ones to be down")
            exporter.until_all(bad, lambda page, name: page.total(ERRORS, target=name, reason="timeout"), "the reason")
            process, held = Process(exporter), []
            for _ in range(3):
                assert_rhythm(exporter, *GOOD, rounds=2)
                held.append((process.threads, process.files))
            assert [exporter.value(UP, target=name) for name in bad] == [0.0] * len(bad)
        finally:
            mysql.server.thaw()
        for _, proxy in proxies.values():
            proxy.go_on()
        exporter.until_all(bad, lambda page, name: page.value(UP, target=name) == 1, "all to be up again")
        before = {name: runs(exporter, name) for name in bad}
        exporter.until_all(bad, lambda page, name: runs(page, name) > before[name], "all to be measured")
    # A lane for each target; a session has two connections, of which each has two handles. The rest is the process's.
    assert max(threads for threads, _ in held) <= len(targets) + 8
    assert max(files for _, files in held) <= 4 * len(targets) + 20
    assert scraper.problems == []
    assert scraper.usual < PAGE_SECONDS


def test_ports_that_refuse_or_reset(everywhere, make_proxy, daemon):
    mariadb, mysql = (make_proxy(watched.server.address) for watched in everywhere)
    targets = [watched.target(proxy.address) for watched, proxy in zip(everywhere, (mariadb, mysql), strict=True)]
    names = [target["name"] for target in targets]
    exporter = daemon(settings(HEALTHY, *targets)).start().serving()
    exporter.until_all(names, runs, "runs")
    mariadb.refuse()
    mysql.reset()
    exporter.until_all(names, lambda page, name: page.value(UP, target=name) == 0, "both to be down")
    exporter.until_all(names, lambda page, name: page.total(ERRORS, target=name, reason="connect") >= 2, "the reason")
    assert_rhythm(exporter, "healthy", rounds=2)
    exporter.until_said("connection refused")
    exporter.until_said("connection reset")

    mariadb.go_on()
    mysql.go_on()
    exporter.until_all(names, lambda page, name: page.value(UP, target=name) == 1, "both to be up again")
    before = {name: runs(exporter, name) for name in names}
    exporter.until_all(names, lambda page, name: runs(page, name) > before[name], "both to be measured")
