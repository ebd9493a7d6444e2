"""Signals at awkward moments, and what the log says of healthy and of ailing targets."""

import signal
import time

import httpx


def scripted(name, **more):
    return {"name": name, "engine": "fake", "intervals": {"canary": "1s", "encryption_state": "1s"}, **more}


def test_a_signal_during_the_start_and_others_after_it_end_it_in_order(daemon, small):
    exporter = daemon(small()).start()
    begun = time.monotonic()
    # Long before it serves: its history is only being made.
    while not (exporter.directory / "state" / "history.db").exists():
        assert time.monotonic() - begun < 45.0, exporter.words()
        time.sleep(0.001)
    while exporter.process.poll() is None:
        exporter.process.send_signal(signal.SIGINT)
        exporter.process.send_signal(signal.SIGTERM)
        time.sleep(0.002)

    assert exporter.process.returncode == 0
    assert "Traceback" not in exporter.words()


def test_a_healthy_target_is_not_mentioned_and_an_ailing_one_once(daemon):
    refused = {"kind": "error", "call": "open", "reason": "connect"}
    blocked = {"kind": "error", "call": "run", "reason": "blocked"}
    exporter = daemon(
        {
            "targets": [
                scripted("healthy"),
                scripted("refused", faults=[refused]),
                scripted("blocked", faults=[blocked]),
            ],
            "probes": {"processes": 1},
        }
    )
    exporter.start().ready()
    exporter.until(
        lambda: exporter.total("tde_canary_run_failures_total", target="blocked") >= 20, "failures one after the other"
    )
    exporter.until(
        lambda: exporter.total("tde_target_connection_errors_total", target="refused") >= 4, "refused connections"
    )
    exporter.stop()

    lines = [line for line in exporter.words().splitlines() if "level=" in line]
    assert "healthy" not in "".join(lines)
    assert len([line for line in lines if "about=blocked/canary" in line]) == 1
    assert 1 <= len([line for line in lines if "about=refused/" in line]) <= 2
    assert all("trouble" in line for line in lines)


def test_its_own_freeze_costs_no_probe_process(daemon, small):
    settings = small()
    settings["probes"]["heartbeat_timeout"] = "2s"
    exporter = daemon(settings).start().ready()
    exporter.until(lambda: exporter.value("tde_exporter_probe_process_up", process="0") == 1, "the probe process")
    probes = exporter.children()
    exporter.process.send_signal(signal.SIGSTOP)
    time.sleep(3.0)  # longer than the silence that it forgives others
    exporter.process.send_signal(signal.SIGCONT)
    exporter.until(lambda: exporter.get("/-/healthy").status_code == httpx.codes.OK, "a round of the loop")

    assert exporter.children() == probes
    assert "silent" not in exporter.words()
