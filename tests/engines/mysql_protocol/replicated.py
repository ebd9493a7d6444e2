"""A primary and its replica on real servers, watched as the exporter does."""

from __future__ import annotations

import contextlib
from typing import Any

from exporter.domain.clock import SystemClock
from exporter.domain.states import LagKind, StandbyState
from exporter.engines._mysql_protocol.heartbeat import Heartbeats, lock_name
from exporter.engines._mysql_protocol.key_match import mariadb_keys, mysql_keys
from exporter.engines._mysql_protocol.standbys import Standbys
from tests.engines.mysql_protocol.connectors import PATIENCE, connector
from tests.engines.mysql_protocol.heartbeat_tables import grants, make_table
from tests.processes import until
from tests.servers.mariadb import MariaDbServer
from tests.servers.server import Server

SCHEMA = "watched"
USER = "watcher"


class ShiftedClock(SystemClock):
    """The machine's clocks, some seconds later."""

    def __init__(self) -> None:
        super().__init__()
        self.later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later


class Watch:
    """Heartbeats on the primary, and the replica `east`; more standbys by their connectors."""

    def __init__(self, primary: Server, replica: Server) -> None:
        self.primary, self.replica = primary, replica
        self.maria = isinstance(primary, MariaDbServer)
        self.noun = "SLAVE" if self.maria else "REPLICA"
        make_table(primary, SCHEMA)
        self.password = primary.create_user(USER, grants=grants(primary, SCHEMA))
        replica.wait_for(primary)
        self.clock = ShiftedClock()
        self._opened: list[Any] = []
        self.restart()

    def connector(self, server: Any, purpose: str = "standby") -> Any:
        return connector(server, USER, self.password, socket=isinstance(server, Server), purpose=purpose)

    def standbys(self, heartbeats: Heartbeats, *more: tuple[str, Any]) -> Standbys:
        look = mariadb_keys if self.maria else mysql_keys
        found = Standbys([("east", self.connector(self.replica)), *more], heartbeats, self.clock, look)
        self._opened.append(found)
        return found

    def connected(self) -> Any:
        self._opened.append(self.connector(self.primary, "control").connect(PATIENCE))
        return self._opened[-1]

    def restart(self) -> None:
        """The exporter starts anew, and remembers nothing."""
        for each in self._opened:
            each.close()
        until(lambda: self.primary.value("SELECT IS_USED_LOCK(%s)", lock_name(SCHEMA)) is None, "the lock to be free")
        self._opened = []
        self.control = self.connected()
        self.heartbeats = Heartbeats(SCHEMA, self.clock)
        self.asked = self.standbys(self.heartbeats)

    def beat(self) -> None:
        self.heartbeats.beat(self.control, PATIENCE)

    def read(self, timeout: float = PATIENCE) -> tuple[StandbyState, ...]:
        return self.asked.states(self.control, timeout)

    def now(self, channel: str = "") -> StandbyState:
        """The state of a channel of the replica."""
        return next(state for state in self.read() if state.standby == "east" and state.channel == channel)

    def state(self, channel: str = "") -> StandbyState:
        """The same after one more beat, which may still be on its way."""
        self.beat()
        return self.now(channel)

    def settled(self, *lags: float | None, channel: str = "") -> StandbyState:
        """After one more beat, wait until the lags (transport, apply, heartbeat) are these."""
        self.beat()
        found: list[StandbyState] = []

        def reached() -> bool:
            found[:] = [self.now(channel)]
            return tuple(found[0].lag(kind) for kind in LagKind) == lags

        until(reached, f"the lags {lags}")
        return found[0]

    def in_step(self) -> StandbyState:
        """Wait until the replica has everything, one more beat included."""
        return self.settled(0.0, 0.0, 0.0)

    def until_late(self, kind: LagKind, seconds: float = 0.25) -> StandbyState:
        """Beat until a lag has grown to some tenths of a second."""
        found: list[StandbyState] = []

        def late() -> bool:
            found[:] = [self.state()]
            return (found[0].lag(kind) or 0.0) > seconds

        until(late, f"the {kind} lag to grow")
        return found[0]

    def thread(self, what: str, name: str = "") -> None:
        """START or STOP a thread of the replica, or both."""
        self.replica.query(f"{what} {self.noun} {name}")

    def replicate(self, **options: Any) -> None:
        """Set the replication up anew; by default, as it was found."""
        for statement in (f"STOP {self.noun}", f"RESET {self.noun} ALL"):
            with contextlib.suppress(Exception):
                self.replica.query(statement)
        self.replica.replica_of(self.primary, **options)

    def close(self) -> None:
        for each in self._opened:
            each.close()
        self.replica.wait_for(self.primary)
        self.primary.query(f"DROP DATABASE {SCHEMA}")
        self.primary.query(f"DROP USER {USER}@'%'")
        self.replica.wait_for(self.primary)
