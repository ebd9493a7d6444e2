"""Twins in Oracle: made by whoever may, in steps that a kill may end, never over what is not ours."""

from __future__ import annotations

import random
import re

import pytest

from exporter.domain.errors import Blocked, ConnectFailed, KeystoreFailed, PermissionMissing, Unavailable
from exporter.domain.model import Operation, Slot
from exporter.engines import registry
from exporter.engines.oracle.operations import Choices
from exporter.engines.oracle.script import grants
from tests.command_line import CommandLine
from tests.engines.oracle.standin_targets import COLUMN, MAIN, opened, quiet, target_of
from tests.oracle_standin.faults import Cut, Fail
from tests.oracle_standin.storage import EncryptedColumn, Table, Tablespace


def provision(target, pair=0):
    with opened(target) as session:
        return session.provision(target.pairs[pair], quiet, 30.0)


def verified(target, pair=0):
    with opened(target) as session:
        return session.verify(target.pairs[pair], 10.0)


def blocked(target, kind=Blocked):
    with pytest.raises(kind) as raised:
        provision(target)
    assert type(raised.value) is kind
    return str(raised.value)


def made(server):
    return [table.name for table in server.database.tables]


# -- making ----------------------------------------------------------------------------------------


def test_making_names_the_privileges_that_it_used_and_fills_both_twins_alike(server, target):
    done = provision(target)

    assert done.made == ("TDE.MAIN_ENCRYPTED", "TDE.MAIN_PLAIN")
    assert {"CREATE ANY TABLE", "COMMENT ANY TABLE", "INSERT ANY TABLE"} <= set(done.grants)
    first, second = server.database.tables
    assert (first.rows, first.lobs) == (second.rows, second.lobs) == (3000, dict.fromkeys(range(1, 17), 2**20))
    assert (first.tablespace, second.tablespace) == ("CANARY_ENCRYPTED", "CANARY_PLAIN")


def test_a_run_that_was_killed_before_it_could_mark_a_table_is_completed_or_dropped(server, target):
    for remedy in ("provision", "drop"):
        server.faults.on("COMMENT ON", Cut(), times=1)
        with pytest.raises(ConnectFailed):
            provision(target)
        (half,) = server.database.tables
        half.comment = None
        if remedy == "drop":
            with opened(target) as session:
                assert session.drop(target.pairs[0], 10.0) == ("TDE.MAIN_ENCRYPTED",)
            return
        half.fill(1)
        assert "did not make" in blocked(target)
        half.fill(0)
        provision(target)
        assert verified(target).valid
        with opened(target) as session:
            session.drop(target.pairs[0], 10.0)


@pytest.mark.parametrize("at", ["INSERT INTO", "DBMS_LOB.WRITEAPPEND", "DBMS_STATS", "COMMIT"])
def test_what_a_killed_run_left_is_completed(server, target, at):
    server.faults.on(at, Cut(), times=1)
    with pytest.raises(ConnectFailed):
        provision(target)
    half = verified(target)
    server.faults.heal()

    assert any(words in half.problem for words in ("half-built", "missing"))
    provision(target)
    assert verified(target).valid
    assert [table.rows for table in server.database.tables] == [3000, 3000]


def test_an_account_without_privileges_is_told_which_and_changes_nothing(server, target, tmp_path):
    server.database.users["MON"].grants = {"V_$DATABASE", "DBA_TABLESPACES", "V_$ENCRYPTED_TABLESPACES"}
    words = blocked(target, PermissionMissing)

    assert "CREATE ANY TABLE" in words
    assert "provision --print" in words
    assert made(server) == []


def test_twins_are_made_by_a_login_that_was_named_for_it_only(server, tmp_path):
    target = target_of(server, tmp_path, reader=None)

    assert "--user" in blocked(target)
    assert made(server) == []


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda database: database.become("PHYSICAL STANDBY", "READ ONLY"), Unavailable, "primary"),
        (lambda database: database.users.pop("TDE"), Blocked, "no schema TDE"),
        (lambda database: database.tablespaces.pop(), Blocked, "no tablespace CANARY_PLAIN"),
        (
            lambda database: database.tablespaces.__setitem__(1, Tablespace("CANARY_ENCRYPTED", 6, 3)),
            Blocked,
            "CANARY_ENCRYPTED is plain, and must be encrypted",
        ),
        (
            lambda database: database.tablespaces.__setitem__(2, Tablespace("CANARY_PLAIN", 7, 3, algorithm="AES128")),
            Blocked,
            "CANARY_PLAIN is encrypted, and must be plain",
        ),
        (
            lambda database: database.tables.append(Table("TDE", "MAIN_PLAIN", "CANARY_PLAIN")),
            Blocked,
            "did not make",
        ),
    ],
    ids=["standby", "no schema", "no tablespace", "not encrypted", "encrypted", "foreign table"],
)
def test_where_twins_cannot_be_it_is_said_and_nothing_is_made(server, target, change, kind, words):
    change(server.database)
    before = made(server)

    assert words in blocked(target, kind)
    assert made(server) == before


