"""Whether a Docker Engine can be started on this machine at all: python -m tests.image.possible says in a line why not.

What is missing cannot be mended by a test. Whatever goes wrong where nothing is missing is a failure. The exit status is
0 where an engine can be started, 3 where it cannot; any other is a defect of this program.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CONTROL_GROUPS = "/sys/fs/cgroup"
SIOCBRADDBR = 0x89A0
"""The request of Linux that makes a network bridge."""

IMPOSSIBLE = 3

BRIDGE, MOUNTED = "tde-tried", "tde-exporter-tried"

INSIDE = "inside"
"""The argument of this program that has it try, in namespaces of its own, what an engine does there."""


class Impossible(Exception):
    """What this machine has not."""


def control_groups(mounts: Sequence[str]) -> Path:
    """Where the engine makes groups of its own: of version 2, or of the older one's devices, which it cannot do without.

    Args:
        mounts: Lines of /proc/mounts.

    Raises:
        Impossible: There is no such place.
    """
    for line in mounts:
        place, kind, options = line.split()[1:4]
        if (kind == "cgroup2" and place == CONTROL_GROUPS) or (kind == "cgroup" and "devices" in options.split(",")):
            return Path(place)
    raise Impossible(f"no control groups are mounted below {CONTROL_GROUPS}")


def try_control_groups(top: Path) -> None:
    """Make one, and look whether it could limit anything."""
    tried = top / f"tde-exporter-{os.getpid()}"
    try:
        tried.mkdir()
        tried.rmdir()
    except OSError as error:
        raise Impossible(f"control groups cannot be made in {top}: {error.strerror}") from error
    given = top / "cgroup.subtree_control"
    # Only a group that is not the machine's uppermost has a type; it can be divided only where no process is in it.
    if (top / "cgroup.type").exists() and "pids" not in given.read_text().split():
        raise Impossible(f"{top} is a control group in use, which cannot be divided")


def try_namespaces() -> None:
    """A mount and a network bridge, in namespaces that end with the process."""
    command = ["unshare", "--mount", "--net", "--pid", "--fork", sys.executable, "-m", __spec__.name, INSIDE]
    tried = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if tried.returncode != 0:
        words = (tried.stdout.strip() or f"what tries it ended by {tried.returncode}").splitlines()[-1]
        if tried.returncode == 1 and not words.startswith("unshare:"):
            raise RuntimeError(tried.stdout)
        raise Impossible(words.replace("unshare: unshare failed", "namespaces cannot be made"))


def inside() -> None:
    """Part of `try_namespaces`, within them."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", MOUNTED, folder]
        tried = subprocess.run(mount, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if tried.returncode != 0:
            raise Impossible(f"nothing can be mounted: {tried.stdout.strip()}")
        subprocess.run(["umount", folder], check=True)
    with socket.socket() as asked:
        try:
            fcntl.ioctl(asked, SIOCBRADDBR, BRIDGE.encode() + b"\0")
        except OSError as error:
            raise Impossible(f"a network bridge cannot be made: {error.strerror}") from error


def try_root(mounts: Sequence[str]) -> None:
    """A container exchanges the root for its own, which the kernel grants to nobody whose root is merely a folder."""
    if "/" not in {line.split()[1] for line in mounts}:
        raise Impossible("this is a chroot, in which no container can be started")


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    try:
        if arguments == [INSIDE]:
            inside()
            return 0
        if os.geteuid() != 0:
            raise Impossible("a Docker Engine needs root")
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        try_root(mounts)
        try_control_groups(control_groups(mounts))
        try_namespaces()
    except Impossible as error:
        print(error)
        return IMPOSSIBLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
