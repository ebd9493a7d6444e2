"""T13: the wall clock steps back by an hour under a daemon with servers: it goes on, makes up for nothing, and invents no lag.

apscheduler#351 #752 #1066 #526 #339 #296 #146 #182 #1095
"""

import time

from tests.servers.room import free_port
from tests.watched import BOTH, PATIENT, QUICK, settings

RUNS = "tde_canary_runs_total"
SAMPLES = 10
"""Of a tick: five on each side."""


def test_servers_are_measured_on(everywhere, daemon, libfaketime, tmp_path):
    offset = tmp_path / "offset"
    offset.write_text("+0")
    standby = {"name": "far", "host": "127.0.0.1", "port": free_port()}
    intervals = QUICK | {"heartbeat": "300ms", "standby": "1s"}
    exporter = daemon(
        settings(
            *(watched.target(standbys=[standby], intervals=intervals) for watched in everywhere), operations=PATIENT
        ),
        {
            "LD_PRELOAD": str(libfaketime),
            "FAKETIME_TIMESTAMP_FILE": str(offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        },
    )
    exporter.start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name) >= 3 * SAMPLES, "runs before the step")
    page, begun = exporter.page(), time.monotonic()
    connects = {name: page.total("tde_target_connects_total", target=name) for name in BOTH}
    before = {name: page.total(RUNS, target=name) for name in BOTH}
    offset.write_text("-3600")
    exporter.until(lambda: exporter.total("tde_exporter_clock_steps_total") >= 1, "the step to be seen")
    exporter.until_all(
        BOTH, lambda page, name: page.total(RUNS, target=name) >= before[name] + 4 * SAMPLES, "runs after"
    )
    exporter.until_all(BOTH, beats, "heartbeats")
    page, took = exporter.page(), time.monotonic() - begun
    for name in BOTH:
        # One tick a second was due; a made-up hour would be 3 600 of them.
        assert page.total(RUNS, target=name) - before[name] <= (took + 3) * SAMPLES
        assert page.value("tde_target_up", target=name) == 1
        assert page.total("tde_canary_run_failures_total", target=name) == 0
        assert page.total("tde_target_connects_total", target=name) == connects[name]
        assert page.total("tde_standby_lag_seconds", target=name) == 0
    assert page.total("tde_exporter_schedule_lateness_seconds_count") > 0
    assert exporter.get("/-/healthy").status_code == 200


def beats(page, name):
    return page.value("tde_exporter_collector_success", target=name, collector="heartbeat") == 1
