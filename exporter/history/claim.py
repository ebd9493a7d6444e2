"""Who writes the history: one daemon at a time.

An advisory lock of the kernel on a file beside it, which ends with the process, however that ends. Not on
the history itself: closing any descriptor of it would drop the locks of SQLite.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from exporter.domain.errors import HistoryError

PATIENCE_SECONDS = 2.0
"""Long enough for a predecessor that is just shutting down."""
_POLL_SECONDS = 0.05


class Claim:
    """Taken when it is made, kept until `release`. Raises HistoryError, naming the process that has it, and the remedy."""

    def __init__(self, path: Path, remedy: str = "Stop it, or give this one a state_directory of its own") -> None:
        self._path, self._remedy = path, remedy
        self._file: int | None = self._claimed(path)

    def renew(self) -> None:
        """Claim what has the name now, if the file beside it was removed or exchanged. Raises HistoryError, and keeps what
        it had."""
        before = self._file
        with contextlib.suppress(OSError):
            if before is not None and os.path.samestat(os.fstat(before), _place(self._path).stat()):
                return
        self._file = self._claimed(self._path)
        if before is not None:
            os.close(before)

    def _claimed(self, path: Path) -> int:
        place = _place(path)
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HistoryError(
                f"{path}: the lock beside it cannot be made ({error.strerror}). "
                "Give this user the right to write there, or set history.path to a file that it may write"
            ) from None
        try:
            self._take(path, file)
        except BaseException:
            os.close(file)
            raise
        return file

    def release(self) -> None:
        """Let another process have it."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _take(self, path: Path, file: int) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up:
                    holder = os.pread(file, 32, 0).decode("ascii", "replace").strip() or "unknown"
                    raise HistoryError(
                        f"{path}: another tde-exporter (process {holder}) keeps this history. {self._remedy}"
                    ) from None
            except OSError:
                # A file system without such locks: it goes without.
                return
            time.sleep(_POLL_SECONDS)
        with contextlib.suppress(OSError):
            os.ftruncate(file, 0)
            os.pwrite(file, b"%d\n" % os.getpid(), 0)


def _place(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")
