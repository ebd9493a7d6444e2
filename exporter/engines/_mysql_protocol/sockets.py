"""Opens the socket below a connection, with a deadline over everything, and keeps a hand on it.

The driver's own connect has no deadline over the whole handshake, and what it reads from cannot be
woken by closing it. Shutting the socket down does wake it; so we open it, and keep a second handle.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from typing import Any

from exporter.domain.errors import ConnectFailed, DeadlineExceeded
from exporter.engines._mysql_protocol.failures import of_network, said
from exporter.engines._mysql_protocol.settings import ServerSettings
from exporter.engines.deadline import Guard

Address = tuple[Any, ...]


class Line:
    """The socket of one connection. Its `guard` cuts it when a limit expires; so does `cut`, from any thread."""

    def __init__(self) -> None:
        self._handle: socket.socket | None = None
        # Closing it meanwhile might give its number to another connection, which would be cut instead.
        self._handling = threading.Lock()
        self.is_cut = False
        self.guard = Guard(self.cut)

    def open(self, server: ServerSettings, timeout: float) -> socket.socket:
        """A connected socket for the driver. Raises ConnectFailed or DeadlineExceeded."""
        deadline = time.monotonic() + timeout
        if server.socket is not None:
            opened = _connected(socket.AF_UNIX, str(server.socket), deadline)
        else:
            opened = _dialled(resolved(server.host, server.port, timeout), deadline)
        # TLS takes the driver's socket object away; a duplicate stays valid and means the same connection.
        self._handle = opened.dup()
        return opened

    def cut(self) -> None:
        """End the connection under whoever reads or writes it."""
        self.is_cut = True
        with self._handling, contextlib.suppress(OSError):
            if self._handle is not None:
                self._handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the handle; nothing can be cut then."""
        with self._handling:
            if self._handle is not None:
                self._handle.close()
            self._handle = None


def _dialled(addresses: list[tuple[socket.AddressFamily, Address]], deadline: float) -> socket.socket:
    """The first address that answers; each gets its share of the time that is left."""
    for position, (family, address) in enumerate(addresses, 1):
        left = max(0.001, deadline - time.monotonic())
        last = position == len(addresses)
        try:
            opened = _connected(family, address, deadline if last else time.monotonic() + left / 2)
        except (ConnectFailed, DeadlineExceeded):
            if last:
                raise
            continue
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(opened)
        return opened
    raise ConnectFailed("the name has no address")


def _keep_alive(opened: socket.socket) -> None:
    """Firewalls forget connections that rest; a peer that is gone shall be noticed within two minutes."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _connected(family: socket.AddressFamily, address: Address | str, deadline: float) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.settimeout(max(0.001, deadline - time.monotonic()))
        opened.connect(address)
    except OSError as error:
        opened.close()
        raise of_network(error) from None
    return opened


class _Lookup:
    """A name being resolved in a thread of its own, for nothing can interrupt the system's resolver."""

    def __init__(self, host: str, port: int) -> None:
        self.found: list[tuple[socket.AddressFamily, Address]] = []
        self.problem = ""
        self.done = threading.Event()
        threading.Thread(target=self._run, args=(host, port), name="resolve", daemon=True).start()

    def _run(self, host: str, port: int) -> None:
        try:
            self.found = _addresses(host, port)
        except (OSError, UnicodeError) as error:
            self.problem = said(getattr(error, "strerror", None) or "no valid name").lower()
        finally:
            with _lookups_lock:
                _lookups.pop((host, port), None)
            self.done.set()


_lookups: dict[tuple[str, int], _Lookup] = {}
_lookups_lock = threading.Lock()


def resolved(host: str, port: int, timeout: float) -> list[tuple[socket.AddressFamily, Address]]:
    """The addresses of a host, asked anew each time.

    A resolver that hangs keeps one thread for each name, however often it is asked, until the system gives
    up. Raises ConnectFailed or DeadlineExceeded.
    """
    if _is_numeric(host):
        try:
            return _addresses(host, port, socket.AI_NUMERICHOST)
        except OSError as error:
            raise of_network(error) from None
    with _lookups_lock:
        lookup = _lookups[host, port] = _lookups.get((host, port)) or _Lookup(host, port)
    if not lookup.done.wait(timeout):
        raise DeadlineExceeded("the name was not resolved in time")
    if lookup.problem:
        raise ConnectFailed(f"the name cannot be resolved: {lookup.problem}")
    return lookup.found


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _addresses(host: str, port: int, flags: int = 0) -> list[tuple[socket.AddressFamily, Address]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]
