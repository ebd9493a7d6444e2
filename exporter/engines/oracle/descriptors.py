"""Where to connect to, as the driver wants to be told."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import oracledb

from exporter.config.secrets import SecretSource
from exporter.domain.errors import AuthenticationFailed, SecretError, TlsFailed, Unsupported
from exporter.engines.oracle.settings import ServerSettings, TlsSettings

_KEEP_ALIVE_MINUTES = 1
"""Firewalls forget connections that rest; a peer that is gone shall be noticed within two minutes."""

WALLET = "ewallet.pem"
"""What a wallet must hold, for the driver reads no other form."""

_MODES = {
    "normal": oracledb.AUTH_MODE_DEFAULT,
    "sysdba": oracledb.AUTH_MODE_SYSDBA,
    "sysdg": oracledb.AUTH_MODE_SYSDGD,
    "syskm": oracledb.AUTH_MODE_SYSKMT,
}


@dataclass(frozen=True)
class Descriptor:
    """How a server is reached."""

    server: ServerSettings

    @property
    def dsn(self) -> str:
        if self.server.dsn is not None:
            return self.server.dsn
        protocol = "tcp" if self.server.tls is None else "tcps"
        host = self.server.host
        return (
            f"(DESCRIPTION=(ADDRESS=(PROTOCOL={protocol})(HOST={host})(PORT={self.server.port}))"
            f"(CONNECT_DATA=(SERVICE_NAME={self.server.service})))"
        )

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All hosts that the driver may look up. Raises Unsupported for a descriptor that cannot be read."""
        if self.server.dsn is None:
            return (self.server.host,)
        parameters = oracledb.ConnectParams()
        try:
            parameters.parse_connect_string(self.server.dsn)
        except oracledb.Error:
            # Its words would repeat the descriptor.
            raise Unsupported("the driver does not understand the `dsn` of this target") from None
        found = parameters.host
        return tuple(found) if isinstance(found, list) else (found,) if found else ()

    def options(self) -> dict[str, Any]:
        """Further parameters of a connect. Raises TlsFailed for certificates that cannot be read."""
        options: dict[str, Any] = {"mode": _MODES[self.server.privilege], "expire_time": _KEEP_ALIVE_MINUTES}
        if (tls := self.server.tls) is not None:
            options |= {"ssl_server_dn_match": tls.verify_name, "ssl_context": _context(tls)}
            if tls.server_dn is not None:
                options["ssl_server_cert_dn"] = tls.server_dn
        return options


def _context(tls: TlsSettings) -> ssl.SSLContext:
    authorities = tls.ca or (tls.wallet / WALLET if tls.wallet is not None else None)
    try:
        context = ssl.create_default_context(cafile=authorities)
        # The driver compares the name itself, as Oracle's rules want it.
        context.check_hostname = False
        if tls.wallet is not None:
            _load_own_certificate(context, tls.wallet / WALLET, tls.wallet_password)
        return context
    except (OSError, ssl.SSLError) as error:
        words = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "it is no PEM file"
        raise TlsFailed(f"{authorities}: {words}") from None


def _load_own_certificate(context: ssl.SSLContext, file: Path, source: SecretSource | None) -> None:
    """A wallet need not hold a certificate of ours."""
    try:
        password = source.read() if source is not None else ""
    except SecretError as error:
        raise AuthenticationFailed(str(error)) from None
    if b"PRIVATE KEY" not in file.read_bytes():
        return
    # Without one, OpenSSL would ask at the terminal.
    context.load_cert_chain(file, password=lambda: password)
