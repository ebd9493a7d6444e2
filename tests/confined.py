"""Runs a command as the hardened service and the container do: as a user without rights, on a root file system where
nothing can be written but one folder, with no capability and no way to one.

Takes root, or a kernel that lets users have namespaces, and what every Debian has: unshare, mount, pivot_root, setpriv.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

USER = 65532
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/dev")
_SCRIPT = """
set -eu
new=$1 state=$2
shift 2
mount -t tmpfs -o mode=755 confined "$new"
while [ "$1" != -- ]; do
    if [ -L "$1" ]; then
        cp -P "$1" "$new$1"
    elif [ -d "$1" ]; then
        mkdir -p "$new$1"
        mount --rbind "$1" "$new$1"
        case $1 in /proc | /dev) ;; *) mount -o remount,bind,ro "$new$1" ;; esac
    fi
    shift
done
shift
mkdir -p "$new$state"
mount --bind "$state" "$new$state"
mount -o remount,bind,ro "$new"
cd "$new"
# Not chroot, in which nobody may have a namespace of his own.
pivot_root . .
umount -l .
cd /
exec "$@"
"""


def confined(root: Path, state: Path, *readable: Path) -> list[str]:
    """What to put before a command: `root` becomes its root folder, it can write to `state`, and read what Python needs
    and `readable`. Its process id is that of the whole."""
    places = dict.fromkeys(
        str(place)
        for place in (
            *_SYSTEM,
            Path(sys.base_prefix).resolve(),
            Path(sys.prefix).resolve(),
            Path(__file__).resolve().parent.parent,
            *readable,
        )
    )
    outer = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", str(root), str(state), *places, "--"]
    nothing = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    if os.geteuid() == 0:
        os.chown(state, USER, USER)
        return [*outer, "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *nothing]
    outer[1:1] = ["--user", "--map-root-user"]
    return [*outer, "unshare", "--user", f"--map-user={USER}", f"--map-group={USER}", "setpriv", *nothing]
