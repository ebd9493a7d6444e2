"""A standby's own file: it takes the next change and nothing else, and no log that is not its own."""

import apsw
import pytest

from exporter.engines.sqlite import replica
from exporter.engines.sqlite.applier import Replica
from exporter.engines.sqlite.shipping import Change, Hello
from exporter.engines.sqlite.unlocking import fingerprint, leave_log_alone, readable, unlock

CIPHER = "aes256cbc"
KEY = "raw:" + "07" * 32
OTHER = "raw:" + "08" * 32


def opened(path):
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    leave_log_alone(connection)
    unlock(connection, CIPHER, KEY)
    return connection


def held(connection):
    return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in replica.TABLES]


@pytest.fixture
def primary(tmp_path):
    path = tmp_path / "primary.db"
    replica.make(path, CIPHER, KEY, replica.Content.new())
    connection = opened(path)
    yield connection
    connection.close()


@pytest.fixture
def standby(tmp_path, primary):
    """A standby that holds what the primary holds now."""
    standby = Replica(Hello(str(tmp_path / "standby.db"), (CIPHER, "chacha20"), KEY, "nonce"))
    standby.seed(replica.Content.of(primary))
    yield standby
    standby.close()


def changes(primary, count):
    found = []
    for _ in range(count):
        session = apsw.Session(primary, "main")
        session.attach(None)
        sequence = replica.beat(primary)
        found.append(Change(sequence, session.changeset()))
        session.close()
    return found


def test_changes_in_their_order_make_it_equal(primary, standby):
    assert all(standby.apply(change) for change in changes(primary, 70))

    assert held(standby.open()) == held(primary)
    assert standby.position() == replica.position(primary)


def test_what_was_applied_before_changes_nothing(primary, standby):
    first, second = changes(primary, 2)
    for change in (first, second, first, second):
        assert standby.apply(change)

    assert held(standby.open()) == held(primary)


def test_a_gap_is_refused_and_changes_nothing(primary, standby):
    before = held(standby.open())
    _, second = changes(primary, 2)

    assert not standby.apply(second)
    assert held(standby.open()) == before


def test_rows_that_are_not_the_primarys_are_not_patched_over(primary, standby):
    standby.open().execute("UPDATE filler SET content = zeroblob(1)")
    before = held(standby.open())
    (change,) = changes(primary, 1)

    assert not standby.apply(change)
    assert held(standby.open()) == before


def test_an_empty_file_takes_no_change(tmp_path, primary):
    empty = Replica(Hello(str(tmp_path / "empty.db"), (CIPHER,), KEY, "nonce"))
    (change,) = changes(primary, 1)

    assert not empty.apply(change)
    assert empty.position() is None
    empty.close()


def test_the_log_of_a_vanished_file_is_not_taken_for_that_of_the_next_one(tmp_path):
    path = tmp_path / "standby.db"
    replica.make(path, CIPHER, KEY, replica.Content.new())
    connection = opened(path)
    for _ in range(20):
        replica.beat(connection)
    connection.close()
    log = path.with_name("standby.db-wal")
    assert log.stat().st_size > 0, "closing must leave the log alone"
    path.unlink()

    replica.make(path, CIPHER, KEY, None)
    connection = opened(path)
    assert replica.position(connection) is None
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


def test_only_the_right_key_opens_a_file_and_fingerprints_tell_keys_apart(tmp_path):
    path = tmp_path / "standby.db"
    replica.make(path, CIPHER, KEY, None)

    assert readable(path, CIPHER, KEY)
    assert not readable(path, CIPHER, OTHER)
    assert not readable(path, None, "")
    assert fingerprint(KEY, "a") == fingerprint(KEY, "a")
    assert len({fingerprint(KEY, "a"), fingerprint(OTHER, "a"), fingerprint(KEY, "b")}) == 3
    assert "07" * 8 not in fingerprint(KEY, "a")


def test_a_killed_making_is_cleared_away(tmp_path):
    left = tmp_path / ".standby.db.0123456789ab.tmp"
    left.write_bytes(b"half")
    (tmp_path / "standby.db").touch()
    assert replica.missing(tmp_path / "standby.db")
    replica.make(tmp_path / "standby.db", CIPHER, KEY, None)

    assert [path.name for path in tmp_path.iterdir()] == ["standby.db"]
