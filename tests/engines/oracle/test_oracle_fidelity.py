"""What is programmed into the stand-in comes back: costs as their ratios, equal costs as equal.

The times are those of published tests (seconds of a batch: plain, column and tablespace encryption; throughputs of an OLTP
test; rows per second with a software wallet and an external key vault), scaled down: what is compared are ratios. The
stand-in pays them as DB time and CPU, so that nothing depends on how busy the machine is that runs the tests.
"""

from __future__ import annotations

import pytest

from exporter.domain.model import Operation, Variant
from exporter.overhead.hodges_lehmann import hodges_lehmann
from exporter.overhead.units import UnitPairing, log_ratios
from tests.engines.oracle.standin_targets import COLUMN, MAIN, canary_of, make_ready, opened, target_of
from tests.narrowing import known
from tests.oracle_standin.keys import Keystore
from tests.oracle_standin.storage import Cost, constant, lognormal

PUBLISHED = {
    "insert": {"plain": 3.75, "column": 29.5, "tablespace": 4.01},
    "update": {"plain": 3.508, "column": 90.02, "tablespace": 3.9},
    "oltp": {"plain": 1 / 4820, "column": 1 / 4310, "tablespace": 1 / 4180},
}
WALLET, VAULT = 1 / 19600.19, 1 / 20376.15
PLAIN_SECONDS = 0.0004
TICKS, SAMPLES = 24, 2
PAIRS = {"tablespace": 0, "column": 1}


@pytest.fixture
def measuring(server, tmp_path):
    """A session on a target with a pair of each kind, where the database's clock decides."""
    target = target_of(server, tmp_path, pairs=(MAIN, COLUMN), clock="server")
    with opened(target) as session:
        make_ready(session, target)
        yield server, target, session


def program(server, target, pair, encrypted, plain, noise=0.0):
    """Let both twins take so long, on the average, and use as much CPU."""
    for name, seconds in (("ENCRYPTED", encrypted), ("PLAIN", plain)):
        latency = lognormal(seconds, noise) if noise else constant(seconds)
        table = server.database.table("TDE", f"{target.pairs[pair].name}_{name}", 3)
        table.costs = {"*": Cost(latency=latency, cpu=constant(seconds))}


def measured(target, session, pair, operation=Operation.POINT_SELECT):
    """Ratios of time and of CPU, each with its interval, from ticks as the daemon makes them."""
    facts = session.verify(target.pairs[pair], 5.0)
    canary, pairing, units = canary_of(target, operation, SAMPLES, pair), UnitPairing(), []
    for _ in range(TICKS):
        tick = canary.tick(session, facts)
        assert tick.dropped is None, canary.problem
        latency, cpu = log_ratios(tick)
        units.append(pairing.add(tick.first, (latency, cpu, tick.started)))
    found = [unit for unit in units if unit is not None]
    return hodges_lehmann([unit.latency for unit in found]), hodges_lehmann([known(unit.cpu) for unit in found])


@pytest.mark.parametrize("kind", sorted(PAIRS))
@pytest.mark.parametrize("test", sorted(PUBLISHED))
def test_published_costs_come_back_as_their_ratios(measuring, test, kind):
    server, target, session = measuring
    times, pair = PUBLISHED[test], PAIRS[kind]
    truth = times[kind] / times["plain"]
    program(server, target, pair, PLAIN_SECONDS * truth, PLAIN_SECONDS, noise=0.05)

    latency, cpu = measured(target, session, pair)

    assert latency.lower <= truth <= latency.upper
    assert latency.upper / latency.lower < 1.1
    assert cpu.lower <= truth * 1.001
    assert cpu.upper >= truth * 0.999
    assert cpu.estimate == pytest.approx(truth, rel=0.005)


def test_equal_costs_come_back_as_equal(measuring):
    server, target, session = measuring
    for pair in PAIRS.values():
        program(server, target, pair, PLAIN_SECONDS, PLAIN_SECONDS, noise=0.05)
        latency, cpu = measured(target, session, pair)

        assert latency.lower <= 1.0 <= latency.upper
        assert cpu.estimate == pytest.approx(1.0, rel=0.005)


def test_a_wallet_and_an_external_key_vault_are_told_apart_only_by_what_they_cost(make_server, tmp_path):
    """A key vault is asked for the master key, not for rows: with equal costs of rows, both targets say the same."""
    found = {}
    for name, kind, seconds in (("wallet", "FILE", WALLET), ("vault", "OKV", VAULT), ("other", "OKV", WALLET)):
        server = make_server()
        server.database.keystores[:] = [Keystore(each.con_id, kind=kind) for each in server.database.keystores]
        target = target_of(server, tmp_path, clock="server")
        with opened(target, provisioned=True) as session:
            scale = 10.0
            program(server, target, 0, scale * seconds, scale * VAULT, noise=0.02)
            found[name] = measured(target, session, 0)[0]
    assert found["wallet"].lower <= WALLET / VAULT <= found["wallet"].upper
    assert found["vault"].lower <= 1.0 <= found["vault"].upper
    assert found["wallet"].lower > found["vault"].estimate
    assert found["other"].lower <= found["wallet"].upper
    assert found["wallet"].lower <= found["other"].upper


def test_the_cost_of_a_decrypted_block_is_the_difference_by_the_blocks(measuring):
    server, target, session = measuring
    per_block, table = 12e-6, server.database.table("TDE", "MAIN_ENCRYPTED", 3)
    program(server, target, 0, 0.002, 0.002)
    table.costs = {
        "*": Cost(latency=constant(0.002), cpu=constant(0.002), block_cpu=per_block, block_latency=per_block)
    }
    facts = session.verify(target.pairs[0], 5.0)
    tick = canary_of(target, Operation.LOB_READ, 10).tick(session, facts)
    encrypted, plain = (tick.burst(variant).work for variant in Variant)

    assert (encrypted.decrypts, plain.decrypts) == (1280, 0)
    cpu = known(encrypted.cpu_seconds) - known(plain.cpu_seconds)
    assert cpu / known(encrypted.decrypts) == pytest.approx(per_block, rel=0.01)
    latency, _ = measured(target, session, 0, Operation.LOB_READ)
    assert latency.estimate == pytest.approx((0.002 + 128 * per_block) / 0.002, rel=0.01)


def test_a_cached_twin_is_blind_and_a_large_object_never_is(measuring):
    server, target, session = measuring
    facts = session.verify(target.pairs[0], 5.0)
    scans = [canary_of(target, Operation.FULL_SCAN, 1).tick(session, facts) for _ in range(3)]
    lobs = [canary_of(target, Operation.LOB_READ, 1).tick(session, facts) for _ in range(3)]

    assert [tick.encrypted.work.decrypts for tick in scans[1:]] == [0, 0]
    assert [tick.encrypted.work.decrypts for tick in lobs] == [128, 128, 128]
    server.database.table("TDE", "MAIN_ENCRYPTED", 3).age_out()
    assert canary_of(target, Operation.FULL_SCAN, 1).tick(session, facts).encrypted.work.decrypts == 120
