import random

import pytest

from exporter.domain.errors import AuthenticationFailed, ConnectFailed, DeadlineExceeded, TlsFailed, Unavailable
from exporter.probing.back_off import BackOff


def waits(errors):
    """Seconds until the next attempt is allowed, after each of the failures."""
    back_off, now, found = BackOff(interval=10.0, rng=random.Random(3)), 0.0, []
    for error in errors:
        back_off.failed(error, now)
        waited = 0.0
        while not back_off.allows(now + waited):
            waited += 0.5
        found.append(waited)
        now += waited
    return found


def test_three_failures_are_tried_again_at_once_then_ever_later_but_never_never():
    found = waits([ConnectFailed("gone")] * 40)

    assert found[:3] == [0.0, 0.0, 0.0]
    assert 15.0 <= found[3] <= 25.5
    assert all(0.75 * 60.0 <= wait <= 1.25 * 60.0 + 0.5 for wait in found[6:])


@pytest.mark.parametrize("error", [Unavailable("too many"), DeadlineExceeded("mute"), TlsFailed("no TLS")], ids=repr)
def test_a_server_that_counts_broken_connections_is_asked_ever_more_seldom(error):
    found = waits([error] * 40)

    assert found[:3] == [0.0, 0.0, 0.0]
    assert found[3] <= 25.5
    assert all(0.75 * 600.0 <= wait <= 1.25 * 600.0 + 0.5 for wait in found[9:])


def test_a_refused_secret_neither_waits_nor_counts_as_a_failure_to_connect():
    """The engine asks the server once for each secret; whoever asks the engine at every turn hears when it changed."""
    assert waits([AuthenticationFailed("refused")] * 40) == [0.0] * 40
    assert waits([AuthenticationFailed("refused")] * 40 + [ConnectFailed("gone")] * 3)[-3:] == [0.0, 0.0, 0.0]


def test_success_forgets_the_failures():
    back_off = BackOff(interval=10.0, rng=random.Random(3))
    for _ in range(10):
        back_off.failed(ConnectFailed("gone"), 0.0)
    assert not back_off.allows(1.0)

    back_off.succeeded()
    back_off.failed(ConnectFailed("gone"), 1.0)

    assert back_off.allows(1.0)
