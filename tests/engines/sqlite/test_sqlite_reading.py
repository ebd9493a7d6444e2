"""What each reading operation answers, how the database finds it, and what passes the cipher for it."""

import random

import apsw
import pytest

from exporter.domain.model import Operation, Slot
from exporter.engines.sqlite import phonebook, reading
from exporter.engines.sqlite.operations import OPERATIONS, WRITING
from tests.engines.sqlite.conftest import Place

COLD = sorted(operation for operation in OPERATIONS if operation.endswith("_cold"))
WARM = sorted(set(OPERATIONS) - set(COLD) - WRITING)
KEYS = (0, 1, 8_999, 12_345, 2**31 - 1)


def misses(twin):
    """Pages that the pagers of both connections have read since they were opened."""
    return sum(connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] for connection in (twin.warm, twin.cold))


def pages_of(twin, name):
    return twin.warm.execute("SELECT pageno FROM dbstat WHERE name = ? AND aggregate = TRUE", (name,)).get


def plan(twin, sql):
    values = (1,) * sql.count("?")
    return [row[3] for row in twin.warm.execute("EXPLAIN QUERY PLAN " + sql, values)]


@pytest.fixture(params=list(Slot), ids=str)
def twin(request, large):
    """A twin of the default's size, whose connections have read nothing but what opening takes."""
    with large.twin(request.param) as twin:
        yield twin


