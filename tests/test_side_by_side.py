"""tools/side_by_side.py, by which ./check runs the tests beside those of the image."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import alive, until

HEADING = " The image ".center(80, "=")

WAITER = """
import os, pathlib, signal, sys
endings = {signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, endings)
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
print(sys.argv[1], "puts away after", signal.Signals(signal.sigwait(endings)).name)
"""
"""Writes its number to the file that it is named for, and waits to be told to end."""


def command(root: Path, others: list[str], tests: list[str]) -> list[str]:
    return [sys.executable, str(root / "tools" / "side_by_side.py"), "The tests", *tests, "--", "The image", *others]


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


def test_what_the_others_say_is_not_mixed_up_with_the_tests(root: Path, tmp_path: Path) -> None:
    """They speak first and last, and all of it comes after the tests."""
    done = tmp_path / "done"
    others = shell(f"echo early; while ! [ -e {done} ]; do sleep 0.05; done; echo late >&2")
    tests = shell(f"echo begun; sleep 0.2; touch {done}; echo ended")
    ran = subprocess.run(command(root, others, tests), capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n") == ["begun", "ended", "", HEADING, "early", "late", ""]
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("tests", "others", "status", "said"),
    [
        ("exit 2", "echo all is well", 2, "The tests failed, with exit status 2."),
        ("exit 0", "exit 3", 3, "The image failed, with exit status 3."),
        ("exit 2", "exit 3", 2, "The tests failed, with exit status 2. The image failed, with exit status 3."),
        ("kill -9 $$", "exit 0", 137, "The tests ended by SIGKILL."),
    ],
)
def test_it_fails_if_either_fails_and_says_which(root: Path, tests: str, others: str, status: int, said: str) -> None:
    ran = subprocess.run(command(root, shell(others), shell(tests)), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.strip()) == (status, said)
    assert HEADING in ran.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_end_is_told_to_both_which_put_away_what_they_had(root: Path, tmp_path: Path, number: int) -> None:
    waiters = ["others", "tests"]
    others, tests = ([sys.executable, "-c", WAITER, name] for name in waiters)
    with subprocess.Popen(command(root, others, tests), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        pids = [number_in(tmp_path / name) for name in waiters]
        # Whoever is impatient does not interrupt that.
        for _ in range(3):
            process.send_signal(number)
        words, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert words.split("\n") == ["tests puts away after SIGINT", "others puts away after SIGTERM", ""]
    assert not any(map(alive, pids)), "it waited for both"


def test_nothing_outlives_it_when_it_is_killed(root: Path, tmp_path: Path) -> None:
    waiters = ["others", "tests"]
    others, tests = ([sys.executable, "-c", WAITER, name] for name in waiters)
    with subprocess.Popen(command(root, others, tests), cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        pids = [number_in(tmp_path / name) for name in waiters]
        process.kill()
    until(lambda: not any(map(alive, pids)), "both have ended", 20)


def test_what_an_ended_command_leaves_running_is_ended_too(root: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    tests = shell(f"sleep 600 & echo $! >{left}.new; mv {left}.new {left}; exec sleep 600")
    with subprocess.Popen(command(root, shell("exec sleep 600"), tests)) as process:
        pid = number_in(left)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    until(lambda: not alive(pid), "it was killed", 20)


def number_in(file: Path) -> int:
    """What a process has written of itself, once it has."""
    until(lambda: file.exists() and file.read_text().strip(), f"{file.name} has begun", 60)
    return int(file.read_text())
