"""A daemon that sees other files than we do: a small disk of its own, or names of hosts of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
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

    def cover(self, *options: str) -> None:
        """Mount another file system over it, while the daemon has its files open below."""
        self._inside("mount", "-t", "tmpfs", "-o", ",".join(["size=64k", *options]), "tmpfs", str(self.state))

    def uncover(self) -> None:
        self._inside("umount", str(self.state))

    def _inside(self, *command: str) -> None:
        assert self._daemon.process is not None
        enter = ["nsenter", "--target", str(self._daemon.process.pid), "--mount"]
        if os.geteuid() != 0:
            enter += ["--user", "--preserve-credentials"]
        subprocess.run([*enter, *command], check=True)


class OwnHosts:
    """The daemon's own /etc/hosts, and a resolver behind it that nobody answers for."""

    def __init__(self, daemon: Daemon) -> None:
        self._hosts, resolver = daemon.directory / "hosts", daemon.directory / "resolv.conf"
        self.say({})
        # Nothing listens there: it refuses at once, as far as it is asked at all.
        resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        mount = 'mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
        daemon._command = [*_NAMESPACE, "sh", "-c", mount, str(self._hosts), str(resolver), *daemon._command]

    def say(self, names: dict[str, str]) -> None:
        """Addresses by name, from now on."""
        self._hosts.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
