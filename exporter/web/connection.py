"""One HTTP connection with hard limits, on top of uvicorn's h11 protocol.

uvicorn by itself waits for ever for the headers of a request, and for ever for a client that does not
read its answer; such clients would pile up. Here every phase of a connection has its deadline:

- receiving a request, from the accept or from its first byte to its end: `header_timeout`
- answering, until the answer is handed to the system: `IDLE_FACTOR` header timeouts
- idle, until the first byte of the next request: the same
- closing, with an answer that the client does not take: `header_timeout`
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from exporter.web.counts import Counts, Refusal

IDLE_FACTOR = 6
"""An idle connection lives this many header timeouts: with the default of 5 s, longer than a usual scrape interval."""

# What strangers send is not worth a line each: everybody who can connect could fill the log.
_log = logging.getLogger("exporter.web.connection")
_log.setLevel(logging.ERROR)


@dataclass(slots=True)
class Door:
    """The limits of all connections of one server, and what was counted at them; written on the server's loop only.

    `empty` is set whenever the last open connection has gone.
    """

    max_connections: int
    header_timeout: float
    open: int = 0
    empty: asyncio.Event = field(default_factory=asyncio.Event)
    counts: Counts = field(default_factory=Counts)
    timed_out: int = 0

    def enter(self) -> None:
        """One connection more."""
        self.open += 1
        self.empty.clear()

    def leave(self) -> None:
        """One connection less."""
        self.open -= 1
        if not self.open:
            self.empty.set()


class _Phase(Enum):
    """What a connection is waiting for; the value is its deadline in header timeouts."""

    RECEIVING = ("receiving", 1)
    ANSWERING = ("answering", IDLE_FACTOR)
    IDLE = ("idle", IDLE_FACTOR)
    CLOSING = ("closing", 1)


class LimitedConnection(H11Protocol):
    """A connection that cannot outlive its deadlines; the module says what they are."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], door: Door) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = _log
        # uvicorn's own keep-alive timer must never fire first: it closes politely, which a client
        # that does not read can delay for ever.
        self.timeout_keep_alive = int(door.header_timeout * IDLE_FACTOR) + 3600
        self._door = door
        self._timer: asyncio.TimerHandle | None = None
        self._phase: _Phase | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._door.enter()
        if self._door.open > self._door.max_connections:
            self._door.counts.refuse(Refusal.TOO_MANY)
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        self._enter(_Phase.RECEIVING)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.leave()
        self._stop_timer()
        super().connection_lost(exc)
        # uvicorn leaves its timer behind when the connection broke; it would keep this object alive.
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self._phase is _Phase.IDLE:
            self._enter(_Phase.RECEIVING)
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            # Nonsense arrived in the middle of an answer, where no error page can be sent any more.
            self.abort()
            return
        self._after_events()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE:
            self._enter(_Phase.IDLE)
        else:
            # The next request was already waiting (pipelining): it gets deadlines of its own.
            self._enter(_Phase.RECEIVING)
            self._after_events()

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.abort()
        else:
            self._after_events()

    def abort(self) -> None:
        """Tear the socket down now; what was not sent is lost."""
        self._stop_timer()
        self.transport.abort()

    def _after_events(self) -> None:
        if self.transport.is_closing():
            self._enter(_Phase.CLOSING)
        elif self._phase is _Phase.RECEIVING and self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
            self._enter(_Phase.ANSWERING)

    def _enter(self, phase: _Phase) -> None:
        if phase is not self._phase:
            self._phase = phase
            self._stop_timer()
            self._timer = self.loop.call_later(phase.value[1] * self._door.header_timeout, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send_400_response(self, msg: str) -> None:
        self._door.counts.refuse(Refusal.MALFORMED)
        super().send_400_response(msg)

    def _on_timeout(self) -> None:
        self._door.timed_out += 1
        if self._phase is not _Phase.IDLE:
            self._door.counts.refuse(Refusal.DEADLINE)
        self.abort()
