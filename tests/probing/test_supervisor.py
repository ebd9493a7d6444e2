"""The supervisor with real probe processes: what hangs, what is frozen, what cannot be started."""

import contextlib
import os
import resource
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from exporter.config.schema import Settings
from exporter.domain.clock import FakeClock, SystemClock
from exporter.domain.model import Operation
from exporter.engines.fake.settings import Target
from exporter.probing.messages import BoostedNow
from exporter.probing.supervisor import Supervisor
from tests import processes


class Watched:
    """A supervisor of scripted targets, and what it said about its one process."""

    def __init__(self, folder, clock, targets=1, deliver=lambda _process, _message: None, **options):
        settings = Settings(
            state_directory=folder,
            targets=tuple(Target(name=f"target-{number}", real_time=False) for number in range(targets)),
            probes={"processes": 1},
            **options,
        )
        self.ups: list[bool] = []
        self.supervisor = Supervisor(
            settings, clock, deliver, lambda _process, up: self.ups.append(up), lambda _target: False
        )

    def up(self):
        return bool(self.ups) and self.ups[-1]

    def pid(self):
        return self.supervisor.pids().get(0)


until = partial(processes.until, patience=100.0)


def children():
    """Our probe processes; those that are only about to become one do not count."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return [pid for pid in found if b"exporter.probing.process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.fixture
def watched(tmp_path):
    made = []

    def make(clock=None, **options):
        made.append(Watched(tmp_path, clock or SystemClock(), **options))
        return made[-1]

    yield make
    for each in made:
        each.supervisor.stop(1.0)


def test_a_child_that_reads_nothing_holds_up_neither_start_nor_stop(watched):
    """A long list of targets does not fit into the pipe; whoever wrote it there waited for the child, for ever."""
    many = watched(targets=3000)
    strangers = set(children())
    starting = threading.Thread(target=many.supervisor.start)
    starting.start()
    until(lambda: set(children()) - strangers, "the child")
    (child,) = set(children()) - strangers
    os.kill(child, signal.SIGSTOP)
    starting.join(50.0)
    assert not starting.is_alive()

    begun = time.monotonic()
    many.supervisor.stop(2.5)
    assert time.monotonic() - begun < 5.0 * 5
    assert child not in children()


def test_processes_are_not_killed_for_a_silence_that_was_our_own(watched):
    """Stopped by a signal or a frozen container, the supervisor has heard nothing; its processes are well."""
    clock = FakeClock()
    frozen = watched(clock)
    frozen.supervisor.start()
    until(frozen.up, "the first sign of life")
    pid = frozen.pid()
    for _ in range(8):
        time.sleep(0.1)
        clock.advance(1000.0)
        until(lambda: frozen.supervisor.loop_age() == 0.0, "a round of the loop")

    assert frozen.pid() == pid
    assert frozen.ups == [True]


def test_what_is_wanted_is_told_and_told_again_to_the_successor_of_a_process(watched):
    point = ("scripted", Operation.POINT_SELECT)
    told = []

    def deliver(_process, message):
        if isinstance(message, BoostedNow):
            told.append((message.target, message.keys))

    boosted = watched(deliver=deliver, targets=2, intervals={"canary": 1.0})
    boosted.supervisor.start()
    until(lambda: {target for target, _ in told} == {"target-0", "target-1"}, "the first word")
    assert {keys for _, keys in told} == {frozenset()}

    boosted.supervisor.want_boost("target-1", frozenset({point}))
    until(lambda: told[-1] == ("target-1", frozenset({point})), "the boost")
    os.kill(boosted.pid(), signal.SIGKILL)
    until(lambda: boosted.ups == [True, False, True], "the successor")
    del told[:]
    until(lambda: ("target-1", frozenset({point})) in told, "the boost by the successor")
    boosted.supervisor.want_boost("target-1", frozenset())
    until(lambda: told[-1] == ("target-1", frozenset()), "the end of the boost")
    assert {keys for target, keys in told if target == "target-0"} <= {frozenset()}


def test_without_file_descriptors_it_goes_on_and_starts_later(watched):
    poor = watched()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        poor.supervisor.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert poor.pid() is None

    until(poor.up, "a process, now that there are descriptors")


def test_a_probe_process_may_have_as_many_files_as_the_system_allows(watched):
    """Four for each target: with the usual 1024, the two hundred and fiftieth target of a process would be the last."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        many = watched()
        many.supervisor.start()
        until(many.up, "the process")
        _, _, limits = Path(f"/proc/{many.pid()}/limits").read_text().partition("Max open files")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert limits.split()[:2] == [str(hard), str(hard)]


def test_a_listener_that_is_stuck_does_not_speak_for_the_successor(watched):
    held, free = threading.Event(), threading.Event()

    def deliver(_process, _message):
        if not held.is_set():
            held.set()
            free.wait(60.0)

    stuck = watched(deliver=deliver)
    stuck.supervisor.start()
    assert held.wait(100.0)
    os.kill(stuck.pid(), signal.SIGKILL)
    until(lambda: stuck.ups == [True, False, True], "the successor")
    free.set()

    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "probe-0"][1:], "the old listener")
    assert stuck.ups == [True, False, True]
