"""A ledger with a clock that stands still, and words to say what happens to it."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field, replace

from prometheus_client.parser import text_string_to_metric_families

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import Reason
from exporter.domain.events import Event, EventKind
from exporter.domain.model import (
    Burst,
    Operation,
    PairFacts,
    Phase,
    Sample,
    SeriesKey,
    Slot,
    TargetFacts,
    Tick,
    TwinFacts,
    Variant,
    Work,
)
from exporter.domain.states import (
    Activity,
    EncryptionState,
    Keystore,
    KeystoreState,
    LagKind,
    ScratchLock,
    StandbyState,
)
from exporter.exposition.ledger import Ledger
from exporter.exposition.page import Renderer
from exporter.exposition.series_book import Dated
from exporter.exposition.view import TargetView
from exporter.overhead.baseline import PairBaseline, SeriesBaseline, freeze
from exporter.overhead.stretches import stretch
from exporter.probing.messages import (
    ActivityRead,
    Beat,
    BoostedNow,
    BudgetsUsed,
    CollectorDone,
    LockSeen,
    PairChecked,
    StandbysRead,
    StateRead,
    TargetFailed,
    TargetReached,
    TickDone,
    ToParent,
)

WORK = Work(cpu_seconds=0.001, blocks_read=10, decrypts=10, encrypts=0)
FACTS = TargetFacts(
    "sqlite3mc", "3.54.0", cpu_source="thread", decrypt_unit="block", decrypt_source="counter", block_bytes=8192
)
EMBEDDED_STATE = EncryptionState(
    (Keystore("key_file", KeystoreState.OPEN, kind="file", raw="readable", key_activated=1.7e9),),
    (("database", "encrypted", 1), ("database", "plain", 1)),
)
SERVER_FACTS = replace(FACTS, flavor="mysql", version="9.4.0", role="primary", clock="server", cpu_source="thread")
SERVER_STATE = EncryptionState(
    keystores=(
        Keystore(
            "component_keyring_file", KeystoreState.OPEN, "file", "component", "Active", "server", 1.7e9, 3, 0, True
        ),
    ),
    objects=(
        ("tablespace", "encrypted", 12),
        ("tablespace", "plain", 480),
        ("tablespace", "pending", 1),
        ("tablespace", "in_progress", 1),
        ("redo", "encrypted", 1),
        ("undo", "encrypted", 2),
        ("binlog", "plain", 1),
        ("temp", "plain", 1),
        ("database", "encrypted", 1),
        ("database", "plain", 4),
    ),
    object_bytes=(("tablespace", "encrypted", 3 * 2**30), ("tablespace", "plain", 90 * 2**30)),
    algorithms=(("AES", 12),),
    unprotected=(("log", 1), ("temp", 1)),
    conversions=(("shop/orders", 0.25),),
    conversion_stalled=False,
)
NO_ACTIVITY = Activity()
OURS = ScratchLock(True)
ACTIVITY = Activity(
    decrypts=100_000,
    encrypts=20_000,
    decrypt_source="counter",
    cpu_seconds=500.0,
    reads=90_000,
    read_seconds=45.0,
    buffer_hit_ratio=0.995,
    host_cpu_ratio=0.375,
    host_cpus=8,
    host_aes=True,
)

Labels = frozenset[tuple[str, str]]


def pair_facts(pair: str = "phonebook", *, epoch: str = "one", encrypted: bool = True) -> PairFacts:
    def twin(slot: Slot, cipher: bool) -> TwinFacts:
        return TwinFacts(slot, cipher, "aes256cbc" if cipher else "", rows=200_000, rows_per_block=80.5, digest="same")

    return PairFacts(pair, Phase.ENABLED, twin(Slot.A, encrypted), twin(Slot.B, False), epoch)


def standby_state(standby: str = "local", **changes: object) -> StandbyState:
    """A standby that is up to date; `changes` replace its fields, `transport`, `apply` and `heartbeat` its lags."""
    lags = tuple((kind, changes.pop(kind.value, 0.0)) for kind in LagKind)
    state = StandbyState(standby, True, True, True, lags, 7, 7, True)  # type: ignore[arg-type]
    return replace(state, **changes)  # type: ignore[arg-type]


def burst(seconds: float, samples: int = 20, work: Work = WORK, failure: Reason | None = None, first: int = 0) -> Burst:
    duration = math.inf if failure else seconds
    return Burst(
        tuple(
            Sample(first + position, duration, seconds * 0.8, seconds * 0.2, 0.0, work, failure)
            for position in range(samples)
        )
    )


@dataclass
class Stage:
    """One ledger and everything said to it."""

    settings: Settings
    clock: FakeClock = field(default_factory=FakeClock)
    process: int = 0
    facts: TargetFacts = FACTS
    state: EncryptionState = EMBEDDED_STATE
    activity: Activity = NO_ACTIVITY
    standbys: tuple[StandbyState, ...] = ()
    lock: ScratchLock = OURS
    work: Work = WORK
    slowness: float = 1.2
    """How many times what the plain side takes the encrypted one takes."""
    pair: PairFacts | None = None
    """What verification finds, where it is not what is configured."""
    ticks: Counter[Operation] = field(default_factory=Counter)
    boosted: frozenset[tuple[str, Operation]] = frozenset()

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.settings, self.clock)
        self.renderer = Renderer(self.ledger.view, self.clock, self.settings.web.max_series, 30.0)
        self.target: TargetSettings = self.settings.targets[0]

    def say(self, message: ToParent) -> None:
        self.ledger.apply(message, self.process)

    def begin(self) -> None:
        """A probe process comes up, reaches its target, and reads its state; the history has a size."""
        self.ledger.state_size(4096)
        self.ledger.process_up(self.process, True)
        self.say(Beat(self.process, (0.002,), {}, (1e-6, 2e-6), load_ratios={self.target.name: 0.004}))
        self.say(TargetReached(self.target.name, self.facts, 1, 0.05))
        self.read_state()

    def read_state(self, facts: PairFacts | None = None) -> None:
        for pair in self.target.pairs:
            self.say(PairChecked(self.target.name, facts or self.pair or pair_facts(pair.name)))
        self.say(StateRead(self.target.name, self.state))
        self.say(LockSeen(self.target.name, self.lock))
        self.collected("encryption_state")

    def read_standbys(self, *states: StandbyState) -> None:
        """The standbys are read; without `states` as the stage has them, else up to date."""
        told = states or self.standbys or tuple(standby_state(standby.name) for standby in self.target.standbys)
        self.say(StandbysRead(self.target.name, told))
        self.collected("standby")
        self.collected("heartbeat")

    def read_activity(self, activity: Activity | None = None) -> None:
        self.say(ActivityRead(self.target.name, activity or self.activity))
        self.collected("activity")

    def collected(self, collector: str = "canary", reason: Reason | None = None) -> None:
        self.say(CollectorDone(self.target.name, collector, 0.1, self.clock.wall(), reason))

    def failed(self, reason: Reason = Reason.CONNECT, words: str = "connection refused") -> None:
        self.say(TargetFailed(self.target.name, reason, words, connecting=True))

    def made(self, operation: Operation = Operation.POINT_SELECT, **changes: object) -> Tick:
        """A tick of the first pair, as the canary makes it; `changes` replace its fields."""
        self.ticks[operation] += 1
        number = self.ticks[operation]
        first = Variant.ENCRYPTED if number % 2 else Variant.PLAIN
        samples = 20 if operation is Operation.POINT_SELECT else 1
        wobble = 1 + 0.01 * (number % 7)
        tick = Tick(
            self.target.name,
            self.target.pairs[0].name,
            operation,
            "one",
            self.clock.wall(),
            first,
            burst(0.001 * self.slowness * wobble, samples, self.work),
            burst(0.001 * wobble, samples, replace(self.work, decrypts=0)),
        )
        return replace(tick, **changes)  # type: ignore[arg-type]

    def tick(self, operation: Operation = Operation.POINT_SELECT, **changes: object) -> None:
        """One tick of the first pair is done."""
        self.say(TickDone(self.made(operation, **changes)))

    def round(self) -> None:
        """One tick of every operation, and the end of the collector."""
        for operation in self.target.canary_operations:
            self.tick(operation)
        self.collected()
        self.budgets()

    def budgets(self, period: float = 10.0, read: int | None = 8192, written: int | None = 4096) -> None:
        """What a round leaves behind: its budgets, and how often each operation of the first pair may run."""
        used = {"time": 0.4, "bytes_read": 0.2, "bytes_written": 0.1, "sessions": 0.5, "boost_time": 0.3}
        pair = self.target.pairs[0].name
        periods = {(pair, operation): period for operation in self.target.canary_operations}
        self.say(BudgetsUsed(self.target.name, used, read, written, periods))
        self.say(BoostedNow(self.target.name, self.boosted))

    def hours(self, hours: float = 1.1, interval: float = 10.0) -> None:
        """Rounds and states as they come, until everything that can be known is known."""
        for number in range(int(hours * 3600 / interval)):
            self.clock.advance(interval)
            if number % 6 == 0:
                self.read_state()
                self.ledger.judge()
            if self.target.standbys:
                self.read_standbys()
            self.read_activity()
            self.round()

    def whole_day(self) -> None:
        """As long as the longest window takes until it says everything, and then as `hours`."""
        self.hours(10.2, interval=60.0)
        self.hours()

    def exceeded(self) -> None:
        """The encrypted side takes twice as long, until that is found; it is dated an hour back."""
        self.slowness = 2.5
        while not (changes := self.ledger.changes()):
            self.hours(0.1)
        for change in changes:
            self.ledger.date(change.key, change.name, Dated(change.at - 3600.0, 600.0))

    def restarted(self) -> Stage:
        """Another process on the same history, which has not spoken to anybody yet; the clock goes on."""
        return replace(self, ticks=Counter(self.ticks)).taking_up(self)

    def taking_up(self, before: Stage) -> Stage:
        """This stage, after it took up what `before` would have written down."""
        states = json.loads(json.dumps([[*key, state] for key, state in before.ledger.states()]))
        for target, pair, operation, state in states:
            self.ledger.restore_state(SeriesKey(target, pair, Operation(operation)), state)
        for series, block in before.ledger.blocks():
            self.ledger.restore(series, block)
        return self

    def boost(self, *keys: tuple[str, Operation]) -> None:
        """Pairs and operations of the target that are measured more often now."""
        self.boosted = frozenset(keys)
        self.say(BoostedNow(self.target.name, self.boosted))

    def frozen(self, **changes: object) -> PairBaseline:
        """A baseline of what was measured so far on the first pair; `changes` replace its fields."""
        series: dict[Operation, SeriesBaseline] = {}
        for operation in self.target.canary_operations:
            parts = [stretch(block) for key, block in self.ledger.blocks() if key.operation is operation]
            if (found := freeze(parts)) is not None:
                series[operation] = found
        now = self.clock.wall()
        pair, name = self.target.pairs[0].name, self.target.name
        baseline = PairBaseline(
            name, pair, now, now - 3600, now, "one", Phase.ENABLED, Slot.A, "same", series, "event", "", 1
        )
        return replace(baseline, **changes)  # type: ignore[arg-type]

    def remember(self) -> None:
        """A baseline, and as many events as are shown."""
        self.ledger.set_baselines(self.target.name, [self.frozen()])
        events = [Event(self.target.name, 1.7e9 + n, EventKind.UPGRADE, f"to version {n}") for n in range(30)]
        self.ledger.set_events(self.target.name, events)

    def samples(self) -> dict[str, dict[Labels, float]]:
        """The page as a scrape sees it: name, labels, value. Raises when a sample is there twice."""
        page = self.renderer.render_once().text.decode()
        found: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels = frozenset(sample.labels.items())
                assert labels not in found.setdefault(sample.name, {}), sample
                found[sample.name][labels] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample with at least these labels; None when there is none."""
        wanted = frozenset(labels.items())
        values = [value for found, value in self.samples().get(name, {}).items() if wanted <= found]
        assert len(values) < 2, (name, labels, values)
        return values[0] if values else None

    def known(self, name: str, **labels: str) -> float:
        """The one sample with at least these labels; it must be there."""
        value = self.value(name, **labels)
        assert value is not None, (name, labels)
        return value

    @property
    def view(self) -> TargetView:
        """The first target as it is shown now."""
        return self.ledger.view().targets[0]

    def names(self) -> set[str]:
        """Names of the metrics that we make ourselves."""
        return {name for name in self.samples() if not name.startswith(("process_", "python_"))}
