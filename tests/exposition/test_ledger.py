from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any

import pytest

from exporter.domain.errors import Reason
from exporter.domain.model import Operation, SeriesKey, Snapshot, Variant, Work
from exporter.domain.states import EncryptionState, Keystore, KeystoreState
from exporter.probing.messages import Beat, SnapshotDone, StateRead, TargetFailed, TargetReached, TickDone
from tests.exposition.stages import FACTS, Stage, burst

POINT = {"operation": "point_select"}
ENCRYPTED = {"operation": "point_select", "variant": "encrypted"}


# -- before anything is known ------------------------------------------------------------------------------


def test_a_configured_target_is_down_until_it_is_proven_up(stage: Stage) -> None:
    assert stage.value("tde_target_up") == 0


def test_counters_of_known_label_sets_start_at_zero(stage: Stage) -> None:
    samples = stage.samples()

    assert len(samples["tde_canary_runs_total"]) == 8
    assert set(samples["tde_canary_runs_total"].values()) == {0.0}
    assert stage.value("tde_canary_run_failures_total", **ENCRYPTED) == 0
    assert {dict(labels)["reason"] for labels in samples["tde_target_connection_errors_total"]} == {
        "connect",
        "auth",
        "tls",
        "timeout",
        "unavailable",
    }


def test_work_that_was_never_known_is_absent_and_not_zero(stage: Stage) -> None:
    stage.begin()
    stage.tick(encrypted=burst(0.001, work=Work()), plain=burst(0.001, work=Work()))
    samples = stage.samples()

    assert stage.value("tde_canary_runs_total", **ENCRYPTED) == 20
    for name in ("cpu_seconds", "server_seconds", "blocks_read", "decrypts", "encrypts"):
        assert f"tde_canary_{name}_total" not in samples


# -- counting ----------------------------------------------------------------------------------------------


def test_a_tick_adds_to_its_side_only(stage: Stage) -> None:
    stage.begin()
    stage.tick()
    stage.tick()

    assert stage.value("tde_canary_runs_total", **ENCRYPTED) == 40
    assert stage.value("tde_canary_runs_total", operation="full_scan", variant="encrypted") == 0
    assert stage.value("tde_canary_decrypts_total", unit="block", source="counter", **ENCRYPTED) == 400
    assert stage.value("tde_canary_decrypts_total", operation="point_select", variant="plain") == 0
    assert stage.value("tde_canary_cpu_seconds_total", **ENCRYPTED) == pytest.approx(0.04)
    execute = stage.value("tde_canary_phase_seconds_total", phase="execute", **ENCRYPTED)
    fetch = stage.known("tde_canary_phase_seconds_total", phase="fetch", **ENCRYPTED)
    assert execute == pytest.approx(4 * fetch)
    assert stage.value("tde_canary_last_success_timestamp_seconds", **ENCRYPTED) == stage.clock.wall()


def test_only_operations_that_write_have_a_commit_phase(stage: Stage) -> None:
    commits = [labels for labels in stage.samples()["tde_canary_phase_seconds_total"] if ("phase", "commit") in labels]

    assert {dict(labels)["operation"] for labels in commits} == {"insert_batch"}


def test_failures_are_counted_by_reason_and_do_no_work(stage: Stage) -> None:
    stage.begin()
    stage.tick(encrypted=burst(0.001, failure=Reason.LOCK_TIMEOUT))

    assert stage.value("tde_canary_run_failures_total", reason="lock_timeout", **ENCRYPTED) == 20
    assert stage.value("tde_canary_runs_total", **ENCRYPTED) == 20
    assert stage.value("tde_canary_cpu_seconds_total", **ENCRYPTED) is None
    assert stage.value("tde_canary_last_success_timestamp_seconds", **ENCRYPTED) is None


def test_dropped_ticks_count_as_attempts_and_not_as_statistics(stage: Stage) -> None:
    stage.begin()
    stage.tick(dropped="contended")
    stage.tick(dropped="verification")
    stage.collected()

    assert stage.value("tde_canary_runs_total", **ENCRYPTED) == 40
    assert stage.value("tde_canary_contended_total") == 1
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") is None


