"""The engines `mariadb` and `mysql` as an operator uses them: twins from the command line, the daemon, its page, the end."""

import pytest

from tests.watched import PATIENT, POOL_MB, SCHEMA, Watched, settings

POINT = {"operation": "point_select"}
LATCHED = ("tde_overhead_breach", "tde_overhead_state")
STATE = {"collector": "encryption_state"}


@pytest.fixture(params=["mariadb", pytest.param("mariadb_old", marks=pytest.mark.long), "mysql"])
def watched(request, make_mariadb, make_mysql, tmp_path):
    """A fresh server whose buffer pool is smaller than the twins will be."""
    if request.param == "mysql":
        server = make_mysql(buffer_pool_mb=POOL_MB)
    else:
        server = make_mariadb("10.11" if request.param == "mariadb_old" else "11.8", buffer_pool_mb=POOL_MB)
    return Watched(server, tmp_path)


def test_from_nothing_to_a_measurement_and_back(watched, daemon):
    made = watched.provision()
    assert made.returncode == 0, made.stderr
    assert [line for line in made.stdout.splitlines() if line.startswith("pair main: made ")] == [
        f"pair main: made {name}"
        for name in (
            f"`{SCHEMA}`",
            f"`{SCHEMA}`.`main_encrypted`",
            f"`{SCHEMA}`.`main_plain`",
            f"`{SCHEMA}`.`heartbeat`",
        )
    ]
    checked = watched.command("verify")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Pair main is valid." in checked.stdout

    exporter = daemon(settings(watched.target(), operations=PATIENT)).start().ready()
    exporter.until(lambda: exporter.total("tde_overhead_samples", window="1h") >= 40, "samples")
    assert exporter.value("tde_target_up") == 1
    assert exporter.value("tde_pair_valid", pair="main") == 1
    assert exporter.value("tde_keystore_state", state="open") == 1
    assert exporter.value("tde_canary_blind", **POINT) == 0
    assert exporter.total("tde_canary_run_failures_total") == 0
    reads, decrypts = "tde_canary_blocks_read_total", "tde_canary_decrypts_total"
    assert exporter.value(decrypts, variant="encrypted", **POINT) > 0
    assert exporter.value(decrypts, variant="plain", **POINT) == 0
    assert exporter.value(reads, variant="plain", **POINT) > 0
    source = "proxy" if watched.engine == "mysql" else "counter"
    decrypted = {"name": "tde_instance_decrypts_total", "unit": "block", "source": source}
    exporter.until(lambda: exporter.value(**decrypted) is not None, "the server's own counter")
    before = exporter.value(**decrypted)
    exporter.until(lambda: exporter.value(**decrypted) > before, "decrypts of the instance")
    assert_flips_in_two_intervals(exporter, watched)

    exporter.stop()
    dropped = watched.drop()
    assert dropped.returncode == 0, dropped.stderr
    assert watched.server.query(f"SHOW TABLES IN {SCHEMA}") == []
    assert watched.command("verify").returncode == 1


def assert_flips_in_two_intervals(exporter, watched):
    """The twin is decrypted: the pair is invalid at the latest with the second look after that, and valid again later."""
    looked = "tde_exporter_collector_last_success_timestamp_seconds"
    watched.decrypt()
    seen = {exporter.value(looked, **STATE)}

    def found():
        # Both from one page.
        page = {
            name: value for (name, labels), value in exporter.samples().items() if name != looked or is_state(labels)
        }
        seen.add(page[looked])
        return page["tde_pair_valid"] == 0 or len(seen) > 3

    exporter.until(found, "another look")
    assert exporter.value("tde_pair_valid") == 0
    # One look may have been under way when the twin was decrypted, and one more been over before the page was seen.
    assert len(seen) <= 3
    exporter.until(lambda: not costs(exporter.page()), "what it costs to be unknown")
    exporter.until_said("neither is encrypted")
    watched.encrypt()
    exporter.until(lambda: exporter.value("tde_pair_valid") == 1, "a valid pair")
    exporter.until(lambda: exporter.total("tde_overhead_samples", window="1h"), "samples of the new twin")


def costs(page):
    return [name for name, _ in page.samples if name.startswith("tde_overhead_") and name not in LATCHED]


def is_state(labels):
    return set(STATE.items()) <= labels
