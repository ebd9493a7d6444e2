"""Five hundred targets, half of them dead: the start, the page and the processor are bounded, and each target has its word.

sql_exporter#927 #928, oracle-db-appdev-monitoring#268
"""

import contextlib
import os
import resource
import socket
import time
from pathlib import Path

import pytest

from tests.daemons import ENDS_WITHIN
from tests.servers.room import free_port

UP = "tde_target_up"
ERRORS = "tde_target_connection_errors_total"
RUNS = "tde_canary_runs_total"
LIVE, REFUSED, MUTE = 250, 200, 50
SAMPLES = 40
"""Of a tick: twenty on each side."""
BY_DEFAULT = {"canary": "10s", "encryption_state": "60s"}
TICKS = os.sysconf("SC_CLK_TCK")


def live(number):
    return {"name": f"live-{number}", "engine": "fake", "operations": ["point_select"], "intervals": BY_DEFAULT}


def dead(number, port, secret):
    return {
        "name": f"dead-{number}",
        "engine": ("mysql", "mariadb")[number % 2],
        "host": "127.0.0.1",
        "port": port,
        "user": "probe",
        "password": {"file": str(secret)},
        "schema": "tde_canary",
        "tls": {"mode": "disabled"},
        "operations": ["point_select"],
        "intervals": BY_DEFAULT,
    }


@pytest.fixture
def mute():
    """A port whose peer takes connections and says nothing."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=512)) as listener:
        yield listener.getsockname()[1]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@pytest.mark.long
def test_half_of_five_hundred_targets_are_dead(daemon, tmp_path, scraped, mute):
    secret = tmp_path / "secret"
    secret.write_text("not-asked-for")
    refused = free_port()
    targets = [live(number) for number in range(LIVE)]
    targets += [dead(number, refused, secret) for number in range(REFUSED)]
    targets += [dead(REFUSED + number, mute, secret) for number in range(MUTE)]
    exporter = daemon({"targets": targets, "probes": {"processes": 2}})
    exporter.start().serving()
    with scraped(exporter) as scraper:
        exporter.until(lambda: up(exporter.page(), "live") == [1.0] * LIVE, "all live ones to be up", patience=100)
        exporter.until(lambda: reasons(exporter.page()) == (REFUSED, MUTE), "the reason of each dead one", patience=100)
        assert up(exporter.page(), "dead") == [0.0] * (REFUSED + MUTE)
        pids = [exporter.process.pid, *exporter.children()]
        before, since, spent = exporter.total(RUNS), time.monotonic(), sum(map(cpu_seconds, pids))
        exporter.until(
            lambda: exporter.total(RUNS) >= before + SAMPLES * LIVE, "a round of the live ones", patience=100
        )
        cores = (sum(map(cpu_seconds, pids)) - spent) / (time.monotonic() - since)
        threads = [len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids]
        memory = sum(map(resident_mb, pids))
    assert scraper.problems == []
    # A fifth of a core and 310 MB were measured, with a page of 3.5 MB that is scraped several times a second.
    assert cores < 1.0
    assert memory < 1000
    assert len(pids) == 3
    assert max(threads) <= len(targets) / 2 + 12
    assert exporter.stop() < ENDS_WITHIN


def up(page, kind):
    return [
        value
        for (name, labels), value in page.samples.items()
        if name == UP and dict(labels)["target"].startswith(kind)
    ]


def reasons(page):
    """How many targets cannot be reached because they refuse, and because they do not answer."""
    found = [dict(labels)["reason"] for (name, labels), value in page.samples.items() if name == ERRORS and value]
    return found.count("connect"), found.count("timeout")