def test_the_dense_snapshot_is_judged_and_not_counted(stage: Stage) -> None:
    stage.begin()
    ticks = tuple(stage.made(Operation.FULL_SCAN, unit=number // 2) for number in range(12))
    stage.say(SnapshotDone(Snapshot("embedded", stage.clock.wall(), 2.0, ticks)))

    rows = stage.ledger.snapshot_rows("embedded")
    assert [(row.operation, row.samples) for row in rows] == [(Operation.FULL_SCAN, 12)]
    assert rows[0].latency is not None
    assert rows[0].latency.estimate == pytest.approx(1.2)
    assert stage.view.snapshot == rows
    assert stage.value("tde_canary_runs_total", operation="full_scan", variant="plain") == 0


def test_a_snapshot_out_of_the_history_proves_nothing_about_now(stage: Stage) -> None:
    stage.say(SnapshotDone(Snapshot("embedded", 0.0, 2.0, (stage.made(),))))

    assert stage.value("tde_target_up") == 0
    stage.ledger.assign(1, ["embedded"])
    assert stage.value("tde_target_up") is None


def test_beats_fill_the_metrics_of_the_exporter(stage: Stage) -> None:
    skipped = {("embedded", "busy"): 2, ("embedded", "budget"): 3, ("other", "budget"): 4, ("embedded", "odd"): 9}
    stage.say(Beat(0, (0.002, 0.3), skipped, (2e-6, math.nan), 1, 2, 3, {"embedded": 0.25, "gone": 0.5}))

    assert stage.value("tde_exporter_runs_skipped_total", reason="budget") == 7
    assert stage.value("tde_exporter_runs_skipped_total", reason="missed") == 0
    assert stage.value("tde_exporter_schedule_lateness_seconds_bucket", le="0.0025") == 1
    assert stage.value("tde_exporter_schedule_lateness_seconds_count") == 2
    assert stage.value("tde_exporter_timer_noise_seconds_count") == 1
    assert stage.value("tde_exporter_lanes_abandoned_total") == 1
    assert stage.value("tde_exporter_clock_steps_total") == 2
    assert stage.value("tde_exporter_messages_dropped_total") == 3
    assert stage.value("tde_canary_load_ratio") == 0.25
    assert stage.value("tde_canary_load_limit_ratio") == 0.03


def test_connections_are_counted(stage: Stage) -> None:
    stage.say(TargetReached("embedded", FACTS, 1, 0.25))
    stage.failed(Reason.CONNECT)
    stage.failed(Reason.PERMISSION)

    assert stage.value("tde_target_connects_total") == 1
    assert stage.value("tde_target_connect_seconds_total") == 0.25
    assert stage.value("tde_target_connection_errors_total", reason="connect") == 1
    assert stage.value("tde_target_connection_errors_total", reason="permission") == 1


def test_a_session_given_up_after_a_deadline_is_counted(stage: Stage) -> None:
    stage.begin()
    stage.say(TargetFailed("embedded", Reason.TIMEOUT, "not done after 10 s", connecting=False))

    assert stage.value("tde_target_connection_errors_total", reason="timeout") == 1
    assert stage.value("tde_target_up") == 0


def test_a_target_whose_canaries_get_no_session_is_down_whatever_else_works(stage: Stage) -> None:
    """The server may admit one session of the account, and no second one."""
    stage.begin()
    for _ in range(3):
        stage.say(TargetFailed("embedded", Reason.UNAVAILABLE, "too many connections", connecting=False))
        stage.collected(reason=Reason.UNAVAILABLE)
        stage.collected("encryption_state")
        stage.collected("activity")
        assert stage.value("tde_target_up") == 0
    assert stage.value("tde_target_connection_errors_total", reason="unavailable") == 3

    stage.say(TargetReached("embedded", FACTS, 1, 0.1))
    stage.collected()
    assert stage.value("tde_target_up") == 1


# -- encryption state --------------------------------------------------------------------------------------


def test_a_keystore_shows_all_states(stage: Stage) -> None:
    stage.begin()

    states = {dict(labels)["state"]: value for labels, value in stage.samples()["tde_keystore_state"].items()}
    assert states == {state.value: float(state is KeystoreState.OPEN) for state in KeystoreState}
    assert stage.value("tde_keystore_info", type="file", raw="readable") == 1
    assert stage.value("tde_master_key_activation_timestamp_seconds") == 1.7e9
    assert stage.value("tde_objects", kind="database", state="encrypted") == 1


def test_keystores_and_objects_that_come_twice_are_shown_once(stage: Stage) -> None:
    keystore = Keystore("wallet", KeystoreState.OPEN)
    objects = (("table", "encrypted", 2), ("table", "encrypted", 3), ("table", "plain", -1))
    state = EncryptionState((keystore, replace(keystore, state=KeystoreState.CLOSED)), objects)
    stage.say(StateRead("embedded", state))

    assert len(stage.samples()["tde_keystore_state"]) == 6
    assert stage.samples()["tde_objects"] == {
        frozenset({"target": "embedded", "engine": "sqlite", "kind": "table", "state": "encrypted"}.items()): 5.0
    }
    assert stage.value("tde_exporter_invalid_values_total") == 2


def test_the_state_of_a_server_is_shown_whole(server: Stage) -> None:
    server.begin()
    keystore = {"keystore": "component_keyring_file"}

    assert server.value("tde_keys_in_use", **keystore) == 3
    assert server.value("tde_keys_missing", **keystore) == 0
    assert server.value("tde_objects", kind="tablespace", state="pending") == 1
    assert server.value("tde_object_bytes", kind="tablespace", state="encrypted") == 3 * 2**30
    assert server.value("tde_algorithm_objects", algorithm="AES") == 12
    assert server.value("tde_unprotected_dependents", kind="log") == 1
    assert server.value("tde_conversion_progress_ratio", object="shop/orders") == 0.25
    assert server.value("tde_conversion_stalled") == 0

    server.clock.advance(120.1)
    gone = ("tde_keys_", "tde_object", "tde_algorithm", "tde_unprotected", "tde_conversion")
    assert not [name for name in server.names() if name.startswith(gone)]


def test_of_a_state_without_such_things_there_is_no_series(stage: Stage) -> None:
    stage.begin()

    absent = ("tde_keys_", "tde_object_bytes", "tde_algorithm", "tde_unprotected", "tde_conversion")
    assert not [name for name in stage.names() if name.startswith(absent)]


def test_of_a_state_without_bounds_so_much_is_shown(server: Stage) -> None:
    many = range(200)
    state = EncryptionState(
        keystores=tuple(Keystore(f"k{number}", KeystoreState.OPEN, keys_in_use=1) for number in many),
        objects=tuple((f"kind{number}", "plain", 1) for number in many),
        object_bytes=tuple((f"kind{number}", "plain", 1) for number in many),
        algorithms=tuple((f"algorithm{number}", 1) for number in many),
        unprotected=tuple((f"kind{number}", 1) for number in many),
        conversions=tuple((f"table{number:03}", number / 200) for number in many),
    )
    server.say(StateRead("orders", state))
    samples = server.samples()

    assert len(samples["tde_keys_in_use"]) == 32
    assert len(samples["tde_objects"]) == len(samples["tde_object_bytes"]) == 64
    assert len(samples["tde_algorithm_objects"]) == len(samples["tde_unprotected_dependents"]) == 16
    # That many tables are under conversion is no mistake, and not counted as one.
    assert sorted(samples["tde_conversion_progress_ratio"].values()) == [number / 200 for number in range(10)]
    assert server.value("tde_exporter_invalid_values_total") == 168 + 2 * 136 + 2 * 184


def test_amounts_of_the_same_thing_are_one_sum_and_what_cannot_be_true_is_counted(server: Stage) -> None:
    odd: Any = "no"
    state = EncryptionState(
        keystores=(Keystore("k", KeystoreState.OPEN, keys_in_use=-1, keys_missing=odd, key_activated=math.nan),),
        object_bytes=(("table", "plain", 5), ("table", "plain", 7), ("table", "encrypted", -1)),
        algorithms=(("AES", 1), ("AES", 2), ("AES", odd)),
        unprotected=(("log", 1), ("log", 1), ("temp", 0)),
        conversions=(("a", 0.5), ("a", 0.6), ("b", 1.1), ("c", 1.0)),
        conversion_stalled=odd,
    )
    server.say(StateRead("orders", state))

    assert "tde_keys_in_use" not in server.samples()
    assert "tde_conversion_stalled" not in server.samples()
    assert list(server.samples()["tde_object_bytes"].values()) == [12]
    assert server.value("tde_algorithm_objects", algorithm="AES") == 3
    assert server.value("tde_unprotected_dependents", kind="log") == 2
    assert server.value("tde_unprotected_dependents", kind="temp") == 0
    shares = server.samples()["tde_conversion_progress_ratio"]
    assert {dict(labels)["object"]: share for labels, share in shares.items()} == {"a": 0.5, "c": 1.0}
    assert server.value("tde_exporter_invalid_values_total") == 3 + 1 + 1 + 2 + 1


# -- history and threads -----------------------------------------------------------------------------------


def test_blocks_survive_a_restart(stage: Stage) -> None:
    stage.begin()
    stage.hours()
    blocks = stage.ledger.blocks()
    samples = stage.value("tde_overhead_samples", **ENCRYPTED, window="1h")
    ratio = stage.value("tde_overhead_ratio", percentile="50", **POINT)

    again = Stage(stage.settings, stage.clock)
    for key, block in blocks:
        again.ledger.restore(key, block)
    again.ledger.restore(SeriesKey("gone", "gone", Operation.POINT_SELECT), blocks[0][1])
    assert "tde_overhead_ratio" not in again.names()
    again.begin()
    again.collected()

    assert again.value("tde_overhead_samples", **ENCRYPTED, window="1h") == samples
    assert again.value("tde_overhead_ratio", percentile="50", **POINT) == pytest.approx(ratio, rel=0.03)


def test_the_history_has_a_size_and_errors(stage: Stage) -> None:
    assert stage.value("tde_exporter_state_bytes") is None

    stage.ledger.state_size(8192)
    stage.ledger.state_errors(1)

    assert stage.value("tde_exporter_state_bytes") == 8192
    assert stage.value("tde_exporter_state_errors_total") == 1


def test_messages_and_views_from_many_threads_lose_nothing(stage: Stage) -> None:
    stage.begin()
    message = TickDone(stage.made())

    def deliver() -> None:
        for _ in range(100):
            stage.ledger.apply(message, 0)

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        stage.ledger.view()
    for thread in threads:
        thread.join()

    sides = stage.view.pairs[0].series[0].sides
    assert sides[Variant.PLAIN].runs == 400 * 20
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") == 400 * 20
