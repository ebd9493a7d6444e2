"""T10: a lag is a true number or it is unknown; what is unknown is never 0, and never a number that cannot be.

dd-agent#425, orchestrator#1072, mongodb_exporter#1362, mysqld_exporter#471 #479 #604, proxysql#1691 #3579,
mysql-operator#563, postgres_exporter#545
"""

from typing import Any

import pytest

from tests.command_line import CommandLine
from tests.watched import settings

LAG, KNOWN = "tde_standby_lag_seconds", "tde_standby_lag_known"
UNKNOWN = None
STANDBYS: dict[str, tuple[dict[str, Any], float | None]] = {
    "null": ({"apply_lag": None}, UNKNOWN),
    "minus-one": ({"apply_lag": -1}, UNKNOWN),
    "absurd": ({"apply_lag": float("inf")}, UNKNOWN),
    "zero": ({"apply_lag": 0.0}, 0.0),
    "twelve": ({"apply_lag": 12.0}, 12.0),
    "a-day": ({"apply_lag": 93784.0}, 93784.0),
    "ahead": ({"apply_lag": 0.0, "clock_skew": 0.4}, 0.0),
    "stopped": ({"apply_lag": None, "apply_running": False}, UNKNOWN),
    "delayed": ({"apply_lag": 3600.0, "configured_delay": 3600.0}, 3600.0),
    "unknown-to-primary": ({"configured": False, "apply_lag": None, "apply_running": None}, UNKNOWN),
}


def test_a_page_tells_a_lag_or_that_it_is_unknown(daemon):
    standbys = [{"name": name, **said} for name, (said, _) in STANDBYS.items()]
    target: dict[str, Any] = {"name": "db", "engine": "fake", "standbys": standbys, "operations": ["point_select"]}
    target["intervals"] = {"standby": "1s", "canary": "1s"}
    exporter = daemon(settings(target)).start().serving()
    # That nothing is known of them is said before they are read.
    exporter.until_all(
        STANDBYS, lambda page, name: page.value("tde_standby_configured", standby=name) is not None, "them to be read"
    )
    page = exporter.page()
    for name, (said, lag) in STANDBYS.items():
        assert page.value(LAG, standby=name, kind="apply") == lag, name
        assert page.value(KNOWN, standby=name, kind="apply") == (lag is not None), name
        assert page.value("tde_standby_configured", standby=name) == said.get("configured", True), name
    assert page.value("tde_standby_apply_running", standby="stopped") == 0
    assert page.value("tde_standby_clock_skew_seconds", standby="ahead") == 0.4
    assert all(value >= 0 for (name, _), value in page.samples.items() if name == LAG)
    assert page.value("tde_target_up") == 1


def test_a_replica_in_another_time_zone_whose_applier_is_stopped(mariadb_pair, watched_pair, daemon):
    """What the server says of such a replica is 0, hours, or NULL; what is told is how old the oldest waiting heartbeat is."""
    primary, replica = mariadb_pair
    exporter = daemon(settings(watched_pair)).start().serving()
    zone = replica.query("SELECT @@GLOBAL.time_zone AS zone")[0]["zone"]
    try:
        replica.query("SET GLOBAL time_zone = '+08:00'")
        exporter.until(lambda: exporter.value(KNOWN, kind="heartbeat") == 1, "the heartbeat's lag")
        # Eight hours are 28 800 s.
        assert max(lags(exporter).values()) < 3600
        replica.query("STOP SLAVE SQL_THREAD")
        exporter.until(lambda: exporter.value("tde_standby_apply_running") == 0, "the applier to be seen stopped")
        exporter.until(lambda: lags(exporter).get("heartbeat", 0) > 3, "the heartbeat's lag to grow")
        exporter.until(lambda: exporter.value("tde_standby_configured") == 1, "a replica as ever")
        replica.query("START SLAVE SQL_THREAD")
        exporter.until(lambda: exporter.value("tde_standby_apply_running") == 1, "the applier to run")
        replica.query("STOP SLAVE")
        exporter.until(lambda: exporter.value("tde_standby_transport_running") == 0, "the receiver to be seen stopped")
        # Nothing is received, so nobody knows whether anything waits to be applied.
        exporter.until(lambda: lags(exporter).get("apply", 0) == 0, "no lag that is made up")
        assert max(lags(exporter).values(), default=0) < 3600
    finally:
        replica.query(f"SET GLOBAL time_zone = '{zone}'")
        replica.query("START SLAVE")
        replica.wait_for(primary)
    exporter.until(lambda: exporter.value("tde_standby_transport_running") == 1, "all as before")


def lags(exporter):
    return {dict(labels)["kind"]: value for (name, labels), value in exporter.samples().items() if name == LAG}


@pytest.fixture
def watched_pair(mariadb_pair, tmp_path):
    """The primary as a target with its replica as a standby, and root's account for both."""
    primary, replica = mariadb_pair
    secret = tmp_path / "root.secret"
    secret.write_text(primary.password)
    other = tmp_path / "replica.secret"
    other.write_text(replica.password)
    host, port = primary.address
    far, its_port = replica.address
    target = {
        "name": "db",
        "engine": "mariadb",
        "host": host,
        "port": port,
        "user": primary.user,
        "password": {"file": str(secret)},
        "schema": "tde_lag",
        "tls": {"mode": "disabled"},
        "pairs": [{"name": "main", "rows": 1000}],
        "operations": ["point_select"],
        "intervals": {"canary": "1s", "encryption_state": "1s", "heartbeat": "300ms", "standby": "1s"},
        "standbys": [
            {
                "name": "far",
                "host": far,
                "port": its_port,
                "user": replica.user,
                "password": {"file": str(other)},
            }
        ],
    }
    made = CommandLine(tmp_path)("-c", CommandLine(tmp_path).config(settings(target)), "provision")
    assert made.returncode == 0, made.stderr
    yield target
    primary.query("DROP DATABASE tde_lag")
