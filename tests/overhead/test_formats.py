"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.overhead import formats
from exporter.overhead.ratio import Ratio


def spaces(text: str) -> str:
    """All kinds of spaces as plain ones."""
    return text.replace("\u00a0", " ").replace("\u202f", " ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "timed out"),
        (0.0, "0 s"),
        (4.2e-10, "0.42 ns"),
        (3.42e-6, "3.42 µs"),
        (83.44e-6, "83.4 µs"),
        (0.0121, "12.1 ms"),
        (0.4126, "413 ms"),
        (0.99949, "999 ms"),
        (0.9996, "1.00 s"),
        (9.9999e-4, "1.00 ms"),
        (1.2, "1.20 s"),
        (75.04, "75.0 s"),
        (1234.5, "1 234 s"),
    ],
)
def test_durations_have_three_digits_and_the_right_unit(seconds: float | None, text: str) -> None:
    assert spaces(formats.duration(seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (math.inf, "–"),
        (-5.0, "0 s"),
        (59.9, "59 s"),
        (60.0, "1 min"),
        (3599.0, "59 min"),
        (11520.0, "3 h 12 min"),
        (86400.0 * 5 + 4 * 3600, "5 d 4 h"),
    ],
)
def test_ages_are_rough(seconds: float | None, text: str) -> None:
    assert spaces(formats.age(seconds)) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "–"),
        (math.nan, "? %"),
        (1.0, "0.0 %"),
        (1.0004, "0.0 %"),
        (0.9996, "0.0 %"),
        (1.0006, "+0.1 %"),
        (1.38, "+38 %"),
        (1.0273, "+2.7 %"),
        (1.0996, "+10 %"),
        (0.995, "−0.5 %"),
        (0.5, "−50 %"),
        (3.2, "+220 %"),
        (25.0, "+2 400 %"),
    ],
)
def test_a_ratio_is_written_as_what_it_adds(ratio: float | None, text: str) -> None:
    assert spaces(formats.overhead(ratio)) == text


@pytest.mark.parametrize(
    ("ratio", "headline", "interval"),
    [
        (Ratio(1.38, 1.35, 1.41, 900), "+38 %", "+35 … +41"),
        (Ratio(1.02, 0.98, 1.06, 900), "+2.0 %", "−2.0 … +6.0"),
        (Ratio(2.56, 2.2, None, 40), "+156 %", "+120 … ?"),
        (Ratio(None, 1.2, None, 40), "at least +20 %", "+20 … ?"),
        (Ratio(None, None, 1.1, 40), "at most +10 %", "? … +10"),
        (Ratio(None, None, None, 40), "–", "? … ?"),
    ],
)
def test_what_is_unknown_in_a_ratio_is_not_made_up(ratio: Ratio, headline: str, interval: str) -> None:
    assert (spaces(formats.headline(ratio)), spaces(formats.interval(ratio))) == (headline, interval)


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "–"), (math.nan, "–"), (0, "0"), (3.25, "3.2"), (41.6, "42"), (1412, "1 412"), (1_234_567, "1 234 567")],
)
def test_counts_are_grouped(number: float | None, text: str) -> None:
    assert spaces(formats.count(number)) == text


def test_a_point_in_time_is_utc() -> None:
    assert formats.clock(1_772_375_107.9) == "2026-03-01 14:25:07 UTC"
    assert formats.clock(None) == "–"


@given(st.floats(min_value=1e-9, max_value=1e5))
def test_a_duration_reads_back_within_half_a_percent(seconds: float) -> None:
    number, unit = formats.duration(seconds).split("\u00a0")
    size = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    assert float(number.replace("\u202f", "")) * size == pytest.approx(seconds, rel=0.006)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Ratio(1.412, 1.38, 1.441, 60), "+41 % (+38 … +44)"),
        (Ratio(1.3, 1.1, None, 9), "+30 % (+10 … ?)"),
        (Ratio(None, 1.2, None, 9), "at least +20 % (+20 … ?)"),
        (Ratio(1.3, None, None, 3), formats.UNKNOWN),
        (None, formats.UNKNOWN),
    ],
)
def test_an_overhead_without_an_interval_is_no_fact(ratio: Ratio | None, words: str) -> None:
    assert formats.with_interval(ratio).replace("\u00a0", " ") == words


def test_what_passed_the_cipher_is_named_and_unknown_is_not_nothing() -> None:
    assert formats.through_cipher(1306.0, 0.0) == "1\u202f306\u00a0decrypted"
    assert formats.through_cipher(0.0, 5.0) == "5\u00a0encrypted"
    assert formats.through_cipher(3.5, 5.0) == "3.5\u00a0decrypted, 5\u00a0encrypted"
    assert formats.through_cipher(0.0, 0.0) == "0"
    assert (
        formats.through_cipher(None, 0.0)
        == formats.through_cipher(0.0, None)
        == formats.through_cipher(None, None)
        == "–"
    )
    assert formats.through_cipher(None, 5.0) == "5\u00a0encrypted"


def test_little_is_not_written_as_nothing() -> None:
    assert [spaces(formats.count(number)) for number in (0.0, 0.025, 0.05, 1.04)] == ["0", "under 0.1", "0.1", "1.0"]
