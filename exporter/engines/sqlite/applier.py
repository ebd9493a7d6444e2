"""The standby: a process of its own that applies what the primary ships to its own encrypted file.

Started as `python -P -m exporter.engines.sqlite.applier FD`, where FD is its end of a socket pair. File and
key are in the first message, so that no secret is among the arguments. It receives before it applies, as
a real standby does, and reports both. It ends when the primary is gone, having applied what it received.
Needs the driver and little else, to be a small process.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apsw

from exporter.engines.sqlite import replica
from exporter.engines.sqlite.shipping import CHANGE, HELLO, REPORT, SEED, Change, Frame, Hello, Report, Wire
from exporter.engines.sqlite.unlocking import fingerprint, leave_log_alone, readable, unlock

MOST_WAITING = 4 * 2**20
"""Bytes received and not yet applied; beyond them nothing is read, and the primary notices."""

BUSY_MILLISECONDS = 50
APPLY_SECONDS = 0.05
"""Longest time between two looks at what has arrived."""

RETRY_SECONDS, REOPEN_SECONDS = 0.05, 1.0


class Replica:
    """The standby's own file, opened when first used, and again when another file has taken its name."""

    def __init__(self, hello: Hello) -> None:
        self._path, self._hello = Path(hello.path), hello
        self._connection: apsw.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def open(self) -> apsw.Connection:
        """The connection to the file. Raises apsw.Error, OSError; apsw.NotADBError when the key does not open it."""
        if self._connection is not None and self._identity == self._found():
            return self._connection
        self.close()
        wanted = self._hello.ciphers[0]
        if not replica.missing(self._path):
            cipher = self._cipher()
            connection = self._connected(cipher)
            if cipher == wanted:
                return self._taken(connection)
            # A replica of ours, made when another cipher was configured.
            connection.close()
            replica.remove(self._path)
        if replica.missing(self._path):
            replica.make(self._path, wanted, self._hello.key, None)
        return self._taken(self._connected(wanted))

    def _cipher(self) -> str:
        for cipher in self._hello.ciphers:
            if readable(self._path, cipher, self._hello.key):
                return cipher
        raise apsw.NotADBError(f"the key does not open {self._path}")

    def _connected(self, cipher: str) -> apsw.Connection:
        """A connection to what is there. Raises apsw.SQLError when it is no replica."""
        connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            leave_log_alone(connection)
            unlock(connection, cipher, self._hello.key)
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            replica.settle(connection)
            replica.position(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _taken(self, connection: apsw.Connection) -> apsw.Connection:
        self._connection, self._identity = connection, self._found()
        return connection

    def seed(self, content: replica.Content) -> None:
        content.write(self.open())

    def apply(self, change: Change) -> bool:
        """Apply a transaction; one that was applied before changes nothing. False when it does not continue the file."""
        connection = self.open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            held = replica.position(connection)
            if held is None or change.sequence > held.sequence + 1:
                return False
            if change.sequence == held.sequence + 1:
                apsw.Changeset.apply(change.changeset, connection, conflict=_refuse)
            connection.execute("COMMIT")
        except apsw.AbortError:
            return False
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return True

    def position(self) -> replica.Position | None:
        return replica.position(self.open())

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.close()

    def _found(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


def _refuse(*_conflict: object) -> int:
    """Rows that are not as the primary's were: something else has written here, and patching would hide it."""
    return apsw.SQLITE_CHANGESET_ABORT


class Applier:
    """Receives, applies, reports."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._replica: Replica | None = None
        self._fingerprint = ""
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        self._report, self._said = Report(), Report()
        self._looked = False
        self._not_before = 0.0

    def run(self) -> None:
        """Until the primary is gone."""
        while True:
            if self._bytes < MOST_WAITING:
                self._wire.wait(self._patience())
            else:
                time.sleep(self._patience() or 0.0)
            try:
                self._receive()
                self._say()
                self._work()
                self._say()
            except EOFError:
                break
        self._work()
        if self._replica is not None:
            self._replica.close()

    def _patience(self) -> float | None:
        if self._replica is None or (self._looked and not self._waiting):
            return None
        return max(0.0, self._not_before - time.monotonic())

    def _receive(self) -> None:
        if self._bytes >= MOST_WAITING:
            return
        for frame in self._wire.take():
            if frame.kind == HELLO:
                hello = Hello.decode(frame.body)
                self._replica, self._fingerprint = Replica(hello), fingerprint(hello.key, hello.nonce)
                self._attempt(self._look)
                continue
            if frame.kind == CHANGE:
                self._report = replace(self._report, received=Change.decode(frame.body).sequence)
            elif frame.kind == SEED:
                self._report = replace(self._report, received=replica.Content.decode(frame.body).sequence)
            self._waiting.append(frame)
            self._bytes += len(frame.body)

    def _work(self) -> None:
        """Apply what waits, for a short while."""
        end = time.monotonic() + APPLY_SECONDS
        if time.monotonic() < self._not_before:
            return
        if self._replica is not None and not self._looked and not self._attempt(self._look):
            return
        while self._waiting and time.monotonic() < end:
            if not self._attempt(self._apply_next):
                return
            self._bytes -= len(self._waiting.popleft().body)

    def _apply_next(self) -> None:
        assert self._replica is not None
        frame = self._waiting[0]
        if frame.kind == SEED:
            content = replica.Content.decode(frame.body)
            self._replica.seed(content)
            self._report = replace(
                self._report,
                generation=content.generation,
                applied=content.sequence,
                seeds=self._report.seeds + 1,
                lost=False,
            )
        elif frame.kind == CHANGE and not self._report.lost:
            change = Change.decode(frame.body)
            if self._replica.apply(change):
                self._report = replace(self._report, applied=max(change.sequence, self._report.applied or 0))
            else:
                self._report = replace(self._report, lost=True)

    def _look(self) -> None:
        """Open the file and see how far it is."""
        assert self._replica is not None
        held = self._replica.position()
        known = self._report
        self._report = replace(
            known,
            generation="" if held is None else held.generation,
            applied=None if held is None else held.sequence,
            received=known.received if held is None else max(held.sequence, known.received or 0),
            lost=known.lost or held is None,
        )

    def _attempt(self, work: Callable[[], None]) -> bool:
        """Do something with the file; False when it did not succeed, and is to be tried again later."""
        pause, refused, problem = 0.0, False, ""
        try:
            work()
        except apsw.BusyError:
            # Somebody holds the file. Changes wait, and the lag tells how long.
            pause = RETRY_SECONDS
        except apsw.NotADBError:
            pause, refused, problem = REOPEN_SECONDS, True, "the key does not open the standby's file"
        except apsw.SQLError:
            pause, problem = REOPEN_SECONDS, "the standby's file is a database that this exporter did not make"
        except (apsw.Error, OSError) as error:
            pause, problem = REOPEN_SECONDS, f"the standby's file cannot be used: {error}"
        self._not_before = time.monotonic() + pause
        # After any failure its position must be read again. While it is only busy, the last one stands.
        self._looked = not problem and (self._looked or not pause)
        opened = self._fingerprint if self._looked else ""
        self._report = replace(self._report, fingerprint=opened, refused=refused, problem=problem)
        return not pause

    def _say(self) -> None:
        """Report when something changed. A report that the primary has not taken yet is not followed by another."""
        self._wire.flush()
        if self._report != self._said and not self._wire.pending:
            self._said = self._report
            self._wire.put(REPORT, self._report.encode())
            self._wire.flush()


def main(argv: list[str]) -> None:
    """Entry point of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Applier(Wire(socket.socket(fileno=int(argv[1])))).run()


if __name__ == "__main__":
    main(sys.argv)
