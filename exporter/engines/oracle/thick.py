"""Oracle's client libraries below the same connection: what they do is waited for in a thread, for they know no asyncio.

They speak native network encryption, which the driver alone does not. A call of theirs that hangs cannot be cut: it is
left behind with its thread, and the caller goes on. Tried with the thin driver in their place, never with the libraries.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import oracledb

from exporter.domain.errors import Unsupported

log = logging.getLogger(__name__)

Result = TypeVar("Result")
_OTHER_MODE = "DPY-2019"


def load(directory: Path | None) -> None:
    """Load the client libraries; they stay for the life of the process. Raises Unsupported where that is impossible."""
    try:
        oracledb.init_oracle_client(lib_dir=None if directory is None else str(directory))
    except oracledb.Error as error:
        if _OTHER_MODE in str(error):
            raise Unsupported(
                "this process already uses Oracle's driver without client libraries (`driver: thin`), which cannot be changed"
                " while it runs"
            ) from None
        where = f"in {directory}" if directory is not None else "where the system looks for them (`client_directory`)"
        raise Unsupported(f"Oracle's client libraries cannot be loaded: they are not {where}, or are not fit") from None


class ThreadedConnection:
    """What `Connection` asks of the driver, over a connection whose calls block."""

    def __init__(self, connection: oracledb.Connection, worker: _Worker) -> None:
        self._connection, self._worker = connection, worker

    @classmethod
    async def open(cls, connect: Callable[[], oracledb.Connection]) -> ThreadedConnection:
        """Connect in a thread of its own, which serves the connection from then on."""
        worker = _Worker()
        try:
            return cls(await worker.run(connect), worker)
        except BaseException:
            worker.end()
            raise

    @property
    def version(self) -> str:
        return self._connection.version

    @property
    def warning(self) -> Any:
        return self._connection.warning

    def name(self, module: str, action: str) -> None:
        self._connection.module, self._connection.action = module, action

    def cursor(self) -> ThreadedCursor:
        return ThreadedCursor(self._connection.cursor(), self._worker)

    def cancel(self) -> None:
        # From another thread than the one that waits for the answer, as it is meant to be.
        self._connection.cancel()

    async def ping(self) -> None:
        await self._worker.run(self._connection.ping)

    async def commit(self) -> None:
        await self._worker.run(self._connection.commit)

    async def close(self) -> None:
        try:
            await self._worker.run(self._connection.close)
        finally:
            self._worker.end()


class ThreadedCursor:
    """A cursor of such a connection."""

    def __init__(self, cursor: oracledb.Cursor, worker: _Worker) -> None:
        self._cursor, self._worker = cursor, worker
        self.prefetchrows = self.arraysize = 2

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    async def execute(self, sql: str, values: list[Any] | None) -> None:
        self._cursor.prefetchrows, self._cursor.arraysize = self.prefetchrows, self.arraysize
        await self._worker.run(lambda: self._cursor.execute(sql, values))

    async def fetchmany(self, size: int) -> list[Any]:
        return await self._worker.run(lambda: self._cursor.fetchmany(size))

    def close(self) -> None:
        """Behind a call that is still under way, and without waiting for it."""
        self._worker.later(self._cursor.close)


class _Worker:
    """A thread for one connection. It is no obstacle to the end of the process, whatever it waits for."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="oracle-client", daemon=True).start()

    async def run(self, work: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def tell(result: Result | None, error: BaseException | None) -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def call() -> None:
            result, failure = None, None
            try:
                result = work()
            except Exception as error:
                failure = error
            loop.call_soon_threadsafe(tell, result, failure)

        self._work.put(call)
        return await done

    def later(self, work: Callable[[], Any]) -> None:
        self._work.put(work)

    def end(self) -> None:
        self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:
                # Closing what is lost, or telling a loop that has ended: nobody waits for it.
                log.debug("left behind by a call that was given up", exc_info=True)
