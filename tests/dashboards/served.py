"""A Prometheus of the tests' own."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.daemons import free_port

PATIENCE = 60.0


@contextlib.contextmanager
def serving(binary: Path, folder: Path, config: str = "") -> Iterator[str]:
    """Runs Prometheus on `folder` (its blocks are in `folder/data`) and yields its address once it is ready."""
    (folder / "prometheus.yml").write_text(config)
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(binary),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--storage.tsdb.retention.time=10y",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not _ready(port):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait(10)


def _ready(port: int) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/-/ready", timeout=5.0).status_code == 200
    return False