def test_the_first_encrypted_column_of_a_database_is_for_its_owner_to_make(server, tmp_path):
    target = target_of(server, tmp_path, pairs=(COLUMN,))
    server.database.tablespaces[1].algorithm, server.database.tablespaces[1].encrypted = None, False

    words = blocked(target)
    assert "Advanced Security" in words
    assert made(server) == []

    other = Table("APP", "SECRETS", "CANARY_PLAIN")
    server.database.tables.append(other)
    server.database.encrypted_columns.append(EncryptedColumn("APP", "SECRETS", "PAN"))
    provision(target)
    assert verified(target).valid


def test_two_exporters_that_fill_the_same_twins_do_not_mix(server, target):
    server.faults.on("LOCK TABLE", Fail(54), times=1)

    assert "another exporter" in blocked(target)
    provision(target)
    assert verified(target).valid


def test_twins_of_another_size_are_left_alone(server, target, tmp_path):
    provision(target)
    larger = target_of(server, tmp_path, pairs=({**MAIN, "rows": 5000},))

    assert "has 3000 rows, but 5000 are configured" in blocked(larger)
    assert "has 3000 rows, but 5000 are configured" in verified(larger).problem


def test_the_account_that_measures_may_read_what_another_one_made(server, tmp_path):
    server.database.users["APP"] = type(server.database.users["MON"])("secret", grants={"DBA_TABLESPACES"})
    provision(target_of(server, tmp_path, reader="app"))

    assert verified(target_of(server, tmp_path, user="app")).valid


# -- removing --------------------------------------------------------------------------------------


def test_a_foreign_table_is_not_dropped_nor_is_its_twin(server, target):
    provision(target)
    server.database.tables[1].comment = "somebody else's"
    with opened(target) as session, pytest.raises(Blocked, match="none that this exporter made"):
        session.drop(target.pairs[0], 10.0)

    assert made(server) == ["MAIN_ENCRYPTED", "MAIN_PLAIN"]


# -- verifying -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda twin: twin.fill(2999), "has 2999 rows"),
        (lambda twin: setattr(twin, "seed", 2), "do not hold the same data"),
        (lambda twin: twin.lobs.clear(), "do not hold the same data"),
        (lambda twin: setattr(twin, "comment", "tde-exporter twin v1 building"), "half-built"),
        (lambda twin: setattr(twin, "comment", None), "none that this exporter made"),
        (lambda twin: setattr(twin, "cache", "YES"), "are cached"),
        (lambda twin: setattr(twin, "tablespace", "CANARY_PLAIN"), "neither is encrypted"),
    ],
)
def test_twins_that_differ_are_no_pair(server, target, change, words):
    provision(target)
    change(server.database.tables[0])
    facts = verified(target)

    assert not facts.valid
    assert words in facts.problem


def test_a_comment_with_words_behind_it_is_still_ours(server, target):
    provision(target)
    server.database.tables[0].comment += " (ask the DBA team)"

    assert verified(target).valid


def test_a_table_that_was_moved_is_another_epoch(server, target):
    provision(target)
    before = verified(target)
    server.database.tables[0].object_id += 1
    after = verified(target)

    assert after.valid
    assert after.epoch != before.epoch
    assert verified(target).epoch == after.epoch


def test_twins_before_encryption_are_both_plain(server, tmp_path):
    target = target_of(server, tmp_path, pairs=({**MAIN, "phase": "aa"},))
    provision(target)
    facts = verified(target)

    assert facts.valid
    assert [twin.encrypted for twin in (facts.a, facts.b)] == [False, False]


def test_a_column_twin_is_encrypted_by_its_column_in_the_same_tablespace(server, tmp_path):
    target = target_of(server, tmp_path, pairs=(COLUMN,))
    provision(target)
    facts = verified(target)

    assert facts.valid
    assert (facts.a.encrypted, facts.b.encrypted) == (True, False)
    assert facts.a.algorithm == "AES 256 bits key"
    assert {table.tablespace for table in server.database.tables} == {"CANARY_PLAIN"}
    server.database.tablespaces[2].algorithm, server.database.tablespaces[2].encrypted = "AES256", True
    assert "both are encrypted" in verified(target).problem


