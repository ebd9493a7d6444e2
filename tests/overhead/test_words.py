"""The one word for a series."""

from __future__ import annotations

import pytest

from exporter.overhead.ratio import Ratio
from exporter.overhead.words import Word, word_of_window

BELOW, ABOVE = Ratio(1.05, 1.0, 1.1, 700), Ratio(1.5, 1.4, 1.6, 700)
OPEN = Ratio(None, 1.0, None, 700)


def word(certifying: bool = False, samples: int = 700, blind: bool | None = False, **ratios: Ratio) -> Word:
    named = {int(name[1:]): ratio for name, ratio in ratios.items()}
    return word_of_window(certifying=certifying, samples=samples, blind=blind, ratios=named)


def test_a_pair_that_is_being_certified_has_no_verdict() -> None:
    assert word(certifying=True, p50=ABOVE) is Word.CERTIFYING
    assert word(certifying=True, samples=0) is Word.CERTIFYING


def test_no_samples_is_no_data_and_too_few_is_warming() -> None:
    assert word(samples=0, blind=None) is Word.NO_DATA
    assert word() is Word.WARMING
    assert word(blind=None) is Word.WARMING


def test_a_blind_series_is_never_within_budget() -> None:
    assert word(blind=True, p50=BELOW) is Word.BLIND
    assert word(blind=True) is Word.BLIND
    assert word(blind=None, p50=BELOW) is Word.WITHIN_BUDGET


@pytest.mark.parametrize("other", [ABOVE, OPEN, Ratio(1.1, 1.0, 1.2, 700), Ratio(1.1, None, None, 5)])
def test_every_percentile_must_be_below_the_threshold_at_its_upper_bound(other: Ratio) -> None:
    assert word(p50=BELOW) is Word.WITHIN_BUDGET
    assert word(p50=BELOW, p99=BELOW) is Word.WITHIN_BUDGET
    assert word(p50=BELOW, p99=other) is Word.UNDECIDED
    assert word(p50=other) is Word.UNDECIDED


def test_the_vocabulary_is_closed() -> None:
    assert set(Word) == {
        "warming",
        "within_budget",
        "undecided",
        "over_budget",
        "no_data",
        "held",
        "blind",
        "certifying",
    }
