"""What a probe process and its parent say to each other over their pipe. Frozen, picklable."""

from __future__ import annotations

from dataclasses import dataclass, field

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.errors import Reason
from exporter.domain.model import Operation, PairFacts, Snapshot, TargetFacts, Tick
from exporter.domain.states import Activity, EncryptionState, ScratchLock, StandbyState

CANARY, ENCRYPTION_STATE, ACTIVITY, HEARTBEAT, STANDBY = COLLECTORS = (
    "canary",
    "encryption_state",
    "activity",
    "heartbeat",
    "standby",
)
"""What runs on a target, each at its own interval; the last two only where standbys are configured."""


def collector_intervals(settings: Settings, target: TargetSettings) -> dict[str, float]:
    """The collectors that run on a target, and the seconds from one run to the next."""
    intervals = settings.intervals_of(target)
    found = {
        CANARY: intervals.canary,
        ENCRYPTION_STATE: intervals.encryption_state,
        ACTIVITY: intervals.activity,
    }
    if target.standbys:
        found |= {HEARTBEAT: intervals.heartbeat, STANDBY: intervals.standby}
    return found


BUSY, MISSED, BUDGET, BACK_OFF, ABANDONED = SKIP_REASONS = ("busy", "missed", "budget", "back_off", "abandoned")
"""The closed set of causes for which a planned run does not happen: the last one has not ended, the time for
it has passed, no canary time was left (counted for each operation), a connection failed a short while ago,
or its call never ended."""


TIME, BYTES_READ, BYTES_WRITTEN, SESSIONS, BOOST_TIME = BUDGETS = (
    "time",
    "bytes_read",
    "bytes_written",
    "sessions",
    "boost_time",
)
"""What canaries may use of a target, by name; the last one is the time of extra samples, which have a limit of their own."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Parent to child, first message: probe these targets of the settings.

    `snapshots` names the targets that shall begin with a dense snapshot.
    """

    process: int
    settings: Settings
    targets: tuple[str, ...]
    snapshots: frozenset[str]


@dataclass(frozen=True, slots=True)
class BoostWanted:
    """Parent to child: more samples of these (pair, operation) would help to decide sooner, and of no others."""

    target: str
    keys: frozenset[tuple[str, Operation]]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """Parent to child: give up the targets `leaving`, then probe those of `settings`, which holds no others.

    A name may stand in both: then its settings changed. `number` comes back in a beat.
    """

    number: int
    leaving: frozenset[str]
    settings: Settings
    snapshots: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stop:
    """Parent to child: close all sessions and end."""


@dataclass(frozen=True, slots=True)
class Beat:
    """Once a second: the scheduler loop of this process lives. The numbers are those since the last beat.

    `lateness` holds seconds from the planned to the real start of each job; `skipped` counts runs
    that did not happen per (target, cause), cause one of `SKIP_REASONS`;
    `noise` holds the timings of the null canary in seconds; `abandoned` counts lanes given up;
    `clock_steps` counts steps of the wall clock that were seen and mended; `dropped` counts messages
    that did not fit into the queue to the parent; `load_ratios` holds per target the share of
    wall time (last hour) in which canaries ran. `reassigned` is the number of the last `Reassignment`: nothing that
    follows is about targets as they were before it.
    """

    process: int
    lateness: tuple[float, ...] = ()
    skipped: dict[tuple[str, str], int] = field(default_factory=dict)
    noise: tuple[float, ...] = ()
    abandoned: int = 0
    clock_steps: int = 0
    dropped: int = 0
    load_ratios: dict[str, float] = field(default_factory=dict)
    reassigned: int = 0


@dataclass(frozen=True, slots=True)
class TargetReached:
    """Sessions were opened, for the target or for its twins; `seconds` is what connecting took.

    With no `connects`, only the facts are new.
    """

    target: str
    facts: TargetFacts
    connects: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TargetFailed:
    """A target could not be reached or used; `words` may be shown to people and holds no secret."""

    target: str
    reason: Reason
    words: str
    connecting: bool


@dataclass(frozen=True, slots=True)
class TickDone:
    """One paired measurement, dropped or not."""

    tick: Tick


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """The dense snapshot at the start."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class PairChecked:
    """The verification of a pair."""

    target: str
    facts: PairFacts


@dataclass(frozen=True, slots=True)
class StateRead:
    """The encryption state of a target."""

    target: str
    state: EncryptionState


@dataclass(frozen=True, slots=True)
class ActivityRead:
    """What the instance of a target has done so far."""

    target: str
    activity: Activity


@dataclass(frozen=True, slots=True)
class StandbysRead:
    """All configured standbys of a target."""

    target: str
    standbys: tuple[StandbyState, ...]


@dataclass(frozen=True, slots=True)
class LockSeen:
    """Who has the lock that guards the scratch data of a target; None: nobody knows, or nothing is written there."""

    target: str
    lock: ScratchLock | None


@dataclass(frozen=True, slots=True)
class BudgetsUsed:
    """After each round of canaries, whether any ran or not.

    `used` holds the share of each budget in use: of the last hour, or for `SESSIONS` now; `BOOST_TIME` is missing where
    boosting is switched off. `bytes_read` and
    `bytes_written` are those of this round, None where the engine does not count them. `periods` holds per (pair,
    operation) the seconds from tick to tick that the budgets allow.
    """

    target: str
    used: dict[str, float]
    bytes_read: int | None
    bytes_written: int | None
    periods: dict[tuple[str, Operation], float]


@dataclass(frozen=True, slots=True)
class BoostedNow:
    """Of which (pair, operation) more samples than configured are taken now: after the first round of canaries, and when
    that changes. `refused` says in words why more that are wanted are not taken; empty: nothing is refused."""

    target: str
    keys: frozenset[tuple[str, Operation]]
    refused: str = ""


@dataclass(frozen=True, slots=True)
class CollectorDone:
    """A collector finished at the Unix time `at`; `collector` is one of `COLLECTORS`. `reason` is None on success."""

    target: str
    collector: str
    seconds: float
    at: float
    reason: Reason | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Building:
    """Twins are being built: what, and the share that is done, 0..1."""

    target: str
    what: str
    share: float


ToParent = (
    Beat
    | TargetReached
    | TargetFailed
    | TickDone
    | SnapshotDone
    | PairChecked
    | StateRead
    | ActivityRead
    | StandbysRead
    | LockSeen
    | BudgetsUsed
    | BoostedNow
    | CollectorDone
    | Building
)
ToChild = Assignment | Reassignment | BoostWanted | Stop


def target_of(message: ToParent) -> str:
    """Which target a message is about; empty: a whole process."""
    match message:
        case TickDone(tick):
            return tick.target
        case SnapshotDone(snapshot):
            return snapshot.target
        case Beat():
            return ""
    return message.target
