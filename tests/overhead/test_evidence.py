"""One detector: bets that are fair at the boundary, sums that fire once, a state that survives."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.overhead.evidence import FLOOR, LAMBDAS, Evidence, for_bursts, for_units

approx: Any = pytest.approx  # Stands for the number that it is near to.
TAIL, PAGE = for_bursts((99,))
(MEDIAN,) = for_bursts((50,))


def test_the_constants() -> None:
    (p95,) = for_bursts((95,))
    assert [(one.block, one.scale, one.alarm, one.ratio) for one in (TAIL, PAGE, MEDIAN, p95)] == [
        (60.0, 1.0, 432_000.0, 1.2),
        (0.0, 1.0, 2_592_000.0, 2.0),
        (300.0, approx(1 / 6), 86_400.0, approx(1.218, abs=1e-3)),
        (300.0, 0.5, 86_400.0, 1.2),
    ]
    assert [one.name for one in for_bursts()] == [MEDIAN.name, TAIL.name, PAGE.name]
    assert [one.name for one in for_units()] == [(50, "plain", 1.2), (50, "plain", 2.0)]
    assert for_bursts((99,), 1.3, None, "baseline", 1.1)[0].ratio == approx(1.43)
    assert TAIL.alarm_evidence == approx(5.635, abs=1e-3)
    with pytest.raises(ValueError, match="percentile 90"):
        for_bursts((90,))


def gains(detector: Any, difference: int) -> list[float]:
    evidence = Evidence(detector)
    evidence.update(difference, 0.0)
    return evidence.sums


@given(st.integers(-5000, 5000), st.sampled_from([TAIL, MEDIAN, PAGE, *for_units()]))
def test_a_bet_gains_on_average_nothing(difference: int, detector: Any) -> None:
    for there, back in zip(gains(detector, difference), gains(detector, -difference), strict=True):
        assert (there + back) / 2 == approx(1.0, rel=1e-12)
        assert 0 <= there <= 2


def test_the_sums_are_those_of_shiryaev_and_roberts() -> None:
    evidence, expected = Evidence(MEDIAN), [0.0] * 5
    for difference in (3, -7, 0, 12):
        evidence.update(difference, 0.0)
        # exp(l D) / cosh(l D), as one writes it on paper.
        bets = [bet / 6 * difference for bet in LAMBDAS]
        expected = [(old + 1) * math.exp(bet) / math.cosh(bet) for old, bet in zip(expected, bets, strict=True)]
    assert evidence.sums == approx(expected)
    assert evidence.mean == approx(np.mean(expected))
    assert evidence.shown == approx(math.log10(evidence.mean))


def test_it_fires_once_and_begins_anew() -> None:
    evidence, blocks = Evidence(TAIL), 0
    while not evidence.update(1000, 60.0 * blocks):
        blocks += 1
    # Every bet doubles at most: 2 + 4 + 8 ... reaches the alarm in the 18th block.
    assert blocks == 17
    assert (evidence.fired_at, evidence.sums) == (60.0 * 17, [0.0] * 5)
    assert evidence.shown == FLOOR


def test_without_a_bet_the_sums_count_the_blocks() -> None:
    evidence = Evidence(TAIL)
    for _ in range(1000):
        evidence.update(0, 0.0)
    assert evidence.sums == [1000.0] * 5
    assert not evidence.suspicious
    evidence.update(0, 0.0)
    assert evidence.suspicious


def test_more_samples_are_wanted_where_they_help() -> None:
    for detector, boosts in ((TAIL, True), (PAGE, True), (MEDIAN, False)):
        evidence = Evidence(detector)
        for _ in range(1001):
            evidence.update(0, 0.0)
        assert evidence.suspicious
        assert evidence.boost_wanted is boosts


def test_evidence_against_is_none() -> None:
    evidence = Evidence(TAIL)
    for _ in range(100):
        evidence.update(-10_000, 0.0)
    assert evidence.shown == FLOOR
    assert all(value >= 0 for value in evidence.sums)


def test_the_mean_time_to_a_false_alarm_is_at_least_the_alarm_level() -> None:
    # Exactly at the boundary D is as often positive as negative. A small level, many runs.
    random, level, runs = np.random.default_rng(3), 200.0, 60
    lasted = []
    for _ in range(runs):
        evidence, blocks = Evidence(replace(TAIL, alarm=level)), 1
        while not evidence.update(int(random.integers(-6, 7)), 0.0):
            blocks += 1
        lasted.append(blocks)
    assert np.mean(lasted) > level
    # And not because it never fires: the sums overshoot the level by a factor of three or so.
    assert np.mean(lasted) < 10 * level


def test_the_state_survives() -> None:
    evidence = Evidence(TAIL)
    for _ in range(18):
        evidence.update(1000, 7.0)
    evidence.update(5, 8.0)
    state = json.loads(json.dumps(evidence.to_state()))
    found = Evidence.from_state(TAIL, state)
    assert found is not None
    assert (found.sums, found.fired_at) == (evidence.sums, 7.0)
    for other in (MEDIAN, PAGE, replace(TAIL, reference="baseline"), replace(TAIL, reference_ratio=1.1)):
        assert Evidence.from_state(other, state) is None


@pytest.mark.parametrize(
    "change",
    [
        {"sums": [1.0] * 4},
        {"sums": [-1.0] * 5},
        {"sums": [math.nan] * 5},
        {"sums": [math.inf] * 5},
        {"sums": None},
        {"sums": ["x"] * 5},
        {"fired_at": math.nan},
        {"fired_at": "never"},
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    state = Evidence(TAIL).to_state()
    with pytest.raises(ValueError, match="damaged"):
        Evidence.from_state(TAIL, {**state, **change})
    del state["ratio"]
    with pytest.raises(ValueError, match="damaged"):
        Evidence.from_state(TAIL, state)
