"""kill -9 at random moments: the exporter always starts again, nothing is stale, nothing is lost."""

import random
import time

import pytest


def test_ten_kills_at_random_moments(daemon, small):
    survive(daemon(small()), kills=10)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_kills_at_random_moments(daemon, small):
    survive(daemon(small()), kills=200)


def survive(exporter, kills):
    rng = random.Random(kills)
    key = exporter.directory / "state" / "targets" / "embedded" / "key"
    keys = set()
    for _ in range(kills):
        exporter.start()
        # From the first milliseconds (building twins) to the middle of ticks; the moment is what is tested.
        time.sleep(rng.uniform(0.05, 2.5))
        if key.exists():
            keys.add(key.read_bytes())
        exporter.kill()

    exporter.start().ready()
    exporter.until(lambda: exporter.value("tde_pair_valid") == 1, "valid twins")
    before = exporter.total("tde_canary_runs_total", operation="insert_batch")
    exporter.until(
        lambda: exporter.total("tde_canary_runs_total", operation="insert_batch") >= before + 4, "writing operations"
    )
    assert exporter.total("tde_canary_run_failures_total") == 0
    assert keys == {key.read_bytes()}
    left = {path.name for path in key.parent.iterdir()}
    assert not [name for name in left if "tmp" in name or "build" in name]
