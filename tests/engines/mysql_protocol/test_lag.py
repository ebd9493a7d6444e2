"""The arithmetic of lags, with times that are said and not waited for."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.engines.beats import (
    COARSENESS,
    MOST_KEPT,
    Beat,
    Memory,
    Position,
    Primary,
    Reading,
    Row,
    Trail,
    believed,
    seconds,
)

T0 = 5000.0
NOW_THERE = 1_800_000_000.0


def place(offset, file="bin.000001"):
    position = Position.of(file, offset)
    assert position is not None
    return position


def written(count, *, start=0, every=1.0, positions=True):
    """A memory of `count` beats, the first at T0; the log grows by 100 with each."""
    memory = Memory(every)
    memory.begin(start)
    for number in range(count):
        at = T0 + number * every
        memory.note(start + number + 1, at, place(100 * (number + 1)) if positions else None, at)
    return memory


def primary(sequence, *, beat=NOW_THERE, at=T0, shown=NOW_THERE):
    """A primary whose clock shows `shown` at our time `at`."""
    return Primary(1, "", Row(sequence, beat), Reading(shown, at, 0.001))


def heartbeat(memory, sequence, at, seen=None):
    return memory.heartbeat(Row(sequence, NOW_THERE), seen or Primary(), at)


# -- what servers tell -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (0, 0.0),
        (12, 12.0),
        (Decimal("3.5"), 3.5),
        ("7", 7.0),
        (b"7", 7.0),
        (2.25, 2.25),
        (timedelta(minutes=1), 60.0),
        ("+00 00:00:12", 12.0),
        ("+01 02:03:04", 93784.0),
        ("0 00:00:01.500", 1.5),
        (" 4 ", 4.0),
        (None, None),
        (-1, None),
        ("-1", None),
        (-0.4, None),
        (Decimal(-1), None),
        ("-00 00:00:12", None),
        (timedelta(seconds=-1), None),
        ("NULL", None),
        ("", None),
        ("soon", None),
        (b"\xff", None),
        (float("nan"), None),
        ("nan", None),
        (float("inf"), None),
        (Decimal("sNaN"), None),
        (10**400, None),
        (2**64 - 1, None),
        (True, None),
        ([], None),
    ],
)
def test_a_lag_in_whatever_type_is_a_number_or_unknown(told, found):
    assert seconds(told) == found


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.decimals(), st.text(), st.binary(), st.timedeltas()
)


@given(ANYTHING | st.from_regex(r"[+-]?\d{1,12} \d\d:\d\d:\d\d(\.\d+)?", fullmatch=True))
def test_whatever_is_told_is_a_lag_that_can_be_or_unknown(told):
    found = seconds(told)
    assert found is None or 0 <= found < 1e10


@given(ANYTHING, ANYTHING)
def test_whatever_is_told_is_a_place_or_unknown(file, offset):
    found = Position.of(file, offset)
    assert found is None or min(found.place) >= 0


def test_a_file_of_a_number_that_python_does_not_read_is_no_place():
    assert Position.of("bin." + "9" * 5000, 4) is None


@pytest.mark.parametrize(
    ("file", "offset", "found"),
    [
        ("bin.000001", 4, Position("bin", (1, 4))),
        ("a.b.000123", 5, Position("a.b", (123, 5))),
        ("bin.1000000", 5, Position("bin", (1000000, 5))),
        ("", 4, None),
        ("bin", 4, None),
        (".000001", 4, None),
        ("bin.index", 4, None),
        (None, 4, None),
        ("bin.000001", None, None),
        ("bin.000001", -1, None),
        ("bin.000001", True, None),
        ("bin.000001", "4", None),
    ],
)
def test_a_position_is_one_or_unknown(file, offset, found):
    assert Position.of(file, offset) == found


def test_files_of_a_log_are_ordered_by_number_and_not_as_text():
    assert place(4, "bin.1000000").place > place(9, "bin.999999").place


@pytest.mark.parametrize(
    ("behind", "beaten", "found"),
    [(0.0, 0.0, 0.0), (0.0, None, 0.0), (0.0, 1.9, 0.0), (0.0, 2.1, None), (60.0, 61.0, 60.0), (None, 0.0, None)],
)
def test_an_account_that_the_heartbeats_contradict_is_not_believed(behind, beaten, found):
    assert believed(behind, beaten) == found


# -- heartbeats ------------------------------------------------------------------------------------------------------


def test_the_heartbeat_lag_is_the_time_since_the_oldest_beat_not_shown():
    memory = written(5)
    assert heartbeat(memory, 5, T0 + 4.2) == 0.0
    assert heartbeat(memory, 4, T0 + 4.25) == pytest.approx(0.25)
    assert heartbeat(memory, 1, T0 + 4.5) == pytest.approx(3.5)
    assert heartbeat(memory, 0, T0 + 4.5) == pytest.approx(4.5)


def test_the_standbys_clock_and_the_time_in_the_row_do_not_matter():
    memory = written(5)
    for there in (0.0, NOW_THERE - 7200, NOW_THERE + 0.4, NOW_THERE + 8 * 3600):
        assert memory.heartbeat(Row(4, there), primary(5), T0 + 4.5) == pytest.approx(0.5)


def test_a_reading_before_the_beat_is_clamped():
    assert heartbeat(written(5), 4, T0 + 3.9) == 0.0


def test_a_lag_grows_although_we_write_no_more_but_no_lag_is_not_claimed():
    memory = written(5)
    assert heartbeat(memory, 4, T0 + 100) == pytest.approx(96)
    assert heartbeat(memory, 5, T0 + 4 + memory.fresh) == 0.0
    assert heartbeat(memory, 5, T0 + 4.1 + memory.fresh) is None


def test_the_beats_say_when_some_are_missed():
    assert Memory(1.0).fresh == 10.0
    assert Memory(60.0).fresh == 180.0
    memory = Memory(1.0)  # what is configured elsewhere shows in the beats
    memory.begin(0)
    for number in range(1, 5):
        memory.note(number, T0 + 60.0 * number, None, T0 + 60.0 * number)
    assert memory.fresh == 180.0
    memory.note(5, T0 + 60.0 * 4 + 1.0, None, T0 + 60.0 * 4 + 1.0)
    assert memory.fresh == 10.0


def test_one_long_pause_does_not_make_old_beats_fresh():
    memory = written(5)
    memory.note(6, T0 + 600, None, T0 + 600)
    assert memory.fresh == 10.0


def test_no_row_is_no_lag():
    assert written(5).heartbeat(None, primary(5), T0) is None


def test_a_beat_from_before_our_start_is_told_by_the_primarys_clock_alone():
    memory = written(3, start=1000)
    seen = primary(1003, shown=NOW_THERE, at=T0 + 2)
    assert memory.heartbeat(Row(990, NOW_THERE - 50), seen, T0 + 2.5) == pytest.approx(50.5)
    # The last one before our start is enough: ours followed it.
    assert memory.heartbeat(Row(1000, NOW_THERE - 50), seen, T0 + 2.5) == pytest.approx(2.5)


def test_a_primary_whose_clock_was_set_back_gives_no_negative_lag():
    assert Memory().heartbeat(Row(990, NOW_THERE + 0.4), primary(1000), T0) == 0.0


@pytest.mark.parametrize(
    ("sequence", "age", "found"),
    [(50, 0.0, 0.0), (50, 9.0, 0.0), (50, 11.0, None), (49, 11.0, 30.0), (52, 1.0, 0.0), (81, 1.0, None)],
)
def test_beats_of_another_exporter_are_told_by_the_row(sequence, age, found):
    """As many as it writes meanwhile may be ahead of the primary; more than that were never written there."""
    seen = primary(50, beat=NOW_THERE - age)
    assert Memory().heartbeat(Row(sequence, NOW_THERE - 30), seen, T0) == found


def test_beats_that_another_exporter_wrote_after_ours_count():
    memory = written(5)
    seen = primary(9, beat=NOW_THERE, at=T0 + 9)
    assert memory.heartbeat(Row(9, NOW_THERE), seen, T0 + 9) == 0.0
    assert memory.heartbeat(Row(5, NOW_THERE - 4), seen, T0 + 9) == pytest.approx(4.0)
    assert memory.heartbeat(Row(3, NOW_THERE - 6), seen, T0 + 9) == pytest.approx(6.0)  # by our own beat 4


def test_without_the_primary_only_our_own_beats_are_told():
    assert heartbeat(Memory(), 50, T0) is None
    assert heartbeat(written(5), 5, T0 + 4) == 0.0
    assert heartbeat(written(5), 6, T0 + 4) is None


@pytest.mark.parametrize(("found", "kept"), [(5, True), (6, True), (7, False), (4, False), (0, False)])
def test_a_new_session_goes_on_where_the_last_one_ended(found, kept):
    """One more is a beat of ours that was written although we were told otherwise."""
    memory = written(5)
    memory.begin(found)
    assert (heartbeat(memory, 2, T0 + 4) == pytest.approx(2.0)) is kept
    memory.note(found + 1, T0 + 7, place(900), T0 + 7)
    assert heartbeat(memory, found, T0 + 8) == pytest.approx(1.0)


# -- places in the log -----------------------------------------------------------------------------------------------


def test_transport_and_apply_are_told_by_the_places():
    memory = written(5)
    at = T0 + 4.5
    assert memory.transport(place(500), place(500), 0.0, True, at) == 0.0
    assert memory.transport(place(499), place(499), 0.0, True, at) == pytest.approx(0.5)
    assert memory.transport(place(250), place(100), 0.0, True, at) == pytest.approx(2.5)
    assert memory.apply(place(500), place(500), 0.0, True, at) == 0.0
    assert memory.apply(place(500), place(199), 0.0, True, at) == pytest.approx(3.5)
    assert memory.apply(place(300), place(250), 0.0, True, at) == pytest.approx(2.5)


def test_a_heartbeat_that_can_be_read_is_applied_whatever_the_server_last_looked_at():
    """A MySQL with several applying threads tells how far all of them are only a few times a second."""
    memory, soon, later = written(5), T0 + 4.2, T0 + 5.5
    assert memory.apply(place(500), place(400), 0.0, True, soon, shown=5) == 0.0
    assert memory.apply(place(500), place(400), 0.0, True, soon, shown=4) == pytest.approx(0.2)
    assert memory.apply(place(500), place(400), 0.0, False, soon, shown=5) is None
    # Threads that pass each other may show it while something older is still being applied.
    assert memory.apply(place(500), place(400), 0.0, True, later, shown=5) == pytest.approx(1.5)
    assert memory.apply(place(500), place(100), 0.0, True, soon, shown=5) == pytest.approx(3.2)


def test_what_was_not_received_is_not_waiting_to_be_applied():
    assert written(5).apply(place(250), place(200), None, True, T0 + 4.5) == 0.0


def test_no_zero_from_a_channel_that_does_not_run():
    memory = written(5)
    assert memory.transport(place(500), place(500), 0.0, False, T0 + 4.5) is None
    assert memory.apply(place(500), place(500), 0.0, False, T0 + 4.5) is None
    # What waits, waits all the same.
    assert memory.transport(place(300), place(300), 0.0, False, T0 + 4.5) == pytest.approx(1.5)
    assert memory.apply(place(500), place(300), 0.0, False, T0 + 4.5) == pytest.approx(1.5)


def test_no_zero_when_no_heartbeats_are_written():
    memory, late = written(5), T0 + 60
    assert memory.transport(place(500), place(500), None, True, late) is None
    assert memory.apply(place(510), place(500), None, True, late) is None
    assert memory.apply(place(510), place(510), None, True, late) == 0.0  # all of it is applied, whatever it is


def test_what_waits_since_before_our_start_is_as_old_as_the_heartbeat():
    memory = written(5)
    at = T0 + 4.5
    assert memory.transport(place(50), place(50), 300.0, False, at) == 300.0
    assert memory.transport(place(50), place(20), 300.0, False, at) is None  # the heartbeat may be received already
    assert memory.apply(place(500), place(50), 300.0, False, at) == 300.0
    assert memory.apply(place(500), place(50), None, False, at) is None


def test_a_log_of_another_server_is_not_compared():
    memory, other = written(5), place(500, "other.000001")
    assert not memory.knows(other)
    assert memory.transport(other, other, 0.0, True, T0 + 4) is None
    assert memory.apply(other, other, 0.0, True, T0 + 4) is None
    assert memory.sequence(other) is None


def test_a_log_that_begins_anew_makes_the_old_places_void():
    memory = written(5)
    memory.note(6, T0 + 5, place(90), T0 + 5)
    assert memory.transport(place(250), place(250), 0.0, True, T0 + 5) == 0.0
    memory.note(7, T0 + 6, place(90, "new.000001"), T0 + 6)
    assert not memory.knows(place(90))
    assert heartbeat(memory, 1, T0 + 6) == pytest.approx(5.0)  # numbers are not places


def test_another_primary_keeps_the_numbers_and_loses_the_places():
    memory = written(5)
    memory.other_log()
    assert not memory.knows(place(500))
    assert heartbeat(memory, 4, T0 + 4.5) == pytest.approx(0.5)


def test_beats_that_do_not_reach_the_log_are_no_places():
    memory = written(1)
    for number in range(2, 30):
        memory.note(number, T0 + number, place(100), T0 + number)
    assert memory.transport(place(100), place(100), 0.0, True, T0 + 29) == 0.0
    assert memory.transport(place(99), place(99), 29.0, True, T0 + 29) == 29.0


def test_a_file_that_follows_is_further_on():
    memory = written(2)
    memory.note(3, T0 + 2, place(50, "bin.000002"), T0 + 2)
    assert memory.transport(place(999), place(999), 0.0, True, T0 + 2.5) == pytest.approx(0.5)
    assert memory.transport(place(50, "bin.000002"), None, 0.0, True, T0 + 2.5) == 0.0


def test_the_number_of_a_place_is_told_when_its_neighbours_are_known():
    memory = written(5)
    assert memory.sequence(place(500)) == 5
    assert memory.sequence(place(9999)) == 5
    assert memory.sequence(place(399)) == 3
    assert memory.sequence(place(50)) is None


# -- clocks ----------------------------------------------------------------------------------------------------------


def test_the_difference_of_two_clocks_takes_out_when_they_were_read():
    here, there = Reading(NOW_THERE, T0, 0.01), Reading(NOW_THERE + 10.0 - 0.4, T0 + 10.0, 0.01)
    assert there - here == pytest.approx(-0.4)
    assert here - there == pytest.approx(0.4)


# -- memory ----------------------------------------------------------------------------------------------------------


def test_memory_is_bounded_and_lags_stay_right():
    memory = written(3 * MOST_KEPT)
    newest = 3 * MOST_KEPT
    at = T0 + newest - 1
    for shown in (newest, newest - 1, newest - 100, newest - 3600, newest - 7200, 1, 0):
        true = max(0.0, at - (T0 + shown)) if shown < newest else 0.0
        lag = heartbeat(memory, shown, at)
        assert lag is not None
        assert true * (1 - 2 * COARSENESS) - 1e-6 <= lag <= true + 1e-6


def test_a_number_whose_neighbours_are_forgotten_is_not_told():
    memory = written(MOST_KEPT + 1)
    told = [memory.sequence(place(100 * number + 50)) for number in range(1, MOST_KEPT)]
    assert None in told[:1000]
    assert told[-100:] == list(range(MOST_KEPT - 100, MOST_KEPT))
    assert all(found in (None, number) for number, found in enumerate(told, 1))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(0, 3000))
def test_a_trail_finds_what_a_search_finds(steps, wanted):
    trail, beats, key = Trail(), [], 0
    for number, step in enumerate(steps):
        key += step
        beats.append(Beat(number, float(number), (key, 0)))
        trail.note(beats[-1])
    assert trail.after((wanted, 0)) == next((beat for beat in beats if beat.key > (wanted, 0)), None)
    assert trail.until((wanted, 0)) == next((beat for beat in reversed(beats) if beat.key <= (wanted, 0)), None)
    assert trail.numbered(wanted) == next((beat for beat in reversed(beats) if beat.sequence <= wanted), None)
    assert trail.newest == beats[-1]


@given(st.lists(st.floats(0.001, 30.0), min_size=1, max_size=40), st.data())
def test_a_lag_is_never_longer_than_the_truth(pauses, data):
    """Against beats whose times are all known, at any moment and for anything that a standby may show."""
    memory, at, times = Memory(1.0), T0, {}
    memory.begin(0)
    for number, pause in enumerate(pauses, 1):
        at += pause
        times[number] = at
        memory.note(number, at, place(10 * number), at)
    shown = data.draw(st.integers(0, len(pauses)))
    asked = at + data.draw(st.floats(0.0, 100.0))
    lag = heartbeat(memory, shown, asked)
    if shown < len(pauses):
        assert lag == pytest.approx(asked - times[shown + 1])
    else:
        assert lag == (0.0 if asked - at <= memory.fresh else None)
    received = data.draw(st.integers(1, len(pauses)))
    transport = memory.transport(place(10 * received), None, None, True, asked)
    if received < len(pauses):
        assert transport == pytest.approx(asked - times[received + 1])
    else:
        assert transport == lag if shown == len(pauses) else transport in (0.0, None)
