"""The texts of V$DATAGUARD_STATS: parsed, unknown where they say nothing, and growing while nothing comes any more."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.engines.oracle.lag import (
    FROZEN_SECONDS,
    NO_NEWS,
    NO_STATS,
    NO_TIME,
    Lags,
    gap_of,
    lags_of,
    redo_of,
    sequences_of,
)

NOW = "07/31/2026 12:00:00"


def stats(transport, apply="+00 00:00:00", datum=NOW, now=NOW):
    return [
        ("transport lag", transport, datum, now),
        ("apply lag", apply, datum, now),
        ("apply finish time", "+00 00:00:00.000", None, now),
        ("estimated startup time", "14", None, now),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("+00 00:00:00", 0.0),
        ("+00 00:00:07", 7.0),
        ("+01 17:17:09", 148_629.0),
        ("+12 00:00:01", 1_036_801.0),
        ("+000000003 00:00:00", 259_200.0),
        ("+00 00:00:07.250", 7.25),
        (" +00 00:01:00 ", 60.0),
    ],
)
def test_a_lag_is_read_with_its_days(text, seconds):
    found = lags_of(stats(text, text))
    assert (found.transport, found.apply, found.frozen, found.problem) == (seconds, seconds, False, "")


@pytest.mark.parametrize("text", [None, "", "-00 00:00:05", "unknown", "+00 25", "+00 00:00:00 +00 00:00:00"])
def test_a_lag_that_is_none_is_unknown_and_never_zero(text):
    found = lags_of(stats(text))
    assert found.transport is None
    assert found.apply == 0.0


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_every_interval_is_read(days, hours, minutes, secs):
    found = lags_of(stats(f"+{days:02} {hours:02}:{minutes:02}:{secs:02}"))
    assert found.transport == datetime.timedelta(days=days, hours=hours, minutes=minutes, seconds=secs).total_seconds()


def test_names_in_capitals_are_the_same():
    rows = [(name.upper(), value, datum, now) for name, value, datum, now in stats("+00 00:00:03")]
    assert lags_of(rows) == Lags(3.0, 0.0, False)


def test_what_has_not_come_for_a_while_adds_to_the_lags():
    found = lags_of(stats("+00 00:00:02", "+00 00:01:00", datum="07/31/2026 11:58:20"))
    assert (found.transport, found.apply) == (102.0, 160.0)
    assert (found.frozen, found.problem) == (True, NO_NEWS)


def test_news_that_are_some_seconds_old_add_nothing():
    assert FROZEN_SECONDS == 10
    found = lags_of(stats("+00 00:00:02", datum="07/31/2026 11:59:50"))
    assert (found.transport, found.frozen, found.problem) == (2.0, False, "")


def test_a_lag_without_a_value_stays_unknown_however_old_it_is():
    found = lags_of(stats(None, None, datum="07/30/2026 12:00:00"))
    assert (found.transport, found.apply, found.frozen) == (None, None, True)


@pytest.mark.parametrize("datum", [None, "", "31.07.2026 12:00:00", "yesterday"])
def test_a_lag_of_an_unknown_time_is_unknown(datum):
    found = lags_of(stats("+00 00:00:00", datum=datum))
    assert (found.transport, found.apply, found.frozen, found.problem) == (None, None, None, NO_TIME)


def test_a_clock_that_was_set_back_makes_no_negative_lag():
    found = lags_of(stats("+00 00:00:02", datum="07/31/2026 13:00:00"))
    assert (found.transport, found.frozen) == (2.0, False)


def test_no_rows_are_no_lags():
    assert lags_of([]) == Lags(problem=NO_STATS)


def test_processes_of_either_view():
    found = redo_of(
        [
            ("ARC0", "CLOSING", 90, 0),
            ("rfs", "IDLE", 101, 0),
            ("RFS", "WRITING", 102, 0),
            ("MRP0", "APPLYING_LOG", 101, 30),
            ("PR00", "APPLYING_LOG", 102, 0),
        ]
    )
    assert (found.receives, found.applies, found.receiving, found.applying) == (True, True, 102, 102)
    assert (found.delay, found.problem) == (1800.0, "")


def test_no_processes_are_told_as_none_running():
    found = redo_of([("ARC0", "CONNECTED", 0, 0), ("PR00", "IDLE", 0, 0)])
    assert (found.receives, found.applies, found.receiving, found.applying) == (False, False, None, None)


def test_an_apply_that_waits_for_a_gap_says_so():
    found = redo_of([("MRP0", "WAIT_FOR_GAP", 99, 0), ("RFS", "IDLE", 105, 0)])
    assert found.applies is True
    assert "gap" in found.problem


def test_sequences_of_several_threads_are_summed():
    rows = [(1, "YES", 100), (1, "NO", 102), (2, "IN-MEMORY", 51), (2, "YES", 50)]
    assert sequences_of(rows) == (153, 151)
    assert sequences_of([(1, "NO", 7)]) == (7, None)
    assert sequences_of([]) == (None, None)


def test_gaps_are_counted():
    assert gap_of([(1, 7, 9), (2, 5, 5)]) == 4
    assert gap_of([]) == 0


ANYTHING = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(), st.from_regex(r"[+-]\d\d \d\d:\d\d:\d\d(\.\d+)?", fullmatch=True)
)
NAMES = st.sampled_from(["transport lag", "apply lag", "estimated startup time"]) | ANYTHING


@given(st.lists(st.tuples(NAMES, ANYTHING, st.just(NOW) | ANYTHING, st.just(NOW) | ANYTHING), max_size=5))
def test_whatever_the_views_say_is_a_lag_that_can_be_or_unknown(rows):
    found = lags_of(rows)
    assert all(lag is None or 0 <= lag < 1e12 for lag in (found.transport, found.apply))


@given(st.lists(st.tuples(ANYTHING, ANYTHING, ANYTHING, ANYTHING), max_size=5))
def test_whatever_the_processes_say_nothing_impossible_is_told(rows):
    found = redo_of([(f"RFS{name}", action, sequence, minutes) for name, action, sequence, minutes in rows])
    assert found.receives in (True, False, None)
    assert found.delay is None or found.delay >= 0
