"""The parts that both engines share, without a server."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.clock import FakeClock
from exporter.domain.errors import (
    ConnectFailed,
    DeadlineExceeded,
    KeystoreFailed,
    PermissionMissing,
    QueryFailed,
    TargetError,
    Unavailable,
)
from exporter.domain.states import KeystoreState
from exporter.engines._mysql_protocol.inventory import (
    Inventory,
    Pace,
    Questions,
    Restarts,
    Rows,
    Standstill,
    file_name,
    in_the_clear,
    names_condition,
    of_table,
    spoken,
    summed,
    switched,
)
from exporter.engines.mariadb import encryption as mariadb_encryption
from exporter.engines.mysql import encryption as mysql_encryption
from exporter.engines.mysql.encryption import conversion


class Answers:
    """A source whose answers are given: rows, or an error."""

    def __init__(self, *answers: Rows | TargetError) -> None:
        self.answers, self.asked, self.alive = list(answers), [], True

    asked: list[tuple[str, tuple[Any, ...], float]]

    def rows(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> Rows:
        self.asked.append((sql, args, timeout))
        answer = self.answers.pop(0)
        if isinstance(answer, TargetError):
            raise answer
        return answer


# -- asking --------------------------------------------------------------------------------------


def test_what_is_not_granted_is_unknown_and_says_which_grant():
    asked = Questions(Answers(PermissionMissing("no")), 5, "asking")
    assert asked.ask("SELECT 1", what="the number one", grant="PROCESS ON *.*") is None
    assert asked.problems == ("unknown: the number one; it takes GRANT PROCESS ON *.*",)


@pytest.mark.parametrize(
    "error", [QueryFailed("no such table (error 1146)"), QueryFailed("(error 1109)"), KeystoreFailed("x")]
)
def test_what_the_server_does_not_have_is_unknown(error):
    asked = Questions(Answers(error), 5, "asking")
    assert asked.ask("SELECT 1", what="the number one") is None
    assert asked.problems == (f"unknown: the number one; {error}",)


def test_without_a_name_nothing_is_said():
    asked = Questions(Answers(QueryFailed("x"), PermissionMissing("x")), 5, "asking")
    assert [asked.ask("SELECT 1"), asked.ask("SELECT 2")] == [None, None]
    assert asked.problems == ()


@pytest.mark.parametrize("error", [ConnectFailed("x"), DeadlineExceeded("x"), Unavailable("x")])
def test_a_server_that_cannot_be_asked_is_no_missing_grant(error):
    with pytest.raises(type(error)):
        Questions(Answers(error), 5, "asking").ask("SELECT 1", what="the number one")


def test_a_sentence_is_said_once():
    asked = Questions(Answers(QueryFailed("x"), QueryFailed("x")), 5, "asking")
    for _ in range(2):
        asked.ask("SELECT 1", what="the number one")
    assert len(asked.problems) == 1


def test_variables_that_the_server_lacks_are_left_out():
    asked = Questions(Answers([("Encrypt_Binlog", "ON")]), 5, "asking")
    assert asked.variables(["encrypt_binlog", "innodb_encrypt_log"]) == {"encrypt_binlog": "ON"}


@pytest.mark.parametrize(
    ("value", "meaning"),
    [(None, None), ("ON", True), ("on", True), ("FORCE", True), ("1", True), ("OFF", False), ("0", False), ("", False)],
)
def test_switches(value, meaning):
    assert switched(value) is meaning


class Refusing(Answers):
    """A server that has nothing of what it is asked for."""

    def rows(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> Rows:
        raise QueryFailed("no such table (error 1146)")


@pytest.mark.parametrize("engine", [mariadb_encryption, mysql_encryption])
def test_a_server_that_tells_nothing_is_unknown_and_no_error(engine):
    state = engine.EncryptionReader().read(Refusing(), 5)
    (store,) = state.keystores
    assert (store.state, store.keys_in_use, store.keys_missing) == (KeystoreState.UNKNOWN, None, None)
    assert {condition for _, condition, _ in state.objects} == {"unknown"}
    assert (state.object_bytes, state.algorithms, state.unprotected, state.conversions) == ((), (), (), ())
    assert state.conversion_stalled is None
    assert len(state.problems) >= 3
    (table,) = engine.table_encryption(Refusing(), "app", ("t",), 5).values()
    assert (table.encrypted, table.algorithm, table.identity) == (None, "", "")
    assert table.problem
    assert type(engine.keystore_failure(Refusing(), "app", "t", 5)) is KeystoreFailed


def test_a_refusal_that_costs_the_connection_is_not_swallowed():
    source = Answers(QueryFailed("x"))
    source.alive = False
    with pytest.raises(QueryFailed):
        Questions(source, 5, "asking").ask("SELECT 1", what="the number one")


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "written"), [("plain_1", "plain_1"), ("a-b", "a@002db"), ("a b#c", "a@0020b@0023c"), ("ü", "@00fc")]
)
def test_names_are_written_as_in_file_names(name, written):
    assert file_name(name) == written
    assert spoken(written) == name


@given(st.text(alphabet=st.characters(max_codepoint=127, min_codepoint=32)))
def test_a_name_of_ascii_survives(name):
    assert spoken(file_name(name)) == name


FOUND = ["t/a", "t/A", "t/ab", "t/part#P#p0", "t/part#p#p1", "t/part#P#p2#SP#s", "t/part#sql-x", "t/partial", "t/p"]


@pytest.mark.parametrize(
    ("wanted", "folded", "own"),
    [
        ("t/a", False, ["t/a"]),
        ("t/A", False, ["t/A"]),
        ("t/P", True, ["t/p"]),
        ("t/P", False, []),
        ("t/part", False, ["t/part#P#p0", "t/part#p#p1", "t/part#P#p2#SP#s"]),
        ("t/PART", True, ["t/part#P#p0", "t/part#p#p1", "t/part#P#p2#SP#s"]),
        ("t/nothing", True, []),
    ],
)
def test_tablespaces_of_a_table(wanted, folded, own):
    assert of_table(FOUND, wanted, folded) == own


def test_a_condition_escapes_what_like_would_read_as_a_pattern():
    where, values = names_condition("name", ["t/a_b%c|d"])
    assert where == "(name IN (%s) OR name LIKE %s ESCAPE '|')"
    assert values == ("t/a_b%c|d", "t/a|_b|%c||d#%")


@pytest.mark.parametrize(
    ("schema", "statement", "encrypts", "name"),
    [
        (None, "ALTER TABLESPACE ts ENCRYPTION='Y'", True, "ts"),
        (None, "alter tablespace `my ts` encryption = 'n'", False, "myts"),
        ("app", "ALTER TABLE a ENCRYPTION='Y'", True, "app/a"),
        ("app", "ALTER TABLE `o`.`b` ADD COLUMN x INT,\n ENCRYPTION 'Y'", True, "o/b"),
        ("app", 'ALTER TABLE o . b ENCRYPTION = "N"', False, "o/b"),
    ],
)
def test_statements_that_encrypt(schema, statement, encrypts, name):
    found = conversion(schema, statement)
    assert found is not None
    assert (found.encrypts, found.name, found.done) == (encrypts, name, None)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE a ADD COLUMN encryption INT",
        "ALTER SCHEMA x DEFAULT ENCRYPTION='Y'",
        "ALTER USER u IDENTIFIED BY 'encryption'",
        "SELECT 'ALTER TABLE a ENCRYPTION=''Y'''",
        "",
    ],
)
def test_statements_that_do_not_encrypt(statement):
    assert conversion("app", statement) is None


# -- pace and standstill -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "pause"), [(0.0, 0.0), (0.019, 0.0), (0.02, 20.0), (0.1, 100.0), (3.6, 3600.0), (50.0, 3600.0)]
)
def test_an_inventory_takes_a_thousandth_of_the_time(cost, pause):
    clock = FakeClock()
    pace = Pace(clock)
    assert pace.due()
    pace.took(cost)
    if pause:
        clock.advance(pause - 0.1)
        assert not pace.due()
        clock.advance(0.2)
    assert pace.due()


def test_a_counted_inventory_is_kept_with_its_problems():
    clock = FakeClock()
    inventory: Inventory[int] = Inventory(clock)
    counts = iter([7, 8, 9])

    def slow(asked: Questions, _most: float) -> int:
        clock.advance(0.1)
        asked.note("one thing is unknown")
        return next(counts)

    seen = []
    for wait in (0, 60, 60):
        clock.advance(wait)
        asked = Questions(Answers(), 5, "asking")
        seen.append(inventory.get(asked, partial(slow, asked)))
        assert asked.problems == ("one thing is unknown",)
    assert seen == [7, 7, 8]
    inventory.forget()
    assert inventory.get(asked, partial(slow, asked)) == 9


def test_a_count_that_does_not_end_in_time_rests_for_an_hour():
    clock = FakeClock()
    inventory: Inventory[int] = Inventory(clock)
    tried = []

    def endless(most: float) -> int:
        tried.append(most)
        raise DeadlineExceeded("too long")

    for _ in range(3):
        asked = Questions(Answers(), 4, "asking")
        assert inventory.get(asked, endless) is None
        assert len(asked.problems) == 1
        clock.advance(1000)
    assert len(tried) == 1
    assert tried[0] == pytest.approx(2.0, abs=0.5)
    clock.advance(1000)
    source = Answers()
    source.alive = False
    with pytest.raises(DeadlineExceeded):
        inventory.get(Questions(source, 4, "asking"), endless)


def test_work_that_does_not_move_for_an_hour_stands_still():
    clock = FakeClock()
    watch = Standstill(clock)
    assert watch.judge(True, 1) is False
    clock.advance(3599)
    assert watch.judge(True, 1) is False
    clock.advance(1)
    assert watch.judge(True, 1) is True
    assert watch.judge(True, 2) is False
    clock.advance(3600)
    assert watch.judge(True, 2) is True
    assert watch.judge(False, 2) is False
    assert watch.judge(True, 2) is False
    assert watch.judge(None, 2) is None


def test_the_wall_clock_does_not_make_a_standstill():
    clock = FakeClock()
    watch = Standstill(clock)
    watch.judge(True, 1)
    clock.step(7200)
    assert watch.judge(True, 1) is False


def test_a_smaller_uptime_is_a_restart():
    restarts = Restarts()
    assert [restarts.happened(uptime) for uptime in (100, 160, None, 160, 3, 63)] == [
        False, False, False, False, True, False,
    ]  # fmt: skip


# -- sums ----------------------------------------------------------------------------------------


def test_amounts_are_summed_by_kind_and_state():
    parts = [("temp", "plain", 1), ("undo", "plain", 0), ("temp", "plain", 2), ("temp", "encrypted", 1)]
    assert summed(parts) == (("temp", "plain", 3), ("temp", "encrypted", 1))


@pytest.mark.parametrize(
    ("states", "encrypted", "found"),
    [
        ([True, False, False], 3, ((("log"), 2),)),
        ([True, True], 3, (("log", 0),)),
        ([False, False], 0, (("log", 0),)),
        ([False, None], 3, (("log", 1),)),
        ([True, None], 3, ()),
        ([None], 0, (("log", 0),)),
        ([False], None, ()),
    ],
)
def test_what_lies_in_the_clear(states, encrypted, found):
    assert in_the_clear({"log": states}, encrypted) == found


def test_every_question_gets_what_is_left_of_the_time():
    source = Answers([], [], [])
    asked = Questions(source, 3.0, "asking")
    asked.ask("SELECT 1")
    asked.ask("SELECT 2", most=1.0)
    asked.ask("SELECT 3", most=math.inf)
    assert [timeout for _, _, timeout in source.asked] == pytest.approx([3.0, 1.0, 3.0], abs=0.5)
    with pytest.raises(DeadlineExceeded):
        Questions(source, 0.0, "asking").ask("SELECT 4")
