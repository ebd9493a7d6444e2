"""Two exporters on one target: they cannot spoil each other's work, the second says so, and takes over when the first is gone.

agronholm/apscheduler and others leave it to the operator to run one instance only.
"""

import contextlib
import os
import signal
import sqlite3

import pytest

from exporter.engines._mysql_protocol.heartbeat import lock_name
from tests.command_line import PATIENCE, CommandLine
from tests.processes import until
from tests.servers.proxy import Proxy
from tests.servers.room import free_port
from tests.watched import BOTH, PATIENT, SCHEMA, settings

FAILURES = "tde_canary_run_failures_total"
RUNS = "tde_canary_runs_total"
SUCCESS = "tde_exporter_collector_success"
LOCK = "tde_exporter_scratch_lock_held"
BEAT = 1.0
"""Seconds from heartbeat to heartbeat, which is what the lock of a server is wanted for."""
TAKEN_WITHIN = 5 * 2 * BEAT
"""Seconds: two intervals, with fivefold room on a busy machine."""
IDLE = 300.0
"""Seconds after which a server ends a session that beats each second and is not heard of any more."""


def lock(page, name):
    return page.value(LOCK, target=name)


# -- files ---------------------------------------------------------------------------------------------


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
    return page.total(RUNS, operation="update_batch") - page.total(FAILURES, operation="update_batch")


@pytest.mark.long
def test_one_directory_of_embedded_twins(daemon, tmp_path):
    place = tmp_path / "twins"
    first = daemon(embedded(place)).start().serving()
    first.until(lambda: written(first) >= 10, "the first to write")
    second = daemon(embedded(place)).start().serving()
    second.until(lambda: second.total(FAILURES, operation="update_batch", reason="blocked") >= 4, "the second to wait")
    second.until_said(f"held by somebody else: process {first.children()[0]} on ")
    # What only reads is nobody's alone.
    second.until(lambda: second.total(RUNS, operation="point_select") >= 20, "the second to read")
    assert second.total(FAILURES, operation="point_select") == 0
    assert written(second) == 0
    before = written(first)
    first.until(lambda: written(first) >= before + 10, "the first to go on")
    assert first.total(FAILURES) == 0
    assert (lock(first, "db"), lock(second, "db")) == (1, 0)
    assert "scratch lock" not in first.get("/").text

    blocked = second.total(FAILURES, operation="update_batch")
    first.kill()
    second.until(lambda: lock(second, "db") == 1, "the second to have the lock")
    second.until(lambda: written(second) >= 10, "the second to take over")
    # Each tick that found the lock taken is one failure on each side: two intervals are two ticks.
    assert second.total(FAILURES, operation="update_batch") - blocked <= 2 * 2
    second.until(lambda: second.value("tde_pair_valid") == 1, "valid twins")
    second.stop()
    plain = [path for path in place.rglob("*.db") if path.read_bytes()[:6] == b"SQLite"]
    assert plain
    for path in plain:
        with contextlib.closing(sqlite3.connect(path)) as twin:
            assert twin.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert twin.execute("SELECT COUNT(*), COUNT(DISTINCT id) FROM phonebook").fetchall() == [(5_000, 5_000)]


# -- servers -------------------------------------------------------------------------------------------


@pytest.fixture
def configured(everywhere):
    """A configuration for both servers, straight or through other addresses; heartbeats are written for a standby that is
    not there."""

    def make(*addresses, **more):
        standby = {"name": "far", "host": "127.0.0.1", "port": free_port()}
        intervals = {"canary": "1s", "encryption_state": "1s", "heartbeat": f"{BEAT:g}s", "standby": "1s"}
        places = addresses or tuple(watched.server.address for watched in everywhere)
        targets = [
            watched.target(place, standbys=[standby], intervals=intervals, **more)
            for watched, place in zip(everywhere, places, strict=True)
        ]
        return settings(*targets, operations=PATIENT)

    return make


@pytest.fixture
def two(daemon, configured):
    """Two exporters; the first has the locks, and the second knows it."""
    first, second = (daemon(configured()) for _ in range(2))
    first.start().serving()
    first.until_all(BOTH, lambda page, name: lock(page, name) == beats(page, name) == 1, "the first to have the locks")
    second.start().serving()
    second.until_all(BOTH, lambda page, name: lock(page, name) == beats(page, name) == 0, "the second to be refused")
    return first, second


