"""What the complaints about the MySQL family are tried on: one MariaDB and one MySQL, with twins that do not fit into memory."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemons import Daemon
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer
from tests.servers.server import Server, together
from tests.watched import POOL_MB, Watched

_users = itertools.count(1)
SLOW_LOGINS = {"connect-timeout": 60}
"""So that it is our deadline that ends a login that drips, and not the server's, which is the same."""
VERBOSE = {"log-error-verbosity": 3}
"""So that MySQL logs refused logins, as MariaDB does by itself."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, ...]]:
    """A MariaDB and a MySQL with twins. Whoever stops, breaks or changes one sets it right again."""
    mariadb = MariaDbServer("11.8", buffer_pool_mb=POOL_MB, options=SLOW_LOGINS)
    mysql = MySqlServer(buffer_pool_mb=POOL_MB, options=SLOW_LOGINS | VERBOSE)
    with together(mariadb, mysql) as started:
        for server in started:
            maker = Watched(server, tmp_path_factory.mktemp("twins"), user="maker")
            done = maker.provision()
            assert done.returncode == 0, done.stdout + done.stderr
            maker.remove()
        yield started


@pytest.fixture
def everywhere(servers: tuple[Server, ...], tmp_path: Path) -> Iterator[list[Watched]]:
    """Both servers, with an account of this test's own on each."""
    user = f"probe_{next(_users)}"
    made = []
    for server in servers:
        folder = tmp_path / server.binaries
        folder.mkdir()
        made.append(Watched(server, folder, user=user))
    yield made
    for watched in made:
        watched.remove()


class Scraper:
    """Scrapes the page ten times a second all the while, as several impatient Prometheus would."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._stop = daemon, threading.Event()
        self.seconds: list[float] = []
        self.problems: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            begun = time.monotonic()
            try:
                answer = self._daemon.get("/metrics")
            except httpx.HTTPError as error:
                self.problems.append(repr(error))
                continue
            self.seconds.append(time.monotonic() - begun)
            if answer.status_code != 200:
                self.problems.append(f"{answer.status_code}: {answer.text[:200]}")

    @property
    def pages(self) -> int:
        return len(self.seconds)

    @property
    def usual(self) -> float:
        """The seconds within which nineteen of twenty pages came: what waits for a database keeps all of them waiting."""
        return sorted(self.seconds)[len(self.seconds) * 19 // 20]

    def __enter__(self) -> Scraper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)


@pytest.fixture
def scraped() -> Callable[[Daemon], Any]:
    return Scraper


class Process:
    """Threads and sockets of the one probe process of a daemon."""

    def __init__(self, daemon: Daemon) -> None:
        (self.pid,) = daemon.children()

    @property
    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    @property
    def files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
