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


def ask(host: str, port: int, secure: bool) -> tuple[int, str]:
    """Status and words of /-/healthy. Raises OSError or http.client.HTTPException."""
    connection: http.client.HTTPConnection
    if secure:
        # To oneself, over loopback: the certificate is made out for the name that others use.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        connection.request("GET", "/-/healthy")
        answer = connection.getresponse()
        return answer.status, answer.read(500).decode("utf-8", "replace").strip()
    finally:
        connection.close()


def main() -> int:
    """Ask, and say what was answered; Docker keeps the words."""
    port = int(os.environ.get("TDE_EXPORTER_WEB__PORT", "10161"))
    host = os.environ.get("TDE_EXPORTER_WEB__LISTEN_ADDRESS", "0.0.0.0").strip("[]")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        try:
            status, words = ask(host, port, secure=False)
        except (http.client.HTTPException, ConnectionResetError):
            # What speaks TLS gives no answer to plain HTTP.
            status, words = ask(host, port, secure=True)
    except ssl.SSLError as error:
        # It asks for a certificate, which settles that it lives; how it is, only those who have one can ask.
        if "CERTIFICATE_REQUIRED" in str(error.reason):
            print("lives; asks for a client's certificate")
            return 0
        print(f"not healthy: {error}")
        return 1
    except (OSError, http.client.HTTPException) as error:
        print(f"not healthy: {error}")
        return 1
    print(words)
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
