"""A TCP proxy in front of a server, that can be told to behave as bad networks and bad peers do."""

from __future__ import annotations

import contextlib
import enum
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Self

_FULL = 65536
_LINGER_NOT = struct.pack("ii", 1, 0)  # closing sends a reset instead of the rest


class Mode(enum.Enum):
    """What the proxy does with bytes and with new connections."""

    PASS = "pass"
    SILENT = "silent"
    DRIP = "drip"
    RESET = "reset"
    GARBLE = "garble"


class _Stream:
    """One direction of a connection, and what is under way in it."""

    def __init__(self, source: socket.socket, sink: socket.socket, *, down: bool) -> None:
        self.source, self.sink, self.down = source, sink, down
        self.pending = bytearray()
        self.ended = False
        self.closed = False
        self.next_byte = 0.0

    def due(self, interval_s: float | None) -> bool:
        """Whether there is something to pass on now."""
        slow = interval_s is not None and self.down
        return bool(self.pending) and not (slow and time.monotonic() < self.next_byte)

    def move(self, readable: bool, writable: bool, interval_s: float | None, spoil: random.Random | None) -> None:
        if readable:
            got = self.source.recv(_FULL)
            self.ended = not got
            if spoil is not None and self.down:
                got = _spoilt(got, spoil)
            self.pending += got
        if writable and self.due(interval_s):
            slow = interval_s is not None and self.down
            sent = self.sink.send(self.pending[: 1 if slow else _FULL])
            del self.pending[:sent]
            self.next_byte = time.monotonic() + (interval_s or 0.0)
        if self.ended and not self.pending and not self.closed:
            self.closed = True
            self.sink.shutdown(socket.SHUT_WR)


def _spoilt(said: bytes, rng: random.Random) -> bytes:
    """With one byte replaced, or as it was."""
    if not said or rng.random() < 0.5:
        return said
    where = rng.randrange(len(said))
    return said[:where] + bytes([rng.randrange(256)]) + said[where + 1 :]


