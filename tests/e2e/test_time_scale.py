"""An hour of an exporter in five seconds, for tests; and never for anybody else."""

from __future__ import annotations

import time

import pytest

from exporter.domain.time_scale import SCALE_VARIABLE
from tests.command_line import CommandLine, assert_one_line
from tests.scaled import scaled

FACTOR = 720.0
SAMPLES = 5
"""Of either side in one tick."""
OPERATION = {"operation": "insert_batch"}
# Paced seconds: thirty ticks an hour, one each sixth of a real second.
INTERVALS = {"canary": "120s", "encryption_state": "240s", "activity": "240s", "heartbeat": "60s", "standby": "240s"}


@pytest.fixture
def hasty(small):
    """An embedded target whose inserts are encrypted as cheaply as can be, so that all is well with it."""
    settings = small(
        operations=["insert_batch"], cipher="aegis", pairs=[{"name": "phonebook", "rows": 1000}], intervals=INTERVALS
    )
    return settings | {"operations": {"insert_batch": {"samples": SAMPLES, "timeout": "5s"}}}


def ticks(page):
    return page.total("tde_canary_runs_total", variant="encrypted", **OPERATION) / SAMPLES


def test_hours_pass_in_seconds_windows_slide_and_verdicts_are_found(daemon, hasty):
    exporter = daemon(hasty, scaled(FACTOR)).start().ready()
    begun = time.time()
    pages = []

    def judged():
        pages.append(exporter.page())
        # On a busy machine the noise may be too loud for more.
        words = ("within_budget", "undecided")
        return any(pages[-1].value("tde_overhead_state", state=word, **OPERATION) == 1 for word in words)

    # It takes an hour of data.
    exporter.until(judged, "a verdict")
    exporter.until(lambda: ticks(exporter.page()) >= 70, "more than two hours of ticks")
    page = exporter.page()

    in_window = page.value("tde_overhead_samples", window="1h", variant="encrypted", **OPERATION) / SAMPLES
    # An hour holds thirty ticks; the block that is open is a part of two or three more.
    assert 0 < in_window <= 34
    assert ticks(page) >= 70
    assert page.value("tde_target_up", target="embedded") == 1
    # Unix time is that of everybody else, and durations are real: two hours are more than what has passed.
    last = page.value("tde_canary_last_success_timestamp_seconds", variant="encrypted", **OPERATION)
    assert begun <= last <= time.time() < begun + 7200.0
    assert page.value("tde_exporter_collector_duration_seconds", collector="canary") < time.time() - begun
    assert "time runs 720 times as fast" in exporter.words()


def test_what_was_measured_in_paced_time_is_found_again_after_a_restart(daemon, hasty):
    exporter = daemon(hasty, scaled(FACTOR)).start().ready()
    exporter.until(lambda: ticks(exporter.page()) >= 10, "ticks")
    exporter.stop()
    exporter.start().ready()
    pages = []

    def found():
        pages.append(exporter.page())
        # A day, for an hour is over in five seconds, and a busy machine takes longer to start it again.
        known = pages[-1].total("tde_overhead_samples", variant="encrypted", window="24h")
        return known > ticks(pages[-1]) * SAMPLES > 0

    exporter.until(found, "samples of before the restart")


@pytest.mark.parametrize("command", ["check", "run", "once", "targets"])
def test_an_operator_who_finds_the_variable_is_refused(tmp_path, command):
    done = CommandLine(tmp_path)(command, **{SCALE_VARIABLE: "720@1800000000"})
    assert_one_line(done, "only the tests of this program may do. Unset it")
    assert not (tmp_path / "state").exists()
