"""T8: a wrong password is tried once, for all purposes together; a right one is taken at the next tick, without a restart.

oracle-db-appdev-monitoring#372 #440, trino#8326, fishymetrics#161
"""

import os

from benchmarks.figures import note
from tests.watched import BOTH, settings

RUNS = "tde_canary_runs_total"
UP = "tde_target_up"
ERRORS = "tde_target_connection_errors_total"


def refused(watched):
    """How many logins of the account the server has refused, by its own log."""
    return watched.server.log().count(f"Access denied for user '{watched.user}'")


def test_a_wrong_password_is_tried_once_and_a_right_one_at_the_next_tick(everywhere, daemon):
    for watched in everywhere:
        watched.secret.write_text("not-the-password-1")
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total(ERRORS, target=name, reason="auth") >= 6, "several runs")
    assert [refused(watched) for watched in everywhere] == [1, 1]
    exporter.until_said("when the secret has changed", times=2)

    for watched in everywhere:
        watched.secret.write_text("not-the-password-2")
    exporter.until_all(BOTH, lambda page, name: page.total(ERRORS, target=name, reason="auth") >= 12, "several more")
    assert [refused(watched) for watched in everywhere] == [2, 2]
    assert [exporter.value(UP, target=name) for name in BOTH] == [0.0, 0.0]

    for watched in everywhere:
        watched.secret.write_text(watched.password)
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up")
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name), "runs")
    tried = [refused(watched) for watched in everywhere]
    # Two wrong ones were there, one after the other.
    note("wrong password", os.getloadavg()[0], **{"logins with a wrong password, per secret": max(tried) / 2})
    assert tried == [2, 2]


def test_a_password_that_was_changed_on_the_server(everywhere, daemon):
    """Sessions go on with the old one; lost ones find out, once, and the new one is read from the file."""
    exporter = daemon(settings(*(watched.target() for watched in everywhere))).start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name), "runs")
    for watched in everywhere:
        watched.change_password("the-new-password-3")
    before = {name: exporter.total(RUNS, target=name) for name in BOTH}
    exporter.until_all(BOTH, lambda page, name: page.total(RUNS, target=name) > before[name], "runs as before")
    assert [refused(watched) for watched in everywhere] == [0, 0]

    for watched in everywhere:
        watched.kill_sessions()
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 0, "both to be down")
    exporter.until_all(BOTH, lambda page, name: page.total(ERRORS, target=name, reason="auth") >= 5, "refusals")
    assert [refused(watched) for watched in everywhere] == [1, 1]

    for watched in everywhere:
        watched.secret.write_text(watched.password)
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up")
    assert [refused(watched) for watched in everywhere] == [1, 1]
