"""Where the servers of this process live: one folder below the temporary one, that a watcher clears away.

The watcher is a process of its own that waits for this one to end, in whatever way (SIGKILL included),
ends every process whose command names the folder, and removes the folder. So no test run leaves a
server or a file.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import random
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"

_counter = itertools.count(1)


@functools.cache
def _room() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tde-servers-"))
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("watcher.py")), str(os.getpid()), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C ends the tests; the watcher then ends the servers
    )
    atexit.register(_leave, watcher)
    return folder


def _leave(watcher: subprocess.Popen[bytes]) -> None:
    assert watcher.stdin is not None
    watcher.stdin.close()  # it clears away at once, without waiting for this process
    with contextlib.suppress(subprocess.TimeoutExpired):
        watcher.wait(30)


def new_folder(name: str) -> Path:
    """A new empty folder, private to this process; its path is short, for sockets have short names."""
    folder = _room() / f"{name}-{next(_counter)}"
    folder.mkdir(mode=0o700)
    return folder


def free_port() -> int:
    """A loopback port that nobody listens on, below those that the kernel hands out to clients.

    So nobody is given it while a server is down between two starts.
    """
    for _ in range(1000):
        port = random.randrange(15000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("found no free port")
