"""States and words, and the latch that nothing but a clear hour opens."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from exporter.domain.model import Tick
from exporter.overhead.evidence import Name, for_bursts
from exporter.overhead.ratio import Ratio
from exporter.overhead.verdict import Breach, Situation, State, Supply, Verdict, word_of_state
from exporter.overhead.words import Word

NAMES = [detector.name for detector in for_bursts()]
TAIL, PAGE = Name(99, "plain", 1.2), Name(99, "plain", 2.0)
BELOW, ABOVE = Ratio(1.05, 1.0, 1.1, 700), Ratio(1.5, 1.4, 1.6, 700)
NEAR = Ratio(1.1, 1.0, 1.3, 700)
CALM = Situation({(50, "plain"): BELOW, (99, "plain"): BELOW}, epoch_age=7200.0)
RAISED = replace(CALM, ratios={(50, "plain"): BELOW, (99, "plain"): ABOVE})


def test_the_words_of_all_states() -> None:
    verdict = Verdict(NAMES)
    expected = [
        (CALM, State.OK, Word.WITHIN_BUDGET),
        (RAISED, State.OK, Word.UNDECIDED),
        (replace(CALM, suspicious=True), State.SUSPECT, Word.UNDECIDED),
        (replace(CALM, epoch_age=3599.0), State.WARMING, Word.WARMING),
        (replace(CALM, ratios={}), State.WARMING, Word.WARMING),
        (replace(CALM, held=True), State.HOLD_OFF, Word.HELD),
        (replace(CALM, outage=True, no_data=True), State.OUTAGE, Word.HELD),
        (replace(CALM, no_data=True, blind=True), State.NO_DATA, Word.NO_DATA),
        (replace(CALM, blind=True), State.BLIND, Word.BLIND),
        (replace(CALM, blind=None), State.OK, Word.WITHIN_BUDGET),
        (replace(CALM, certifying=True, outage=True), State.CERTIFYING, Word.CERTIFYING),
    ]
    for situation, state, word in expected:
        assert verdict.state(situation) is state
        assert word_of_state(state, situation.ratios) is word
    verdict.fired([TAIL], 0.0)
    for situation, state, word in expected:
        if situation.frozen or situation.held:
            assert verdict.state(situation) is state
            assert word_of_state(state, situation.ratios) is word
    assert verdict.state(RAISED) is State.FIRING
    assert verdict.state(replace(RAISED, epoch_age=0.0)) is State.FIRING
    assert verdict.state(replace(RAISED, ratios={(99, "plain"): NEAR})) is State.RECOVERING
    for state in (State.FIRING, State.RECOVERING):
        assert word_of_state(state, CALM.ratios) is Word.OVER_BUDGET


def test_every_state_has_a_word_and_every_word_a_state() -> None:
    assert {word_of_state(state, CALM.ratios) for state in State} == set(Word)


def test_a_breach_lasts_until_the_upper_bound_is_below_the_threshold() -> None:
    verdict = Verdict(NAMES)
    assert verdict.fired([TAIL], 100.0) == (Breach(TAIL, 100.0),)
    assert verdict.fired([TAIL], 200.0) == ()
    assert verdict.breached == {name: name == TAIL for name in NAMES}
    keeps: list[Any] = [
        RAISED,
        replace(CALM, ratios={}),
        replace(CALM, ratios={(50, "plain"): BELOW, (99, "baseline"): BELOW}),
        replace(CALM, ratios={(99, "plain"): NEAR}),
        replace(CALM, ratios={(99, "plain"): Ratio(1.1, 1.0, None, 700)}),
        replace(CALM, no_data=True),
        replace(CALM, outage=True),
        replace(CALM, held=True),
        replace(CALM, blind=True),
        replace(CALM, certifying=True),
    ]
    for situation in keeps:
        assert verdict.update(situation) == ()
        assert verdict.breaches == (Breach(TAIL, 100.0),)
    assert verdict.update(CALM) == (Breach(TAIL, 100.0),)
    assert verdict.breaches == ()
    assert verdict.fired([TAIL], 300.0) == (Breach(TAIL, 300.0),)


def test_each_threshold_has_a_breach_of_its_own() -> None:
    verdict = Verdict(NAMES)
    verdict.fired([TAIL, PAGE], 1.0)
    between = replace(CALM, ratios={(99, "plain"): ABOVE})
    assert verdict.update(between) == (Breach(PAGE, 1.0),)
    assert verdict.breaches == (Breach(TAIL, 1.0),)


def test_a_breach_against_a_baseline_ends_by_the_ratio_to_that_baseline() -> None:
    since = Name(99, "baseline", 1.2)
    verdict = Verdict([*NAMES, since])
    verdict.fired([since], 1.0)
    for ratio in (ABOVE, NEAR):
        grown = replace(CALM, ratios={**CALM.ratios, (99, "baseline"): ratio})
        assert verdict.update(grown) == ()
    assert verdict.update(replace(CALM, ratios={**RAISED.ratios, (99, "baseline"): BELOW})) == (Breach(since, 1.0),)


def test_a_baseline_shows_no_word_to_be_wrong_unless_it_surely_is() -> None:
    for ratio, word in ((NEAR, Word.WITHIN_BUDGET), (BELOW, Word.WITHIN_BUDGET), (ABOVE, Word.UNDECIDED)):
        assert word_of_state(State.OK, {**CALM.ratios, (99, "baseline"): ratio}) is word
    assert word_of_state(State.OK, {**RAISED.ratios, (99, "baseline"): BELOW}) is Word.UNDECIDED


def test_detectors_come_and_go_with_their_breaches() -> None:
    since = Name(99, "baseline", 1.2)
    verdict = Verdict(NAMES)
    verdict.fired([TAIL, PAGE], 1.0)
    assert verdict.ask([*NAMES, since]) == ()
    assert list(verdict.breached) == [*NAMES, since]
    verdict.fired([since], 2.0)
    assert verdict.ask([*NAMES, since], anew=[since]) == (Breach(since, 2.0),)
    assert verdict.breached == {name: name in (TAIL, PAGE) for name in [*NAMES, since]}
    assert verdict.ask([PAGE]) == (Breach(TAIL, 1.0),)
    assert verdict.breached == {PAGE: True}


def test_a_breach_survives_a_restart_and_ends_with_its_detector() -> None:
    verdict = Verdict(NAMES)
    verdict.fired([TAIL, Name(50, "plain", 1.2)], 1.5)
    state = json.loads(json.dumps(verdict.to_state()))
    assert Verdict.from_state(NAMES, state).breaches == verdict.breaches
    assert Verdict.from_state(NAMES, state).to_state() == state
    assert Verdict.from_state([TAIL], state).breaches == (Breach(TAIL, 1.5),)
    for damaged in (
        {},
        {**state, "version": 2},
        {**state, "breaches": 3},
        {**state, "breaches": [[99, "plain", 1.2]]},
        {**state, "breaches": [[99, "plain", 1.2, "x"]]},
        {**state, "breaches": [[99, "plain", 1.2, float("nan")]]},
    ):
        with pytest.raises(ValueError, match="verdict"):
            Verdict.from_state(NAMES, damaged)


def test_half_of_the_ticks_must_come(make_tick: Any) -> None:
    good: Tick = make_tick([0.1], [0.1])
    supply = Supply(0.0)
    assert not supply.no_data(599.0, 10.0)
    assert supply.no_data(600.0, 10.0)
    for place in range(30):
        supply.add(good, 600.0 + 20 * place, usable=True)
        supply.add(good, 610.0 + 20 * place, usable=False)
    assert not supply.no_data(1190.0, 10.0)
    assert supply.no_data(1230.0, 10.0)
    # What a budget has stretched is not missing.
    assert not supply.no_data(1230.0, 20.0)
    assert supply.no_data(3000.0, 20.0)


def test_rare_ticks_have_longer_to_come(make_tick: Any) -> None:
    supply = Supply(0.0)
    supply.add(make_tick([0.1], [0.1]), 1800.0, usable=True)
    assert not supply.no_data(7199.0, 1800.0)
    assert supply.no_data(7200.0, 1800.0)
    supply.add(make_tick([0.1], [0.1]), 7200.0, usable=True)
    assert not supply.no_data(7201.0, 1800.0)


def test_an_outage_is_most_of_both_sides_in_most_ticks_of_a_minute(make_tick: Any) -> None:
    inf = float("inf")
    supply = Supply(0.0)
    assert not supply.outage(0.0, 10.0)
    for place in range(6):
        supply.add(make_tick([inf] * 3, [0.1] * 3), 10.0 * place, usable=True)
    assert not supply.outage(60.0, 10.0)
    for place in range(4):
        now = 60.0 + 10.0 * place
        assert not supply.outage(now, 10.0)
        supply.add(make_tick([inf, inf, 0.1], [inf, 0.1, inf]), now, usable=True)
    assert supply.outage(90.0, 10.0)
    assert not supply.outage(200.0, 10.0)
