"""What a test asks of a server as its root: statements, users, the user for replicas."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Any

import pymysql
import pymysql.cursors

from tests.servers.templates import ROOT_PASSWORD, ROOT_USER

Row = dict[str, Any]


class Root:
    """A server's root user, who comes through its socket."""

    host = "127.0.0.1"
    port: int
    socket: str
    user = ROOT_USER
    password = ROOT_PASSWORD
    replication_user = "replicator"
    _replication_password: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def connect(self, **options: Any) -> pymysql.connections.Connection[Any]:
        """A connection of root through the socket, without TLS, committing each statement."""
        defaults: dict[str, Any] = {
            "unix_socket": self.socket,
            "user": self.user,
            "password": self.password,
            "ssl_disabled": True,
            "autocommit": True,
            "charset": "utf8mb4",
            "connect_timeout": 30,
            "read_timeout": 60,
            "write_timeout": 60,
            "cursorclass": pymysql.cursors.DictCursor,
        }
        return pymysql.connect(**(defaults | options))

    def query(self, sql: str, *values: object, database: str | None = None) -> list[Row]:
        """The rows of one statement, asked as root through a new connection; by column name."""
        connection = self.connect(database=database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def value(self, sql: str, *values: object, database: str | None = None) -> Any:
        """The first column of the first row; None where there is no row."""
        rows = self.query(sql, *values, database=database)
        return next(iter(rows[0].values())) if rows else None

    def variable(self, name: str) -> str:
        """A global variable."""
        return str(self.query("SHOW GLOBAL VARIABLES LIKE %s", name)[0]["Value"])

    def status(self, name: str) -> int:
        """A global status counter."""
        return int(self.query("SHOW GLOBAL STATUS LIKE %s", name)[0]["Value"])

    def create_user(
        self,
        name: str,
        password: str | None = None,
        grants: Iterable[str] = (),
        *,
        require: str = "",
        host: str = "%",
        clause: str = "",
    ) -> str:
        """Create a user, who must not exist, and return the password, a random one where none is given.

        Args:
            grants: What stands between GRANT and TO: "PROCESS ON *.*", "SELECT ON `x`.*".
            require: SSL, X509, SUBJECT '...', for REQUIRE.
            clause: What follows, as "WITH MAX_USER_CONNECTIONS 2" or "PASSWORD EXPIRE".
        """
        assert re.fullmatch(r"\w+", name), name
        password = secrets.token_urlsafe(12) if password is None else password
        account = f"'{name}'@'{host}'"
        required = f" REQUIRE {require}" if require else ""
        # The host may be "%".
        quoted = account.replace("%", "%%")
        self.query(f"CREATE USER {quoted} IDENTIFIED BY %s{required} {clause}", password)
        for grant in grants:
            self.query(f"GRANT {grant} TO {account}")
        return password

    def replication_password(self) -> str:
        """The password of the user for replicas, who is made when it is asked for first.

        Not logged: a replica that has several primaries would meet the user twice.
        """
        if self._replication_password is None:
            password = secrets.token_urlsafe(12)
            connection = self.connect()
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SET sql_log_bin = 0")
                    cursor.execute(f"CREATE USER {self.replication_user}@'%%' IDENTIFIED BY %s", (password,))
                    cursor.execute(f"GRANT REPLICATION SLAVE ON *.* TO {self.replication_user}@'%'")
            finally:
                connection.close()
            self._replication_password = password
        return self._replication_password
