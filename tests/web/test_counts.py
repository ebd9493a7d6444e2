"""What the server turns away, and what it answers, is counted by a closed set of reasons and codes."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

import pytest

from exporter.web.counts import CODES
from exporter.web.security.live import Security
from tests.servers.certificates import make_certificates
from tests.web.test_security import ask_tls, basic, client_context, hashed, tls_section

REASONS = {"too_many", "deadline", "tls", "certificate", "malformed"}


def refused(served: Any) -> dict[str, int]:
    return {why: number for why, number in served.server.view().refused.items() if number}


def answered(served: Any) -> dict[int, int]:
    return {code: number for code, number in served.server.view().answered.items() if number}


def said(client: socket.socket, words: bytes) -> None:
    with contextlib.suppress(OSError):
        client.sendall(words)
        while client.recv(4096):
            pass


@pytest.fixture
def secured(serve, tmp_path: Path):
    def start(text: str, **settings: float) -> tuple:
        file = tmp_path / "web.yaml"
        file.write_text(text)
        security = Security(file)
        return serve(security=security, **settings), security, file

    return start


def test_everything_begins_at_zero(serve) -> None:
    view = serve().server.view()
    assert view.refused == dict.fromkeys(REASONS, 0)
    assert view.answered == dict.fromkeys(CODES, 0)
    assert view.certificate_ends is None


def test_answers_are_counted_by_their_code(secured, tmp_path: Path) -> None:
    served, _, _ = secured(f"basic_auth_users:\n  a: {hashed('b')}\nrate_limit:\n  interval: 1h\n  burst: 8\n")
    right = basic("a", "b")
    for path in ("/metrics", "/sd", "/nothing", "/probe?target=unknown"):
        served.ask("GET", path, right)
    served.ask("GET", "/metrics", right, body=b"x" * 20_000)
    served.ask("GET", "/metrics", {**right, "X": "y" * 17_000})
    served.ask("PUT", "/metrics", right)
    served.ask("GET", "/metrics")
    served.ask("POST", "/-/reload", {**right, "Origin": "http://evil.example"})
    served.ask("GET", "/metrics", right)
    served.ask("GET", "/metrics", right)
    served.ask("GET", "/-/healthy")
    assert answered(served) == {200: 3 + 1, 404: 1, 400: 1, 413: 1, 431: 1, 405: 1, 401: 1, 403: 1, 429: 1}
    assert refused(served) == {}


def test_connections_that_end_without_an_answer(serve, eventually) -> None:
    served = serve(header_timeout=0.3, max_connections=4)
    with served.dial() as client:
        said(client, b"\x16\x03\x01 this is TLS\r\n\r\n")
    with served.dial() as client:
        said(client, b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000)
    eventually(lambda: refused(served) == {"malformed": 2})
    with served.dial() as client:
        said(client, b"GET /metr")
    eventually(lambda: refused(served) == {"malformed": 2, "deadline": 1})
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(served.dial())
        eventually(lambda: refused(served).get("too_many") == 2)


def test_an_idle_connection_that_is_closed_is_not_refused(serve, eventually) -> None:
    served = serve(header_timeout=0.1)
    with served.dial() as client:
        said(client, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    eventually(lambda: served.server.open_connections == 0)
    assert refused(served) == {}


def test_who_does_not_get_through_tls(secured, tmp_path: Path, eventually) -> None:
    certificates = make_certificates(tmp_path)
    more = f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {certificates.ca}\n"
    more += "  client_allowed_sans: [prometheus.example]\n"
    served, _, _ = secured(tls_section(certificates.server, more), header_timeout=0.3)
    with served.dial() as client:
        said(client, b"GET /metrics HTTP/1.1\r\n\r\n")
    eventually(lambda: refused(served) == {"tls": 1})
    with served.dial():
        eventually(lambda: refused(served) == {"tls": 2})
    for pair in (certificates.wrong_client, None):
        with contextlib.suppress(OSError):
            ask_tls(served, client_context(certificates.ca, pair))
    eventually(lambda: refused(served) == {"tls": 4})
    with contextlib.suppress(OSError):
        ask_tls(served, client_context(certificates.ca, certificates.client))
    eventually(lambda: refused(served) == {"tls": 4, "certificate": 1})
    assert ask_tls(served, client_context(certificates.ca, certificates.named_client)) == 200
    assert served.server.view().certificate_ends is not None
