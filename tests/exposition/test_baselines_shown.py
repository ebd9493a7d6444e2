"""Which baseline is held against what, and which numbers are shown of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.domain.events import Event, EventKind
from exporter.domain.model import Phase, Slot
from exporter.landing import landing
from exporter.web.pages.landing import render
from tests.exposition.stages import Stage, pair_facts


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


def test_an_event_that_opens_an_epoch_begins_the_statistics_anew(full: Stage) -> None:
    assert full.known("tde_overhead_samples", operation="point_select", variant="plain", window="1h") > 7000
    full.ledger.open_epoch("embedded", "event1")
    assert full.value("tde_overhead_samples", operation="point_select", variant="plain", window="1h") is None
    full.tick()
    assert full.value("tde_overhead_samples", operation="point_select", variant="plain", window="1h") == 20
    assert {block.epoch for key, block in full.ledger.blocks() if key.operation == "point_select"} == {"one/event1"}
