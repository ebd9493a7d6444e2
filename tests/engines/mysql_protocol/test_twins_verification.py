"""What verification sees, and what it says of it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from exporter.domain.errors import Blocked, ConnectFailed, DeadlineExceeded, KeystoreFailed, Unsupported
from exporter.domain.model import Slot, Variant
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.inventory import TableEncryption
from exporter.engines._mysql_protocol.removal import drop
from exporter.engines._mysql_protocol.twins import Twins
from exporter.engines._mysql_protocol.verification import verify_pair
from tests.engines.mysql_protocol.twins_at_hand import (
    SCHEMA,
    asked,
    flushed,
    make,
    session,
    twins_on,
    verify,
)
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer
from tests.servers.server import Server


@pytest.fixture
def twins(database: Server, control: Connection) -> Twins:
    """Healthy twins."""
    twins = twins_on(database)
    make(control, twins)
    return twins


def test_healthy_twins(database: Server, control: Connection, twins: Twins) -> None:
    facts = verify(control, twins)
    assert facts.valid, facts.problem
    assert facts.attribution == {Variant.ENCRYPTED: Slot.A, Variant.PLAIN: Slot.B}
    assert facts.a.rows == 2_000
    # Of so few pages the server does not tell how many are empty.
    assert facts.a.rows_per_block is None
    assert facts.a.name == "tde_canary.main_encrypted"
    # Other places are looked at each time, and nothing else changes.
    again = verify(control, twins)
    assert again.valid
    assert again.a.digest != facts.a.digest
    assert again.epoch == facts.epoch


def test_decrypting_the_encrypted_twin_is_noticed(database: Server, control: Connection, twins: Twins) -> None:
    before = verify(control, twins)
    database.query(f"ALTER TABLE {twins.table(Slot.A)} {twins.ddl.plain()}")
    flushed(database, "main_encrypted")
    facts = verify(control, twins)
    assert not facts.valid
    assert facts.problem == "one twin must be encrypted and the other plain, but neither is encrypted"
    assert facts.epoch != before.epoch
    database.query(twins.conversion(Slot.A))
    assert verify(control, twins).valid


def test_attribution_follows_the_tables(database: Server, control: Connection, twins: Twins) -> None:
    before = verify(control, twins)
    database.query(f"ALTER TABLE {twins.table(Slot.A)} {twins.ddl.plain()}")
    database.query(f"ALTER TABLE {twins.table(Slot.B)} {twins.ddl.encrypted(twins.pair)}")
    facts = verify(control, twins)
    assert facts.valid, facts.problem
    assert facts.attribution == {Variant.ENCRYPTED: Slot.B, Variant.PLAIN: Slot.A}
    assert facts.epoch != before.epoch


def test_a_rebuilt_table_is_another_epoch(database: Server, control: Connection, twins: Twins) -> None:
    before = verify(control, twins)
    database.query(f"ALTER TABLE {twins.table(Slot.B)} FORCE")
    after = verify(control, twins)
    assert after.valid
    assert after.epoch != before.epoch


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE {b} SET pad = CONCAT('x', SUBSTR(pad, 2))", "do not hold the same data"),
        ("DELETE FROM {b} WHERE id % 50 = 7", "rows of the table tde_canary.main_plain are missing"),
        ("DELETE FROM {b} WHERE id = 1", "rows of the table tde_canary.main_plain are missing"),
        ("DELETE FROM {b} WHERE id = 2000", "has 1999 rows, but 2000 are configured"),
        ("INSERT INTO {b} VALUES (2001, 1, 'x', 'y')", "has 2001 rows, but 2000 are configured"),
        ("TRUNCATE {b}", "rows of the table tde_canary.main_plain are missing"),
        ("DROP TABLE {b}", "main_plain is missing; `tde-exporter provision` makes it"),
        ("ALTER TABLE {b} COMMENT 'mine now'", "is none that this exporter made"),
        ("ALTER TABLE {b} DROP COLUMN pad", "main_plain: Unknown column"),
    ],
)
def test_damage_is_said(database: Server, control: Connection, twins: Twins, damage: str, words: str) -> None:
    database.query(damage.format(b=twins.table(Slot.B)))
    facts = verify(control, twins)
    assert not facts.valid
    assert words in facts.problem
    assert facts.a.problem == ""


def test_a_missing_grant_is_named(database: Server, control: Connection, twins: Twins) -> None:
    password = database.create_user("looker", grants=["PROCESS ON *.*"])
    looker = session(database, "looker", password)
    facts = verify(looker, twins)
    words = (
        "the table tde_canary.main_encrypted cannot be read; GRANT SELECT ON `tde_canary`.* to the exporter's account"
    )
    assert facts.problem == words
    assert "main_plain" in facts.b.problem
    database.query(f"GRANT SELECT ON {SCHEMA}.* TO looker")
    assert verify(looker, twins).valid
    looker.close()


def test_without_process_the_table_options_tell(database: Server, twins: Twins) -> None:
    password = database.create_user("looker", grants=[f"SELECT ON {SCHEMA}.*"])
    looker = session(database, "looker", password)
    facts = verify(looker, twins)
    assert facts.attribution == {Variant.ENCRYPTED: Slot.A, Variant.PLAIN: Slot.B}
    assert facts.valid, facts.problem
    looker.close()


def test_unknown_encryption_says_why(control: Connection, twins: Twins) -> None:
    def silent(
        connection: Connection, schema: str, tables: tuple[str, ...], timeout: float
    ) -> dict[str, TableEncryption]:
        return {table: TableEncryption(None, problem="GRANT PROCESS ON *.*") for table in tables}

    facts = verify_pair(control, twins, silent, 30)
    assert facts.attribution is None
    assert facts.a.encrypted is None
    assert facts.problem == "whether the table tde_canary.main_encrypted is encrypted is unknown: GRANT PROCESS ON *.*"
    assert facts.a.digest == facts.b.digest is not None


def test_bytes_on_disk_contradict_the_view(database: Server, control: Connection, twins: Twins) -> None:
    flushed(database, "main_encrypted", "main_plain")

    def lying(
        connection: Connection, schema: str, tables: tuple[str, ...], timeout: float
    ) -> dict[str, TableEncryption]:
        told = asked(connection, schema, tables, timeout)
        return {table: TableEncryption(not word.encrypted, identity=word.identity) for table, word in told.items()}

    facts = verify_pair(control, twins, lying, 30)
    assert facts.a.encrypted is None
    assert facts.b.encrypted is None
    assert facts.attribution is None
    assert "says that it is plain, but its pages on disk are encrypted" in facts.a.problem
    assert "of its pages on disk are readable" in facts.b.problem
    assert not facts.valid


def test_what_is_wrong_with_the_server_is_raised(database: Server, control: Connection, twins: Twins) -> None:
    with pytest.raises(DeadlineExceeded):
        verify(control, twins, timeout=-1.0)
    database.query(f"KILL {control.id}")
    with pytest.raises(ConnectFailed):
        verify(control, twins)


def test_it_reads_few_rows(control: Connection, database: Server) -> None:
    twins = twins_on(database, rows=30_000)
    make(control, twins)

    def reads() -> int:
        rows = control.rows("SHOW SESSION STATUS LIKE 'Handler_read%'", timeout=5)
        return sum(int(value) for _, value in rows)

    before = reads()
    facts = verify_pair(control, twins, asked, 30, random.Random(1))
    assert facts.valid, facts.problem
    assert reads() - before < 3_000
    assert facts.a.rows_per_block == facts.b.rows_per_block
    assert facts.a.rows_per_block is not None
    assert 50 < facts.a.rows_per_block < 66


@pytest.fixture
def keyed(request: pytest.FixtureRequest) -> Server:
    kind: str = request.param
    start: Callable[..., Server] = request.getfixturevalue(f"make_{kind}")
    return start()


@pytest.mark.parametrize("keyed", ["mariadb", "mysql"], indirect=True)
def test_a_lost_key(keyed: Server) -> None:
    connection, twins = session(keyed), twins_on(keyed)
    make(connection, twins)
    healthy = verify(connection, twins)
    assert healthy.valid, healthy.problem
    connection.close()
    for lose in (keyed.wrong_key, keyed.remove_key):
        lose()
        keyed.restart()
        connection = session(keyed)
        facts = verify(connection, twins)
        assert not facts.valid
        # The attribution stays, so that runs fail as what they are.
        assert facts.attribution == healthy.attribution
        assert "key" in facts.a.problem
        assert "drop" not in facts.problem.lower()
        assert facts.b.problem == ""
        assert facts.b.rows == 2_000
        if isinstance(keyed, MariaDbServer):
            # The comment cannot be read either, so it might be anybody's.
            with pytest.raises(KeystoreFailed, match="left as it is"):
                make(connection, twins)
            with pytest.raises(Blocked, match="left as it is"):
                drop(connection, twins, 10)
            assert len(keyed.query(f"SHOW TABLES IN {SCHEMA}")) == 3
        connection.close()
    keyed.restore_key()
    keyed.restart()
    connection = session(keyed)
    facts = verify(connection, twins)
    assert facts.valid, facts.problem
    assert facts.epoch == healthy.epoch
    assert len(drop(connection, twins, 10)) == 3
    connection.close()


def test_a_server_without_a_keyring(make_mysql: Callable[..., MySqlServer]) -> None:
    server = make_mysql(component=False)
    connection, twins = session(server), twins_on(server)
    with pytest.raises(KeystoreFailed, match="configure a keyring component"):
        make(connection, twins)
    connection.close()


def test_a_general_tablespace(mysql: MySqlServer) -> None:
    connection, twins = session(mysql), twins_on(mysql, tablespace="vault", name="vaulted")
    try:
        with pytest.raises(Unsupported, match="'vault' cannot hold the encrypted twin"):
            make(connection, twins)
        mysql.query("CREATE TABLESPACE vault ADD DATAFILE 'vault.ibd' ENCRYPTION='Y'")
        make(connection, twins)
        facts = verify(connection, twins)
        assert facts.valid, facts.problem
        assert facts.attribution == {Variant.ENCRYPTED: Slot.A, Variant.PLAIN: Slot.B}
    finally:
        mysql.query(f"DROP DATABASE IF EXISTS {SCHEMA}")
        mysql.query("DROP TABLESPACE vault")
        connection.close()
