"""Out of file descriptors: it is said in these words, what has its files goes on, and it passes by itself."""

import contextlib
import os
import signal
import socket

import pytest

from tests.complaints.test_many_targets import dead
from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm
from tests.daemons import ENDS_WITHIN

LIMIT = 96
CROWD = 100
UP = "tde_target_up"
ERRORS = "tde_target_connection_errors_total"
EMBEDDED = {
    "name": "embedded",
    "engine": "sqlite",
    "pairs": [{"name": "phonebook", "rows": 5_000}],
    "operations": ["point_select"],
    "standbys": [],
    "intervals": {"canary": "1s", "encryption_state": "1s"},
    "budgets": {"time_share_ratio": 1.0},
}


def limited(exporter, files):
    """The same daemon, which may have so many open files in each of its processes, and cannot raise that."""
    exporter._command = ["prlimit", f"--nofile={files}:{files}", *exporter._command]
    return exporter


@pytest.fixture
def mute():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=512)) as listener:
        yield listener


def test_a_probe_process_without_descriptors(daemon, tmp_path, mute, scraped):
    secret = tmp_path / "secret"
    secret.write_text("not-asked-for")
    port = mute.getsockname()[1]
    crowd = [dead(number, port, secret) | {"intervals": {"canary": "1s"}} for number in range(CROWD)]
    settings = {"targets": [HEALTHY, EMBEDDED, *crowd], "probes": {"processes": 1}}
    exporter = limited(daemon(settings), LIMIT).start().serving()
    with scraped(exporter) as scraper:
        exporter.until(lambda: exporter.total(ERRORS, reason="connect") >= 5, "descriptors to run out")
        exporter.until(lambda: "too many open files" in exporter.get("/").text.lower(), "the reason in plain words")
        assert_rhythm(exporter, "healthy", rounds=3)
        # Nobody refused a secret that could not be read for want of a file descriptor.
        assert exporter.total(ERRORS, reason="auth") == 0
        # Those that hang give up, and rest ever longer; then there is room for who needs a file.
        exporter.until(lambda: exporter.value(UP, target="embedded") == 1, "the embedded one to be measured", 200)
    assert scraper.problems == []
    assert exporter.total("tde_exporter_probe_process_starts_total") == 1
    assert exporter.total("tde_exporter_state_errors_total") == 0
    assert exporter.stop() < ENDS_WITHIN


def test_clients_that_take_all_connections(daemon):
    """The descriptors that are left are kept for the history, the probe process and the page."""
    exporter = limited(daemon({"targets": [HEALTHY], "probes": {"processes": 1}}), LIMIT).start().ready()
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", exporter.port), timeout=10))
        exporter.until(lambda: exporter.get("/metrics").status_code == 200, "a page, once silent clients are dropped")
        (probe,) = exporter.children()
        os.kill(probe, signal.SIGKILL)
        exporter.until(lambda: exporter.children() not in ([], [probe]), "a new probe process")
        before = exporter.total("tde_canary_runs_total")
        exporter.until(lambda: exporter.total("tde_canary_runs_total") >= before + 10, "runs")
    assert exporter.total("tde_exporter_state_errors_total") == 0
    assert "Traceback" not in exporter.log.read_text()
