"""A real Alertmanager on loopback, for tests: start it, give it alerts, ask what it made of them.

with Alertmanager(folder, config) as alertmanager:
    alertmanager.post([{"alertname": "TDETargetDown", "job": "tde", "target": "shop"}])
    for alert in alertmanager.alerts(): alert["status"]["inhibitedBy"]
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tests.processes import until
from tests.servers.room import free_port

_CACHE = Path(__file__).resolve().parents[2] / ".cache"
NEWEST, OLDEST = (_CACHE / name / "usr" for name in ("prometheus", "prometheus-oldest"))
"""What `./check` fetched."""
_COMPILED_IN = b"/usr/share/prometheus/alertmanager"
"""Where Debian's build looks for its templates. They are not there: the package is unpacked, not installed."""

Labels = Mapping[str, str]


def tool(name: str, fetched: Path = NEWEST) -> Path:
    """A program of Debian's package; in place of the newest also the same from PATH."""
    found = str(fetched / "bin" / name) if (fetched / "bin" / name).exists() else None
    if fetched == NEWEST:
        found = found or shutil.which(name) or shutil.which(name.removeprefix("prometheus-"))
    if not found:
        pytest.fail(f"{name} is missing: run ./check once, which fetches it, or install it", pytrace=False)
    return Path(found)


def _startable(folder: Path, fetched: Path) -> Path:
    """Alertmanager, so that it starts with `folder` as its working directory.

    The one that was fetched is copied with one byte changed, which makes the path of its templates a relative one, of
    the same length; so nothing needs to be written to the system, which would take root.
    """
    program = tool("prometheus-alertmanager", fetched)
    if not program.is_relative_to(fetched) or Path(_COMPILED_IN.decode()).exists():
        return program
    copy = folder / "alertmanager"
    copy.write_bytes(program.read_bytes().replace(_COMPILED_IN, b"." + _COMPILED_IN[1:]))
    copy.chmod(0o700)
    (folder / ".usr").symlink_to(fetched)
    return copy


class Alertmanager:
    """Alertmanager as a child process. `folder` is its own and exists; `config` is the file that it reads."""

    def __init__(self, folder: Path, config: Path, fetched: Path = NEWEST) -> None:
        self.folder, self.config, self._fetched = folder, config.resolve(), fetched
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "alertmanager.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until it is ready; fails with its own words when it ends."""
        command = [
            str(_startable(self.folder, self._fetched)),
            f"--config.file={self.config}",
            f"--storage.path={self.folder / 'data'}",
            "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        until(self._ready, "Alertmanager to be ready")
        return self

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/-/ready", timeout=5.0).status_code == 200
        return False

    def post(self, alerts: Iterable[Labels]) -> None:
        """Alerts by their labels, which fire for an hour from now unless they are posted again."""
        ends = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat()
        body = [{"labels": dict(labels), "endsAt": ends} for labels in alerts]
        httpx.post(f"{self.url}/api/v2/alerts", json=body, timeout=20.0).raise_for_status()

    def alerts(self) -> list[dict[str, Any]]:
        """All of them: `labels`, `receivers`, and `status` with `state` and `inhibitedBy`."""
        answer = httpx.get(f"{self.url}/api/v2/alerts", timeout=20.0).raise_for_status()
        found: list[dict[str, Any]] = answer.json()
        return found

    def groups(self) -> list[dict[str, Any]]:
        """What is notified together, muted alerts included: `labels`, `receiver`, `alerts`."""
        answer = httpx.get(f"{self.url}/api/v2/alerts/groups", timeout=20.0).raise_for_status()
        found: list[dict[str, Any]] = answer.json()
        return found

    def stop(self) -> None:
        """End it, whatever it does."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10.0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
