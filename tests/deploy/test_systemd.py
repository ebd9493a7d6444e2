"""The units: systemd reads them without complaint, finds them hardened, and the exporter works under what they forbid."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemons import Daemon
from tests.deploy import confined
from tests.deploy.kit import ROOT

UNITS = ROOT / "deploy" / "systemd"
MOST_EXPOSED = 20
"""systemd's scale goes from 0 to 100; what needs the network cannot come much below 15."""


@pytest.fixture(scope="module")
def analyze() -> str:
    found = subprocess.run([str(ROOT / "tools" / "get_systemd.sh")], stdout=subprocess.PIPE, text=True, check=True)
    return found.stdout.splitlines()[0]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root folder where the units are installed, and the program that they start."""
    units, program = tmp_path / "etc/systemd/system", tmp_path / "opt/tde-exporter/bin/tde-exporter"
    units.mkdir(parents=True)
    for started in (program, tmp_path / "bin/kill"):
        started.parent.mkdir(parents=True)
        started.write_text("#!/bin/sh\n")
        started.chmod(0o755)
    (units / "tde-exporter.service").write_text((UNITS / "tde-exporter.service").read_text())
    (units / "tde-exporter@east.service").write_text((UNITS / "tde-exporter@.service").read_text())
    return tmp_path


def offline(analyze: str, machine: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [analyze, arguments[0], f"--root={machine}", *arguments[1:]]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


NAMES = ("tde-exporter.service", "tde-exporter@east.service")


@pytest.mark.parametrize("name", NAMES)
def test_systemd_reads_it_without_complaint(analyze: str, machine: Path, name: str) -> None:
    ran = offline(analyze, machine, "verify", "--man=no", "--recursive-errors=no", name)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_a_mistake_would_be_found(analyze: str, machine: Path) -> None:
    unit = machine / "etc/systemd/system/tde-exporter.service"
    unit.write_text(unit.read_text().replace("NoNewPrivileges=", "NoNewPriviledges="))
    ran = offline(analyze, machine, "verify", "--man=no", "--recursive-errors=no", "tde-exporter.service")
    assert "NoNewPriviledges" in ran.stdout


@pytest.mark.parametrize("name", NAMES)
def test_it_is_hardened(analyze: str, machine: Path, name: str) -> None:
    ran = offline(analyze, machine, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", name)
    assert ran.returncode == 0, ran.stdout


def _service(name: str) -> dict[str, list[str]]:
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), allow_no_value=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNITS / name)
    return {key: value.split() for key, value in parser["Service"].items()}


def test_the_template_differs_only_in_names() -> None:
    one, many = _service("tde-exporter.service"), _service("tde-exporter@.service")
    assert {key for key in one if one[key] != many.get(key)} == {"Environment", "EnvironmentFile", "StateDirectory"}
    assert one.keys() == many.keys()
    assert many["StateDirectory"] == ["tde-exporter-%i"]


def test_the_account_is_the_one_that_is_made() -> None:
    line = (UNITS / "tde-exporter.sysusers").read_text().splitlines()[-1].split()
    assert line[:2] == ["u", *_service("tde-exporter.service")["User"]]


SETTINGS = {
    "targets": [
        {
            "name": "embedded",
            "engine": "sqlite",
            "pairs": [{"name": "phonebook", "rows": 2000}],
            "standbys": [{"name": "local"}],
            "intervals": {"canary": "1s", "standby": "1s", "encryption_state": "2s"},
        }
    ]
}


class Confined(Daemon):
    """A daemon that a service manager would have started with the restrictions of the unit."""

    def __init__(self, directory: Path, analyze: str) -> None:
        super().__init__(directory, SETTINGS)
        self._command = [
            sys.executable,
            confined.__file__,
            str(UNITS / "tde-exporter.service"),
            analyze,
            *self._command,
        ]


def test_it_works_under_what_the_unit_forbids(analyze: str, tmp_path: Path) -> None:
    daemon = Confined(tmp_path, analyze).start()
    try:
        daemon.serving()
        daemon.until(lambda: daemon.value("tde_target_up", target="embedded") == 1.0, "the target is up")
        daemon.until(lambda: daemon.total("tde_canary_runs_total") > 0, "a canary ran")
        daemon.until(lambda: daemon.value("tde_standby_lag_known", kind="heartbeat") == 1.0, "the standby is followed")
        assert daemon.process is not None
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status
        daemon.stop()
    finally:
        daemon.kill()


def test_what_the_unit_forbids_is_forbidden(analyze: str) -> None:
    attempt = "import ctypes, mmap, os; mmap.mmap(-1, 4096, prot=7)"
    unit = str(UNITS / "tde-exporter.service")
    for program, words in ((attempt, "Permission"), ("import os; os.chroot('/')", "not permitted")):
        ran = subprocess.run(
            [sys.executable, confined.__file__, unit, analyze, sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 1
        assert words in ran.stderr
