"""A made-up fleet with a history of hours, in every metric of the catalogue, as OpenMetrics text for `promtool tsdb`.

    python -m tests.dashboards.synthetic history.om --hours 12 --step 30
    promtool tsdb create-blocks-from openmetrics history.om data

Four databases: `orders` (its twins were both plain until encryption was enabled in the middle of the history; one operation
is over budget since), `billing` (within budget, two channels to its standby, restarted), `archive` (certifying), `edge` (the
embedded one: warm reads are blind). It is random with a fixed seed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exporter.exposition.catalogue import CATALOGUE, SOMETIMES, Kind, Metric

Values = NDArray[np.float64]
Series = tuple[dict[str, str], Values]

SCRAPED = {"job": "tde-exporter", "instance": "exporter:10161"}

WORDS = ("warming", "within_budget", "undecided", "over_budget", "no_data", "held", "blind", "certifying")
KEYSTORE_STATES = ("open", "closed", "no_key", "missing", "degraded", "unknown")
DETECTORS = tuple((p, r, t) for p in ("50", "99") for r in ("plain", "baseline") for t in ("1.2", "2.0"))


@dataclass(frozen=True)
class Operation:
    """One operation: median latency in seconds, true ratio before and after the event, samples in an hour, blocks read."""

    name: str
    median: float
    before: float
    after: float
    samples: int
    blocks: float
    final: str = "within_budget"
    cold: float = 0.6

    @property
    def rare(self) -> bool:
        """Measured once in a tick: no P99."""
        return self.samples < 100


@dataclass(frozen=True)
class Database:
    """One database of the fleet. `certifies` until: share of the history in which both twins are plain."""

    name: str
    engine: str
    operations: tuple[Operation, ...]
    keystores: tuple[str, ...] = ("main",)
    standbys: tuple[tuple[str, str], ...] = ()
    certifies: float = 0.0
    facts: dict[str, str] = field(default_factory=dict)
    host: bool = True
    key_days: float = 40.0
    busy: float = 0.4

    @property
    def labels(self) -> dict[str, str]:
        return {"target": self.name, "engine": self.engine}


FLEET = (
    Database(
        "orders",
        "oracle",
        (
            Operation("point_select", 0.0011, 1.0, 1.06, 3600, 2.4),
            Operation("range_select", 0.009, 1.01, 1.34, 1800, 60, "over_budget"),
            Operation("full_scan", 1.4, 1.0, 1.17, 60, 11000, "undecided", 1.0),
            Operation("lob_read", 0.004, 0.99, 1.12, 1800, 18, "undecided"),
        ),
        ("main", "reports"),
        (("east", ""), ("west", "")),
        0.45,
        {"flavor": "oracle", "version": "19.24", "role": "primary", "open_mode": "read_write", "edition": "EE"},
        key_days=340,
        busy=0.55,
    ),
    Database(
        "billing",
        "mariadb",
        (
            Operation("point_select", 0.0004, 1.05, 1.05, 3600, 1.8),
            Operation("range_select", 0.006, 1.09, 1.09, 1800, 40),
            Operation("full_scan", 0.7, 1.12, 1.12, 60, 6000),
        ),
        ("file_key_management",),
        (("mirror", "a"), ("mirror", "b")),
        0.0,
        {"flavor": "mariadb", "version": "11.8.3", "role": "primary", "open_mode": "read_write", "edition": ""},
        key_days=101,
    ),
    Database(
        "archive",
        "mysql",
        (
            Operation("point_select", 0.0005, 1.0, 1.0, 3600, 1.2, "certifying"),
            Operation("range_select", 0.008, 1.02, 1.02, 1800, 55, "certifying"),
        ),
        ("keyring",),
        (),
        1.0,
        {
            "flavor": "mysql",
            "version": "9.7.0",
            "role": "standalone",
            "open_mode": "read_write",
            "edition": "community",
        },
        host=False,
        key_days=380,
        busy=0.2,
    ),
    Database(
        "edge",
        "sqlite",
        (
            Operation("point_select", 4e-6, 1.01, 1.01, 3600, 0, "blind", 0.0),
            Operation("full_scan", 0.0079, 1.0, 1.0, 360, 0, "blind", 0.0),
            Operation("full_scan_cold", 0.009, 1.15, 1.15, 360, 1306, "within_budget", 1.0),
            Operation("insert_batch", 0.00019, 1.2, 1.2, 360, 5, "undecided"),
        ),
        ("key",),
        (("replica", ""),),
        0.0,
        {"flavor": "sqlite3mc", "version": "3.54.0", "role": "standalone", "open_mode": "read_write", "edition": ""},
        key_days=2,
        busy=0.15,
    ),
)


class World:
    """Time, chance and the fleet; `families` yields every series."""

    def __init__(self, end: int, hours: float, step: int) -> None:
        count = int(hours * 3600 / step)
        self.step, self.end = step, end
        self.times: Values = (end - step * np.arange(count - 1, -1, -1)).astype(np.float64)
        self.event = float(self.times[int(count * 0.45)])
        self._random = np.random.default_rng(11)

    def noise(self, around: float, spread: float = 0.05, slow: float = 0.04) -> Values:
        """A level with noise and a slow swing, never below 0."""
        size = self.times.size
        phase = self._random.uniform(0, 6.28)
        swing = np.sin(self.times / 3000 + phase) * slow
        return np.maximum(0.0, around * (1 + swing + self._random.normal(0, spread / 3, size)))

    def steady(self, value: float) -> Values:
        return np.full(self.times.size, value)

    def counter(self, per_second: float | Values, start: float = 100.0) -> Values:
        """A sum that grows at a rate, with some chance."""
        rate = np.broadcast_to(np.asarray(per_second, dtype=np.float64), self.times.shape)
        return start + np.cumsum(rate * self.step * self._random.gamma(30, 1 / 30, self.times.size))

    def rare(self, per_hour: float) -> Values:
        """A sum of single events."""
        happened = self._random.random(self.times.size) < per_hour * self.step / 3600
        return np.cumsum(happened).astype(np.float64)

    def since(self, share: float, value: Values) -> Values:
        """The values from a share of the history on, absent before."""
        first = self.times[0] + share * (self.times[-1] - self.times[0])
        return np.where(self.times >= first, value, np.nan)

    def switched(self, before: float, after: float, ramp: float = 600.0) -> Values:
        """One level before the event and another after it."""
        done = np.clip((self.times - self.event) / ramp, 0.0, 1.0)
        return before + (after - before) * done

    def enabled(self, database: Database) -> Values:
        """1 where the pair of a database has an encrypted twin."""
        if database.certifies in (0.0, 1.0):
            return self.steady(1.0 - database.certifies)
        return (self.times >= self.event).astype(np.float64)


Recipe = Callable[[World, str], Iterator[Series]]


def _each(world: World, make: Callable[[Database], Values]) -> Iterator[Series]:
    for database in FLEET:
        yield database.labels, make(database)


def _pair(database: Database) -> dict[str, str]:
    return {**database.labels, "pair": "main"}


def _operations() -> Iterator[tuple[Database, Operation, dict[str, str]]]:
    for database in FLEET:
        for operation in database.operations:
            yield database, operation, {**_pair(database), "operation": operation.name}


def _ratio_of(world: World, operation: Operation, percentile: str) -> Values:
    tail = 1.0 if percentile == "50" else 1.15
    low, high = 1 + (operation.before - 1) * tail, 1 + (operation.after - 1) * tail
    return world.switched(low, high, 3600.0) * (1 + world.noise(0.02, 1.0, 0.5) - 0.02)


def _ratios(kind: str, baseline: bool = False) -> Recipe:
    side = {"lower": -1.0, "upper": 1.0}.get(kind, 0.0)

    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in _operations():
            if baseline and not 0 < database.certifies < 1:
                continue
            for percentile in ("50",) if operation.rare else ("50", "99"):
                for window in ("1h", "24h"):
                    # The same seed for the ratio and its bounds, so that they belong together.
                    world._random = np.random.default_rng(hash_of(operation.name, percentile, window))
                    width = (0.02 if percentile == "50" else 0.07) * (1.0 if window == "1h" else 0.4)
                    width *= 2.0 if operation.rare else 1.0
                    ratio = _ratio_of(world, operation, percentile)
                    width_now = world.noise(width, 0.2, 0.2)
                    values = ratio * np.exp(side * width_now)
                    if baseline:
                        load = 1.06 + 0.05 * np.sin(world.times / 4000)
                        values = {"raw": values * load, "control": load}.get(kind, values) * 0.99
                        values = np.where(world.times >= world.event, values, np.nan)
                    else:
                        values = world.since(0.03, values)
                    yield {**labels, "percentile": percentile, "window": window}, values

    return recipe


def hash_of(*words: str) -> int:
    """A small number that is the same in every run."""
    return sum(ord(letter) * (index + 1) for index, letter in enumerate("/".join(words)))


def _cpu_ratios(kind: str) -> Recipe:
    side = {"lower": -0.02, "upper": 0.02}.get(kind, 0.0)

    def recipe(world: World, _: str) -> Iterator[Series]:
        for _database, operation, labels in _operations():
            for window in ("1h", "24h"):
                yield {**labels, "window": window}, world.switched(operation.before, operation.after) + side

    return recipe


def _state_at(world: World, database: Database, operation: Operation) -> list[str]:
    start, end = world.times[0], world.times[-1]
    words = []
    for moment in world.times:
        share = (moment - start) / (end - start)
        if share < 0.03:
            words.append("warming")
        elif 0 < database.certifies < 1 and moment < world.event:
            words.append("certifying")
        elif 0 < database.certifies < 1 and moment < world.event + 0.08 * (end - start):
            words.append("warming" if share < 0.48 else "undecided")
        elif database.name == "billing" and 0.7 < share < 0.73:
            words.append("held" if share > 0.71 else "no_data")
        elif operation.final == "over_budget":
            words.append("over_budget" if share > 0.65 else "undecided")
        else:
            words.append(operation.final)
    return words


def _states(world: World, _: str) -> Iterator[Series]:
    for database, operation, labels in _operations():
        now = _state_at(world, database, operation)
        for word in WORDS:
            yield {**labels, "state": word}, np.array([float(word == each) for each in now])


def _detectors(make: Callable[[World, Operation, str, str], Values | None]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in _operations():
            if database.certifies == 1.0:
                continue
            for percentile, reference, threshold in DETECTORS:
                if (operation.rare and percentile == "99") or (reference == "baseline" and not database.certifies):
                    continue
                values = make(world, operation, percentile, threshold)
                if values is not None:
                    detector = {"percentile": percentile, "reference": reference, "threshold": threshold}
                    yield {**labels, **detector}, values

    return recipe


def _breached(world: World, operation: Operation, threshold: str) -> Values:
    share = (world.times - world.times[0]) / (world.times[-1] - world.times[0])
    breached = operation.final == "over_budget" and threshold == "1.2"
    return np.where((share > 0.65) & breached, 1.0, 0.0)


def _evidence(world: World, operation: Operation, percentile: str, threshold: str) -> Values:
    breached = _breached(world, operation, threshold)
    climbing = np.clip((world.times - world.event) / 2400, 0, 5.2) - 3
    grown = climbing if operation.final == "over_budget" and threshold == "1.2" else world.steady(-2.4)
    level: Values = np.where(breached > 0, -1.5, grown) + world.noise(0.3, 1.0) - (percentile == "99") * 0.4
    return np.maximum(level, -3.0)


def _onset(world: World, operation: Operation, _percentile: str, threshold: str) -> Values | None:
    if operation.final != "over_budget" or threshold != "1.2":
        return None
    return np.where(_breached(world, operation, threshold) > 0, world.event + 420, np.nan)


def _sides(make: Callable[[World, Database, Operation, bool], Values | None]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in _operations():
            for variant in ("encrypted", "plain"):
                values = make(world, database, operation, variant == "encrypted")
                if values is not None:
                    yield {**labels, "variant": variant}, values

    return recipe


def _slow(world: World, operation: Operation, encrypted: bool) -> Values:
    return world.switched(operation.before, operation.after) if encrypted else world.steady(1.0)


def _latency(world: World, _: str) -> Iterator[Series]:
    for _database, operation, labels in _operations():
        for percentile in ("50",) if operation.rare else ("50", "99"):
            load = world.noise(1.0, 0.02, 0.15)
            for variant in ("encrypted", "plain"):
                for window in ("1h", "24h"):
                    level = operation.median * (1.0 if percentile == "50" else 3.2)
                    values = level * load * _slow(world, operation, variant == "encrypted")
                    side = {"variant": variant, "percentile": percentile, "window": window}
                    yield {**labels, **side}, world.since(0.03, values)


def _baseline_latency(world: World, _: str) -> Iterator[Series]:
    for database, operation, labels in _operations():
        for percentile in () if not database.certifies else ("50",) if operation.rare else ("50", "99"):
            for variant in ("encrypted", "plain"):
                level = operation.median * (1.0 if percentile == "50" else 3.2)
                side = {"variant": variant, "percentile": percentile}
                yield {**labels, **side}, world.since(0.4, world.steady(level))


def _through_cipher(share: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in _operations():
            for variant in ("encrypted", "plain"):
                writes = operation.name == "insert_batch"
                blocks = operation.blocks * (share if writes != (share == 1.0) else 0.0)
                rate = blocks * operation.samples / 3600 * (variant == "encrypted") * world.enabled(database)
                cipher = {"unit": "block", "source": "proxy" if database.engine == "mysql" else "counter"}
                yield {**labels, "variant": variant, **cipher}, world.counter(rate, 0.0)

    return recipe


def _phases(world: World, _: str) -> Iterator[Series]:
    for database, operation, labels in _operations():
        for variant in ("encrypted", "plain"):
            parts = {"execute": 0.7, "fetch": 0.3}
            if operation.name == "insert_batch":
                parts = {"execute": 0.6, "fetch": 0.0, "commit": 0.4}
            for phase, share in parts.items():
                rate = (
                    operation.median
                    * share
                    * operation.samples
                    / 3600
                    * _slow(world, operation, variant == "encrypted")
                )
                yield {**labels, "variant": variant, "phase": phase}, world.counter(rate, 0.0)
        assert database


def _cost(shift: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            if database.certifies < 1:
                world._random = np.random.default_rng(hash_of(database.name))
                known = world.enabled(database) > 0
                values = np.where(known, world.noise(1.9e-6, 0.05, 0.05) * (1 + shift), np.nan)
                yield {**_pair(database), "unit": "block"}, values

    return recipe


def _cores(shift: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            if database.certifies < 1:
                world._random = np.random.default_rng(hash_of(database.name))
                busy = world.noise(0.5 * database.busy, 0.1, 0.3) * np.maximum(0.02, world.enabled(database))
                world_known = np.where(world.enabled(database) > 0, busy * (1 + shift), np.nan)
                yield database.labels, world_known

    return recipe


def _events(world: World, _: str) -> Iterator[Series]:
    orders, billing = FLEET[0], FLEET[1]
    start, length = world.times[0], world.times[-1] - world.times[0]
    happened = (
        (orders, "5f0a1b2c3d", "enablement", world.event),
        (orders, "9d8c7b6a50", "rekey", start + 0.8 * length),
        (orders, "0a1b2c3d4e", "switchover", start + 0.9 * length),
        (billing, "77aa00bb11", "restart", start + 0.7 * length),
        (billing, "12ab34cd56", "other", start + 0.2 * length),
    )
    for database, identity, kind, at in happened:
        values = np.where(world.times >= at, at, np.nan)
        yield {**database.labels, "event": identity, "kind": kind}, values


def _keystores(make: Callable[[World, Database, str], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            for keystore in database.keystores:
                yield {**database.labels, "keystore": keystore}, make(world, database, keystore)

    return recipe


def _keystore_states(world: World, _: str) -> Iterator[Series]:
    share = (world.times - world.times[0]) / (world.times[-1] - world.times[0])
    for database in FLEET:
        for keystore in database.keystores:
            closed = (database.name == "billing") & (share > 0.7) & (share < 0.715)
            for state in KEYSTORE_STATES:
                is_state = closed if state == "closed" else ~closed if state == "open" else np.zeros_like(closed)
                yield {**database.labels, "keystore": keystore, "state": state}, is_state.astype(np.float64)


def _keystore_info(world: World, _: str) -> Iterator[Series]:
    for database in FLEET:
        for keystore in database.keystores:
            facts = {"type": "file", "mode": "auto_login", "raw": "OPEN", "seen_from": "server"}
            yield {**database.labels, "keystore": keystore, **facts}, world.steady(1)


def _inventory(size: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            kinds = ("database",) if database.engine == "sqlite" else ("tablespace", "redo")
            for kind in kinds:
                total = 24.0 if kind == "tablespace" else 2.0
                done = (
                    np.floor(total * 0.9 * world.switched(0.0, 1.0, 5400.0))
                    if database.certifies
                    else world.steady(total - 1)
                )
                if database.certifies == 1.0:
                    done = world.steady(0.0)
                moving = ((done > 0) & (done < total * 0.85)).astype(np.float64) * (database.certifies > 0)
                states = {"encrypted": done, "plain": total - done - moving, "in_progress": moving}
                if database.name == "archive":
                    states["pending"] = world.steady(1.0)
                for state, values in states.items():
                    yield {**database.labels, "kind": kind, "state": state}, values * size

    return recipe


def _standbys(make: Callable[[World, Database, str], Values | None], kinds: tuple[str, ...] = ()) -> Recipe:
    def recipe(world: World, name: str) -> Iterator[Series]:
        channels = "channel" in CATALOGUE[name].labels
        for database in FLEET:
            seen = set()
            for standby, channel in database.standbys:
                labels = {**database.labels, "standby": standby}
                if channels and channel:
                    labels["channel"] = channel
                if tuple(labels.values()) in seen:
                    continue
                seen.add(tuple(labels.values()))
                for kind in kinds or ("",):
                    values = make(world, database, kind)
                    if values is not None:
                        yield {**labels, **({"kind": kind} if kind else {})}, values

    return recipe


def _lag(world: World, database: Database, kind: str) -> Values:
    level = {"transport": 0.3, "apply": 1.8, "heartbeat": 2.4}[kind]
    hill = np.exp(-(((world.times - world.event - 1800) / 900) ** 2)) * (95 if database.certifies else 0)
    values = world.noise(level, 1.5, 0.3) + (hill if kind != "transport" else 0)
    return values + (300 if database.name == "edge" and kind != "transport" else 0)


def _sequences(world: World, _: str) -> Iterator[Series]:
    for database in FLEET:
        for standby, channel in database.standbys:
            where = {"channel": channel} if channel else {}
            received = np.floor(world.counter(20.0, 5000.0))
            waiting = {"received": 0.0, "applied": np.floor(world.noise(40, 1.0))}
            for stage, behind in waiting.items():
                yield {**database.labels, "standby": standby, **where, "thread": "1", "stage": stage}, received - behind


def _collectors(make: Callable[[World, Database, str], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            names = ["canary", "encryption_state", "activity", *(["standby", "heartbeat"] if database.standbys else [])]
            for name in names:
                yield {"target": database.name, "collector": name}, make(world, database, name)

    return recipe


_TOOK = {"canary": 0.4, "encryption_state": 0.05, "activity": 0.02, "standby": 0.03, "heartbeat": 0.004}


def _histogram(world: World, name: str) -> Iterator[Series]:
    bounds = CATALOGUE[name].buckets
    total = np.floor(world.counter(3.0, 0.0))
    for index, bound in enumerate((*bounds, np.inf)):
        # Whole thousands and whole shares of them, so that buckets never grow slower than smaller ones.
        share = 1000 if np.isinf(bound) else round(1000 * (1 - np.exp(-(index + 0.5) / 2.2)))
        yield {"le": "+Inf" if np.isinf(bound) else repr(float(bound))}, total * share


def _plain(make: Callable[[World], Values], labels: dict[str, str] | None = None) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        yield dict(labels or {}), make(world)

    return recipe


def _many(label: str, values: dict[str, Callable[[World], Values]]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for value, make in values.items():
            yield {label: value}, make(world)

    return recipe


def _per_database(make: Callable[[World, Database], Values | None]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            values = make(world, database)
            if values is not None:
                yield database.labels, values

    return recipe


def _labelled(label: str, values: tuple[str, ...], make: Callable[[World, Database, str], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            for value in values:
                yield {**database.labels, label: value}, make(world, database, value)

    return recipe


def _target_info(world: World, _: str) -> Iterator[Series]:
    for database in FLEET:
        yield {**database.labels, **database.facts}, world.steady(1)


def _pair_info(world: World, _: str) -> Iterator[Series]:
    for database in FLEET:
        facts = {
            "scope": "database" if database.engine == "sqlite" else "tablespace",
            "clock": "client" if database.engine == "sqlite" else "server",
            "cpu_source": "thread" if database.engine == "sqlite" else "session",
            "decrypt_source": "proxy" if database.engine == "mysql" else "counter",
            "shared_costs": "" if database.engine == "sqlite" else "redo, temporary files",
        }
        encrypted = world.enabled(database)
        for phase, algorithm, there in (("aa", "", encrypted == 0), ("enabled", "aes256", encrypted == 1)):
            if there.any():
                yield {**_pair(database), **facts, "phase": phase, "algorithm": algorithm}, np.where(there, 1.0, np.nan)


def _pairs(make: Callable[[World, Database], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            yield _pair(database), make(world, database)

    return recipe


def _twins(value: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            for variant in ("encrypted", "plain"):
                if database.certifies < 1:
                    known = np.where(world.enabled(database) > 0, value, np.nan)
                    yield {**_pair(database), "variant": variant}, known

    return recipe


def _by_operation(make: Callable[[World, Database, Operation], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in _operations():
            yield labels, make(world, database, operation)

    return recipe


def _windows(world: World, _: str) -> Iterator[Series]:
    for _database, operation, labels in _operations():
        for variant in ("encrypted", "plain"):
            for window, hours in (("1h", 1.0), ("24h", 24.0)):
                grown = np.minimum(1.0, (world.times - world.times[0]) / (3600 * hours))
                values = np.floor(operation.samples * hours * grown)
                yield {**labels, "variant": variant, "window": window}, values


def _failures(world: World, _: str) -> Iterator[Series]:
    for _database, operation, labels in _operations():
        for variant in ("encrypted", "plain"):
            for reason in ("timeout", "query") if operation.name == "full_scan" else ("timeout",):
                yield {**labels, "variant": variant, "reason": reason}, world.rare(1.0)


def _cipher_of_instance(share: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            if database.certifies == 1.0:
                continue
            rate = world.noise(120_000 * database.busy, 0.3, 0.3) * np.maximum(0.001, world.enabled(database)) * share
            yield {**database.labels, "unit": "block", "source": "counter"}, world.counter(rate, 0.0)

    return recipe


def _thresholds(world: World, _: str) -> Iterator[Series]:
    for percentile, reference, threshold in DETECTORS:
        labels = {"percentile": percentile, "reference": reference, "threshold": threshold}
        yield labels, world.steady(4.6 if percentile == "50" else 3.9)


def _queries(operation: Operation) -> float:
    return operation.samples / 3600


RECIPES: dict[str, Recipe] = {
    "tde_target_up": _per_database(lambda w, d: w.steady(1)),
    "tde_target_info": _target_info,
    "tde_target_connects_total": _per_database(lambda w, d: w.rare(6) + 3),
    "tde_target_connect_seconds_total": _per_database(lambda w, d: (w.rare(6) + 3) * 0.08),
    "tde_target_connection_errors_total": _labelled(
        "reason", ("connect", "auth", "tls", "timeout", "unavailable"), lambda w, d, reason: w.rare(1 if reason == "timeout" else 0)
    ),
    "tde_exporter_build_info": _plain(lambda w: w.steady(1), {"version": "0.1.0", "python": "3.11.2"}),
    "tde_exporter_series": _plain(lambda w: w.steady(1180)),
    "tde_exporter_series_refused_total": _plain(lambda w: w.steady(0)),
    "tde_exporter_page_errors_total": _plain(lambda w: w.steady(0)),
    "tde_exporter_page_render_seconds": _plain(lambda w: w.noise(0.021, 0.5)),
    "tde_exporter_probe_process_up": _many("process", {"0": lambda w: w.steady(1), "1": lambda w: w.steady(1)}),
    "tde_exporter_probe_process_starts_total": _many("process", {"0": lambda w: w.steady(1), "1": lambda w: 1 + w.rare(0.2)}),
    "tde_exporter_lanes_abandoned_total": _plain(lambda w: w.rare(0.2)),
    "tde_exporter_clock_steps_total": _plain(lambda w: w.steady(0)),
    "tde_exporter_messages_dropped_total": _plain(lambda w: w.steady(0)),
    "tde_exporter_runs_skipped_total": _many(
        "reason",
        {
            "busy": lambda w: w.rare(8),
            "missed": lambda w: w.rare(2),
            "budget": lambda w: w.rare(40),
            "back_off": lambda w: w.rare(1),
            "abandoned": lambda w: w.steady(0),
        },
    ),
    "tde_exporter_schedule_lateness_seconds": _histogram,
    "tde_exporter_timer_noise_seconds": _histogram,
    "tde_exporter_state_bytes": _plain(lambda w: 4e6 + w.counter(40.0, 0)),
    "tde_exporter_state_errors_total": _plain(lambda w: w.steady(0)),
    "tde_exporter_collector_success": _collectors(lambda w, d, c: w.steady(1)),
    "tde_exporter_collector_duration_seconds": _collectors(lambda w, d, c: w.noise(_TOOK[c], 0.6)),
    "tde_exporter_collector_last_success_timestamp_seconds": _collectors(lambda w, d, c: w.times - w.noise(6.0, 2.0)),
    "tde_exporter_invalid_values_total": _many("target", {d.name: lambda w: w.steady(0) for d in FLEET}),
    "tde_pair_valid": _pairs(lambda w, d: w.steady(1)),
    "tde_pair_info": _pair_info,
    "tde_pair_rows": _twins(2_400_000),
    "tde_pair_rows_per_block": _twins(96.4),
    "tde_overhead_ratio": _ratios(""),
    "tde_overhead_ratio_lower": _ratios("lower"),
    "tde_overhead_ratio_upper": _ratios("upper"),
    "tde_overhead_samples": _windows,
    "tde_overhead_cpu_ratio": _cpu_ratios(""),
    "tde_overhead_cpu_ratio_lower": _cpu_ratios("lower"),
    "tde_overhead_cpu_ratio_upper": _cpu_ratios("upper"),
    "tde_overhead_breach": _detectors(lambda w, o, p, t: _breached(w, o, t)),
    "tde_overhead_onset_timestamp_seconds": _detectors(_onset),
    "tde_overhead_onset_uncertainty_seconds": _detectors(
        lambda w, o, p, t: None if (known := _onset(w, o, p, t)) is None else known * 0 + 900
    ),
    "tde_overhead_evidence": _detectors(_evidence),
    "tde_overhead_evidence_threshold": _thresholds,
    "tde_overhead_state": _states,
    "tde_overhead_order_bias_ratio": _by_operation(lambda w, d, o: w.noise(1.0, 0.01, 0.003)),
    "tde_decrypt_cost_seconds": _cost(0.0),
    "tde_decrypt_cost_seconds_lower": _cost(-0.18),
    "tde_decrypt_cost_seconds_upper": _cost(0.21),
    "tde_encryption_cpu_cores_estimate": _cores(0.0),
    "tde_encryption_cpu_cores_estimate_lower": _cores(-0.18),
    "tde_encryption_cpu_cores_estimate_upper": _cores(0.21),
    "tde_baseline_timestamp_seconds": lambda w, _: iter([(_pair(FLEET[0]), w.since(0.44, w.steady(w.event - 240)))]),
    "tde_baseline_overhead_ratio": _ratios("", baseline=True),
    "tde_baseline_overhead_ratio_lower": _ratios("lower", baseline=True),
    "tde_baseline_overhead_ratio_upper": _ratios("upper", baseline=True),
    "tde_baseline_raw_ratio": _ratios("raw", baseline=True),
    "tde_baseline_control_ratio": _ratios("control", baseline=True),
    "tde_baseline_latency_seconds": _baseline_latency,
    "tde_event_timestamp_seconds": _events,
    "tde_keystore_state": _keystore_states,
    "tde_keystore_info": _keystore_info,
    "tde_keys_in_use": _keystores(lambda w, d, k: w.steady(3)),
    "tde_keys_missing": _keystores(lambda w, d, k: w.steady(0)),
    "tde_master_key_activation_timestamp_seconds": _keystores(lambda w, d, k: w.steady(w.end - 86400 * d.key_days)),
    "tde_master_key_backed_up": _keystores(lambda w, d, k: w.steady(d.name != "edge")),
    "tde_objects": _inventory(1.0),
    "tde_object_bytes": _inventory(6.5e9),
    "tde_algorithm_objects": _labelled("algorithm", ("aes256", "aes128"), lambda w, d, a: w.steady(22 if a == "aes256" else 2)),
    "tde_unprotected_dependents": _labelled("kind", ("redo", "temp"), lambda w, d, k: w.steady(1 if k == "temp" else 0)),
    "tde_conversion_progress_ratio": lambda w, _: iter(
        (
            {**FLEET[0].labels, "object": f"ORDERS_{n}"},
            np.where((w.times > w.event + n * 300) & (w.times < w.end), np.clip((w.times - w.event) / 9000 - n * 0.1, 0, 1), np.nan),
        )
        for n in (1, 2)
    ),
    "tde_conversion_stalled": _per_database(lambda w, d: w.steady(d.name == "archive")),
    "tde_instance_decrypts_total": _cipher_of_instance(1.0),
    "tde_instance_encrypts_total": _cipher_of_instance(0.1),
    "tde_instance_cpu_seconds_total": _per_database(lambda w, d: w.counter(w.noise(6 * d.busy, 0.2, 0.3))),
    "tde_instance_reads_total": _per_database(lambda w, d: w.counter(w.noise(2400 * d.busy, 0.2, 0.3))),
    "tde_instance_read_seconds_total": _per_database(lambda w, d: w.counter(w.noise(1.1 * d.busy, 0.2, 0.3))),
    "tde_instance_buffer_hit_ratio": _per_database(lambda w, d: np.minimum(1.0, w.noise(0.962, 0.01, 0.01))),
    "tde_host_cpu_utilization_ratio": _per_database(lambda w, d: np.minimum(1.0, w.noise(d.busy, 0.2, 0.25)) if d.host else None),
    "tde_host_cpus": _per_database(lambda w, d: w.steady(8) if d.host else None),
    "tde_host_aes_acceleration": _per_database(lambda w, d: w.steady(1) if d.host else None),
    "tde_standby_configured": _standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_lag_known": _standbys(lambda w, d, k: w.steady(1), ("transport", "apply", "heartbeat")),
    "tde_standby_lag_seconds": _standbys(_lag, ("transport", "apply", "heartbeat")),
    "tde_standby_transport_running": _standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_apply_running": _standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_sequence": _sequences,
    "tde_standby_gap_sequences": _standbys(lambda w, d, k: w.steady(0)),
    "tde_standby_destination_up": _standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_master_key_match": _standbys(lambda w, d, k: w.steady(1)),
    "tde_standby_configured_delay_seconds": _standbys(lambda w, d, k: w.steady(300) if d.name == "edge" else None),
    "tde_standby_clock_skew_seconds": _standbys(lambda w, d, k: w.noise(0.02, 0.5)),
    "tde_canary_runs_total": _sides(lambda w, d, o, e: w.counter(_queries(o), 0.0)),
    "tde_canary_run_failures_total": _failures,
    "tde_canary_last_success_timestamp_seconds": _sides(lambda w, d, o, e: w.times - (70 if o.rare else 8)),
    "tde_canary_blind": _by_operation(lambda w, d, o: w.steady(o.final == "blind")),
    "tde_canary_encrypted_failing": lambda w, _: ((_pair(d), w.steady(0)) for d in FLEET if d.certifies < 1),
    "tde_canary_boosted": _by_operation(
        lambda w, d, o: ((w.times > w.event) & (w.times < w.event + 5400) & (o.final == "over_budget")).astype(np.float64)
    ),
    "tde_canary_contended_total": _per_database(lambda w, d: w.rare(3)),
    "tde_canary_load_ratio": _per_database(lambda w, d: w.noise(0.0042, 0.2, 0.2)),
    "tde_canary_load_limit_ratio": _per_database(lambda w, d: w.steady(0.01)),
    "tde_canary_budget_used_ratio": _labelled(
        "budget",
        ("time", "bytes_read", "bytes_written", "sessions"),
        lambda w, d, b: w.noise({"time": 0.42, "bytes_read": 0.61, "bytes_written": 0.02, "sessions": 0.5}[b], 0.1, 0.1),
    ),
    "tde_canary_bytes_read_total": _per_database(lambda w, d: w.counter(2.1e5)),
    "tde_canary_bytes_written_total": _per_database(lambda w, d: w.counter(900.0)),
    "tde_canary_tier": _by_operation(lambda w, d, o: w.steady(3 if o.rare else 1 if o.samples > 2000 else 2)),
    "tde_canary_latency_seconds": _latency,
    "tde_canary_cold_ratio": _sides(lambda w, d, o, e: np.minimum(1.0, w.noise(o.cold, 0.02, 0.02))),
    "tde_canary_cpu_seconds_total": _sides(lambda w, d, o, e: w.counter(0.6 * o.median * _queries(o) * _slow(w, o, e))),
    "tde_canary_server_seconds_total": _sides(lambda w, d, o, e: w.counter(0.9 * o.median * _queries(o) * _slow(w, o, e))),
    "tde_canary_blocks_read_total": _sides(lambda w, d, o, e: w.counter(o.blocks * _queries(o), 0.0)),
    "tde_canary_decrypts_total": _through_cipher(1.0),
    "tde_canary_encrypts_total": _through_cipher(0.5),
    "tde_canary_phase_seconds_total": _phases,
}  # fmt: skip
"""How each metric of the catalogue is made up."""

BESIDE: dict[str, Recipe] = {
    "up": _plain(lambda w: w.steady(1)),
    "scrape_duration_seconds": _plain(lambda w: w.noise(0.012, 0.4)),
    "scrape_samples_scraped": _plain(lambda w: w.steady(1180)),
    "process_cpu_seconds_total": _plain(lambda w: w.counter(0.02)),
    "process_resident_memory_bytes": _plain(lambda w: w.noise(7.2e7, 0.02, 0.01)),
    "process_open_fds": _plain(lambda w: np.floor(w.noise(32, 0.1))),
    "process_max_fds": _plain(lambda w: w.steady(1024)),
    "ALERTS": lambda w, _: iter(
        [
            ({"alertname": "TDEWatchdog", "alertstate": "firing", "severity": "none"}, w.steady(1)),
            (
                {"alertname": "TDEOverheadHighP99", "alertstate": "firing", "severity": "warning", "target": "orders"},
                np.where(_breached(w, FLEET[0].operations[1], "1.2") > 0, 1.0, np.nan),
            ),
        ]
    ),
}
"""What Prometheus and the client library add."""


def families(world: World) -> Iterator[tuple[str, Kind, list[Series]]]:
    """Name of the samples, type, and series of every metric; raises AssertionError for labels that the catalogue has not."""
    for name, metric in CATALOGUE.items():
        series = list(RECIPES[name](world, name))
        _check(metric, series)
        yield name, metric.kind, series
    for name, recipe in BESIDE.items():
        yield name, Kind.COUNTER if name.endswith("_total") else Kind.GAUGE, list(recipe(world, name))


def _check(metric: Metric, series: list[Series]) -> None:
    wanted = {*metric.labels, "le"} if metric.kind is Kind.HISTOGRAM else set(metric.labels)
    for labels, _ in series:
        assert wanted - SOMETIMES <= set(labels) <= wanted, f"{metric.name}{labels}"
    assert series, metric.name


def write(path: Path, world: World, without: frozenset[str] = frozenset()) -> None:
    """The history as OpenMetrics text, without some families."""
    stamps = [f" {moment:.0f}\n" for moment in world.times]
    with path.open("w", encoding="utf-8") as out:
        for name, kind, series in families(world):
            if name in without:
                continue
            family = name.removesuffix("_total") if kind is Kind.COUNTER else name
            shape = {Kind.INFO: "gauge"}.get(kind, kind.value)
            out.write(f"# TYPE {family} {shape}\n")
            suffix = "_bucket" if kind is Kind.HISTOGRAM else ""
            for labels, values in series:
                told = ",".join(f'{key}="{value}"' for key, value in {**SCRAPED, **labels}.items())
                start = f"{name}{suffix}{{{told}}} "
                out.writelines(
                    f"{start}{value!r}{stamp}"
                    for value, stamp in zip(values.astype(float).tolist(), stamps, strict=True)
                    if value == value
                )
        out.write("# EOF\n")


def main() -> None:
    """Write a history that ends now."""
    parser = argparse.ArgumentParser(description="Write a made-up history as OpenMetrics text.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--step", type=int, default=30, help="seconds between scrapes")
    arguments = parser.parse_args()
    write(arguments.out, World(int(time.time()), arguments.hours, arguments.step))


if __name__ == "__main__":
    main()
