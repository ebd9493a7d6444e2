"""A private event loop for one target, in a thread of its own, from which every caller comes back in time.

Only the driver's asyncio interface can be bounded, and even that not by itself: a call that is cancelled waits for the
server to acknowledge, a name is looked up on the loop's own thread. So a caller never waits for a coroutine longer than
its deadline: the connection is then aborted under the driver, which ends the call at once; a loop that does not even do
that any more is left behind, and the next call gets a new one.

Whoever calls the driver asks `Line.lost` before, in the same step: once it knows of a lost connection, sending makes it
crash the process (`_Relay` says how that is avoided for what it sends by itself).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from exporter.domain.errors import DeadlineExceeded
from exporter.engines.oracle.framing import Framing

logger = logging.getLogger(__name__)

GRACE_SECONDS = 0.05
"""How long an aborted call may take to end. One that takes longer has lost its loop."""

TURNS = 20
"""Of the loop, until the driver is told of a loss: more than it takes between two steps."""

MOST_BYTES = 64 * 2**20
"""Of one answer, and of a login. None of our statements asks for nearly as much, and a peer that never comes to an end would
fill the memory faster than any deadline passes."""

Result = TypeVar("Result")


class Line:
    """The network connections of one database session: kept, so that they can be cut under whoever uses them."""

    def __init__(self) -> None:
        self._transports: list[tuple[asyncio.AbstractEventLoop, asyncio.BaseTransport]] = []
        self._adding = threading.Lock()
        self.is_cut = False
        self.lost = False
        """Whether a connection has ended, whoever ended it."""
        self._received = 0
        self.flooded = ""
        """In words, that more came than anybody asked for; the line is cut then."""

    def expect(self) -> None:
        """Another answer is asked for."""
        self._received = 0

    def receive(self, count: int) -> bool:
        """Whether so many bytes more may be taken; on the loop only."""
        self._received += count
        if self._received > MOST_BYTES:
            self.flood(f"the answer is longer than {MOST_BYTES // 2**20} MiB, which we did not ask for")
        return not self.flooded

    def flood(self, words: str) -> None:
        """Take nothing more, and say why."""
        self.flooded = self.flooded or words
        self.cut()

    def add(self, loop: asyncio.AbstractEventLoop, transport: asyncio.BaseTransport) -> None:
        """Take a connection; it is aborted at once when the line was cut meanwhile."""
        with self._adding:
            self._transports.append((loop, transport))
            cut = self.is_cut
        if cut:
            self.cut()

    def cut(self) -> None:
        """End all connections, from any thread; returns at once, never raises, and may be called again."""
        with self._adding:
            self.is_cut = True
            transports = list(self._transports)
        for loop, transport in transports:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and its connections with it
                loop.call_soon_threadsafe(_abort, transport)


def _abort(transport: asyncio.BaseTransport) -> None:
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
    else:
        transport.close()


_current: ContextVar[Line] = ContextVar("line")


class _Relay(asyncio.Protocol):
    """Stands between a connection and the driver's protocol, and tells of a loss only when the driver waits for data.

    The driver forgets its connection when it hears of a loss, and does not look again before it sends: a loss between two
    of its steps, such as an answer and the request for more rows, is a null pointer in its C code (seen with 26.1.0). Told
    some turns of the loop later, when no answer is on its way any more, it has sent and waits, and raises an error.
    """

    def __init__(self, inner: asyncio.Protocol, loop: asyncio.AbstractEventLoop, line: Line) -> None:
        self._inner, self._loop, self._line = inner, loop, line
        self._framing = Framing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._line.receive(len(data)):
            return
        if self._framing.possible(data):
            self._inner.data_received(data)
        else:
            self._line.flood("the peer says what no database says: a packet shorter or longer than any can be")

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._line.lost = True
        self._later(exc, TURNS)

    def _later(self, exc: Exception | None, turns: int) -> None:
        if turns:
            self._loop.call_soon(self._later, exc, turns - 1)
        else:
            self._inner.connection_lost(exc)


class _KeepingLoop(asyncio.SelectorEventLoop):
    """Hands every connection that the driver opens to the line of the task that opens it."""

    async def create_connection(self, protocol_factory: Callable[[], Any], *args: Any, **options: Any) -> Any:
        line, inner = _current.get(), protocol_factory()
        transport, _ = await super().create_connection(lambda: _Relay(inner, self, line), *args, **options)
        line.add(self, transport)
        return transport, inner

    async def start_tls(self, transport: Any, protocol: Any, *args: Any, **options: Any) -> Any:
        return await super().start_tls(transport, _Relay(protocol, self, _current.get()), *args, **options)


class _Runner:
    """One loop and its thread."""

    def __init__(self) -> None:
        self.loop = _KeepingLoop()
        self.loop.set_exception_handler(_note)
        self.stuck = False
        threading.Thread(target=_serve, args=(self.loop,), name="oracle-loop", daemon=True).start()

    def submit(self, work: Callable[[], Coroutine[Any, Any, Result]], line: Line) -> _Call[Result]:
        async def with_line() -> Result:
            _current.set(line)
            return await work()

        return _Call(asyncio.run_coroutine_threadsafe(with_line(), self.loop))

    def answers(self) -> bool:
        """Whether the loop still does what it is told."""
        heard = threading.Event()
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(heard.set)
        return heard.wait(GRACE_SECONDS)

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)


class _Call(Generic[Result]):
    """A coroutine under way."""

    def __init__(self, future: concurrent.futures.Future[Result]) -> None:
        self._future = future

    def ended(self, timeout: float) -> bool:
        return bool(concurrent.futures.wait((self._future,), timeout).done)

    def result(self) -> Result:
        return self._future.result(0)

    def cancel(self) -> None:
        self._future.cancel()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with contextlib.suppress(Exception):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def _note(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # What goes wrong in a call is told by the call; the rest are leftovers of connections that were cut.
    logger.debug("%s", context.get("message", ""))


class PrivateLoop:
    """Runs coroutines for the threads of one target; its thread ends with it."""

    def __init__(self) -> None:
        self._runner: _Runner | None = None
        self._starting = threading.Lock()

    def run(self, work: Callable[[], Coroutine[Any, Any, Result]], line: Line, timeout: float, what: str) -> Result:
        """What the coroutine returns or raises.

        Raises DeadlineExceeded after `timeout` seconds, whatever the coroutine does; `line` is cut by then.
        """
        runner = self._ready()
        call = runner.submit(work, line)
        if call.ended(timeout):
            return call.result()
        line.cut()
        # What its connection ends in, the call ends in; cancelling it first would make it wait for the server's word.
        if not call.ended(GRACE_SECONDS):
            call.cancel()
            if not runner.answers():
                logger.warning("the loop of the driver does not answer any more; a new one takes its place")
                runner.stuck = True
        raise DeadlineExceeded(f"{what}: not done after {timeout:g} s")

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]], line: Line) -> None:
        """Let a coroutine run, and wait for nothing; never raises."""
        runner = self._runner
        if runner is not None and not runner.stuck:
            with contextlib.suppress(RuntimeError):  # it is closed
                runner.submit(work, line)

    def _ready(self) -> _Runner:
        with self._starting:
            if self._runner is None or self._runner.stuck:
                self._runner = _Runner()
                weakref.finalize(self, self._runner.stop)
            return self._runner
