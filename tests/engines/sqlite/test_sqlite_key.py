"""The key: made once, before anything is encrypted; never overwritten, never shown."""

import logging
import os
import secrets
import traceback

import pytest

from exporter.domain.errors import KeystoreFailed, TargetError
from exporter.domain.model import Operation, Slot
from exporter.domain.states import KeystoreState
from exporter.engines.sqlite.key import KeyFile
from tests.engines.sqlite.conftest import killed_while_writing, scratch_rows


def state(session):
    (keystore,) = session.encryption_state(5.0).keystores
    return keystore


def test_a_key_is_made_once(tmp_path):
    file = KeyFile(tmp_path / "key")
    file.create()
    first = file.path.read_text()
    file.create()

    assert file.path.read_text() == first
    assert len(bytes.fromhex(first.strip())) == 32
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_the_keystore_is_open_and_says_since_when(place):
    keystore = state(place.built())

    assert (keystore.name, keystore.kind, keystore.state) == ("key", "file", KeystoreState.OPEN)
    assert keystore.seen_from == "files"
    assert keystore.key_activated == place.key.stat().st_mtime


def test_a_lost_key_is_said_and_nothing_is_rebuilt(place):
    place.built().close()
    before = place.identities()
    place.key.unlink()
    session = place.open()

    with pytest.raises(KeystoreFailed, match=r"key is missing"):
        place.provision(session)
    assert place.identities() == before
    assert not place.key.exists()
    assert state(session).state is KeystoreState.MISSING
    facts = session.verify(place.pair, 5.0)
    assert not facts.valid
    assert str(place.key) in facts.problem
    session.prepare(place.pair, 5.0)
    with pytest.raises(KeystoreFailed, match=str(place.key)):
        session.run(place.pair, Slot.A, Operation.POINT_SELECT, 1, 5.0)
    assert session.run(place.pair, Slot.B, Operation.POINT_SELECT, 1, 5.0).answer[0] == 1


def test_a_lost_key_is_not_replaced_to_build_another_twin(place):
    place.built().close()
    place.encrypted.rename(place.directory / "kept-for-later.db")
    place.key.unlink()

    with pytest.raises(KeystoreFailed, match="kept-for-later"):
        place.provision(place.open())
    assert not place.key.exists()


def test_the_attribution_outlives_a_lost_key(place):
    """The bytes look encrypted all the same; the runs on them then fail as what they are."""
    place.built().close()
    place.key.unlink()

    assert place.open().verify(place.pair, 5.0).a.encrypted is True


def test_a_running_session_goes_on_without_the_file_but_the_keystore_is_missing(place):
    session = place.built()
    session.prepare(place.pair, 5.0)
    place.key.unlink()

    assert session.run(place.pair, Slot.A, Operation.FULL_SCAN_COLD, 1, 5.0).work.decrypts > 0
    assert state(session).state is KeystoreState.MISSING


def test_a_wrong_key_is_said_and_nothing_is_rebuilt(place):
    place.built().close()
    before = place.identities()
    place.key.write_text(secrets.token_hex(32))
    session = place.open()

    with pytest.raises(KeystoreFailed, match="wrong key"):
        place.provision(session)
    assert place.identities() == before
    assert state(session).state is KeystoreState.NO_KEY
    session.prepare(place.pair, 5.0)
    with pytest.raises(KeystoreFailed, match="wrong key"):
        session.run(place.pair, Slot.A, Operation.POINT_SELECT, 1, 5.0)


@pytest.mark.parametrize("content", ["", "not a key", "ab" * 31, "zz" * 32, "ab" * 33])
def test_a_file_without_a_key_is_no_key(place, content):
    place.built().close()
    place.key.write_text(content)
    session = place.open()

    assert state(session).state is KeystoreState.NO_KEY
    with pytest.raises(KeystoreFailed, match="64 hexadecimal digits") as caught:
        place.provision(session)
    assert not content or content not in str(caught.value)


def test_an_unreadable_file_is_no_key(place):
    place.built().close()
    place.key.unlink()
    place.key.mkdir()

    assert state(place.open()).state is KeystoreState.NO_KEY


def test_a_key_elsewhere_is_used_and_a_shared_one_is_kept(tmp_path, place):
    elsewhere = tmp_path / "secrets" / "shared"
    place.reconfigure(key_file=elsewhere)
    session = place.built()

    assert session.verify(place.pair, 5.0).valid
    assert len(elsewhere.read_text().strip()) == 64
    assert not place.key.exists()


def test_before_anything_is_built_the_keystore_is_missing(place):
    assert state(place.open()).state is KeystoreState.MISSING


def test_the_key_is_in_no_message_and_no_log(place, caplog):
    caplog.set_level(logging.DEBUG)
    place.built().close()
    right, wrong = place.key.read_text().strip(), secrets.token_hex(32)
    place.key.write_text(wrong)
    said = []
    session = place.open()
    for call in (
        lambda: place.provision(session),
        lambda: session.run(place.pair, Slot.A, Operation.POINT_SELECT, 1, 5.0),
    ):
        with pytest.raises(TargetError) as caught:
            call()
        said += traceback.format_exception(caught.value)
    said += [
        repr(session.verify(place.pair, 5.0)),
        repr(session.encryption_state(5.0)),
        repr(KeyFile(place.key).read()),
    ]

    everything = "".join(said) + caplog.text
    assert "phonebook" in everything
    for key in (right, wrong):
        assert key not in everything


def test_a_wrong_key_leaves_an_unfinished_log_alone(place, tmp_path):
    """The twin of a killed process has a log. Closed under a wrong key, it must not be copied into the file."""
    killed = killed_while_writing(place, tmp_path / "killed")
    log = killed.encrypted.with_name(killed.encrypted.name + "-wal")
    right, logged = killed.key.read_text(), log.read_bytes()

    killed.key.write_text(secrets.token_hex(32))
    wrong = killed.open()
    with pytest.raises(KeystoreFailed):
        killed.provision(wrong)
    wrong.verify(killed.pair, 5.0)
    wrong.prepare(killed.pair, 5.0)
    wrong.encryption_state(5.0)
    wrong.close()
    assert log.read_bytes() == logged

    killed.key.write_text(right)
    assert killed.open().verify(killed.pair, 5.0).valid
    assert scratch_rows(killed, killed.encrypted) == 500
    killed.close()


def test_a_pipe_in_place_of_the_key_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "key")

    with pytest.raises(KeystoreFailed, match="is not a file"):
        KeyFile(tmp_path / "key").read()
