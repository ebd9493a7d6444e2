"""A real server on a real socket, a client that speaks raw bytes, and waiting for conditions."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from exporter.config.schema import WebSettings
from exporter.web.pages.landing import Landing
from exporter.web.routes import AppState
from exporter.web.security.live import Security
from exporter.web.server import WebServer, bind

TEXT = b"# HELP tde_target_up up\n# TYPE tde_target_up gauge\ntde_target_up 1\n"
OPENMETRICS = TEXT + b"# EOF\n"


@dataclass(frozen=True)
class FixedPage:
    text: bytes = TEXT
    text_gzip: bytes = field(default_factory=lambda: gzip.compress(TEXT, mtime=0))
    openmetrics: bytes = OPENMETRICS
    openmetrics_gzip: bytes = field(default_factory=lambda: gzip.compress(OPENMETRICS, mtime=0))
    text_type: str = "text/plain; version=0.0.4; charset=utf-8"
    openmetrics_type: str = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass
class Served:
    """What the server shows; tests change it while the server runs."""

    page: FixedPage | None = field(default_factory=FixedPage)
    is_fresh: bool = True
    health: tuple[bool, str] = (True, "all loops turn")
    readiness: tuple[bool, str] = (True, "first pass done")
    landing: Callable[[], Landing] = lambda: Landing("0.0.0", 0.0, 60.0)
    targets: dict[str, str] = field(default_factory=lambda: {"orders": "mariadb", "billing": "oracle"})
    server: WebServer = None  # type: ignore[assignment]

    def current(self) -> FixedPage | None:
        return self.page

    def part(self, target: str) -> FixedPage | None:
        return None if self.page is None else FixedPage(text=f"# of {target or 'the exporter'}\n".encode())

    def fresh(self) -> bool:
        return self.is_fresh

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.server.url.partition("://")[2].split(":")
        return host, int(port)

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """One request on a connection of its own: (status, headers with lower-case names, body)."""
        connection = http.client.HTTPConnection(*self.address, timeout=50)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {}, body=body)
            with connection.getresponse() as response:
                return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()

    def dial(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=50)


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers on free loopback ports; keyword arguments are web settings, or the `security` of the web."""
    running: list[WebServer] = []

    def start(*, security: Security | None = None, **settings: float) -> Served:
        served = Served()
        state = AppState(
            served, lambda: served.health, lambda: served.readiness, lambda: served.landing(), lambda: served.targets
        )
        served.server = WebServer(state, WebSettings.model_validate(settings), bind("127.0.0.1", 0), security)
        served.server.start()
        running.append(served.server)
        return served

    yield start
    stopped = [server.stop(timeout=25.0) for server in running]
    assert all(stopped)


def _eventually(condition: Callable[[], bool], within: float = 50.0) -> None:
    """Wait until `condition` holds; fails after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture(name="eventually")
def _eventually_fixture() -> Callable[..., None]:
    return _eventually
