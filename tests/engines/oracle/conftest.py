"""Stand-ins for Oracle databases that answer what the engine asks, and the check that they were asked nothing else."""

from __future__ import annotations

import contextlib

import pytest

from tests.engines.oracle.standin_targets import opened, standin, target_of


@pytest.fixture
def make_server():
    """Starts stand-ins as `standin_targets.standin` does; at the end nothing unknown must have been asked."""
    with contextlib.ExitStack() as stack:
        servers = []

        def make(*args, **options):
            server = stack.enter_context(standin(*args, **options))
            servers.append(server)
            return server

        yield make
        assert [text for server in servers for text in server.unknown] == []


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture
def target(server, tmp_path):
    return target_of(server, tmp_path)


@pytest.fixture
def session(target):
    """A session whose twins are made and prepared."""
    with opened(target, provisioned=True) as session:
        yield session
