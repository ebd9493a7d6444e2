"""Verdicts of a running daemon: on its page from the first round, and there again after kill -9."""

import json
import sqlite3
from contextlib import closing

WORDS = {"warming", "within_budget", "undecided", "over_budget", "no_data", "held", "blind", "certifying"}
SCAN = {"operation": "full_scan_cold"}


def test_a_breach_outlives_two_kills_and_a_target_that_is_gone(daemon, small):
    exporter = daemon(small(operations=["full_scan_cold"])).start().ready()
    exporter.until(lambda: exporter.total("tde_overhead_samples", **SCAN, window="1h") >= 4, "samples")
    page = exporter.page()
    state = {
        dict(labels)["state"]: value
        for (name, labels), value in page.samples.items()
        if name.endswith("_state") and "operation" in dict(labels)
    }
    assert state == dict.fromkeys(WORDS, 0.0) | {"warming": 1.0}
    for threshold in ("1.2", "2.0"):
        detector = {"percentile": "50", "reference": "plain", "threshold": threshold}
        assert page.value("tde_overhead_breach", **detector, **SCAN) == 0
        assert page.value("tde_overhead_evidence", **detector, **SCAN) is not None
        assert page.value("tde_overhead_evidence_threshold", **detector) > 4
    assert page.value("tde_canary_encrypted_failing", pair="phonebook") == 0
    detector = {"percentile": "50", "threshold": "1.2", **SCAN}

    history = exporter.directory / "state" / "history.db"
    exporter.until(lambda: states(history), "a state in the history")
    exporter.kill()
    since = exceed(history)

    for _ in range(2):
        exporter.start().serving()
        # Before anything was measured, and while it is.
        exporter.until(lambda: exporter.value("tde_overhead_breach", **detector) == 1, "the breach")
        exporter.ready()
        exporter.until(lambda: exporter.total("tde_overhead_samples", **SCAN, window="1h"), "samples")
        exporter.until(lambda: exporter.value("tde_overhead_state", state="over_budget", **SCAN) == 1, "its word")
        assert exporter.value("tde_overhead_breach", **detector) == 1
        assert exporter.value("tde_overhead_onset_timestamp_seconds", **detector) == since - 600.0
        assert exporter.value("tde_overhead_onset_uncertainty_seconds", **detector) == 300.0
        words = "P50 exceeds the plain twin by more than 20"
        exporter.until(lambda words=words: words in exporter.get("/").text.replace("\u00a0", " "), words)
        exporter.kill()

    # A target that cannot be opened says nothing about its cost, and nothing against the breach.
    key = exporter.directory / "state" / "targets" / "embedded" / "key"
    key.rename(key.with_name("elsewhere"))
    exporter.start().ready()
    exporter.until(lambda: exporter.value("tde_overhead_state", state="over_budget", **SCAN) == 0, "another word")
    assert exporter.value("tde_overhead_breach", **detector) == 1


def states(history) -> list[bytes]:
    with closing(sqlite3.connect(history)) as file:
        return [body for (body,) in file.execute("SELECT body FROM states WHERE name = 'overhead'")]


def exceed(history) -> float:
    """What evidence of months would leave behind; since when."""
    with closing(sqlite3.connect(history)) as file, file:
        (body,) = states(history)
        ((newest,),) = file.execute("SELECT max(start) FROM blocks")
        state = json.loads(body)
        state["verdict"]["breaches"] = [[50, "plain", 1.2, newest]]
        state["dates"] = [[50, "plain", 1.2, newest - 600.0, 300.0]]
        file.execute("UPDATE states SET body = ? WHERE name = 'overhead'", (json.dumps(state).encode(),))
    return float(newest)
