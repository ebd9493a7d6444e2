"""T1: a database that does not answer costs its own lane: not the page, not its neighbours, no threads and no sockets.

oracle-db-appdev-monitoring#444 #423 #268, postgres_exporter#388, sql_exporter#383, prometheus_oracle_exporter#73,
PyMySQL#338 #1177 #136
"""

import time

import pytest

from tests.complaints.conftest import Process
from tests.watched import settings

ERRORS = "tde_target_connection_errors_total"
RUNS = "tde_canary_runs_total"
UP = "tde_target_up"
PAGE_SECONDS = 0.5 * 5
HEALTHY = {
    "name": "healthy",
    "engine": "fake",
    "intervals": {"canary": "1s", "encryption_state": "1s"},
    "operations": ["point_select"],
    "budgets": {"time_share_ratio": 1.0},
}


def assert_rhythm(exporter, *names, rounds):
    """Targets with a tick a second, of five samples on each side, are measured about once a second."""
    begun, enough = time.monotonic(), {name: exporter.total(RUNS, target=name) + 10 * rounds for name in names}
    all_of(exporter, names, lambda name: exporter.total(RUNS, target=name) >= enough[name], f"{rounds} rounds")
    assert time.monotonic() - begun < 5 * rounds
    assert [exporter.value(UP, target=name) for name in names] == [1.0] * len(names)


def all_of(exporter, names, condition, what):
    """Wait until a condition holds for each of the targets at once."""
    exporter.until(lambda: all(condition(name) for name in names), what)


@pytest.mark.timeout(240)
def test_peers_that_are_mute_or_drip_cost_their_own_lane_only(everywhere, make_proxy, daemon, scraped):
    """On each server one peer is mute from the beginning and one drips; two others become so in the middle of queries."""
    proxies = {
        f"{watched.engine}-{how}": make_proxy(watched.server.address)
        for watched in everywhere
        for how in ("mute", "dripping", "muted", "slowed")
    }
    targets = [watched.target(name=f"{watched.engine}-healthy") for watched in everywhere]
    for watched in everywhere:
        own = {name: proxy for name, proxy in proxies.items() if name.startswith(watched.engine)}
        targets += [watched.target(proxy.address, name=name) for name, proxy in own.items()]
    healthy = [target["name"] for target in targets[:2]]
    later = [name for name in proxies if name.endswith("ed")]

    def worsen(endings):
        for name, proxy in proxies.items():
            if name.endswith(endings[0]):
                proxy.go_silent()
            elif name.endswith(endings[1]):
                proxy.drip()

    worsen(("-mute", "-dripping"))
    exporter = daemon(settings(*targets)).start().serving()
    with scraped(exporter) as scraper:
        all_of(exporter, [*healthy, *later], lambda name: exporter.total(RUNS, target=name), "runs")
        worsen(("-muted", "-slowed"))
        all_of(exporter, proxies, lambda name: exporter.value(UP, target=name) == 0, "all bad ones to be down")
        all_of(exporter, proxies, lambda name: exporter.total(ERRORS, target=name, reason="timeout"), "the reason")
        process, held = Process(exporter), []
        for _ in range(3):
            assert_rhythm(exporter, *healthy, rounds=2)
            held.append((process.threads, process.files))
        assert [exporter.value(UP, target=name) for name in proxies] == [0.0] * len(proxies)

        for proxy in proxies.values():
            proxy.go_on()
        all_of(exporter, proxies, lambda name: exporter.value(UP, target=name) == 1, "all to be up again")
    # A lane for each target; a session has two connections, of which each has two handles. The rest is the process's.
    assert max(threads for threads, _ in held) <= len(targets) + 8
    assert max(files for _, files in held) <= 4 * len(targets) + 20
    assert scraper.problems == []
    assert scraper.longest < PAGE_SECONDS


@pytest.mark.timeout(120)
def test_frozen_servers_are_down_and_come_back(everywhere, daemon, scraped):
    exporter = daemon(settings(HEALTHY, *(watched.target() for watched in everywhere))).start().serving()
    names = [watched.engine for watched in everywhere]
    all_of(exporter, names, lambda name: exporter.total(RUNS, target=name), "runs")
    with scraped(exporter) as scraper:
        for watched in everywhere:
            watched.server.freeze()
        try:
            all_of(exporter, names, lambda name: exporter.value(UP, target=name) == 0, "frozen servers to be down")
            assert_rhythm(exporter, "healthy", rounds=3)
            all_of(exporter, names, lambda name: exporter.total(ERRORS, target=name, reason="timeout"), "the reason")
        finally:
            for watched in everywhere:
                watched.server.thaw()
        all_of(exporter, names, lambda name: exporter.value(UP, target=name) == 1, "thawed servers to be up")
        before = {name: exporter.total(RUNS, target=name) for name in names}
        all_of(exporter, names, lambda name: exporter.total(RUNS, target=name) > before[name], "runs as before")

    assert scraper.problems == []
    assert scraper.longest < PAGE_SECONDS


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["refuse", "reset"])
def test_a_port_that_refuses_or_resets(everywhere, make_proxy, daemon, how):
    proxies = {watched.engine: make_proxy(watched.server.address) for watched in everywhere}
    targets = [watched.target(proxies[watched.engine].address) for watched in everywhere]
    exporter = daemon(settings(HEALTHY, *targets)).start().serving()
    all_of(exporter, proxies, lambda name: exporter.total(RUNS, target=name), "runs")
    for proxy in proxies.values():
        getattr(proxy, how)()
    all_of(exporter, proxies, lambda name: exporter.value(UP, target=name) == 0, "both to be down")
    all_of(exporter, proxies, lambda name: exporter.total(ERRORS, target=name, reason="connect") >= 2, "the reason")
    assert_rhythm(exporter, "healthy", rounds=2)
    assert {"refuse": "connection refused", "reset": "connection reset"}[how] in exporter.get("/").text

    for proxy in proxies.values():
        proxy.go_on()
    all_of(exporter, proxies, lambda name: exporter.value(UP, target=name) == 1, "both to be up again")
    before = {name: exporter.total(RUNS, target=name) for name in proxies}
    all_of(exporter, proxies, lambda name: exporter.total(RUNS, target=name) > before[name], "runs as before")
