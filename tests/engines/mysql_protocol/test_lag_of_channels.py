"""What the answers of a standby mean, without any server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.domain.states import LagKind
from exporter.engines._mysql_protocol.channels import (
    FOREIGN,
    NEVER_WRITTEN,
    NO_CARRIER,
    NO_PLACE,
    NO_WRITER,
    NOT_A_REPLICA,
    NOT_YET,
    TWICE,
    Answer,
    Sources,
    states_of,
)
from exporter.engines._mysql_protocol.replica_status import Channel
from exporter.engines.beats import Memory, Position, Primary, Reading, Row

T0, THERE = 5000.0, 1_800_000_000.0
AT = T0 + 4.5
ALL_UNKNOWN = (None, None, None)
ADDRESS = ("10.0.0.1", 3306)


def place(offset, log="bin"):
    return Position(log, (1, offset))


OURS = Channel("", True, True, place(500), place(500), source=1, address=ADDRESS, behind=0.0, delay=0.0)
OTHER = replace(OURS, name="other", source=9, address=("10.0.0.9", 3306), received=place(1), applied=place(1))
SILENT = replace(OTHER, name="new", source=0, receives=False, received=None, applied=None, behind=None)


@pytest.fixture
def memory():
    """Five beats, a second apart, the first at T0; each takes 100 bytes of the log."""
    memory = Memory()
    memory.begin(0)
    for number in range(1, 6):
        memory.note(number, T0 + number - 1, place(100 * number), T0 + number - 1)
    return memory


@pytest.fixture
def told(memory):
    """The states that an answer gives."""
    sources = Sources()

    def tell(*channels, shown=5, fault="", primary=None, no_position="", at=AT, primary_problem="", **more):
        answer = Answer(
            reached=True,
            done=True,
            fault=fault,
            row=None if shown is None else Row(shown, THERE),
            row_at=at,
            channels=channels,
            status_at=at,
            **more,
        )
        if "status_problem" in more:
            answer.channels = None
        primary = primary or Primary(1, "", Row(5, THERE), Reading(THERE, AT, 0.001))
        return states_of("east", answer, sources, primary, primary_problem, memory, no_position)

    return tell


def lags(state):
    return tuple(state.lag(kind) for kind in LagKind)


def only(states):
    (state,) = states
    return state


def test_a_healthy_channel(told):
    state = only(told(OURS, key_match=True))
    assert (state.standby, state.channel, state.configured) == ("east", "", True)
    assert (state.transport_running, state.apply_running, state.key_match) == (True, True, True)
    assert lags(state) == (0.0, 0.0, 0.0)
    assert (state.received_sequence, state.applied_sequence) == (5, 5)
    assert (state.configured_delay, state.problem) == (0.0, "")


def test_a_stopped_applier(told):
    channel = replace(OURS, applies=False, applied=place(300), behind=None)
    state = only(told(channel, shown=3))
    assert lags(state) == pytest.approx((0.0, 1.5, 1.5))
    assert (state.received_sequence, state.applied_sequence) == (5, 3)
    assert state.problem == "the applier is stopped"


def test_a_stopped_receiver_has_no_zero_apply_lag(told):
    channel = replace(OURS, receives=False, received=place(300), applied=place(300), behind=None)
    state = only(told(channel, shown=3))
    assert state.lag(LagKind.APPLY) is None
    assert state.lag(LagKind.TRANSPORT) == state.lag(LagKind.HEARTBEAT) == pytest.approx(1.5)


def test_no_channel_is_no_standby(told):
    told(OURS)
    state = only(told())
    assert (state.configured, state.transport_running, state.apply_running) == (False, False, False)
    assert lags(state) == ALL_UNKNOWN
    assert state.problem == NOT_A_REPLICA
    assert (state.received_sequence, state.applied_sequence) == (None, None)


@pytest.mark.parametrize(("before", "configured"), [([OURS], True), ([], False), (None, True)])
def test_what_was_said_last_holds_while_it_cannot_be_asked(told, before, configured):
    if before is not None:
        told(*before)
    state = only(told(fault="connection refused", shown=None, status_problem=""))
    assert state.configured is configured
    assert (state.transport_running, state.apply_running) == (None, None)
    assert lags(state) == ALL_UNKNOWN
    assert state.problem == "connection refused"


def test_channels_keep_their_names_while_they_cannot_be_asked(told):
    told(OURS, OTHER)
    states = told(fault="connection refused", shown=None, status_problem="")
    assert [state.channel for state in states] == ["", "other"]
    assert all(lags(state) == ALL_UNKNOWN and state.problem == "connection refused" for state in states)


def test_without_the_status_the_heartbeat_is_known(told):
    state = only(told(shown=4, status_problem="grant SLAVE MONITOR"))
    assert lags(state) == (None, None, pytest.approx(0.5))
    assert (state.configured, state.transport_running, state.apply_running) == (True, None, None)
    assert state.problem == "grant SLAVE MONITOR"


def test_a_channel_from_elsewhere_has_the_lag_of_its_own_account(told):
    ours, other = told(OURS, replace(OTHER, behind=7.0))
    assert lags(ours) == (0.0, 0.0, 0.0)
    assert lags(other) == (None, 7.0, None)
    assert other.problem == FOREIGN
    assert (other.received_sequence, other.applied_sequence) == (None, None)


def test_a_channel_that_never_connected_has_none(told):
    ours, new = told(OURS, SILENT)
    assert lags(ours) == (0.0, 0.0, 0.0)
    assert lags(new) == ALL_UNKNOWN
    assert NOT_YET in new.problem


def test_a_standby_of_a_standby_is_told_by_the_heartbeat(told):
    state = only(told(replace(OTHER, behind=0.0), shown=4))
    assert lags(state) == (None, 0.0, pytest.approx(0.5))
    # A network that stalls further up leaves the account of the server at 0.
    assert lags(only(told(OTHER, shown=1))) == (None, None, pytest.approx(3.5))


def test_among_several_others_nobody_knows_who_brings_the_heartbeats(told):
    states = told(OTHER, replace(OTHER, name="third"))
    assert all(state.lag(LagKind.HEARTBEAT) is None and NO_CARRIER in state.problem for state in states)


def test_a_restarted_replica_that_has_forgotten_its_source(told):
    """MariaDB tells the source's id only after it has connected again."""
    forgotten = replace(OURS, source=0, receives=False, received=place(300), applied=place(300), behind=None)
    unseen = only(told(forgotten, shown=3))
    assert unseen.lag(LagKind.TRANSPORT) is None
    assert NOT_YET in unseen.problem
    told(OURS)
    assert only(told(forgotten, shown=3)).lag(LagKind.TRANSPORT) == pytest.approx(1.5)
    moved = replace(forgotten, address=("10.0.0.2", 3306))
    assert only(told(moved, shown=3)).lag(LagKind.TRANSPORT) is None


