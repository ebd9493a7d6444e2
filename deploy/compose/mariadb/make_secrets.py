"""Makes what the example servers and the exporter need and nobody shall type: keys, passwords, the first statements.

Runs once, as root, in a container without a network. What exists already stays as it is: a server
whose keys were made anew could never read its data again.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

SERVER, EXPORTER = 999, 65532
"""Who the servers and the exporter run as in their containers."""

PRIMARY, REPLICA, FOR_EXPORTER = Path("/secrets/primary"), Path("/secrets/replica"), Path("/secrets/exporter")


def write(path: Path, text: str, owner: int) -> None:
    """Only its owner may read it; and it is there whole, or not at all."""
    new = path.with_name(f".{path.name}")
    new.touch(mode=0o600)
    new.write_text(text)
    new.chmod(0o400)
    os.chown(new, owner, owner)
    new.replace(path)


def first_statements(exporter: str, dba: str, replication: str) -> str:
    """What the primary runs before it serves; the replica gets it by replication."""
    account = "'tde_exporter'@'%'"
    return "\n".join(
        (
            f"CREATE USER {account} IDENTIFIED BY '{exporter}' WITH MAX_USER_CONNECTIONS 20;",
            f"GRANT PROCESS, SLAVE MONITOR, BINLOG MONITOR ON *.* TO {account};",
            "CREATE DATABASE tde_canary;",
            f"GRANT SELECT ON tde_canary.* TO {account};",
            # A right on a table can be given only while there is one; it outlives the table.
            "CREATE TABLE tde_canary.heartbeat (id INT);",
            f"GRANT INSERT, UPDATE ON tde_canary.heartbeat TO {account};",
            "DROP TABLE tde_canary.heartbeat;",
            f"CREATE USER 'tde_dba'@'%' IDENTIFIED BY '{dba}';",
            "GRANT ALL ON tde_canary.* TO 'tde_dba'@'%';",
            f"CREATE USER 'replication'@'%' IDENTIFIED BY '{replication}';",
            "GRANT REPLICATION SLAVE ON *.* TO 'replication'@'%';",
            "",
        )
    )


def main() -> None:
    """Write all files, the one that says that all are there last."""
    done = FOR_EXPORTER / "exporter.password"
    if done.exists():
        print("all secrets are there already")
        return
    exporter, dba, replication = (secrets.token_urlsafe(24) for _ in range(3))
    kept = PRIMARY / "keys.txt"
    keys = kept.read_text() if kept.exists() else "".join(f"{n};{secrets.token_hex(32)}\n" for n in (1, 2))
    follow = (
        "CHANGE MASTER TO MASTER_HOST='mariadb-primary', MASTER_USER='replication', "
        f"MASTER_PASSWORD='{replication}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=5;\n"
    )
    for folder, statements in ((PRIMARY, first_statements(exporter, dba, replication)), (REPLICA, follow)):
        # The same keys: a standby without those of its primary cannot take over.
        write(folder / "keys.txt", keys, SERVER)
        write(folder / "init.sql", statements, SERVER)
    write(FOR_EXPORTER / "dba.password", dba + "\n", EXPORTER)
    write(done, exporter + "\n", EXPORTER)
    print("made keys, passwords and first statements")


if __name__ == "__main__":
    main()
