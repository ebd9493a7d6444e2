"""Twins are built whole or not at all, and what is not ours is never touched."""

import itertools
import random
import shutil
import subprocess
import sys
import threading
import time

import apsw
import pytest

from exporter.domain.errors import (
    Blocked,
    Cancelled,
    DeadlineExceeded,
    QueryFailed,
    TargetError,
    Unavailable,
    VerificationFailed,
)
from exporter.domain.model import Operation, Phase, Slot, Variant
from exporter.engines.sqlite import phonebook
from exporter.engines.sqlite.operations import WRITING
from tests.engines.sqlite.conftest import Place, asked, killed_while_writing, scratch_rows
from tests.stopwatch import Stopwatch

BUILD = """
import sys
from pathlib import Path
from exporter.engines.sqlite.engine import Engine
from exporter.engines.sqlite.settings import Pair, Target
target = Target(name="embedded", pairs=(Pair(name="phonebook", rows=int(sys.argv[2])),)).resolved(Path(sys.argv[1]))
session = Engine(target).open(5.0)
print("begin", flush=True)
session.provision(target.pairs[0], lambda what, share: None, 60.0)
print("built", flush=True)
"""


def test_twenty_kills_at_random_moments_leave_nothing_half_done(tmp_path, root):
    rng = random.Random(7)
    interrupted = 0
    for number in range(20):
        place = Place(tmp_path / str(number), rows=20_000)
        command = [sys.executable, "-c", BUILD, str(tmp_path / str(number)), "20000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as builder:
            assert builder.stdout
            assert builder.stdout.readline() == b"begin\n"
            # The moment is what is tested: from before the key to after the last rename.
            time.sleep(rng.uniform(0.0, 0.15))
            builder.kill()
            interrupted += builder.stdout.read() == b""
        key = place.key.read_bytes() if place.key.exists() else None
        complete = {path: path.stat().st_ino for path in (place.encrypted, place.plain) if path.exists()}

        session = place.built()

        assert place.temporary_files() == []
        assert session.verify(place.pair, 5.0).valid
        assert key is None or place.key.read_bytes() == key
        assert place.identities().items() >= complete.items()
        place.close()
    # Most of the kills must have hit the building, or this test shows nothing.
    assert interrupted >= 10


def test_twins_are_the_same_on_every_machine(place):
    facts = place.built().verify(place.pair, 5.0)

    assert facts.a.digest == facts.b.digest == "401914b3851fcf43"


def test_rows_have_the_promised_shape():
    for made in phonebook.rows(1, 500):
        assert len(made[1]) == 24
        assert made[1].isascii()
        assert made[1].isalpha()
        assert 1000 <= made[3] <= 9999
        assert len(made[4]) == 10


def test_the_files_are_only_for_us_and_as_promised(place):
    place.built()

    assert place.directory.stat().st_mode & 0o777 == 0o700
    for path in (place.key, place.encrypted, place.plain):
        assert path.stat().st_mode & 0o777 == 0o600
    connection = apsw.Connection(str(place.plain))
    assert connection.pragma("page_size") == 8192
    assert connection.pragma("journal_mode") == "wal"
    connection.close()


def test_progress_is_told_often_and_never_goes_back(tmp_path):
    place = Place(tmp_path, rows=50_000)
    said = []
    place.open().provision(place.pair, lambda what, share: said.append((time.monotonic(), what, share)), 60.0)
    place.close()
    shares = [share for _, _, share in said]
    gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(said)]

    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert max(gaps) < 5 * 0.1
    assert any("encrypted" in what for _, what, _ in said)
    assert any("plain" in what for _, what, _ in said)


def test_leftovers_are_cleared_and_healthy_twins_are_kept(place):
    place.built().close()
    before = place.identities()
    for name in (".phonebook.plain.db.0123.tmp", ".phonebook.plain.db.0123.tmp-wal", ".key.0123.tmp"):
        (place.directory / name).write_text("half")
    place.built()

    assert place.temporary_files() == []
    assert place.identities() == before


@pytest.mark.parametrize("missing", ["encrypted", "plain"])
def test_only_the_missing_twin_is_built(place, missing):
    place.built().close()
    before, key = place.identities(), place.key.read_bytes()
    gone = getattr(place, missing)
    gone.unlink()
    session = place.built()

    assert session.verify(place.pair, 5.0).valid
    assert place.key.read_bytes() == key
    (kept,) = {place.encrypted, place.plain} - {gone}
    assert kept.stat().st_ino == before[kept]


def test_the_log_of_an_earlier_file_is_not_applied_to_a_new_one(place, tmp_path):
    killed = killed_while_writing(place, tmp_path / "killed")
    killed.encrypted.unlink()

    assert killed.built().verify(killed.pair, 5.0).valid
    assert scratch_rows(killed, killed.encrypted) == 0
    killed.close()


@pytest.mark.parametrize(
    ("pair", "settings"),
    [({"rows": 4000}, {}), ({}, {"cipher": "chacha20"}), ({"rows": 2000}, {"cipher": "sqlcipher"})],
)
def test_our_own_twins_are_rebuilt_for_other_settings(place, pair, settings):
    place.built().close()
    key = place.key.read_bytes()
    place.reconfigure(pair, **settings)
    facts = place.built().verify(place.pair, 5.0)

    assert facts.valid
    assert facts.a.rows == place.pair.rows
    assert facts.a.algorithm == place.target.cipher
    assert place.key.read_bytes() == key


def of_an_earlier_version(place):
    """Twins as a version without the filled scratch table made them."""
    place.built().close()
    for slot in Slot:
        with place.twin(slot) as twin:
            twin.warm.execute("DROP TABLE scratch_filled")
            twin.warm.execute("VACUUM")
    return place.identities(), place.sizes()