def test_two_sources_with_the_same_id_cannot_be_told_apart(told):
    states = told(OURS, replace(OTHER, source=1))
    assert all(state.lag(LagKind.TRANSPORT) is None and TWICE in state.problem for state in states)
    assert all(state.lag(LagKind.APPLY) == 0.0 for state in states)


def test_a_uuid_tells_them_apart(told):
    primary = Primary(1, "uuid-a", Row(5, THERE), Reading(THERE, AT, 0.001))
    ours, other = told(
        replace(OURS, source_uuid="uuid-a"), replace(OTHER, source=1, source_uuid="uuid-b"), primary=primary
    )
    assert lags(ours) == (0.0, 0.0, 0.0)
    assert other.problem == FOREIGN


def test_without_positions_the_account_of_the_server_is_used(told):
    state = only(told(replace(OURS, behind=2.0), no_position="GRANT BINLOG MONITOR", shown=3))
    assert lags(state) == (None, 2.0, pytest.approx(1.5))
    assert state.problem == "GRANT BINLOG MONITOR"
    assert lags(only(told(OURS, no_position="off", shown=1))) == (None, None, pytest.approx(3.5))


def test_a_place_in_another_log_is_unknown(told):
    state = only(told(replace(OURS, received=place(5, "old"), applied=place(5, "old"))))
    assert lags(state) == (None, 0.0, 0.0)
    assert state.problem == NO_PLACE


def test_when_nobody_writes_heartbeats_all_zeros_are_unknown(told):
    late = AT + 60
    primary = Primary(1, "", Row(5, THERE), Reading(THERE + 60, late, 0.001))
    state = only(told(replace(OURS, received=place(510)), at=late, primary=primary))
    assert lags(state) == ALL_UNKNOWN
    assert state.problem == NO_WRITER


def test_a_row_of_elsewhere(told):
    state = only(told(OURS, shown=500))
    assert state.lag(LagKind.HEARTBEAT) is None
    assert state.problem == NEVER_WRITTEN


def test_a_primary_without_its_row_is_the_reason(told):
    state = only(told(OURS, shown=500, primary=Primary(1), primary_problem="no SELECT there"))
    assert state.problem == "no SELECT there"


def test_an_unreadable_row_is_the_reason(told):
    state = only(told(OURS, shown=None, row_problem="no SELECT here"))
    assert lags(state) == (0.0, 0.0, None)
    assert state.problem == "no SELECT here"


def test_the_skew_is_told_apart_and_is_no_part_of_any_lag(told):
    state = only(told(OURS, clock=Reading(THERE - 0.4, AT, 0.001)))
    assert state.clock_skew == pytest.approx(-0.4)
    assert lags(state) == (0.0, 0.0, 0.0)
    assert only(told(OURS, clock=Reading(THERE, AT, 3.0))).clock_skew is None


def test_an_answer_that_is_not_complete_keeps_what_it_has():
    answer = Answer(reached=True, row=Row(5, THERE), channels=(OURS,))
    assert answer.so_far().fault == "it did not answer in time"
    answer.fault = "lost"
    assert answer.so_far().fault == "lost"
    answer.fault, answer.done = "", True
    assert answer.so_far().fault == ""
