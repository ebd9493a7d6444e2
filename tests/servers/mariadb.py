"""A private MariaDB server with encryption by the file_key_management plugin."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.servers.proxy import Proxy
from tests.servers.root import Row
from tests.servers.server import Server
from tests.servers.templates import ROOT_PASSWORD, copy_template, run_to_end, version_of

# Everything of the server's own tables; `auth_root_socket` would let root in by socket only.
_BEFORE = """create database if not exists mysql;
use mysql;
SET @auth_root_socket=NULL;
SET @skip_auth_anonymous=1;
"""
_AFTER = f"""FLUSH PRIVILEGES;
ALTER USER root@localhost IDENTIFIED BY '{ROOT_PASSWORD}';
CREATE OR REPLACE USER root@'127.0.0.1' IDENTIFIED BY '{ROOT_PASSWORD}';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE test;
"""
_SMALL = ("--innodb-log-file-size=8M", "--skip-innodb-doublewrite", "--innodb-undo-tablespaces=0")


class MariaDbServer(Server):
    """A MariaDB of one series: `with MariaDbServer("10.11", userstat=True) as server: ...`.

    As the packages ship it: performance_schema and userstat are off, and only tables that ask for it
    are encrypted.

    Args:
        version: 10.11 or 11.8.
        userstat: Count CPU time per session.
        encrypt_tables: innodb_encrypt_tables: OFF, ON or FORCE.
        key_ids: The keys of the key file; 1 must be among them for the plugin to start.
        encryption_threads: Threads that encrypt and decrypt existing tables in the background.
        others: Keywords of `Server`.
    """

    def __init__(
        self,
        version: str = "11.8",
        *,
        userstat: bool = False,
        encrypt_tables: str = "OFF",
        key_ids: Sequence[int] = (1, 2, 3),
        encryption_threads: int = 1,
        **others: Any,
    ) -> None:
        self.version = version
        self.binaries = f"mariadb-{version}"
        self.fetched_by = f"tools/get_mariadb.sh {version}"
        self.userstat = userstat
        self.encrypt_tables = encrypt_tables
        self.encryption_threads = encryption_threads
        self.keys = {number: secrets.token_hex(32) for number in key_ids}
        super().__init__(**others)

    @property
    def key_file(self) -> Path:
        return self.folder / "keys.txt"

    def _messages(self) -> Path:
        return next(self.root.glob("usr/share/m*/english")).parent

    def _make_datadir(self) -> None:
        recipe = [version_of(self.root / "server"), _BEFORE, _AFTER, *_SMALL]
        copy_template(self.binaries, recipe, self._build_template, self.datadir)
        self.restore_key()

    def _build_template(self, folder: Path) -> None:
        folder.mkdir()
        tables = [
            next(self._messages().glob(f"m*_{name}.sql")).read_text()
            for name in ("system_tables", "performance_tables", "system_tables_data")
        ]
        command = [
            str(self.root / "server"),
            "--no-defaults",
            "--bootstrap",
            *self.as_user(),
            f"--basedir={self.root / 'usr'}",
            f"--plugin-dir={self.root / 'usr/lib/mysql/plugin'}",
            f"--lc-messages-dir={self._messages()}",
            f"--datadir={folder}",
            "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=16M",
            *_SMALL,
        ]
        run_to_end(command, f"initialising {self.binaries}", "\n".join([_BEFORE, *tables, _AFTER]))

    def _own_arguments(self) -> list[str]:
        return [
            *_SMALL,
            f"--lc-messages-dir={self._messages()}",
            f"--character-sets-dir={self._messages() / 'charsets'}",
            "--aria-pagecache-buffer-size=2M",
            "--plugin-load-add=file_key_management",
            f"--loose-file-key-management-filename={self.key_file}",
            "--loose-file-key-management-encryption-algorithm=AES_CTR",
            f"--innodb-encrypt-tables={self.encrypt_tables}",
            f"--innodb-encryption-threads={self.encryption_threads}",
            f"--innodb-encrypt-log={'ON' if self.encrypt_redo else 'OFF'}",
            f"--encrypt-binlog={'ON' if self.encrypt_binlog else 'OFF'}",
            f"--userstat={'ON' if self.userstat else 'OFF'}",
        ]

    # -- keys -----------------------------------------------------------------------------------

    def _write_keys(self, keys: Mapping[int, str]) -> None:
        self.key_file.write_text("".join(f"{number};{key}\n" for number, key in keys.items()))

    def remove_key(self, *numbers: int) -> None:
        """Take some keys out of the key file; without a number, the file itself."""
        if not numbers:
            self.key_file.unlink(missing_ok=True)
            return
        self._write_keys({number: key for number, key in self.keys.items() if number not in numbers})

    def restore_key(self) -> None:
        self._write_keys(self.keys)

    def wrong_key(self, *numbers: int) -> None:
        """Replace some keys by others under the same numbers; without a number, all."""
        chosen = numbers or tuple(self.keys)
        self._write_keys({n: secrets.token_hex(32) if n in chosen else key for n, key in self.keys.items()})

    # -- replication ----------------------------------------------------------------------------

    def replica_of(
        self, primary: Server, *, channel: str = "", via: Proxy | None = None, retry_s: int = 2, delay_s: int = 0
    ) -> None:
        """`channel` is the name of a MariaDB connection."""
        password = primary.replication_password()
        self.query(
            f"CHANGE MASTER '{channel}' TO master_host=%s, master_port=%s, master_user=%s, master_password=%s, "
            f"master_use_gtid=slave_pos, master_connect_retry=%s, master_delay=%s",
            *(via or primary).address,
            primary.replication_user,
            password,
            retry_s,
            delay_s,
        )
        self.query(f"START SLAVE '{channel}'")

    def replica_status(self, channel: str = "") -> Row:
        rows = self.query("SHOW ALL SLAVES STATUS")
        return next((row for row in rows if row["Connection_name"] == channel), {})

    def wait_for(self, primary: Server, channel: str = "", patience: float = 100.0) -> None:
        position = primary.value("SELECT @@gtid_binlog_pos")
        outcome = self.value("SELECT MASTER_GTID_WAIT(%s, %s)", position, patience)
        assert outcome == 0, f"not at {position} within {patience} s: {self.replica_status(channel)}"
