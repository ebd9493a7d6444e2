"""A twin that somebody exchanged for a file whose answers have no end, or no size: refused, before it fills the memory."""

from __future__ import annotations

import apsw
import pytest

from exporter.domain.errors import DeadlineExceeded, TargetError
from exporter.domain.model import Operation, Slot
from exporter.engines.sqlite import phonebook

ENDLESS = "WITH RECURSIVE endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless)"
VIEW = f"CREATE VIEW phonebook AS {ENDLESS} SELECT ? AS id, 'x' AS name, 'x' AS region, 1 AS area, '1' AS number FROM endless"
MANY = f"INSERT INTO phonebook {ENDLESS} SELECT 1, 'x', 'x', 1, '1' FROM endless LIMIT 5000"
TABLE = "CREATE TABLE phonebook (id INTEGER, name TEXT{}, region TEXT, area INTEGER, number TEXT)"
HUGE = "AS (CAST(zeroblob(500000000) AS TEXT))"


def exchange(place, *statements):
    """Another file in the place of the plain twin, by somebody who knows what we ask of it."""
    place.plain.unlink()
    for end in ("-wal", "-shm"):
        place.plain.with_name(place.plain.name + end).unlink(missing_ok=True)
    connection = apsw.Connection(str(place.plain))
    connection.execute("PRAGMA journal_mode = wal")
    # So that it passes for a plain twin.
    connection.execute("CREATE TABLE names (name)")
    connection.execute(f"INSERT INTO names {ENDLESS} SELECT '{phonebook.KNOWN_NAMES[0]}' FROM endless LIMIT 20000")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def refused(call):
    with pytest.raises(TargetError) as raised:
        call()
    assert not isinstance(raised.value, DeadlineExceeded)
    return str(raised.value)


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ([VIEW.replace("?", "1")], "no such table"),
        ([TABLE.format(""), MANY], "more rows"),
        (
            [TABLE.format(f" {HUGE}"), "INSERT INTO phonebook (id, region, area, number) VALUES (1, 'x', 1, '1')"],
            "too big",
        ),
    ],
    ids=["a view without end", "one number for all rows", "a value of half a gigabyte"],
)
def test_a_canary_on_it_fails_and_says_why(place, statements, words):
    place.built().close()
    exchange(place, *statements)
    session = place.open()

    assert words in refused(lambda: session.run(place.pair, Slot.B, Operation.POINT_SELECT, place.pair.rows, 20.0))
    session.run(place.pair, Slot.A, Operation.POINT_SELECT, 1, 20.0)


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ([f"CREATE VIEW tde_exporter AS {ENDLESS} SELECT n AS key, n AS value FROM endless"], "no such table"),
        ([f"CREATE TABLE tde_exporter (key, value {HUGE})", "INSERT INTO tde_exporter (key) VALUES (1)"], "too big"),
        (
            [
                "CREATE TABLE tde_exporter (key, value)",
                f"INSERT INTO tde_exporter {ENDLESS} SELECT n, n FROM endless LIMIT 5000",
            ],
            "not a twin",
        ),
    ],
    ids=["a view without end", "a value of half a gigabyte", "many notes"],
)
def test_who_looks_at_it_finds_that_it_is_no_twin(place, notes, words):
    place.built().close()
    exchange(place, phonebook.TABLES.split(";")[0], *notes)
    facts = place.open().verify(place.pair, 20.0)

    assert words in facts.b.problem
    assert facts.a.problem == ""
