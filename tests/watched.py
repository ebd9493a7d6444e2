"""A server of the tests as a target of the exporter: an account with the documented grants, and its configuration."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pymysql

from exporter.engines.mariadb.ddl import MariaDbDdl
from exporter.engines.mysql.ddl import MySqlDdl
from tests.command_line import CommandLine, Done
from tests.servers.server import Server

SCHEMA = "tde_canary"
ROWS = 30_000
"""Some 9 MB on disk for each twin: more than the buffer pool holds, so that canaries read from disk."""
POOL_MB = 6
"""The least that MariaDB 11.8 starts with."""
BOTH = ("mariadb", "mysql")
"""The engines, and the names that their targets have by default."""
QUICK = {"canary": "1s", "encryption_state": "1s", "activity": "1s"}
PATIENT: dict[str, Any] = {"point_select": {"samples": 5, "timeout": "30s"}}
"""Operations where no query may fail, however busy the machine is: for tests in which nothing hangs."""
_GONE = 1094  # ER_NO_SUCH_THREAD
_ESTABLISHED = "01"


class Watched:
    """One server, as one exporter sees it.

    The account `user` has the grants that `provision --print` names, and a password that stands in the file `secret`.
    """

    def __init__(self, server: Server, folder: Path, *, user: str = "tde_exporter", password: str | None = None):
        self.server, self.folder, self.user = server, folder, user
        self.engine = "mysql" if server.binaries == "mysql" else "mariadb"
        self.secret, self.root_secret = folder / f"{user}.secret", folder / "root.secret"
        self.root_secret.write_text(server.password)
        ddl = MySqlDdl() if self.engine == "mysql" else MariaDbDdl()
        # The table of the last one has to be there first.
        *grants, self._of_heartbeat = ddl.grants(SCHEMA)
        self.password = server.create_user(user, grants=grants)
        if password is not None:
            self.change_password(password)
        self.secret.write_text(self.password)
        sql = "SELECT 1 AS found FROM information_schema.tables WHERE table_schema = %s AND table_name = 'heartbeat'"
        if server.query(sql, SCHEMA):
            self._grant_heartbeat()

    def change_password(self, password: str) -> None:
        """On the server; the file keeps the old one."""
        self.server.query(f"ALTER USER '{self.user}'@'%%' IDENTIFIED BY %s", password)
        self.password = password

    def _grant_heartbeat(self) -> None:
        self.server.query(f"GRANT {self._of_heartbeat} TO '{self.user}'@'%'")

    def remove(self) -> None:
        """Take the account away again, and its sessions."""
        self.server.query(f"DROP USER '{self.user}'@'%'")
        self.kill_sessions()

    # -- configuration --------------------------------------------------------------------------

    def target(self, address: tuple[str, int] | None = None, **more: Any) -> dict[str, Any]:
        """The server as a target, straight or through another address, with quick intervals."""
        host, port = address or self.server.address
        values: dict[str, Any] = {
            "name": self.engine,
            "engine": self.engine,
            "host": host,
            "port": port,
            "user": self.user,
            "password": {"file": str(self.secret)},
            "schema": SCHEMA,
            "tls": {"mode": "disabled"},
            "pairs": [{"name": "main", "rows": ROWS}],
            "operations": ["point_select"],
            "intervals": QUICK,
            "budgets": {"time_share_ratio": 1.0},
        }
        return values | more

    # -- commands -------------------------------------------------------------------------------

    def command(self, *words: str, **more: Any) -> Done:
        """Run a command of the exporter on this target."""
        folder = self.folder / f"commands-{self.user}"
        folder.mkdir(exist_ok=True)
        tde = CommandLine(folder)
        return tde("-c", tde.config(settings(self.target(**more))), *words)

    def provision(self, **more: Any) -> Done:
        """Make the twins as a DBA does."""
        done = self.command("provision", *self.as_root(), **more)
        if done.returncode == 0:
            self._grant_heartbeat()
        return done

    def drop(self, **more: Any) -> Done:
        """Remove the twins as a DBA does."""
        return self.command("drop", "--yes", *self.as_root(), **more)

    def as_root(self) -> tuple[str, ...]:
        """The words by which a DBA says who he is."""
        return "--user", self.server.user, "--password-file", str(self.root_secret)

    def decrypt(self) -> None:
        """What somebody does who thinks that the encrypted twin costs too much."""
        plain = "ENCRYPTION='N'" if self.engine == "mysql" else "ENCRYPTED=NO"
        self.server.query(f"ALTER TABLE {SCHEMA}.main_encrypted {plain}")

    def encrypt(self) -> None:
        encrypted = "ENCRYPTION='Y'" if self.engine == "mysql" else "ENCRYPTED=YES"
        self.server.query(f"ALTER TABLE {SCHEMA}.main_encrypted {encrypted}")

    # -- the account's sessions -----------------------------------------------------------------

    def session_ids(self) -> list[int]:
        sql = "SELECT id AS number FROM information_schema.processlist WHERE user = %s"
        return [int(row["number"]) for row in self.server.query(sql, self.user)]

    def kill_sessions(self) -> int:
        """End all sessions of the account; how many there were."""
        found = self.session_ids()
        for number in found:
            try:
                self.server.query(f"KILL {number}")
            except pymysql.err.MySQLError as error:
                if error.args[0] != _GONE:
                    raise
        return len(found)


class Count:
    """Counts the connections of an exporter to some ports of this machine all the while.

    Those that it has open itself, as the kernel knows them: a server may list sessions for a while that are ended or gone.
    """

    def __init__(self, ports: dict[str, int]) -> None:
        self._stop, self._ports = threading.Event(), ports
        self.most: dict[str, int] = dict.fromkeys(ports, 0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
            # Of each connection: the address of the other end, and whether both ends are open.
            peers = [far.rpartition(":")[2] for _, _, far, state, *_ in map(str.split, lines) if state == _ESTABLISHED]
            for name, port in self._ports.items():
                self.most[name] = max(self.most[name], peers.count(f"{port:04X}"))

    def __enter__(self) -> Count:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)


def settings(*targets: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A whole configuration: few samples in a tick, one probe process."""
    return {
        "targets": list(targets),
        "operations": {"point_select": {"samples": 5, "timeout": "2s"}},
        "probes": {"processes": 1},
        **more,
    }
