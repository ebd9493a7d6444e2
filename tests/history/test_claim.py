"""One daemon keeps a history, on the file that has its name now."""

import os
import subprocess
import sys

import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.errors import HistoryError
from exporter.history.store import History

DAY = 86400.0


@pytest.fixture
def kept(path):
    history = History.keep(path, DAY, FakeClock())
    yield history
    history.close()


def test_a_second_keeper_is_refused_and_told_who_the_first_is(kept, path):
    with pytest.raises(HistoryError, match=rf"process {os.getpid()}\) keeps this history.*state_directory"):
        History.keep(path, DAY, FakeClock())
    # Whoever only looks may still do so.
    History.open(path, DAY, FakeClock(), set_aside=False).close()


def test_the_claim_ends_with_the_keeper(path):
    History.keep(path, DAY, FakeClock()).close()
    History.keep(path, DAY, FakeClock()).close()


def test_the_claim_of_a_killed_keeper_is_not_stale(path):
    code = "import os, sys; from pathlib import Path; from exporter.history.claim import Claim\n"
    code += "Claim(Path(sys.argv[1])); print('mine', flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("mine\n", -9)

    History.keep(path, DAY, FakeClock()).close()


def test_a_failed_opening_leaves_no_claim(path):
    path.parent.mkdir()
    path.mkdir()
    with pytest.raises(HistoryError, match="this is a directory"):
        History.keep(path, DAY, FakeClock())
    path.rmdir()
    History.keep(path, DAY, FakeClock()).close()


def test_a_pipe_in_its_place_is_refused_in_words(path):
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(HistoryError, match="this is a pipe"):
        History.keep(path, DAY, FakeClock())


@pytest.mark.parametrize("gone", ["removed", "removed alone", "exchanged", "with its directory"])
def test_a_file_that_is_gone_is_begun_anew(kept, path, gone, make_key, make_block):
    kept.save_blocks([(make_key(), make_block(1000.0))])
    assert not kept.begin_anew_if_gone()
    for part in [path] if gone == "removed alone" else list(path.parent.iterdir()):
        part.unlink()
    if gone == "exchanged":
        path.write_bytes(b"no database at all" * 1000)
    if gone == "with its directory":
        path.parent.rmdir()

    assert kept.begin_anew_if_gone()
    kept.save_blocks([(make_key(), make_block(1000.0))])
    assert not kept.begin_anew_if_gone()
    with pytest.raises(HistoryError, match="keeps this history"):
        History.keep(path, DAY, FakeClock())
    kept.close()
    again = History.keep(path, DAY, FakeClock())
    assert len(list(again.load_blocks(0.0))) == 1
    again.close()


@pytest.mark.parametrize("cover", ["no directory", "a directory that holds no database"])
def test_a_place_that_is_covered_for_a_while(kept, path, make_key, make_block, cover):
    """As when another file system is mounted over it: what is kept goes on where it was, and is nobody else's meanwhile."""
    kept.save_blocks([(make_key(), make_block(1000.0))])
    away = path.parent.rename(path.parent.with_name("away"))
    if cover == "no directory":
        path.parent.touch()
    else:
        path.mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(HistoryError):
            kept.begin_anew_if_gone()
    if cover == "no directory":
        path.parent.unlink()
    else:
        path.rmdir()
        for left in path.parent.iterdir():
            left.unlink()
        path.parent.rmdir()
    away.rename(path.parent)

    kept.begin_anew_if_gone()
    kept.save_blocks([(make_key(), make_block(1300.0))])
    with pytest.raises(HistoryError, match="keeps this history"):
        History.keep(path, DAY, FakeClock())
    kept.close()
    again = History.keep(path, DAY, FakeClock())
    assert len(list(again.load_blocks(0.0))) == 2
    again.close()
