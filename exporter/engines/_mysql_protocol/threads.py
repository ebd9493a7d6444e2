"""Whether a server runs on this machine, and what the thread that serves one of our sessions uses of its processors.

A server tells the number of the thread that serves a session. Whether that is a thread of this machine, and not one of
another machine or container that happens to have the same number, is tried out: short bursts of work are given to the
session, and this very thread must work as much more as the burst is longer, and rest before and after.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event

from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines.host import Host, TaskTimes, ThreadTime, spent

BURST = "SELECT BENCHMARK(%s, CRC32('tde-exporter'))"
"""Needs no privilege and no table."""
BURST_SECONDS = 0.003
ATTEMPTS = 5
MOST_LOOPS = 2_000_000
"""A processor does as many in 20 to 200 ms; a thread that does not work for milliseconds by then is somebody else's."""
MEASURES = (1, 3, 2)
"""How much work the bursts of one attempt are, against each other."""
SETTLE_SECONDS, PATIENCE_SECONDS = 0.02, 0.2
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
    loops = 20_000
    for _ in range(ATTEMPTS):
        shares: list[float] = []
        for times in MEASURES:
            shares.append(_burst(host, connection, tid, loops * times, timeout) / times)
            if shares[-1] < BURST_SECONDS:
                break
        if min(shares) <= 0.0:
            continue
        if min(shares) < BURST_SECONDS:
            if loops == MOST_LOOPS:
                return None
            loops = min(MOST_LOOPS, int(loops * 1.2 * BURST_SECONDS / min(shares)))
        elif max(shares) <= 1.6 * min(shares):
            return ServerThread(tid, pid)
    return None


def _burst(host: Host, connection: Connection, tid: int, loops: int, timeout: float) -> float:
    """CPU that a thread used while the session worked; 0 if it did not rest before or after."""
    idle = settled(host, tid, PATIENCE_SECONDS)
    if idle is None:
        return 0.0
    Event().wait(0.001)
    before = settled(host, tid, PATIENCE_SECONDS)
    seconds = connection.timed(BURST, (loops,), timeout=timeout)
    after = settled(host, tid, PATIENCE_SECONDS)
    if before is None or after is None:
        return 0.0
    worked, rested = after.cpu - before.cpu, before.cpu - idle.cpu
    # The session's own last steps may come late on a busy machine; that is microseconds.
    return worked if worked <= seconds.execute_seconds + 0.002 and rested <= 0.0002 else 0.0


def settled(host: Host, tid: int, patience: float = SETTLE_SECONDS) -> ThreadTime | None:
    """The times of a thread once it rests; None when it goes on working, for then they are not up to date."""
    give_up = time.monotonic() + patience
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
