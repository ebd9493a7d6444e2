"""Sessions on Oracle databases: every call under a hard deadline, every error one of our tree."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import oracledb

from exporter.domain.errors import Cancelled, ConnectFailed, DeadlineExceeded, TargetError
from exporter.engines.credentials import Credentials
from exporter.engines.oracle.descriptors import Descriptor
from exporter.engines.oracle.failures import explained, is_deadly, said
from exporter.engines.oracle.loop import TURNS, Line, PrivateLoop
from exporter.engines.oracle.names import look_up
from exporter.engines.oracle.settings import ServerSettings
from exporter.engines.oracle.statements import Statement
from exporter.engines.oracle.thick import ThreadedConnection, ThreadedCursor

PROGRAM = "tde-exporter"
"""How our sessions name themselves (PROGRAM and MODULE in V$SESSION; ACTION is the purpose)."""
CLOSE_SECONDS = 0.5
ROWS_AT_ONCE = 500
MOST_ROWS = 1_000_000
"""Of one answer; `MOST_BYTES` of the loop says why. Rows that repeat others cost next to nothing on the wire."""
_ROWS_BETWEEN = 10_000
"""From one look at how many they are to the next."""

Driver = oracledb.AsyncConnection | ThreadedConnection
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Timed:
    """The rows of one statement (none for what is no query), and the client's times in seconds."""

    rows: list[tuple[Any, ...]]
    execute_seconds: float
    fetch_seconds: float
    affected: int = 0


def server_limit(timeout: float) -> float:
    """Seconds after which a call is broken whose deadline is `timeout`.

    Earlier than the deadline, which costs the session: the database has to acknowledge a break.
    """
    return max(timeout * 0.9, timeout - 0.5, 0.001)


