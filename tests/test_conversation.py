"""One conversation with a target: what comes back, and what happens to a call that never ends."""

import threading

import pytest

from exporter.conversation import converse
from exporter.domain.errors import AuthenticationFailed, Cancelled, DeadlineExceeded
from exporter.engines.fake.settings import Fault, Target
from tests.stopwatch import Stopwatch


def target(**fault):
    return Target(name="scripted", faults=(Fault(**fault),) if fault else ())


def test_the_answer_comes_back_and_the_session_is_closed():
    sessions = []

    def work(session):
        sessions.append(session)
        return session.verify(target().pairs[0], 1.0).pair, threading.current_thread() is threading.main_thread()

    assert converse(target(), work) == ("scripted", False)
    with pytest.raises(Cancelled):
        sessions[0].verify(target().pairs[0], 1.0)


def test_what_the_work_raises_is_raised_and_the_session_is_closed():
    sessions = []

    def work(session):
        sessions.append(session)
        raise LookupError("somewhere else")

    with pytest.raises(LookupError, match="somewhere else"):
        converse(target(), work)
    with pytest.raises(Cancelled):
        sessions[0].verify(target().pairs[0], 1.0)


def test_a_session_that_cannot_be_opened_is_an_error():
    with pytest.raises(AuthenticationFailed):
        converse(target(kind="error", call="open", reason="auth"), lambda session: session.facts())


def test_a_call_that_never_ends_is_given_up():
    wedged = target(kind="wedge", call="verify")
    watch = Stopwatch()
    with pytest.raises(DeadlineExceeded, match="never ended"):
        converse(wedged, lambda session: session.verify(wedged.pairs[0], 0.1))

    assert watch.seconds < 5 * 2.1
