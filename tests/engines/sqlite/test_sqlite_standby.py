"""The standbys of the embedded engine: what they hold, how far behind they are, and what they survive."""

import os
import shutil
import signal
import time
from pathlib import Path

import apsw
import pytest

from exporter.config.schema import StandbySettings
from exporter.domain.errors import Blocked, KeystoreFailed, VerificationFailed
from exporter.domain.model import Phase
from exporter.domain.states import LagKind
from exporter.engines.sqlite import replica
from exporter.engines.sqlite.files import MAGIC, Connections
from exporter.engines.sqlite.key import KeyFile
from exporter.engines.sqlite.settings import Pair, Target
from tests.processes import alive, own_appliers, until

TRANSPORT, APPLY, HEARTBEAT = LagKind
ALL_UNKNOWN = dict.fromkeys(LagKind)


class Watch:
    """A session whose heartbeats are written and standbys read while somebody waits."""

    def __init__(self, place, session=None):
        self.place = place
        self.session = session or place.built()

    def beat(self):
        self.session.heartbeat(5.0)
        return self.states[0]

    @property
    def states(self):
        return self.session.standbys(5.0)

    @property
    def lags(self):
        return dict(self.states[0].lags)

    def in_step(self):
        """Wait, heartbeat by heartbeat, until every standby has everything."""
        until(lambda: self._caught_up(), "standbys in step")
        return self

    def _caught_up(self):
        self.session.heartbeat(5.0)
        time.sleep(0.02)
        return all(set(dict(state.lags).values()) == {0.0} for state in self.states)

    def settled(self):
        """Wait without writing another heartbeat."""
        until(
            lambda: all(set(dict(state.lags).values()) == {0.0} for state in self.states), "what is written to arrive"
        )
        return self

    @property
    def applier(self):
        (pid,) = own_appliers()
        return pid


def rows(place, path, table="filler"):
    connections = Connections(KeyFile(place.key), place.target.cipher)
    connection, cipher = connections.open(path)
    assert cipher is not None
    try:
        return connection.execute(f"SELECT * FROM {table}").fetchall()
    finally:
        connections.close(connection)


@pytest.fixture
def heartbeats(place):
    return place.directory / "heartbeat.db"


@pytest.fixture
def standby(place):
    return place.directory / "standby.local.db"


@pytest.fixture
def watch(place):
    watch = Watch(place)
    yield watch
    for pid in own_appliers():
        os.kill(pid, signal.SIGCONT)


# -- in normal operation ----------------------------------------------------------------------------------


def test_nothing_is_started_before_the_first_heartbeat(watch, heartbeats):
    (state,) = watch.states

    assert own_appliers() == []
    assert not heartbeats.exists()
    assert (state.standby, state.configured) == ("local", True)
    assert (state.transport_running, state.apply_running, dict(state.lags)) == (False, False, ALL_UNKNOWN)
    assert state.key_match is None
    assert state.problem


def test_a_standby_holds_what_the_primary_holds_encrypted_with_its_key(place, watch, heartbeats, standby):
    watch.in_step()
    for _ in range(70):
        watch.session.heartbeat(5.0)
    watch.settled()
    (state,) = watch.states

    assert (state.transport_running, state.apply_running, state.key_match, state.problem) == (True, True, True, "")
    assert state.received_sequence == state.applied_sequence >= 70
    assert rows(place, standby) == rows(place, heartbeats)
    assert rows(place, standby, "heartbeat") == rows(place, heartbeats, "heartbeat")
    assert standby.stat().st_ino != heartbeats.stat().st_ino
    for path in (heartbeats, standby):
        assert path.read_bytes()[: len(MAGIC)] != MAGIC
        assert path.stat().st_mode & 0o077 == 0


def test_no_file_ever_holds_a_change_in_the_clear(place, watch, heartbeats):
    watch.in_step()
    for _ in range(40):
        watch.session.heartbeat(5.0)
    watch.settled()
    contents = [content[:64] for _, content in rows(place, heartbeats)]
    files = [path for path in place.directory.iterdir() if path.is_file() and path.suffix != ".db-shm"]

    assert len(contents) == replica.FILLER_ROWS
    assert len(files) > 4
    for path in files:
        held = path.read_bytes()
        assert not [content for content in contents if content in held], path


