"""Hodges-Lehmann: known answers, coverage, symmetry, timeouts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.overhead.hodges_lehmann import hodges_lehmann
from exporter.overhead.ratio import Ratio

approx: Any = pytest.approx  # Stands for the number that it is near to.


def logs(*ratios: float) -> list[float]:
    return [math.log(ratio) for ratio in ratios]


def by_enumeration(values: list[float], confidence: float) -> tuple[float, float]:
    """The signed-rank interval from all sign patterns, without any recurrence."""
    n = len(values)
    sums = sorted(
        sum(place for place, sign in enumerate(signs, 1) if sign) for signs in itertools.product((0, 1), repeat=n)
    )
    k = max(k for k in range(n * n) if sum(s <= k for s in sums) / 2**n <= (1 - confidence) / 2)
    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2))
    return math.exp(means[k]), math.exp(means[-1 - k])


@pytest.mark.parametrize("count", [6, 7, 9, 12])
def test_the_interval_is_that_of_the_exact_distribution(count: int) -> None:
    values = np.random.default_rng(count).normal(0.2, 0.1, count).tolist()
    found = hodges_lehmann(values)
    assert found is not None
    assert (found.lower, found.upper) == approx(by_enumeration(values, 0.95))


def test_six_units_give_the_whole_range_and_five_no_interval() -> None:
    ratios = [1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    six = hodges_lehmann(logs(*ratios))
    assert six is not None
    assert (six.lower, six.upper, six.samples) == (approx(1.1), approx(1.6), 6)
    five = hodges_lehmann(logs(*ratios[:5]))
    assert five is not None
    assert five.estimate == approx(1.3, rel=0.01)
    assert (five.lower, five.upper, five.samples) == (None, None, 5)
    assert hodges_lehmann(logs(1.3)) == Ratio(approx(1.3), None, None, 1)
    assert hodges_lehmann([]) is None


def test_exact_and_approximate_intervals_meet() -> None:
    values = np.random.default_rng(9).normal(0, 1, 61)
    exact, approximate = hodges_lehmann(values[:60].tolist()), hodges_lehmann(values.tolist())
    assert exact is not None
    assert approximate is not None
    assert exact.lower is not None
    assert approximate.lower == approx(exact.lower, rel=0.08)


@pytest.mark.parametrize(("count", "spread"), [(6, 0.15), (12, 0.15), (30, 0.3), (60, 0.05), (90, 0.3)])
def test_the_interval_covers_the_truth_at_least_as_often_as_it_says(count: int, spread: float) -> None:
    random = np.random.default_rng(count)
    windows, covered = 400, 0
    for _ in range(windows):
        found = hodges_lehmann((math.log(1.4) + spread * random.standard_t(4, count)).tolist())
        assert found is not None
        assert found.lower is not None
        assert found.upper is not None
        covered += found.lower <= 1.4 <= found.upper
    # The exact distribution is discrete: with few units the interval is a little wider than asked.
    assert 0.92 <= covered / windows <= 0.995


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=70))
def test_inverting_the_units_inverts_the_answer(values: list[float]) -> None:
    there, back = hodges_lehmann(values), hodges_lehmann([-value for value in values])
    assert there is not None
    assert back is not None
    for mine, theirs in [(there.estimate, back.estimate), (there.lower, back.upper), (there.upper, back.lower)]:
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert mine * theirs == approx(1.0)


@example([0.0, 1.0, *[math.inf] * 5])
@given(
    st.lists(st.floats(-1, 1) | st.sampled_from([math.inf, -math.inf]), min_size=1, max_size=40),
)
def test_timeouts_never_make_a_wrong_finite_number(values: list[float]) -> None:
    """Whatever the timed-out queries would have taken, the honest answer lies inside what is said."""
    found = hodges_lehmann(values)
    assert found is not None
    for up, down in itertools.product((1.0, 40.0, 300.0), repeat=2):
        possible = hodges_lehmann([min(max(value, -down), up) for value in values])
        assert possible is not None
        for said, truth, outward in (
            (found.lower, possible.lower, 1),
            (found.upper, possible.upper, -1),
        ):
            if said is not None:
                assert truth is not None
                assert outward * said <= outward * truth * (1 + outward * 1e-9)


def test_one_timeout_in_many_units_keeps_the_estimate() -> None:
    found = hodges_lehmann([0.1, 0.12, 0.11, 0.09, 0.1, 0.13, 0.1, 0.11, 0.12, math.inf])
    assert found is not None
    assert found.estimate == approx(1.117, abs=0.01)
    assert found.lower is not None
    assert found.upper is None


def test_only_timeouts_say_nothing_finite() -> None:
    assert hodges_lehmann([math.inf] * 8) == Ratio(None, None, None, 8)
    assert hodges_lehmann([-math.inf] * 8) == Ratio(None, None, None, 8)
    assert hodges_lehmann([math.inf]) == Ratio(None, None, None, 1)


def test_a_unit_without_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="log ratio"):
        hodges_lehmann([0.1, math.nan])
