"""The value types that rooms hand to each other. All are frozen; durations are seconds.

Vocabulary: a *target* is a configured database. A *pair* is a pair of twin objects in it; its two
objects sit in *slots* `a` and `b`. Which slot is the *variant* `encrypted` and which is `plain` is
what verification finds (never what the configuration says). An *operation* is a canary query. A
*sample* is one individually timed query; a *tick* measures one operation on both twins, as
interleaved pairs of samples; a *snapshot* is a dense back-to-back measurement outside the ticks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self, TypeVar

from exporter.domain.errors import Reason


class Variant(StrEnum):
    """The two sides of a pair, by what the data on disk really is."""

    ENCRYPTED = "encrypted"
    PLAIN = "plain"

    @property
    def other(self) -> Variant:
        return Variant.PLAIN if self is Variant.ENCRYPTED else Variant.ENCRYPTED


class Slot(StrEnum):
    """The two objects of a pair as configured, before anybody knows which one is encrypted."""

    A = "a"
    B = "b"

    @property
    def other(self) -> Slot:
        return Slot.B if self is Slot.A else Slot.A


class Phase(StrEnum):
    """What a pair is meant to be: `aa` both plain (to certify the twins), `enabled` one of them encrypted.

    What it is found to be decides (`PairFacts.found`): a pair that is configured as `aa` may become encrypted where it
    stands, for that is what it waits for; one that is configured as `enabled` must not be plain.
    """

    AA = "aa"
    ENABLED = "enabled"


class Operation(StrEnum):
    """The catalogue of canary operations; `probing.operations` says what each does and proves."""

    POINT_SELECT = "point_select"
    POINT_SELECT_COLD = "point_select_cold"
    RANGE_SELECT = "range_select"
    RANGE_SELECT_COLD = "range_select_cold"
    INDEX_COUNT = "index_count"
    INDEX_COUNT_COLD = "index_count_cold"
    SORTED_SELECT = "sorted_select"
    SORTED_SELECT_COLD = "sorted_select_cold"
    FULL_SCAN = "full_scan"
    FULL_SCAN_COLD = "full_scan_cold"
    LOB_READ = "lob_read"
    INSERT_BATCH = "insert_batch"
    UPDATE_BATCH = "update_batch"
    DELETE_REPLENISH = "delete_replenish"
    CHECKPOINT = "checkpoint"


CONTENDED = "contended"
"""Why a tick was dropped that our own process disturbed; all other causes are a `Reason`."""

Number = TypeVar("Number", int, float)


class SeriesKey(NamedTuple):
    """What one statistic is about: one operation on one pair of one target."""

    target: str
    pair: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class Work:
    """What a run made the engine do, as deltas around the run. None is unknown, never 0.

    `decrypts` and `encrypts` count units of `TargetFacts.decrypt_unit`; `blocks_read` counts blocks
    physically read.
    """

    cpu_seconds: float | None = None
    server_seconds: float | None = None
    blocks_read: int | None = None
    decrypts: int | None = None
    encrypts: int | None = None

    def __add__(self, other: Work) -> Work:
        """Sum; unknown on either side stays unknown."""

        def total(mine: Number | None, theirs: Number | None) -> Number | None:
            return None if mine is None or theirs is None else mine + theirs

        return Work(
            total(self.cpu_seconds, other.cpu_seconds),
            total(self.server_seconds, other.server_seconds),
            total(self.blocks_read, other.blocks_read),
            total(self.decrypts, other.decrypts),
            total(self.encrypts, other.encrypts),
        )

    def values(self) -> tuple[float | None, ...]:
        """All fields in the order of their definition."""
        return (self.cpu_seconds, self.server_seconds, self.blocks_read, self.decrypts, self.encrypts)

    @classmethod
    def nothing(cls) -> Self:
        """The neutral element of the sum: everything known, everything zero."""
        return cls(0.0, 0.0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Execution:
    """One successful run of an operation on one object, as the engine timed it.

    `execute_seconds` and `fetch_seconds` (and `commit_seconds` for writing operations) are the
    client's; their sum is the sample. `answer` identifies the result: equal answers on both twins
    mean that both did the same work (row count, checksum).
    """

    execute_seconds: float
    fetch_seconds: float
    work: Work
    answer: tuple[int, int]
    commit_seconds: float = 0.0

    @property
    def duration(self) -> float:
        return self.execute_seconds + self.fetch_seconds + self.commit_seconds


@dataclass(frozen=True, slots=True)
class Sample:
    """One individually timed query: duration in seconds, `inf` where it failed or timed out.

    `position` is its place in the tick (0 is the first of all samples of both sides).
    """

    position: int
    duration: float
    execute_seconds: float = 0.0
    fetch_seconds: float = 0.0
    commit_seconds: float = 0.0
    work: Work = field(default_factory=Work)
    failure: Reason | None = None


@dataclass(frozen=True, slots=True)
class Burst:
    """One side's share of a tick: its samples in the order in which they ran."""

    samples: tuple[Sample, ...]

    @property
    def durations(self) -> tuple[float, ...]:
        return tuple(sample.duration for sample in self.samples)

    @property
    def failures(self) -> tuple[Reason, ...]:
        return tuple(sample.failure for sample in self.samples if sample.failure is not None)

    @property
    def work(self) -> Work:
        """Sum over the successful samples; a field that one of them does not know is unknown."""
        total = Work.nothing()
        for sample in self.samples:
            if sample.failure is None:
                total = total + sample.work
        return total


