"""Which baseline is held against what, and which numbers are shown of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.domain.events import Event, EventKind
from exporter.domain.model import Operation, Phase, Slot
from exporter.landing import landing
from exporter.overhead.baseline import inverse, upper_reference
from exporter.overhead.evidence import MEDIAN_MARGIN, Name
from exporter.web.pages.landing import render
from tests.exposition.stages import Stage, burst, pair_facts
from tests.narrowing import known

OPERATION = Operation.POINT_SELECT


@pytest.fixture
def full(stage: Stage) -> Stage:
    stage.begin()
    stage.hours()
    return stage


def page(stage: Stage) -> str:
    view = stage.ledger.view()
    return render(landing(view, view.at - 60, view.at)).replace("\u00a0", " ")


RATIO = {"operation": "point_select", "percentile": "50", "window": "1h"}


def test_without_a_baseline_it_is_said_and_no_number_is_shown(full: Stage) -> None:
    full.ledger.set_baselines("embedded", [])
    assert full.view.pairs[0].baseline_words == "no baseline"
    assert not any(name.startswith("tde_baseline") for name in full.names())
    assert "no baseline" in page(full)
    assert "since the baseline" not in page(full)


def test_nothing_changed_since_a_baseline_of_this_very_hour(full: Stage) -> None:
    full.ledger.set_baselines("embedded", [full.frozen()])
    assert full.known("tde_baseline_overhead_ratio", **RATIO) == pytest.approx(1.0, abs=0.01)
    assert (
        full.known("tde_baseline_overhead_ratio_lower", **RATIO)
        < 1
        < full.known("tde_baseline_overhead_ratio_upper", **RATIO)
    )
    assert full.known("tde_baseline_raw_ratio", **RATIO) == pytest.approx(1.0, abs=0.03)
    assert full.known(
        "tde_baseline_latency_seconds", operation="point_select", variant="encrypted", percentile="50"
    ) == pytest.approx(0.00123, rel=0.03)
    assert full.known("tde_baseline_timestamp_seconds") == full.clock.wall()
    assert "since the baseline" in page(full)
    assert "no baseline" not in page(full)


def test_while_the_pair_is_not_measured_only_what_was_frozen_is_shown(full: Stage) -> None:
    full.ledger.set_baselines("embedded", [full.frozen()])
    full.clock.advance(600.0)
    assert full.value("tde_baseline_overhead_ratio", **RATIO) is None
    assert full.value("tde_baseline_raw_ratio", **RATIO) is None
    assert full.value("tde_baseline_timestamp_seconds") is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content": "else"}, "other data"),
        ({"slot": Slot.B}, "is the plain one now"),
    ],
)
def test_a_baseline_that_does_not_fit_gives_a_reason_and_no_number(
    full: Stage, change: dict[str, object], words: str
) -> None:
    full.ledger.set_baselines("embedded", [full.frozen(**change)])
    assert words in full.view.pairs[0].baseline_words
    assert words in page(full)
    assert full.value("tde_baseline_overhead_ratio", **RATIO) is None
    assert (
        full.value("tde_baseline_latency_seconds", operation="point_select", variant="plain", percentile="50") is None
    )


def test_of_plain_twins_either_may_be_the_encrypted_one_now(full: Stage) -> None:
    full.ledger.set_baselines("embedded", [full.frozen(slot=Slot.B, phase=Phase.AA)])
    # Twin b was then 1 / 1.2 of what a is now.
    assert full.known("tde_baseline_overhead_ratio", **RATIO) == pytest.approx(1.2 * 1.2, rel=0.02)
    encrypted = full.known(
        "tde_baseline_latency_seconds", operation="point_select", variant="encrypted", percentile="50"
    )
    assert encrypted == pytest.approx(0.00103, rel=0.03)


def since_then(stage: Stage) -> dict[int, float]:
    """What is asked about the ratio of point selects against a baseline: percentile and the ratio to be exceeded."""
    series = next(one for one in stage.view.pairs[0].series if one.operation is Operation.POINT_SELECT)
    asked = [one.detector for one in series.evidence if one.detector.reference == "baseline"]
    assert {detector.name for detector in asked} <= series.breached.keys()
    return {detector.percentile: detector.ratio / math.exp(detector.margin) for detector in asked}


def test_alarms_are_held_against_the_baseline_as_long_as_there_is_one_that_fits(full: Stage) -> None:
    assert since_then(full) == {}
    full.ledger.set_baselines("embedded", [full.frozen()])
    series = full.frozen().series
    expected = {percent: 1.2 * known(upper_reference(ratio)) for percent, ratio in series[OPERATION].ratio.items()}
    assert since_then(full) == pytest.approx(expected)
    assert expected.keys() == {50, 99}
    # What cannot be told changes nothing.
    full.read_state(replace(pair_facts(), b=replace(pair_facts().b, digest=None)))
    assert full.value("tde_pair_valid") == 0
    full.read_state(pair_facts())
    assert since_then(full) == pytest.approx(expected)

    full.ledger.set_baselines("embedded", [full.frozen(content="else")])
    assert since_then(full) == {}
    full.ledger.set_baselines("embedded", [full.frozen()])
    assert since_then(full) == pytest.approx(expected)
    full.ledger.set_baselines("embedded", [])
    assert since_then(full) == {}


def test_alarms_are_held_against_the_twins_as_they_are_now(full: Stage) -> None:
    frozen = full.frozen(phase=Phase.AA)
    full.ledger.set_baselines("embedded", [frozen])
    asked = since_then(full)
    facts = pair_facts()
    turned = replace(facts, a=replace(facts.b, slot=Slot.A), b=replace(facts.a, slot=Slot.B), epoch="two")
    full.read_state(turned)
    full.tick(epoch="two")
    for percent, ratio in frozen.series[OPERATION].ratio.items():
        assert asked[percent] == pytest.approx(1.2 * known(upper_reference(ratio)))
        assert since_then(full)[percent] == pytest.approx(1.2 * known(upper_reference(inverse(ratio))))


def test_what_alarms_are_held_against_survives_a_restart(full: Stage) -> None:
    full.ledger.set_baselines("embedded", [full.frozen()])
    asked = since_then(full)
    again = Stage(full.settings, clock=full.clock)
    for key, state in full.ledger.states():
        again.ledger.restore_state(key, json.loads(json.dumps(state)))
    # Nobody has looked at the twins yet, so nobody can say whether the baseline fits them.
    again.ledger.set_baselines("embedded", [full.frozen()])
    names = {Name(percentile, "baseline", 1.2) for percentile in asked}
    assert names <= again.view.pairs[0].series[0].breached.keys()
    again.begin()
    again.round()
    assert since_then(again) == asked
    again.ledger.set_baselines("embedded", [])
    assert since_then(again) == {}


def test_a_breach_ends_with_the_baseline_that_it_was_about(full: Stage) -> None:
    full.ledger.set_baselines("embedded", [full.frozen()])
    asked = since_then(full)
    again = Stage(full.settings, clock=full.clock)
    for key, state in full.ledger.states():
        state["verdict"]["breaches"] = (
            [[50, "baseline", 1.2, full.clock.steady()]] if key.operation == OPERATION else []
        )
        again.ledger.restore_state(key, state)
    again.ledger.set_baselines("embedded", [full.frozen()])
    again.begin()
    labels = {"operation": "point_select", "percentile": "50", "reference": "baseline", "threshold": "1.2"}
    assert again.value("tde_overhead_breach", **labels) == 1
    assert again.ledger.changes() == []
    again.ledger.set_baselines("embedded", [])
    assert again.value("tde_overhead_breach", **labels) is None
    (change,) = again.ledger.changes()
    assert (change.name, change.begun, change.dropped) == (Name(50, "baseline", 1.2), False, True)
    assert change.ratio == pytest.approx(asked[50] * math.exp(MEDIAN_MARGIN))


def test_a_baseline_of_nobody_changes_nothing(full: Stage) -> None:
    before = full.samples()
    full.ledger.set_baselines("nobody", [full.frozen()])
    full.ledger.set_events("nobody", [])
    full.ledger.open_epoch("nobody", "x")
    full.ledger.set_baselines("embedded", [full.frozen(pair="gone")])
    after = full.samples()
    assert {name: labels.keys() for name, labels in after.items()} == {
        name: labels.keys() for name, labels in before.items()
    }


def test_events_are_on_both_pages_and_only_the_newest_of_all_targets_on_the_landing_page(
    make_stage: Callable[..., Stage],
) -> None:
    stage = make_stage("one", "two")
    for target in ("one", "two"):
        events = [Event(target, 1.7e9 + n, EventKind.REKEY, f"key <{n}> of {target}") for n in range(15)]
        stage.ledger.set_events(target, events)
    assert len(stage.samples()["tde_event_timestamp_seconds"]) == 30
    text = page(stage)
    assert "key &lt;14&gt; of one" in text
    assert "key &lt;14&gt; of two" in text
    assert text.count("key &lt;") == 20


def test_a_pair_in_phase_aa_that_is_found_encrypted_gets_a_verdict(stage: Stage) -> None:
    pair = stage.target.pairs[0].model_copy(update={"phase": Phase.AA})
    target = stage.target.model_copy(update={"pairs": (pair,)})
    stage = Stage(stage.settings.model_copy(update={"targets": (target,)}))
    stage.begin()
    plain = replace(pair_facts(encrypted=False), phase=Phase.AA)
    stage.read_state(plain)
    stage.round()
    assert stage.value("tde_pair_info", phase="aa") == 1
    summary = stage.view.pairs[0].series[0].summary
    assert summary is not None
    assert summary.word == "certifying"

    stage.read_state(replace(pair_facts(epoch="two"), phase=Phase.AA))
    assert stage.value("tde_overhead_samples", operation="point_select", variant="plain", window="1h") is None
    stage.tick(epoch="two")
    stage.collected()
    assert stage.value("tde_pair_info", phase="enabled") == 1
    assert stage.value("tde_pair_valid") == 1
    summary = stage.view.pairs[0].series[0].summary
    assert summary is not None
    assert summary.word == "warming"


def certifying(stage: Stage) -> Stage:
    """A target whose twins are both plain, and meant to be, at the beginning of an hour."""
    pair = stage.target.pairs[0].model_copy(update={"phase": Phase.AA})
    target = stage.target.model_copy(update={"pairs": (pair,), "operations": (OPERATION, Operation.FULL_SCAN)})
    made = Stage(stage.settings.model_copy(update={"targets": (target,)}))
    made.clock.advance(3600.0 - made.clock.steady() % 3600.0)
    made.begin()
    return made


def measured(stage: Stage, hours: float, ratio: float) -> str:
    """So much longer, a tick of each operation every two minutes; what the page says of the certificate then."""
    facts = replace(pair_facts(encrypted=False), phase=Phase.AA)
    for number in range(round(30 * hours)):
        stage.clock.advance(120.0)
        stage.read_state(facts)
        for operation, samples in ((OPERATION, 20), (Operation.FULL_SCAN, 1)):
            wobble = 1 + 0.01 * (number % 7)
            sides = {"encrypted": burst(0.001 * wobble * ratio, samples), "plain": burst(0.001 * wobble, samples)}
            stage.tick(operation, **sides)
        stage.collected()
        stage.ledger.judge()
    view = stage.ledger.view()
    (row,) = landing(view, 0.0, view.at).targets[0].pairs
    return row.words.replace("\u00a0", " ")


def test_the_landing_page_says_whether_plain_twins_are_certified_and_what_is_missing(stage: Stage) -> None:
    stage = certifying(stage)
    assert "certified" not in measured(stage, 0.5, 1.0)
    assert "not certified (too short): point select: 2 h 0 min of measurements, a day is needed" in measured(
        stage, 2, 1.0
    )
    assert "certified by the last 24 h: the twins are alike without encryption" in measured(stage, 22.6, 1.0)
    # Not of twins that are no more what they were.
    stage.read_state(replace(pair_facts(encrypted=True, epoch="two"), phase=Phase.AA))
    assert stage.view.pairs[0].certificate is None


def test_twins_that_differ_without_encryption_are_refused_as_soon_as_it_shows(stage: Stage) -> None:
    words = measured(certifying(stage), 12, 1.3)
    assert "not certified (refused): point select: the twins differ: P50 +30 %" in words


def test_an_event_that_opens_an_epoch_begins_the_statistics_anew(full: Stage) -> None:
    assert full.known("tde_overhead_samples", operation="point_select", variant="plain", window="1h") > 7000
    full.ledger.open_epoch("embedded", "event1")
    assert full.value("tde_overhead_samples", operation="point_select", variant="plain", window="1h") is None
    full.tick()
    assert full.value("tde_overhead_samples", operation="point_select", variant="plain", window="1h") == 20
    assert {block.epoch for key, block in full.ledger.blocks() if key.operation == "point_select"} == {"one/event1"}
