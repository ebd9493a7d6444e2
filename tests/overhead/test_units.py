"""AB+BA units: what cancels, what is matched with what, what is left out."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.model import Variant, Work
from exporter.overhead.units import UnitPairing, UnitPoint, log_ratios, thin

approx: Any = pytest.approx  # Stands for the number that it is near to.

E, P = Variant.ENCRYPTED, Variant.PLAIN


def test_the_advantage_of_running_second_cancels() -> None:
    pairing = UnitPairing()
    truth, second = math.log(1.4), math.log(0.7)
    assert pairing.add(E, (truth - second, 0.3, 10.0)) is None
    unit = pairing.add(P, (truth + second, 0.1, 20.0))
    assert unit == UnitPoint(20.0, approx(truth), approx(0.2))
    assert pairing.add(P, (0.0, None, 30.0)) is None


def test_ticks_are_matched_first_come_first_served() -> None:
    pairing = UnitPairing()
    assert pairing.add(P, (1.0, 0.0, 1.0)) is None
    assert pairing.add(P, (3.0, 0.0, 2.0)) is None
    assert pairing.add(E, (0.0, 0.0, 3.0)) == UnitPoint(3.0, 0.5, 0.0)
    assert pairing.add(E, (0.0, 0.0, 4.0)) == UnitPoint(4.0, 1.5, 0.0)
    assert pairing.add(E, (0.0, 0.0, 5.0)) is None


def test_unknown_cpu_on_either_side_is_unknown_in_the_unit() -> None:
    for mine, theirs in ((None, 0.2), (0.2, None), (None, None)):
        pairing = UnitPairing()
        pairing.add(E, (0.1, mine, 1.0))
        assert pairing.add(P, (0.1, theirs, 2.0)) == UnitPoint(2.0, approx(0.1), None)


def test_a_timeout_on_each_side_says_nothing_and_on_one_side_stays() -> None:
    pairing = UnitPairing()
    pairing.add(E, (math.inf, 0.1, 1.0))
    assert pairing.add(P, (-math.inf, 0.1, 2.0)) is None
    pairing.add(E, (math.inf, 0.1, 3.0))
    assert pairing.add(P, (0.2, 0.1, 4.0)) == UnitPoint(4.0, math.inf, approx(0.1))


def test_what_waits_is_bounded_and_can_be_cleared() -> None:
    pairing = UnitPairing()
    for place in range(1000):
        pairing.add(E, (float(place), None, float(place)))
    first = pairing.add(P, (992.0, None, 1000.0))
    assert first == UnitPoint(1000.0, 992.0, None)
    pairing.clear()
    assert pairing.add(P, (0.0, None, 1001.0)) is None


def test_a_tick_compares_medians_and_cpu_per_successful_sample(make_tick: Any) -> None:
    tick = make_tick([0.3, 0.2, 9.0], [0.1, 0.1, 0.1], work=Work(0.006), plain_work=Work(0.003))
    assert log_ratios(tick) == (approx(math.log(3)), approx(math.log(2)))
    # A failed sample has no CPU time; the others must not look cheaper for it.
    failed = make_tick([0.2, 0.2, math.inf], [0.1, 0.1, 0.1], work=Work(0.006), plain_work=Work(0.003))
    assert log_ratios(failed)[1] == approx(math.log(2))


def test_a_tick_whose_side_failed(make_tick: Any) -> None:
    dead, alive = [math.inf] * 3, [0.1] * 3
    assert log_ratios(make_tick(dead, alive)) == (math.inf, None)
    assert log_ratios(make_tick(alive, dead)) == (-math.inf, None)
    latency, cpu = log_ratios(make_tick(dead, dead))
    assert math.isnan(latency)
    assert cpu is None


@pytest.mark.parametrize("work", [Work(None), Work(0.0)])
def test_unknown_or_invisible_cpu_is_no_ratio(make_tick: Any, work: Work) -> None:
    assert log_ratios(make_tick([0.1], [0.1], work=work))[1] is None
    assert log_ratios(make_tick([0.1], [0.1], plain_work=work))[1] is None


@given(st.lists(st.floats(-2, 2), max_size=200), st.integers(1, 70))
def test_thinning_keeps_all_data_in_order(latencies: list[float], most: int) -> None:
    units = [UnitPoint(float(place), latency, latency) for place, latency in enumerate(latencies)]
    thinned = thin(units, most)
    assert len(thinned) == min(len(units), most)
    assert [unit.at for unit in thinned] == sorted(unit.at for unit in thinned)
    if units and len(units) % most == 0:
        mean = sum(latencies) / len(latencies)
        assert sum(unit.latency for unit in thinned) / len(thinned) == approx(mean, abs=1e-9)


def test_thinning_around_timeouts_and_unknown_cpu() -> None:
    def units(*latencies: float) -> list[UnitPoint]:
        return [UnitPoint(float(place), latency, None) for place, latency in enumerate(latencies)]

    assert [unit.latency for unit in thin(units(0.1, 0.3, math.inf, 0.2), 2)] == [approx(0.2), math.inf]
    assert [unit.latency for unit in thin(units(math.inf, -math.inf, 0.2, 0.4), 2)] == [approx(0.3)]
    mixed = [UnitPoint(0.0, 0.0, None), UnitPoint(1.0, 0.0, 0.5), UnitPoint(2.0, 0.0, None), UnitPoint(3.0, 0.0, None)]
    assert [unit.cpu for unit in thin(mixed, 2)] == [0.5, None]
    with pytest.raises(ValueError, match="nothing"):
        thin(mixed, 0)
