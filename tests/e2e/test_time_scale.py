"""An hour of an exporter in five seconds, for tests; and never for anybody else."""

from __future__ import annotations

import time

import pytest

from exporter.domain.time_scale import SCALE_VARIABLE
from tests.command_line import CommandLine, assert_one_line
from tests.scaled import scaled

FACTOR = 720.0
SAMPLES = 20
"""Of either side in one tick of point selects."""

HOURLY = {"canary": "240s", "encryption_state": "240s", "activity": "240s", "heartbeat": "60s", "standby": "240s"}
"""Paced seconds: fifteen ticks an hour, one each third of a real second."""


def ticks(exporter):
    return exporter.total("tde_canary_runs_total", operation="point_select", variant="encrypted") / SAMPLES


def test_hours_pass_in_seconds_and_the_window_slides(daemon, small):
    exporter = daemon(small(operations=["point_select"], intervals=HOURLY), scaled(FACTOR)).start().ready()
    begun = time.time()
    exporter.until(lambda: ticks(exporter) >= 35, "more than two hours of ticks")
    page = exporter.page()

    in_window = page.value("tde_overhead_samples", operation="point_select", window="1h", variant="encrypted") / SAMPLES
    # An hour holds fifteen ticks; the block that is open is a part of a sixteenth and seventeenth.
    assert 0 < in_window <= 17 < 35 <= page.total("tde_canary_runs_total", variant="encrypted") / SAMPLES
    assert page.value("tde_target_up", target="embedded") == 1
    # Unix time is that of everybody else.
    last = page.value("tde_canary_last_success_timestamp_seconds", operation="point_select", variant="encrypted")
    assert begun <= last <= time.time()
    # Durations are as long as they are: two hours would not fit into the real ones that have passed.
    assert page.value("tde_exporter_collector_duration_seconds", collector="canary") < time.time() - begun + 60.0
    assert "time runs 720 times as fast" in exporter.words()


def test_what_was_measured_in_paced_time_is_found_again_after_a_restart(daemon, small):
    exporter = daemon(small(operations=["point_select"], intervals=HOURLY), scaled(FACTOR)).start().ready()
    exporter.until(lambda: ticks(exporter) >= 10, "ticks")
    exporter.stop()
    exporter.start().ready()
    exporter.until(
        lambda: exporter.total("tde_overhead_samples", variant="encrypted") > ticks(exporter) * SAMPLES > 0,
        "samples of before the restart",
    )


@pytest.mark.parametrize("command", ["check", "run", "once", "targets"])
def test_an_operator_who_finds_the_variable_is_refused(tmp_path, command):
    done = CommandLine(tmp_path)(command, **{SCALE_VARIABLE: "720@1800000000"})
    assert_one_line(done, "only the tests of this program may do. Unset it")
    assert not (tmp_path / "state").exists()
