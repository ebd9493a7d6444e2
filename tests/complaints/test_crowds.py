"""Thousands of slow scrapers, and collectors of one target that want more time than there is.

client_python#139 #340, query-exporter#28
"""

import contextlib
import random
import resource
import selectors
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm
from tests.daemons import ENDS_WITHIN
from tests.processes import until

CROWD = 3000
HEADER_TIMEOUT = 1.0
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "


class Crowd:
    """Sends each request byte by byte, reads nothing, and comes again as soon as it is thrown out."""

    def __init__(self, port, size):
        self._port, self._size = port, size
        self._stop = threading.Event()
        self.thrown_out = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        with selectors.DefaultSelector() as selector:
            members = [self._join(selector, place) for place in range(self._size)]
            try:
                while not self._stop.wait(0.01):
                    for key, _ in selector.select(0):
                        client = key.fileobj
                        assert isinstance(client, socket.socket)
                        if ended(client):
                            selector.unregister(client)
                            client.close()
                            self.thrown_out += 1
                            members[key.data] = self._join(selector, key.data)
                    for member in random.sample(members, 100):
                        with contextlib.suppress(OSError):
                            member.send(b"x")
            finally:
                for member in members:
                    member.close()

    def _join(self, selector, place):
        member = socket.socket()
        member.setblocking(False)
        member.connect_ex(("127.0.0.1", self._port))
        with contextlib.suppress(OSError):
            member.send(REQUEST)
        selector.register(member, selectors.EVENT_READ, place)
        return member

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(30)


def ended(member):
    try:
        return member.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def resident_mb(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def test_thousands_of_slow_scrapers(daemon):
    settings = {"targets": [HEALTHY], "probes": {"processes": 1}, "web": {"header_timeout": HEADER_TIMEOUT}}
    exporter = daemon(settings).start().ready()
    memory, threads = resident_mb(exporter.process.pid), len(list(Path(f"/proc/{exporter.process.pid}/task").iterdir()))
    (probe,) = exporter.children()
    with Crowd(exporter.port, CROWD) as crowd:
        until(lambda: crowd.thrown_out > 2 * CROWD, "the crowd to be thrown out twice")
        # Measuring does not know of them.
        before = ticks(probe)
        until(lambda: ticks(probe) > before, "the probe process to work")
        assert exporter.children() == [probe]
        assert resident_mb(exporter.process.pid) - memory < 100
        assert len(list(Path(f"/proc/{exporter.process.pid}/task").iterdir())) <= threads + 2
    exporter.until(lambda: exporter.get("/metrics").status_code == 200, "a scrape as soon as they are gone")
    assert_rhythm(exporter, "healthy", rounds=2)
    # Whoever can connect cannot fill the log.
    assert len(exporter.log.read_text().splitlines()) < 20
    assert exporter.stop() < ENDS_WITHIN


def ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.long
def test_collectors_of_one_target_do_not_starve_each_other(daemon):
    """Each of these hangs until its deadline, every time, and wants to run again long before: all others get their turn."""
    interval = dict.fromkeys(("canary", "encryption_state", "activity", "heartbeat", "standby"), "1s")
    common: dict[str, Any] = {"engine": "fake", "operations": ["point_select"], "intervals": interval}
    common |= {"budgets": {"time_share_ratio": 1.0}, "standbys": [{"name": "far"}]}
    hung = [
        common | {"name": call.replace("_", "-"), "faults": [{"kind": "hang", "call": call}]}
        for call in ("run", "standbys", "heartbeat")
    ]
    exporter = daemon(
        {
            "targets": [HEALTHY, *hung],
            "probes": {"processes": 1},
            "operations": {"point_select": {"samples": 5, "timeout": "2s"}},
        }
    )
    exporter.start().serving()
    names = [target["name"] for target in hung]
    for _ in range(2):
        then = time.time()
        for collector in ("encryption_state", "activity"):
            exporter.until_all(
                names,
                lambda page, name, collector=collector, then=then: succeeded(page, name, collector) > then,
                f"{collector} of all",
                patience=60,
            )
    exporter.until(
        lambda: exporter.total("tde_canary_run_failures_total", target="run", reason="timeout") >= 4, "timeouts"
    )
    exporter.until_all(
        ["standbys", "heartbeat"], lambda page, name: page.total("tde_canary_runs_total", target=name) >= 20, "canaries"
    )
    assert exporter.value("tde_exporter_collector_success", target="standbys", collector="standby") == 0
    # What could not be done in time is counted, and not made up for.
    assert exporter.total("tde_exporter_runs_skipped_total", reason="busy") > 0
    assert_rhythm(exporter, "healthy", rounds=2)


def succeeded(page, name, collector):
    return page.value("tde_exporter_collector_last_success_timestamp_seconds", target=name, collector=collector) or 0.0