def test_no_secret_is_among_the_arguments_or_in_the_environment_of_a_standby(place, watch):
    watch.in_step()
    secret = place.key.read_text().strip().encode()
    folder = Path(f"/proc/{watch.applier}")

    assert secret not in (folder / "cmdline").read_bytes()
    assert secret not in (folder / "environ").read_bytes()
    assert str(place.directory).encode() not in (folder / "cmdline").read_bytes()


def test_every_standby_has_its_own_process_and_file(place):
    place.reconfigure(standbys=(StandbySettings(name="one"), StandbySettings(name="two")))
    watch = Watch(place).in_step()

    assert [state.standby for state in watch.states] == ["one", "two"]
    assert len(own_appliers()) == 2
    assert rows(place, place.directory / "standby.one.db") == rows(place, place.directory / "standby.two.db")


def test_without_standbys_there_is_no_heartbeat(place, heartbeats):
    place.reconfigure(standbys=())
    session = place.built()
    session.heartbeat(5.0)

    assert session.standbys(5.0) == ()
    assert not heartbeats.exists()


# -- behind, and back -------------------------------------------------------------------------------------


def test_a_paused_standby_falls_behind_for_as_long_as_it_is_paused_and_comes_back(watch):
    watch.in_step()
    os.kill(watch.applier, signal.SIGSTOP)
    begun = time.monotonic()
    watch.session.heartbeat(5.0)
    written = time.monotonic()
    seen = []
    while time.monotonic() - begun < 1.0:
        watch.session.heartbeat(5.0)
        before = time.monotonic()
        lags = watch.lags
        seen.append(lags[HEARTBEAT])
        for kind in (TRANSPORT, HEARTBEAT):
            assert before - written <= lags[kind] <= time.monotonic() - begun, kind
        assert lags[APPLY] == 0.0
        time.sleep(0.05)

    assert seen == sorted(seen)
    assert watch.states[0].transport_running is True
    os.kill(watch.applier, signal.SIGCONT)
    watch.settled()


def test_a_standby_that_receives_and_cannot_apply_lags_in_applying_only(place, watch, standby):
    watch.in_step()
    connections = Connections(KeyFile(place.key), place.target.cipher)
    holder, _ = connections.open(standby)
    holder.execute("BEGIN IMMEDIATE")
    try:
        watch.session.heartbeat(5.0)
        written = time.monotonic()
        until(lambda: watch.lags[TRANSPORT] == 0.0 and watch.lags[APPLY], "a lag in applying")
        before = time.monotonic()
        lags = watch.lags
        assert lags[TRANSPORT] == 0.0
        assert lags[APPLY] >= before - written
        assert lags[HEARTBEAT] >= before - written
    finally:
        holder.execute("ROLLBACK")
        connections.close(holder)
    watch.settled()


def test_heartbeats_that_are_not_written_leave_no_lag(watch):
    watch.in_step()
    os.kill(watch.applier, signal.SIGSTOP)
    time.sleep(0.3)

    assert set(watch.lags.values()) == {0.0}


# -- killed, restarted, out of step -----------------------------------------------------------------------


def test_a_killed_standby_is_unknown_not_zero_and_comes_back_where_it_was(watch):
    watch.in_step()
    sequence = watch.states[0].applied_sequence
    os.kill(watch.applier, signal.SIGKILL)
    until(lambda: watch.states[0].transport_running is False, "its end to be seen")
    (state,) = watch.states

    assert dict(state.lags) == ALL_UNKNOWN
    assert (state.apply_running, state.received_sequence, state.applied_sequence) == (False, None, None)
    assert state.key_match is None
    assert "not running" in state.problem
    assert "signal 9" in state.problem
    watch.session.heartbeat(5.0)
    assert own_appliers() == [], "it is started again after a pause, not at once"
    seen = []

    def back():
        state = watch.beat()
        seen.append(state.applied_sequence)
        return set(dict(state.lags).values()) == {0.0}

    until(back, "its return")
    first = next(applied for applied in seen if applied is not None)
    assert first >= sequence


