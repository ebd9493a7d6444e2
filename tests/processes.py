"""Finds processes by their parents, as a person with `ps` would."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

APPLIER = "exporter.engines.sqlite.applier"


def appliers(parent: int | None = None, mark: str = "") -> list[int]:
    """The standbys that run as children of a process; without one, all whose environment holds `mark`."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            if APPLIER.encode() not in (folder / "cmdline").read_bytes():
                continue
            state, father = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            if state == "Z" or (parent is not None and int(father) != parent):
                continue
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def own_appliers() -> list[int]:
    """The standbys of this very process."""
    return appliers(os.getpid())


def until(condition: Callable[[], object], what: str, patience: float = 100.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience:.0f} s in vain for: {what}"
        time.sleep(0.02)
