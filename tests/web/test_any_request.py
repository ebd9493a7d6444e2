"""Whatever bytes a client sends, the answer is one of HTTP or an end, and the next client is served as if nothing had been."""

from __future__ import annotations

import contextlib
import re
import socket
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LINE = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30).map(str.encode)
WORD = st.sampled_from([b"GET", b"HEAD", b"POST", b"BREW", b""]) | LINE
TARGETS = st.text(max_size=20).map(lambda name: b"/probe?target=" + quote(name).encode()) | st.sampled_from(
    [
        b"/probe",
        b"/probe?target=orders",
        b"/probe?target=%ff%fe",
        b"/probe?target=a&target=b",
        b"/probe?target=../../etc",
    ]
)
PATH = (
    st.sampled_from(
        [
            b"/metrics",
            b"/",
            b"/-/healthy",
            b"/-/reload",
            b"/sd",
            b"//metrics",
            b"/metrics?target=%00",
            b"/metrics?only=%00",
            b"*",
        ]
    )
    | TARGETS
    | LINE
)
VERSION = st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b""])
HEADER = st.tuples(
    st.sampled_from(
        [
            b"Host",
            b"Accept",
            b"Accept-Encoding",
            b"Content-Length",
            b"Transfer-Encoding",
            b"Expect",
            b"Upgrade",
            b"Range",
        ]
    )
    | LINE,
    st.sampled_from(
        [b"", b"-1", b"99999999999999999999", b"chunked", b"100-continue", b"gzip;q=nan", b"h2c", b"\xff\x00"]
    )
    | st.binary(max_size=20),
)


def request(parts: tuple[bytes, bytes, bytes, list[tuple[bytes, bytes]], bytes]) -> bytes:
    method, path, version, headers, body = parts
    lines = [b" ".join([method, path, version]), *(name + b": " + value for name, value in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


requests = st.tuples(WORD, PATH, VERSION, st.lists(HEADER, max_size=5), st.binary(max_size=40)).map(request)


@pytest.fixture
def served(serve: Any) -> Any:
    return serve(header_timeout=1.0)


def said(served: Any, sent: bytes) -> bytes:
    """All that the server answers until it ends the connection, or we do."""
    with served.dial() as client:
        client.settimeout(10)
        received = b""
        with contextlib.suppress(ConnectionError):
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            while got := client.recv(65536):
                received += got
        return received


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(sent=requests | st.binary(max_size=200))
def test_any_request_is_answered_or_ended(served: Any, sent: bytes) -> None:
    received = said(served, sent)
    assert not received or re.match(rb"HTTP/1\.1 [1-5]\d\d ", received), received[:200]
    assert b"Traceback" not in received
    assert not re.match(rb"HTTP/1\.1 500 ", received), received[:200]
    assert said(served, SCRAPE).startswith(b"HTTP/1.1 200 ")
    assert served.server.refused_connections == 0
