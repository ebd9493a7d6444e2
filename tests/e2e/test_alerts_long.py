"""Three days with nothing wrong, at 480 times the usual pace: nothing is heard of but the watchdog."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alarms import Story, at_pace, watched
from tests.servers.mariadb import MariaDbServer
from tests.watched import POOL_MB, Watched, settings

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

FACTOR = 480.0
DAYS = 3.0
SAMPLES = 5
OPERATIONS = ("insert_batch", "update_batch", "delete_replenish")
"""What these cost with the cheapest cipher is well below the threshold, and none is blind."""
RARELY = dict.fromkeys(("canary", "encryption_state", "activity", "heartbeat", "standby"), "240s")


def embedded() -> dict:
    return {
        "name": "embedded",
        "engine": "sqlite",
        "cipher": "aegis",
        "pairs": [{"name": "phonebook", "rows": 1000}],
        "operations": list(OPERATIONS),
        "intervals": RARELY,
        "budgets": {"time_share_ratio": 1.0, "bytes_written_per_hour": "100GiB"},
    }


def noise(story: Story) -> str:
    """What disturbs the calm, if anything."""
    heard = [str(episode) for episode in (*story.heard(), *story.heard("embedded"), *story.heard("mariadb"))]
    return "\n".join(heard + story.stack.prometheus.broken_rules())


def test_nobody_is_called_in_three_days(tmp_path: Path) -> None:
    with MariaDbServer("11.8", buffer_pool_mb=POOL_MB) as server:
        (tmp_path / "mariadb").mkdir()
        mariadb = Watched(server, tmp_path / "mariadb")
        done = mariadb.provision()
        assert done.returncode == 0, done.stderr
        samples = {name: {"samples": SAMPLES, "timeout": "5s"} for name in (*OPERATIONS, "point_select")}
        targets = settings(embedded(), mariadb.target(intervals=RARELY), operations=samples)
        with watched(tmp_path, targets, at_pace(FACTOR, standby_lag_seconds=15.0)) as story:
            begun = story.exporter.value("process_start_time_seconds")
            assert begun is not None
            story.stack.until(lambda: story.stack.receiver.episodes("TDEWatchdog"), "the watchdog")

            def days() -> float:
                """How many have passed on the page that Prometheus scraped last, unless something was heard."""
                assert not noise(story), noise(story)
                newest = story.stack.prometheus.value("max(tde_canary_last_success_timestamp_seconds)")
                return ((newest or begun) - begun) * FACTOR / 86400.0

            story.stack.until(lambda: days() >= DAYS, "three days", patience=1200.0)
            page = story.exporter.page()
            for target, operation in (*(("embedded", name) for name in OPERATIONS), ("mariadb", "point_select")):
                # It was measured and judged: at least half of the ticks of the last day, however busy the machine was.
                where = {"target": target, "operation": operation}
                counted = page.value("tde_overhead_samples", window="24h", variant="encrypted", **where)
                assert counted is not None
                assert counted >= SAMPLES * 86400 / 240 / 2
                assert [
                    value
                    for (name, labels), value in page.samples.items()
                    if name == "tde_overhead_breach" and set(where.items()) <= labels
                ]
            assert page.total("tde_overhead_breach") == 0
            story.assert_account()
