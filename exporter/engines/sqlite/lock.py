"""The scratch lock: one exporter at a time builds twins or writes to them.

An advisory lock of the kernel on a file beside the twins. The kernel frees it when its holder dies,
however it dies, so it is never stale. The file itself stays; it holds the number of the process that
took the lock last, and the name of its host: containers that share a directory count their processes anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
import time
from pathlib import Path

from exporter.domain.errors import Blocked, Cancelled
from exporter.domain.states import ScratchLock

_POLL_SECONDS = 0.05
_LONGEST_HOLDER = 300


class LockFile:
    """Taken by `acquire`, kept until `release`; `stop` ends a wait early."""

    def __init__(self, path: Path, stop: threading.Event) -> None:
        self._path, self._stop = path, stop
        self._file: int | None = None
        self._holder = ""

    def state(self) -> ScratchLock | None:
        """Who has it as of the last `acquire`; None before the first, and after `release`."""
        if self._file is not None:
            return ScratchLock(True)
        return ScratchLock(False, self._holder) if self._holder else None

    def acquire(self, patience: float) -> None:
        """Take the lock unless this session has it; wait for at most `patience` seconds.

        Raises `Blocked`, which names the process that holds it, and OSError where the file cannot be made.
        """
        if self._file is not None:
            if self._is_ours(self._file):
                return
            # Its directory was removed or exchanged: what we hold keeps nobody away any more.
            self.release()
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._wait(file, time.monotonic() + patience)
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        except BaseException:
            os.close(file)
            raise
        self._file, self._holder = file, ""

    def _is_ours(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except OSError:
            return False

    def _wait(self, file: int, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    found = os.pread(file, _LONGEST_HOLDER, 0).decode("utf-8", "replace").strip()
                    self._holder = f"process {found or 'unknown'}"
                    raise Blocked(
                        f"another exporter ({self._holder}) holds {self._path}; stop one of the two"
                    ) from None
            if self._stop.wait(_POLL_SECONDS):
                raise Cancelled("stopped while waiting for the scratch lock")

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held."""
        self._holder = ""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None
