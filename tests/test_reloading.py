"""Who asks for a reload gets one that began afterwards; many who ask share it; nothing that a file does ends the daemon."""

import threading

import pytest

from exporter.config.schema import Settings
from exporter.config.secrets import SecretSource
from exporter.domain.clock import FakeClock, SystemClock
from exporter.domain.errors import ConfigError
from exporter.engines.fake.settings import Target
from exporter.reloading import Outcome, Requests, attempt

DONE = Outcome(True, "done")


@pytest.fixture
def requests():
    return Requests(SystemClock())


def test_all_who_asked_share_one_reload(requests):
    never = threading.Event()
    futures = [requests.ask() for _ in range(5)]
    for _ in range(1000):
        requests.signalled()
    waiting = requests.wait(5.0, never)
    late = requests.ask()
    waiting.answer(DONE)

    assert [future.result(0.0) for future in futures] == [DONE] * 5
    assert not late.done()
    requests.wait(5.0, never).answer(DONE)
    assert late.result(0.0) == DONE
    assert requests.wait(0.0, never) is None


def test_nobody_asked_and_somebody_woke_it(requests):
    assert requests.wait(0.01, threading.Event()) is None
    requests.wake()
    assert requests.wait(60.0, threading.Event()) is None


def test_who_asks_while_the_daemon_stops_is_told_so(requests):
    stop = threading.Event()
    future = requests.ask()
    stop.set()

    assert requests.wait(1.0, stop) is None
    assert future.result(0.0) == (False, "the exporter is being stopped")


def test_reloads_leave_time_for_everything_else():
    """In a storm they would be all that the daemon does."""

    class Stop(threading.Event):
        waited: float | None = None

        def wait(self, timeout=None):
            self.waited = timeout
            return False

    clock, stop = FakeClock(), Stop()
    requests = Requests(clock)
    requests.took(2.0)
    requests.signalled()
    assert requests.wait(1.0, stop) is not None
    assert stop.waited == pytest.approx(1.0)

    requests.took(1000.0)
    requests.signalled()
    assert requests.wait(1.0, stop) is not None
    assert stop.waited == pytest.approx(5.0)


def test_a_client_that_went_away_does_not_keep_others_from_their_answer(requests):
    gone, there = requests.ask(), requests.ask()
    assert gone.cancel()
    requests.wait(1.0, threading.Event()).answer(DONE)
    assert there.result(0.0) == DONE


@pytest.fixture
def settings(tmp_path):
    return Settings(state_directory=tmp_path, targets=(Target(name="a"),))


def test_what_cannot_be_read_is_refused_in_words_without_a_secret(settings, tmp_path, caplog):
    (tmp_path / "secret").write_text("S3CR3T-77")
    SecretSource(file=tmp_path / "secret").read()

    def bad():
        raise ConfigError("S3CR3T-77 is no port", where="web.port", remedy="Write digits")

    outcome = attempt(bad, lambda _: "never")
    assert outcome == (False, "the configuration stays as it was:\nweb.port: *** is no port. Write digits")
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "S3CR3T" not in record.problem


def test_a_defect_is_told_as_one_and_ends_nothing(settings, caplog):
    def broken(*_):
        raise KeyError("S3CR3T")

    outcome = attempt(broken, lambda _: "never")
    assert not outcome.done
    assert "S3CR3T" not in outcome.words
    assert "as it was" in outcome.words
    outcome = attempt(lambda: settings, broken)
    assert not outcome.done
    assert "S3CR3T" not in outcome.words
    assert "restart" in outcome.words
    assert len([record for record in caplog.records if record.exc_info]) == 2


def test_what_was_taken_up_is_said(settings):
    assert attempt(lambda: settings, lambda _: "1 added").words == "the configuration was taken up; 1 added"
