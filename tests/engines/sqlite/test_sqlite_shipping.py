"""Whole messages over a socket pair, and the times that lags are told by."""

import os
import resource
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.engines.sqlite.heartbeat import COARSENESS, MOST_KEPT, Timeline
from exporter.engines.sqlite.replica import Content
from exporter.engines.sqlite.shipping import CHANGE, HELLO, REPORT, Change, Frame, Hello, Report, Wire


@pytest.fixture
def wires():
    pair = [Wire(end) for end in socket.socketpair()]
    yield pair
    for wire in pair:
        wire.close()


def test_messages_arrive_whole_and_in_order(wires):
    ours, theirs = wires
    bodies = [bytes([number % 256]) * (number * 997 % 30_000) for number in range(60)]
    arrived: list[Frame] = []
    for body in bodies:
        ours.put(CHANGE, body)
    while len(arrived) < len(bodies):
        ours.flush()
        arrived += theirs.take()

    assert arrived == [Frame(CHANGE, body) for body in bodies]
    assert ours.pending == 0


def test_a_process_with_very_many_files_waits_for_messages_as_well():
    """`select` knows no descriptor above 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1100, hard), hard))
    end, other = socket.socketpair()
    try:
        high = os.dup2(end.fileno(), 1050)
    finally:
        end.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ours, theirs = Wire(socket.socket(fileno=high)), Wire(other)
    theirs.put(CHANGE, b"something")
    theirs.flush()
    ours.wait(None)

    assert ours.take() == [Frame(CHANGE, b"something")]
    ours.close()
    theirs.close()


def test_what_nobody_reads_is_kept_and_nobody_waits_for_it(wires):
    ours, theirs = wires
    ours.put(CHANGE, bytes(5_000_000))
    ours.flush()

    assert 0 < ours.pending < 5_000_100
    assert theirs.take() == []
    arrived: list[Frame] = []
    while not arrived:
        ours.flush()
        arrived = theirs.take()
    assert arrived == [Frame(CHANGE, bytes(5_000_000))]


def test_the_end_comes_after_the_last_message(wires):
    ours, theirs = wires
    ours.put(REPORT, b"last")
    ours.flush()
    ours.close()

    assert theirs.take() == [Frame(REPORT, b"last")]
    with pytest.raises(EOFError):
        theirs.take()
    theirs.put(CHANGE, b"too late")
    with pytest.raises(EOFError):
        theirs.flush()


def test_a_length_that_cannot_be_is_the_end(wires):
    ours, theirs = wires
    ours._out += b"\xff" * 5
    ours.flush()

    with pytest.raises(EOFError):
        theirs.take()


def test_words_survive_the_way():
    hello = Hello("/a b/ü.db", ("aes256cbc", "chacha20"), "raw:00", "n")
    report = Report("f", "g", 5, None, 2, lost=True, problem="w")
    content = Content.new()

    assert Hello.decode(hello.encode()) == hello
    assert Report.decode(report.encode()) == report
    assert Change.decode(Change(2**40, b"\0x").encode()) == Change(2**40, b"\0x")
    assert Content.decode(content.encode()) == content
    assert "raw:00" not in repr(hello)
    assert HELLO != CHANGE


def test_lag_begins_with_the_oldest_change_that_was_not_seen():
    line = Timeline(10)
    for number in range(5):
        line.note(11 + number, 100.0 + number)

    assert line.waiting(15, 200.0) == 0.0
    assert line.waiting(14, 200.0) == 96.0
    assert line.waiting(10, 200.0) == 100.0


def test_what_was_written_before_the_start_or_never_is_unknown():
    line = Timeline(10)
    line.note(11, 100.0)

    assert Timeline(10).waiting(10, 5.0) == 0.0
    assert line.waiting(9, 200.0) is None
    assert line.waiting(12, 200.0) is None


def test_forgetting_keeps_what_is_still_waited_for():
    line = Timeline(0)
    for number in range(1, 101):
        line.note(number, float(number))
    line.forget(50)

    assert line.waiting(50, 200.0) == 200.0 - 51
    assert line.waiting(49, 200.0) is None
    line.forget(1_000)
    assert line.waiting(100, 200.0) == 0.0
    assert line.waiting(99, 200.0) is None


@pytest.fixture(scope="module")
def long():
    """Two days of heartbeats that a standby has not seen."""
    line = Timeline(0)
    for number in range(1, 172_801):
        line.note(number, float(number))
        assert len(line._times) <= MOST_KEPT
    return line


@given(st.integers(0, 172_799), st.floats(0.0, 1e6))
def test_with_bounded_memory_a_lag_is_told_too_short_by_a_small_share_of_it_at_most(long, seen, later):
    now = 172_800.0 + later
    true = now - (seen + 1)

    assert true * (1 - COARSENESS) - 1e-6 <= long.waiting(seen, now) <= true
