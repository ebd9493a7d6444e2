"""Two exporters on the same twins: the second one says who the first is, and a dead one holds nothing."""

import os
import socket
import subprocess
import sys
import threading

import pytest

from exporter.domain.errors import Blocked, Cancelled
from exporter.domain.model import Operation, Slot
from exporter.domain.states import ScratchLock
from exporter.engines.sqlite.lock import LockFile
from tests.stopwatch import Stopwatch

HOLD = """
import sys
from pathlib import Path
from exporter.domain.model import Operation, Slot
from exporter.engines.sqlite.engine import Engine
from exporter.engines.sqlite.settings import Pair, Target
target = Target(name="embedded", pairs=(Pair(name="phonebook", rows=3000),)).resolved(Path(sys.argv[1]))
session = Engine(target).open(5.0)
session.run(target.pairs[0], Slot.A, Operation.INSERT_BATCH, 1, 5.0)
print("holding", flush=True)
sys.stdin.read()
"""


def test_the_second_process_names_the_first_and_a_killed_one_holds_nothing(place, root):
    place.built().close()
    command = [sys.executable, "-c", HOLD, str(place.directory.parent.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, cwd=root) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"holding\n"
        session = place.built()  # healthy twins need no lock
        session.prepare(place.pair, 5.0)
        assert session.run(place.pair, Slot.A, Operation.FULL_SCAN_COLD, 1, 5.0).work.decrypts > 0
        with pytest.raises(Blocked, match=f"process {holder.pid}"):
            session.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)
        place.plain.unlink()
        with pytest.raises(Blocked, match=f"process {holder.pid}"):
            place.provision(session)
        assert not place.plain.exists()
        holder.kill()
        holder.wait(10.0)

    place.provision(session)
    assert session.verify(place.pair, 5.0).valid
    assert session.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0).answer[0] == 500


def test_a_session_knows_who_has_the_lock_once_it_wanted_it(place):
    first, second = place.built(), place.open()
    first.close()
    second.run(place.pair, Slot.A, Operation.FULL_SCAN_COLD, 1, 5.0)
    assert second.scratch_lock() is None
    third = place.open()
    third.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)
    assert third.scratch_lock() == ScratchLock(True)
    with pytest.raises(Blocked):
        second.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)
    assert second.scratch_lock() == ScratchLock(False, f"process {os.getpid()} on {socket.gethostname()}")
    third.close()
    assert third.scratch_lock() is None
    second.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)
    assert second.scratch_lock() == ScratchLock(True)


def test_a_closed_session_holds_nothing(place):
    first, second = place.built(), place.open()
    with pytest.raises(Blocked, match=f"process {os.getpid()}"):
        second.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)
    first.close()

    assert second.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0).answer[0] == 500


def test_waiting_takes_over_from_a_predecessor_that_ends(tmp_path):
    first = LockFile(tmp_path / "lock", threading.Event())
    second = LockFile(tmp_path / "lock", threading.Event())
    first.acquire(0.0)
    threading.Timer(0.1, first.release).start()
    second.acquire(10.0)

    with pytest.raises(Blocked):
        first.acquire(0.0)
    second.release()


def test_waiting_ends_when_the_session_is_closed(tmp_path):
    stop = threading.Event()
    first, second = LockFile(tmp_path / "lock", threading.Event()), LockFile(tmp_path / "lock", stop)
    first.acquire(0.0)
    threading.Timer(0.1, stop.set).start()
    watch = Stopwatch()
    with pytest.raises(Cancelled):
        second.acquire(60.0)

    assert watch.seconds < 5 * 1.0
    first.release()


def test_taking_it_twice_is_taking_it_once(tmp_path):
    lock = LockFile(tmp_path / "lock", threading.Event())
    lock.acquire(0.0)
    lock.acquire(0.0)
    lock.release()
    lock.release()
    other = LockFile(tmp_path / "lock", threading.Event())
    other.acquire(0.0)
    other.release()


def test_a_lock_whose_directory_was_removed_is_taken_anew(tmp_path):
    """What is held by a removed file keeps nobody away: a second process would make a new one and lock that."""
    path = tmp_path / "lock"
    lock, other = LockFile(path, threading.Event()), LockFile(path, threading.Event())
    lock.acquire(1.0)
    path.unlink()
    lock.acquire(1.0)

    with pytest.raises(Blocked):
        other.acquire(0.0)
    lock.release()
    other.acquire(1.0)
    other.release()
