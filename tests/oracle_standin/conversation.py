"""Messages over packets, waiting that breaks interrupt, and what all sessions of a stand-in share."""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracle_standin.datatypes import Value
from tests.oracle_standin.faults import Faults
from tests.oracle_standin.model import Database
from tests.oracle_standin.packets import END_OF_FILE, PATIENCE_S, Channel, Gone, Marker, Packet
from tests.oracle_standin.primitives import Reader
from tests.oracle_standin.statements import Statements

FOREVER_S = 600.0
"""How long something hangs at most: no test lasts so long."""

_GLANCE_S = 0.05


@dataclass(frozen=True)
class Executed:
    """One execution, as the log has it; `binds` are those of its first row."""

    sid: int
    user: str
    sql: str
    binds: Sequence[Value]


@dataclass
class Shared:
    """What the server and all its sessions use."""

    database: Database
    statements: Statements
    faults: Faults
    executed: list[Executed] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    connects: int = 0
    logins: int = 0
    flooded: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    sids: itertools.count[int] = field(default_factory=lambda: itertools.count(101))


class Broken(Exception):
    """The client sent a break."""


class Doomed(Exception):
    """Somebody ends this session: with an error, or with none when it is 0."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Conversation:
    """Reads messages and writes answers on one channel."""

    def __init__(self, channel: Channel, shared: Shared) -> None:
        self.channel, self.shared = channel, shared
        self.field_version = shared.database.profile.field_version
        self.doom: int | None = None

    # -- reading --------------------------------------------------------------------------------

    def receive(self, patience: float | None = None) -> Reader:
        """The next message. Raises `Broken` for a break, `Gone` when the client says good-bye."""
        return Reader(self._data(patience), lambda: self._data(PATIENCE_S))

    def _data(self, patience: float | None) -> bytes:
        while True:
            kind, body = self.channel.receive(patience)
            if kind == Packet.DATA:
                if struct.unpack(">H", body[:2])[0] & END_OF_FILE:
                    raise Gone("the client has closed")
                return body[2:]
            if kind == Packet.MARKER and not self.shared.faults.deaf:
                raise Broken

    # -- waiting --------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Let time pass. Raises `Broken`, `Doomed` or `Gone` as soon as one of these happens."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.doom is not None:
                raise Doomed(self.doom)
            if self.channel.readable(min(left, _GLANCE_S)):
                self._data(PATIENCE_S)

    def hang(self) -> None:
        """Wait for a break or the end."""
        self.wait(FOREVER_S)
        raise Gone("it hung for too long")

    # -- breaks ---------------------------------------------------------------------------------

    def obey_break(self) -> None:
        """Agree with the client that what was under way has been stopped; an error must follow."""
        self.channel.send_marker(Marker.BREAK)
        while True:
            kind, body = self.channel.receive(PATIENCE_S)
            if kind == Packet.MARKER and body[2] == Marker.RESET:
                break
        self.channel.send_marker(Marker.RESET)