class Connection:
    """A session. Made by `Connector.connect`; for one thread at a time, `close` for any.

    Every `timeout` (seconds) is a hard deadline. A call that lasts longer is broken a little earlier: DeadlineExceeded,
    and the session goes on. A database that does not obey is cut off: DeadlineExceeded as well, and `alive` is False. A
    connection that is not alive raises ConnectFailed. Only errors of our tree are raised.
    """

    def __init__(self, driver: Driver, loop: PrivateLoop, line: Line) -> None:
        self._driver, self._loop, self._line = driver, loop, line
        self._using = threading.Lock()
        self._closed = False
        self._dead = False
        self._broken = False
        self.server_version = driver.version
        """As the database tells it at login, such as `19.24.0.0.0`."""
        self.release = int(driver.version.split(".")[0])
        """12, 19, 21, 23 ..."""
        self.warning = said(Exception(driver.warning)) if driver.warning is not None else ""
        """What the database said at login, for example that the password expires soon; empty: nothing."""

    @property
    def alive(self) -> bool:
        """False after the connection was lost, cut or closed. True says nothing about the database's part."""
        return not (self._dead or self._closed or self._line.is_cut or self._line.lost)

    def rows(self, statement: Statement, values: tuple[Any, ...] = (), *, timeout: float) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        return self.timed(statement, values, timeout=timeout, rows_at_once=ROWS_AT_ONCE).rows

    def row(self, statement: Statement, values: tuple[Any, ...] = (), *, timeout: float) -> tuple[Any, ...] | None:
        """The first row; None where there is none."""
        return next(iter(self.rows(statement, values, timeout=timeout)), None)

    def execute(self, statement: Statement, values: tuple[Any, ...] = (), *, timeout: float) -> int:
        """Run one statement; the number of rows that it affected. Nothing is committed by it, except by DDL."""
        return self.timed(statement, values, timeout=timeout).affected

    def commit(self, *, timeout: float) -> None:
        """End the transaction."""
        self._call(None, timeout, lambda: self._driver.commit())

    def timed(
        self, statement: Statement, values: tuple[Any, ...] = (), *, timeout: float, rows_at_once: int = 2
    ) -> Timed:
        """Run one statement and time it: nothing but sending it and reading its answer is inside the times."""
        if statement.holes:
            raise ValueError(f"{statement.name}: {', '.join(statement.holes)} must be filled in first")
        return self._call(statement, timeout, lambda: self._ask(statement, values, rows_at_once))

    def close(self) -> None:
        """Let go, within half a second; never raises. A call that another thread has under way raises Cancelled."""
        self._closed = True
        if not self._using.acquire(blocking=False):
            self._line.cut()
            return
        try:
            if not (self._dead or self._line.is_cut):
                # With a word to the database, whose session would live on otherwise until it notices.
                with contextlib.suppress(Exception):
                    self._loop.run(self._log_off, self._line, CLOSE_SECONDS, "closing")
            self._die()
        finally:
            self._using.release()

    async def _ask(self, statement: Statement, values: tuple[Any, ...], rows_at_once: int) -> Timed:
        cursor = self._driver.cursor()
        try:
            cursor.prefetchrows = cursor.arraysize = rows_at_once
            begun = time.perf_counter()
            await cursor.execute(statement.sql, list(values) or None)
            executed = time.perf_counter()
            rows = await self._fetch(cursor) if cursor.description is not None else []
            fetched = time.perf_counter()
            return Timed(rows, executed - begun, fetched - executed, max(0, cursor.rowcount))
        finally:
            # Left to the garbage collector, which may run amid the driver's work on its statement cache, a cursor would
            # wait for ever for a lock that its own thread holds (seen with 26.1.0).
            cursor.close()

    async def _fetch(self, cursor: oracledb.AsyncCursor | ThreadedCursor) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = await cursor.fetchmany(_ROWS_BETWEEN)
        more = len(rows) == _ROWS_BETWEEN
        while more:
            batch = await cursor.fetchmany(_ROWS_BETWEEN)
            rows += batch
            if len(rows) > MOST_ROWS:
                self._line.flood(f"the answer has more than {MOST_ROWS} rows, which we did not ask for")
                raise ConnectFailed(self._line.flooded)
            more = len(batch) == _ROWS_BETWEEN
        return rows

    def _call(
        self, statement: Statement | None, timeout: float, work: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Result:
        what = statement.name if statement is not None else "commit"
        with self._using:
            self._refuse_when_dead()
            self._line.expect()
            try:
                return self._loop.run(lambda: self._limited(work, server_limit(timeout)), self._line, timeout, what)
            except Exception as error:
                if self._closed:
                    raise Cancelled(f"{what}: the connection was closed") from None
                found = ConnectFailed(self._line.flooded) if self._line.flooded else explained(error, statement)
                if self._line.is_cut or self._line.lost or is_deadly(error):
                    self._die()
                    if not isinstance(found, ConnectFailed | DeadlineExceeded):
                        found = ConnectFailed(str(found))
                raise found from None

    async def _limited(self, work: Callable[[], Coroutine[Any, Any, Result]], limit: float) -> Result:
        """The driver's own `call_timeout` does not serve: it begins anew with every round trip, and what it does when it
        is over is not safe when the connection is lost meanwhile."""
        self._refuse_when_lost()
        broken = asyncio.get_running_loop().call_later(limit, self._break)
        self._broken = False
        try:
            return await work()
        except oracledb.Error as error:
            if self._broken and not is_deadly(error):
                await self._recover()
                raise DeadlineExceeded(f"stopped after {limit:g} s") from None
            raise
        finally:
            broken.cancel()

    def _break(self) -> None:
        if not self._line.lost:
            self._broken = True
            self._driver.cancel()

    async def _recover(self) -> None:
        """Make sure that question and answer belong together after a break, which an answer in many parts can undo."""
        try:
            self._refuse_when_lost()
            await self._driver.ping()
        except (oracledb.Error, ConnectFailed):
            self._line.cut()

    async def _log_off(self) -> None:
        if not self._line.lost:
            await self._driver.close()

    def _refuse_when_lost(self) -> None:
        if self._line.lost:
            raise ConnectFailed("the connection was lost")

    def _refuse_when_dead(self) -> None:
        if self._closed:
            raise Cancelled("the connection is closed")
        if not self.alive:
            raise ConnectFailed("the connection is not open any more")

    def _die(self) -> None:
        self._line.cut()
        if not self._dead:
            self._dead = True
            self._loop.begin(self._forget, self._line)

    async def _forget(self) -> None:
        """The driver keeps what belongs to a connection until that is closed, be it lost or not."""
        for _ in range(2 * TURNS):  # until it has been told
            await asyncio.sleep(0)
        with contextlib.suppress(oracledb.Error):
            await self._driver.close()


class Connector:
    """Opens sessions on one database with one account."""

    def __init__(
        self, server: ServerSettings, credentials: Credentials, loop: PrivateLoop, *, purpose: str, target: str
    ) -> None:
        """`purpose` and the name of the `target` are what a DBA sees of our sessions."""
        self._server, self._credentials, self._loop = server, credentials, loop
        self._action = f"{purpose} {target}"[:64]

    def connect(self, timeout: float) -> Connection:
        """A new session, logged in and named, within `timeout` seconds.

        Raises AuthenticationFailed, also without an attempt (see `Credentials.attempt`); TlsFailed, ConnectFailed,
        Unavailable, PermissionMissing, DeadlineExceeded; Unsupported for a database that demands what the driver cannot do.
        """
        deadline = time.monotonic() + timeout
        try:
            look_up(Descriptor(self._server).hosts, timeout)
            with self._credentials.attempt(max(0.001, deadline - time.monotonic())) as secret:
                return self._login(secret, max(0.001, deadline - time.monotonic()))
        except TargetError as error:
            raise type(error)(f"{self._server.address}: {error}") from None

    def _login(self, secret: str, left: float) -> Connection:
        line = Line()
        try:
            driver = self._loop.run(lambda: self._connected(secret), line, left, "connecting")
            return Connection(driver, self._loop, line)
        except Exception as error:
            line.cut()
            found = ConnectFailed(line.flooded) if line.flooded else explained(error)
            raise DeadlineExceeded("no session in time") if isinstance(found, DeadlineExceeded) else found from None

    async def _connected(self, secret: str) -> Driver:
        where = Descriptor(self._server)
        options: dict[str, Any] = {
            "dsn": where.dsn,
            "user": self._server.user,
            "password": secret or None,
            "program": PROGRAM,
            # Breaks in the stream of data: out of it, they get lost on the way through some networks.
            "disable_oob": True,
            "stmtcachesize": 40,
            **where.options(),
        }
        if not oracledb.is_thin_mode():
            threaded = await ThreadedConnection.open(lambda: oracledb.connect(**options))
            threaded.name(PROGRAM, self._action)
            return threaded
        connection: oracledb.AsyncConnection = await oracledb.connect_async(**options)
        # Both travel with the next call.
        connection.module, connection.action = PROGRAM, self._action
        return connection
