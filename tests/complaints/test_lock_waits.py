"""Somebody else holds a lock on our twins: the canaries that meet it fail with that reason, and nothing else waits for it."""

import contextlib

import pytest

from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm, runs
from tests.watched import BOTH, SCHEMA, settings

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


@pytest.mark.timeout(150)
def test_locked_twins_fail_for_the_lock_and_hold_up_nothing_else(everywhere, daemon, scraped):
    exporter = daemon(settings(HEALTHY, *(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 1, "valid pairs")
    with scraped(exporter) as scraper:
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
            assert [watched.engine for watched in everywhere if len(watched.session_ids()) > 3] == []
            shown = exporter.get("/").text
        done = {name: succeeded(exporter, name) for name in BOTH}
        exporter.until_all(BOTH, lambda page, name: succeeded(page, name) > done[name], "canaries as before")
        exporter.until_all(BOTH, lambda page, name: page.value("tde_pair_valid", target=name) == 1, "valid pairs again")
    assert "another session" in shown
    assert scraper.problems == []


@pytest.mark.timeout(120)
def test_rows_that_somebody_locks_cost_nothing(everywhere, daemon):
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
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


@pytest.mark.timeout(120)
def test_our_own_sessions_hold_no_lock_between_queries(everywhere, daemon):
    """A change of a table has to wait for every session that has it in a transaction, and all others wait behind it."""
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, runs, "runs")
    for watched in everywhere:
        watched.server.query("SET SESSION lock_wait_timeout = 10")
        for number in range(5):
            watched.server.query(f"ALTER TABLE {SCHEMA}.main_plain COMMENT = 'change {number}'")
    before = {name: succeeded(exporter, name) for name in BOTH}
    exporter.until_all(BOTH, lambda page, name: succeeded(page, name) > before[name], "canaries as before")


def last_success(page, name, collector):
    return page.value("tde_exporter_collector_last_success_timestamp_seconds", target=name, collector=collector) or 0.0


def succeeded(page, name):
    return runs(page, name) - failures(page, name)
