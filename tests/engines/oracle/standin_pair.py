"""A primary and a standby, both stand-ins, and what watches them."""

from __future__ import annotations

import contextlib

from exporter.engines import registry
from exporter.engines.oracle.session import Session
from tests.engines.oracle.standin_targets import make_ready, standin, target_of
from tests.oracle_standin.data_guard import ArchivedLog, Destination, Process
from tests.oracle_standin.statements_state import ship
from tests.oracle_standin.statements_twins import engine_database

MRP = Process("MRP0", "APPLYING_LOG", sequence=101)
RFS = Process("RFS", "IDLE", sequence=101)


class StandinPair:
    """Open between `with`; `state()` is what the exporter finds out of the standby. Redo is applied by `ship()`."""

    def __init__(self, folder, version="19", *, open_mode="READ ONLY WITH APPLY", **standby):
        self.folder = folder
        self.primary, self.standby = engine_database(version), engine_database(version)
        self.primary.data_guard.destinations = [Destination(1, type="LOCAL", unique_name=""), Destination(2)]
        self.standby.unique_name = "ORCL_B"
        self.standby.become("PHYSICAL STANDBY", open_mode)
        guard = self.standby.data_guard
        guard.processes = [RFS, MRP]
        guard.archived_logs = [ArchivedLog(99), ArchivedLog(100), ArchivedLog(101, applied="NO")]
        self._standby_settings = standby
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self.servers = [self._stack.enter_context(standin(database=each)) for each in (self.primary, self.standby)]
        secret = self.folder / "standby.secret"
        secret.write_text("secret")
        east = {
            "name": "east",
            "host": self.servers[1].host,
            "port": self.servers[1].port,
            "password": {"file": str(secret)},
            **self._standby_settings,
        }
        self.target = target_of(self.servers[0], self.folder, standbys=[east])
        session = registry.make(self.target).open(10.0)
        assert isinstance(session, Session)
        self.session = session
        make_ready(self.session, self.target)
        return self

    def __exit__(self, *_):
        self.session.close()
        self._stack.close()

    def ship(self):
        ship(self.primary, self.standby)

    def beat(self, *, ship=True):
        self.session.heartbeat(20.0)
        if ship:
            self.ship()

    def state(self, timeout=20.0):
        (state,) = self.session.standbys(timeout)
        return state

    @property
    def unknown(self):
        return [text for server in self.servers for text in server.unknown]
