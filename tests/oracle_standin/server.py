"""The stand-in for an Oracle database: listens on a loopback port, and answers python-oracledb as a database would.

with Standin(Database("19")) as server:
    connection = oracledb.connect(user="mon", password="secret", dsn=server.dsn("pdb1"))
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from typing import Self

from tests.oracle_standin import standard
from tests.oracle_standin.conversation import Executed, Shared
from tests.oracle_standin.faults import Faults
from tests.oracle_standin.model import Database
from tests.oracle_standin.session import Session
from tests.oracle_standin.statements import Statements
from tests.servers.certificates import Pair

_END_S = 10.0


def tls_context(server: Pair, *, client_authority: str | None = None) -> ssl.SSLContext:
    """For TCPS with the server's certificate; with an authority, clients must show a certificate of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    if client_authority:
        context.load_verify_locations(client_authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Standin:
    """A server in threads of this process.

    Attributes:
        database: What it shows; change it while clients are connected.
        statements: What it answers; add what the code under test asks.
        faults: What is wrong with it.
        executed: All executions so far, in their order.
        unknown: Texts that were asked and are not in the table: a test of an allow-list asserts that there are none.
    """

    def __init__(
        self,
        database: Database | None = None,
        *,
        statements: Statements | None = None,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._shared = Shared(database or Database(), statements or standard.statements(), Faults())
        self._tls = tls
        self._listener: socket.socket | None = None
        self._sessions: list[Session] = []
        self._lock = threading.Lock()
        self.host, self.port = host, 0
        self._acceptor: threading.Thread | None = None
        self.listen()

    # -- what tests look at ---------------------------------------------------------------------

    @property
    def database(self) -> Database:
        return self._shared.database

    @property
    def statements(self) -> Statements:
        return self._shared.statements

    @property
    def faults(self) -> Faults:
        return self._shared.faults

    @property
    def executed(self) -> list[Executed]:
        return self._shared.executed

    @property
    def unknown(self) -> list[str]:
        return self._shared.unknown

    @property
    def connects(self) -> int:
        """How many connections were ever accepted."""
        return self._shared.connects

    @property
    def logins(self) -> int:
        """How many passwords were ever received, right or wrong."""
        return self._shared.logins

    @property
    def flooded(self) -> int:
        """Bytes of answers without end that were sent, as far as the client took them."""
        return self._shared.flooded

    @property
    def connections(self) -> int:
        """How many are open now, logged in or not."""
        return len(self._alive())

    def dsn(self, service: str = "pdb1", *, host: str | None = None) -> str:
        """An Easy Connect string."""
        scheme = "tcps://" if self._tls else ""
        return f"{scheme}{host or self.host}:{self.port}/{service}"

    # -- what tests do --------------------------------------------------------------------------

    def end_sessions(self, code: int = 0, *, sid: int | None = None) -> None:
        """End all sessions, or one: by an error (28, 1092, 3113 ...) at their current or next call, or, with 0, by
        closing their connections at once, as when the instance was stopped or its role changed."""
        for session in self._alive():
            if sid is None or (session.seat and session.seat.sid == sid):
                session.end(code)

    def deafen(self) -> None:
        """Listen no more: new connections are refused by the host. Sessions live on."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            assert self._acceptor
            self._acceptor.join(_END_S)
            listener.close()

    def listen(self) -> None:
        """Listen again, on the same port."""
        if self._listener is None:
            self._listener = socket.create_server((self.host, self.port), backlog=128)
            self.port = self._listener.getsockname()[1]
            self._acceptor = threading.Thread(
                target=self._accept, args=(self._listener,), name="oracle-standin", daemon=True
            )
            self._acceptor.start()

    def close(self) -> None:
        """End everything. Raises the first failure of the stand-in itself, if there was one."""
        self.deafen()
        for session in self._alive():
            session.end()
        deadline = time.monotonic() + _END_S
        for session in self._alive():
            session.join(max(0.0, deadline - time.monotonic()))
        left = self._alive()
        assert not left, f"{len(left)} sessions do not end"
        if self._shared.failures:
            failure = self._shared.failures[0]
            self._shared.failures = []
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- in threads -----------------------------------------------------------------------------

    def _alive(self) -> list[Session]:
        with self._lock:
            self._sessions = [each for each in self._sessions if each.is_alive()]
            return list(self._sessions)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = Session(sock, self._shared, self._tls)
            with self._lock:
                self._shared.connects += 1
                session.start()
                self._sessions.append(session)
