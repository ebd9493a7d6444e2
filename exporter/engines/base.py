"""The contract between the canaries and an engine. Everything above this line is engine-neutral.

An engine is one folder below `exporter/engines/`. It ships two modules that are found by name:

`settings.py`
    `Target`, a subclass of `config.schema.TargetSettings` whose `engine` field is
    `Literal["<folder name>"]`. Imports no driver, for it is loaded to check any configuration.
`engine.py`
    `Engine`, which satisfies `Engine` below. Imported only in a process that probes such a target.

Nothing else changes when an engine is added; `tests/contract/` says what it must do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol, Self

from exporter.config.schema import PairSettings, TargetSettings
from exporter.domain.model import Execution, Operation, PairFacts, Slot, TargetFacts
from exporter.domain.states import Activity, EncryptionState, ScratchLock, StandbyState

Progress = Callable[[str, float], None]
"""Called with what is being done and the share that is done, 0..1."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `Session.prepare` had to do before a pair could be measured.

    `connects` is the number of sessions opened (their first queries are warm-up and not measured),
    `connect_seconds` what that took. `changed` means that an object is not the one that was verified
    last (a file exchanged, a table rebuilt): verify again before measuring.
    """

    connects: int = 0
    connect_seconds: float = 0.0
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What `Session.provision` did: `made` names the objects it made (empty: all was there), `grants` what of its
    rights it used, as one would write them in a GRANT."""

    made: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()


class Verdict(StrEnum):
    """What became of one statement of a self test."""

    OK = "ok"
    MISSING_GRANT = "missing grant"
    NOT_THERE = "not there"
    """This release has no such view, column or setting; nothing is wrong."""
    ERROR = "error"
    NOT_TRIED = "not tried"
    """It would change something, or belongs to what is not configured or not there; `words` say which."""


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """How one statement of an engine fared in a self test.

    `collector` is what is lost without the statement, `grants` what it takes, as one writes it in a GRANT. `code` is the
    database's own number of an error (`ORA-00942`), `seconds` how long it took, `rows` how many it gave or affected; None
    where it was not sent, or failed. No field holds a secret, or the name or address of a host.
    """

    statement: str
    collector: str
    grants: tuple[str, ...]
    verdict: Verdict
    code: str = ""
    seconds: float | None = None
    rows: int | None = None
    words: str = ""


class Session(Protocol):
    """An open conversation with one target, used by one thread at a time (its lane).

    Every method may raise a `domain.errors.TargetError` and nothing else. Every `timeout` (seconds)
    is a hard deadline: the method returns or raises `DeadlineExceeded` by then, give or take a tenth
    of a second, whatever the database or the network does. After `ConnectFailed` the session is not
    used again, except to be closed; after any other error it is.
    """

    def facts(self) -> TargetFacts:
        """What this database is; discovered when the session was opened, no I/O here. May tell more after a call that
        found out more.

        Where `clock` is `server`, `Execution.work.server_seconds` is the time that decides.
        """

    def provision(self, pair: PairSettings, progress: Progress, timeout: float) -> Provisioned:
        """Make the twin objects if they are missing; complete or repair what an earlier, killed run left.

        Never overwrites objects that hold data it did not write, nor any key. Calling it on healthy
        twins changes nothing. Raises `Blocked` when another exporter holds this target's scratch lock.
        """

    def drop(self, pair: PairSettings, timeout: float) -> tuple[str, ...]:
        """Remove the twin objects of a pair; the names of what was removed.

        Removes nothing that does not carry our marker, and no key; raises `Blocked` for an object of that name that
        is not ours, and when another exporter holds this target's scratch lock.
        """

    def verify(self, pair: PairSettings, timeout: float) -> PairFacts:
        """Find out which twin is really encrypted, and whether both hold the same data.

        A twin that is missing or unreadable is not an error: its `TwinFacts.problem` says so.
        """

    def prepare(self, pair: PairSettings, timeout: float) -> Prepared:
        """Make sure that both twins can be measured without connecting inside a timed section.

        A twin that cannot be opened is not an error here: `run` on its slot raises it.
        """

    def run(self, pair: PairSettings, slot: Slot, operation: Operation, key: int, timeout: float) -> Execution:
        """Run `operation` once on the object in `slot` and time it.

        `key` is drawn from `0 <= key < 2**31`; the engine maps it to one of its rows, the same for both
        slots. What must happen before (drop a cache, empty the scratch table) happens untimed, inside
        this call. Counters are read around the timed part. Raises `Unsupported` for an operation that
        the engine does not list.
        """

    def encryption_state(self, timeout: float) -> EncryptionState:
        """Keystores and the inventory of encrypted and plain objects."""

    def activity(self, timeout: float) -> Activity:
        """What the whole instance has done so far; everything unknown where the engine cannot tell."""

    def heartbeat(self, timeout: float) -> None:
        """Write the heartbeat that standbys are measured by; nothing where no standby is configured.

        Also starts what a configured standby needs, and mends what a killed run left of it.
        """

    def standbys(self, timeout: float) -> tuple[StandbyState, ...]:
        """Every configured standby, in the order of the configuration. A standby that cannot be asked is
        not an error: what is unknown of it is None, and its `problem` says why."""

    def scratch_lock(self) -> ScratchLock | None:
        """Who has the lock that guards what this exporter writes into the database, by what the calls before have met; no
        I/O here, and no wait for a call under way. None while nobody knows, and where nothing is written."""

    def selftest(self, progress: Progress, timeout: float) -> tuple[StatementOutcome, ...]:
        """Run every statement of the engine once, as far as that changes nothing, and say how each fared.

        A statement that fails is an outcome and no error, and so is one for which no time is left. Raises `Unsupported`
        where an engine has no list of its statements.
        """

    def close(self) -> None:
        """Let go of everything, within a second; never raises."""


class Engine(Protocol):
    """One engine, made for one target: `Engine(target)`; the constructor does no I/O.

    Lives as long as its target is probed, whatever becomes of its sessions.
    """

    operations: ClassVar[frozenset[Operation]]
    """What `Session.run` can do."""

    self_provisioning: ClassVar[bool]
    """Whether the daemon may call `Session.provision` on its own. Only an engine whose databases belong
    to the exporter says yes; elsewhere a DBA decides, by the command line."""

    sessions_per_pair: ClassVar[int]
    """The most sessions that `Session.prepare` ever keeps open for one pair, besides the one that `open` made.
    `budgets.sessions` is kept by it: a pair is not prepared when there is no room for so many."""

    def __init__(self, target: TargetSettings) -> None: ...

    def succeed(self, former: Self) -> None:
        """Take over from the engine of the same target under other settings, before `open`: which secrets were refused,
        where the login is the same. A reload is no way to have an account locked."""

    def script(self) -> Iterator[str]:
        """Statements and comments, line by line, with which a DBA can do what `provision` does, and what the monitor
        would like beyond it: its grants, and the settings that make counters available. No I/O.

        Raises `Unsupported` where there is nothing that a DBA could run.
        """

    def open(self, timeout: float) -> Session:
        """Connect and discover. The same rules for errors and deadline as in `Session`.

        May be called at every turn, and by the thread of a second session while a first one hangs. A secret that was
        refused is not sent again: `AuthenticationFailed` is then raised without asking the server, until the secret has
        changed or an hour has passed.
        """
