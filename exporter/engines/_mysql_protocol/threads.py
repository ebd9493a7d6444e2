"""Whether a server runs on this machine, and what the thread that serves one of our sessions uses of its processors.

A server tells the number of the thread that serves a session. Whether that is a thread of this machine, and not one of
another machine or container that happens to have the same number, is tried out: a short burst of work is given to the
session, and this very thread must work for as long as that takes, and rest before and after.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event

from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines.host import Host, TaskTimes, ThreadTime, spent

BURST = "SELECT BENCHMARK(%s, CRC32('tde-exporter'))"
"""Needs no privilege and no table."""
BURST_SECONDS = 0.004
ATTEMPTS = 3
SETTLE_SECONDS = 0.02
SESSION_THREADS = ("connection", "one_connection")
"""What MySQL and MariaDB call the threads that serve sessions. MariaDB before 11 gives its threads no names."""


@dataclass(frozen=True, slots=True)
class ServerThread:
    """The thread that serves one of our sessions, and its process, both on this machine."""

    tid: int
    pid: int


@dataclass(frozen=True, slots=True)
class ThreadMark:
    """What a session's thread, and all that work for it, have used so far."""

    thread: ThreadTime | None
    tasks: TaskTimes | None = None


def find_out(host: Host, connection: Connection, tid: int | None, timeout: float) -> ServerThread | None:
    """The thread of a session whose server says that its number is `tid`; None when that cannot be shown.

    Makes the server work for about 25 ms. Raises only what the connection raises.
    """
    if tid is None or host.thread(tid) is None or (pid := host.process_of(tid)) is None:
        return None
    loops = 10_000
    for _ in range(12):
        seconds = _burst(connection, loops, timeout)
        if seconds >= BURST_SECONDS:
            break
        loops *= 2
    for _ in range(ATTEMPTS):
        if all(_works_alike(host, connection, tid, loops * times, timeout) for times in (1, 2)):
            return ServerThread(tid, pid)
    return None


def _burst(connection: Connection, loops: int, timeout: float) -> float:
    return connection.timed(BURST, (loops,), timeout=timeout).execute_seconds


def _works_alike(host: Host, connection: Connection, tid: int, loops: int, timeout: float) -> bool:
    """Whether a thread rests while the session rests, and works while it works."""
    idle = settled(host, tid)
    Event().wait(BURST_SECONDS)
    before = settled(host, tid)
    seconds = _burst(connection, loops, timeout)
    after = settled(host, tid)
    if idle is None or before is None or after is None:
        return False
    worked = after.cpu - before.cpu
    # On a busy machine part of the time is spent waiting for a processor.
    accounted = worked + after.waiting - before.waiting
    rested = before.cpu - idle.cpu
    return worked >= 0.001 and 0.7 * seconds <= accounted and worked <= seconds + 0.002 and rested <= 0.1 * worked


def settled(host: Host, tid: int) -> ThreadTime | None:
    """The times of a thread once it rests; None when it goes on working, for then they are not up to date."""
    give_up = time.monotonic() + SETTLE_SECONDS
    while not host.resting(tid):
        if time.monotonic() >= give_up:
            return None
        Event().wait(0.0002)
    return host.thread(tid)


class CpuOfRuns:
    """CPU of canary queries by the server's own threads.

    A query that reads ahead is partly done by other threads; for it, all threads of the server count that serve no
    other session. Where threads have no names, those of other sessions cannot be told apart, but for our own.
    """

    def __init__(self, host: Host, thread: ServerThread, others: tuple[int, ...]) -> None:
        """`others` are threads of our further sessions on this server."""
        self._host, self._thread, self._others = host, thread, others

    def mark(self, reads_ahead: bool) -> ThreadMark:
        """What has been used so far; to be called when the session rests."""
        if reads_ahead:
            tasks = self._host.tasks(self._thread.pid, SESSION_THREADS, keep=self._thread.tid)
            return ThreadMark(None, {k: v for k, v in tasks.items() if k not in self._others} if tasks else None)
        return ThreadMark(settled(self._host, self._thread.tid))

    def between(self, before: ThreadMark, after: ThreadMark) -> float | None:
        """Seconds of CPU used between two marks."""
        if before.tasks is not None and after.tasks is not None:
            return spent(before.tasks, after.tasks)
        if before.thread is not None and after.thread is not None:
            return max(0.0, after.thread.cpu - before.thread.cpu)
        return None
