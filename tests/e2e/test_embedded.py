"""The embedded default, end to end: the daemon, its page, its verdict about the files, its end."""

import os
import shutil
import signal
import subprocess

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from tests.daemons import ENDS_WITHIN
from tests.scaled import scaled

RUNS = "tde_canary_runs_total"
LATCHED = ("tde_overhead_breach", "tde_overhead_state")


def runs(daemon, **labels):
    return daemon.total(RUNS, **labels)


def costs(page):
    """What a page says of the cost of encryption, but for what was decided before."""
    return [name for name, _ in page.samples if name.startswith("tde_overhead_") and name not in LATCHED]


def test_the_default_target_is_measured_and_says_what_it_decrypted(daemon, small):
    exporter = daemon(small()).start().ready()
    exporter.until(lambda: runs(exporter, operation="full_scan_cold") >= 6, "cold scans")

    exporter.until(lambda: exporter.value("tde_keystore_state", state="open") == 1, "an open keystore")
    exporter.until(lambda: exporter.value("tde_canary_blind", operation="full_scan_cold") == 0, "what was decrypted")
    inserts = {"variant": "encrypted", "operation": "insert_batch"}
    exporter.until(lambda: exporter.total("tde_canary_encrypts_total", **inserts) > 0, "encrypted pages")
    page = exporter.page()
    assert page.value("tde_target_up", target="embedded") == 1
    assert page.value("tde_pair_valid", pair="phonebook") == 1
    cold = {"operation": "full_scan_cold"}
    assert page.total("tde_canary_decrypts_total", variant="encrypted", **cold) > 0
    assert page.total("tde_canary_decrypts_total", variant="plain", **cold) == 0
    exporter.until_said("full scan cold")


def test_a_warm_only_configuration_is_blind(daemon, small):
    exporter = daemon(small(operations=["full_scan"])).start().ready()
    exporter.until(lambda: runs(exporter) >= 4, "scans")

    exporter.until(lambda: exporter.value("tde_canary_blind", operation="full_scan") == 1, "it to be said")
    assert exporter.total("tde_canary_decrypts_total", variant="encrypted") == 0


def test_exchanged_files_are_noticed_and_attribution_follows_the_data(daemon, small):
    exporter = daemon(small(operations=["full_scan_cold"])).start().ready()
    exporter.until(lambda: runs(exporter) >= 4, "scans")
    files = exporter.directory / "state" / "targets" / "embedded"
    first, second = files / "phonebook.encrypted.db", files / "phonebook.plain.db"
    (probe,) = exporter.children()
    # While it looks away: it must not find that one of them is missing.
    os.kill(probe, signal.SIGSTOP)
    first.rename(files / "aside")
    second.rename(first)
    (files / "aside").rename(second)
    os.kill(probe, signal.SIGCONT)
    at_exchange = exporter.total("tde_canary_decrypts_total", variant="encrypted")

    exporter.until(
        lambda: exporter.total("tde_canary_decrypts_total", variant="encrypted") > at_exchange, "further decrypts"
    )
    exporter.until(lambda: exporter.value("tde_pair_valid", pair="phonebook") == 1, "a valid pair")
    assert exporter.total("tde_canary_decrypts_total", variant="plain") == 0
    assert exporter.total("tde_canary_run_failures_total") == 0


def test_a_plain_file_in_place_of_the_encrypted_twin_makes_the_pair_invalid(daemon, small):
    exporter = daemon(small()).start().ready()
    exporter.until(lambda: exporter.total("tde_overhead_samples", window="1h") >= 4, "samples")
    files = exporter.directory / "state" / "targets" / "embedded"
    shutil.copy(files / "phonebook.plain.db", files / "copy")
    (files / "copy").rename(files / "phonebook.encrypted.db")

    exporter.until(lambda: exporter.value("tde_pair_valid", pair="phonebook") == 0, "the pair to be invalid")
    exporter.until(lambda: not costs(exporter.page()), "what it costs to be unknown")
    exporter.until_said("neither is encrypted")


