#!/usr/local/bin/python3 -IS
"""The image's health check: asks the exporter in this container whether it is healthy; exit code 0 or 1.

A program of its own, of the standard library alone: it runs twice a minute, and loading the exporter
for it would cost more than the exporter itself takes at rest.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys

TIMEOUT = 4.0
"""Seconds; below the timeout of the image's HEALTHCHECK."""


NO_CERTIFICATE = "lives; asks for a client's certificate"


def ask(connection: http.client.HTTPConnection) -> tuple[bool, str]:
    """What /-/healthy says. Raises OSError or http.client.HTTPException."""
    connection.request("GET", "/-/healthy")
    answer = connection.getresponse()
    return answer.status == 200, answer.read(500).decode("utf-8", "replace").strip()


def ask_securely(host: str, port: int) -> tuple[bool, str]:
    """The same of a server that speaks TLS.

    One that asks for a certificate does not say how it is; but whoever shakes hands, or refuses to in
    TLS's own words, lives.
    """
    # To oneself: the certificate is made out for the name that others use.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)
    try:
        connection.connect()
        try:
            return ask(connection)
        except (ConnectionError, ssl.SSLError):
            # Under TLS 1.3 a client hears of it only after the handshake.
            return True, NO_CERTIFICATE
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            return True, NO_CERTIFICATE
        raise
    finally:
        connection.close()


def main() -> int:
    """Ask, and say what was answered; Docker keeps the words."""
    port = int(os.environ.get("TDE_EXPORTER_WEB__PORT", "10161"))
    host = os.environ.get("TDE_EXPORTER_WEB__LISTEN_ADDRESS", "0.0.0.0").strip("[]")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    plain = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        try:
            healthy, words = ask(plain)
        except (http.client.HTTPException, ConnectionResetError):
            # What speaks TLS gives no answer to plain HTTP.
            healthy, words = ask_securely(host, port)
    except (OSError, http.client.HTTPException) as error:
        healthy, words = False, f"not healthy: {error}"
    finally:
        plain.close()
    print(words)
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