@dataclass(frozen=True, slots=True)
class Tick:
    """One paired measurement of one operation; both bursts have the same number of samples.

    `started` is Unix time. `dropped` names why the tick must not enter statistics on either side
    (`CONTENDED`, or the reason of the error that aborted it); attempts and failures are counted all
    the same. `epoch` identifies everything that must not change inside one statistic. `unit` is
    used by snapshots: the number of the AB+BA unit that the tick belongs to.
    """

    target: str
    pair: str
    operation: Operation
    epoch: str
    started: float
    first: Variant
    encrypted: Burst
    plain: Burst
    dropped: str | None = None
    unit: int = 0

    def burst(self, variant: Variant) -> Burst:
        return self.encrypted if variant is Variant.ENCRYPTED else self.plain


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A dense back-to-back measurement of one target: the ticks of all its pairs and operations.

    `failures` holds (pair, operation, words) of what could not be measured.
    """

    target: str
    started: float
    seconds: float
    ticks: tuple[Tick, ...]
    failures: tuple[tuple[str, Operation, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What a session found out about its database; discovered once per connect.

    `decrypt_unit` is `block` or `value`, `decrypt_source` is `counter` or `proxy`, None where
    decrypts cannot be counted at all. `clock` names the time that decides (`client` or `server`).
    `block_bytes` is the size of the blocks that are counted.
    """

    flavor: str
    version: str
    role: str = ""
    open_mode: str = ""
    edition: str = ""
    cpu_source: str = ""
    decrypt_unit: str | None = None
    decrypt_source: str | None = None
    clock: str = "client"
    shared_costs: str = ""
    scope: str = "database"
    block_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TwinFacts:
    """What verification found about one object of a pair; None is unknown.

    `digest` is equal on two objects if and only if they hold the same data. `problem` says in words
    why the object cannot be used. `name` is what the object is called where it lies.
    """

    slot: Slot
    encrypted: bool | None
    algorithm: str = ""
    rows: int | None = None
    rows_per_block: float | None = None
    digest: str | None = None
    problem: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class PairFacts:
    """The verification of one pair.

    `valid` means: both twins are usable, hold the same data, and the pair matches its phase.
    `epoch` changes whenever something changes that must not be mixed in one statistic.
    """

    pair: str
    phase: Phase
    a: TwinFacts
    b: TwinFacts
    epoch: str = ""

    def twin(self, slot: Slot) -> TwinFacts:
        return self.a if slot is Slot.A else self.b

    @property
    def found(self) -> Phase | None:
        """The phase by what the objects are; None when they do not tell, or match none."""
        states = {self.a.encrypted, self.b.encrypted}
        return Phase.AA if states == {False} else Phase.ENABLED if states == {True, False} else None

    @property
    def certifying(self) -> bool:
        """Whether both twins are plain, and meant to be for now."""
        return self.phase is Phase.AA and self.found is not Phase.ENABLED

    @property
    def attribution(self) -> dict[Variant, Slot] | None:
        """Which slot is which side; None when the objects do not tell. While both are plain in phase `aa`, slot `a`
        plays encrypted."""
        if self.phase is Phase.AA and self.found is Phase.AA:
            return {Variant.ENCRYPTED: Slot.A, Variant.PLAIN: Slot.B}
        if self.a.encrypted is None or self.b.encrypted is None or self.a.encrypted == self.b.encrypted:
            return None
        encrypted = Slot.A if self.a.encrypted else Slot.B
        return {Variant.ENCRYPTED: encrypted, Variant.PLAIN: encrypted.other}

    @property
    def problem(self) -> str:
        """Why the pair is not valid, in words; empty when it is."""
        for twin in (self.a, self.b):
            if twin.problem:
                return twin.problem
        states = {self.a.encrypted, self.b.encrypted}
        if self.phase is Phase.ENABLED and states != {True, False}:
            found = "the state of one is unknown"
            if None not in states:
                found = "both are encrypted" if True in states else "neither is encrypted"
            return f"one twin must be encrypted and the other plain, but {found}"
        if self.phase is Phase.AA and self.found is None:
            found = "both are encrypted" if states == {True} else "the state of one is unknown"
            return f"phase aa wants both twins plain, or one of them by now encrypted, but {found}"
        if self.a.digest is None or self.a.digest != self.b.digest:
            return "the twins do not hold the same data"
        return ""

    @property
    def valid(self) -> bool:
        return not self.problem
