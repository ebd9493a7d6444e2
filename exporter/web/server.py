"""The web server: a socket, a thread with an event loop of its own, hard limits, and a stop that never hangs.

uvicorn speaks HTTP; serving and stopping are done here, because uvicorn's own stop waits for clients,
and because its signal handlers must not replace those of the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import resource
import socket
import threading
from email.utils import formatdate
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from exporter.config.schema import WebSettings
from exporter.domain.errors import ConfigError
from exporter.exposition.view import WebView
from exporter.web.connection import Door, LimitedConnection
from exporter.web.counts import Refusal, counting
from exporter.web.routes import MAX_HEADER_BYTES, AppState, build_app
from exporter.web.security.doorway import Doorway
from exporter.web.security.live import Security

STOP_GRACE = 0.5
"""Seconds that answers under way get when the server stops."""

_BACKLOG = 512
_ACCEPTED_AT_ONCE = 16
"""Connections taken in one turn of the loop, before those that are too many are closed again."""

SPARE_DESCRIPTORS = 48 + _ACCEPTED_AT_ONCE
"""File descriptors that are not for connections: history, probe processes, standard streams, files of the moment."""

FEWEST_CONNECTIONS = 4
_TURNS_OF_ACCEPTING = 3
"""Turns of the loop that asyncio takes from `accept` to `connection_made`."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SAID_AT_MOST_EVERY = 60.0
_log = logging.getLogger(__name__)


def bind(address: str, port: int) -> socket.socket:
    """A listening TCP socket on a numeric address or host name; port 0 takes a free one.

    It listens already, so that a second program on the same port is found out here, and clients
    that come before the server runs are kept waiting and not refused. Raises ConfigError.
    """
    host = address.strip().removeprefix("[").removesuffix("]")
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, proto)
    except (
        OSError,
        UnicodeError,
    ) as error:  # UnicodeError: no host name at all, for example one with two dots in a row.
        raise _unbindable(address, port, error) from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _unbindable(address, port, error) from None
    return sock


def _unbindable(address: str, port: int, error: OSError | UnicodeError) -> ConfigError:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, socket.gaierror | UnicodeError):
        problem, where = f"the address '{address}' cannot be resolved", "web.listen_address"
        remedy = "Set web.listen_address to an address of this machine, for example 127.0.0.1"
    elif number == errno.EADDRINUSE:
        problem, where = f"port {port} on {address} is in use by another program", "web.port"
        remedy = f"Stop that program (`ss -ltnp 'sport = :{port}'` names it) or set web.port to a free port"
    elif number in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        problem, where = f"this machine has no address {address}", "web.listen_address"
        remedy = "Set web.listen_address to an address of this machine, or to 0.0.0.0 for all of them"
    elif number in (errno.EACCES, errno.EPERM):
        problem, where = f"this user may not listen on port {port}", "web.port"
        remedy = "Set web.port to 1024 or above, or grant CAP_NET_BIND_SERVICE"
    else:
        problem, where = f"cannot listen on {address} port {port} ({error})", "web"
        remedy = "Set web.listen_address and web.port to what this machine can listen on"
    return ConfigError(problem, where=where, remedy=remedy)


