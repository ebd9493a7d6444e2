"""A daemon whose state directory is a small file system of its own, to be filled and freed, or read-only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tests.daemons import Daemon

BLOCK = 4096
_NAMESPACE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]


class OwnDisk:
    """Made before the daemon is started; the mount ends with the last process of the daemon."""

    def __init__(self, daemon: Daemon, size_kb: int, *options: str) -> None:
        self._daemon, self.state = daemon, daemon.directory / "state"
        self.state.mkdir(exist_ok=True)
        given = ",".join([f"size={size_kb}k", *options])
        mount = f'mount -t tmpfs -o {given} tmpfs "$0" && exec "$@"'
        daemon._command = [*_NAMESPACE, "sh", "-c", mount, str(self.state), *daemon._command]

    @property
    def seen(self) -> Path:
        """The directory as the daemon sees it."""
        assert self._daemon.process is not None
        return Path(f"/proc/{self._daemon.process.pid}/root{self.state}")

    def fill(self) -> None:
        """Until not one block more fits."""
        with contextlib.suppress(OSError), (self.seen / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(BLOCK))

    def free(self) -> None:
        (self.seen / "filler").unlink()
