"""Writing really writes, says exactly how much, and leaves the scratch tables and the files as large as they were."""

import random
import struct
from pathlib import Path

import apsw
import pytest

from exporter.domain.errors import LockTimeout
from exporter.domain.model import Operation, Slot
from exporter.engines.sqlite import scratch, writing
from exporter.engines.sqlite.operations import OPERATIONS, WRITING
from tests.engines.sqlite.conftest import asked

OF_ROWS = (Operation.UPDATE_BATCH, Operation.DELETE_REPLENISH, Operation.CHECKPOINT)
"""Operations on the scratch table that is always full."""


def run(session, place, operation, slot, key=0):
    return session.run(place.pair, slot, operation, key, 5.0)


def written(connection):
    return connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]


def missed(connection):
    return connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]


def empty_log(connection):
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def leaves(connection):
    sql = "SELECT count(*) FROM dbstat WHERE name = 'scratch_filled' AND pagetype = 'leaf'"
    return connection.execute(sql).get


def update(connection, change):
    """The pages that one update with this number encrypts."""
    before = written(connection)
    connection.execute(scratch.UPDATE, (change, 0))
    return written(connection) - before


def test_an_update_that_wrote_equal_values_would_encrypt_next_to_nothing(place):
    """The trap, and that the operation does not fall into it: not with one key, nor after a restart."""
    place.built().close()
    with place.twin(Slot.A) as twin:
        change, pages = scratch.repaired(twin.warm), leaves(twin.warm)
        assert pages > 5
        assert update(twin.warm, change) >= pages
        assert update(twin.warm, change) <= 1
        assert update(twin.warm, change + 1) >= pages
    for _ in range(3):
        session = place.open()
        for _ in range(3):
            assert pages <= run(session, place, Operation.UPDATE_BATCH, Slot.A).work.encrypts <= pages + 2
        session.close()


def test_each_operation_encrypts_the_pages_that_it_writes_on_one_side_only(place):
    session = place.built()
    with place.twin(Slot.A) as twin:
        pages = leaves(twin.warm)
    for slot in Slot:
        for operation in WRITING:
            run(session, place, operation, slot)
        works = {operation: run(session, place, operation, slot).work for operation in WRITING}
        if slot is Slot.B:
            assert {(work.decrypts, work.encrypts) for work in works.values()} == {(0, 0)}
            assert works[Operation.CHECKPOINT].blocks_read > 0
            continue
        assert all(pages <= works[operation].encrypts <= pages + 4 for operation in OF_ROWS)
        assert 3 <= works[Operation.INSERT_BATCH].encrypts < pages
        # All pages were in the cache; a checkpoint reads the log.
        assert [work.decrypts for operation, work in works.items() if operation is not Operation.CHECKPOINT] == [0] * 3
        assert works[Operation.CHECKPOINT].decrypts == works[Operation.CHECKPOINT].encrypts


def log_of(connection):
    """Page numbers in the log, frame by frame, as they stand in its file."""
    content = Path(connection.filename_wal).read_bytes()
    return [struct.unpack_from(">I", content, start)[0] for start in range(32, len(content), 24 + 8192)]


@pytest.mark.parametrize("slot", list(Slot))
def test_the_size_of_the_log_tells_how_many_pages_a_checkpoint_copies(place, slot):
    """Four ways to count agree: the size, the frames themselves, the pager's writes, and what SQLite says."""
    place.built().close()
    with place.twin(slot) as twin:
        change = scratch.repaired(twin.warm)
        for number in range(3):
            empty_log(twin.warm)
            assert writing.pages_in_log(twin.warm) == 0
            pages = update(twin.warm, change + number)
            assert pages > 5
            assert writing.pages_in_log(twin.warm) == pages
            assert len(set(log_of(twin.warm))) == len(log_of(twin.warm)) == pages
            assert twin.warm.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL) == (pages, pages)
        empty_log(twin.warm)

        counted = OPERATIONS[Operation.CHECKPOINT](twin, place.pair.rows, 0).work
        assert counted.blocks_read == pages
        assert counted.encrypts == counted.decrypts == (pages if twin.encrypted else 0)
        assert writing.pages_in_log(twin.warm) == 0


class Ledger:
    """Reads the pager's counters after every statement and books the difference: timed, or not.

    Independent of what the operations report: it only knows that what is timed begins after BEGIN IMMEDIATE
    and ends with COMMIT.
    """

    def __init__(self, connection):
        self._connection = connection
        self._timed = False
        self.totals = {True: [0, 0], False: [0, 0]}
        self._last = self._read()
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._book)

    def _read(self):
        return missed(self._connection), written(self._connection)

    def _book(self, event):
        now = self._read()
        for number, (new, old) in enumerate(zip(now, self._last, strict=True)):
            self.totals[self._timed][number] += new - old
        self._last = now
        if event["sql"] == "BEGIN IMMEDIATE":
            self._timed = True
        elif event["sql"] == "COMMIT":
            self._timed = False