@pytest.mark.parametrize(
    ("sql", "steps"),
    [
        (reading.POINT, ["SEARCH phonebook USING INTEGER PRIMARY KEY (rowid=?)"]),
        (reading.RANGE, ["SEARCH phonebook USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]),
        (reading.COUNT, ["SEARCH phonebook USING COVERING INDEX phonebook_area (area>? AND area<?)"]),
        (
            reading.SORTED,
            [
                "USE TEMP B-TREE FOR group_concat(ORDER BY)",
                "SEARCH phonebook USING INDEX phonebook_area (area>? AND area<?)",
            ],
        ),
        (reading.SCAN, ["SCAN phonebook"]),
    ],
)
def test_the_database_goes_the_way_that_the_operation_is_to_measure(twin, sql, steps):
    assert plan(twin, sql) == steps


def neighbours(rows, key):
    count = min(5_000, rows // 10)
    first = 1 + key % (rows - count + 1)
    found = list(phonebook.rows(first, first + count - 1))
    return (count, sum(len(row[1]) for row in found), sum(row[3] for row in found))


def in_areas(rows, key, count):
    first = 1000 + key % (9000 - count + 1)
    return [row for row in phonebook.rows(1, rows) if first <= row[3] < first + count]


def by_name(rows, key):
    found = sorted(in_areas(rows, key, 90), key=lambda row: (row[1], row[0]))
    return (len(found), "".join(row[4][-1] for row in found) or None)


EXPECTED = {
    Operation.POINT_SELECT: lambda rows, key: (phonebook.row(1 + key % rows)[1], phonebook.row(1 + key % rows)[4]),
    Operation.RANGE_SELECT: neighbours,
    Operation.INDEX_COUNT: lambda rows, key: (len(in_areas(rows, key, 900)),),
    Operation.SORTED_SELECT: by_name,
    Operation.FULL_SCAN: lambda rows, _: (
        rows,
        sum(len(row[1]) for row in phonebook.rows(1, rows)),
        sum(row[3] for row in phonebook.rows(1, rows)),
    ),
}


@pytest.mark.parametrize("operation", WARM)
def test_the_answer_is_one_row_that_says_what_was_asked(place, operation):
    """Warm and cold, on both twins, the sorted one with every row in its place."""
    session, rows = place.built(), place.pair.rows
    for key in KEYS:
        expected = (1, phonebook.checksum([EXPECTED[operation](rows, key)]))
        for name in (operation, Operation(f"{operation}_cold")):
            assert [session.run(place.pair, slot, name, key, 5.0).answer for slot in Slot] == [expected] * 2, name


def test_a_key_chooses_what_is_read(large):
    with large.twin(Slot.A) as twin:
        for operation in {*WARM, *COLD} - {Operation.FULL_SCAN, Operation.FULL_SCAN_COLD}:
            answers = {OPERATIONS[operation](twin, 200_000, 7919 * key).answer for key in range(10)}
            assert len(answers) == 10, operation


def test_the_shares_of_the_rows_are_as_promised(large):
    with large.twin(Slot.B) as twin:
        counted = [len(in_areas(200_000, key, 900)) for key in (1, 5_000)]
        assert counted == pytest.approx([20_000] * 2, rel=0.05)
        for key in (1, 5_000):
            first = 1000 + key % (9000 - 90 + 1)
            count = twin.warm.execute(reading.COUNT, (first, first + 89)).get
            assert count == pytest.approx(2_000, rel=0.1)


def test_the_samples_account_for_every_page_that_the_pager_read(twin):
    """All reading operations in random order, those included that warm up the connections."""
    rng = random.Random(3)
    before = misses(twin)
    works = []
    for _ in range(15):
        for operation in rng.sample([*WARM, *COLD], k=len(WARM) + len(COLD)):
            works.append(OPERATIONS[operation](twin, 200_000, rng.randrange(2**31)).work)

    read = misses(twin) - before
    assert read > 15 * pages_of(twin, "phonebook")
    assert sum(work.blocks_read or 0 for work in works) == read
    assert sum(work.decrypts or 0 for work in works) == (read if twin.encrypted else 0)
    assert sum(work.encrypts or 0 for work in works) == 0


@pytest.mark.parametrize("operation", WARM)
def test_what_was_read_once_is_not_decrypted_again(twin, operation):
    OPERATIONS[operation](twin, 200_000, 4711)
    for _ in range(3):
        assert OPERATIONS[operation](twin, 200_000, 4711).work.blocks_read == 0


def test_a_warm_connection_decrypts_nothing_whatever_the_key(twin):
    OPERATIONS[Operation.FULL_SCAN](twin, 200_000, 0)
    for area in (1000, 4000, 7000):  # the whole index
        twin.warm.execute(reading.COUNT, (area, area + 2999)).fetchall()
    for operation in WARM:
        for key in range(0, 2**31, 2**28):
            assert OPERATIONS[operation](twin, 200_000, key).work.blocks_read == 0, operation


def test_each_cold_operation_reads_its_pages_each_time(twin):
    table, index = pages_of(twin, "phonebook"), pages_of(twin, "phonebook_area")
    expected = {
        Operation.POINT_SELECT_COLD: pytest.approx(4, abs=1),
        Operation.RANGE_SELECT_COLD: pytest.approx(table * 5_000 / 200_000, abs=6),
        Operation.INDEX_COUNT_COLD: pytest.approx(index / 10, abs=8),
        # 2 000 rows lie anywhere, and the cache of 256 pages holds the page of a row only now and then.
        Operation.SORTED_SELECT_COLD: pytest.approx(2_000 * (1 - 256 / table), rel=0.1),
        Operation.FULL_SCAN_COLD: pytest.approx(table, rel=0.02),
    }
    assert sorted(expected) == COLD
    for operation in COLD:
        OPERATIONS[operation](twin, 200_000, 99)  # reads the schema as well
        works = [OPERATIONS[operation](twin, 200_000, 99).work for _ in range(3)]
        assert works[0].blocks_read == expected[operation], operation
        assert len({work.blocks_read for work in works}) == 1
        assert {work.decrypts for work in works} == {works[0].blocks_read if twin.encrypted else 0}


def test_both_twins_read_alike(large):
    """The cipher adds nothing to the pages here, so the same key costs the same pages on both."""
    with large.twin(Slot.A) as a, large.twin(Slot.B) as b:
        for operation in COLD:
            for key in KEYS:
                pages = [OPERATIONS[operation](twin, 200_000, key).work.blocks_read for twin in (a, b)]
                assert pages[0] == pages[1], (operation, key)


def test_the_smallest_table_has_an_answer_to_every_key(tmp_path):
    place = Place(tmp_path, rows=1000)
    session = place.built()
    for operation in (*WARM, *COLD):
        for key in (*KEYS, *range(0, 2**31, 2**26)):
            answers = {session.run(place.pair, slot, operation, key, 5.0).answer for slot in Slot}
            assert [count for count, _ in answers] == [1], (operation, key)
    place.close()
