"""What the engines of the MySQL family have in common: opening a session."""

from __future__ import annotations

from exporter.domain.errors import TargetError
from exporter.engines._mysql_protocol.activity import ActivityReader, DecryptsReader
from exporter.engines._mysql_protocol.connection import Connector
from exporter.engines._mysql_protocol.deadlines import Deadline
from exporter.engines._mysql_protocol.heartbeat import Heartbeats
from exporter.engines._mysql_protocol.identity import identify
from exporter.engines._mysql_protocol.session import Connections, Flavour, Lasting, Session, StateReader
from exporter.engines._mysql_protocol.settings import MySqlProtocolTarget
from exporter.engines._mysql_protocol.threads import find_out
from exporter.engines.credentials import Credentials
from exporter.engines.host import Host


class Opener:
    """Opens the sessions of one target, and keeps what they hand on to each other."""

    def __init__(
        self,
        target: MySqlProtocolTarget,
        flavour: Flavour,
        decrypts: DecryptsReader,
        states: StateReader,
        host: Host,
    ) -> None:
        """`host` is the machine that this exporter runs on."""
        self._target, self._flavour = target, flavour
        interval = target.intervals.heartbeat if target.intervals else 1.0
        heartbeats = Heartbeats(target.schema_name, interval=interval)
        self._lasting = Lasting(heartbeats, ActivityReader(host, decrypts), states, host)
        self._credentials = Credentials(target.password)
        # A standby with the target's own account still is another server, which may refuse it.
        self._of_standbys = {
            standby.name: Credentials(standby.password or target.password) for standby in target.standbys
        }

    def succeed(self, former: Opener) -> None:
        """Know which secrets the former opener found refused, where the login is the same."""
        ours, theirs = self._target, former._target
        if (ours.address, ours.user) != (theirs.address, theirs.user):
            return
        self._credentials.follow(former._credentials)
        for standby in ours.standbys:
            if standby in theirs.standbys:
                self._of_standbys[standby.name].follow(former._of_standbys[standby.name])

    def open(self, timeout: float) -> Session:
        """Connect, refuse servers of another kind, and find out whether the server runs on this machine."""
        deadline = Deadline(timeout, f"opening a session on {self._target.name}")
        control = self._connector("control").connect(timeout)
        try:
            identity = identify(control, self._flavour.engine, deadline)
            counters = self._flavour.counters(control, control, self._lasting.host, identity.page_bytes)
            tid = counters.thread_id(control, deadline)
            server = find_out(self._lasting.host, control, tid, deadline.step())
        except TargetError as error:
            control.close()
            raise type(error)(f"{self._target.address}: {error}") from None
        except BaseException:
            control.close()
            raise
        connections = Connections(self._connector, self._standbys())
        return Session(self._target, self._flavour, self._lasting, connections, control, identity, server)

    def _connector(self, purpose: str) -> Connector:
        return Connector(self._target, self._credentials, purpose=purpose, target=self._target.name)

    def _standbys(self) -> list[tuple[str, Connector]]:
        return [
            (
                standby.name,
                Connector(
                    standby.server(self._target),
                    self._of_standbys[standby.name],
                    purpose="standby",
                    target=self._target.name,
                ),
            )
            for standby in self._target.standbys
        ]
