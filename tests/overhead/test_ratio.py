"""A ratio in JSON, and where it stops being a number."""

from __future__ import annotations

import math

import pytest

from exporter.overhead.ratio import Ratio, exponential


@pytest.mark.parametrize("log_ratio", [math.inf, -math.inf, math.nan, 1e9, -1e9])
def test_what_is_not_a_number_is_none(log_ratio: float) -> None:
    assert exponential(log_ratio) is None
    assert exponential(0.0) == 1.0


def test_json_has_the_four_fields() -> None:
    assert Ratio(1.0, None, 2.0, 7).to_dict() == {"estimate": 1.0, "lower": None, "upper": 2.0, "samples": 7}
