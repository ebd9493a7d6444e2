"""From the web configuration to a TLS context, with errors that name the file and what is wrong with it."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exporter.config.web_config import CIPHERS, CURVES, TlsServer
from exporter.domain.errors import ConfigError

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_LARGEST = 1024 * 1024
"""Bytes of a file of certificates."""


class _Protected(Exception):
    """The key asks for a passphrase."""


def context_of(tls: TlsServer) -> ssl.SSLContext:
    """A context for the server's side, freshly read from the files. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = _VERSIONS[tls.min_version], _VERSIONS[tls.max_version]
    context.set_alpn_protocols(["http/1.1"])
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if chosen := [CIPHERS[suite] for suite in tls.cipher_suites if suite in CIPHERS]:
        try:
            context.set_ciphers(":".join(chosen))
        except ssl.SSLError:
            raise ConfigError(
                "OpenSSL offers none of these", where="cipher_suites", remedy="Name others, or remove the key"
            ) from None
    for curve in tls.curve_preferences:
        context.set_ecdh_curve(CURVES[curve])
    _load_certificate(context, tls)
    _load_authorities(context, tls)
    context.verify_mode = _CLIENTS[tls.client_auth_type]
    return context


def certificate_of(tls: TlsServer) -> str:
    """The text of the certificate with its chain; after `context_of`, which says what is wrong with it. Raises ConfigError."""
    if tls.cert_file is None:
        return tls.cert or ""
    try:
        return tls.cert_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise ConfigError(
            "cannot be read", where=str(tls.cert_file), remedy="Name a file that the user of the exporter may read"
        ) from None


def may_enter(allowed: tuple[str, ...], certificate: dict[str, object] | None) -> bool:
    """Whether a verified certificate, as `getpeercert` gives it, has one of the allowed alternative names; none: any."""
    if not allowed:
        return True
    names = (certificate or {}).get("subjectAltName", ())
    assert isinstance(names, tuple)
    return any(value in allowed for _, value in names)


def _load_certificate(context: ssl.SSLContext, tls: TlsServer) -> None:
    with _as_file(tls.cert_file, tls.cert) as certificate, _as_file(tls.key_file, tls.key) as key:
        shown_certificate, shown_key = tls.cert_file or "cert", tls.key_file or "key"
        for path, shown in ((certificate, shown_certificate), (key, shown_key)):
            _readable(path, str(shown))
        try:
            context.load_cert_chain(certificate, key, _refuse_to_prompt)
        except _Protected:
            raise ConfigError(
                "this key is protected by a passphrase", where=str(shown_key), remedy="Give a key without one"
            ) from None
        except OSError as error:  # An SSLError is one, too; a directory or a device has none of its reasons.
            if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
                words, where = f"this key does not belong to the certificate {shown_certificate}", str(shown_key)
                remedy = "Give the key that the certificate was made for"
            else:
                words, where = "certificate or key cannot be used", f"{shown_certificate}, {shown_key}"
                remedy = "Both must be in PEM form, the certificate of the server first"
            raise ConfigError(words, where=where, remedy=remedy) from None


def _load_authorities(context: ssl.SSLContext, tls: TlsServer) -> None:
    if tls.client_ca_file is None and tls.client_ca is None:
        return
    where = str(tls.client_ca_file or "client_ca")
    if tls.client_ca_file is not None:
        _readable(tls.client_ca_file, where)
    try:
        context.load_verify_locations(cafile=tls.client_ca_file, cadata=tls.client_ca)
    except (OSError, ValueError):
        raise ConfigError(
            "these certificates of authorities cannot be used", where=where, remedy="They must be in PEM form"
        ) from None


def _readable(path: Path, shown: str) -> None:
    try:
        # O_NONBLOCK: opening a named pipe that nobody writes to would otherwise wait for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as stream:
            status = os.fstat(stream.fileno())
        # What is given as text is in the memory, with a path of its own.
        if stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST:
            return
        words = "is no file of certificates"
    except OSError as error:
        words = (error.strerror or "cannot be read").lower()
    raise ConfigError(words, where=shown, remedy="Name a file that the user of the exporter may read")


def _refuse_to_prompt() -> str:
    # Without this, OpenSSL would ask on the terminal, and a service would wait for ever.
    raise _Protected


@contextmanager
def _as_file(path: Path | None, content: str | None) -> Iterator[Path]:
    """A path to read from: OpenSSL takes keys from files only. What stands in the configuration never reaches a disk."""
    if path is not None:
        yield path
        return
    descriptor = os.memfd_create("pem")
    try:
        with open(descriptor, "w", encoding="utf-8", closefd=False) as stream:
            stream.write(content or "")
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
