"""Where the image cannot be tested, this is known before anything is fetched, and said in a line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.image.possible import BRIDGE, IMPOSSIBLE, MOUNTED, Impossible, control_groups, try_control_groups, try_root

ROOT_MOUNT = "/dev/vda / ext4 rw,relatime 0 0"
NEWER = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0"
OLDER = [
    "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0",
    "cgroup /sys/fs/cgroup/devices cgroup rw,devices 0 0",
    "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0",
]


def test_control_groups_are_found_where_an_engine_looks_for_them() -> None:
    assert control_groups([ROOT_MOUNT, NEWER]) == Path("/sys/fs/cgroup")
    assert control_groups([ROOT_MOUNT, *OLDER]) == Path("/sys/fs/cgroup/devices")


@pytest.mark.parametrize("mounts", [[ROOT_MOUNT], [ROOT_MOUNT, OLDER[0], OLDER[2]]])
def test_without_control_groups_that_is_the_reason(mounts: list[str]) -> None:
    with pytest.raises(Impossible, match="no control groups are mounted"):
        control_groups(mounts)


def test_a_control_group_that_is_in_use_is_no_place(tmp_path: Path) -> None:
    """As a container has it, whose own processes are in the group that it sees as the uppermost."""
    (tmp_path / "cgroup.subtree_control").write_text("\n")
    try_control_groups(tmp_path)
    (tmp_path / "cgroup.type").write_text("domain\n")
    with pytest.raises(Impossible, match="in use"):
        try_control_groups(tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    try_control_groups(tmp_path)


def test_control_groups_that_cannot_be_made() -> None:
    with pytest.raises(Impossible, match="cannot be made in /proc"):
        try_control_groups(Path("/proc"))


def test_a_chroot_is_no_place() -> None:
    try_root([ROOT_MOUNT, NEWER])
    with pytest.raises(Impossible, match="chroot"):
        try_root(["proc /proc proc rw,relatime 0 0"])


def test_without_rights_it_says_so_in_a_line_and_nothing_failed(root: Path) -> None:
    """The tests of the image, as an ordinary user starts them, or root without a right of administrators."""
    less = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"] if os.geteuid() == 0 else []
    ran = subprocess.run(
        [*less, str(root / "tools" / "image_tests.sh")], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0
    assert ran.stderr == ""
    (line,) = ran.stdout.splitlines()
    assert line.startswith("The container image is not tested on this machine: ")
    assert line.endswith(".")


def test_what_it_tries_leaves_nothing_behind(root: Path) -> None:
    command = [sys.executable, "-m", "tests.image.possible"]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, bool(ran.stdout)) in {(0, False), (IMPOSSIBLE, True)}
    assert ran.stderr == ""
    assert not Path("/sys/class/net", BRIDGE).exists()
    assert MOUNTED not in {line.split()[0] for line in Path("/proc/self/mounts").read_text().splitlines()}
