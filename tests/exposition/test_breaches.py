"""A breach ends when it is shown to be over, and for no other reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.config.schema import Settings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import Reason
from exporter.domain.model import Operation, PairFacts, Phase, Work
from exporter.engines.sqlite.settings import Pair, Target
from exporter.exposition.series_book import Dated
from exporter.overhead.evidence import Name
from exporter.probing.messages import PairChecked
from tests.exposition.stages import Stage, burst, pair_facts

CRITICAL = Name(99, "plain", 2.0)
LABELS = {"percentile": "99", "threshold": "2.0", "reference": "plain"}
Trouble = Callable[[Stage], Stage]


def _settings(phase: Phase = Phase.ENABLED) -> Settings:
    pairs = (Pair(name="phonebook", phase=phase),)
    return Settings(targets=(Target(name="embedded", pairs=pairs, operations=(Operation.POINT_SELECT,)),))


def _breached(phase: Phase = Phase.ENABLED, facts: PairFacts | None = None) -> Stage:
    stage = Stage(_settings(phase))
    stage.begin()
    stage.pair = facts
    stage.read_state()
    stage.slowness = 2.5
    while not stage.view.pairs[0].series[0].breaches:
        stage.hours(0.05)
    stage.hours(0.02)
    return stage


@pytest.fixture(scope="module")
def breached() -> Stage:
    """One that nobody must touch: take `restarted`."""
    return _breached()


def _breaches(stage: Stage) -> dict[Name, bool]:
    return dict(stage.view.pairs[0].series[0].breached)


def _word(stage: Stage) -> str | None:
    return stage.view.pairs[0].series[0].word


# -- troubles ----------------------------------------------------------------------------------------------


def silence(stage: Stage) -> Stage:
    for _ in range(4):
        stage.clock.advance(1800.0)
        stage.ledger.view()
    return stage


def refused(stage: Stage) -> Stage:
    for _ in range(6):
        stage.clock.advance(10.0)
        stage.failed()
        stage.collected(reason=Reason.CONNECT)
        assert _breaches(stage)[CRITICAL]
    return stage


def process_down(stage: Stage) -> Stage:
    stage.ledger.process_up(stage.process, False)
    return stage


def process_up(stage: Stage) -> Stage:
    stage.begin()
    return stage


def not_valid(stage: Stage) -> Stage:
    stage.say(PairChecked("embedded", pair_facts(encrypted=False)))
    stage.round()
    return stage


def not_known(stage: Stage) -> Stage:
    facts = pair_facts()
    stage.say(PairChecked("embedded", replace(facts, a=replace(facts.a, encrypted=None))))
    return stage


def another_epoch(stage: Stage) -> Stage:
    stage.ledger.open_epoch("embedded", f"event{stage.clock.wall()}")
    stage.hours(0.05)
    return stage


def blind(stage: Stage) -> Stage:
    stage.work = Work.nothing()
    stage.hours(0.05)
    return stage


def timeouts(stage: Stage) -> Stage:
    failed = burst(1.0, 20, failure=Reason.TIMEOUT)
    for _ in range(10):
        stage.clock.advance(10.0)
        stage.tick(encrypted=failed, plain=failed)
    return stage


def dropped(stage: Stage) -> Stage:
    for _ in range(70):
        stage.clock.advance(10.0)
        stage.tick(dropped="contended")
        stage.collected()
    return stage


def cold(stage: Stage) -> Stage:
    stage.ledger.hold_off("embedded", stage.clock.wall())
    return stage


def clock_steps(stage: Stage) -> Stage:
    stage.clock.step(86400.0)
    return stage


def restart(stage: Stage) -> Stage:
    return stage.restarted()


TROUBLES: list[Trouble] = [
    silence,
    refused,
    process_down,
    process_up,
    not_valid,
    not_known,
    another_epoch,
    blind,
    timeouts,
    dropped,
    cold,
    clock_steps,
    restart,
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_a_breach_and_its_labels_stay_through_trouble(breached: Stage, trouble: Trouble) -> None:
    stage = trouble(_copy(breached))

    assert stage.value("tde_overhead_breach", **LABELS) == 1
    assert set(_breaches(stage)) == set(_breaches(breached))


@given(troubles=st.lists(st.sampled_from(TROUBLES), max_size=5))
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_breach_stays_through_any_troubles(breached: Stage, troubles: list[Trouble]) -> None:
    stage = _copy(breached)
    for trouble in troubles:
        stage = trouble(stage)
        assert _breaches(stage)[CRITICAL]


def _copy(breached: Stage) -> Stage:
    clock = FakeClock(breached.clock.wall())
    stage = replace(breached, clock=clock).taking_up(breached)
    stage.begin()
    stage.round()
    return stage


# -- words -------------------------------------------------------------------------------------------------


def test_the_word_says_what_is_known_now(breached: Stage) -> None:
    stage = _copy(breached)
    assert _word(stage) == "over_budget"

    refused(stage)
    assert _word(stage) == "held"
    assert stage.value("tde_overhead_state", state="held") == 1
    assert len(stage.samples()["tde_overhead_state"]) == 8
    assert "tde_overhead_evidence" not in stage.names()

    process_down(stage)
    assert _word(stage) is None
    assert "tde_overhead_state" not in stage.names()

    process_up(stage)
    not_valid(stage)
    assert _word(stage) == "no_data"
    stage.read_state()
    dropped(stage)
    assert _word(stage) == "no_data"


def test_it_ends_when_an_hour_shows_that_it_is_over(breached: Stage) -> None:
    stage = _copy(breached)
    stage.ledger.changes()
    stage.slowness = 1.0
    stage.hours(1.2)

    assert _breaches(stage) == dict.fromkeys(_breaches(breached), False)
    assert stage.value("tde_overhead_breach", **LABELS) == 0
    assert {(change.name, change.begun) for change in stage.ledger.changes()} >= {(CRITICAL, False)}
    assert stage.value("tde_overhead_onset_timestamp_seconds", **LABELS) is None


def test_the_onset_is_shown_while_it_lasts_and_survives_a_restart(breached: Stage) -> None:
    stage = _copy(breached)
    (key,) = {change.key for change in stage.ledger.lasting()}
    stage.ledger.date(key, CRITICAL, Dated(stage.clock.steady() - 1800.0, 300.0))
    onset = stage.clock.wall() - 1800.0
    assert stage.value("tde_overhead_onset_timestamp_seconds", **LABELS) == onset

    stage = stage.restarted()
    assert stage.value("tde_overhead_onset_timestamp_seconds", **LABELS) == onset
    assert stage.value("tde_overhead_onset_uncertainty_seconds", **LABELS) == 300.0


def test_a_breach_without_a_time_shows_none(breached: Stage) -> None:
    stage = _copy(breached)

    assert "tde_overhead_onset_timestamp_seconds" not in stage.names()
    (key,) = {change.key for change in stage.ledger.lasting()}
    stage.ledger.date(key, Name(50, "plain", 7.0), Dated(1.0, 1.0))
    assert "tde_overhead_onset_timestamp_seconds" not in stage.names()


# -- before encryption -------------------------------------------------------------------------------------


def _plain(phase: Phase = Phase.AA) -> PairFacts:
    return replace(pair_facts(encrypted=False, epoch="before"), phase=phase)


def _enabled() -> PairFacts:
    return replace(pair_facts(epoch="one"), phase=Phase.AA)


def test_twins_that_are_both_plain_have_no_breach() -> None:
    stage = Stage(_settings(Phase.AA), pair=_plain())
    stage.begin()
    stage.hours(0.1)
    assert _breaches(stage) == {}
    assert "tde_overhead_breach" not in stage.names()
    assert "tde_canary_encrypted_failing" not in stage.names()
    assert _word(stage) == "certifying"

    stage.pair = _enabled()
    stage.read_state()
    stage.hours(0.1)
    assert set(_breaches(stage).values()) == {False}
    assert _word(stage) == "warming"
    assert stage.value("tde_canary_encrypted_failing") == 0


def test_a_breach_of_twins_that_were_meant_to_be_plain_survives_what_nobody_can_tell() -> None:
    stage = _breached(Phase.AA, _enabled())
    stage.say(PairChecked("embedded", replace(_enabled(), a=replace(_enabled().a, encrypted=None))))
    assert _breaches(stage)[CRITICAL]

    stage = stage.restarted()
    assert _breaches(stage)[CRITICAL]
    stage.begin()
    stage.hours(0.02)
    assert _breaches(stage)[CRITICAL]

    stage.pair = _plain()
    stage.read_state()
    assert _breaches(stage) == {}


# -- one side alone ----------------------------------------------------------------------------------------


def test_an_encrypted_side_that_fails_alone_is_told_at_once(stage: Stage) -> None:
    stage.begin()
    assert "tde_canary_encrypted_failing" not in stage.names()
    stage.round()
    assert stage.value("tde_canary_encrypted_failing") == 0

    stage.tick(encrypted=burst(0.1, 20, failure=Reason.KEYSTORE), dropped="keystore")
    assert stage.value("tde_canary_encrypted_failing") == 1
    stage.tick()
    assert stage.value("tde_canary_encrypted_failing") == 0

    stage.ledger.process_up(0, False)
    assert "tde_canary_encrypted_failing" not in stage.names()
