"""Binding, and stopping whatever clients do."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.config.schema import WebSettings
from exporter.domain.errors import ConfigError
from exporter.web.pages.landing import Landing
from exporter.web.routes import AppState
from exporter.web.server import WebServer, bind

SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def refusal(address: str, port: int) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        bind(address, port)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    return caught.value


def test_a_port_in_use_is_found_out_when_binding() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        error = refusal("127.0.0.1", port)
    assert error.where == "web.port"
    assert f"port {port}" in str(error)
    assert "free port" in error.remedy


def test_a_port_just_left_can_be_taken_again(serve: Any) -> None:
    served = serve()
    served.ask("GET", "/metrics")
    with served.dial() as client:
        client.sendall(SCRAPE)
        client.recv(10)
        assert served.server.stop(5.0)
        bind("127.0.0.1", served.address[1]).close()


def test_an_address_of_another_machine_is_refused() -> None:
    error = refusal("192.0.2.1", 0)
    assert error.where == "web.listen_address"
    assert "192.0.2.1" in str(error)


@pytest.mark.parametrize("name", ["no-such-host.invalid", "two..dots", "x" * 300, "1.2.3.4.5", "ünïcödé..", "a b"])
def test_a_name_that_does_not_resolve_is_refused(name: str) -> None:
    error = refusal(name, 0)
    assert error.where == "web.listen_address"
    assert "resolved" in str(error)


UNPRIVILEGED = """
import os, sys
from exporter.domain.errors import ConfigError
from exporter.web.server import bind
"x".encode("idna")  # Loaded now: the other user may not be able to read this Python's library.
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    bind("127.0.0.1", 81)
except ConfigError as error:
    print(error)
"""


def test_a_privileged_port_names_the_way_out() -> None:
    unprivileged = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 81
    run = subprocess.run([sys.executable, "-c", UNPRIVILEGED], capture_output=True, text=True, timeout=60, check=True)
    expected = "" if unprivileged else "web.port: this user may not listen on port 81. Set web.port to 1024 or above"
    assert run.stdout.startswith(expected)
    assert bool(run.stdout) is not unprivileged


@pytest.mark.parametrize(
    ("address", "url"),
    [("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", "http://127.0.0.1:"), ("localhost", "http://")],
)
def test_the_url_is_where_a_client_finds_it(address: str, url: str, serve: Any) -> None:
    served = serve()
    state = AppState(served, lambda: (True, "yes"), lambda: (True, "yes"), lambda: Landing("0", 0.0, 0.0))
    server = WebServer(state, WebSettings(), bind(address, 0))
    try:
        server.start()
        assert server.url.startswith(url)
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as client:
            client.sendall(SCRAPE)
            assert client.recv(12) == b"HTTP/1.1 200"
    finally:
        assert server.stop(25.0)


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_ipv6_addresses_may_be_written_with_brackets(address: str) -> None:
    if has_ipv6():
        with bind(address, 0) as sock:
            assert sock.family is socket.AF_INET6
    else:
        assert refusal(address, 0).where == "web.listen_address"


def test_clients_that_come_before_the_start_are_served(serve: Any) -> None:
    sock = bind("127.0.0.1", 0)
    served = serve()
    state = AppState(served, lambda: (True, "yes"), lambda: (True, "yes"), lambda: Landing("0", 0.0, 0.0))
    server = WebServer(state, WebSettings(), sock)
    with socket.create_connection(sock.getsockname(), timeout=10) as early:
        early.sendall(SCRAPE)
        server.start()
        assert early.recv(12) == b"HTTP/1.1 200"
    assert server.stop(25.0)


def test_a_server_that_was_never_started_stops_and_frees_its_port() -> None:
    class Nothing:
        def current(self) -> None:
            return None

        def part(self, target: str) -> None:
            return None

        def fresh(self) -> bool:
            return False

    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    state = AppState(Nothing(), lambda: (True, ""), lambda: (True, ""), lambda: Landing("0", 0.0, 0.0))
    assert WebServer(state, WebSettings(), sock).stop()
    bind("127.0.0.1", port).close()


def test_stop_does_not_wait_for_clients(serve: Any, eventually: Callable[..., None]) -> None:
    served = serve(header_timeout=600)
    served.page = type(served.page)(text=b"x" * 30_000_000)
    threads = threading.active_count()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(served.dial()) for _ in range(30)]
        for client in clients[:10]:
            client.sendall(SCRAPE)  # And never reads.
        for client in clients[10:20]:
            client.sendall(SCRAPE[:10])
        eventually(lambda: served.server.open_connections == 30)
        assert served.server.stop(timeout=25.0)
        assert served.server.open_connections == 0
        assert threading.active_count() == threads - 1
        with pytest.raises(ConnectionRefusedError):
            served.dial()
    assert served.server.stop(timeout=0.0)


def test_an_answer_under_way_is_finished_before_the_stop(serve: Any) -> None:
    served = serve()
    served.page = type(served.page)(text=b"x" * 20_000_000)
    with served.dial() as client:
        client.sendall(SCRAPE)
        received = len(client.recv(65536))
        stopper = threading.Thread(target=served.server.stop, args=(30.0,))
        stopper.start()
        while chunk := client.recv(1 << 20):
            received += len(chunk)
        stopper.join(30.0)
    assert received > 20_000_000


def test_stop_gives_up_on_a_view_that_hangs(serve: Any, eventually: Callable[..., None]) -> None:
    served = serve()
    entered, release = threading.Event(), threading.Event()

    def hanging() -> Landing:
        entered.set()
        release.wait(60)
        return Landing("0", 0.0, 0.0)

    served.landing = hanging
    with served.dial() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert entered.wait(50)
        started = time.monotonic()
        assert served.server.stop(timeout=0.3) is False
        assert time.monotonic() - started < 25.0
        release.set()
        eventually(lambda: served.server.stop(timeout=0.1))


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_starts_and_stops_leave_nothing_behind(serve: Any) -> None:
    served = serve()
    before = open_files(), threading.active_count()
    state = AppState(served, lambda: (True, "yes"), lambda: (True, "yes"), lambda: Landing("0", 0.0, 0.0))
    for _ in range(20):
        server = WebServer(state, WebSettings(), bind("127.0.0.1", 0))
        server.start()
        assert server.stop(25.0)
    assert (open_files(), threading.active_count()) == before


FEW = """
import resource, socket, sys, time
from exporter import logs
from exporter.config.schema import WebSettings
from exporter.web.pages.landing import Landing
from exporter.web.routes import AppState
from exporter.web.server import WebServer, bind

