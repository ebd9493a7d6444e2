import random
from itertools import pairwise

import pytest

from exporter.domain.errors import Unsupported
from exporter.domain.model import Operation
from exporter.engines._mysql_protocol.operations import OPERATIONS, Choices, answer, statement
from exporter.engines._mysql_protocol.twins import AREAS


@pytest.fixture
def choices():
    return Choices(100_000, 16_384, 55.0, random.Random(1))


def test_keys_choose_rows_stretches_and_areas(choices):
    for key in range(500):
        (row,) = choices.values(Operation.POINT_SELECT, key)
        first, last = choices.values(Operation.RANGE_SELECT, key)
        low, high = choices.values(Operation.INDEX_COUNT, key)
        few, fewer = choices.values(Operation.SORTED_SELECT, key)

        assert 1 <= row <= 100_000
        assert 1 <= first <= last <= 100_000
        assert last - first + 1 == 5_000
        assert 0 <= low <= high < AREAS
        assert high - low + 1 == AREAS // 10
        assert 0 <= few <= fewer < AREAS
        assert fewer - few + 1 == AREAS // 100
    assert choices.values(Operation.FULL_SCAN, 3) == ()


def test_a_small_table_gives_a_tenth_of_its_rows():
    first, last = Choices(1_000, 16_384, None, random.Random(1)).values(Operation.RANGE_SELECT, 1)

    assert last - first + 1 == 100


def test_without_verification_pages_are_taken_for_smaller_than_they_are():
    """Rather a page twice in a round than pages that are never read."""
    choices = Choices(20_000, 16_384, None, random.Random(1))
    pages = 20_000 // 55
    found = sorted(choices.values(Operation.POINT_SELECT, key)[0] for key in range(pages * 6 // 5))

    assert max(later - earlier for earlier, later in pairwise(found)) <= 55


def test_operations_write_their_index_and_answer_with_one_row():
    for operation in OPERATIONS:
        sql = statement(operation, "`s`.`t`")
        assert "`s`.`t` FORCE INDEX (" in sql
        assert "MD5" not in sql
        assert "SHA1" not in sql
    assert statement(Operation.FULL_SCAN, "`s`.`t`") != "SELECT COUNT(*) FROM `s`.`t`"


@pytest.mark.parametrize("operation", sorted(set(Operation) - OPERATIONS))
def test_other_operations_are_refused(operation):
    with pytest.raises(Unsupported):
        statement(operation, "`s`.`t`")


def test_answers_tell_rows_and_content_apart():
    point = Operation.POINT_SELECT
    assert answer(point, []) == (0, answer(point, [])[1])
    assert answer(point, [(1, 2, "a", "b")])[0] == 1
    assert answer(point, [(1, 2, "a", "b")]) != answer(point, [(1, 2, "a", "c")])
    assert answer(Operation.FULL_SCAN, [(130_000, 5, 6)])[0] == 130_000
    assert answer(Operation.FULL_SCAN, [(3, 5, 6)]) != answer(Operation.FULL_SCAN, [(3, 5, 7)])