class WebServer:
    """Serves `state` on `sock` (from `bind`) in a thread of its own, from `start` to `stop`."""

    def __init__(
        self, state: AppState, settings: WebSettings, sock: socket.socket, security: Security | None = None
    ) -> None:
        self._sock = sock
        self._security = security or Security()
        self._shaking_hands: set[Doorway] = set()
        self._address = sock.getsockname()
        self._door = Door(room_for(settings.max_connections), settings.header_timeout)
        self._config = Config(
            counting(build_app(state, self._security, self.loopback), self._door.counts),
            http=LimitedConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running, self._stopping = threading.Event(), asyncio.Event()

    @property
    def url(self) -> str:
        """Where a client on this machine reaches the server; without a slash at the end."""
        host, port = self._address[:2]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        scheme = "http" if self._security.rules.context is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        return ipaddress.ip_address(self._address[0].partition("%")[0]).is_loopback

    @property
    def open_connections(self) -> int:
        return self._door.open

    @property
    def refused_connections(self) -> int:
        """Connections closed at once because `max_connections` were open; since the start."""
        return self._door.counts.refused[Refusal.TOO_MANY]

    @property
    def timed_out_connections(self) -> int:
        """Connections torn down because the client kept a deadline waiting; since the start."""
        return self._door.timed_out

    def view(self) -> WebView:
        """What was counted, and until when the certificate of now is valid; from any thread."""
        counts, life = self._door.counts, self._security.rules.life
        return WebView(counts.refused, counts.answered, None if life is None else life.ends)

    def start(self) -> None:
        """Serve from now on. Returns when the server accepts connections."""
        self._security.start()
        self._thread.start()
        self._running.wait()

    def stop(self, timeout: float = 1.0) -> bool:
        """Stop within `timeout` seconds, whatever clients do; True when the thread has ended.

        Answers under way get up to `STOP_GRACE` to be finished. May be called more than once.
        """
        self._security.stop()
        if self._loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # The loop has been closed in the meantime.
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(timeout)
        if self._thread.is_alive():
            # The loop still watches the socket: closed under its hands, its number could soon mean something else.
            return False
        self._sock.close()
        return True

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                runner.run(self._serve(self._loop))
        except Exception:
            _log.exception("the web server ended")
        finally:
            self._running.set()
            self._sock.close()

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._config.load()
        loop.set_exception_handler(_Exhaustion())
        state = ServerState()

        def connection() -> LimitedConnection:
            return LimitedConnection(self._config, state, {}, self._door)

        server = await loop.create_server(
            lambda: Doorway(self._security, self._door, connection, self._shaking_hands),
            sock=self._sock,
            backlog=_ACCEPTED_AT_ONCE,
        )
        # What the loop takes at once is no limit for those that wait.
        self._sock.listen(_BACKLOG)
        self._running.set()
        dates = asyncio.create_task(_keep_date(state))
        await self._stopping.wait()
        dates.cancel()
        # A connection that is just being accepted when a server closes is lost by asyncio, and never closed.
        loop.remove_reader(self._sock)
        for _ in range(_TURNS_OF_ACCEPTING):
            await asyncio.sleep(0)
        server.close()
        for doorway in list(self._shaking_hands):
            doorway.abort()
        await _say_goodbye(state, self._door)


def room_for(connections: int) -> int:
    """How many of so many connections there are file descriptors for; raises the soft limit of this process if need be."""
    wanted = connections + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    room = max(FEWEST_CONNECTIONS, allowed - SPARE_DESCRIPTORS)
    if room < connections:
        _log.warning(
            "only %d connections at once, not %d: this process may have %d open files (ulimit -n)",
            room,
            connections,
            allowed,
        )
    return min(room, connections)


class _Exhaustion:
    """Exception handler of the loop. asyncio tells of every single connection that the system has no means for,
    hundreds of times a second; whoever can connect could fill the log. Once a minute is enough."""

    def __init__(self) -> None:
        self._said = -_SAID_AT_MOST_EVERY

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
        elif loop.time() - self._said >= _SAID_AT_MOST_EVERY:
            self._said = loop.time()
            _log.error("connections wait: the system gives no means for more", extra={"error": str(error)})


async def _keep_date(state: ServerState) -> None:
    """The header `Date` of all answers, renewed each second (RFC 9110 asks for it)."""
    while True:
        state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        await asyncio.sleep(1.0)


async def _say_goodbye(state: ServerState, door: Door) -> None:
    """Close idle connections, let answers under way finish for `STOP_GRACE`, tear down the rest."""
    for connection in list(state.connections):
        connection.shutdown()
    if door.open:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(door.empty.wait(), STOP_GRACE)
    for connection in list(state.connections):
        if connection.transport is not None:
            connection.transport.abort()
    # One more turn of the loop, in which the sockets are really closed.
    await asyncio.sleep(0)
