"""The proxy behaves as the network or the peer that it is told to be."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.processes import until
from tests.servers.proxy import Proxy


class _Echo:
    """A server that says back what it is told."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()
        self.threads: list[threading.Thread] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    @staticmethod
    def _serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while got := connection.recv(65536):
                connection.sendall(got)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def echo() -> Iterator[_Echo]:
    with contextlib.closing(_Echo()) as server:
        yield server


@pytest.fixture
def proxy(echo: _Echo) -> Iterator[Proxy]:
    with Proxy(echo.address) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(proxy.address, timeout=10) as connection:
        yield connection


def _answer(client: socket.socket, length: int) -> bytes:
    answer = b""
    while len(answer) < length:
        got = client.recv(65536)
        assert got, "the end came early"
        answer += got
    return answer


def test_it_passes_everything_in_both_directions_and_the_end(proxy: Proxy, client: socket.socket) -> None:
    text = bytes(range(256)) * 4000

    def send() -> None:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    assert _answer(client, len(text)) == text
    assert client.recv(1) == b""
    sender.join()
    until(lambda: proxy.connections == 0, "the connection to be forgotten")
    assert proxy.accepted == 1


def test_silence_holds_everything_back_and_breaks_nothing(proxy: Proxy, client: socket.socket) -> None:
    client.sendall(b"a")
    assert _answer(client, 1) == b"a"
    proxy.go_silent()
    client.sendall(b"b")
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.recv(1)
    with socket.create_connection(proxy.address, timeout=0.3) as late:
        late.sendall(b"c")
        with pytest.raises(TimeoutError):
            late.recv(1)
        proxy.go_on()
        for each, letter in ((client, b"b"), (late, b"c")):
            each.settimeout(10)
            assert _answer(each, 1) == letter


def test_dripping_gives_one_byte_at_a_time(proxy: Proxy, client: socket.socket) -> None:
    client.sendall(b"0")
    assert _answer(client, 1) == b"0"
    proxy.drip(interval_s=0.1)
    began = time.monotonic()
    client.sendall(b"12345")
    assert _answer(client, 5) == b"12345"
    assert time.monotonic() - began >= 0.4  # no sooner; how much later is the machine's affair
    proxy.go_on()
    client.sendall(b"x" * 1000)
    assert _answer(client, 1000) == b"x" * 1000


def test_garbling_changes_bytes_of_the_server_and_no_others(proxy: Proxy, client: socket.socket) -> None:
    proxy.garble()
    sent = bytes(range(256)) * 4
    client.settimeout(10)
    changed = 0
    for _ in range(20):
        client.sendall(sent)
        got = b""
        while len(got) < len(sent):
            got += client.recv(65536)
        differing = sum(one != other for one, other in zip(sent, got, strict=True))
        # A change on the way there would come back twice: the length stays, and few bytes differ.
        assert differing <= 4
        changed += differing
    assert changed


def test_reset_ends_what_there_is_and_what_comes(proxy: Proxy, client: socket.socket) -> None:
    client.sendall(b"a")
    assert _answer(client, 1) == b"a"
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionResetError), socket.create_connection(proxy.address, timeout=10) as late:
        late.recv(1)
    proxy.go_on()
    with socket.create_connection(proxy.address, timeout=10) as again:
        again.sendall(b"b")
        assert _answer(again, 1) == b"b"


def test_dropped_connections_can_come_again_at_once(proxy: Proxy, client: socket.socket) -> None:
    client.sendall(b"a")
    assert _answer(client, 1) == b"a"
    proxy.drop()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with socket.create_connection(proxy.address, timeout=10) as again:
        again.sendall(b"b")
        assert _answer(again, 1) == b"b"


def test_refusal_until_it_goes_on_at_the_same_port(proxy: Proxy, client: socket.socket) -> None:
    client.sendall(b"a")
    assert _answer(client, 1) == b"a"
    port = proxy.port
    proxy.refuse()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(proxy.address)
    proxy.go_on()
    assert proxy.port == port
    with socket.create_connection(proxy.address, timeout=10) as again:
        again.sendall(b"b")
        assert _answer(again, 1) == b"b"


def test_a_server_that_is_down_is_an_end_not_a_hang(proxy: Proxy, echo: _Echo) -> None:
    echo.close()
    with socket.create_connection(proxy.address, timeout=10) as client:
        assert client.recv(1) == b""
