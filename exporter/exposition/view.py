"""What the page and the landing page know at one moment. All frozen; made by `Ledger.view`.

What could not be read is None or missing here, never 0 and never an old value: expiry is decided when
the view is made, so that whoever shows a view need not think about it. Times are Unix time, durations
seconds, shares and ratios plain numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.domain.errors import Reason
from exporter.domain.events import Event
from exporter.domain.model import Operation, PairFacts, Phase, TargetFacts, Variant
from exporter.domain.sharding import WHOLE, Shard
from exporter.domain.states import Activity, EncryptionState, ScratchLock, StandbyState
from exporter.overhead.baseline import Comparison, PairBaseline, SeriesBaseline
from exporter.overhead.certificate import Certified, certify_day, weakest
from exporter.overhead.cost import DecryptCost, Interval, tightest
from exporter.overhead.evidence import Evidence, Name
from exporter.overhead.snapshot import SnapshotRow
from exporter.overhead.tiers import Tier
from exporter.overhead.verdict import State, word_of_state
from exporter.overhead.window_day import DaySummary
from exporter.overhead.windows import SeriesSummary
from exporter.overhead.words import Word

CipherUnit = tuple[str, str]
"""Unit (`block` or `value`) and source (`counter` or `proxy`) of a number of decrypts."""


@dataclass(frozen=True, slots=True)
class SideView:
    """What one operation on one side of a pair added up to since the start; None is unknown."""

    runs: int = 0
    failures: Mapping[Reason, int] = field(default_factory=dict)
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    cpu_seconds: float | None = None
    server_seconds: float | None = None
    blocks_read: int | None = None
    decrypts: Mapping[CipherUnit, int] = field(default_factory=dict)
    encrypts: Mapping[CipherUnit, int] = field(default_factory=dict)
    last_success: float | None = None


@dataclass(frozen=True, slots=True)
class BreachView:
    """A breach that lasts: latched at `since`; what led to it began at `onset`, give or take `uncertainty` (Unix time and
    seconds; None where that cannot be told)."""

    name: Name
    since: float
    onset: float | None = None
    uncertainty: float | None = None


@dataclass(frozen=True, slots=True)
class SeriesView:
    """One operation on one pair. `summary` is None while nothing may be said: pair not valid, target not read.

    `period` is the time from tick to tick that the budgets allow now, `tier` what can be said at that rate; `thinned`
    is true when the budgets and not the configured interval decide. `baseline` is what was frozen of it, sides as they
    are now, and `compared` how now compares with that.

    `day` is the window of 24 hours, None as `summary` is. `breached` says for each detector whether its breach lasts,
    `breaches` tells of those that do; both stay while nothing can be measured, for a breach is latched. `evidence` has an
    entry for each detector; it and `state` are None or empty before the series was judged. `boosted` is None
    where an operation is never boosted, and while that is unknown.
    """

    operation: Operation
    sides: Mapping[Variant, SideView]
    summary: SeriesSummary | None = None
    tier: Tier | None = None
    period: float | None = None
    thinned: bool = False
    baseline: SeriesBaseline | None = None
    compared: Comparison | None = None
    day: DaySummary | None = None
    state: State | None = None
    evidence: tuple[Evidence, ...] = ()
    breached: Mapping[Name, bool] = field(default_factory=dict)
    breaches: tuple[BreachView, ...] = ()
    boosted: bool | None = None

    @property
    def word(self) -> Word | None:
        """The word for `state`, the same wherever it is shown; None while there is nothing to say."""
        if self.state is None:
            return None
        return word_of_state(self.state, {}) if self.summary is None else Word(self.summary.word)


@dataclass(frozen=True, slots=True)
class PairView:
    """One pair. `facts` is None until it was verified, and again when the last verification is too old.

    `phase` is as found, before that as configured. `baseline` is the one that it is compared with, `baseline_words` why
    it is not. `failing`: the encrypted side alone fails; None where no side is encrypted, or nothing was tried yet.
    """

    name: str
    phase: Phase
    series: tuple[SeriesView, ...]
    facts: PairFacts | None = None
    baseline: PairBaseline | None = None
    baseline_words: str = ""
    failing: bool | None = None

    @property
    def valid(self) -> bool | None:
        return None if self.facts is None else self.facts.valid

    @property
    def certificate(self) -> tuple[Operation, Certified] | None:
        """What the last day says of twins that are both plain, by the operation that stands most against them; None for
        others, and before an hour is over."""
        if self.phase is not Phase.AA or not self.valid:
            return None
        return weakest({one.operation: certify_day(one.day) for one in self.series if one.day is not None})

    @property
    def decrypt_cost(self) -> DecryptCost | None:
        """What one decrypt costs, by the operation of the last hour that knows best."""
        return tightest(series.summary.decrypt_cost for series in self.series if series.summary is not None)


@dataclass(frozen=True, slots=True)
class CollectorView:
    """One collector of one target after its first run.

    `success` is None while the probe process is down, `seconds` when the last run is too long ago. `narrowed` says in
    words what a run that succeeded could not read, and what would help; empty: nothing.
    """

    name: str
    success: bool | None
    seconds: float | None = None
    last_success: float | None = None
    narrowed: str = ""


@dataclass(frozen=True, slots=True)
class StandbyView:
    """One configured standby. `configured` is what the primary says, None while it was never asked.

    `states` holds one state for each replication channel by its name, and one without a name where there are no
    channels. A state is None until it was read, and again when the last reading is too old.
    """

    name: str
    configured: bool | None = None
    states: Mapping[str, StandbyState | None] = field(default_factory=lambda: {"": None})


@dataclass(frozen=True, slots=True)
class ActivityView:
    """What the whole instance has done by its newest reading, however old; what is no sum is None when that is too old.

    The rates are those between the last two readings, per second of time; `cpus_used` is CPU time a second,
    `seconds_per_read` the mean time of a physical read. None is unknown.
    """

    reading: Activity
    decrypts_per_second: float | None = None
    encrypts_per_second: float | None = None
    cpus_used: float | None = None
    reads_per_second: float | None = None
    seconds_per_read: float | None = None


@dataclass(frozen=True, slots=True)
class TargetView:
    """One configured target. `up` is None while its probe process is down.

    `problem` says in words what went wrong last, empty when all is well. `building` is what is being
    built and the share that is done. `budgets` holds the share in use of each of `messages.BUDGETS`. `ticks` counts
    those that were tried. `snapshot` holds the newest dense measurement, `snapshot_taken` its time. `standbys` is empty
    while its probe process is down. `activity` is None before it was first read. `lock` says who may write
    scratch data there, None while nobody knows and where nothing is written. `events` are the newest ones, newest
    first. `cores` is how many CPU cores encryption uses in the whole instance now.
    """

    name: str
    engine: str
    up: bool | None
    pairs: tuple[PairView, ...]
    problem: str = ""
    facts: TargetFacts | None = None
    connects: int = 0
    connect_seconds: float = 0.0
    connection_errors: Mapping[Reason, int] = field(default_factory=dict)
    ticks: int = 0
    contended: int = 0
    load: float | None = None
    load_limit: float | None = None
    budgets: Mapping[str, float] = field(default_factory=dict)
    bytes_read: int | None = None
    bytes_written: int | None = None
    invalid_values: int = 0
    state: EncryptionState | None = None
    key_activated: Mapping[str, float] = field(default_factory=dict)
    collectors: tuple[CollectorView, ...] = ()
    building: tuple[str, float] | None = None
    snapshot: tuple[SnapshotRow, ...] = ()
    snapshot_taken: float | None = None
    standbys: tuple[StandbyView, ...] = ()
    activity: ActivityView | None = None
    lock: ScratchLock | None = None
    events: tuple[Event, ...] = ()
    cores: Interval | None = None


@dataclass(frozen=True, slots=True)
class HistogramView:
    """`counts` are cumulative, one for each upper bound and a last one for +Inf."""

    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True)
class NoiseView:
    """The null canary in the last hour: percentiles in seconds, of so many samples."""

    median: float
    p99: float
    samples: int


@dataclass(frozen=True, slots=True)
class ConfigView:
    """Whether the last reload succeeded (the start counts as one), when one last did, and the configuration in use as a
    number (`fingerprint`). Of `configured` targets, `own` are those of this exporter's shard."""

    reloaded: bool
    at: float
    fingerprint: int
    shard: Shard = WHOLE
    own: int = 0
    configured: int = 0


@dataclass(frozen=True, slots=True)
class WebView:
    """Connections that the web server refused by reason, and its answers by status code; the Unix time at which its
    certificate ends, None where it speaks no TLS."""

    refused: Mapping[str, int]
    answered: Mapping[int, int]
    certificate_ends: float | None = None


@dataclass(frozen=True, slots=True)
class ExporterView:
    """The exporter itself. `state_bytes` is None while the history has no size, `recent_noise` before the first beat,
    `config` where nobody knows, `web` where nothing is served."""

    version: str
    python: str
    processes: Mapping[int, bool]
    process_starts: Mapping[int, int]
    skipped: Mapping[str, int]
    lateness: HistogramView
    noise: HistogramView
    lanes_abandoned: int = 0
    clock_steps: int = 0
    messages_dropped: int = 0
    state_bytes: int | None = None
    state_errors: int = 0
    recent_noise: NoiseView | None = None
    config: ConfigView | None = None
    web: WebView | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Everything, at the Unix time `at`."""

    at: float
    targets: tuple[TargetView, ...]
    exporter: ExporterView

    def target(self, name: str) -> TargetView | None:
        return next((target for target in self.targets if target.name == name), None)