def test_a_standby_that_dies_again_and_again_is_started_ever_more_seldom(watch):
    watch.in_step()
    (one,) = watch.session._standbys._links
    one._pause = 0.1
    pauses = []
    for _ in range(4):
        until(lambda: watch.beat() and own_appliers(), "a start")
        os.kill(watch.applier, signal.SIGKILL)
        until(lambda: "signal 9" in watch.states[0].problem, "its end")
        died = time.monotonic()
        watch.session.heartbeat(5.0)
        pauses.append(one._not_before - died)

    assert pauses == sorted(pauses)
    assert pauses[-1] > 4 * pauses[0]


def test_a_restarted_primary_resumes_with_a_standby_that_has_everything(place, watch, standby):
    watch.in_step()
    applied = watch.states[0].applied_sequence
    inode = standby.stat().st_ino
    watch.session.close()
    assert own_appliers() == []

    again = Watch(place).in_step()
    assert again.states[0].applied_sequence > applied
    assert standby.stat().st_ino == inode


def test_a_standby_that_is_behind_a_restarted_primary_is_unknown_until_it_is_seeded(place, watch):
    watch.in_step()
    os.kill(watch.applier, signal.SIGSTOP)
    for _ in range(5):
        watch.session.heartbeat(5.0)
    watch.session.close()
    again = Watch(place)
    seen = []

    def ready():
        state = again.beat()
        seen.append(dict(state.lags)[HEARTBEAT])
        return state.applied_sequence is not None and set(dict(state.lags).values()) == {0.0}

    until(ready, "the seed")
    # Nobody knows since when it has been waiting for what the earlier process wrote.
    assert seen[0] is None
    assert all(lag is None or lag < 15.0 for lag in seen)


def test_a_standby_that_does_not_read_costs_bounded_memory_and_is_seeded_later(watch, place, heartbeats, standby):
    watch.in_step()
    (one,) = watch.session._standbys._links
    one._most_kept = 20_000
    os.kill(watch.applier, signal.SIGSTOP)
    begun = time.monotonic()
    for _ in range(400):
        watch.session.heartbeat(5.0)
    behind = watch.lags[TRANSPORT]

    assert one._kept_bytes <= 20_000
    assert one._wire.pending < 2**17
    assert 0.0 < behind <= time.monotonic() - begun + 1.0
    os.kill(watch.applier, signal.SIGCONT)
    watch.settled()
    assert one._seeds == 2
    assert rows(place, standby) == rows(place, heartbeats)


def test_a_standby_whose_file_vanished_or_was_changed_is_seeded(place, watch, heartbeats, standby):
    watch.in_step()
    connections = Connections(KeyFile(place.key), place.target.cipher)
    connection, _ = connections.open(standby)
    connection.execute("UPDATE filler SET content = zeroblob(3)")
    connections.close(connection)
    watch.in_step()
    assert rows(place, standby) == rows(place, heartbeats)

    standby.unlink()
    watch.in_step()
    assert rows(place, standby) == rows(place, heartbeats)


def test_a_primary_that_was_made_anew_is_not_the_one_that_the_standby_knows(place, watch, heartbeats, standby):
    watch.in_step()
    for _ in range(20):
        watch.session.heartbeat(5.0)
    for path in place.directory.glob("heartbeat.db*"):
        path.unlink()
    state = watch.beat()

    assert dict(state.lags)[HEARTBEAT] in (None, 0.0)
    watch.in_step()
    assert rows(place, standby) == rows(place, heartbeats)


def test_a_primary_that_was_restored_from_a_copy_seeds_a_standby_that_is_ahead(place, watch, heartbeats, standby):
    watch.in_step()
    watch.session.close()
    copy = heartbeats.read_bytes()
    watch = Watch(place).in_step()
    for _ in range(20):
        watch.session.heartbeat(5.0)
    watch.settled()
    watch.session.close()
    heartbeats.write_bytes(copy)

    watch = Watch(place)
    state = watch.beat()
    assert set(dict(state.lags).values()) <= {None, 0.0}
    watch.in_step()
    assert rows(place, standby) == rows(place, heartbeats)


