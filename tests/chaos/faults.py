"""What is done to the world: each fault once or for a while, and taken back; nobody mends anything else."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator

from tests.chaos.world import SHOP, World
from tests.daemons import PATIENCE

CLOCKS = ("-3600", "-120", "+0", "+120", "+3600")
LONGEST_WAIT = 2 * PATIENCE


class Faults:
    """Does them, at moments and for times that `rng` says, and counts them by name."""

    def __init__(self, world: World, rng: random.Random, cut_unseen: Callable[[], str]) -> None:
        self._world, self._rng, self._cut_unseen = world, rng, cut_unseen
        self._clock = "+0"
        self.done: dict[str, int] = {}
        self.short = {
            "kill -9 of the daemon": self.kill,
            "SIGTERM": self.terminate,
            "kill -9 of a probe process": self.kill_probe,
            "SIGSTOP of the daemon": self.freeze,
            "SIGSTOP of a probe process": self.freeze_probe,
        }
        self.lasting = {"network cut": self.cut, "clock step": self.step, "disk full": self.fill}

    def strike(self, name: str, inner: str = "") -> None:
        """One fault; while it lasts, another one. The daemon serves when it is over."""
        if name in self.short:
            self._do(name)
        else:
            self._count(name)
            with self.lasting[name]():
                if inner:
                    time.sleep(self._rng.uniform(0.0, 1.0))
                    self._do(inner)
                    if name != "disk full":
                        self._world.await_page()
        self._world.await_page()

    def _do(self, name: str) -> None:
        self._count(name)
        self.short[name]()

    def _count(self, name: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
        self.done[name] = self.done.get(name, 0) + 1

    # -- at once --------------------------------------------------------------------------------

    def kill(self) -> None:
        self._world.kill()
        self._again()

    def terminate(self) -> None:
        self._world.terminate()
        self._again()

    def _again(self) -> None:
        time.sleep(self._rng.uniform(0.0, 0.3))
        self._world.start()
        if self._rng.random() < 0.2:
            # Once more, in the middle of the start.
            time.sleep(self._rng.uniform(0.05, 1.0))
            self._world.kill()
            self._world.start()

    def kill_probe(self) -> None:
        if probes := self._world.probes():
            self._world.signal_probe(self._rng.choice(probes), signal.SIGKILL)

    def freeze(self) -> None:
        self._world.freeze(self._rng.uniform(0.3, 2.5))

    def freeze_probe(self) -> None:
        if probes := self._world.probes():
            pid = self._rng.choice(probes)
            self._world.signal_probe(pid, signal.SIGSTOP)
            time.sleep(self._rng.uniform(0.3, 6.0))
            self._world.signal_probe(pid, signal.SIGCONT)

    # -- for a while ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """The network between exporter and server: until the page says so, and says nothing more."""
        proxy = self._world.proxy
        how = self._rng.choice(["go_silent", "refuse", "reset"])
        getattr(proxy, how)()
        try:
            yield
            deadline = time.monotonic() + LONGEST_WAIT
            while words := self._cut_unseen():
                assert time.monotonic() < deadline, f"{SHOP} is cut off ({how}), but after {LONGEST_WAIT:g} s {words}"
                time.sleep(0.1)
            self._world.seen_cut = True
            time.sleep(self._rng.uniform(0.0, 1.0))
        finally:
            self._world.seen_cut = False
            proxy.go_on()
            self._world.last_harm = time.monotonic()

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """To another time, which stays."""
        self._clock = self._rng.choice([offset for offset in CLOCKS if offset != self._clock])
        self._world.step_clock(self._clock)
        yield

    @contextlib.contextmanager
    def fill(self) -> Iterator[None]:
        world = self._world
        world.full = True
        world.disk.fill()
        try:
            yield
            time.sleep(self._rng.uniform(1.0, 4.0))
        finally:
            world.disk.free()
            world.full = False
            world.saves_since = time.monotonic()
            world.last_harm = time.monotonic()
