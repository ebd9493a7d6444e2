"""Clients that are slow, silent, greedy or hostile, beside one that only wants its metrics."""

from __future__ import annotations

import contextlib
import gzip
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stopwatch import Stopwatch

SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def until_closed(client: socket.socket) -> bytes:
    """Everything that the server sends until it hangs up."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(65536):
            received += chunk
    return received


def answer(client: socket.socket) -> bytes:
    """One answer with a body of known length, on a connection that stays open."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += client.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    while len(body) < length:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


def test_two_hundred_silent_clients_do_not_delay_a_scrape(serve: Any, eventually: Callable[..., None]) -> None:
    served = serve(header_timeout=1.5)
    assert served.ask("GET", "/metrics")[0] == 200
    threads = threading.active_count()
    eventually(lambda: served.server.open_connections == 0)
    files = open_files()

    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(served.dial()) for _ in range(200)]
        eventually(lambda: served.server.open_connections + served.server.timed_out_connections >= 200)
        assert served.ask("GET", "/metrics")[0] == 200
        # Whoever had to wait for them would be served when all of them had been thrown out.
        assert served.server.timed_out_connections < 200
        assert threading.active_count() == threads

        assert [until_closed(client) for client in silent] == [b""] * 200
        eventually(lambda: served.server.open_connections == 0)
        assert served.server.timed_out_connections == 200
        assert open_files() == files + 200  # Only the clients' own ends.
    assert open_files() == files
    assert threading.active_count() == threads


def test_a_client_that_drips_its_headers_is_cut(serve: Any) -> None:
    served = serve(header_timeout=0.5)
    started = time.monotonic()
    with served.dial() as client, contextlib.suppress(ConnectionError):
        client.settimeout(0.02)
        while time.monotonic() - started < 20:
            client.sendall(b"G" if time.monotonic() == started else b"x")
            with contextlib.suppress(TimeoutError):
                if client.recv(1) == b"":
                    break
    assert served.server.timed_out_connections == 1
    assert served.ask("GET", "/metrics")[0] == 200


def test_the_second_request_of_a_connection_has_the_same_deadline(serve: Any) -> None:
    served = serve(header_timeout=0.4)
    with served.dial() as client:
        client.sendall(SCRAPE)
        assert answer(client).startswith(b"HTTP/1.1 200")
        watch = Stopwatch()
        client.sendall(b"GET /metr")
        assert until_closed(client) == b""
        assert watch.seconds < 2.0  # Less than the 2.4 s of an idle connection.


def test_an_idle_connection_is_closed_in_the_end(serve: Any, eventually: Callable[..., None]) -> None:
    served = serve(header_timeout=0.1)
    with served.dial() as client:
        client.sendall(SCRAPE)
        assert answer(client).startswith(b"HTTP/1.1 200")
        assert until_closed(client) == b""
    eventually(lambda: served.server.open_connections == 0)


def test_a_connection_that_is_used_stays_open_beyond_every_deadline(serve: Any) -> None:
    served = serve(header_timeout=0.5)
    with served.dial() as client:
        for _ in range(4):
            client.sendall(SCRAPE)
            assert answer(client).startswith(b"HTTP/1.1 200")
            until = time.monotonic() + 0.6  # Longer than a header timeout, shorter than idleness may last.
            while time.monotonic() < until:
                time.sleep(0.05)
    assert served.server.timed_out_connections == 0


def test_requests_sent_ahead_are_all_answered(serve: Any) -> None:
    served = serve()
    with served.dial() as client:
        last = b"HEAD /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        client.sendall(SCRAPE * 50 + last)
        assert until_closed(client).count(b"HTTP/1.1 200 OK") == 51


def test_a_client_that_does_not_read_its_answer_is_cut(serve: Any, eventually: Callable[..., None]) -> None:
    served = serve(header_timeout=0.2)
    served.page = type(served.page)(text=b"x" * 30_000_000)
    with served.dial() as client:
        client.sendall(SCRAPE)
        eventually(lambda: served.server.timed_out_connections == 1)
        eventually(lambda: served.server.open_connections == 0)
        assert len(until_closed(client)) < 30_000_000


def test_a_client_that_does_not_read_and_asks_on_is_cut(serve: Any, eventually: Callable[..., None]) -> None:
    served = serve(header_timeout=0.2)
    served.page = type(served.page)(text=b"x" * 3_000_000)
    with served.dial() as client:
        client.settimeout(0.2)
        deadline = time.monotonic() + 20
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < deadline:
                with contextlib.suppress(TimeoutError):
                    client.sendall(SCRAPE)
        assert time.monotonic() < deadline
    eventually(lambda: served.server.open_connections == 0)