def test_one_schema_of_a_server(two, everywhere):
    """Canaries read, which all may do; heartbeats are written by one."""
    first, second = two
    second.until_said("belongs to another exporter", times=2)
    for watched, session in zip(everywhere, holders(everywhere), strict=True):
        second.until_said(f"held by somebody else: connection {session}, of the user {watched.user} from 127.0.0.1:")
    assert "scratch lock" not in first.get("/").text
    second.until_all(BOTH, lambda page, name: page.total(RUNS, target=name) >= 20, "canaries of both")
    assert second.total(FAILURES) == 0
    before = sequences(everywhere)
    until(
        lambda: all(now > old + 3 for now, old in zip(sequences(everywhere), before, strict=True)), "beats of the first"
    )
    first.until_all(BOTH, lambda page, name: lock(page, name) == beats(page, name) == 1, "the first to go on")

    sessions = holders(everywhere)
    first.kill()
    taken_over(everywhere, sessions)
    second.until_all(
        BOTH, lambda page, name: lock(page, name) == beats(page, name) == 1, "the second to say that it has"
    )
    assert "scratch lock" not in second.get("/").text
    after = sequences(everywhere)
    assert all(now > old for now, old in zip(after, before, strict=True))


def test_a_probe_process_that_is_killed_leaves_its_locks_to_the_other_exporter(two, everywhere):
    first, second = two
    sessions = holders(everywhere)
    (probe,) = first.children()
    os.kill(probe, signal.SIGKILL)
    taken_over(everywhere, sessions)
    second.until_all(
        BOTH, lambda page, name: lock(page, name) == beats(page, name) == 1, "the second to say that it has"
    )
    # Its successor is the second now, and knows that.
    first.until_all(BOTH, lambda page, name: lock(page, name) == beats(page, name) == 0, "the first to be the second")


def test_a_frozen_exporter_keeps_its_locks_while_its_sessions_last(two, everywhere):
    """To the server it is an idle client. Its sessions end after minutes; here somebody ends them."""
    first, second = two
    sessions, before = holders(everywhere), sequences(everywhere)
    with frozen(first):
        runs = {name: second.total(RUNS, target=name) for name in BOTH}
        second.until_all(BOTH, lambda page, name: page.total(RUNS, target=name) >= runs[name] + 30, "three rounds")
        assert holders(everywhere) == sessions
        assert [lock(second.page(), name) for name in BOTH] == [0, 0]
    first.until_all(BOTH, lambda page, name: lock(page, name) == beats(page, name) == 1, "the first to go on")
    until(lambda: all(now > old for now, old in zip(sequences(everywhere), before, strict=True)), "its beats")
    assert holders(everywhere) == sessions

    with frozen(first):
        for watched, session in zip(everywhere, sessions, strict=True):
            watched.server.query(f"KILL {session}")
        taken_over(everywhere, sessions)
        second.until_all(BOTH, lambda page, name: lock(page, name) == beats(page, name) == 1, "the second to go on")
        before = sequences(everywhere)
    # Whoever comes back finds that he is not the one any more, and writes nothing over what was written since.
    first.until_all(BOTH, lambda page, name: lock(page, name) == beats(page, name) == 0, "the first to be refused")
    until(lambda: all(now > old for now, old in zip(sequences(everywhere), before, strict=True)), "beats of the second")


