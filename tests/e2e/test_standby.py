"""Standbys of the embedded default: pause, kill, recovery; a lag is true or it is not there."""

import contextlib
import os
import signal
import time

import pytest

from tests.processes import alive, appliers

KINDS = ("transport", "apply", "heartbeat")
UP_TO_DATE = 1.5
"""Seconds that a standby is behind at most that keeps up; a fifth of it where nobody else wants a processor."""
QUICK = {"canary": "1s", "encryption_state": "1s", "heartbeat": "200ms", "standby": "500ms"}


def by_kind(exporter, name):
    """One value for each kind of lag, all from one page."""
    page = {dict(labels)["kind"]: value for (found, labels), value in exporter.samples().items() if found == name}
    return [page.get(kind) for kind in KINDS]


def lags(exporter):
    return by_kind(exporter, "tde_standby_lag_seconds")


def known(exporter):
    return by_kind(exporter, "tde_standby_lag_known")


def up_to_date(exporter):
    return all(value is not None and value < UP_TO_DATE for value in lags(exporter))


def applier_of(exporter):
    found = [pid for probe in exporter.children() for pid in appliers(probe)]
    assert len(found) == 1
    return found[0]


@pytest.fixture
def exporter(daemon, small):
    exporter = daemon(small(intervals=QUICK, operations=["point_select"])).start().ready()
    exporter.until(lambda: up_to_date(exporter), "a standby that is up to date")
    yield exporter
    exporter.kill()
    for pid in appliers(mark=str(exporter.directory)):
        os.kill(pid, signal.SIGCONT)


def test_a_standby_that_keeps_up_says_so(exporter):
    before = exporter.value("tde_standby_sequence", stage="applied")
    exporter.until(lambda: exporter.value("tde_standby_sequence", stage="applied") >= before + 10, "heartbeats")

    assert exporter.value("tde_standby_configured", standby="local") == 1
    for name in ("transport_running", "apply_running", "master_key_match"):
        exporter.until(lambda name=name: exporter.value(f"tde_standby_{name}") == 1, name)
    exporter.until(lambda: known(exporter) == [1, 1, 1], "known lags")
    for collector in ("heartbeat", "standby"):
        succeeded = {"name": "tde_exporter_collector_success", "collector": collector}
        exporter.until(lambda succeeded=succeeded: exporter.value(**succeeded) == 1, collector)
    exporter.until_said("up to date")


def test_a_standby_paused_for_three_seconds_lags_for_three_seconds_and_comes_back(exporter):
    pid = applier_of(exporter)
    seen = []

    def look():
        seen.append(lags(exporter))
        return seen[-1]

    stopped = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    # The lag is looked at twice a second, so the last look may come half a second before the end of the pause.
    exporter.until(lambda: (look()[2] or 0.0) >= 2.5 and time.monotonic() - stopped >= 3.0, "a lag of 2.5 s")
    os.kill(pid, signal.SIGCONT)
    exporter.until(lambda: look() and up_to_date(exporter), "its return")
    back = time.monotonic() - stopped

    transport, _, heartbeat = ([lag for lag in kind if lag is not None] for kind in zip(*seen, strict=True))
    # It is no longer behind than it was paused and took to return, but for what it had not applied when that began.
    assert 2.5 <= max(heartbeat) <= back + UP_TO_DATE
    assert 2.5 <= max(transport) <= back + UP_TO_DATE
    assert min(lag for look in seen for lag in look if lag is not None) >= 0.0
    exporter.until(lambda: known(exporter) == [1, 1, 1], "known lags")


def test_a_killed_standby_is_unknown_not_zero_and_returns_by_itself(exporter):
    pid = applier_of(exporter)
    applied = exporter.value("tde_standby_sequence", stage="applied")
    pages = []

    def unknown():
        # Once more, where its successor was there before anybody had looked.
        for probe in exporter.children():
            for applier in appliers(probe):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(applier, signal.SIGKILL)
        pages.append({name: value for (name, _), value in exporter.samples().items() if "standby" in name})
        return pages[-1].get("tde_standby_lag_known") == 0

    exporter.until(unknown, "the lags to be unknown")
    assert pages[-1] == {
        "tde_standby_configured": 1,
        "tde_standby_lag_known": 0,
        "tde_standby_transport_running": 0,
        "tde_standby_apply_running": 0,
    }
    assert exporter.value("tde_target_up") == 1
    exporter.until(lambda: up_to_date(exporter), "its return")
    assert applier_of(exporter) != pid
    assert exporter.value("tde_standby_sequence", stage="applied") >= applied


def test_whatever_kills_the_daemon_the_standby_goes_with_it_and_comes_again(daemon, small):
    exporter = daemon(small(intervals=QUICK, operations=["point_select"]))
    applied = []
    for number in range(3):
        exporter.start().ready()
        exporter.until(lambda: up_to_date(exporter), "a standby that is up to date")
        applied.append(exporter.value("tde_standby_sequence", stage="applied"))
        pid = applier_of(exporter)
        if number == 1:
            os.kill(pid, signal.SIGSTOP)
        exporter.kill()
        if number == 1:
            os.kill(pid, signal.SIGCONT)
        exporter.until_gone(pid)

    assert applied == sorted(applied)
    assert applied[-1] > applied[0]
    exporter.start().ready()
    exporter.until(lambda: up_to_date(exporter), "a standby that is up to date")
    pid = applier_of(exporter)
    exporter.stop()
    assert not alive(pid)
    assert appliers(mark=str(exporter.directory)) == []


def test_a_killed_probe_process_takes_its_standby_along(exporter):
    pid = applier_of(exporter)
    page = exporter.lose_probe()
    assert not [name for name, _ in page.samples if name.startswith("tde_standby_")]
    exporter.until_gone(pid)
    exporter.until(lambda: up_to_date(exporter), "a standby that is up to date")


def test_a_snapshot_in_the_terminal_starts_no_standby(daemon, small):
    exporter = daemon(small(operations=["point_select"]))
    exporter.once()

    state = exporter.directory / "state" / "targets" / "embedded"
    assert sorted(path.name for path in state.glob("*.db")) == ["phonebook.encrypted.db", "phonebook.plain.db"]
    assert appliers(mark=str(exporter.directory)) == []
