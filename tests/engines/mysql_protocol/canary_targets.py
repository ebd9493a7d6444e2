"""Targets on the tests' servers, their twins, and canary queries on them as the daemon makes them."""

from __future__ import annotations

import random
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from exporter.config.schema import OperationSettings
from exporter.domain.clock import SystemClock
from exporter.domain.model import Operation, Slot, Variant, Work
from exporter.engines import registry
from exporter.engines.mariadb.engine import Engine as MariaDbEngine
from exporter.engines.mysql.engine import Engine as MySqlEngine
from exporter.overhead.hodges_lehmann import hodges_lehmann
from exporter.overhead.units import UnitPairing, log_ratios
from exporter.probing.canary import Canary
from exporter.probing.turnstile import Turnstile
from tests.narrowing import known
from tests.processes import until


def quiet(_what, _share):
    pass


def target_of(server, folder: Path, *, rows: int = 20_000, schema: str = "canary", account=None, **more):
    """A target of the engine for this server; `account` is (user, password), else root."""
    user, password = account or (server.user, server.password)
    secret = folder / f"{user}.secret"
    secret.write_text(password)
    engine = "mysql" if server.binaries == "mysql" else "mariadb"
    values = {
        "name": "db",
        "socket": server.socket,
        "user": user,
        "password": {"file": str(secret)},
        "schema": schema,
        "pairs": ({"name": "main", "rows": rows},),
    }
    return registry.target_types()[engine].model_validate(values | more)


@contextmanager
def opened(target, *, provisioned: bool = False, hide: Path | None = None):
    """A session; with `hide`, an empty folder, as if the server ran on another machine."""
    engine = registry.make(target)
    if hide is not None:
        assert isinstance(engine, MariaDbEngine | MySqlEngine)
        engine.host.proc = hide
    session = engine.open(20.0)
    try:
        if provisioned:
            session.provision(target.pairs[0], quiet, 120.0)
        yield session
    finally:
        session.close()


@contextmanager
def measurable(target, *, hide: Path | None = None):
    """A session with its pair verified and prepared, and the facts of the pair."""
    with opened(target, provisioned=True, hide=hide) as session:
        pair = target.pairs[0]
        facts = session.verify(pair, 20.0)
        assert facts.valid, facts.problem
        session.prepare(pair, 10.0)
        yield session, facts


def wait_for_quiet(session):
    """Until nobody else reads: statistics of tables that were just filled are made in the background."""

    def quiet_for_a_while():
        before = session.activity(10.0).reads
        Event().wait(0.3)
        return session.activity(10.0).reads == before

    until(quiet_for_a_while, "the server's own reads to end")


def ticks(target, session, facts, operation, number, samples=20):
    """Ticks as the daemon makes them, their order balanced."""
    settings = OperationSettings(samples=samples, timeout=20.0)
    canary = Canary("db", target.pairs[0], operation, settings, Turnstile(), random.Random(1), SystemClock())
    made = [canary.tick(session, facts) for _ in range(number)]
    assert not any(tick.dropped for tick in made), canary.problem
    return made


def cpu_ratio(made):
    """The ratio of CPU with its interval, by ticks of opposite order."""
    pairing = UnitPairing()
    found: list[float] = []
    for tick in made:
        latency, cpu = log_ratios(tick)
        unit = pairing.add(tick.first, (latency, cpu, tick.started))
        if unit is not None:
            found.append(known(unit.cpu))
    return hodges_lehmann(found)


def total(made, variant: Variant) -> Work:
    """What all samples of one side did."""
    work = Work.nothing()
    for tick in made:
        work = work + tick.burst(variant).work
    return work


def samples_of(made, variant: Variant) -> int:
    return sum(len(tick.burst(variant).samples) for tick in made)


def run_both(target, session, operation=Operation.POINT_SELECT, runs=20, timeout=10.0):
    """Runs on both slots with the same keys; the work of each slot's runs."""
    rng = random.Random(7)
    work: dict[Slot, list[Work]] = {slot: [] for slot in Slot}
    for _ in range(runs):
        key = rng.randrange(2**31)
        for slot in Slot:
            work[slot].append(session.run(target.pairs[0], slot, operation, key, timeout).work)
    return work
