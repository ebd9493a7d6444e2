"""The world that chaos befalls: one daemon with four targets, on a disk that can be full, behind a network that can be cut,
under a clock that can step.

The state directory is a small file system of its own in a mount namespace, which outlives the daemons in it. Making
one takes root, or a kernel that lets users have namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from tests.daemons import PATIENCE, Daemon
from tests.processes import alive
from tests.servers.proxy import Proxy
from tests.watched import Watched

DISK_BYTES = 24 * 2**20
EMBEDDED, SHOP, SCRIPTED, DEAD = "embedded", "mariadb", "scripted", "dead"
LIVING = (EMBEDDED, SHOP, SCRIPTED)
SILENCE = 4.0
"""Seconds after which a silent probe process is killed."""
SLEEP = "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds) and None\n"
"""The preloaded clock breaks the system call that Python sleeps by: each `time.sleep` raises EINVAL."""
SAVED_AGAIN = 12.0
"""Seconds after which, with room on the disk, everything is saved again."""


def settings(shop: dict[str, Any]) -> dict[str, Any]:
    """Four targets on two probe processes, all of them with short intervals."""
    quick = {"intervals": {"canary": "1s", "encryption_state": "1s", "activity": "1s", "standby": "1s"}}
    common = {**quick, "budgets": {"time_share_ratio": 1.0}}
    writing = ["point_select", "full_scan_cold", "insert_batch"]
    slow, refuse = (
        {"encrypted": True, "latency": "3ms", "decrypts": 10},
        {"kind": "error", "call": "open", "reason": "connect"},
    )
    return {
        "targets": [
            {
                "name": EMBEDDED,
                "engine": "sqlite",
                "pairs": [{"name": "phonebook", "rows": 2000}],
                "operations": writing,
                **common,
            },
            shop,
            {"name": SCRIPTED, "engine": "fake", "operations": ["point_select"], "a": slow, **common},
            {"name": DEAD, "engine": "fake", "faults": [refuse], **common},
        ],
        "operations": {"point_select": {"samples": 5, "timeout": "2s"}},
        "probes": {"processes": 2, "heartbeat_timeout": f"{SILENCE:g}s"},
    }


class Disk:
    """A file system of `DISK_BYTES` at a folder, seen only in its own namespace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        script = 'mount -t tmpfs -o "size=$1,mode=700" chaos "$2" && echo ready && exec cat'
        command = ["unshare", *user, "--mount", "sh", "-c", script, "sh", str(DISK_BYTES), str(folder)]
        # It ends with its standard input, so also when the test is killed.
        self._holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n", "no namespace with a file system of its own"
        entry = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self.inside = ["nsenter", f"--target={self._holder.pid}", *entry, "--mount", f"--wd={folder.parent}"]

    def seen(self, name: str = "") -> Path:
        """A path on it, as processes outside reach it."""
        return Path(f"/proc/{self._holder.pid}/root{self._folder}") / name

    def fill(self) -> None:
        """Not one more byte fits."""
        with self.seen("filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)

    def free(self) -> None:
        self.seen("filler").unlink(missing_ok=True)

    def close(self) -> None:
        self._holder.communicate(timeout=10)


class Reader:
    """Reads the history in the daemon's namespace."""

    def __init__(self, disk: Disk, config: Path, history: Path) -> None:
        program = Path(__file__).with_name("inside.py")
        self._process = subprocess.Popen(
            [*disk.inside, sys.executable, str(program), str(config), str(history), SCRIPTED],
            env={**os.environ, "PYTHONPATH": str(program.parents[2])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._line() == "planted", "the history could not be made"

    def samples(self) -> dict[str, int]:
        """How many samples of each target it holds; nothing where it cannot be read now."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return dict(json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def close(self) -> None:
        self._process.communicate(timeout=10)


class World:
    """Starts a daemon, knows what was done to it, and keeps it alive as a service manager does."""

    def __init__(self, folder: Path, watched: Watched, proxy: Proxy, libfaketime: Path) -> None:
        self.watched, self.proxy = watched, proxy
        state = folder / "state"
        state.mkdir()
        self.disk = Disk(state)
        self._offset = folder / "offset"
        self.step_clock("+0")
        mended = folder / "mended"
        mended.mkdir()
        (mended / "sitecustomize.py").write_text(SLEEP)
        budgets = {"time_share_ratio": 1.0, "sessions": 3}
        self.settings = settings(watched.target(proxy.address, budgets=budgets))
        self.daemon = Daemon(
            folder,
            self.settings,
            {
                "LD_PRELOAD": str(libfaketime),
                "PYTHONPATH": os.pathsep.join(filter(None, (str(mended), os.environ.get("PYTHONPATH")))),
                "FAKETIME_TIMESTAMP_FILE": str(self._offset),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            },
        )
        self.history = Reader(self.disk, folder / "config.yaml", state / "history.db")
        self.daemon._command[:0] = self.disk.inside
        self.lock = threading.RLock()
        """Held while something is done to the daemon, so that nobody mistakes it for the daemon's own doing."""
        self.generation = 0
        self.touched = 0
        """Goes up with everything that may break a scrape."""
        self.frozen = False
        self.serving = False
        self.full = False
        self.saves_since = -SAVED_AGAIN
        """Since when there is room on the disk."""
        self.seen_cut = False
        """The cut was told on the page, and lasts."""
        self.last_harm = time.monotonic()
        self.killed: list[tuple[int, float]] = []
        """Which generation was killed, and when; not those killed while nothing could be saved."""
        self.longest_stop = 0.0

    # -- the daemon -----------------------------------------------------------------------------

    def start(self) -> None:
        with self.lock:
            self.generation += 1
            self.daemon.start()

    def await_page(self) -> None:
        """Wait until it serves; a disk that is full may keep it from starting, and then it is started again."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if self.daemon.get("/metrics").status_code == 200:
                    self.serving = True
                    return
            assert self.daemon.process is not None
            if self.daemon.process.poll() is not None:
                refused = self.full or time.monotonic() - self.saves_since < SAVED_AGAIN
                assert refused, f"the daemon ended:\n{self.daemon.words()}"
                self.start()
            time.sleep(0.05)
        raise AssertionError(f"no page after {PATIENCE:g} s:\n{self.daemon.words()}")

    def kill(self) -> None:
        with self.lock:
            self._harmed()
            self.serving = False
            self._note_end()
            self.daemon.kill()

    def terminate(self) -> None:
        with self.lock:
            self._harmed()
            self.serving = False
            self._note_end()
            self.longest_stop = max(self.longest_stop, self.daemon.stop())

    def _note_end(self) -> None:
        """What could not be saved for a while is no loss of a kill."""
        if not self.full and time.monotonic() - self.saves_since > SAVED_AGAIN:
            self.killed.append((self.generation, time.monotonic()))

    def freeze(self, seconds: float) -> None:
        assert self.daemon.process is not None
        with self.lock:
            self._harmed()
            self.frozen = True
            self.daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        with self.lock:
            self.daemon.process.send_signal(signal.SIGCONT)
            self.frozen = False
            self._harmed()

    def probes(self) -> list[int]:
        return [pid for pid in self.daemon.children() if alive(pid)]

    def signal_probe(self, pid: int, number: signal.Signals) -> None:
        self.last_harm = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def _harmed(self) -> None:
        self.touched += 1
        self.last_harm = time.monotonic()

    # -- what is around it ----------------------------------------------------------------------

    def step_clock(self, offset: str) -> None:
        # In one piece: a clock that is read while it is written would step to anywhere.
        fresh = self._offset.with_name("offset.new")
        fresh.write_text(offset)
        fresh.rename(self._offset)
        self.last_harm = time.monotonic()

    def close(self) -> None:
        self.daemon.kill()
        self.history.close()
        self.disk.close()