soft, hard = (int(number) for number in sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
logs.configure()
pages = type("Pages", (), {"current": lambda self: None, "fresh": lambda self: False})()
sock = bind("127.0.0.1", 0)
server = WebServer(AppState(pages, lambda: (True, ""), lambda: (True, ""), lambda: Landing("0", 0.0, 0.0)), WebSettings(), sock)
server.start()
print(sock.getsockname()[1], resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
taken = [open("/dev/null") for _ in range(int(sys.stdin.readline()))]
print("taken", flush=True)
sys.stdin.readline()
"""


def with_descriptors(soft: int, hard: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", FEW, str(soft), str(hard)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_without_descriptors_for_connections_the_log_is_not_flooded() -> None:
    """Every client that waited was a traceback, thousands of them a second."""
    with with_descriptors(64, 64) as child, contextlib.ExitStack() as clients:
        assert child.stdin
        assert child.stdout
        port, _ = child.stdout.readline().split()
        # Whatever else the process has open leaves it none for connections.
        child.stdin.write("40\n")
        child.stdin.flush()
        assert child.stdout.readline() == "taken\n"
        for _ in range(100):
            clients.enter_context(socket.create_connection(("127.0.0.1", int(port)), timeout=30))
        time.sleep(2.5)  # as long as asyncio needs for two further attempts
        _, words = child.communicate("\n", timeout=60)

    lines = words.splitlines()
    assert len(lines) <= 3, lines[:10]
    assert [line for line in lines if "the system gives no means for more" in line]
    assert [line for line in lines if "ulimit -n" in line]


def test_the_soft_limit_of_descriptors_is_raised_as_far_as_connections_need_it() -> None:
    with with_descriptors(64, 1000) as child:
        assert child.stdout
        soft = int(child.stdout.readline().split()[1])
        _, words = child.communicate("0\n\n", timeout=60)

    assert WebSettings().max_connections < soft <= 1000
    assert words == ""
