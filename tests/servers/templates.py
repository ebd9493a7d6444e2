"""Data folders that were initialised once, to be copied: a copy takes a tenth of the time."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers.room import CACHE

# What the templates hold beside the server's own tables. The user is reachable by socket and by TCP,
# also where names are not resolved.
ROOT_USER = "root"
ROOT_PASSWORD = "Rumpelstilz-77"


@contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


def copy_template(name: str, recipe: Sequence[str], build: Callable[[Path], None], target: Path) -> None:
    """Copy the template into `target`, which must not exist; make it first where there is none of this recipe.

    `recipe` is all that the template's content depends on, the server's version included.
    """
    digest = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:12]
    top = CACHE / "servers"
    template, lock = top / f"{name}-{digest}", top / f"{name}.lock"
    # Tests of another version of this file may run at the same time, and remove what they do not know.
    while True:
        with _locked(lock, fcntl.LOCK_SH):
            if template.exists():
                shutil.copytree(template, target)
                return
        with _locked(lock, fcntl.LOCK_EX):
            if not template.exists():
                for old in top.glob(f"{name}-*"):
                    shutil.rmtree(old)
                unfinished = top / f"{name}-new"
                build(unfinished)
                unfinished.rename(template)


def run_to_end(command: Sequence[str], what: str, stdin: str = "") -> None:
    """Run a command that initialises something; with the end of what it said in the error when it fails."""
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    if ended.returncode:
        tail = "\n".join((ended.stdout + ended.stderr).splitlines()[-20:])
        raise RuntimeError(f"{what} failed with {ended.returncode}:\n{tail}")


@functools.cache
def version_of(program: Path) -> str:
    """What a server says of its version, without where it lies: checkouts that share a cache share templates."""
    command = [str(program), "--no-defaults", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    return said.partition(" Ver ")[2]
