"""TNS packets on a socket, with a deadline for all that is waited for."""

from __future__ import annotations

import contextlib
import enum
import select
import socket
import ssl
import struct
import time
from collections.abc import Iterator

PATIENCE_S = 30.0
"""How long a peer may take for the rest of what it began, and to take what it is sent."""

SDU = 8192
_HEADER = 8
_ROOM = SDU - _HEADER - 2
_LINGER_NOT = struct.pack("ii", 1, 0)  # closing sends a reset instead of the rest

END_OF_FILE = 0x0040
"""The data flag of a packet that ends the conversation."""


class Packet(enum.IntEnum):
    """Types of packets."""

    CONNECT = 1
    ACCEPT = 2
    REFUSE = 4
    DATA = 6
    MARKER = 12


class Marker(enum.IntEnum):
    """What a marker says: stop, start anew, or stop as asked by a user."""

    BREAK = 1
    RESET = 2
    INTERRUPT = 3


class Gone(Exception):
    """The connection has ended, whoever ended it."""


class Channel:
    """One connection. Lengths have two bytes until `accepted`, then four.

    Everything raises `Gone` when the connection has ended, or when the peer stops in the middle of a packet.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE_S)
        self._sock = sock
        self._pending = b""
        self.accepted = False

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        with _ended_is_gone():
            self._sock = context.wrap_socket(self._sock, server_side=True)

    # -- receiving ------------------------------------------------------------------------------

    def readable(self, seconds: float) -> bool:
        """Wait until there is something to read, or the time is over. More exact than a millisecond."""
        if self._pending or (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending()):
            return True
        try:
            return bool(select.select([self._sock], [], [], max(0.0, seconds))[0])
        except (OSError, ValueError) as error:  # ValueError: another thread closed it
            raise Gone from error

    def receive(self, patience: float | None = None) -> tuple[int, bytes]:
        """The next packet: its type and all behind its header. Waits for its first byte for `patience` seconds, without
        end when it is None; `close` in another thread ends that."""
        deadline = None if patience is None else time.monotonic() + patience
        while not self.readable(60.0 if deadline is None else deadline - time.monotonic()):
            if deadline is not None and time.monotonic() >= deadline:
                raise Gone("the client says nothing")
        header = self._exactly(_HEADER)
        length = struct.unpack(">I", header[:4])[0] if self.accepted else struct.unpack(">H", header[:2])[0]
        return header[4], self._exactly(length - _HEADER)

    def _exactly(self, count: int) -> bytes:
        while len(self._pending) < count:
            with _ended_is_gone():
                got = self._sock.recv(65536)
            if not got:
                raise Gone
            self._pending += got
        found, self._pending = self._pending[:count], self._pending[count:]
        return found

    def discard(self, seconds: float) -> None:
        """Read and forget until the client has gone or the time is over."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self.readable(left):
                self._pending = b""
                with _ended_is_gone():
                    if not self._sock.recv(65536):
                        raise Gone

    # -- sending --------------------------------------------------------------------------------

    def framed(self, kind: Packet, body: bytes) -> bytes:
        """A packet as it is on the wire."""
        length = len(body) + _HEADER
        head = struct.pack(">I", length) if self.accepted else struct.pack(">HH", length, 0)
        return head + bytes([kind, 0, 0, 0]) + body

    def data(self, message: bytes, flags: int = 0) -> list[bytes]:
        """The packets of a message."""
        pieces = [message[at : at + _ROOM] for at in range(0, len(message), _ROOM)] or [b""]
        return [self.framed(Packet.DATA, struct.pack(">H", flags) + piece) for piece in pieces]

    def write(self, raw: bytes) -> None:
        with _ended_is_gone():
            self._sock.sendall(raw)

    def send(self, kind: Packet, body: bytes) -> None:
        self.write(self.framed(kind, body))

    def send_data(self, message: bytes) -> None:
        self.write(b"".join(self.data(message)))

    def send_marker(self, marker: Marker) -> None:
        self.send(Packet.MARKER, bytes([1, 0, marker]))

    # -- ending ---------------------------------------------------------------------------------

    def reset(self) -> None:
        """End the connection by a reset, as when the peer's machine restarted."""
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.close()

    def wake(self) -> None:
        """From another thread: whatever this connection waits for raises `Gone`."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()


@contextlib.contextmanager
def _ended_is_gone() -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError) as error:
        raise Gone(str(error)) from error