def test_another_cipher_makes_both_files_anew(place, watch, heartbeats, standby):
    watch.in_step()
    watch.session.close()
    place.reconfigure(cipher="chacha20")
    Watch(place).in_step()

    connections = Connections(KeyFile(place.key), "chacha20")
    for path in (heartbeats, standby):
        assert connections.readable(path, "chacha20")


# -- keys and files that are not ours ----------------------------------------------------------------------


def test_without_its_key_nothing_is_made(place, heartbeats):
    session = place.built()
    place.key.unlink()
    with pytest.raises(KeystoreFailed):
        session.heartbeat(5.0)

    assert not heartbeats.exists()
    assert not place.key.exists()
    assert own_appliers() == []


def test_before_encryption_is_enabled_there_is_no_heartbeat_and_no_complaint(place, heartbeats):
    place.reconfigure(pair={"phase": Phase.AA})
    session = place.built()
    session.heartbeat(5.0)

    assert not place.key.exists()
    assert not heartbeats.exists()
    assert session.standbys(5.0)[0].lag(HEARTBEAT) is None


def test_a_key_file_lost_while_running_stops_neither_primary_nor_standby(place, watch):
    watch.in_step()
    place.key.rename(place.key.with_name("aside"))
    watch.in_step()

    assert watch.states[0].key_match is True


def test_a_standby_with_another_key_is_not_overwritten_and_said_to_lack_the_key(place, watch, standby, tmp_path):
    other = KeyFile(tmp_path / "other-key")
    other.create()
    replica.make(standby, place.target.cipher, other.read().pragma, replica.Content.new())
    content = standby.read_bytes()
    until(lambda: watch.beat().key_match is False, "the verdict about the key")
    (state,) = watch.states

    assert (state.transport_running, state.apply_running) == (True, False)
    assert dict(state.lags) == ALL_UNKNOWN
    assert "key does not open" in state.problem
    assert standby.read_bytes() == content
    standby.unlink()
    watch.in_step()
    assert watch.states[0].key_match is True


def test_a_foreign_database_is_left_alone(place, watch, heartbeats, standby):
    for path in (heartbeats, standby):
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE theirs (id INTEGER PRIMARY KEY)")
        connection.close()
    contents = {path: path.read_bytes() for path in (heartbeats, standby)}
    with pytest.raises(VerificationFailed, match="move it away"):
        watch.session.heartbeat(5.0)
    heartbeats.unlink()
    until(lambda: watch.beat().apply_running is False and watch.states[0].transport_running, "its complaint")

    assert standby.read_bytes() == contents[standby]


def test_a_copy_of_a_twin_is_no_standby(place, watch, standby):
    shutil.copy(place.encrypted, standby)
    content = standby.read_bytes()
    until(lambda: "did not make" in watch.beat().problem, "its complaint")

    assert standby.read_bytes() == content


def test_a_second_exporter_writes_no_heartbeat(place, watch):
    watch.in_step()
    with pytest.raises(Blocked):
        place.open().heartbeat(5.0)


def test_a_standby_must_not_share_a_file_with_a_twin():
    with pytest.raises(ValueError, match="same file"):
        Target(name="t", pairs=(Pair(name="standby"),), standbys=(StandbySettings(name="plain"),))


# -- the end ------------------------------------------------------------------------------------------------


def test_closing_ends_the_standby_even_if_it_is_stopped(watch):
    watch.in_step()
    pid = watch.applier
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    watch.session.close()

    assert time.monotonic() - begun < 5 * 1.0
    assert not alive(pid)


def test_kills_at_any_moment_leave_files_that_work(place, watch, heartbeats, standby):
    watch.in_step()
    for number in range(10):
        watch.session.heartbeat(5.0)
        time.sleep(0.0005 * number)
        os.kill(watch.applier, signal.SIGKILL)
        watch.session.close()
        watch = Watch(place).in_step()

    assert rows(place, standby) == rows(place, heartbeats)
    assert place.temporary_files() == []
