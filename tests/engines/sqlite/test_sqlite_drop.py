"""Only twins that this exporter made are removed, both or none, and never the key."""

import shutil

import apsw
import pytest

from exporter.domain.errors import Blocked
from exporter.domain.model import Operation, Slot


def foreign_database(path):
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.close()


def notes(path):
    path.write_bytes(b"somebody's notes")


def test_no_file_of_a_pair_is_left_and_the_key_is(place):
    session = place.built()
    for slot in Slot:
        # A batch leaves a write-ahead log beside the file.
        session.run(place.pair, slot, Operation.INSERT_BATCH, 1, 5.0)
    key = place.key.read_bytes()

    session.drop(place.pair, 5.0)

    assert not list(place.directory.glob("*phonebook*"))
    assert place.key.read_bytes() == key


@pytest.mark.parametrize("make", [foreign_database, notes])
@pytest.mark.parametrize("slot", list(Slot))
def test_what_is_not_ours_stays_and_so_does_its_twin(place, make, slot):
    place.built()
    place.close()
    path = place.plain if slot is Slot.B else place.encrypted
    path.unlink()
    make(path)
    before = place.identities()

    with pytest.raises(Blocked, match=str(path)):
        place.open().drop(place.pair, 5.0)

    assert place.identities() == before


def test_an_encrypted_twin_that_nobody_can_open_stays(place):
    place.built()
    place.close()
    place.key.unlink()

    with pytest.raises(Blocked, match="cannot be seen"):
        place.open().drop(place.pair, 5.0)

    assert place.encrypted.exists()
    assert place.plain.exists()


def test_a_twin_without_its_other_is_removed(place):
    place.built()
    place.close()
    place.encrypted.unlink()

    assert place.open().drop(place.pair, 5.0) == (str(place.plain),)


def test_copies_beside_the_twins_are_not_touched(place):
    place.built()
    copy = place.directory / "copy.db"
    shutil.copy(place.plain, copy)
    place.close()

    place.open().drop(place.pair, 5.0)

    assert copy.exists()


def test_two_sessions_do_not_remove_what_the_other_writes_to(place):
    writing = place.built()
    writing.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)

    with pytest.raises(Blocked, match="another"):
        place.open().drop(place.pair, 5.0)

    assert writing.verify(place.pair, 5.0).valid
