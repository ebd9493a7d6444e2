"""Writers killed at any moment: the next run repairs, the files keep their size and stay whole."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from exporter.domain.model import Slot
from exporter.engines.sqlite.operations import WRITING
from tests.engines.sqlite.conftest import asked

KILLS, HALFWAY, AT_MOST = 20, 8, 100
"""How many writers are killed: some more if too few of them had something in the log, which is what matters."""

# Forks a writer for every line it reads, so that no kill has to wait for a Python to start. Nothing is open
# before the fork. A writer goes on until it is killed; then the next line is read.
NURSERY = """
import os
import sys
from pathlib import Path
from exporter.domain.model import Operation, Slot
from exporter.engines.sqlite.engine import Engine
from exporter.engines.sqlite.settings import Pair, Target

def write(folder, operation):
    target = Target(name="embedded", pairs=(Pair(name="phonebook", rows=3000),)).resolved(Path(folder))
    session = Engine(target).open(5.0)
    session.prepare(target.pairs[0], 5.0)
    print("begin", os.getpid(), flush=True)
    for key in range(10**9):
        for slot in Slot:
            session.run(target.pairs[0], slot, operation, key, 5.0)

for line in sys.stdin:
    writer = os.fork()
    if not writer:
        write(sys.argv[1], Operation(line.strip()))
    os.waitpid(writer, 0)
    print("ended", flush=True)
"""


@pytest.fixture
def nursery(place, root):
    """A process that has writers, one after the other; none outlives it."""
    command = [sys.executable, "-c", NURSERY, str(place.directory.parent.parent)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=True, start_new_session=True
    ) as process:
        yield process
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def kill_one(nursery, operation, moment):
    """Start a writer and kill it after `moment` seconds of writing."""
    nursery.stdin.write(f"{operation}\n")
    nursery.stdin.flush()
    word, pid = nursery.stdout.readline().split()
    assert word == "begin"
    # The moment is what is tested: anywhere in a transaction, between two of them, in a checkpoint.
    time.sleep(moment)
    os.kill(int(pid), signal.SIGKILL)
    assert nursery.stdout.readline() == "ended\n"


def whole(place):
    return {asked(place, place.path(slot), "PRAGMA integrity_check") for slot in Slot} == {"ok"}


@pytest.mark.parametrize("operation", sorted(WRITING))
def test_twenty_kills_while_writing_leave_whole_twins_that_the_next_run_repairs(place, nursery, operation):
    session = place.built()
    for each in sorted(WRITING):
        for slot in Slot:
            session.run(place.pair, slot, each, 0, 5.0)
    session.close()
    sizes, key, rng, killed, halfway = place.sizes(), place.key.read_bytes(), random.Random(str(operation)), 0, 0
    while killed < KILLS or (halfway < HALFWAY and killed < AT_MOST):
        kill_one(nursery, operation, rng.uniform(0.0, 0.04))
        killed += 1
        halfway += any(place.log(slot).exists() and place.log(slot).stat().st_size for slot in Slot)

        session = place.open()
        answers = {session.run(place.pair, slot, operation, killed, 5.0).answer for slot in Slot}
        assert len(answers) == 1
        session.close()
        assert place.sizes() == sizes
        assert whole(place)
    assert asked(place, place.plain, "SELECT count(*), min(id), max(id) FROM scratch_filled") == (1000, 1, 1000)
    assert place.key.read_bytes() == key
    session = place.built()
    assert session.verify(place.pair, 5.0).valid
    for each in sorted(WRITING):
        assert len({session.run(place.pair, slot, each, 1, 5.0).answer for slot in Slot}) == 1
    assert place.sizes() == sizes
    assert halfway >= HALFWAY
