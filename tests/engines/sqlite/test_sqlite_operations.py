"""What the canaries read, decrypt and write, counted by the pager itself."""

import random
import statistics

import apsw
import pytest

from exporter.domain.model import Operation, Slot


def table_pages(place):
    connection = apsw.Connection(str(place.plain))
    try:
        return connection.execute("SELECT pageno FROM dbstat WHERE name = 'phonebook' AND aggregate = TRUE").get
    finally:
        connection.close()


def work(session, place, operation, slot, key=0):
    return session.run(place.pair, slot, operation, key, 5.0).work


@pytest.fixture
def session(large):
    session = large.open()
    session.prepare(large.pair, 5.0)
    yield session
    session.close()


def test_a_warm_scan_decrypts_nothing(large, session):
    for slot in Slot:
        work(session, large, Operation.FULL_SCAN, slot)  # warms the cache
        for _ in range(3):
            warm = work(session, large, Operation.FULL_SCAN, slot)
            assert (warm.decrypts, warm.blocks_read) == (0, 0)


def test_a_cold_scan_decrypts_the_pages_of_the_table_each_time(large, session):
    pages = table_pages(large)
    for _ in range(3):
        encrypted, plain = (work(session, large, Operation.FULL_SCAN_COLD, slot) for slot in Slot)
        assert encrypted.decrypts == pytest.approx(pages, rel=0.02)
        assert encrypted.blocks_read == encrypted.decrypts
        assert plain.decrypts == 0
        assert plain.blocks_read == pytest.approx(pages, rel=0.02)


def test_a_cold_scan_is_cold_also_where_the_whole_table_would_fit_into_its_cache(place):
    session = place.built()
    first, second = (work(session, place, Operation.FULL_SCAN_COLD, Slot.A).decrypts for _ in range(2))

    assert second == pytest.approx(table_pages(place), abs=2)
    assert second <= first


def test_cold_scans_leave_the_warm_connection_warm(large, session):
    work(session, large, Operation.FULL_SCAN, Slot.A)
    work(session, large, Operation.FULL_SCAN_COLD, Slot.A)

    assert work(session, large, Operation.FULL_SCAN, Slot.A).decrypts == 0


def test_a_point_select_on_a_new_connection_decrypts_its_path(place):
    session = place.built()

    assert 0 < work(session, place, Operation.POINT_SELECT, Slot.A, 1234).decrypts <= 5
    assert work(session, place, Operation.POINT_SELECT, Slot.A, 1234).decrypts == 0


def test_batches_encrypt_on_one_side_and_the_files_stay_as_large_as_they_are(place):
    session = place.built()
    for slot in Slot:
        work(session, place, Operation.INSERT_BATCH, slot)
    sizes = [path.stat().st_size for path in (place.encrypted, place.plain)]
    for key in range(1, 30):
        encrypted, plain = (work(session, place, Operation.INSERT_BATCH, slot, key) for slot in Slot)
        assert encrypted.encrypts > 0
        assert plain.encrypts == 0

    assert [path.stat().st_size for path in (place.encrypted, place.plain)] == sizes
    for path in (place.encrypted, place.plain):
        assert path.with_name(path.name + "-wal").stat().st_size == 0
    assert session.verify(place.pair, 5.0).valid


def test_another_reader_does_not_make_a_batch_fail(place):
    """A reader that holds an old snapshot keeps the log from being cut; the next batch cuts it."""
    session = place.built()
    reader = apsw.Connection(str(place.plain))
    reader.execute("BEGIN; SELECT count(*) FROM phonebook")
    log = place.plain.with_name(place.plain.name + "-wal")
    for key in range(3):
        work(session, place, Operation.INSERT_BATCH, Slot.B, key)
    assert log.stat().st_size > 0
    reader.close()

    work(session, place, Operation.INSERT_BATCH, Slot.B)
    assert log.stat().st_size == 0


def paired_cpu_ratios(session, place, operation, count, rng):
    """CPU time of the encrypted twin by that of the plain one, measured back to back in random order."""
    ratios = []
    for _ in range(count):
        order = list(Slot)
        rng.shuffle(order)
        cpu = {slot: work(session, place, operation, slot).cpu_seconds for slot in order}
        ratios.append(cpu[Slot.A] / cpu[Slot.B])
    return ratios


def test_a_cold_scan_costs_more_on_the_encrypted_twin(large, session):
    paired_cpu_ratios(session, large, Operation.FULL_SCAN_COLD, 2, random.Random(0))
    ratios = paired_cpu_ratios(session, large, Operation.FULL_SCAN_COLD, 40, random.Random(1))

    assert statistics.median(ratios) > 1.1


def test_a_warm_scan_costs_the_same_on_both_twins(large, session):
    paired_cpu_ratios(session, large, Operation.FULL_SCAN, 2, random.Random(0))
    pooled = []
    for seed in range(20):
        pooled += paired_cpu_ratios(session, large, Operation.FULL_SCAN, 6, random.Random(seed))

    assert statistics.median(pooled) == pytest.approx(1.0, abs=0.05)
