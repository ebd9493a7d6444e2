"""How the series of a made-up fleet come about: one recipe for each shape of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from exporter.exposition.catalogue import CATALOGUE
from tests.dashboards.made_up_fleet import FLEET, Database, Operation, Recipe, Series, Values, World

WORDS = ("warming", "within_budget", "undecided", "over_budget", "no_data", "held", "blind", "certifying")


KEYSTORE_STATES = ("open", "closed", "no_key", "missing", "degraded", "unknown")


DETECTORS = tuple((p, r, t) for p in ("50", "99") for r in ("plain", "baseline") for t in ("1.2", "2.0"))


def each(world: World, make: Callable[[Database], Values]) -> Iterator[Series]:
    for database in FLEET:
        yield database.labels, make(database)


def pair(database: Database) -> dict[str, str]:
    return {**database.labels, "pair": "main"}


def operations() -> Iterator[tuple[Database, Operation, dict[str, str]]]:
    for database in FLEET:
        for operation in database.operations:
            yield database, operation, {**pair(database), "operation": operation.name}


def ratio_of(world: World, operation: Operation, percentile: str) -> Values:
    tail = 1.0 if percentile == "50" else 1.15
    low, high = 1 + (operation.before - 1) * tail, 1 + (operation.after - 1) * tail
    return world.switched(low, high, 3600.0) * (1 + world.noise(0.02, 1.0, 0.5) - 0.02)


def ratios(kind: str, baseline: bool = False) -> Recipe:
    side = {"lower": -1.0, "upper": 1.0}.get(kind, 0.0)

    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in operations():
            if baseline and not 0 < database.certifies < 1:
                continue
            for percentile in ("50",) if operation.rare else ("50", "99"):
                for window in ("1h", "24h"):
                    # The same seed for the ratio and its bounds, so that they belong together.
                    world._random = np.random.default_rng(hash_of(operation.name, percentile, window))
                    width = (0.02 if percentile == "50" else 0.07) * (1.0 if window == "1h" else 0.4)
                    width *= 2.0 if operation.rare else 1.0
                    ratio = ratio_of(world, operation, percentile)
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


def cpu_ratios(kind: str) -> Recipe:
    side = {"lower": -0.02, "upper": 0.02}.get(kind, 0.0)

    def recipe(world: World, _: str) -> Iterator[Series]:
        for _database, operation, labels in operations():
            for window in ("1h", "24h"):
                yield {**labels, "window": window}, world.switched(operation.before, operation.after) + side

    return recipe


def state_at(world: World, database: Database, operation: Operation) -> list[str]:
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


def states(world: World, _: str) -> Iterator[Series]:
    for database, operation, labels in operations():
        now = state_at(world, database, operation)
        for word in WORDS:
            yield {**labels, "state": word}, np.array([float(word == each) for each in now])


def detectors(make: Callable[[World, Operation, str, str], Values | None]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in operations():
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


def in_breach(world: World, operation: Operation, threshold: str) -> Values:
    share = (world.times - world.times[0]) / (world.times[-1] - world.times[0])
    breached = operation.final == "over_budget" and threshold == "1.2"
    return np.where((share > 0.65) & breached, 1.0, 0.0)


def evidence(world: World, operation: Operation, percentile: str, threshold: str) -> Values:
    breached = in_breach(world, operation, threshold)
    # From nothing at the event to what suffices, when the breach begins.
    climbing = np.clip((world.times - world.event) / (0.2 * (world.times[-1] - world.times[0])), 0, 1) * 7.7 - 3
    grown = climbing if operation.final == "over_budget" and threshold == "1.2" else world.steady(-2.4)
    level: Values = np.where(breached > 0, -1.5, grown) + world.noise(0.3, 1.0) - (percentile == "99") * 0.4
    return np.maximum(level, -3.0)


def onset(world: World, operation: Operation, _percentile: str, threshold: str) -> Values | None:
    if operation.final != "over_budget" or threshold != "1.2":
        return None
    return np.where(in_breach(world, operation, threshold) > 0, world.event + 420, np.nan)


def sides(make: Callable[[World, Database, Operation, bool], Values | None]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in operations():
            for variant in ("encrypted", "plain"):
                values = make(world, database, operation, variant == "encrypted")
                if values is not None:
                    yield {**labels, "variant": variant}, values

    return recipe


def slow(world: World, operation: Operation, encrypted: bool) -> Values:
    return world.switched(operation.before, operation.after) if encrypted else world.steady(1.0)


def latency(world: World, _: str) -> Iterator[Series]:
    for _database, operation, labels in operations():
        for percentile in ("50",) if operation.rare else ("50", "99"):
            load = world.noise(1.0, 0.02, 0.15)
            for variant in ("encrypted", "plain"):
                for window in ("1h", "24h"):
                    level = operation.median * (1.0 if percentile == "50" else 3.2)
                    values = level * load * slow(world, operation, variant == "encrypted")
                    side = {"variant": variant, "percentile": percentile, "window": window}
                    yield {**labels, **side}, world.since(0.03, values)


def baseline_latency(world: World, _: str) -> Iterator[Series]:
    for database, operation, labels in operations():
        for percentile in () if not database.certifies else ("50",) if operation.rare else ("50", "99"):
            for variant in ("encrypted", "plain"):
                level = operation.median * (1.0 if percentile == "50" else 3.2)
                side = {"variant": variant, "percentile": percentile}
                yield {**labels, **side}, world.since(0.4, world.steady(level))


def through_cipher(share: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in operations():
            for variant in ("encrypted", "plain"):
                writes = operation.name == "insert_batch"
                blocks = operation.blocks * (share if writes != (share == 1.0) else 0.0)
                rate = blocks * operation.samples / 3600 * (variant == "encrypted") * world.enabled(database)
                cipher = {"unit": "block", "source": "proxy" if database.engine == "mysql" else "counter"}
                yield {**labels, "variant": variant, **cipher}, world.counter(rate, 0.0)

    return recipe


def phases(world: World, _: str) -> Iterator[Series]:
    for database, operation, labels in operations():
        for variant in ("encrypted", "plain"):
            parts = {"execute": 0.7, "fetch": 0.3}
            if operation.name == "insert_batch":
                parts = {"execute": 0.6, "fetch": 0.0, "commit": 0.4}
            for phase, share in parts.items():
                rate = (
                    operation.median * share * operation.samples / 3600 * slow(world, operation, variant == "encrypted")
                )
                yield {**labels, "variant": variant, "phase": phase}, world.counter(rate, 0.0)
        assert database


def cost(shift: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            if database.certifies < 1:
                world._random = np.random.default_rng(hash_of(database.name))
                known = world.enabled(database) > 0
                values = np.where(known, world.noise(1.9e-6, 0.05, 0.05) * (1 + shift), np.nan)
                yield {**pair(database), "unit": "block"}, values

    return recipe


def cores(shift: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            if database.certifies < 1:
                world._random = np.random.default_rng(hash_of(database.name))
                busy = world.noise(0.5 * database.busy, 0.1, 0.3) * np.maximum(0.02, world.enabled(database))
                world_known = np.where(world.enabled(database) > 0, busy * (1 + shift), np.nan)
                yield database.labels, world_known

    return recipe


def events(world: World, _: str) -> Iterator[Series]:
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


def keystores(make: Callable[[World, Database, str], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            for keystore in database.keystores:
                yield {**database.labels, "keystore": keystore}, make(world, database, keystore)

    return recipe


def keystore_states(world: World, _: str) -> Iterator[Series]:
    share = (world.times - world.times[0]) / (world.times[-1] - world.times[0])
    for database in FLEET:
        for keystore in database.keystores:
            closed = (database.name == "billing") & (share > 0.7) & (share < 0.715)
            for state in KEYSTORE_STATES:
                is_state = closed if state == "closed" else ~closed if state == "open" else np.zeros_like(closed)
                yield {**database.labels, "keystore": keystore, "state": state}, is_state.astype(np.float64)


def keystore_info(world: World, _: str) -> Iterator[Series]:
    for database in FLEET:
        for keystore in database.keystores:
            facts = {"type": "file", "mode": "auto_login", "raw": "OPEN", "seen_from": "server"}
            yield {**database.labels, "keystore": keystore, **facts}, world.steady(1)


def inventory(size: float) -> Recipe:
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


def standbys(make: Callable[[World, Database, str], Values | None], kinds: tuple[str, ...] = ()) -> Recipe:
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


def lag(world: World, database: Database, kind: str) -> Values:
    level = {"transport": 0.3, "apply": 1.8, "heartbeat": 2.4}[kind]
    hill = np.exp(-(((world.times - world.event - 1800) / 900) ** 2)) * (95 if database.certifies else 0)
    values = world.noise(level, 1.5, 0.3) + (hill if kind != "transport" else 0)
    return values + (300 if database.name == "edge" and kind != "transport" else 0)


def sequences(world: World, _: str) -> Iterator[Series]:
    for database in FLEET:
        for standby, channel in database.standbys:
            where = {"channel": channel} if channel else {}
            received = np.floor(world.counter(20.0, 5000.0))
            waiting = {"received": 0.0, "applied": np.floor(world.noise(40, 1.0))}
            for stage, behind in waiting.items():
                yield {**database.labels, "standby": standby, **where, "thread": "1", "stage": stage}, received - behind


def collectors(make: Callable[[World, Database, str], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            names = ["canary", "encryption_state", "activity", *(["standby", "heartbeat"] if database.standbys else [])]
            for name in names:
                yield {"target": database.name, "collector": name}, make(world, database, name)

    return recipe


TOOK = {"canary": 0.4, "encryption_state": 0.05, "activity": 0.02, "standby": 0.03, "heartbeat": 0.004}


def histogram(world: World, name: str) -> Iterator[Series]:
    bounds = CATALOGUE[name].buckets
    total = np.floor(world.counter(3.0, 0.0))
    for index, bound in enumerate((*bounds, np.inf)):
        # Whole thousands and whole shares of them, so that buckets never grow slower than smaller ones.
        share = 1000 if np.isinf(bound) else round(1000 * (1 - np.exp(-(index + 0.5) / 2.2)))
        yield {"le": "+Inf" if np.isinf(bound) else repr(float(bound))}, total * share


def plain(make: Callable[[World], Values], labels: dict[str, str] | None = None) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        yield dict(labels or {}), make(world)

    return recipe


def many(label: str, values: dict[str, Callable[[World], Values]]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for value, make in values.items():
            yield {label: value}, make(world)

    return recipe


def per_database(make: Callable[[World, Database], Values | None]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            values = make(world, database)
            if values is not None:
                yield database.labels, values

    return recipe


def labelled(label: str, values: tuple[str, ...], make: Callable[[World, Database, str], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            for value in values:
                yield {**database.labels, label: value}, make(world, database, value)

    return recipe


def target_info(world: World, _: str) -> Iterator[Series]:
    for database in FLEET:
        yield {**database.labels, **database.facts}, world.steady(1)


def pair_info(world: World, _: str) -> Iterator[Series]:
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
                yield {**pair(database), **facts, "phase": phase, "algorithm": algorithm}, np.where(there, 1.0, np.nan)


def pairs(make: Callable[[World, Database], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            yield pair(database), make(world, database)

    return recipe


def twins(value: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            for variant in ("encrypted", "plain"):
                if database.certifies < 1:
                    known = np.where(world.enabled(database) > 0, value, np.nan)
                    yield {**pair(database), "variant": variant}, known

    return recipe


def by_operation(make: Callable[[World, Database, Operation], Values]) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database, operation, labels in operations():
            yield labels, make(world, database, operation)

    return recipe


def windows(world: World, _: str) -> Iterator[Series]:
    for _database, operation, labels in operations():
        for variant in ("encrypted", "plain"):
            for window, hours in (("1h", 1.0), ("24h", 24.0)):
                grown = np.minimum(1.0, (world.times - world.times[0]) / (3600 * hours))
                values = np.floor(operation.samples * hours * grown)
                yield {**labels, "variant": variant, "window": window}, values


def failures(world: World, _: str) -> Iterator[Series]:
    for _database, operation, labels in operations():
        for variant in ("encrypted", "plain"):
            for reason in ("timeout", "query") if operation.name == "full_scan" else ("timeout",):
                yield {**labels, "variant": variant, "reason": reason}, world.rare(1.0)


def cipher_of_instance(share: float) -> Recipe:
    def recipe(world: World, _: str) -> Iterator[Series]:
        for database in FLEET:
            if database.certifies == 1.0:
                continue
            rate = world.noise(120_000 * database.busy, 0.3, 0.3) * np.maximum(0.001, world.enabled(database)) * share
            yield {**database.labels, "unit": "block", "source": "counter"}, world.counter(rate, 0.0)

    return recipe


def thresholds(world: World, _: str) -> Iterator[Series]:
    for percentile, reference, threshold in DETECTORS:
        labels = {"percentile": percentile, "reference": reference, "threshold": threshold}
        yield labels, world.steady(4.6 if percentile == "50" else 3.9)


def queries(operation: Operation) -> float:
    return operation.samples / 3600
