from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.overhead.tiers import tier


@pytest.mark.parametrize(
    ("samples", "period", "number", "words"),
    [
        (20, 10.0, 1, "P99 in an hour"),
        (20, 120.0, 1, "P99 in an hour"),
        (20, 121.0, 2, "P50 in an hour, P99 only over a day"),
        (20, 300.0, 2, "P50 in an hour, P99 only over a day"),
        (200, 301.0, 3, "too few for an hour: 2392 samples"),
        (2, 60.0, 2, "P50 in an hour, P99 only over a day"),
        (2, 200.0, 3, "too few for an hour: 36 samples"),
        (1, 10.0, 3, "P50 only: one sample per tick"),
        (1, 300.0, 3, "P50 only: one sample per tick"),
        (1, 301.0, 3, "too few for an hour: 12 samples"),
        (1, 3600.0, 3, "too few for an hour: 1 sample"),
    ],
)
def test_the_tier_follows_from_samples_and_period(samples: int, period: float, number: int, words: str) -> None:
    found = tier(samples, period)

    assert (found.number, found.words) == (number, words)


@given(st.integers(1, 200), st.floats(1, 1e5), st.floats(1, 10))
def test_measuring_more_often_never_says_less(samples: int, period: float, factor: float) -> None:
    assert tier(samples, period).number <= tier(samples, period * factor).number


@pytest.mark.parametrize(("samples", "period"), [(0, 10.0), (1, 0.0), (1, -1.0)])
def test_nonsense_is_refused(samples: int, period: float) -> None:
    with pytest.raises(ValueError, match="samples"):
        tier(samples, period)
