"""A refused secret is tried once, for all sessions together, until it changes or it has rested, ever longer."""

import contextlib
import os
import resource
import threading

import pytest

from exporter.config.secrets import SecretSource
from exporter.domain.clock import FakeClock
from exporter.domain.errors import AccountBarred, AuthenticationFailed, ConnectFailed, DeadlineExceeded
from exporter.engines.credentials import MOST_REFUSED, REFUSED_SECONDS, Credentials
from tests.stopwatch import Stopwatch

PATIENCE = 10.0
REFUSAL = AuthenticationFailed("access denied")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "password"
    found.write_text("first secret\n")
    return found


@pytest.fixture
def credentials(file, clock):
    return Credentials(SecretSource(file=file), clock)


def test_without_file_descriptors_a_secret_is_out_of_reach_and_not_refused(credentials):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 1, hard))
        with pytest.raises(ConnectFailed, match=r"too many open files.*ulimit"), credentials.attempt(PATIENCE):
            pytest.fail("there was no file descriptor left")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(held[0])
    assert login(credentials) == "first secret"


def refuse(credentials, timeout=PATIENCE):
    with pytest.raises(AuthenticationFailed) as caught, credentials.attempt(timeout):
        raise REFUSAL
    return str(caught.value)


def login(credentials, timeout=PATIENCE):
    with credentials.attempt(timeout) as secret:
        return secret


def test_the_secret_is_read_anew_for_each_attempt(credentials, file):
    assert login(credentials) == "first secret"
    file.write_text("second secret")
    assert login(credentials) == "second secret"


def test_without_a_source_the_secret_is_empty():
    assert login(Credentials(None)) == ""


def test_a_refused_secret_is_not_tried_again(credentials):
    refuse(credentials)

    with pytest.raises(AuthenticationFailed, match="access denied; tried again when the secret has changed"):
        login(credentials)


def test_no_secret_can_be_refused_as_well():
    credentials = Credentials(None)
    refuse(credentials)
    with pytest.raises(AuthenticationFailed, match="tried again when"):
        login(credentials)


def test_another_secret_is_tried_once(credentials, file):
    refuse(credentials)
    file.write_text("second secret")
    refuse(credentials)

    for text in ("first secret", "second secret"):
        file.write_text(text)
        with pytest.raises(AuthenticationFailed, match="tried again when"):
            login(credentials)
    file.write_text("third secret")
    assert login(credentials) == "third secret"


def test_it_is_tried_again_after_an_hour(credentials, clock):
    refuse(credentials)
    clock.advance(REFUSED_SECONDS - 1)
    with pytest.raises(AuthenticationFailed, match="after a rest of an hour, then of 6"):
        login(credentials)
    clock.step(2 * REFUSED_SECONDS)
    with pytest.raises(AuthenticationFailed, match="tried again when"):
        login(credentials)

    clock.advance(1)
    assert login(credentials) == "first secret"


YEAR = 365 * 86400


