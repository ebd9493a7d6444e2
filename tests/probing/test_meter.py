"""Bytes are blocks times their size, as far as they are known."""

import pytest

from exporter.domain.model import TargetFacts, Work
from exporter.probing.meter import Meter


def meter(**facts):
    made = Meter()
    made.connected(TargetFacts("fake", "1", **{"decrypt_unit": "block", "block_bytes": 4096, **facts}))
    return made


def test_reads_of_both_twins_count_and_writes_are_those_of_the_encrypted_one_twice():
    made = meter()
    made.add(Work(blocks_read=10, encrypts=3), encrypted=True)
    made.add(Work(blocks_read=9, encrypts=0), encrypted=False)

    assert made.take() == (19 * 4096, 2 * 3 * 4096)
    assert made.take() == (None, None)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [({"block_bytes": None}, (None, None)), ({"decrypt_unit": "value"}, (40960, None)), ({}, (40960, 24576))],
)
def test_what_the_engine_cannot_tell_is_unknown_and_not_zero(facts, expected):
    made = meter(**facts)
    made.add(Work(blocks_read=10, encrypts=3), encrypted=True)

    assert made.take() == expected


def test_one_query_of_unknown_work_takes_nothing_away_from_the_others():
    made = meter()
    made.add(Work(), encrypted=True)
    assert made.take() == (None, None)
    made.add(Work(blocks_read=1, encrypts=0), encrypted=True)
    made.add(Work(), encrypted=True)
    assert made.take() == (4096, 0)


def test_twins_that_are_both_plain_write_nobody_knows_what():
    made = meter()
    made.add(Work(blocks_read=1, encrypts=0), encrypted=False)

    assert made.take() == (4096, None)
