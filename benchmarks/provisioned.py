"""Private database servers with twins on them, and exporters that watch them, for benchmarks.

The servers are those of the tests; the account that measures has the grants that `provision --print` names.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.capacity import TICK, scrape, wait_until_ready
from exporter.engines.mariadb.ddl import MariaDbDdl
from exporter.engines.mysql.ddl import MySqlDdl
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer
from tests.servers.room import free_port
from tests.servers.server import Server

SCHEMA = "tde_canary"
USER = "tde_exporter"
NAME = "db"
SERVERS = {"mariadb": MariaDbServer, "mysql": MySqlServer}


@dataclass(frozen=True)
class Watched:
    """A server with twins, and a folder for whoever watches it."""

    server: Server
    engine: str
    folder: Path
    size: int

    def target(self, **more: Any) -> dict[str, Any]:
        """The server as a target of a configuration."""
        host, port = self.server.address
        return {
            "name": NAME,
            "engine": self.engine,
            "host": host,
            "port": port,
            "user": USER,
            "password": {"file": str(self.folder / "secret")},
            "tls": {"mode": "disabled"},
            "pairs": [{"name": "main", "bytes": self.size}],
        } | more


@contextlib.contextmanager
def watched(engine: str, size: int, pool_mb: int, **options: Any) -> Iterator[Watched]:
    """Start a server and make twins of `size` bytes each on it."""
    with tempfile.TemporaryDirectory() as directory, SERVERS[engine](buffer_pool_mb=pool_mb, **options) as server:
        found = Watched(server, engine, Path(directory), size)
        (found.folder / "root").write_text(server.password)
        (found.folder / "secret").write_text("unknown yet")
        config = write_config(found.folder, {"targets": [found.target()]})
        login = ("--user", server.user, "--password-file", str(found.folder / "root"))
        subprocess.run(
            [sys.executable, "-m", "exporter", "-c", str(config), "provision", *login],
            env={**os.environ, "TDE_EXPORTER_STATE_DIRECTORY": directory},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        ddl = MySqlDdl() if engine == "mysql" else MariaDbDdl()
        (found.folder / "secret").write_text(server.create_user(USER, grants=ddl.grants(SCHEMA)))
        yield found


def write_config(folder: Path, settings: dict[str, Any]) -> Path:
    """JSON is YAML."""
    path = folder / "config.yaml"
    path.write_text(json.dumps(settings))
    return path


class Running:
    """An exporter at work, in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process, self.url = process, url

    @property
    def pid(self) -> int:
        return self.process.pid

    def page(self) -> str:
        return scrape(self.url).decode()


@contextlib.contextmanager
def running(
    settings: dict[str, Any], module: Sequence[str] = ("exporter",), after: Sequence[str] = ()
) -> Iterator[Running]:
    """Run an exporter with a state directory of its own until the end of the block; it is ready at the beginning.

    `module` is what is run in its place, with arguments; `after` are arguments behind the configuration.
    """
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        config = write_config(Path(directory), settings)
        process = subprocess.Popen(
            [sys.executable, "-m", *module, "-c", str(config), *(after or ("run",))],
            env={
                **os.environ,
                "TDE_EXPORTER_STATE_DIRECTORY": f"{directory}/state",
                "TDE_EXPORTER_WEB__PORT": str(port),
            },
            stdout=subprocess.DEVNULL,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until_ready(url)
            yield Running(process, url)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def prefer(*pids: int) -> None:
    """Let these processes, and whatever they start from now on, run before all others on this machine; needs root.

    Where several people work, a benchmark of milliseconds measures them. Real-time priority keeps them out of it; among
    themselves the preferred share the processors by turns, as before.
    """
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))


def process_cpu(pid: int) -> float:
    """CPU seconds of a process, threads that have ended included, to the nanosecond."""
    # The clock of another process, as clock_getcpuclockid(3) makes its number.
    return time.clock_gettime((~pid << 3) | 2)


def machine_cpu() -> tuple[float, float]:
    """CPU seconds that the machine has been busy, and that it has had, since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / TICK, sum(fields) / TICK
