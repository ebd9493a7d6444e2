"""Connections to servers of the MySQL family: every call under a hard deadline, every error one of our tree."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pymysql

from exporter.config.schema import NAME_PATTERN
from exporter.domain.errors import Cancelled, ConnectFailed, DeadlineExceeded, QueryFailed, TargetError, Unsupported
from exporter.engines._mysql_protocol.failures import ENDING, explained, misheard
from exporter.engines._mysql_protocol.settings import ServerSettings
from exporter.engines._mysql_protocol.sockets import Line
from exporter.engines._mysql_protocol.wire import Timed as Timed  # for those who time
from exporter.engines._mysql_protocol.wire import Wire
from exporter.engines.credentials import Credentials

PROGRAM = "tde-exporter"
"""How our sessions name themselves (`program_name` of the connection attributes)."""
COMMENT = f"/* {PROGRAM}"
"""How each of our statements begins, for whoever looks at the list of processes."""
LOCK_WAIT_SECONDS = 1
NETWORK_SECONDS = 30
IDLE_SECONDS = 8 * 3600

_LIMITERS = ("max_statement_time", "max_execution_time")
"""The statement limit of MariaDB, in seconds, and that of MySQL, in milliseconds."""

Result = TypeVar("Result")

_SETTINGS: dict[str, str | float] = {
    "time_zone": "+00:00",
    "sql_mode": "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
    # Below the deadlines of calls, so that waiting for a lock is told from a slow query.
    "innodb_lock_wait_timeout": LOCK_WAIT_SECONDS,
    "lock_wait_timeout": LOCK_WAIT_SECONDS,
    "net_read_timeout": NETWORK_SECONDS,
    "net_write_timeout": NETWORK_SECONDS,
    # The servers' own default; a session rests for up to an hour between two measurements.
    "wait_timeout": IDLE_SECONDS,
}
"""Session variables that both servers have. They need no privilege."""


def server_limit(timeout: float) -> float:
    """Seconds after which the server itself shall stop a statement whose deadline is `timeout`.

    Earlier than the deadline, which costs the session.
    """
    return round(max(timeout * 0.9, timeout - 0.5, 0.001), 3)


class Connection:
    """A session on a server. Made by `Connector.connect`; for one thread at a time, `close` for any.

    Every `timeout` (seconds) is a hard deadline. The server stops a query a little earlier where it can
    (MariaDB any statement, MySQL only SELECT): DeadlineExceeded, and the session goes on. Otherwise the
    socket is shut down under the call: DeadlineExceeded as well, and `alive` is False. A connection that is
    not alive raises ConnectFailed. Only errors of our tree are raised.
    """

    def __init__(self, wire: Wire, line: Line, comment: str) -> None:
        self._wire, self._line = wire, line
        self._comment = comment
        self._using = threading.Lock()
        self._closed = False
        self._dead = False
        self._limiter = ""
        self._limit = 0.0
        self.server_version = ""
        """As the server tells it, such as `11.8.2-MariaDB` or `9.7.4`."""
        self.id = 0
        """Number of the session in the server's list of processes."""
        self.is_mariadb = False
        """Whether the server has MariaDB's statement limit, so is one."""
        self.secure = wire.secure
        """Whether nobody between can read along: TLS, or a socket on this machine."""

    @property
    def alive(self) -> bool:
        """False after the connection was lost, cut or closed. True says nothing about the server's part."""
        return not (self._dead or self._closed or self._line.is_cut)

    def rows(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> list[tuple[Any, ...]]:
        """The rows of one statement. Values go as `%s` and `args`; without `args` a `%` is itself."""
        return self.timed(sql, args, timeout=timeout).rows

    def row(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> tuple[Any, ...] | None:
        """The first row; None where there is none."""
        return next(iter(self.rows(sql, args, timeout=timeout)), None)

    def named(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> list[dict[str, Any]]:
        """The rows by the names of their columns; for SHOW, whose columns differ between versions."""
        statement = self._statement(sql, args)
        return self._call(timeout, lambda: self._wire.named(self._ask(statement, timeout)))

    def execute(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> int:
        """Run one statement; the number of rows that it affected."""
        return self.timed(sql, args, timeout=timeout).affected

    def timed(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> Timed:
        """Run one statement and time it: nothing but sending it and reading its answer is inside the times.

        The server's own limit is set before where it differs from that of the last call, so give calls
        that are compared the same timeout.
        """
        statement = self._statement(sql, args)
        return self._call(timeout, lambda: self._ask(statement, timeout))

    def limit(self, timeout: float) -> None:
        """Set the server's own limit as for calls with this timeout; calls do it by themselves."""
        self._call(timeout, lambda: self._set_limit(timeout))

    def close(self) -> None:
        """Let go, at once; never raises. A call that another thread has under way raises Cancelled."""
        self._closed = True
        if self._using.acquire(blocking=False):
            try:
                if not (self._dead or self._line.is_cut):
                    self._wire.patience(0.1)
                    # With a word to the server, which would log an aborted connection otherwise.
                    with contextlib.suppress(Exception):
                        self._wire.close()
                self._let_go()
            finally:
                self._using.release()
        else:
            self._line.cut()

    def _ask(self, statement: bytes, timeout: float) -> Timed:
        self._set_limit(timeout)
        return self._wire.ask(statement)

    def _statement(self, sql: str, args: tuple[Any, ...] = ()) -> bytes:
        text = self._wire.cursor().mogrify(sql, args) if args else sql
        return f"{self._comment} {text}".encode()

    def _set_limit(self, timeout: float) -> None:
        self._wire.patience(timeout + 1.0)
        wanted = server_limit(timeout)
        if wanted != self._limit and self._limiter:
            value = f"{wanted:.3f}" if self.is_mariadb else f"{round(wanted * 1000)}"
            self._wire.ask(self._statement(f"SET SESSION {self._limiter} = {value}"))
            self._limit = wanted

    def _call(self, timeout: float, work: Callable[[], Result]) -> Result:
        """Run `work` under the deadline, and make sense of how it ended."""
        with self._using:
            if not self.alive:
                raise self._gone()
            guard, settled, error = self._line.guard, False, None
            try:
                with guard.limit(timeout):
                    try:
                        result = work()
                    except Exception as raised:
                        error = raised
                settled = error is None or _survived(error, self._wire)
            finally:
                if not (settled and self.alive):
                    self._let_go()
        if error is None and not guard.fired:
            return result
        if self._closed:
            raise self._gone()
        if guard.fired or error is None:
            raise DeadlineExceeded(f"not done after {timeout:g} s")
        found = explained(error)
        if isinstance(found, DeadlineExceeded):
            raise DeadlineExceeded(str(found).replace("limit", f"limit of {server_limit(timeout):g} s", 1))
        raise found

    def _gone(self) -> TargetError:
        return Cancelled("the connection was closed") if self._closed else ConnectFailed("the connection is lost")

    def _let_go(self) -> None:
        self._dead = True
        with contextlib.suppress(Exception):
            self._wire.abandon()
        self._line.close()

    def settle(self, timeout: float) -> None:
        """Set what our sessions need, and look whether the server took it. The connector's part, under its deadline."""
        self._wire.patience(timeout + 1.0)
        names = {name for name, _ in self._wire.ask(self._statement("SHOW SESSION VARIABLES LIKE 'max_%_time'")).rows}
        self.is_mariadb = _LIMITERS[0] in names
        self._limiter = next((name for name in _LIMITERS if name in names), "")
        wanted = dict(_SETTINGS)
        if self.is_mariadb:
            # An answer out of the query cache would read no page at all.
            wanted["query_cache_type"] = "OFF"
        values = ", ".join(f"{name} = %s" for name in wanted)
        self._wire.ask(self._statement(f"SET SESSION {values}", tuple(wanted.values())))
        self._set_limit(timeout)
        if self._limiter:
            wanted[self._limiter] = self._limit if self.is_mariadb else round(self._limit * 1000)
        kept = ", ".join(f"@@SESSION.{name}" for name in wanted)
        (row,) = self._wire.ask(self._statement(f"SELECT VERSION(), CONNECTION_ID(), {kept}")).rows
        self.server_version, self.id = str(row[0]), int(row[1])
        for (name, value), found in zip(wanted.items(), row[2:], strict=True):
            if found != value:
                raise Unsupported(f"the server keeps the session variable {name} at another value than {value}")


def _survived(error: Exception, wire: Wire) -> bool:
    """Whether the session can go on: the server refused a statement, and said so in an orderly way."""
    number = error.args[0] if isinstance(error, pymysql.err.MySQLError) and error.args else None
    return wire.open and isinstance(number, int) and number >= 1000 and number // 1000 != 2 and number not in ENDING


class Connector:
    """Opens connections to one server for one purpose, which must be a name; `target` is the target's name.

    Any thread may use it. All connectors of one login share its credentials.
    """

    def __init__(self, server: ServerSettings, credentials: Credentials, *, purpose: str, target: str) -> None:
        if not re.match(NAME_PATTERN, purpose):
            raise ValueError("a purpose is a name")
        self._server, self._credentials = server, credentials
        self._program = f"{PROGRAM} {purpose} {target}"
        self._comment = f"{COMMENT} {purpose} */"

    def connect(self, timeout: float) -> Connection:
        """A new session, logged in, set up and looked after, within `timeout` seconds.

        Raises AuthenticationFailed, also without an attempt (see `Credentials.attempt`); TlsFailed,
        ConnectFailed, Unavailable, DeadlineExceeded; Unsupported for a server whose session variables
        cannot be set.
        """
        deadline = time.monotonic() + timeout
        try:
            with self._credentials.attempt(timeout) as secret:
                return self._login(secret, max(0.001, deadline - time.monotonic()), timeout)
        except TargetError as error:
            raise type(error)(f"{self._server.address}: {error}") from None

    def _login(self, secret: str, left: float, timeout: float) -> Connection:
        deadline, line = time.monotonic() + left, Line()
        wire: Wire | None = None
        error: Exception | None = None
        connection: Connection | None = None
        try:
            wire = Wire(self._server, secret, self._program)
            opened = line.open(self._server, left)
            wire.patience(left + 1.0)
            with line.guard.limit(max(0.001, deadline - time.monotonic())):
                wire.connect(opened)
                wire.forget_secret()
                settling = Connection(wire, line, self._comment)
                settling.settle(left)
            if not line.guard.fired:
                connection = settling
        except Exception as raised:
            error = raised
        finally:
            if connection is None:
                if wire is not None:
                    wire.abandon()
                line.close()
        if connection is not None:
            return connection
        found = None if error is None or line.guard.fired else explained(error)
        if error is not None and misheard(error, self._server.user):
            found = ConnectFailed("the server heard another name than ours: bytes change on the way to it")
        raise (
            DeadlineExceeded(f"no session after {round(timeout, 2):g} s")
            if found is None or isinstance(found, DeadlineExceeded)
            else found
        )

    def reap(self, connection_id: int, connection: Connection, timeout: float = 2.0) -> bool:
        """End the query of a session that was cut: on the server it would run on to its end.

        True when one was found and stopped. Only a session that still runs a statement of ours is touched:
        after a restart of the server its number may be somebody else's. `connection` is another session of
        the same account.
        """
        ours = "SELECT 1 FROM information_schema.processlist WHERE id = %s AND info LIKE %s"
        if connection.row(ours, (connection_id, f"{COMMENT} %"), timeout=timeout) is None:
            return False
        with contextlib.suppress(QueryFailed):  # it may have ended by itself meanwhile
            connection.execute(f"KILL QUERY {int(connection_id)}", timeout=timeout)
        return True
