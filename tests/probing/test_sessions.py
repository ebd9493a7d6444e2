"""Never more sessions than allowed; those of calls that never ended stay counted."""

import pytest

from exporter.domain.errors import Blocked
from exporter.probing.sessions import HeldSessions, SessionCap


def test_what_would_be_too_many_is_refused_and_nothing_is_taken():
    cap = SessionCap(5)
    cap.take(4, "pair one")

    with pytest.raises(Blocked, match=r"pair two would need 2 more sessions, but 4 of the 5 that budgets\.sessions"):
        cap.take(2, "pair two")

    assert cap.open == 4
    cap.take(1, "target")
    assert cap.open == 5


def test_a_pair_is_counted_once_and_given_back_with_the_rest():
    cap = SessionCap(10)
    held = HeldSessions(cap, per_pair=4)
    for _ in range(3):
        held.connect("orders")
        held.prepare("one")
        held.prepare("two")

    assert (held.number, cap.open) == (9, 9)
    held.close()
    held.close()
    assert (held.number, cap.open) == (0, 0)


def test_sessions_of_lost_calls_may_leave_no_room_for_even_one_pair():
    cap = SessionCap(6)
    lost, successor = HeldSessions(cap, per_pair=2), HeldSessions(cap, per_pair=2)
    seen = []
    for change in (
        lambda: lost.connect("orders"),
        lambda: lost.prepare("one"),
        lambda: lost.prepare("two"),
        lost.close,
    ):
        change()
        seen.append((cap.open, successor.out_of_reach))

    assert seen == [(1, False), (3, False), (5, True), (0, False)]


def test_a_cap_that_was_never_enough_is_not_the_fault_of_lost_calls():
    assert not HeldSessions(SessionCap(2), per_pair=4).out_of_reach
