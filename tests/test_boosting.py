"""What the evidence wants more samples of reaches the probe process, and what comes of it reaches the page."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from exporter.boosting import ask_for_samples
from exporter.config.schema import IntervalSettings, ProbeSettings, Settings
from exporter.domain.clock import FakeClock, SystemClock
from exporter.domain.model import Operation, Tick
from exporter.engines.fake.settings import Side, Target
from exporter.exposition.ledger import Ledger
from exporter.overhead.evidence import Name
from exporter.probing.messages import TickDone, ToParent
from exporter.probing.rounds import Rounds
from exporter.probing.supervisor import Supervisor
from exporter.probing.turnstile import Turnstile
from tests import processes

until = partial(processes.until, patience=100.0)
POINT = ("scripted", Operation.POINT_SELECT)


class Suspicious(Ledger):
    """A ledger whose evidence about the point selects of one target is near a decision, if a test says so."""

    wanted: frozenset[tuple[str, Operation]] = frozenset()

    def boost_wanted(self, target: str) -> frozenset[tuple[str, Operation]]:
        return self.wanted if target == "orders" else frozenset()


class Monitor:
    """Ledger and probe process of two scripted targets, as the daemon joins them."""

    def __init__(self, folder: Path) -> None:
        clock = SystemClock()
        self.settings = Settings(
            state_directory=folder,
            targets=tuple(Target(name=name, real_time=False) for name in ("orders", "stock")),
            intervals=IntervalSettings(canary=1.0),
            probes=ProbeSettings(processes=1),
        )
        self.ledger = Suspicious(self.settings, clock)
        self.ticks: list[Tick] = []
        self.supervisor = Supervisor(self.settings, clock, self._deliver, self.ledger.process_up, lambda _target: False)

    def _deliver(self, process: int, message: ToParent) -> None:
        self.ledger.apply(message, process)
        if isinstance(message, TickDone) and message.tick.operation is Operation.POINT_SELECT:
            self.ticks.append(message.tick)

    def asked(self, condition: Callable[[], object]) -> object:
        ask_for_samples(self.settings, self.ledger, self.supervisor)
        return condition()

    def boosted(self) -> list[bool | None]:
        """Whether the point selects of each target are boosted."""
        view = self.ledger.view()
        return [next(series.boosted for series in target.pairs[0].series) for target in view.targets]

    def sizes(self) -> dict[str, int]:
        """Samples in the newest point select of each target."""
        return {tick.target: len(tick.plain.samples) for tick in self.ticks}


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    made = Monitor(tmp_path)
    yield made
    made.supervisor.stop(1.0)


def test_more_samples_are_taken_while_they_are_wanted_and_the_view_says_so(monitor: Monitor) -> None:
    assert monitor.boosted() == [None, None]
    monitor.supervisor.start()
    until(lambda: monitor.asked(lambda: monitor.boosted() == [False, False]), "a first round")
    until(lambda: monitor.sizes() == {"orders": 20, "stock": 20}, "ticks of the usual size")

    monitor.ledger.wanted = frozenset({POINT})
    until(lambda: monitor.asked(lambda: monitor.boosted() == [True, False]), "the boost")
    until(lambda: monitor.sizes() == {"orders": 150, "stock": 20}, "a bigger tick of the one")

    monitor.ledger.wanted = frozenset()
    until(lambda: monitor.asked(lambda: monitor.boosted() == [False, False]), "the end of the boost")
    until(lambda: monitor.sizes() == {"orders": 20, "stock": 20}, "ticks of the usual size again")


def test_a_slower_encrypted_side_is_boosted_until_the_breach_and_not_after_it(tmp_path: Path) -> None:
    """The whole circle on a clock that the test moves: evidence, wish, bigger ticks, evidence, breach."""
    slow = Side(encrypted=True, latency=0.0016, decrypts=10)
    target = Target(name="orders", real_time=False, a=slow, operations=(Operation.POINT_SELECT,))
    clock, settings = FakeClock(), Settings(state_directory=tmp_path, targets=(target,))
    ledger, told = Ledger(settings, clock), []

    def emit(message: ToParent) -> None:
        ledger.apply(message, 0)
        if isinstance(message, TickDone):
            told.append((len(message.tick.plain.samples), ledger.view().targets[0].pairs[0].series[0]))

    rounds = Rounds(settings, target, Turnstile(), emit, clock, random.Random(1))
    ledger.process_up(0, True)
    for number in range(360):
        if number % 6 == 0:
            rounds.encryption_state()
        rounds.canary()
        rounds.allowance.boost.want(ledger.boost_wanted("orders"))
        clock.advance(10.0)

    assert [samples for samples, _ in groupby(samples for samples, _ in told)] == [20, 150, 20]
    boosted = [series for samples, series in told if samples == 150]
    tail = Name(99, "plain", 1.2)
    assert 30 < len(boosted) < 180
    assert not any(series.breached[tail] for series in boosted[:-1])
    assert told[-1][1].breached[tail]
