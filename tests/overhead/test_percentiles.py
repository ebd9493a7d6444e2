"""Exact percentiles against a definition that nobody can get wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.overhead.percentiles import percentile, percentiles, rank

values = st.lists(st.floats(0, 1e6) | st.just(math.inf), min_size=1, max_size=300)
percents = st.sampled_from([0.1, 1, 50, 95, 99, 99.9, 100])


@given(values, percents)
def test_it_is_the_smallest_measured_value_with_enough_below(given_values: list[float], percent: float) -> None:
    needed = round(percent * len(given_values) / 100, 9)
    naive = min(v for v in given_values if sum(other <= v for other in given_values) >= needed)
    assert percentile(np.array(given_values), percent) == naive
    assert percentiles(np.array(given_values), (percent, 50))[0] == naive


def test_ninety_nine_of_a_hundred_is_the_ninety_ninth() -> None:
    assert rank(99, 100) == 99
    # 0.07 * 100 is a hair above 7 in binary; the rank is 7 all the same.
    assert rank(7, 100) == rank(100 * 0.07, 100) == 7
    assert percentile(np.arange(1, 101), 99) == 99
    assert percentile(np.arange(1, 102), 99) == 100


def test_it_is_infinite_exactly_when_it_lies_among_the_timeouts() -> None:
    data = np.array([1.0] * 99 + [math.inf])
    assert percentile(data, 99) == 1.0
    assert percentile(np.append(data, math.inf), 99) == math.inf


def test_nothing_has_no_percentile_and_nan_is_refused() -> None:
    assert percentile(np.array([]), 50) is None
    with pytest.raises(ValueError, match="nothing"):
        percentiles(np.array([]), (50,))
    for where in (0, 2):
        data = np.array([1.0, 2.0, 3.0])
        data[where] = math.nan
        with pytest.raises(ValueError, match="NaN"):
            percentile(data, 1)
        with pytest.raises(ValueError, match="NaN"):
            percentiles(data, (1,))
    with pytest.raises(ValueError, match="percentile lies"):
        rank(0, 5)
