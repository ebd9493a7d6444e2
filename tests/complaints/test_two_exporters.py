"""Two exporters on one target: they cannot spoil each other's work, the second says so, and takes over when the first is gone.

agronholm/apscheduler and others leave it to the operator to run one instance only.
"""

import contextlib
import sqlite3

import pytest

from tests.servers.room import free_port
from tests.watched import BOTH, PATIENT, SCHEMA, settings

FAILURES = "tde_canary_run_failures_total"
SUCCESS = "tde_exporter_collector_success"


def embedded(place):
    return settings(
        {
            "name": "db",
            "engine": "sqlite",
            "directory": str(place),
            "key_file": str(place / "key"),
            "pairs": [{"name": "phonebook", "rows": 5_000}],
            "operations": ["point_select", "update_batch"],
            "intervals": {"canary": "1s", "encryption_state": "1s"},
            "budgets": {"time_share_ratio": 1.0},
        }
    )


def written(page):
    """Writing runs that succeeded."""
    return page.total("tde_canary_runs_total", operation="update_batch") - page.total(
        FAILURES, operation="update_batch"
    )


@pytest.mark.long
def test_one_directory_of_embedded_twins(daemon, tmp_path):
    place = tmp_path / "twins"
    first = daemon(embedded(place)).start().serving()
    first.until(lambda: written(first) >= 10, "the first to write")
    second = daemon(embedded(place)).start().serving()
    second.until(lambda: second.total(FAILURES, operation="update_batch", reason="blocked") >= 4, "the second to wait")
    second.until(lambda: f"process {first.children()[0]}" in second.get("/").text, "the second to say who holds it")
    # What only reads is nobody's alone.
    second.until(lambda: second.total("tde_canary_runs_total", operation="point_select") >= 20, "the second to read")
    assert second.total(FAILURES, operation="point_select") == 0
    assert written(second) == 0
    before = written(first)
    first.until(lambda: written(first) >= before + 10, "the first to go on")
    assert first.total(FAILURES) == 0

    first.kill()
    second.until(lambda: written(second) >= 10, "the second to take over")
    second.until(lambda: second.value("tde_pair_valid") == 1, "valid twins")
    second.stop()
    plain = [path for path in place.rglob("*.db") if path.read_bytes()[:6] == b"SQLite"]
    assert plain
    for path in plain:
        with contextlib.closing(sqlite3.connect(path)) as twin:
            assert twin.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_one_schema_of_a_server(everywhere, daemon):
    """Canaries read, which all may do; heartbeats are written by one."""
    standby = {"name": "far", "host": "127.0.0.1", "port": free_port()}
    targets = [
        watched.target(standbys=[standby], intervals={"canary": "1s", "heartbeat": "300ms", "standby": "1s"})
        for watched in everywhere
    ]
    first, second = (daemon(settings(*targets, operations=PATIENT)) for _ in range(2))
    first.start().serving()
    first.until_all(BOTH, lambda page, name: beats(page, name) == 1, "the first to write heartbeats")
    second.start().serving()
    second.until_all(BOTH, lambda page, name: beats(page, name) == 0, "the second to be refused")
    second.until_said("belongs to another exporter", times=2)
    second.until_all(
        BOTH, lambda page, name: page.total("tde_canary_runs_total", target=name) >= 20, "canaries of both"
    )
    assert second.total(FAILURES) == 0
    before = sequences(everywhere)
    first.until(lambda: all(now > old + 3 for now, old in zip(sequences(everywhere), before, strict=True)), "its beats")
    first.until_all(BOTH, lambda page, name: beats(page, name) == 1, "the first to go on")

    first.kill()
    second.until_all(BOTH, lambda page, name: beats(page, name) == 1, "the second to take over")
    after = sequences(everywhere)
    assert all(now > old for now, old in zip(after, before, strict=True))


def beats(page, name):
    return page.value(SUCCESS, target=name, collector="heartbeat")


def sequences(everywhere):
    sql = f"SELECT seq FROM {SCHEMA}.heartbeat WHERE id = 1"
    return [int(watched.server.query(sql)[0]["seq"]) for watched in everywhere]