def test_a_key_that_is_missing_is_told_and_the_state_all_the_same(server, target):
    provision(target)
    server.database.keys[1].missing = True
    server.database.tables[0].age_out()
    with opened(target) as session:
        session.prepare(target.pairs[0], 5.0)
        with pytest.raises(KeystoreFailed, match="not in the keystore"):
            session.run(target.pairs[0], Slot.A, Operation.LOB_READ, 1, 5.0)
    facts = verified(target)
    assert (facts.a.encrypted, facts.b.encrypted) == (True, False)


# -- choosing rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1000, 3000, 5001, 123_457])
def test_keys_choose_rows_that_are_there_and_all_blocks_take_turns(rows):
    choices = Choices(rows, 8192, 25.0, random.Random(3))
    blocks = set()
    for key in range(-(-rows // 25)):
        (row,) = choices.values(Operation.POINT_SELECT, key)
        assert 1 <= row <= rows
        assert choices.values(Operation.POINT_SELECT, key) == (row,)
        blocks.add((row - 1) // 25)
        low, high = choices.values(Operation.RANGE_SELECT, key)
        assert 1 <= low <= high <= rows
        assert high - low + 1 == choices.read_values(Operation.RANGE_SELECT)
        assert 1 <= choices.values(Operation.LOB_READ, key)[0] <= 16
    assert len(blocks) == -(-rows // 25)


# -- for a DBA -------------------------------------------------------------------------------------


def test_the_script_is_what_provisioning_does(server, tmp_path):
    target = target_of(server, tmp_path, pairs=(MAIN, COLUMN))
    text = "\n".join(registry.make(target).script())
    with opened(target) as session:
        for pair in target.pairs:
            session.provision(pair, quiet, 30.0)
    sent = {each.sql for each in server.executed}
    ddl = [sql for sql in sent if re.match("CREATE TABLE|COMMENT ON", sql)]

    assert len(ddl) == 12
    assert all(f"{sql};" in text for sql in ddl)
    assert text.index("LICENCE") < text.index("CREATE TABLE")
    assert ":1" not in text
    assert text.count("COMMIT;") == 8
    assert "secret" not in text
    assert 'GRANT READ ON "TDE"."MAIN_PLAIN" TO "MON";' in text


def test_the_grants_of_the_script_are_enough_and_none_is_too_many(server, target, tmp_path):
    wanted = {grant for grants_of_one in grants().values() for grant in grants_of_one}
    assert not [grant for grant in wanted if " ANY " in grant or "DBA_HIST" in grant or "WITH" in grant]
    readable = {grant.rpartition(".")[2] for grant in wanted if grant.startswith("READ ON")}
    provision(target)
    server.database.users["APP"] = type(server.database.users["MON"])(
        "secret", grants=readable | {"TDE.MAIN_ENCRYPTED", "TDE.MAIN_PLAIN"}
    )
    with opened(target_of(server, tmp_path, user="app")) as session:
        pair = target.pairs[0]
        assert session.verify(pair, 5.0).valid
        session.prepare(pair, 5.0)
        for operation in registry.engine_type("oracle").operations:
            assert None not in session.run(pair, Slot.A, operation, 1, 5.0).work.values()
        assert session.activity(5.0).problems == ()
        assert session.encryption_state(5.0).problems == ()
        assert session.facts().open_mode == "read_write"


def test_on_the_command_line_a_dba_is_named_to_make_twins(server, tmp_path):
    target = target_of(server, tmp_path, user="app", reader=None)
    server.database.users["APP"] = type(server.database.users["MON"])(
        "secret", grants={"DBA_TABLESPACES", "V_$ENCRYPTED_TABLESPACES", "V_$TABLESPACE"}
    )
    (tmp_path / "dba.secret").write_text("secret")
    tde = CommandLine(tmp_path)
    path = tde.config(
        {
            "targets": [
                {
                    "name": "db",
                    "engine": "oracle",
                    "host": server.host,
                    "port": server.port,
                    "service": "pdb1",
                    "user": "app",
                    "password": {"file": "app.secret"},
                    "schema": "tde",
                    "pairs": [MAIN],
                }
            ]
        }
    )

    refused = tde("-c", path, "provision")
    assert refused.returncode == 1
    assert "--user" in refused.stderr
    assert made(server) == []
    done = tde("-c", path, "provision", "--user", "mon", "--password-file", str(tmp_path / "dba.secret"))
    assert done.returncode == 0, done.stderr
    assert "made TDE.MAIN_ENCRYPTED" in done.stdout
    assert "used the right CREATE ANY TABLE" in done.stdout
    # By the account that measures: it was granted what it needs on them.
    assert verified(target).valid
