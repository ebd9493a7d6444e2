"""Somebody else holds a lock on our twins: the canaries that meet it fail with that reason, and nothing else waits for it."""

import contextlib
import sqlite3

from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm, runs
from tests.servers.room import free_port
from tests.watched import BOTH, PATIENT, QUICK, SCHEMA, Count, settings

RUNS = "tde_canary_runs_total"
FAILURES = "tde_canary_run_failures_total"
SUCCESS = "tde_exporter_collector_success"
OTHERS = ("activity", "encryption_state")


def waited(page, name, variant):
    return page.total(FAILURES, target=name, variant=variant, reason="lock_timeout")


def failures(page, name):
    return page.total(FAILURES, target=name)


@contextlib.contextmanager
def held(everywhere, *statements):
    """A session on each server that has said these statements, and ends with the block."""
    with contextlib.ExitStack() as stack:
        for watched in everywhere:
            cursor = stack.enter_context(watched.server.connect()).cursor()
            for statement in statements:
                cursor.execute(statement)
        yield


def test_locked_twins_fail_for_the_lock_and_hold_up_nothing_else(everywhere, daemon, scraped):
    exporter = daemon(settings(HEALTHY, *(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 1, "valid pairs")
    with scraped(exporter) as scraper, Count({one.engine: one.server.port for one in everywhere}) as count:
        with held(everywhere, f"LOCK TABLES {SCHEMA}.main_encrypted WRITE, {SCHEMA}.main_plain WRITE"):
            for variant in ("encrypted", "plain"):
                exporter.until_all(BOTH, lambda page, name, variant=variant: waited(page, name, variant), variant)
            alive = {(name, other): last_success(exporter, name, other) for name in BOTH for other in OTHERS}
            for other in OTHERS:
                exporter.until_all(
                    BOTH,
                    lambda page, name, other=other: last_success(page, name, other) > alive[name, other] + 1,
                    f"{other} to go on beside the lock",
                )
            assert_rhythm(exporter, "healthy", rounds=2)
            exporter.until_said("another session")
            assert all(0 < most <= 4 for most in count.most.values()), count.most
        done = {name: succeeded(exporter, name) for name in BOTH}
        exporter.until_all(BOTH, lambda page, name: succeeded(page, name) > done[name], "canaries as before")
        exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 1, "valid pairs again")
    assert scraper.problems == []


def test_a_target_whose_canaries_only_wait_for_locks_is_up(everywhere, daemon):
    """It was reached and used: a call for a database that is down would be a wrong one, a ticket for its canaries is not."""
    # Knowledge lasts as long as by default here, where a round of canaries that wait takes some of their intervals.
    intervals = QUICK | {"encryption_state": "60s"}
    exporter = daemon(settings(*(watched.target(intervals=intervals) for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: succeeded(page, name) >= 5, "canaries")
    ups = set()

    def rounds(page, name):
        ups.add(page.value("tde_target_up", target=name))
        return page.total(FAILURES, target=name, reason="lock_timeout") >= 2 * 2

    with held(everywhere, f"LOCK TABLES {SCHEMA}.main_encrypted WRITE, {SCHEMA}.main_plain WRITE"):
        exporter.until_all(BOTH, rounds, "two rounds that wait on both sides")
    assert ups == {1.0}


def test_rows_that_somebody_locks_cost_nothing(everywhere, daemon):
    """Whoever waits for somebody would wait until the end of the test, which holds the locks until it has seen enough."""
    exporter = daemon(settings(*(watched.target() for watched in everywhere), operations=PATIENT)).start().serving()
    exporter.until_all(BOTH, runs, "runs")
    with held(
        everywhere,
        "BEGIN",
        f"SELECT COUNT(*) FROM {SCHEMA}.main_encrypted FOR UPDATE",
        f"SELECT COUNT(*) FROM {SCHEMA}.main_plain FOR UPDATE",
    ):
        before = {name: runs(exporter, name) for name in BOTH}
        exporter.until_all(BOTH, lambda page, name: runs(page, name) >= before[name] + 30, "three rounds")
        assert [failures(exporter, name) for name in BOTH] == [0, 0]


def test_our_own_sessions_hold_no_lock_between_queries(everywhere, daemon):
    """A change of a table has to wait for every session that has it in a transaction, and all others wait behind it."""
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, runs, "runs")
    for watched in everywhere:
        with held(
            [watched], "SET SESSION lock_wait_timeout = 30", *2 * [f"ALTER TABLE {SCHEMA}.main_plain ENGINE = InnoDB"]
        ):
            pass
    before = {name: succeeded(exporter, name) for name in BOTH}
    exporter.until_all(BOTH, lambda page, name: succeeded(page, name) > before[name], "canaries as before")


def test_a_locked_heartbeat_starves_nobody(everywhere, daemon):
    """Each heartbeat waits for a second and wants to come again after a third of one: the lane is never idle."""
    standby = {"name": "far", "host": "127.0.0.1", "port": free_port()}
    intervals = QUICK | {"heartbeat": "300ms", "standby": "2s"}
    targets = [watched.target(standbys=[standby], intervals=intervals) for watched in everywhere]
    exporter = daemon(settings(*targets, operations=PATIENT)).start().serving()
    exporter.until_all(BOTH, lambda page, name: beats(page, name) == 1, "heartbeats")
    with held(everywhere, "BEGIN", f"SELECT * FROM {SCHEMA}.heartbeat FOR UPDATE"):
        exporter.until_all(BOTH, lambda page, name: beats(page, name) == 0, "heartbeats to fail")
        exporter.until_said("another session held a lock", times=2)
        before = {name: runs(exporter, name) for name in BOTH}
        exporter.until_all(BOTH, lambda page, name: runs(page, name) >= before[name] + 30, "three rounds")
        for other in OTHERS:
            then = {name: last_success(exporter, name, other) for name in BOTH}
            exporter.until_all(
                BOTH, lambda page, name, other=other, then=then: last_success(page, name, other) > then[name], other
            )
        assert [failures(exporter, name) for name in BOTH] == [0, 0]
        assert [exporter.value("tde_target_up", target=name) for name in BOTH] == [1.0, 1.0]
    exporter.until_all(BOTH, lambda page, name: beats(page, name) == 1, "heartbeats again")


def test_an_embedded_twin_that_somebody_locks(daemon, tmp_path):
    place = tmp_path / "twins"
    target = HEALTHY | {
        "engine": "sqlite",
        "name": "embedded",
        "directory": str(place),
        "key_file": str(place / "key"),
        "pairs": [{"name": "phonebook", "rows": 5_000}],
        "operations": ["point_select", "insert_batch"],
        "standbys": [],
    }
    exporter = daemon(settings(target)).start().serving()
    exporter.until(lambda: exporter.total(RUNS, operation="insert_batch") >= 10, "writing")
    (plain,) = [path for path in place.glob("*.db") if path.read_bytes()[:6] == b"SQLite"]
    with contextlib.closing(sqlite3.connect(plain, isolation_level=None)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        locked = {"operation": "insert_batch", "variant": "plain", "reason": "lock_timeout"}
        exporter.until(lambda: exporter.total(FAILURES, **locked) >= 1, "writing to wait in vain")
        before = exporter.total(RUNS, operation="point_select")
        exporter.until(lambda: exporter.total(RUNS, operation="point_select") >= before + 30, "reading to go on")
        assert exporter.total(FAILURES, operation="point_select") == 0
        somebody.execute("ROLLBACK")
    exporter.until(lambda: written(exporter.page()) >= 10, "runs to be told")
    before = written(exporter.page())
    exporter.until(lambda: written(exporter.page()) >= before + 10, "writing again")
    exporter.until(lambda: exporter.value("tde_pair_valid") == 1, "valid twins")


def beats(page, name):
    return page.value(SUCCESS, target=name, collector="heartbeat")


def written(page):
    return page.total(RUNS, operation="insert_batch") - page.total(FAILURES, operation="insert_batch")


def last_success(page, name, collector):
    return page.value("tde_exporter_collector_last_success_timestamp_seconds", target=name, collector=collector) or 0.0


def succeeded(page, name):
    return runs(page, name) - failures(page, name)
