"""Events of one target, found in what is read from it anyway.

What is unknown is no event: the last known value stays, through reconnects, outages and restarts of the exporter. What
could flicker (keystores, inventory) must be read the same several times before it is believed; the event then dates
from the first of these readings. The same change seen from two sides (the twin, the inventory) is one event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.domain.events import Event, EventKind
from exporter.domain.model import PairFacts, Phase, TargetFacts, Variant
from exporter.domain.states import Activity, EncryptionState, KeystoreState
from exporter.overhead import formats

READINGS = 2
"""How often in a row a keystore, or the size of a cache, must be read the same to be believed."""
SETTLED_READINGS = 3
"""How often in a row the number of encrypted objects must be the same: a conversion of many tables is one event."""
SAME_SECONDS = 900.0
"""Events of one kind from two sources that are this close are one."""
QUIET_SECONDS = 6 * 3600.0
"""After an event about the number of objects, the next one comes no sooner: tables come and go."""

_STATE_VERSION = 1
_MIB = 2**20
_INVENTORY, _PAIR = "inventory", "pair"
_NOT_ENCRYPTED_DATA = frozenset({"redo", "undo", "binlog", "temp", "wal", "backup"})
"""Kinds of objects that the server writes for itself: whether they are encrypted is not whether data are."""

Value = Any
"""What JSON holds."""


@dataclass(slots=True)
class _Fact:
    """One thing that is known: its value, when it was last read so, and what may replace it."""

    value: Value
    read: float
    next: Value = None
    since: float = 0.0
    readings: int = 0

    def hear(self, value: Value, at: float, readings: int) -> tuple[Value, float, float] | None:
        """Take a reading. When it is the last that was needed: the old value, when it was last read, and since when
        the new one is."""
        if value == self.value:
            self.read, self.readings = at, 0
            return None
        if not self.readings or value != self.next:
            self.next, self.since, self.readings = value, at, 0
        self.readings += 1
        if self.readings < readings:
            return None
        change = (self.value, self.read, self.since)
        self.value, self.read, self.readings = value, at, 0
        return change


class EventWatch:
    """What is known of one target. Pure; every method takes the Unix time of the reading and gives the events in it."""

    def __init__(self, target: str) -> None:
        self.changes = 0
        """Counts everything that `to_state` would tell."""
        self._target = target
        self._facts: dict[str, _Fact] = {}
        self._newest: dict[str, tuple[str, float]] = {}

    # -- readings ----------------------------------------------------------------------------------------

    def facts(self, facts: TargetFacts, at: float) -> list[Event]:
        """The version and the role of the database, as a connect found them."""
        found: list[Event] = []
        if facts.version and (change := self._hear("version", facts.version, at)):
            before, last, since = change
            self._event(found, "facts", EventKind.UPGRADE, since, last, f"{facts.flavor} {before} → {facts.version}")
        if facts.role and (change := self._hear("role", facts.role, at)):
            before, last, since = change
            self._event(found, "facts", EventKind.SWITCHOVER, since, last, f"role {before} → {facts.role}")
        return found

    def pair(self, facts: PairFacts, at: float) -> list[Event]:
        """A verification of twins; one that found them unfit says nothing."""
        if not facts.valid or facts.found is None:
            return []
        found: list[Event] = []
        attribution = facts.attribution or {}
        encrypted = facts.twin(attribution[Variant.ENCRYPTED])
        name = encrypted.name or f"twin {encrypted.slot}"
        if change := self._hear(f"phase {facts.pair}", facts.found.value, at):
            _, last, since = change
            if facts.found is Phase.ENABLED:
                words = f"{name} of pair {facts.pair} is now encrypted" + _with(encrypted.algorithm)
                self._event(found, _PAIR, EventKind.ENABLEMENT, since, last, words, facts.pair)
            else:
                words = f"both twins of pair {facts.pair} are now plain"
                self._event(found, _PAIR, EventKind.OTHER, since, last, words, facts.pair)
        if facts.found is Phase.ENABLED and encrypted.algorithm:
            change = self._hear(f"algorithm {facts.pair}", encrypted.algorithm, at)
            if change:
                before, last, since = change
                words = f"{name} of pair {facts.pair}: {before} → {encrypted.algorithm}"
                self._event(found, _PAIR, EventKind.ALGORITHM_CHANGE, since, last, words, facts.pair)
        return found

    def state(self, state: EncryptionState, at: float) -> list[Event]:
        """Keystores and inventory."""
        found: list[Event] = []
        known = [keystore for keystore in state.keystores if keystore.state is not KeystoreState.UNKNOWN]
        kinds = sorted({keystore.kind for keystore in known if keystore.kind})
        if kinds and (change := self._hear("keystore kinds", kinds, at, READINGS)):
            before, last, since = change
            words = f"keystores: {', '.join(before)} → {', '.join(kinds)}"
            self._event(found, "keystores", EventKind.KEYSTORE_MIGRATION, since, last, words)
        for keystore in known:
            if change := self._hear(f"keystore state {keystore.name}", keystore.state.value, at, READINGS):
                before, last, since = change
                words = f"keystore {keystore.name}: {before} → {keystore.state.value}"
                self._event(found, f"keystore {keystore.name}", EventKind.OTHER, since, last, words)
            if keystore.key_activated is None:
                continue
            if change := self._hear(f"key {keystore.name}", keystore.key_activated, at):
                _, last, since = change
                # The keystore knows the moment better than we do, if its clock is right.
                moment = keystore.key_activated if last <= keystore.key_activated <= at else since
                words = f"keystore {keystore.name}: a new master key is active"
                self._event(found, f"key {keystore.name}", EventKind.REKEY, moment, last, words)
        self._inventory(state, at, found)
        return found

    def activity(self, activity: Activity, at: float) -> list[Event]:
        """Whether the instance was restarted, and whether its cache of blocks was given another size."""
        found: list[Event] = []
        self._restarted(activity, at, found)
        size = activity.buffer_bytes
        if size and (change := self._hear("buffer bytes", size, at, READINGS)):
            before, last, since = change
            words = f"buffer pool {formats.count(before / _MIB)} MiB → {formats.count(size / _MIB)} MiB"
            self._event(found, "buffer", EventKind.RESIZE, since, last, words)
        return found

    def marked(self, event: Event) -> None:
        """An operator said so: the same, detected soon after, is no second event."""
        self._newest[event.kind.value] = ("", event.at)
        self.changes += 1

    # -- what survives a restart -------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "version": _STATE_VERSION,
            "facts": {name: [fact.value, fact.read] for name, fact in self._facts.items()},
            "newest": {kind: list(entry) for kind, entry in self._newest.items()},
        }

    @classmethod
    def from_state(cls, target: str, state: Mapping[str, Any]) -> EventWatch:
        """The inverse of `to_state`; raises ValueError when the state is damaged or of an unknown version."""
        watch = cls(target)
        try:
            if state["version"] != _STATE_VERSION:
                raise ValueError(f"unknown version {state['version']} of what is known of a target")
            for name, (value, read) in state["facts"].items():
                watch._facts[str(name)] = _Fact(value, float(read))
            for kind, (source, at) in state["newest"].items():
                watch._newest[str(kind)] = (str(source), float(at))
            if not all(_sound(name, fact.value) for name, fact in watch._facts.items()):
                raise ValueError("damaged facts of a target")
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("what is known of a target is damaged") from error
        return watch

    # -- steps -------------------------------------------------------------------------------------------

    def _restarted(self, activity: Activity, at: float, found: list[Event]) -> None:
        """Of sums that nobody can reset one must have fallen; of those that an administrator can reset, or that lose their
        part when a file is dropped, all."""
        firm, loose = _sums(activity)
        if not firm and not loose:
            return
        before = self._facts.get("sums")
        self._facts["sums"] = _Fact(firm | loose, at)
        self.changes += 1
        if before is None:
            return
        fell, rose = (
            {
                name
                for name, value in (firm | loose).items()
                if name in before.value and sign * value > sign * before.value[name]
            }
            for sign in (-1.0, 1.0)
        )
        if not (fell & firm.keys() or (fell and not rose)):
            return
        words = "the instance was restarted: its counters began anew"
        self._event(found, "sums", EventKind.RESTART, at, before.read, words)

    def _inventory(self, state: EncryptionState, at: float, found: list[Event]) -> None:
        names = sorted({name for name, objects in state.algorithms if objects and name})
        if names and (change := self._hear("algorithms", names, at, READINGS)):
            before, last, since = change
            words = f"algorithms: {', '.join(before)} → {', '.join(names)}"
            self._event(found, _INVENTORY, EventKind.ALGORITHM_CHANGE, since, last, words)
        data = [(kind, is_, number) for kind, is_, number in state.objects if kind not in _NOT_ENCRYPTED_DATA]
        if not data:
            return
        counts = {kind: 0 for kind, _, _ in data}
        for kind, condition, number in data:
            counts[kind] += number if condition == "encrypted" else 0
        if not (change := self._hear("encrypted objects", counts, at, SETTLED_READINGS)):
            return
        before, last, since = change
        words = ", ".join(
            f"{kind} {before.get(kind, 0)} → {number}"
            for kind, number in counts.items()
            if before.get(kind, 0) != number
        )
        if not words:
            return
        if not any(before.values()):
            self._event(found, _INVENTORY, EventKind.ENABLEMENT, since, last, f"encrypted objects: {words}")
            return
        _, newest = self._newest.get(_INVENTORY, ("", -QUIET_SECONDS))
        if since - newest >= QUIET_SECONDS:
            self._newest[_INVENTORY] = (_INVENTORY, since)
            self._event(found, _INVENTORY, EventKind.OTHER, since, last, f"encrypted objects: {words}")

    def _hear(self, name: str, value: Value, at: float, readings: int = 1) -> tuple[Value, float, float] | None:
        self.changes += 1
        if (fact := self._facts.get(name)) is None:
            self._facts[name] = _Fact(value, at)
            return None
        return fact.hear(value, at, readings)

    def _event(
        self, found: list[Event], source: str, kind: EventKind, at: float, last: float, words: str, pair: str = ""
    ) -> None:
        """Adds it, unless it is what another source or an operator has said already."""
        known, when = self._newest.get(kind.value, (source, 0.0))
        if kind is not EventKind.OTHER and known != source and abs(at - when) < SAME_SECONDS:
            return
        self._newest[kind.value] = (source, at)
        found.append(Event(self._target, at, kind, words, pair=pair, before=last))


def _sums(activity: Activity) -> tuple[dict[str, float], dict[str, float]]:
    """Those that only a restart begins anew, and the others; by name and where they come from."""
    firm: dict[str, float | None] = {"cpu_seconds": activity.cpu_seconds}
    loose: dict[str, float | None] = {"read_seconds": activity.read_seconds}
    # Where the time of reads is known, number and time come from statistics that can be reset.
    reads = loose if activity.read_seconds is not None else firm
    reads["reads" if reads is firm else "timed reads"] = activity.reads
    counted = firm if activity.decrypt_source == "counter" else loose
    for name in ("decrypts", "encrypts"):
        counted[f"{name} {activity.decrypt_unit} {activity.decrypt_source}"] = getattr(activity, name)
    known = ({name: float(value) for name, value in part.items() if value is not None} for part in (firm, loose))
    return next(known), next(known)


def _sound(name: str, value: Value) -> bool:
    """Whether what was kept under that name is of the kind that it is compared and told with."""
    match name:
        case "keystore kinds" | "algorithms":
            return isinstance(value, list) and all(isinstance(one, str) for one in value)
        case "sums" | "encrypted objects":
            return all(isinstance(one, int | float) for one in value.values())
        case "buffer bytes":
            return isinstance(value, int)
    return isinstance(value, int | float if name.startswith("key ") else str)


def _with(algorithm: str) -> str:
    return f" ({algorithm})" if algorithm else ""


def newest_of(events: Iterable[Event], most: int = 20, most_frequent: int = 5) -> tuple[Event, ...]:
    """The newest events first. Of restarts and others, which may be many, no more than `most_frequent` each, so that
    they do not push out the rest."""
    counts: dict[EventKind, int] = {}
    kept: list[Event] = []
    for event in sorted(events, key=lambda event: (event.at, event.id), reverse=True):
        counts[event.kind] = counts.get(event.kind, 0) + 1
        if event.kind in (EventKind.RESTART, EventKind.OTHER) and counts[event.kind] > most_frequent:
            continue
        kept.append(event)
    return tuple(kept[:most])