def test_a_missing_key_is_a_keystore_failure_and_not_a_new_key(daemon, small):
    exporter = daemon(small()).start().ready()
    key = exporter.directory / "state" / "targets" / "embedded" / "key"
    exporter.stop()
    content = key.read_bytes()
    key.unlink()

    exporter.start().ready()
    exporter.until(lambda: exporter.value("tde_keystore_state", state="missing") == 1, "the missing keystore")
    assert not key.exists()
    key.write_bytes(content)
    key.chmod(0o600)
    exporter.until(lambda: exporter.value("tde_keystore_state", state="open") == 1, "recovery")
    before = exporter.total("tde_canary_decrypts_total", variant="encrypted")
    exporter.until(lambda: exporter.total("tde_canary_decrypts_total", variant="encrypted") > before, "decrypts")


def test_observations_survive_a_restart(daemon, small):
    exporter = daemon(small()).start().ready()
    exporter.until(
        lambda: exporter.total("tde_overhead_samples", operation="full_scan_cold", window="1h") >= 8, "samples"
    )
    before = exporter.total("tde_overhead_samples", operation="full_scan_cold", window="1h")
    exporter.stop()

    exporter.start().ready()
    # Nothing is exported before the canaries work again; the first number there is holds the old ones too.
    found = []

    def samples():
        found.append(exporter.total("tde_overhead_samples", operation="full_scan_cold", window="1h"))
        return found[-1]

    exporter.until(samples, "samples")
    assert found[-1] >= before


def test_the_daemon_ends_in_time_on_sigterm(daemon, small):
    exporter = daemon(small()).start().ready()
    probes = exporter.children()

    assert exporter.stop() < ENDS_WITHIN
    assert not [pid for pid in probes if alive(pid)]


def test_a_killed_probe_process_is_started_again_and_absent_meanwhile(daemon, small):
    exporter = daemon(small()).start().ready()
    exporter.until(lambda: exporter.value("tde_exporter_probe_process_up", process="0") == 1, "the probe process")
    counted = runs(exporter)
    page = exporter.lose_probe()
    assert page.value("tde_target_up") is None
    assert not costs(page)
    exporter.until(lambda: exporter.value("tde_exporter_probe_process_up", process="0") == 1, "the restart")
    exporter.until(lambda: runs(exporter) > counted, "further runs")


def test_a_hung_probe_process_is_killed_and_started_again(daemon, small):
    settings = small()
    settings["probes"]["heartbeat_timeout"] = "3s"
    exporter = daemon(settings).start().ready()
    exporter.until(lambda: exporter.value("tde_exporter_probe_process_up", process="0") == 1, "the probe process")
    (probe,) = exporter.children()
    os.kill(probe, signal.SIGSTOP)

    exporter.until(lambda: exporter.children() not in ([probe], []), "another probe process")
    exporter.until(lambda: exporter.value("tde_exporter_probe_process_starts_total", process="0") >= 2, "its start")
    exporter.until(lambda: exporter.value("tde_exporter_probe_process_up", process="0") == 1, "its first beat")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_page_of_the_default_target_is_sound_and_small(daemon, promtool):
    """Everything at its default: what a newcomer scrapes. Only that he need not wait so long."""
    exporter = daemon(environ=scaled(4.0)).start().ready()
    exporter.until(lambda: runs(exporter, operation="insert_batch") >= 2, "a round of canaries")
    answer = exporter.get("/metrics", headers={"Accept": "text/plain"})
    modern = exporter.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    lint = subprocess.run([promtool, "check", "metrics"], input=answer.text, text=True, capture_output=True)
    assert (lint.returncode, lint.stdout + lint.stderr) == (0, "")
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    families = list(openmetrics(modern.text))
    assert sum(len(family.samples) for family in families) <= 400
    assert len({family.name for family in families}) == len(families)
    assert answer.headers["content-encoding"] == "gzip"
