"""Which twin is encrypted is what the files say, whatever their names are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from exporter.domain.errors import Unavailable
from exporter.domain.model import Operation, Slot, Variant
from exporter.domain.states import KeystoreState
from exporter.engines.sqlite import phonebook
from exporter.engines.sqlite.verification import Evidence


def tamper(path, sql):
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(
    ("header", "plaintext", "opens", "encrypted"),
    [
        (False, False, False, True),
        (True, True, True, False),
        (True, False, False, None),
        (False, True, False, None),
        (False, False, True, None),
        (True, True, False, None),
        (True, False, True, None),
        (False, True, True, None),
    ],
)
def test_three_looks_must_agree(header, plaintext, opens, encrypted):
    evidence = Evidence(header, plaintext, opens)

    assert evidence.encrypted is encrypted
    assert bool(evidence.contradiction) == (encrypted is None)


@pytest.mark.parametrize("cipher", ["aes256cbc", "aes128cbc", "chacha20", "sqlcipher", "ascon128", "aegis"])
def test_no_name_is_readable_in_an_encrypted_file(place, cipher):
    place.reconfigure(cipher=cipher)
    session = place.built()
    facts = session.verify(place.pair, 5.0)
    session.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)
    session.run(place.pair, Slot.B, Operation.INSERT_BATCH, 1, 5.0)
    names = [made[1].encode() for made in phonebook.rows(1, place.pair.rows)]

    assert facts.valid
    assert facts.a.algorithm == cipher
    for path in place.directory.glob("phonebook.encrypted.db*"):
        content = path.read_bytes()
        assert not any(name in content for name in names)
    plain = place.plain.read_bytes()
    assert all(name in plain for name in names)


def test_a_large_file_is_judged_by_samples(large):
    session = large.open()
    facts = session.verify(large.pair, 5.0)

    assert (facts.a.encrypted, facts.b.encrypted) == (True, False)
    assert facts.a.rows == 200_000
    assert facts.a.rows_per_block == pytest.approx(facts.b.rows_per_block, rel=0.02)
    assert 100 < facts.a.rows_per_block < 200


def test_missing_twins_are_facts_not_errors(place):
    facts = place.open().verify(place.pair, 5.0)

    assert "is missing" in facts.a.problem
    assert "is missing" in facts.b.problem
    assert facts.attribution is None


def test_a_plain_file_in_place_of_the_encrypted_twin_is_invalid(place):
    place.built().close()
    shutil.copy(place.plain, place.encrypted)
    session = place.built()
    facts = session.verify(place.pair, 5.0)

    assert not facts.valid
    assert "neither is encrypted" in facts.problem
    assert facts.attribution is None
    assert session.encryption_state(5.0).objects == (("database", "encrypted", 0), ("database", "plain", 2))


def test_an_encrypted_file_in_place_of_the_plain_twin_is_invalid(place):
    place.built().close()
    shutil.copy(place.encrypted, place.plain)

    assert "both are encrypted" in place.open().verify(place.pair, 5.0).problem


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE phonebook SET name = upper(name) WHERE id = 64",
        "UPDATE phonebook SET number = '0000000000' WHERE id = 1234",
        "UPDATE phonebook SET area = area + 1 WHERE id = 3000",
        "UPDATE phonebook SET region = 'nowhere' WHERE id = 1",
    ],
)
def test_tampered_data_is_found_although_the_metadata_says_otherwise(place, sql):
    place.built().close()
    tamper(place.plain, sql)
    facts = place.open().verify(place.pair, 5.0)

    assert facts.problem == "the twins do not hold the same data"


def test_a_lost_row_is_found(place):
    place.built().close()
    tamper(place.plain, "DELETE FROM phonebook WHERE id = 17")

    assert "2999 rows, but 3000" in place.open().verify(place.pair, 5.0).problem


def test_a_database_that_is_not_ours_is_said(place):
    place.built().close()
    tamper(place.plain, "UPDATE tde_exporter SET value = 'other' WHERE key = 'marker'")

    assert "not a twin that this exporter made" in place.open().verify(place.pair, 5.0).problem


def test_a_damaged_page_is_a_problem_in_words(place):
    place.built().close()
    content = bytearray(place.plain.read_bytes())
    content[8192 * 5 : 8192 * 9] = b"\xff" * (8192 * 4)
    place.plain.write_bytes(content)
    facts = place.open().verify(place.pair, 5.0)

    assert str(place.plain) in facts.b.problem


def test_verifying_leaves_the_caches_of_the_measuring_connections_warm(place):
    session = place.built()
    session.prepare(place.pair, 5.0)
    for slot in Slot:
        session.run(place.pair, slot, Operation.FULL_SCAN, 0, 5.0)
    session.verify(place.pair, 5.0)

    assert [session.run(place.pair, slot, Operation.FULL_SCAN, 0, 5.0).work.blocks_read for slot in Slot] == [0, 0]


def test_verifying_keeps_the_locks_of_other_connections(place):
    """Closing a descriptor of a database file would drop every POSIX lock of this process on it."""
    session = place.built()
    session.prepare(place.pair, 5.0)
    writer = apsw.Connection(str(place.plain))
    writer.execute("BEGIN IMMEDIATE")
    inode = place.plain.stat().st_ino

    def locks():
        lines = Path("/proc/locks").read_text().splitlines()
        return sorted(line.split()[1:] for line in lines if f":{inode} " in line)

    before = locks()
    session.verify(place.pair, 5.0)
    session.prepare(place.pair, 5.0)
    session.encryption_state(5.0)
    assert before
    assert locks() == before
    writer.close()


def test_exchanged_files_are_noticed_by_a_running_session(place):
    session = place.built()
    before = session.verify(place.pair, 5.0)
    assert not session.prepare(place.pair, 5.0).changed
    place.exchange()

    prepared = session.prepare(place.pair, 5.0)
    assert prepared.changed
    assert prepared.connects == 4
    after = session.verify(place.pair, 5.0)
    assert after.attribution == {Variant.ENCRYPTED: Slot.B, Variant.PLAIN: Slot.A}
    assert after.valid
    assert after.epoch != before.epoch
    assert not session.prepare(place.pair, 5.0).changed
    decrypts = [session.run(place.pair, slot, Operation.FULL_SCAN_COLD, 0, 5.0).work.decrypts for slot in Slot]
    assert decrypts[0] == 0
    assert decrypts[1] > 0
    written = [session.run(place.pair, slot, Operation.INSERT_BATCH, 0, 5.0).work.encrypts for slot in Slot]
    assert written[0] == 0
    assert written[1] > 0
    assert session.verify(place.pair, 5.0).valid


def test_a_change_is_said_until_it_is_verified(place):
    session = place.built()
    session.verify(place.pair, 5.0)
    session.prepare(place.pair, 5.0)
    place.exchange()

    assert session.prepare(place.pair, 5.0).changed
    assert session.prepare(place.pair, 5.0).changed
    session.verify(place.pair, 5.0)
    assert not session.prepare(place.pair, 5.0).changed


def test_a_plain_copy_written_into_the_encrypted_file_is_noticed(place):
    """The file keeps its inode, only its content is another."""
    session = place.built()
    session.verify(place.pair, 5.0)
    session.prepare(place.pair, 5.0)
    place.encrypted.write_bytes(place.plain.read_bytes())

    assert session.prepare(place.pair, 5.0).changed
    assert "neither is encrypted" in session.verify(place.pair, 5.0).problem


def test_a_vanished_file_is_noticed_and_its_runs_fail_while_the_other_twin_works(place):
    session = place.built()
    session.verify(place.pair, 5.0)
    session.prepare(place.pair, 5.0)
    place.encrypted.unlink()

    assert session.prepare(place.pair, 5.0).changed
    with pytest.raises(Exception, match="is missing"):
        session.run(place.pair, Slot.A, Operation.POINT_SELECT, 0, 5.0)
    assert session.run(place.pair, Slot.B, Operation.POINT_SELECT, 0, 5.0).answer[0] == 1
    place.provision(session)
    assert session.prepare(place.pair, 5.0).changed
    assert session.verify(place.pair, 5.0).valid
    assert session.run(place.pair, Slot.A, Operation.POINT_SELECT, 0, 5.0).answer[0] == 1


def test_nothing_is_written_to_a_file_that_was_exchanged_in_between(place):
    session = place.built()
    session.prepare(place.pair, 5.0)
    place.exchange()

    with pytest.raises(Exception, match="exchanged or removed"):
        session.run(place.pair, Slot.A, Operation.INSERT_BATCH, 0, 5.0)
    session.prepare(place.pair, 5.0)
    assert session.verify(place.pair, 5.0).valid


@pytest.mark.parametrize("kind", ["pipe", "directory", "dangling link"])
@pytest.mark.parametrize("opened", [False, True])
def test_what_is_no_file_is_said_of_its_twin_and_hangs_nobody(place, kind, opened):
    """A pipe, opened, waits for its other end, and holds up everything in the process with it."""
    session = place.built()
    if opened:
        session.prepare(place.pair, 5.0)
    place.plain.unlink()
    {
        "pipe": lambda: os.mkfifo(place.plain),
        "directory": place.plain.mkdir,
        "dangling link": lambda: place.plain.symlink_to(place.directory / "nothing"),
    }[kind]()
    facts = session.verify(place.pair, 5.0)

    assert not facts.valid
    assert facts.a.problem == ""
    assert str(place.plain) in facts.b.problem
    session.prepare(place.pair, 5.0)
    with pytest.raises(Unavailable):
        session.run(place.pair, Slot.B, Operation.POINT_SELECT, 1, 5.0)
    assert session.run(place.pair, Slot.A, Operation.POINT_SELECT, 1, 5.0).answer
    assert session.encryption_state(5.0).keystores[0].state is KeystoreState.OPEN


def test_twins_may_be_links_to_another_disk(place, tmp_path):
    place.built().close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for twin in (place.encrypted, place.plain):
        twin.rename(elsewhere / twin.name)
        twin.symlink_to(elsewhere / twin.name)

    session = place.built()
    assert session.verify(place.pair, 5.0).valid
    session.prepare(place.pair, 5.0)
    assert session.run(place.pair, Slot.A, Operation.FULL_SCAN_COLD, 1, 5.0).work.decrypts > 0
    assert session.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0).answer[0] == 500
    assert place.encrypted.is_symlink()


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from exporter.engines.sqlite.engine import Engine
from exporter.engines.sqlite.settings import Pair, Target
target = Target(name="embedded", pairs=(Pair(name="phonebook", rows=3000),)).resolved(Path(sys.argv[1]))
session = Engine(target).open(5.0)
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
print(session.verify(target.pairs[0], 5.0).problem)
"""


def test_a_directory_that_may_not_be_read_is_said_of_the_pair(place, root):
    place.built().close()
    state = place.directory.parent.parent
    place.directory.chmod(0)
    try:
        command = [sys.executable, "-c", UNPRIVILEGED, str(state)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=root)
    finally:
        place.directory.chmod(0o700)

    assert f"{place.encrypted}: Permission denied" in done.stdout
