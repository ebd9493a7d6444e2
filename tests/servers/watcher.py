"""watcher.py PID FOLDER: waits for a process to end, or for its own standard input to; then clears away.

Ends every process whose command line names the folder, and removes the folder. Needs nothing but the
standard library, and is started by a path: the tests' environment may be gone by then.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path


def wait_for_end(pid: int) -> None:
    waiting = select.poll()
    waiting.register(sys.stdin.fileno(), select.POLLHUP | select.POLLIN)
    # A child of the tests may hold the other end of our input, so that alone is not enough.
    with contextlib.suppress(OSError):
        waiting.register(os.pidfd_open(pid), select.POLLIN)
        waiting.poll()


def end_processes(folder: str) -> int:
    ended = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if folder.encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                ended += 1
    return ended


def main() -> None:
    pid, folder = int(sys.argv[1]), sys.argv[2]
    wait_for_end(pid)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended = end_processes(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if not ended and not Path(folder).exists():
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main()