def test_twins_made_and_dropped_by_two_at_once_beside_two_exporters_are_whole(two, everywhere, tmp_path):
    rows = 3_000
    pair = [{"name": "second", "rows": rows}]
    for watched in everywhere:
        lines = [CommandLine(tmp_path / f"dba-{watched.engine}-{number}") for number in range(2)]
        for line in lines:
            line.folder.mkdir()
            line.config(settings(watched.target(pairs=pair)))

        def at_once(*words, lines=lines, watched=watched):
            config = [("-c", str(line.folder / "config.yaml")) for line in lines]
            started = [line.start(*each, *words, *watched.as_root()) for line, each in zip(lines, config, strict=True)]
            return [(*process.communicate(timeout=PATIENCE), process.returncode) for process in started]

        for _ in range(2):
            done = at_once("provision")
            assert refused_but_one(done), done
            assert [content(watched, f"second_{kind}")[0] for kind in ("encrypted", "plain")] == [rows, rows]
            assert content(watched, "second_encrypted") == content(watched, "second_plain")
            done = at_once("drop", "--yes")
            assert refused_but_one(done), done
            sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_name LIKE 'second%%'"
            assert list(watched.server.query(sql, SCHEMA)) == []
        heartbeat = watched.server.query(f"SELECT COUNT(*) AS rows_there FROM {SCHEMA}.heartbeat")
        assert heartbeat[0]["rows_there"] == 1
        assert content(watched, "main_encrypted") == content(watched, "main_plain")
    for exporter in two:
        runs = {name: exporter.total(RUNS, target=name) for name in BOTH}
        exporter.until_all(BOTH, lambda page, name, runs=runs: page.total(RUNS, target=name) > runs[name], "canaries")
        assert exporter.total(FAILURES) == 0


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_an_exporter_whose_network_is_cut_loses_its_locks_within_minutes(everywhere, daemon, configured):
    """Nobody tells the server: only its own patience with a silent client ends the session."""
    with contextlib.ExitStack() as stack:
        cut = [stack.enter_context(Proxy(watched.server.address)) for watched in everywhere]
        first, second = daemon(configured(*(proxy.address for proxy in cut))), daemon(configured())
        first.start().serving()
        first.until_all(BOTH, lambda page, name: lock(page, name) == 1, "the first to have the locks")
        before = sequences(everywhere)
        # From the third heartbeat on the session may rest for minutes only.
        until(lambda: all(now > old + 3 for now, old in zip(sequences(everywhere), before, strict=True)), "its beats")
        second.start().serving()
        second.until_all(BOTH, lambda page, name: lock(page, name) == 0, "the second to be refused")
        sessions = holders(everywhere)
        for proxy in cut:
            proxy.go_silent()
        first.until_all(BOTH, lambda page, name: lock(page, name) is None, "the first to know nothing any more")
        assert holders(everywhere) == sessions
        taken_over(everywhere, sessions, patience=IDLE + 60.0)
        second.until_all(BOTH, lambda page, name: lock(page, name) == beats(page, name) == 1, "the second to go on")
        for proxy in cut:
            proxy.go_on()
        first.until_all(
            BOTH, lambda page, name: lock(page, name) == beats(page, name) == 0, "the first to be refused", 400.0
        )


def refused_but_one(done):
    """Whether one of two commands at least succeeded, and the other one too, or for the other's sake not."""
    failed = [errors for _, errors, code in done if code != 0]
    return len(failed) < len(done) and all("another exporter works in the schema" in errors for errors in failed)


def content(watched, table):
    """(number of rows, what distinguishes them from all others)."""
    sql = f"SELECT COUNT(*) AS number, BIT_XOR(CRC32(CONCAT_WS('/', id, area, name, pad))) AS digest FROM {SCHEMA}.{table}"
    (row,) = watched.server.query(sql)
    return row["number"], row["digest"]


@contextlib.contextmanager
def frozen(exporter):
    """All processes of an exporter stand still."""
    processes = [exporter.process.pid, *exporter.children()]
    for number in processes:
        os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in reversed(processes):
            os.kill(number, signal.SIGCONT)


def holders(everywhere):
    """On each server the session that has the lock; None: nobody."""
    return [watched.server.value("SELECT IS_USED_LOCK(%s)", lock_name(SCHEMA)) for watched in everywhere]


def taken_over(everywhere, former, patience=TAKEN_WITHIN):
    def others():
        return all(now not in (None, old) for now, old in zip(holders(everywhere), former, strict=True))

    until(others, "others to have the locks", patience)


def beats(page, name):
    return page.value(SUCCESS, target=name, collector="heartbeat")


def sequences(everywhere):
    sql = f"SELECT seq FROM {SCHEMA}.heartbeat WHERE id = 1"
    return [int(watched.server.query(sql)[0]["seq"]) for watched in everywhere]
