"""A private server of the tests: its options, and starting, stopping, killing and freezing it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

import pymysql

from tests.processes import until
from tests.servers.certificates import Certificates
from tests.servers.proxy import Proxy
from tests.servers.room import CACHE, free_port, new_folder
from tests.servers.root import Root, Row

# A start takes up to 1 s on an idle machine, a stop up to 2 s. Less than a test may take, so that the
# error log's end is what is shown.
PATIENCE = 100.0


AnyServer = TypeVar("AnyServer", bound="Server")


class StartFailed(RuntimeError):
    """The server ended, or did not answer in time; with the end of its error log."""


class Server(Root, ABC):
    """What MariaDB and MySQL have in common.

    What was given as a keyword is a public attribute, and may be changed before a `restart()`.

    Args:
        server_id: Of its own for each that replicates.
        buffer_pool_mb: At least 5; it is empty after each start.
        performance_schema: Whether it is compiled into the running server; not to be changed later.
        consumers: Of the performance schema, to be on from the start: "events_statements_history".
        binlog: Needed where others replicate from this one.
        encrypt_redo: Such a server does not start without its keys.
        encrypt_binlog: Binary and relay logs.
        tls: Offer TLS with this certificate; without, the newer ones offer it with one of their own.
        options: Any other server options by name, "" for one without a value; they win over all else.
    """

    binaries: str  # name of the folder below .cache
    fetched_by: str

    def __init__(
        self,
        *,
        server_id: int = 1,
        buffer_pool_mb: int = 16,
        performance_schema: bool = False,
        consumers: Iterable[str] = (),
        binlog: bool = False,
        encrypt_redo: bool = False,
        encrypt_binlog: bool = False,
        tls: Certificates | None = None,
        max_connections: int = 60,
        options: Mapping[str, str | int] | None = None,
    ) -> None:
        self.server_id = server_id
        self.buffer_pool_mb = buffer_pool_mb
        self.performance_schema = performance_schema
        self.consumers = tuple(consumers)
        self.binlog = binlog
        self.encrypt_redo = encrypt_redo
        self.encrypt_binlog = encrypt_binlog
        self.tls = tls
        self.max_connections = max_connections
        self.options = dict(options or {})
        self.root = CACHE / self.binaries
        if not (self.root / "server").exists():
            raise StartFailed(
                f"{self.root} is missing: run {self.fetched_by}, as ./check does; see there why it failed"
            )
        self.folder = new_folder(self.binaries)
        self.datadir = self.folder / "data"
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.socket = str(self.folder / "s")
        self.error_log = self.folder / "error.log"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._make_datadir()

    # -- what differs ---------------------------------------------------------------------------

    @abstractmethod
    def _make_datadir(self) -> None:
        """Fill `datadir`, and write the keys."""

    @abstractmethod
    def _own_arguments(self) -> list[str]:
        """Options of this kind of server alone."""

    @abstractmethod
    def remove_key(self) -> None:
        """Take the keys away; the running server still holds them, so `restart()` after it."""

    @abstractmethod
    def restore_key(self) -> None:
        """Put the right keys back; `restart()` after it."""

    @abstractmethod
    def wrong_key(self) -> None:
        """Replace the keys by others under the same names; `restart()` after it."""

    @abstractmethod
    def replica_of(
        self, primary: Server, *, channel: str = "", via: Proxy | None = None, retry_s: int = 2, delay_s: int = 0
    ) -> None:
        """Replicate from a primary (through a proxy) by GTID, from its first event on, and start."""

    @abstractmethod
    def replica_status(self, channel: str = "") -> Row:
        """The status row of a channel; empty where there is no such channel."""

    @abstractmethod
    def wait_for(self, primary: Server, channel: str = "", patience: float = 100.0) -> None:
        """Wait until all that the primary committed so far is applied here."""

    # -- running --------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it and wait until root can log in.

        A port that somebody took meanwhile is replaced, at the first start only: who knows the server
        by now knows its port.

        Raises:
            StartFailed: it ended, or it did not answer within PATIENCE.
        """
        assert not self.running, "the server runs already"
        first = self._process is None
        for attempt in range(3):
            try:
                self._start_once()
                return self
            except StartFailed as failure:
                if not first or attempt == 2 or "Address already in use" not in str(failure):
                    raise
                self.port = free_port()
        return self

    def _start_once(self) -> None:
        mark = self.error_log.stat().st_size if self.error_log.exists() else 0
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [str(self.root / "server"), *self.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            if self._process.poll() is not None:
                raise StartFailed(f"{self.binaries} ended with {self._process.returncode}:\n{self._log_tail(mark)}")
            # Asked too early, the driver leaves a socket open, or the server counts a failed login.
            if "ready for connections" in self.log(mark):
                with contextlib.suppress(pymysql.err.MySQLError):
                    self.connect(connect_timeout=10, read_timeout=20).close()
                    return
            if time.monotonic() > deadline:
                self.kill()
                raise StartFailed(f"{self.binaries} did not answer in {PATIENCE:.0f} s:\n{self._log_tail(mark)}")
            time.sleep(0.05)

    def log(self, since: int = 0) -> str:
        """The error log from a byte offset on."""
        if not self.error_log.exists():
            return ""
        with self.error_log.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    def _log_tail(self, since: int) -> str:
        said = self.log(since) + (self.folder / "output").read_text(errors="replace")
        return "\n".join(said.splitlines()[-25:])

    def stop(self) -> None:
        """Ask it to stop, and wait; kill it when it does not."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would. What was committed is in the files."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)
            raise

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same port, with the options as they are now."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Let it stand still: connections stay, nothing answers, the kernel still accepts new ones."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: self._state() == "T", "the server to stand still")

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)
        until(lambda: self._state() != "T", "the server to go on")

    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def close(self) -> None:
        """End it at once and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- options --------------------------------------------------------------------------------

    def arguments(self) -> list[str]:
        """The command line, without the program."""
        common: dict[str, str | int] = {
            "basedir": str(self.root / "usr"),
            "plugin-dir": str(self.root / "usr/lib/mysql/plugin"),
            "datadir": str(self.datadir),
            # Its own: MariaDB clears the folder of leftovers when it starts, those of its neighbours included.
            "tmpdir": str(self.temporary),
            "socket": self.socket,
            "pid-file": str(self.folder / "pid"),
            "log-error": str(self.error_log),
            "port": self.port,
            "bind-address": self.host,
            "server-id": self.server_id,
            "relay-log": str(self.datadir / "relay"),
            "skip-name-resolve": "",
            "max-connections": self.max_connections,
            "innodb-buffer-pool-size": f"{self.buffer_pool_mb}M",
            # A start with a pool that is filled already would make cold tests warm.
            "innodb-buffer-pool-load-at-startup": "OFF",
            "innodb-buffer-pool-dump-at-shutdown": "OFF",
            # Nothing must outlive a crash of the machine. A crash of the server loses nothing: what it
            # wrote is with the kernel.
            "innodb-flush-method": "nosync",
            "innodb-flush-log-at-trx-commit": 2,
            "sync-binlog": 0,
            "innodb-log-buffer-size": "4M",
            "key-buffer-size": "1M",
            "table-open-cache": 200,
            "table-definition-cache": 400,
            "performance-schema": "ON" if self.performance_schema else "OFF",
        }
        if self.binlog:
            common["log-bin"] = str(self.datadir / "bin")
        if self.tls is not None:
            files = {"ssl-ca": self.tls.ca, "ssl-cert": self.tls.server.cert, "ssl-key": self.tls.server.key}
            common |= {name: str(path) for name, path in files.items()}
        common |= {f"performance-schema-consumer-{name.replace('_', '-')}": "ON" for name in self.consumers}
        # A later option wins, so that a test can say otherwise.
        given = [f"--{name}={value}" if value != "" else f"--{name}" for name, value in common.items()]
        own = self._own_arguments()
        extra = [f"--{name}={value}" if value != "" else f"--{name}" for name, value in self.options.items()]
        return ["--no-defaults", *self.as_user(), *given, *own, *extra]

    @staticmethod
    def as_user() -> list[str]:
        """Neither runs as root unless it is told to."""
        return ["--user=root"] if os.geteuid() == 0 else []


@contextlib.contextmanager
def together(*servers: AnyServer) -> Iterator[tuple[AnyServer, ...]]:
    """Start servers at the same time, for most of a start is waiting; close them all at the end."""
    try:
        with ThreadPoolExecutor(len(servers)) as pool:
            for _ in pool.map(Server.start, servers):
                pass
        yield servers
    finally:
        for server in servers:
            server.close()
