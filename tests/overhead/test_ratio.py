"""A ratio in words and in JSON."""

from __future__ import annotations

import math

import pytest

from exporter.overhead.ratio import Ratio, exponential


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Ratio(1.412, 1.38, 1.441, 60), "+41.2 % (+38.0 … +44.1)"),
        (Ratio(0.9999, 0.95, 1.05, 60), "+0.0 % (-5.0 … +5.0)"),
        (Ratio(1.3, None, None, 3), "+30.0 %"),
        (Ratio(1.3, 1.1, None, 9), "+30.0 % (+10.0 … ?)"),
        (Ratio(None, 1.2, None, 9), "at least +20.0 %"),
        (Ratio(None, None, 0.05, 9), "at most -95.0 %"),
        (Ratio(None, 1.1, 1.3, 9), "+10.0 … +30.0 %"),
        (Ratio(None, None, None, 9), "unknown"),
    ],
)
def test_words_say_what_is_known_and_no_more(ratio: Ratio, words: str) -> None:
    assert ratio.percent() == words


@pytest.mark.parametrize("log_ratio", [math.inf, -math.inf, math.nan, 1e9, -1e9])
def test_what_is_not_a_number_is_none(log_ratio: float) -> None:
    assert exponential(log_ratio) is None
    assert exponential(0.0) == 1.0


def test_json_has_the_four_fields() -> None:
    assert Ratio(1.0, None, 2.0, 7).to_dict() == {"estimate": 1.0, "lower": None, "upper": 2.0, "samples": 7}
