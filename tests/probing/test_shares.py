"""One budget is shared so that nobody gets nothing and nobody gets more than he wants."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.probing.shares import fair_periods, fair_shares

wants = st.lists(st.floats(0, 1e6), min_size=1, max_size=12)
costs = st.lists(st.floats(0, 100), min_size=1, max_size=12)


@given(wants, st.floats(1e-3, 1e6))
def test_shares_fill_the_budget_and_no_more(wanted, available):
    shares = fair_shares(wanted, available)

    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))
    assert math.fsum(shares) == pytest.approx(min(available, math.fsum(wanted)), rel=1e-9)


@given(wants, st.floats(1e-3, 1e6))
def test_who_gets_less_than_he_wants_gets_no_less_than_anybody(wanted, available):
    shares = fair_shares(wanted, available)

    for share, want in zip(shares, wanted, strict=True):
        if share < want * (1 - 1e-9):
            assert share >= max(shares) * (1 - 1e-9)


def test_a_dear_operation_never_thins_a_cheap_one():
    assert fair_shares([1.0, 100.0, 2.0], 13.0) == [1.0, 10.0, 2.0]


@given(costs, st.floats(1, 3600), st.floats(1e-2, 1e4))
def test_at_these_periods_an_hour_keeps_to_its_budget_with_room_for_a_tick_of_each(paid, interval, per_hour):
    periods = fair_periods(paid, interval, per_hour)

    spent = math.fsum(cost * 3600 / period for cost, period in zip(paid, periods, strict=True))
    assert spent <= max(per_hour - sum(paid), per_hour / 2) * (1 + 1e-9)
    assert all(interval <= period < math.inf for period in periods)


@given(costs, st.floats(1, 3600))
def test_what_fits_is_not_thinned(paid, interval):
    per_hour = 2.1 * (math.fsum(paid) * 3600 / interval + math.fsum(paid) + 1)

    assert fair_periods(paid, interval, per_hour) == [interval] * len(paid)


@pytest.mark.parametrize(("interval", "per_hour"), [(0, 1), (-1, 1), (1, 0)])
def test_an_interval_or_a_budget_of_nothing_is_refused(interval, per_hour):
    with pytest.raises(ValueError, match="positive"):
        fair_periods([1.0], interval, per_hour)