def test_a_large_page_reaches_a_client_that_reads(serve: Any) -> None:
    served = serve()
    text = os.urandom(1000) * 20_000
    served.page = type(served.page)(text=text, text_gzip=gzip.compress(text, 1))
    assert served.ask("GET", "/metrics")[2] == text
    assert gzip.decompress(served.ask("GET", "/metrics", {"Accept-Encoding": "gzip"})[2]) == text


def test_more_connections_than_allowed_are_closed_at_once_and_counted(
    serve: Any, eventually: Callable[..., None]
) -> None:
    served = serve(max_connections=4, header_timeout=30)
    with contextlib.ExitStack() as stack:
        allowed = [stack.enter_context(served.dial()) for _ in range(4)]
        eventually(lambda: served.server.open_connections == 4)
        for _ in range(3):
            with served.dial() as refused:
                assert until_closed(refused) == b""
        assert served.server.refused_connections == 3
        allowed[0].sendall(SCRAPE)
        assert answer(allowed[0]).startswith(b"HTTP/1.1 200")

        allowed[1].close()
        eventually(lambda: served.server.open_connections == 3)
        assert served.ask("GET", "/metrics")[0] == 200
    eventually(lambda: served.server.open_connections == 0)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", {b"400", b"431"}),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 500_000, {b"400", b"431"}),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5_000 + b"\r\n", {b"400", b"431"}),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {b"400", b"404", b"414", b"431"}),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n", {b"413"}),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n", {b"413"}),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", {b"400"}),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", {b"400"}),
        (b"GET /metrics HTTP/1.1\r\n\r\n", {b"400"}),
        (b"GET /metrics SPDY/9\r\n\r\n", {b"400"}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {b"400"}),
        (b"\r\n\r\n\x00\xff\r\n\r\n", {b"400"}),
    ],
)
def test_nonsense_is_refused_and_the_connection_closed(
    serve: Any, request_bytes: bytes, status: set[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(header_timeout=2)
    with caplog.at_level(logging.WARNING), served.dial() as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(request_bytes)
        received = until_closed(client)
    assert received[9:12] in status or (received == b"" and len(request_bytes) > 65536)
    assert b"Traceback" not in received
    assert caplog.records == []
    assert served.ask("GET", "/metrics")[0] == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_small_body_is_read_and_ignored(serve: Any, method: str, chunked: bool) -> None:
    served = serve()
    body = b"4\r\nabcd\r\n0\r\n\r\n" if chunked else b"abcd"
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 4"
    with served.dial() as client:
        client.sendall(method.encode() + b" /metrics HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
        client.sendall(body)
        assert answer(client)[9:12] == (b"200" if method == "GET" else b"405")
        client.sendall(SCRAPE)
        assert answer(client)[9:12] == b"200"


def test_an_endless_body_is_cut(serve: Any) -> None:
    served = serve(header_timeout=1)
    with served.dial() as client:
        sent = 0
        with contextlib.suppress(ConnectionError):
            client.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            while sent < 200_000_000:
                client.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                sent += 4096
        assert sent < 200_000_000
    assert served.ask("GET", "/metrics")[0] == 200


def test_a_body_that_never_comes_is_cut(serve: Any) -> None:
    served = serve(header_timeout=0.3)
    with served.dial() as client:
        client.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
        assert until_closed(client) == b""
    assert served.server.timed_out_connections == 1


def test_an_upgrade_is_not_taken(serve: Any) -> None:
    served = serve()
    with served.dial() as client:
        client.sendall(
            b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert answer(client).startswith(b"HTTP/1.1 200")


def test_clients_that_hang_up_at_any_moment_leave_nothing_behind(
    serve: Any, eventually: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    served = serve()
    served.page = type(served.page)(text=b"x" * 3_000_000)
    with caplog.at_level(logging.WARNING):
        for cut in range(0, len(SCRAPE) + 1, 3):
            with served.dial() as client:
                # Closing with unread data, or at once, sends a reset.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                client.sendall(SCRAPE[:cut])
        eventually(lambda: served.server.open_connections == 0)
    assert caplog.records == []
    assert served.ask("GET", "/metrics")[0] == 200
