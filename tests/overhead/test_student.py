"""Quantiles of Student's t against printed tables and against closed forms."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from exporter.overhead.student import student_quantile

# Percentage points as printed in common tables (three or more decimals).
TABLE = [
    (0.975, 1, 12.706),
    (0.975, 2, 4.3027),
    (0.975, 5, 2.5706),
    (0.975, 9, 2.2622),
    (0.975, 11, 2.2010),
    (0.975, 23, 2.0687),
    (0.975, 29, 2.0452),
    (0.975, 120, 1.9799),
    (0.95, 5, 2.0150),
    (0.95, 10, 1.8125),
    (0.90, 3, 1.6377),
    (0.995, 11, 3.1058),
    (0.9995, 4, 8.6103),
]


@pytest.mark.parametrize(("probability", "degrees", "printed"), TABLE)
def test_it_agrees_with_the_tables(probability: float, degrees: int, printed: float) -> None:
    assert student_quantile(probability, degrees) == pytest.approx(printed, abs=5e-4 if printed > 10 else 6e-5)


@pytest.mark.parametrize("probability", [0.501, 0.6, 0.9, 0.975, 0.999, 0.9999995])
def test_it_agrees_with_the_closed_forms(probability: float) -> None:
    cauchy = math.tan(math.pi * (probability - 0.5))
    assert student_quantile(probability, 1) == pytest.approx(cauchy, rel=1e-8)
    alpha = 4 * probability * (1 - probability)
    two = 2 * (probability - 0.5) * math.sqrt(2 / alpha)
    assert student_quantile(probability, 2) == pytest.approx(two, rel=1e-8)


def test_it_is_symmetric_and_tends_to_the_normal() -> None:
    assert student_quantile(0.025, 11) == -student_quantile(0.975, 11)
    assert student_quantile(0.5, 7) == pytest.approx(0.0, abs=1e-9)
    assert student_quantile(0.975, 1_000_000) == pytest.approx(NormalDist().inv_cdf(0.975), rel=1e-5)


@pytest.mark.parametrize(("probability", "degrees"), [(0.0, 5), (1.0, 5), (0.9, 0), (math.nan, 3)])
def test_it_refuses_what_has_no_quantile(probability: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_quantile(probability, degrees)