def attempts_of(credentials, clock, error, seconds):
    """How many logins there are in that time, if each is refused and somebody asks every ten minutes."""
    made = 0
    for _ in range(int(seconds // 600)):
        with contextlib.suppress(AuthenticationFailed), credentials.attempt():
            made += 1
            raise error
        clock.advance(600)
    return made


def test_a_wrong_secret_that_nobody_mends_does_not_lock_the_account(credentials, clock):
    """Oracle's default profile locks one at the tenth refusal in a row, however long they take."""
    assert attempts_of(credentials, clock, REFUSAL, 2 * YEAR) <= 7


def test_an_account_that_is_barred_is_tried_every_hour(credentials, clock):
    assert attempts_of(credentials, clock, AccountBarred("locked"), 86400) == 24
    assert attempts_of(credentials, clock, REFUSAL, 6 * 3600) == 1 + 1


def test_after_a_right_login_the_rest_is_an_hour_again(credentials, clock):
    assert attempts_of(credentials, clock, REFUSAL, 86400) == 3
    clock.advance(40 * 3600)
    login(credentials)
    assert attempts_of(credentials, clock, REFUSAL, 2 * 3600) == 2


def test_no_more_than_a_few_refused_secrets_are_remembered(credentials, file, clock):
    for number in range(3 * MOST_REFUSED):
        file.write_text(f"secret {number}")
        refuse(credentials)
    assert len(credentials._refused) == MOST_REFUSED
    with pytest.raises(AuthenticationFailed, match="tried again when"):
        login(credentials)


def test_a_secret_that_worked_may_be_refused_later(credentials):
    login(credentials)
    refuse(credentials)
    with pytest.raises(AuthenticationFailed, match="tried again when"):
        login(credentials)


def test_other_errors_say_nothing_about_the_secret(credentials):
    for _ in range(3):
        with pytest.raises(ConnectFailed), credentials.attempt():
            raise ConnectFailed("refused")
    assert login(credentials) == "first secret"


def test_a_secret_that_cannot_be_read_is_no_attempt(credentials, file):
    file.unlink()
    with pytest.raises(AuthenticationFailed, match="does not exist"):
        login(credentials)
    file.write_text("first secret")
    assert login(credentials) == "first secret"


def test_nothing_holds_the_secret(credentials):
    login(credentials)
    refuse(credentials)
    assert "first" not in repr(vars(credentials))


class Attempts:
    """Logins in threads of their own, which stay inside until they are let go."""

    def __init__(self, credentials):
        self.credentials = credentials
        self.inside = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.outcomes = []
        self.tries = 0
        self._most = self._now = 0
        self._lock = threading.Lock()
        self.threads = []

    def start(self, error=None, timeout=PATIENCE):
        self.threads.append(threading.Thread(target=self._run, args=(error, timeout)))
        self.threads[-1].start()

    def _run(self, error, timeout):
        try:
            with self.credentials.attempt(timeout):
                with self._lock:
                    self.tries += 1
                    self._now += 1
                    self._most = max(self._most, self._now)
                self.inside.release()
                self.go.acquire(timeout=PATIENCE)
                with self._lock:
                    self._now -= 1
                if error:
                    raise error
            self.outcomes.append(None)
        except (AuthenticationFailed, ConnectFailed, DeadlineExceeded) as failure:
            self.outcomes.append(type(failure))

    def end(self):
        self.go.release(len(self.threads))
        for thread in self.threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self.threads)
        return self._most


@pytest.fixture
def attempts(credentials):
    return Attempts(credentials)


def test_sessions_that_start_together_try_a_wrong_secret_once(attempts):
    for _ in range(8):
        attempts.start(REFUSAL)
    attempts.end()

    assert attempts.tries == 1
    assert attempts.outcomes == [AuthenticationFailed] * 8


def test_a_changed_password_is_tried_once_though_it_worked_before(credentials, attempts):
    login(credentials)
    for _ in range(8):
        attempts.start(REFUSAL)
    attempts.end()

    assert attempts.tries == 1


def test_an_untested_secret_is_tried_by_one_at_a_time(attempts):
    for _ in range(4):
        attempts.start(ConnectFailed("lost"))
    assert attempts.inside.acquire(timeout=PATIENCE)
    assert not attempts.inside.acquire(timeout=0.2)

    assert attempts.end() == 1
    assert attempts.tries == 4


def test_a_secret_that_works_is_not_held_up_by_a_login_that_hangs(credentials, attempts):
    login(credentials)
    attempts.start()
    attempts.start()

    assert attempts.inside.acquire(timeout=PATIENCE)
    assert attempts.inside.acquire(timeout=PATIENCE)
    assert attempts.end() == 2


def test_who_waits_too_long_for_others_is_told_so(credentials, attempts):
    attempts.start()
    assert attempts.inside.acquire(timeout=PATIENCE)
    watch = Stopwatch()

    with pytest.raises(DeadlineExceeded, match="another login"):
        login(credentials, timeout=0.1)

    assert watch.seconds < 5 * 0.1 + 0.5
    attempts.end()
