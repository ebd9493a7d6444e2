"""The driver's connection with what it lacks: TLS that cannot be talked away, passwords that stay inside it, timing.

The only module that reaches into the driver.
"""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from typing import Any, NoReturn

import pymysql
from pymysql.constants import CLIENT

from exporter.domain.errors import ConnectFailed, TlsFailed
from exporter.engines._mysql_protocol.failures import said
from exporter.engines._mysql_protocol.settings import ServerSettings, TlsSettings

MOST_BYTES = 64 * 2**20
MOST_ROWS = 1_000_000
"""Of one answer, and of a login. None of our statements asks for nearly as much, and a peer that never comes to an end would
fill the memory faster than any deadline passes."""


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer and what it took, seen from here.

    `execute_seconds` lasts from the first byte sent to the head of the answer, `fetch_seconds` until its
    end has been read. A server sends the head of a short answer together with its rows.
    """

    rows: list[tuple[Any, ...]]
    affected: int
    execute_seconds: float
    fetch_seconds: float


class _Revealing:
    """Stands for login methods that hand the password to the peer, who has not proven who it is."""

    def __init__(self, connection: object) -> None:
        pass

    def authenticate(self, packet: object) -> NoReturn:
        raise TlsFailed(
            "the server asks for the password in clear text; it gets it over a socket, or with tls.mode verify_ca or verify_identity"
        )


REVEALING = ("mysql_clear_password", "dialog", "mysql_old_password")
"""Login methods of which the peer, or whoever sits between, learns the password. Nobody but the peer chooses the method."""


class Wire(pymysql.connections.Connection):
    """A connection that is not yet open; `connect(sock)` logs in."""

    _result: Any

    def __init__(self, server: ServerSettings, secret: str, program: str) -> None:
        context = None if _plain(server) else tls_context(server.tls)
        self._received = 0
        self._demands_tls = context is not None and server.tls.mode != "preferred"
        trusted = server.socket is not None or server.tls.verifies
        super().__init__(
            host=server.host,
            user=server.user,
            # As bytes: the driver would write text in Latin-1.
            password=secret.encode(),
            charset="utf8mb4",
            autocommit=True,
            local_infile=False,
            connect_timeout=1,  # not used, for the socket is opened elsewhere
            program_name=program,
            ssl=context,
            ssl_disabled=context is None,
            auth_plugin_map={} if trusted else dict.fromkeys(REVEALING, _Revealing),
            defer_connect=True,
        )
        self._secure = server.socket is not None

    @property
    def secure(self) -> bool:
        """Whether nobody between can read along: TLS, or a socket on this machine."""
        return bool(self._secure)

    def forget_secret(self) -> None:
        """The driver keeps the password for reconnects, which are never made."""
        self.password = b""

    def patience(self, seconds: float) -> None:
        """How long a single read or write may wait; a brace to the belt of the hard deadline."""
        self._read_timeout = self._write_timeout = seconds

    def ask(self, statement: bytes) -> Timed:
        """Send one statement and read its whole answer. Raises ConnectFailed for one that is longer than anything we asked."""
        self._received = 0
        begun = time.perf_counter()
        affected = self.query(statement, unbuffered=True)
        result = self._result
        headed = time.perf_counter()
        rows = []
        while result.unbuffered_active and (row := result._read_rowdata_packet_unbuffered()) is not None:
            rows.append(row)
            if len(rows) > MOST_ROWS:
                raise ConnectFailed(f"the answer has more than {MOST_ROWS} rows, which we did not ask for")
        done = time.perf_counter()
        return Timed(rows, len(rows) if result.description else affected, headed - begun, done - headed)

    def named(self, answer: Timed) -> list[dict[str, Any]]:
        """The rows of the last answer by the names of their columns."""
        result = self._result
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in answer.rows]

    def abandon(self) -> None:
        """Close at once, without a word to the server; never raises."""
        result = self._result
        if result is not None:
            # It would read the rest of its rows when it is collected.
            result.unbuffered_active = False
        self._force_close()  # type: ignore[attr-defined]

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._received += num_bytes
        if self._received > MOST_BYTES:
            raise ConnectFailed(f"the answer is longer than {MOST_BYTES // 2**20} MiB, which we did not ask for")
        read: bytes = super()._read_bytes(num_bytes)  # type: ignore[misc]
        return read

    def _get_server_information(self) -> None:
        super()._get_server_information()  # type: ignore[misc]
        if self.ssl and not self.server_capabilities & CLIENT.SSL:  # type: ignore[attr-defined]
            if self._demands_tls:
                raise TlsFailed("the server offers no TLS")
            self.ssl = False
            self.client_flag &= ~CLIENT.SSL


def _plain(server: ServerSettings) -> bool:
    mode = server.tls.mode
    return mode == "disabled" or (server.socket is not None and mode == "preferred")


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """What TLS has to be like. Made for each connect, so that renewed certificates are used. Raises TlsFailed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.mode == "verify_identity"
    context.verify_mode = ssl.CERT_REQUIRED if tls.verifies else ssl.CERT_NONE
    what = f"the certificates in {tls.ca}"
    try:
        if tls.verifies and tls.ca is not None:
            context.load_verify_locations(cafile=tls.ca)
        elif tls.verifies:
            context.load_default_certs()
        if tls.certificate is not None:
            what = f"the certificate {tls.certificate} with its key {tls.key}"
            # Without a passphrase given here, OpenSSL would ask on the terminal for that of an encrypted key.
            context.load_cert_chain(tls.certificate, tls.key, password="")
    except (OSError, ValueError) as error:
        words = said(getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error))
        raise TlsFailed(f"{what} cannot be used: {words.lower().replace('_', ' ')}") from None
    return context
