"""The second level of an interval: from this measurement to what encryption costs."""

from __future__ import annotations

import math
import random

import pytest

from exporter.overhead.hodges_lehmann import hodges_lehmann
from exporter.overhead.ratio import Ratio
from exporter.overhead.two_level import two_level


def test_the_levels_add_in_squares_and_the_estimate_stays() -> None:
    widened = two_level(Ratio(1.3, 1.3 * math.exp(-0.03), 1.3 * math.exp(0.04), 20), tau=0.05 / 1.959964)

    assert widened is not None
    assert widened.estimate == 1.3
    assert widened.lower == pytest.approx(1.3 * math.exp(-math.hypot(0.03, 0.05)))
    assert widened.upper == pytest.approx(1.3 * math.exp(math.hypot(0.04, 0.05)))


def test_what_is_unknown_stays_unknown() -> None:
    assert two_level(None) is None
    assert two_level(Ratio(1.3, None, None, 3)) == Ratio(1.3, None, None, 3)
    assert two_level(Ratio(None, 20.0, None, 9)) == Ratio(None, 20.0, None, 9)


def test_without_a_second_level_nothing_changes() -> None:
    assert two_level(Ratio(1.3, 1.2, 1.4, 20), tau=0.0) == Ratio(1.3, 1.2, 1.4, 20)


def test_it_covers_the_long_run_ratio_where_the_first_level_does_not() -> None:
    rng = random.Random(5)
    covered = {"one": 0, "two": 0}
    for _ in range(400):
        start = rng.gauss(math.log(1.3), 0.03)  # what this start of the process happens to show
        first = hodges_lehmann([rng.gauss(start, 0.02) for _ in range(20)])
        second = two_level(first, tau=0.03)
        for name, ratio in (("one", first), ("two", second)):
            assert ratio is not None
            assert ratio.lower is not None
            assert ratio.upper is not None
            covered[name] += ratio.lower <= 1.3 <= ratio.upper

    assert covered["one"] < 0.5 * 400
    assert 0.92 * 400 <= covered["two"] <= 0.99 * 400
