"""The exporter needs no right at all but that to write into one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.confined import USER, confined
from tests.daemons import ENDS_WITHIN

READ_ONLY = "Read-only file system"


def test_the_cage_holds(tmp_path):
    """What the next test relies on: nobody in there can write elsewhere, or has a capability."""
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    state.mkdir()
    look = f"touch {state}/here; for place in / /usr /etc {sys.prefix}; do touch $place/there; done; cat /proc/self/status; id -u"
    ran = subprocess.run([*confined(root, state), "sh", "-c", look], capture_output=True, text=True, timeout=100)
    assert (state / "here").exists()
    assert ran.stderr.count(READ_ONLY) == 4, ran.stderr
    assert ran.stdout.splitlines()[-1] == str(USER)
    assert rights(ran.stdout) == NONE


def test_without_rights_it_measures_keeps_its_history_and_ends(daemon, small, tmp_path):
    exporter = daemon(small())
    root, state = tmp_path / "root", exporter.directory / "state"
    root.mkdir()
    state.mkdir()
    exporter._command[:0] = confined(root, state, exporter.directory)
    exporter.start().ready()
    exporter.until(lambda: exporter.total("tde_canary_decrypts_total", variant="encrypted") > 0, "decrypted pages")
    exporter.until(lambda: exporter.total("tde_canary_encrypts_total", variant="encrypted") > 0, "encrypted pages")
    exporter.until(lambda: exporter.value("tde_standby_lag_seconds", kind="heartbeat") is not None, "its standby")
    assert exporter.value("tde_target_up") == 1
    processes = family(exporter.process.pid)
    assert len(processes) >= 3, "the daemon, its probe process, the standby of that"
    for pid in processes:
        status = Path(f"/proc/{pid}/status").read_text()
        assert rights(status) == NONE, status
        writable = [place for place in mounts(pid) if not place.startswith(("/proc", "/dev"))]
        assert writable == [str(state)]
    assert exporter.stop() < ENDS_WITHIN
    assert (state / "history.db").stat().st_size > 0


NONE = {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapAmb": 0, "NoNewPrivs": 1}
if os.geteuid() == 0:
    # In a namespace of a user's own nobody may take this away; without new privileges it gives nothing.
    NONE["CapBnd"] = 0


def rights(status: str) -> dict[str, int]:
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return {name: int(lines[name], 16) for name in NONE}


def mounts(pid: int) -> list[str]:
    """Where a process could write, as far as file systems let it."""
    lines = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    return [fields[4] for fields in lines if "rw" in fields[5].split(",")]


def family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found
