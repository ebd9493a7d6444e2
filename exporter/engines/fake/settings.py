"""Configuration of the scripted engine."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from exporter.config.schema import Duration, PairSettings, StandbySettings, Strict, TargetSettings
from exporter.domain.errors import Reason
from exporter.domain.model import Operation, Slot
from exporter.domain.states import KeystoreState


class Side(Strict):
    """How one twin behaves."""

    encrypted: bool | None = None
    """Whether verification finds it encrypted; null: cannot tell."""
    latency: Duration = 0.001
    """Median time of a query."""
    spread: float = Field(0.1, ge=0, le=3)
    """Standard deviation of the logarithm of the latency (lognormal)."""
    cpu_share: float | None = Field(0.5, ge=0, le=1)
    """CPU time as a share of the latency; null: unknown."""
    server_share: float | None = Field(None, ge=0, le=1)
    """Time that the pretended server reports for a query, as a share of the latency; null: it reports none."""
    decrypts: int | None = Field(0, ge=0)
    """Blocks decrypted by one query; null: unknown."""
    digest: str = "same"
    """Identifies the data that the twin holds."""


class Standby(StandbySettings):
    """A pretended standby, whose state is what is written here; null: unknown."""

    configured: bool = True
    """Whether the primary is set up to feed it."""
    transport_running: bool | None = True
    """Whether it receives."""
    apply_running: bool | None = True
    """Whether it applies."""
    transport_lag: float | None = 0.0
    """Seconds that it is behind in receiving. May be set to what no standby should say, such as -1."""
    apply_lag: float | None = 0.0
    """Seconds that it is behind in applying."""
    heartbeat_lag: float | None = 0.0
    """Seconds since the oldest heartbeat that it does not show."""
    received_sequence: int | None = 7
    """Sequence that it has received."""
    applied_sequence: int | None = 7
    """Sequence that it has applied."""
    key_match: bool | None = True
    """Whether it has the keys that the primary's objects use."""
    configured_delay: float | None = None
    """Seconds that it is meant to be behind."""
    clock_skew: float | None = None
    """Seconds that its clock is ahead of the primary's."""
    channel: str = ""
    """Replication channel, where it has several; one entry for each."""
    problem: str = ""
    """What it says is wrong."""


class Activity(Strict):
    """What the pretended instance says of itself; null: unknown."""

    decrypts: int | None = None
    """Blocks decrypted since its start."""
    encrypts: int | None = None
    """Blocks encrypted since its start."""
    decrypt_source: Literal["counter", "proxy"] | None = None
    """Where these numbers come from."""
    cpu_seconds: float | None = None
    """CPU time used since its start."""
    reads: int | None = None
    """Physical reads since its start."""
    read_seconds: float | None = None
    """Time spent in physical reads."""
    buffer_hit_ratio: float | None = None
    """Share of reads that found their block in memory."""
    host_cpu_ratio: float | None = None
    """Share of the host's processors in use."""
    host_cpus: int | None = None
    """Processors of the host."""
    host_aes: bool | None = None
    """Whether they have AES instructions."""
    problems: tuple[str, ...] = ()
    """What could not be read."""


class Fault(Strict):
    """Something that goes wrong from the `first` to the `last` call of one kind, counted from 1 over the target's life."""

    kind: Literal["error", "hang", "wedge", "defect"]
    """`error` raises; `hang` blocks until the deadline; `wedge` blocks for ever and cannot be cancelled; `defect` raises what nobody foresaw."""
    call: Literal[
        "open",
        "prepare",
        "run",
        "verify",
        "encryption_state",
        "activity",
        "provision",
        "drop",
        "heartbeat",
        "standbys",
        "selftest",
    ] = "run"
    """Which call of the session contract."""
    slot: Slot | None = None
    """Only for runs on this slot; null: on both."""
    reason: Reason = Reason.QUERY
    """Which error is raised."""
    first: int = Field(1, ge=1)
    """Number of the first call that goes wrong."""
    last: int | None = Field(None, ge=1)
    """Number of the last call that goes wrong; null: for ever."""
    every: int = Field(1, ge=1)
    """Of these calls only each so many; 5: the first, the sixth, and so on."""


class Target(TargetSettings):
    """A scripted target: no database at all, latencies and faults as written here."""

    default_operations: ClassVar[tuple[Operation, ...]] = (Operation.POINT_SELECT, Operation.FULL_SCAN)

    engine: Literal["fake"] = "fake"
    """A scripted engine, for tests and demonstrations."""
    pairs: tuple[PairSettings, ...] = (PairSettings(name="scripted"),)
    """The twins to pretend."""
    standbys: tuple[Standby, ...] = ()
    """The standbys to pretend."""
    a: Side = Side(encrypted=True, latency=0.0012, decrypts=10)
    """The object in slot a."""
    b: Side = Side(encrypted=False)
    """The object in slot b."""
    keystore: KeystoreState = KeystoreState.OPEN
    """State of the pretended keystore."""
    activity: Activity = Activity()
    """What the whole instance does."""
    scratch_lock_held: bool | None = None
    """Whether this exporter has the lock that guards its writes; null: it writes nothing."""
    scratch_lock_holder: str = ""
    """Who else has it."""
    clock: Literal["client", "server"] = "client"
    """Whose time of a query decides."""
    faults: tuple[Fault, ...] = ()
    """What goes wrong, and when."""
    real_time: bool = True
    """Whether queries really take their time, or only report it."""
    seed: int = 1
    """Start of the random sequence."""