class _Link:
    """One client's connection with its own to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.sockets = (client, server)
        self.streams = (_Stream(client, server, down=False), _Stream(server, client, down=True))
        for each in self.sockets:
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self, *, reset: bool = False) -> None:
        for each in self.sockets:
            if reset:
                with contextlib.suppress(OSError):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            each.close()


class Proxy:
    """Listens on a loopback port of its own and passes all on to `target`.

    Each method that changes what it does has done so when it returns.

        with Proxy(server.address) as proxy:
            connection = pymysql.connect(host=proxy.host, port=proxy.port, ...)
            proxy.go_silent()
    """

    def __init__(self, target: tuple[str, int], host: str = "127.0.0.1") -> None:
        self.target = target
        self.host = host
        self.port = 0
        self.accepted = 0
        self._mode = Mode.PASS
        self._interval = 1.0
        self._rng = random.Random(1)
        self._links: list[_Link] = []
        self._orders: list[tuple[Callable[[], None], threading.Event]] = []
        self._listener: socket.socket | None = None
        self._wake, self._woken = socket.socketpair()
        self._stopped = False
        self._listen()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._links)

    # -- orders ---------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Pass everything, also what was held back; listen again."""
        self._order(lambda: self._set(Mode.PASS))

    def go_silent(self) -> None:
        """Pass nothing, in no direction. Connections stay, and new ones are accepted, as by a peer that froze."""
        self._order(lambda: self._set(Mode.SILENT))

    def drip(self, interval_s: float = 1.0) -> None:
        """Pass what the server says byte by byte, one in each interval."""
        self._interval = interval_s
        self._order(lambda: self._set(Mode.DRIP))

    def garble(self, seed: int = 1) -> None:
        """Change a byte here and there in what the server says: in half of what it says at once, one of them."""
        self._rng = random.Random(seed)
        self._order(lambda: self._set(Mode.GARBLE))

    def reset(self) -> None:
        """Reset all connections, and each new one as soon as it is accepted."""
        self._order(lambda: self._set(Mode.RESET))

    def drop(self) -> None:
        """Reset the connections that there are; new ones work."""
        self._order(self._drop)

    def refuse(self) -> None:
        """Reset all connections and listen no more: new ones are refused, as by a server that is down."""
        self._order(self._deafen)

    def close(self) -> None:
        """End everything."""
        if not self._stopped:
            self._order(self._stop)
            self._thread.join(5)
            self._wake.close()
            self._woken.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _order(self, what: Callable[[], None]) -> None:
        done = threading.Event()
        self._orders.append((what, done))
        self._wake.send(b"x")
        assert done.wait(50), "the proxy's thread does not answer"

    # -- in the thread --------------------------------------------------------------------------

    def _set(self, mode: Mode) -> None:
        self._mode = mode
        self._listen()
        if mode is Mode.RESET:
            self._drop()

    def _listen(self) -> None:
        if self._listener is None:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            self._listener = socket.create_server((self.host, self.port), family=family, backlog=128)
            self.port = self._listener.getsockname()[1]

    def _deafen(self) -> None:
        self._drop()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _drop(self) -> None:
        for link in self._links:
            link.close(reset=True)
        self._links.clear()

    def _stop(self) -> None:
        self._deafen()
        self._stopped = True

    def _run(self) -> None:
        while not self._stopped:
            slow = self._interval if self._mode is Mode.DRIP else None
            ready = self._poll(slow)
            if self._woken.fileno() in ready:
                self._obey()  # which may close what was ready
                continue
            if self._listener is not None and self._listener.fileno() in ready:
                self._accept()
            for link in list(self._links):
                self._serve(link, ready, slow)

    def _obey(self) -> None:
        self._woken.recv(4096)
        while self._orders:
            what, done = self._orders.pop(0)
            what()
            done.set()

    def _poll(self, slow: float | None) -> dict[int, int]:
        """Events by file number."""
        wanted = {self._woken.fileno(): select.POLLIN}
        wait: float | None = None
        if self._mode is not Mode.SILENT:
            if self._listener is not None:
                wanted[self._listener.fileno()] = select.POLLIN
            for stream in (stream for link in self._links for stream in link.streams):
                source, sink = stream.source.fileno(), stream.sink.fileno()
                if not stream.ended and len(stream.pending) < _FULL:
                    wanted[source] = wanted.get(source, 0) | select.POLLIN
                if stream.due(slow):
                    wanted[sink] = wanted.get(sink, 0) | select.POLLOUT
                elif stream.pending:
                    wait = min(wait or 60.0, max(0.0, stream.next_byte - time.monotonic()))
        polling = select.poll()
        for number, events in wanted.items():
            polling.register(number, events)
        return dict(polling.poll(None if wait is None else wait * 1000 + 1))

    def _accept(self) -> None:
        assert self._listener is not None
        client, _ = self._listener.accept()
        self.accepted += 1
        if self._mode is Mode.RESET:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            client.close()
            return
        try:
            server = socket.create_connection(self.target, timeout=30)
        except OSError:
            client.close()
            return
        self._links.append(_Link(client, server))

    def _serve(self, link: _Link, ready: dict[int, int], slow: float | None) -> None:
        readable = select.POLLIN | select.POLLHUP | select.POLLERR
        try:
            for stream in link.streams:
                at_source, at_sink = ready.get(stream.source.fileno(), 0), ready.get(stream.sink.fileno(), 0)
                can_read = bool(at_source & readable) and not stream.ended and len(stream.pending) < _FULL
                spoil = self._rng if self._mode is Mode.GARBLE else None
                stream.move(can_read, bool(at_sink & select.POLLOUT), slow, spoil)
            over = all(stream.closed for stream in link.streams)
            broken = False
        except BlockingIOError:
            return
        except OSError:
            over = broken = True
        if over:
            link.close(reset=broken)
            self._links.remove(link)
