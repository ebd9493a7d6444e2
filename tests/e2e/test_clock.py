"""The wall clock steps under a running exporter: it neither stops nor makes up for what never was due."""

import time

import pytest


# Back, `tests/complaints/test_t13_clock.py` steps as well, under targets with servers.
@pytest.mark.parametrize("step", [pytest.param("-3600", marks=pytest.mark.long), "+3600"])
def test_runs_go_on_after_a_step_and_come_one_by_one(daemon, small, libfaketime, tmp_path, step):
    stepped = tmp_path / "offset"
    stepped.write_text("+0")
    exporter = daemon(
        small(operations=["point_select"]),
        {
            "LD_PRELOAD": str(libfaketime),
            "FAKETIME_TIMESTAMP_FILE": str(stepped),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        },
    )
    exporter.start().ready()
    exporter.until(lambda: ticks(exporter) >= 3, "ticks before the step")
    before, begun = ticks(exporter), time.monotonic()
    stepped.write_text(step)

    exporter.until(lambda: exporter.total("tde_exporter_clock_steps_total") >= 1, "the step to be seen")
    exporter.until(lambda: ticks(exporter) >= before + 4, "ticks after the step")
    elapsed = time.monotonic() - begun
    # One tick a second was due; a made-up hour would be 3 600 of them.
    assert ticks(exporter) - before <= elapsed + 3
    assert exporter.value("tde_target_up") == 1
    assert exporter.get("/-/healthy").status_code == 200


def ticks(exporter):
    return exporter.total("tde_canary_runs_total", variant="plain") / 20
