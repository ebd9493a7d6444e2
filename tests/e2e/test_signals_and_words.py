"""Signals at awkward moments, and what the log says of healthy and of ailing targets."""

import signal
import threading
import time

from exporter.cli import END_SIGNALS, end_on_signals
from tests.daemons import PATIENCE


def scripted(name, **more):
    return {"name": name, "engine": "fake", "intervals": {"canary": "1s", "encryption_state": "1s"}, **more}


def test_a_signal_during_the_start_and_others_after_it_end_it_in_order(daemon, small):
    exporter = daemon(small()).start()
    begun = time.monotonic()
    # Long before it serves: its history is only being made.
    while not (exporter.directory / "state" / "history.db").exists():
        assert time.monotonic() - begun < PATIENCE, exporter.words()
        time.sleep(0.001)
    while exporter.process.poll() is None:
        exporter.process.send_signal(signal.SIGINT)
        exporter.process.send_signal(signal.SIGTERM)
        time.sleep(0.002)

    assert exporter.process.returncode == 0, exporter.words()
    assert "Traceback" not in exporter.words()


def test_a_signal_is_heard_even_while_the_main_thread_is_hearing_another():
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in END_SIGNALS}
    end_on_signals(stop)
    try:
        # As in `timeout`, or a terminal that closes: the second comes in the midst of what the first one does.
        with vars(stop)["_cond"]:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
        assert stop.wait(20.0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    # Once for each of its collectors: canaries, encryption state, activity.
    assert 1 <= len([line for line in lines if "about=refused/" in line]) <= 3
    assert all("trouble" in line for line in lines)
