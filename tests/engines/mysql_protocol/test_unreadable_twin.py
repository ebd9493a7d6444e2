"""A key that is there and is the wrong one: no view of the server shows it, only that a twin cannot be read."""

from __future__ import annotations

import contextlib

import pytest

from exporter.domain.states import KeystoreState
from exporter.engines import registry
from tests.engines.mysql_protocol.canary_targets import quiet, target_of


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_wrong_key_shows_in_the_state_of_the_keystore_once_a_twin_was_read(kind, request, tmp_path):
    server = request.getfixturevalue(f"make_{kind}")()
    target = target_of(server, tmp_path, rows=2_000, schema="tde_canary")
    pair, engine = target.pairs[0], registry.make(target)

    def found():
        """By a daemon that lives on over the restarts of the server."""
        with contextlib.closing(engine.open(20.0)) as session:
            facts = session.verify(pair, 20.0)
            (keystore,) = session.encryption_state(20.0).keystores
            return facts.valid, keystore.state

    with contextlib.closing(engine.open(20.0)) as session:
        session.provision(pair, quiet, 60.0)
    assert found() == (True, KeystoreState.OPEN)
    server.wrong_key()
    server.restart()
    assert found() == (False, KeystoreState.NO_KEY)
    server.restore_key()
    server.restart()
    assert found() == (True, KeystoreState.OPEN)
