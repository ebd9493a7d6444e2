"""What needs no server: markers, names, the words of statements and scripts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.errors import KeystoreFailed, PermissionMissing, QueryFailed, Unavailable, Unsupported
from exporter.domain.model import Phase, Slot
from exporter.engines._mysql_protocol.marker import HEARTBEAT_COMMENT, TwinMarker, is_heartbeat, twin_marker
from exporter.engines._mysql_protocol.settings import DEFAULT_BYTES, ROW_BYTES
from exporter.engines._mysql_protocol.twins import CHUNK_ROWS, Twins, create_heartbeat
from exporter.engines.mariadb.ddl import MariaDbDdl
from exporter.engines.mariadb.settings import Pair as MariaDbPair
from exporter.engines.mysql.ddl import MySqlDdl
from exporter.engines.mysql.settings import Pair as MySqlPair

MARIADB = Twins("canary", MariaDbPair(name="main", rows=5_000, key_id=7), MariaDbDdl())
MYSQL = Twins("canary", MySqlPair(name="main", rows=5_000), MySqlDdl())


@given(st.integers(1, 3_500_000_000), st.booleans())
def test_a_marker_is_read_as_it_was_written(rows: int, complete: bool) -> None:
    marker = TwinMarker(rows, complete)
    assert twin_marker(str(marker)) == marker
    assert twin_marker(f"{marker} the DBA says hello") == marker
    assert len(str(marker)) < 200


@pytest.mark.parametrize(
    "comment",
    [
        "",
        None,
        "customers",
        "tde-exporter",
        "tde-exporter twin",
        "tde-exporter twin v2 rows=5 complete",
        "tde-exporter twin v1 rows=5",
        "tde-exporter twin v1 rows=5 completed",
        "tde-exporter twin v1 rows=-5 complete",
        " tde-exporter twin v1 rows=5 complete",
        "not a tde-exporter twin v1 rows=5 complete",
        HEARTBEAT_COMMENT,
    ],
)
def test_other_comments_are_not_ours(comment: str | None) -> None:
    assert twin_marker(comment) is None


def test_the_heartbeat_has_its_own_marker() -> None:
    assert is_heartbeat(HEARTBEAT_COMMENT)
    assert is_heartbeat(f"{HEARTBEAT_COMMENT} do not drop")
    assert not is_heartbeat(f"{HEARTBEAT_COMMENT}0")
    assert not is_heartbeat(str(TwinMarker(5, True)))
    assert not is_heartbeat(None)


def test_tables_are_named_by_pair_and_slot() -> None:
    assert MARIADB.name(Slot.A) == "main_encrypted"
    assert MARIADB.table(Slot.B) == "`canary`.`main_plain`"


@pytest.mark.parametrize(
    ("twins", "encrypted", "plain"),
    [
        (MARIADB, "ENCRYPTED=YES ENCRYPTION_KEY_ID=7", "ENCRYPTED=NO"),
        (MYSQL, "TABLESPACE=`innodb_file_per_table` ENCRYPTION='Y'", "ENCRYPTION='N'"),
    ],
)
def test_twins_differ_in_their_encryption_only(twins: Twins, encrypted: str, plain: str) -> None:
    a, b = twins.create(Slot.A), twins.create(Slot.B)
    assert encrypted in a
    assert plain in b
    # The same statement but for the name and the encryption.
    stripped = [
        re.sub(r"TABLESPACE=\S+ |ENCRYPTED=\w+ |ENCRYPTION_KEY_ID=\d+ |ENCRYPTION='.' ", "", text) for text in (a, b)
    ]
    assert stripped[0].replace("main_encrypted", "x") == stripped[1].replace("main_plain", "x")
    assert plain in create_heartbeat("canary", twins.ddl)


def test_in_phase_aa_both_are_plain() -> None:
    aa = Twins("canary", MariaDbPair(name="main", rows=5_000, phase=Phase.AA), MariaDbDdl())
    assert "ENCRYPTED=NO" in aa.create(Slot.A)
    assert "ENCRYPTED=YES" not in aa.create(Slot.A)


def test_only_the_encrypted_twin_goes_into_a_general_tablespace() -> None:
    twins = Twins("canary", MySqlPair(name="main", rows=5_000, tablespace="vault"), MySqlDdl())
    assert "TABLESPACE=`vault` ENCRYPTION='Y'" in twins.create(Slot.A)
    assert "TABLESPACE=`innodb_file_per_table` ENCRYPTION='N'" in twins.create(Slot.B)


def test_a_pair_without_a_size_has_the_default_one() -> None:
    rows = MariaDbPair(name="main").row_count
    assert DEFAULT_BYTES * 0.97 < rows * ROW_BYTES <= DEFAULT_BYTES
    assert MariaDbPair(name="main", bytes=2 * DEFAULT_BYTES).row_count == pytest.approx(2 * rows, abs=1)


def test_a_step_of_loading_is_a_small_transaction() -> None:
    assert CHUNK_ROWS * ROW_BYTES < 4 * 2**20


WORDS = [
    (MARIADB, QueryFailed("The table 'main_plain' is full (error 1114)"), "", Unavailable, "no room left"),
    (MYSQL, QueryFailed("The table 'main_plain' is full (error 1114)"), "", Unavailable, "no room left"),
    (
        MARIADB,
        QueryFailed("x (error 1005)"),
        "InnoDB: ENCRYPTION_KEY_ID 7 not available (error 140)",
        KeystoreFailed,
        "no key 7",
    ),
    (
        MARIADB,
        QueryFailed("x (error 1005)"),
        "ENCRYPTED=NO cannot be used with innodb_encrypt_tables=FORCE",
        Unsupported,
        "FORCE",
    ),
    (
        MARIADB,
        QueryFailed("x (error 1005)"),
        "ENCRYPTED requires innodb_file_per_table",
        Unsupported,
        "file of its own",
    ),
    (MYSQL, KeystoreFailed("x (error 3185)"), "", KeystoreFailed, "keyring component"),
    (MYSQL, QueryFailed("x (error 3825)"), "", Unsupported, "tablespace"),
    (MYSQL, QueryFailed("x (error 3826)"), "", PermissionMissing, "TABLE_ENCRYPTION_ADMIN"),
]


@pytest.mark.parametrize(("twins", "error", "warnings", "kind", "words"), WORDS)
def test_why_a_twin_cannot_be_made(
    twins: Twins, error: QueryFailed, warnings: str, kind: type[Exception], words: str
) -> None:
    told = twins.explained(error, warnings)
    assert type(told) is kind
    assert words in str(told)


@pytest.mark.parametrize("twins", [MARIADB, MYSQL])
def test_other_errors_stay_what_they_are(twins: Twins) -> None:
    error = QueryFailed("something else (error 1064)")
    assert twins.explained(error, "") is error