def test_twins_of_an_earlier_version_get_the_missing_table_in_place(place):
    before, sizes = of_an_earlier_version(place)
    session = place.open()
    facts = session.verify(place.pair, 5.0)
    session.prepare(place.pair, 5.0)
    for _ in range(2):
        place.provision(session)
        assert place.identities() == before
        grown = [now - then for now, then in zip(place.sizes(), sizes, strict=True)]
        assert all(0 < growth <= 20 * 8192 for growth in grown)
    for slot in Slot:
        assert asked(place, place.path(slot), "SELECT count(*) FROM scratch_filled") == 1000
    # Nothing measured before is lost: it is the same epoch, and the same file.
    assert session.verify(place.pair, 5.0) == facts
    assert not session.prepare(place.pair, 5.0).changed
    for operation in WRITING:
        assert len({session.run(place.pair, slot, operation, 3, 5.0).answer for slot in Slot}) == 1


def test_the_missing_table_is_made_under_the_scratch_lock(place):
    of_an_earlier_version(place)
    other = place.open()
    other.run(place.pair, Slot.A, Operation.INSERT_BATCH, 1, 5.0)

    with pytest.raises(Blocked):
        place.provision(place.open())
    assert asked(place, place.plain, "SELECT count(*) FROM sqlite_schema WHERE name = 'scratch_filled'") == 0
    other.close()
    place.built()
    assert asked(place, place.plain, "SELECT count(*) FROM scratch_filled") == 1000


def test_a_missing_twin_and_a_missing_table_are_made_in_one_go(place):
    before, _ = of_an_earlier_version(place)
    place.encrypted.unlink()
    session = place.built()

    assert session.verify(place.pair, 5.0).valid
    assert place.plain.stat().st_ino == before[place.plain]
    assert asked(place, place.plain, "SELECT count(*) FROM scratch_filled") == 1000


def test_a_pair_is_certified_while_plain_and_then_encrypted(place):
    place.reconfigure({"phase": Phase.AA})
    first = place.built()
    certifying = first.verify(place.pair, 5.0)
    assert certifying.valid
    assert not place.key.exists()
    first.close()

    place.reconfigure({"phase": Phase.ENABLED})
    enabled = place.built().verify(place.pair, 5.0)
    assert enabled.valid
    assert enabled.attribution == {Variant.ENCRYPTED: Slot.A, Variant.PLAIN: Slot.B}
    assert enabled.epoch != certifying.epoch


def test_exchanged_twins_and_foreign_copies_are_left_alone(place):
    place.built().close()
    place.exchange()
    before = place.identities()
    place.built().close()
    assert place.identities() == before

    shutil.copy(place.encrypted, place.plain)  # the file named encrypted is the plain one now
    place.built()
    assert place.identities() == before


def foreign_database(path):
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE precious (id INTEGER PRIMARY KEY)")
    connection.close()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (foreign_database, VerificationFailed),
        (lambda path: path.write_bytes(random.Random(1).randbytes(50_000)), TargetError),
        (lambda path: path.write_bytes(b"SQLite format 3\x00" + bytes(50_000)), TargetError),
        (lambda path: path.touch(), QueryFailed),
        (lambda path: path.mkdir(), TargetError),
    ],
)
@pytest.mark.parametrize("name", ["encrypted", "plain"])
def test_what_is_not_ours_is_never_overwritten(place, name, make, error):
    place.built().close()
    path = getattr(place, name)
    path.unlink()
    make(path)
    before = path.read_bytes() if path.is_file() else "folder"

    with pytest.raises(error, match=path.name):
        place.provision(place.open())
    assert (path.read_bytes() if path.is_file() else "folder") == before
    assert place.temporary_files() == []


def test_a_build_that_takes_too_long_ends_in_time_and_leaves_nothing(tmp_path):
    place = Place(tmp_path, rows=5_000_000)
    session = place.open()
    watch = Stopwatch()
    with pytest.raises(DeadlineExceeded):
        session.provision(place.pair, lambda _what, _share: None, 0.2)

    assert watch.seconds < 0.2 + 5 * 0.1
    assert place.temporary_files() == []
    place.reconfigure({"rows": 1000})
    place.provision(session)
    assert session.verify(place.pair, 5.0).valid
    place.close()


def test_closing_ends_a_build_at_once_and_leaves_nothing(tmp_path):
    place = Place(tmp_path, rows=500_000)
    session, building, ended = place.open(), threading.Event(), []

    def build():
        try:
            session.provision(place.pair, lambda _what, _share: building.set(), 60.0)
        except TargetError as error:
            ended.append(type(error))

    thread = threading.Thread(target=build)
    thread.start()
    assert building.wait(20.0)
    session.close()
    thread.join(50.0)

    assert ended == [Cancelled]
    assert place.temporary_files() == []
    assert not place.plain.exists()


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    place = Place(tmp_path / "file")

    with pytest.raises(Unavailable, match="file"):
        place.provision(place.open())


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(tmp_path, root):
    place = Place(tmp_path, rows=50_000)
    # A limit on file sizes, in a process of its own, is a disk that is full after 1 MiB.
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))\n" + BUILD
    )
    ran = subprocess.run(
        [sys.executable, "-c", limited, str(tmp_path), "50000"], cwd=root, capture_output=True, text=True, check=False
    )

    assert "exporter.domain.errors.Unavailable: cannot build" in ran.stderr
    assert place.temporary_files() == []
    assert place.built().verify(place.pair, 5.0).valid
    place.close()
