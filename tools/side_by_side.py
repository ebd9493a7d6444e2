"""Runs two commands beside each other: side_by_side.py NAME FIRST... -- NAME SECOND...

What the first says is shown at once. What the second says follows in whole, under its name as a heading, when the first has
ended, and from then on as it comes. Fails if either fails, and says which. Each runs in a process group of its own; an end
of this program, by Ctrl-C or otherwise, is a Ctrl-C for the first and a SIGTERM for the second, once, and it waits until
both have put away what they had.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import IO

PATIENCE = 120.0
"""Seconds for putting away."""

STRAGGLERS = 5.0
"""Seconds more for those that a command which has ended leaves in its group: they may be about to put away, too."""

GLANCE = 0.1
"""Seconds from one look at what runs to the next."""

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ending:
    """Remembers that somebody wants this program to end; nothing is interrupted by it."""

    number = 0

    def __init__(self) -> None:
        for each in ENDINGS:
            # Whoever has it go on when its terminal is closed, wants that. Ctrl-C is ignored only because it is in the
            # background.
            if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN:
                signal.signal(each, self._remember)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number


def start(command: Sequence[str], output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """In a group of its own; ended with this program, should that be killed."""
    told = ["setpriv", "--pdeathsig=TERM", *command]
    if output is None:
        return subprocess.Popen(told, stdin=subprocess.DEVNULL, start_new_session=True)
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        told, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ, start_new_session=True
    )


def stop(running: Sequence[tuple[subprocess.Popen[bytes], signal.Signals]]) -> None:
    """Send each group its signal, wait for all, and leave nothing of them."""
    deadline = time.monotonic() + PATIENCE
    for process, number in running:
        if process.poll() is None:
            os.killpg(process.pid, number)
    for process, _ in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            last = time.monotonic() + STRAGGLERS
            while process.poll() is not None and time.monotonic() < last:
                os.killpg(process.pid, 0)
                time.sleep(GLANCE)
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def show(output: IO[bytes]) -> None:
    """What came since the last look."""
    sys.stdout.buffer.write(output.read())
    sys.stdout.buffer.flush()


def failure(name: str, status: int) -> str:
    """A sentence about the end of a command; empty if it ended well."""
    if status < 0:
        return f"{name} ended by {signal.Signals(-status).name}"
    return f"{name} failed, with exit status {status}" if status else ""


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: that of the first, or of the second if only that failed."""
    ending = Ending()
    middle = arguments.index("--")
    (first_name, *first_command), (name, *second_command) = arguments[:middle], arguments[middle + 1 :]
    with tempfile.NamedTemporaryFile() as written, Path(written.name).open("rb") as output:
        second, first = start(second_command, written), start(first_command)
        while not ending.number and first.poll() is None:
            time.sleep(GLANCE)
        if not ending.number:
            sys.stdout.write(f"\n{f' {name} ':=^80}\n")
        while not ending.number:
            over = second.poll() is not None
            show(output)
            if over:
                break
            time.sleep(GLANCE)
        else:
            sys.stderr.write("Stopping ...\n")
            stop(((second, signal.SIGTERM), (first, signal.SIGINT)))
            show(output)
            return 128 + ending.number
    ends = failure(first_name, first.returncode), failure(name, second.returncode)
    failed = [text for text in ends if text]
    if failed:
        sys.stderr.write(f"{'. '.join(failed)}.\n")
    status = first.returncode or second.returncode
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
