"""The first thing a connection meets: TLS where it is spoken, with the certificate that holds at that moment.

A server that asyncio itself made for TLS keeps one context for ever; here each connection gets the context of now.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from exporter.web.connection import Door, LimitedConnection
from exporter.web.counts import Refusal
from exporter.web.security.live import Security
from exporter.web.security.tls import may_enter


class Doorway(asyncio.Protocol):
    """One connection until it may speak HTTP. While it shakes hands it counts as open, and has `header_timeout`."""

    waiting: set[Doorway]

    def __init__(
        self, security: Security, door: Door, make: Callable[[], LimitedConnection], waiting: set[Doorway]
    ) -> None:
        self._security, self._door, self._make, self.waiting = security, door, make, waiting
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        rules = self._security.rules
        if rules.context is None:
            self._hand_over(transport)
            return
        if self._door.open >= self._door.max_connections:
            self._door.counts.refuse(Refusal.TOO_MANY)
            transport.abort()
            return
        # Nothing may be read before the handshake takes it.
        transport.pause_reading()
        self._door.enter()
        self.waiting.add(self)
        self._task = asyncio.get_running_loop().create_task(
            self._shake_hands(transport, rules.context, rules.allowed_names)
        )

    def data_received(self, data: bytes) -> None:
        # A client may send its request with the last words of the handshake, before we hear that it is over.
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True

    def abort(self) -> None:
        """Tear it down now."""
        if self._transport is not None:
            self._transport.abort()

    async def _shake_hands(
        self, transport: asyncio.Transport, context: ssl.SSLContext, allowed: tuple[str, ...]
    ) -> None:
        loop, timeout = asyncio.get_running_loop(), self._door.header_timeout
        try:
            secured = await loop.start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=timeout, ssl_shutdown_timeout=timeout
            )
        except (OSError, asyncio.CancelledError) as error:  # An SSLError is an OSError, too.
            # Strangers fail to shake hands all day long: not worth a line.
            if isinstance(error, OSError):
                self._door.counts.refuse(Refusal.TLS)
            transport.abort()
            secured = None
        finally:
            self.waiting.discard(self)
            self._door.leave()
        if secured is None or self._lost:
            return
        if not may_enter(allowed, secured.get_extra_info("peercert")):
            self._door.counts.refuse(Refusal.CERTIFICATE)
            secured.abort()
            return
        self._hand_over(secured)

    def _hand_over(self, transport: asyncio.Transport) -> None:
        connection = self._make()
        transport.set_protocol(connection)
        connection.connection_made(transport)
        for data in self._early:
            connection.data_received(data)
