"""A private MySQL 9 server with encryption by component_keyring_file."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.servers.proxy import Proxy
from tests.servers.root import Row
from tests.servers.server import Server
from tests.servers.templates import ROOT_PASSWORD, copy_template, run_to_end, version_of

# One statement a line, as an init file has to be.
_AFTER = f"""ALTER USER root@localhost IDENTIFIED BY '{ROOT_PASSWORD}';
CREATE USER root@'127.0.0.1' IDENTIFIED BY '{ROOT_PASSWORD}';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE test;
"""
_SMALL = ("--innodb-redo-log-capacity=8M", "--innodb-doublewrite=OFF", "--mysqlx=0", "--secure-file-priv=NULL")


class MySqlServer(Server):
    """A MySQL 9: `with MySqlServer(consumers=["events_statements_cpu"]) as server: ...`.

    As it is shipped: performance_schema is on, its CPU consumer off, and the binary log, which is on
    there, is on only if asked for. The first encrypted table makes the first key.

    Args:
        gtid: Needed for replicas.
        encrypt_undo: innodb_undo_log_encrypt; without its keys, such a server does not start.
        component: Whether the keyring component is loaded at all; read at each start.
        others: Keywords of `Server`.
    """

    binaries = "mysql"
    fetched_by = "tools/get_mysql.sh"

    def __init__(
        self,
        *,
        performance_schema: bool = True,
        gtid: bool = True,
        encrypt_undo: bool = False,
        component: bool = True,
        **others: Any,
    ) -> None:
        self.gtid = gtid
        self.encrypt_undo = encrypt_undo
        self.component = component
        super().__init__(performance_schema=performance_schema, **others)

    @property
    def key_file(self) -> Path:
        return self.folder / "keyring"

    def _program_arguments(self) -> list[str]:
        share = self.root / "usr/share/mysql"
        return [f"--lc-messages-dir={share}", f"--character-sets-dir={share / 'charsets'}", *_SMALL]

    def _make_datadir(self) -> None:
        recipe = [version_of(self.root / "server"), _AFTER, *_SMALL]
        copy_template(self.binaries, recipe, self._build_template, self.datadir)
        config = {"path": str(self.key_file), "read_only": False}
        (self.datadir / "component_keyring_file.cnf").write_text(json.dumps(config))

    def _build_template(self, folder: Path) -> None:
        commands = self.folder / "init.sql"
        commands.write_text(_AFTER)
        command = [
            str(self.root / "server"),
            "--no-defaults",
            "--initialize-insecure",
            *self.as_user(),
            f"--basedir={self.root / 'usr'}",
            f"--plugin-dir={self.root / 'usr/lib/mysql/plugin'}",
            f"--datadir={folder}",
            f"--init-file={commands}",
            "--innodb-flush-method=nosync",
            "--innodb-flush-log-at-trx-commit=0",
            *self._program_arguments(),
        ]
        run_to_end(command, f"initialising {self.binaries}")
        (folder / "auto.cnf").unlink()  # each copy is a server of its own, and takes an id of its own

    def _own_arguments(self) -> list[str]:
        self._write_manifest()
        arguments = [
            *self._program_arguments(),
            f"--innodb-redo-log-encrypt={'ON' if self.encrypt_redo else 'OFF'}",
            f"--innodb-undo-log-encrypt={'ON' if self.encrypt_undo else 'OFF'}",
            f"--binlog-encryption={'ON' if self.encrypt_binlog else 'OFF'}",
        ]
        if self.gtid:
            arguments += ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
        if not self.binlog:
            arguments.append("--skip-log-bin")
        return arguments

    def _write_manifest(self) -> None:
        manifest = self.datadir / "mysqld.my"
        manifest.unlink(missing_ok=True)
        # A manifest without components keeps the server from starting; none at all does not.
        if self.component:
            manifest.write_text('{"components": "file://component_keyring_file"}')
            manifest.chmod(0o444)  # it complains about one that others might change

    # -- keys -----------------------------------------------------------------------------------

    @property
    def _saved(self) -> Path:
        return self.folder / "keyring.saved"

    def _save(self) -> None:
        if not self._saved.exists():
            assert self.key_file.exists(), "there is no key yet: make an encrypted table first"
            shutil.copy(self.key_file, self._saved)

    def remove_key(self) -> None:
        """The next start makes an empty keyring in its place."""
        self._save()
        self.key_file.unlink(missing_ok=True)

    def restore_key(self) -> None:
        """Keys that were made since they were taken away are lost."""
        if self._saved.exists():
            shutil.move(self._saved, self.key_file)

    def wrong_key(self) -> None:
        """Other bytes under the same names."""
        for element in self._replaced():
            element["data"] = secrets.token_hex(len(element["data"]) // 2).upper()

    def foreign_key(self) -> None:
        """The keys of another server: under names that hold another server's id."""
        other = str(uuid.uuid4())
        for element in self._replaced():
            element["data_id"] = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", other, element["data_id"])

    def garbage_key(self) -> None:
        """A keyring file that is none."""
        self._save()
        self.key_file.write_bytes(secrets.token_bytes(200))

    def _replaced(self) -> Iterator[dict[str, Any]]:
        """The keyring's elements, to be changed; written when all are."""
        self._save()
        keyring = json.loads(self.key_file.read_text())
        yield from keyring["elements"]
        self.key_file.write_text(json.dumps(keyring, separators=(",", ":")))

    # -- replication ----------------------------------------------------------------------------

    def replica_of(
        self, primary: Server, *, channel: str = "", via: Proxy | None = None, retry_s: int = 2, delay_s: int = 0
    ) -> None:
        password = primary.replication_password()
        host, port = (via or primary).address
        self.query(
            "CHANGE REPLICATION SOURCE TO source_host=%s, source_port=%s, source_user=%s, source_password=%s, "
            "source_auto_position=1, get_source_public_key=1, source_connect_retry=%s, source_delay=%s FOR CHANNEL %s",
            host,
            port,
            primary.replication_user,
            password,
            retry_s,
            delay_s,
            channel,
        )
        self.query("START REPLICA FOR CHANNEL %s", channel)

    def replica_status(self, channel: str = "") -> Row:
        rows = self.query("SHOW REPLICA STATUS")
        return next((row for row in rows if row["Channel_Name"] == channel), {})

    def wait_for(self, primary: Server, channel: str = "", patience: float = 100.0) -> None:
        done = primary.value("SELECT @@global.gtid_executed")
        outcome = self.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", done, patience)
        assert outcome == 0, f"not at {done} within {patience} s: {self.replica_status(channel)}"