def test_the_samples_and_their_preludes_account_for_every_page_of_the_pager(place):
    """All that is written and read is in a sample or in the untimed part of one, to the page."""
    place.built().close()
    operations = sorted(WRITING - {Operation.CHECKPOINT})
    rng = random.Random(5)
    with place.twin(Slot.A) as twin:
        start = missed(twin.warm), written(twin.warm)
        ledger = Ledger(twin.warm)
        works = []
        for number in range(40):
            if number % 10 == 5:
                twin.warm.pragma("shrink_memory")  # so that the preludes decrypt as well
            for operation in rng.sample(operations, k=3):
                works.append(OPERATIONS[operation](twin, place.pair.rows, rng.randrange(2**31)).work)

        timed, untimed = ledger.totals[True], ledger.totals[False]
        total = [missed(twin.warm) - start[0], written(twin.warm) - start[1]]
        assert [sum(work.decrypts or 0 for work in works), sum(work.encrypts or 0 for work in works)] == timed
        assert [a + b for a, b in zip(timed, untimed, strict=True)] == total
        # Nothing is left to decrypt in the timed part: the prelude has read what it needs.
        assert timed[0] == 0
        assert min(timed[1], *untimed) > 0


def test_a_checkpoint_is_not_in_the_counters_of_the_pager(place):
    """Which is why the log is asked: the pager's counters hold the untimed update alone."""
    place.built().close()
    with place.twin(Slot.A) as twin:
        OPERATIONS[Operation.CHECKPOINT](twin, place.pair.rows, 0)
        before = missed(twin.warm), written(twin.warm)
        pages = OPERATIONS[Operation.CHECKPOINT](twin, place.pair.rows, 0).work.encrypts

        assert (missed(twin.warm), written(twin.warm)) == (before[0], before[1] + pages)


def test_hundreds_of_runs_in_any_order_leave_the_files_as_large_as_they_are(place):
    session = place.built()
    for slot in Slot:
        run(session, place, Operation.INSERT_BATCH, slot)  # has not been there before
    sizes, rng = place.sizes(), random.Random(13)
    for _ in range(400):
        operation, key = rng.choice(sorted(WRITING)), rng.randrange(2**31)
        answers = {run(session, place, operation, slot, key).answer for slot in Slot}
        assert len(answers) == 1, operation

    assert place.sizes() == sizes
    assert [place.log(slot).stat().st_size for slot in Slot] == [0, 0]
    for slot in Slot:
        assert asked(place, place.path(slot), "SELECT count(*) FROM scratch_filled") == 1000
        assert asked(place, place.path(slot), "SELECT count(*) FROM scratch") == 500
        assert asked(place, place.path(slot), "PRAGMA integrity_check") == "ok"
    assert session.verify(place.pair, 5.0).valid


def test_twins_that_were_written_to_unequally_answer_alike(place):
    session = place.built()
    for key in range(5):
        for operation in OF_ROWS:
            run(session, place, operation, Slot.A, key)
    for operation in WRITING:
        for key in (0, 1, 12_345, 2**31 - 1):
            answers = {run(session, place, operation, slot, key).answer for slot in Slot}
            assert len(answers) == 1, operation


def test_a_key_chooses_what_is_written(place):
    session = place.built()
    for operation in WRITING:
        assert run(session, place, operation, Slot.A, 1).answer != run(session, place, operation, Slot.A, 2).answer


DAMAGES = [
    "DELETE FROM scratch_filled WHERE id % 3 = 0",
    "DELETE FROM scratch_filled",
    "INSERT INTO scratch_filled SELECT id + 5000, name, region, area, number, changed FROM scratch_filled",
    "UPDATE scratch_filled SET id = 1001 WHERE id = 1000",
    "UPDATE scratch_filled SET id = -1 WHERE id = 1",
    "DROP TABLE scratch_filled",
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("operation", OF_ROWS)
def test_an_operation_first_repairs_what_it_writes_to(place, operation, damage):
    session = place.built()
    healthy = run(session, place, operation, Slot.B, 7)
    tamper = apsw.Connection(str(place.plain))
    tamper.execute(damage)
    tamper.close()

    repaired = run(session, place, operation, Slot.B, 7)
    assert repaired.answer == healthy.answer
    assert repaired.work.blocks_read <= healthy.work.blocks_read + 20
    assert asked(place, place.plain, "SELECT count(*), min(id), max(id) FROM scratch_filled") == (1000, 1, 1000)


@pytest.mark.parametrize("operation", sorted(WRITING))
def test_writing_leaves_the_warm_scan_warm(place, operation):
    session = place.built()
    for slot in Slot:
        run(session, place, Operation.FULL_SCAN, slot)
        run(session, place, operation, slot)
        run(session, place, operation, slot)

        assert run(session, place, Operation.FULL_SCAN, slot).work.blocks_read == 0


def test_a_checkpoint_that_cannot_be_done_is_an_error_and_the_next_one_does_it(place):
    session = place.built()
    run(session, place, Operation.CHECKPOINT, Slot.B)
    reader = apsw.Connection(str(place.plain))
    reader.execute("BEGIN; SELECT count(*) FROM phonebook")
    run(session, place, Operation.UPDATE_BATCH, Slot.B)
    with pytest.raises(LockTimeout):
        run(session, place, Operation.CHECKPOINT, Slot.B)
    reader.close()

    pages = run(session, place, Operation.CHECKPOINT, Slot.B).work.blocks_read
    assert pages == run(session, place, Operation.CHECKPOINT, Slot.B).work.blocks_read > 0
    assert place.log(Slot.B).stat().st_size == 0


@pytest.mark.parametrize("operation", sorted(WRITING))
def test_only_what_commits_has_a_commit_time(place, operation):
    execution = run(place.built(), place, operation, Slot.A)

    assert (execution.commit_seconds > 0) == (operation is not Operation.CHECKPOINT)
    assert execution.answer[0] == {Operation.DELETE_REPLENISH: 1000}.get(operation, 500)
