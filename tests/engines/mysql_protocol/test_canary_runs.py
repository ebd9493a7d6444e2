"""Canary queries on real servers whose buffer pool is smaller than the twins: what they read, decrypt, and use of CPU."""

from statistics import median

import pytest

from exporter.domain.model import Operation, Slot, Variant, Work
from tests.engines.mysql_protocol.canary_targets import (
    cpu_ratio,
    measurable,
    run_both,
    samples_of,
    target_of,
    ticks,
    total,
    wait_for_quiet,
)
from tests.narrowing import known
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer

ROWS = 60_000
"""18 MB in each twin, more than twice the pool."""
POOL_MB = 8


def server_of(kind, pool_mb):
    """Nobody else reads: statistics of tables that were just filled would be made at some time after that, and MariaDB's
    counters are the whole server's. MySQL wants a thousand pages to be free, more than the whole pool has, and would keep
    others for no good reason."""
    options: dict[str, str | int] = {"innodb-stats-auto-recalc": "OFF"}
    if kind == "mysql":
        return MySqlServer(buffer_pool_mb=pool_mb, options=options | {"innodb-lru-scan-depth": 100})
    return MariaDbServer(kind, buffer_pool_mb=pool_mb, options=options)


@pytest.fixture(scope="module", params=["11.8", "mysql"])
def cold(request, tmp_path_factory):
    """(server, target, session, facts of the pair), all of it for the whole module: loading takes longest."""
    with server_of(request.param, POOL_MB) as server:
        target = target_of(server, tmp_path_factory.mktemp("cold"), rows=ROWS)
        with measurable(target) as (session, facts):
            wait_for_quiet(session)
            yield server, target, session, facts


def instance_decrypts(session):
    found = session.activity(10.0)
    assert found.decrypts is not None, found.problems
    return found.decrypts


def test_point_selects_find_their_pages_cold_and_decrypt_on_the_encrypted_side_alone(cold):
    _, target, session, facts = cold
    made = ticks(target, session, facts, Operation.POINT_SELECT, 10)
    encrypted, plain = total(made, Variant.ENCRYPTED), total(made, Variant.PLAIN)
    number = samples_of(made, Variant.PLAIN)

    assert known(encrypted.decrypts) > number / 2
    assert plain.decrypts == 0
    assert known(encrypted.decrypts) <= known(encrypted.blocks_read)
    reads = {
        variant: [known(sample.work.blocks_read) for tick in made for sample in tick.burst(variant).samples]
        for variant in Variant
    }
    # A leaf as a rule, now and then a page above it; the server's own work may fall into a query, and is no rule.
    assert [median(found) for found in reads.values()] == [1, 1]
    assert all(sum(map(bool, found)) > number / 2 for found in reads.values())


def test_the_servers_own_count_agrees_with_the_sum_of_the_samples(cold):
    """5 %: what is done between the queries is no query's, the reading of the dictionary for one."""
    _, target, session, facts = cold
    ticks(target, session, facts, Operation.POINT_SELECT, 1)
    before = instance_decrypts(session)
    work = Work.nothing()
    for operation in (Operation.POINT_SELECT, Operation.SORTED_SELECT, Operation.RANGE_SELECT):
        for slot_work in run_both(target, session, operation, runs=40).values():
            for one in slot_work:
                work = work + one
    risen = instance_decrypts(session) - before

    assert known(work.decrypts) > 1000
    assert 0.95 * risen <= known(work.decrypts) <= risen


def test_cpu_of_single_pages_is_higher_on_the_encrypted_side_beyond_doubt(cold):
    _, target, session, facts = cold
    assert session.facts().cpu_source == "thread+background"
    ratio = cpu_ratio(ticks(target, session, facts, Operation.POINT_SELECT, 60))

    assert ratio.lower > 1.0
    assert ratio.upper < 2.0


def test_cpu_of_scattered_pages_shows_it_in_a_few_queries(cold):
    _, target, session, facts = cold
    ratio = cpu_ratio(ticks(target, session, facts, Operation.SORTED_SELECT, 16, samples=1))

    assert ratio.lower > 1.05


def test_scans_are_read_ahead_and_all_the_same_decrypted_and_paid_for(cold):
    _, target, session, facts = cold
    made = ticks(target, session, facts, Operation.FULL_SCAN, 10, samples=1)
    encrypted, plain = total(made, Variant.ENCRYPTED), total(made, Variant.PLAIN)
    pages = ROWS / facts.b.rows_per_block

    assert known(encrypted.decrypts) > 10 * 0.6 * pages
    assert known(plain.blocks_read) > 10 * 0.6 * pages
    assert plain.decrypts == 0
    assert known(encrypted.cpu_seconds) > known(plain.cpu_seconds) > 0


def test_one_clock_times_all_runs(cold):
    server, target, session, _ = cold
    timed = {one.server_seconds is not None for work in run_both(target, session).values() for one in work}

    assert timed == {session.facts().clock == "server"}
    assert session.facts().clock == ("server" if server.binaries == "mysql" else "client")


def test_both_twins_give_the_same_answers_and_the_key_chooses(cold):
    _, target, session, _ = cold
    pair = target.pairs[0]
    for operation in (*sorted(operation for operation in target.default_operations), Operation.INDEX_COUNT):
        for key in (0, 77, 2**31 - 1):
            a, b = (session.run(pair, slot, operation, key, 10.0).answer for slot in Slot)
            assert a == b, operation
    assert session.run(pair, Slot.A, Operation.FULL_SCAN, 1, 10.0).answer[0] == ROWS
    assert session.run(pair, Slot.A, Operation.RANGE_SELECT, 1, 10.0).answer[0] == 5_000


def test_a_scan_is_done_by_the_session_that_is_timed(cold):
    """MySQL may count in parallel threads, unseen; then a scan would hardly use more of its own thread than a stretch."""
    _, target, session, _ = cold
    cpu = session._canaries["main"].counters._cpu

    def own(operation):
        before = cpu.mark(False)
        for key in range(5):
            session.run(target.pairs[0], Slot.B, operation, key, 10.0)
        return cpu.between(before, cpu.mark(False))

    assert own(Operation.FULL_SCAN) > 0.4 * ROWS / 5_000 * own(Operation.RANGE_SELECT)


@pytest.fixture(scope="module", params=["11.8", "mysql"])
def warm(request, tmp_path_factory):
    """The same with a pool into which both twins fit."""
    server = server_of(request.param, 64)
    with server, measurable(target_of(server, tmp_path_factory.mktemp("warm"), rows=10_000)) as (session, facts):
        yield session, facts, target_of(server, tmp_path_factory.mktemp("again"), rows=10_000)


def test_twins_that_fit_into_the_pool_are_blind_and_say_so_with_zeros_that_were_counted(warm):
    session, facts, target = warm
    made = ticks(target, session, facts, Operation.POINT_SELECT, 4)
    for variant in Variant:
        work = total(made, variant)
        assert (work.blocks_read, work.decrypts) == (0, 0)
        assert known(work.cpu_seconds) > 0
