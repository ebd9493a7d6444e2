"""The engine of Oracle Database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

import oracledb

from exporter.config.schema import TargetSettings
from exporter.domain.errors import TargetError, Unsupported
from exporter.domain.model import Operation
from exporter.engines import base
from exporter.engines.credentials import Credentials
from exporter.engines.oracle import thick
from exporter.engines.oracle.activity import ActivityReader
from exporter.engines.oracle.connection import Connector
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.heartbeat import Heartbeats
from exporter.engines.oracle.identity import identify, place
from exporter.engines.oracle.inventory import EncryptionReader
from exporter.engines.oracle.loop import PrivateLoop
from exporter.engines.oracle.operations import OPERATIONS
from exporter.engines.oracle.script import script
from exporter.engines.oracle.session import Parts, Session
from exporter.engines.oracle.settings import ServerSettings, Standby, Target
from exporter.engines.oracle.standbys import Standbys


class Engine:
    """Satisfies `engines.base.Engine`."""

    operations: ClassVar[frozenset[Operation]] = OPERATIONS
    self_provisioning: ClassVar[bool] = False
    sessions_per_pair: ClassVar[int] = 1

    def __init__(self, target: TargetSettings) -> None:
        if not isinstance(target, Target):
            raise TypeError(f"not a target of this engine: {target.engine}")
        self._target = target
        self._loop = PrivateLoop()
        self._credentials = Credentials(target.password)
        self._activity = ActivityReader()
        self._states = EncryptionReader()
        self._heartbeats = Heartbeats(target.schema_name)
        self._of_standbys = {standby.name: self._login_of(standby) for standby in target.standbys}

    def succeed(self, former: Self) -> None:
        ours, theirs = self._target, former._target
        if (ours.address, ours.dsn, ours.user) != (theirs.address, theirs.dsn, theirs.user):
            return
        self._credentials.follow(former._credentials)
        for standby in ours.standbys:
            if standby in theirs.standbys:
                self._of_standbys[standby.name][1].follow(former._of_standbys[standby.name][1])

    def script(self) -> Iterator[str]:
        return script(self._target)

    def open(self, timeout: float) -> base.Session:
        """Connect, and find out what database it is."""
        deadline = Deadline(timeout, f"opening a session on {self._target.name}")
        self._load_driver()
        control = self._connector("control").connect(timeout)
        try:
            at, identity = place(control, deadline), identify(control, deadline)
        except TargetError as error:
            control.close()
            raise type(error)(f"{self._target.address}: {error}") from None
        except BaseException:
            control.close()
            raise
        parts = Parts(self._connector, self._states, self._activity, Standbys(self._to_standbys(), self._heartbeats))
        return Session(self._target, parts, control, at, identity)

    def _load_driver(self) -> None:
        """The driver has one mode for all of a process. Until it is known, one connect that hangs makes all others wait."""
        if self._target.driver == "thick":
            thick.load(self._target.client_directory)
            return
        try:
            oracledb.enable_thin_mode()  # type: ignore[no-untyped-call]
        except oracledb.Error:
            raise Unsupported(
                "this process already serves Oracle targets with client libraries (`driver: thick`); use one driver for all"
                " Oracle targets, or run another exporter for those with `driver: thin`"
            ) from None

    def _connector(self, purpose: str) -> Connector:
        return Connector(self._target, self._credentials, self._loop, purpose=purpose, target=self._target.name)

    def _login_of(self, standby: Standby) -> tuple[ServerSettings, Credentials]:
        """Where a standby is, and what it is logged in to with; that outlives a session. A password that a standby refuses
        says nothing of the primary: logins with a privilege go by a file of their own there."""
        server = standby.server(self._target)
        return server, Credentials(server.password)

    def _to_standbys(self) -> list[tuple[str, Connector]]:
        return [
            (name, Connector(server, credentials, self._loop, purpose="standby", target=self._target.name))
            for name, (server, credentials) in self._of_standbys.items()
        ]
