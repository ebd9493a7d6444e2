"""Does for a MariaDB of Debian's packages what the vendor's image does at its start: python mariadb_entry.py mariadbd OPTION...

The first start makes the system tables and runs the statements of /docker-entrypoint-initdb.d, on a server that nobody
else can reach.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pymysql

TOP, DATA, SOCKET = Path("/mariadb"), Path("/var/lib/mysql"), "/run/mysqld/mysqld.sock"
FIRST = Path("/docker-entrypoint-initdb.d")
BEFORE = "create database if not exists mysql;\nuse mysql;\nSET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n"


def root() -> pymysql.Connection:
    """A session of root, through the socket."""
    return pymysql.connect(user="root", unix_socket=SOCKET)


def initialise(server: list[str], messages: Path) -> None:
    """System tables, then the first statements."""
    names = ("system_tables", "performance_tables", "system_tables_data")
    tables = [next(messages.glob(f"m*_{name}.sql")).read_text() for name in names]
    subprocess.run([*server, "--bootstrap"], input="\n".join((BEFORE, *tables)), text=True, check=True)
    hidden = subprocess.Popen([*server, "--skip-networking"])
    while True:
        try:
            session = root()
            break
        except pymysql.err.OperationalError:
            if hidden.poll() is not None:
                raise
            time.sleep(0.1)
    with session, session.cursor() as cursor:
        for file in sorted(FIRST.glob("*.sql")):
            for statement in file.read_text().splitlines():
                cursor.execute(statement)
    hidden.terminate()
    hidden.wait(60)


def main() -> None:
    """Become the server, or, asked for its health, say whether it answers."""
    if sys.argv[1:2] == ["health"]:
        root().close()
        return
    messages = next(TOP.glob("usr/share/m*/english")).parent
    server = [str(TOP / "server"), "--no-defaults", f"--basedir={TOP}/usr", f"--plugin-dir={TOP}/usr/lib/mysql/plugin"]
    server += [f"--lc-messages-dir={messages}", f"--character-sets-dir={messages}/charsets", f"--datadir={DATA}"]
    server += [f"--socket={SOCKET}", "--pid-file=/run/mysqld/pid", *sys.argv[2:]]
    if not (DATA / "mysql").exists():
        initialise(server, messages)
    os.execv(server[0], server)


if __name__ == "__main__":
    main()
