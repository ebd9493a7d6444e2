"""What every test has: an environment of its own, and the tools that `./check` fetched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from exporter.config import secrets
from exporter.config.redactor import Redactor

# How long an example takes, or takes to be thought of, says how busy the machine is.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

pytest_plugins = ["tests.servers.fixtures", "tests.daemons"]

ROOT = Path(__file__).resolve().parent.parent


def _isolate(patch: pytest.MonkeyPatch, state: Path) -> None:
    for name in list(os.environ):
        if name.startswith("TDE_EXPORTER_"):
            patch.delenv(name)
    patch.delenv("STATE_DIRECTORY", raising=False)
    patch.setenv("XDG_STATE_HOME", str(state))


@pytest.fixture(autouse=True, scope="session")
def _isolated_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing configured outside reaches a test, and none writes to the user's home; for wider fixtures."""
    with pytest.MonkeyPatch.context() as patch:
        _isolate(patch, tmp_path_factory.mktemp("state"))
        yield


@pytest.fixture(autouse=True)
def _isolated(
    _isolated_session: None, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same for each test, which so finds no state of the test before."""
    _isolate(monkeypatch, tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def _tool(name: str) -> Path:
    fetched = ROOT / ".cache" / "prometheus" / "usr" / "bin" / name
    found = str(fetched) if fetched.exists() else shutil.which(name)
    if not found:
        pytest.fail(f"{name} is missing: run ./check once, which fetches it, or install it", pytrace=False)
    return Path(found)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The promtool binary."""
    return _tool("promtool")


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """The Prometheus binary."""
    return _tool("prometheus")


@pytest.fixture(scope="session")
def libfaketime() -> Path:
    """The library that, preloaded, lets a process see another wall clock."""
    given = os.environ.get("TDE_TEST_FAKETIME")
    candidates = [Path(given)] if given else []
    for top in (ROOT / ".cache" / "faketime", Path("/")):
        candidates += sorted(top.glob("usr/lib/*/faketime/libfaketime.so.1"))
    for candidate in candidates:
        if candidate.exists():
            return candidate
    pytest.fail("libfaketime is missing: run ./check once, which fetches it, or install faketime", pytrace=False)


@pytest.fixture
def no_secrets_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test begins as a process that has read no secret; what it reads is not redacted in another one."""
    monkeypatch.setattr(secrets, "_redactor", Redactor())
