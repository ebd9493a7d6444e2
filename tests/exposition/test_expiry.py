"""What was known and is not true any more disappears; what was counted stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.domain.errors import Reason
from exporter.domain.model import Phase, Slot, TwinFacts, Work
from exporter.probing.messages import PairChecked, TargetFailed, TargetReached
from tests.exposition.stages import FACTS, Stage, burst, pair_facts

POINT = {"operation": "point_select"}
ENCRYPTED = {"operation": "point_select", "variant": "encrypted"}
LATCHED = {"tde_overhead_breach", "tde_overhead_state"}
"""Of these there is always something to say."""
WORKLESS = Work.nothing()


# -- a target that dies ---------------------------------------------------------------------------------


def test_gauges_of_a_dead_target_vanish_after_two_intervals_and_counters_stay(stage: Stage) -> None:
    stage.begin()
    stage.hours()
    alive = stage.names()
    runs, last = stage.value("tde_canary_runs_total", **ENCRYPTED), stage.clock.wall()

    for _ in range(2):
        stage.clock.advance(10.0)
        stage.failed()
        stage.collected(reason=Reason.CONNECT)
    assert stage.value("tde_target_up") == 0
    assert stage.value("tde_overhead_ratio", percentile="50", **POINT) is not None

    stage.clock.advance(0.1)
    gone = {name for name in alive - stage.names() if not name.startswith("tde_exporter_")}
    assert {"tde_overhead_ratio", "tde_overhead_cpu_ratio", "tde_canary_latency_seconds", "tde_canary_blind"} <= gone
    assert stage.value("tde_pair_valid") == 1

    for _ in range(12):
        stage.clock.advance(10.0)
        stage.failed()
        stage.collected(reason=Reason.CONNECT)
        stage.collected("encryption_state", reason=Reason.CONNECT)
    gone = {name for name in alive - stage.names() if not name.startswith("tde_exporter_")}
    assert {"tde_pair_valid", "tde_pair_info", "tde_keystore_state", "tde_objects", "tde_target_info"} <= gone
    assert {"tde_standby_lag_seconds", "tde_standby_apply_running", "tde_standby_sequence"} <= gone
    assert not [
        name for name in gone if name.endswith(("_total", "_up", "_timestamp_seconds", "_known", "_configured"))
    ]
    assert stage.value("tde_target_up") == 0
    assert stage.value("tde_canary_runs_total", **ENCRYPTED) == runs
    assert stage.value("tde_canary_last_success_timestamp_seconds", **ENCRYPTED) == last
    assert stage.value("tde_exporter_collector_last_success_timestamp_seconds", collector="canary") == last
    assert stage.value("tde_exporter_collector_success", collector="canary") == 0

    stage.begin()
    stage.read_standbys()
    stage.round()
    assert stage.value("tde_target_up") == 1
    assert alive <= stage.names()


def test_the_interval_that_counts_is_the_targets_own(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage("fast", intervals={"canary": 1.0, "encryption_state": 1.0})
    stage.begin()
    stage.round()

    # Two intervals of a second are not enough to tell a busy machine from a dead target.
    stage.clock.advance(2.9)
    assert stage.value("tde_pair_valid") == 1
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") == 20
    stage.clock.advance(0.2)
    assert stage.value("tde_pair_valid") is None
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") is None


def test_a_target_that_nothing_is_heard_of_is_not_up_for_ever(stage: Stage) -> None:
    stage.begin()
    stage.round()

    stage.clock.advance(120.0)
    assert stage.value("tde_target_up") == 1
    stage.clock.advance(0.1)
    assert stage.value("tde_target_up") == 0
    assert stage.value("tde_exporter_collector_success", collector="canary") == 0


def test_a_target_on_which_every_canary_fails_is_not_up(stage: Stage) -> None:
    stage.begin()
    stage.round()
    failing = burst(0.001, failure=Reason.TIMEOUT)

    stage.tick(encrypted=failing, plain=failing)
    stage.collected()
    assert stage.value("tde_target_up") == 0
    stage.read_state()
    assert stage.value("tde_target_up") == 0
    stage.tick(encrypted=failing)
    stage.collected()
    assert stage.value("tde_target_up") == 1


@pytest.mark.parametrize("reason", [Reason.LOCK_TIMEOUT, Reason.BLOCKED])
def test_a_target_on_which_every_canary_waits_for_somebody_else_is_up_and_says_nothing_new(
    stage: Stage, reason: Reason
) -> None:
    """It was reached and used; who reads that it was not would wake somebody up for a maintenance."""
    stage.begin()
    stage.round()
    waiting = burst(0.001, failure=reason)

    for _ in range(20):
        stage.clock.advance(10.0)
        stage.tick(encrypted=waiting, plain=waiting)
        stage.collected()
        assert stage.value("tde_target_up") == 1
    assert stage.known("tde_canary_run_failures_total", reason=reason.value, **ENCRYPTED) == 20 * 20
    stage.read_state()
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") is None, "nothing was measured lately"
    # Whatever else it waited for: a session that is lost is one.
    stage.tick(encrypted=waiting, plain=waiting)
    stage.collected(reason=Reason.CONNECT)
    assert stage.value("tde_target_up") == 0


def test_rounds_that_the_budget_refused_keep_what_was_measured(stage: Stage) -> None:
    stage.begin()
    stage.round()

    for _ in range(5):
        stage.clock.advance(10.0)
        stage.collected()

    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") == 20


def test_a_collector_that_fails_for_its_own_reason_does_not_put_the_target_down(stage: Stage) -> None:
    stage.begin()
    stage.round()
    stage.say(TargetFailed("embedded", Reason.PERMISSION, "grant missing", connecting=False))
    stage.collected("encryption_state", reason=Reason.PERMISSION)

    assert stage.value("tde_target_up") == 1
    assert stage.value("tde_exporter_collector_success", collector="encryption_state") == 0
    assert stage.view.problem == "grant missing"


# -- probe processes ---------------------------------------------------------------------------------------


def test_while_its_probe_process_is_down_a_target_is_neither_up_nor_down(stage: Stage) -> None:
    stage.begin()
    stage.hours()
    before = stage.names()

    stage.ledger.process_up(0, False)

    kept = {name for name in stage.names() if not name.startswith("tde_exporter_")}
    assert stage.value("tde_exporter_probe_process_up", process="0") == 0
    assert all(name.endswith(("_total", "_timestamp_seconds", "_breach")) for name in kept)
    assert "tde_target_up" in before - kept
    assert stage.known("tde_canary_runs_total", **ENCRYPTED) > 0

    stage.begin()
    stage.round()
    assert stage.value("tde_target_up") == 1
    assert stage.value("tde_overhead_ratio", percentile="50", **POINT) is not None
    assert stage.value("tde_exporter_probe_process_starts_total", process="0") == 2


def test_a_process_that_goes_down_takes_only_its_own_targets_along(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage("one", "two")
    for process, target in enumerate(stage.settings.targets):
        stage.process, stage.target = process, target
        stage.begin()

    stage.ledger.process_up(1, False)

    assert stage.value("tde_target_up", target="one") == 1
    assert stage.value("tde_target_up", target="two") is None


def test_targets_can_be_assigned_before_they_are_heard_of(stage: Stage) -> None:
    stage.ledger.assign(3, ["embedded"])
    assert stage.value("tde_exporter_probe_process_up", process="3") == 0

    assert stage.value("tde_target_up") is None

    stage.process = 3
    stage.ledger.process_up(3, True)
    assert stage.value("tde_target_up") is None, "nobody has tried it yet"
    stage.say(TargetFailed("embedded", Reason.CONNECT, "refused", connecting=True))
    assert stage.value("tde_target_up") == 0
    stage.ledger.process_up(3, False)
    assert stage.value("tde_target_up") is None


# -- pairs -------------------------------------------------------------------------------------------------


def test_overhead_of_a_pair_that_became_invalid_vanishes_at_once(stage: Stage) -> None:
    stage.begin()
    stage.hours()
    assert stage.value("tde_overhead_ratio", percentile="50", **POINT) is not None
    samples = stage.value("tde_overhead_samples", **ENCRYPTED, window="1h")
    runs = stage.known("tde_canary_runs_total", **ENCRYPTED)

    stage.say(PairChecked("embedded", pair_facts(encrypted=False)))
    stage.round()

    assert stage.value("tde_pair_valid") == 0
    assert stage.value("tde_pair_rows", variant="encrypted") is None
    assert stage.value("tde_canary_runs_total", **ENCRYPTED) == runs + 20
    assert {name for name in stage.names() if name.startswith("tde_overhead")} == LATCHED
    assert stage.value("tde_overhead_state", state="no_data", **POINT) == 1

    stage.read_state()
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") == samples


def test_ticks_of_a_pair_that_nobody_verified_are_no_statistics(stage: Stage) -> None:
    stage.say(TargetReached("embedded", FACTS, 1, 0.05))
    stage.round()
    assert stage.value("tde_canary_runs_total", **ENCRYPTED) == 20

    stage.begin()
    stage.collected()
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") is None


def test_a_new_epoch_begins_at_nothing(stage: Stage) -> None:
    stage.begin()
    stage.hours()

    stage.read_state(pair_facts(epoch="two"))
    assert {name for name in stage.names() if name.startswith("tde_overhead")} == LATCHED
    assert stage.value("tde_overhead_state", state="warming", **POINT) == 1
    stage.tick(epoch="two")
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") == 20


def test_rows_follow_what_verification_found(stage: Stage) -> None:
    stage.begin()
    facts = pair_facts()
    exchanged = replace(
        facts,
        a=TwinFacts(Slot.A, False, rows=100, rows_per_block=50.0, digest="same"),
        b=TwinFacts(Slot.B, True, "chacha20", rows=100, rows_per_block=49.5, digest="same"),
    )
    stage.read_state(exchanged)

    assert stage.value("tde_pair_rows_per_block", variant="encrypted") == 49.5
    assert stage.value("tde_pair_info", algorithm="chacha20", phase="enabled", cpu_source="thread") == 1


def test_a_pair_under_certification_is_never_blind(stage: Stage) -> None:
    pair = stage.target.pairs[0].model_copy(update={"phase": Phase.AA})
    certifying = stage.target.model_copy(update={"pairs": (pair,)})
    stage = Stage(stage.settings.model_copy(update={"targets": (certifying,)}))
    plain = replace(WORKLESS, cpu_seconds=0.001)
    stage.begin()
    stage.read_state(replace(pair_facts(encrypted=False), phase=Phase.AA))
    stage.tick(encrypted=burst(0.001, work=plain), plain=burst(0.001, work=plain))

    assert stage.value("tde_pair_valid") == 1
    assert stage.value("tde_overhead_samples", **ENCRYPTED, window="1h") == 20
    assert stage.value("tde_canary_blind", **POINT) is None
    summary = stage.view.pairs[0].series[0].summary
    assert summary is not None
    assert summary.word == "certifying"


def test_a_blind_pair_says_so_and_still_tells_its_ratio(stage: Stage) -> None:
    stage.begin()
    for number in range(400):
        stage.clock.advance(10.0)
        if number % 6 == 0:
            stage.read_state()
        stage.tick(encrypted=burst(0.001, work=WORKLESS), plain=burst(0.001, work=WORKLESS))
    stage.collected()

    assert stage.value("tde_canary_blind", **POINT) == 1
    assert stage.value("tde_overhead_ratio", percentile="50", **POINT) == pytest.approx(1.0)


def test_a_percentile_among_the_failures_is_absent_and_not_infinite(stage: Stage) -> None:
    stage.begin()
    for _ in range(10):
        stage.tick(encrypted=burst(0.001, failure=Reason.TIMEOUT))
    stage.collected()

    assert stage.value("tde_canary_latency_seconds", percentile="99", **ENCRYPTED) is None
    assert stage.known("tde_canary_latency_seconds", percentile="99", operation="point_select", variant="plain") > 0
