"""A database that hangs costs its own lane: not the page, not its neighbours, not the end of the daemon."""

import threading
import time

from tests.daemons import ENDS_WITHIN


def fake(name, **faults):
    return {
        "name": name,
        "engine": "fake",
        "intervals": {"canary": "1s", "encryption_state": "1s"},
        "budgets": {"time_share_ratio": 1.0},
        **faults,
    }


def settings(*targets):
    return {
        "targets": list(targets),
        "operations": {
            "point_select": {"samples": 5, "timeout": "500ms"},
            "full_scan": {"samples": 1, "timeout": "500ms"},
        },
        "probes": {"processes": 1},
    }


HUNG = fake("hung", faults=[{"kind": "hang", "call": "run"}])
WEDGED = fake("wedged", faults=[{"kind": "wedge", "call": "run", "first": 20, "last": 20}])
REFUSED = fake("refused", faults=[{"kind": "error", "call": "open", "reason": "connect"}])


def test_neighbours_of_hung_wedged_and_dead_targets_keep_their_period(daemon):
    exporter = daemon(settings(fake("healthy"), HUNG, WEDGED, REFUSED)).start().ready()

    exporter.until(lambda: exporter.total("tde_exporter_lanes_abandoned_total") >= 1, "the wedged lane")
    before, begun = exporter.total("tde_canary_runs_total", target="healthy"), time.monotonic()
    exporter.until(lambda: exporter.total("tde_canary_runs_total", target="healthy") >= before + 60, "five rounds")
    assert time.monotonic() - begun < 5 * 5
    timeouts = {"target": "hung", "reason": "timeout"}
    exporter.until(lambda: exporter.total("tde_canary_run_failures_total", **timeouts) > 0, "timeouts of the hung one")
    refusals = {"target": "refused", "reason": "connect"}
    exporter.until(lambda: exporter.total("tde_target_connection_errors_total", **refusals) > 0, "the refusals")
    page = exporter.page()
    assert page.value("tde_target_up", target="healthy") == 1
    assert page.value("tde_target_up", target="refused") == 0
    # The wedged call never ends, but its target is measured again by a new worker.
    after = exporter.total("tde_canary_runs_total", target="wedged")
    exporter.until(lambda: exporter.total("tde_canary_runs_total", target="wedged") > after, "the wedged target")


def test_a_scrape_asks_no_database(daemon):
    exporter = daemon(settings(fake("deaf", faults=[{"kind": "wedge", "call": "open"}]))).start()
    exporter.until(lambda: exporter.get("/metrics").status_code == 200, "a page")
    known = []

    def scrape():
        for _ in range(20):
            known.append(exporter.value("tde_target_up", target="deaf"))

    scrapers = [threading.Thread(target=scrape) for _ in range(4)]
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join()

    assert len(known) == 80
    # Unknown, until the call is given up. A scrape that waited for it would have come after that, and all others after it.
    assert known.count(None) >= 20


def test_the_daemon_ends_in_time_whatever_hangs(daemon):
    wedged = [fake(f"wedged-{number}", faults=[{"kind": "wedge", "call": "run"}]) for number in range(3)]
    exporter = daemon(settings(*wedged)).start()
    exporter.until(lambda: exporter.get("/metrics").status_code == 200, "a page")
    # What comes after connecting to a target and to its two twins is the first query, which never ends.
    names = [target["name"] for target in wedged]
    exporter.until_all(
        names, lambda page, name: page.total("tde_target_connects_total", target=name) >= 3, "calls that never end"
    )

    assert exporter.stop() < ENDS_WITHIN


def test_calls_that_never_end_do_not_pile_up_sessions(daemon):
    """Three sessions are allowed and the lost call holds them all: no more are opened, and the page says why."""
    wedged = fake("wedged", faults=[{"kind": "wedge", "call": "run", "first": 20, "last": 20}])
    wedged["budgets"]["sessions"] = 3
    exporter = daemon(settings(fake("healthy"), wedged)).start()
    exporter.until(lambda: exporter.get("/metrics").status_code == 200, "a page")

    exporter.until(lambda: exporter.total("tde_exporter_lanes_abandoned_total") >= 1, "the wedged lane")
    exporter.until_said("3 of the 3 that budgets.sessions allows are in use")
    exporter.until(lambda: exporter.value("tde_target_up", target="wedged") == 0, "the target to be down")
    assert exporter.total("tde_target_connects_total", target="wedged") == 3
    assert exporter.value("tde_target_up", target="healthy") == 1
