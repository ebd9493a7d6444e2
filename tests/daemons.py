"""A daemon as an operator runs it: its own process, its own state directory, a real port."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.processes import alive
from tests.servers.room import free_port as free_port  # from here as well

PATIENCE = 100.0
"""Seconds; many times as long as anything takes that is waited for. Only what fails waits so long."""
ENDS_WITHIN = 5.0 * 5
"""Seconds. An exporter ends within five of them, and has fivefold room on a busy machine."""
# One for all, for making one costs more than a scrape; each request has a connection of its own, as a scraper's may have.
_CLIENT = httpx.Client(timeout=20.0, limits=httpx.Limits(max_keepalive_connections=0))


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Page:
    """What was scraped at one moment; to be asked several times where the answers must belong together."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def families(self) -> list[Metric]:
        return list(text_string_to_metric_families(self.text))

    @cached_property
    def samples(self) -> Samples:
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample of that name whose labels include the given ones; None when there is none."""
        found = [
            value for (sample, have), value in self.samples.items() if sample == name and set(labels.items()) <= have
        ]
        assert len(found) <= 1, f"{name}{labels} is not one sample"
        return found[0] if found else None

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name whose labels include the given ones."""
        return sum(
            value for (sample, have), value in self.samples.items() if sample == name and set(labels.items()) <= have
        )


class Daemon:
    """Starts, asks and stops one exporter."""

    def __init__(self, directory: Path, settings: dict | None = None, environ: dict[str, str] | None = None):
        self.directory, self.port = directory, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / "daemon.log"
        self._environ = {
            **os.environ,
            "TDE_EXPORTER_STATE_DIRECTORY": str(directory / "state"),
            "TDE_EXPORTER_WEB__PORT": str(self.port),
            **(environ or {}),
        }
        self._command = [sys.executable, "-m", "exporter"]
        if settings is not None:
            path = directory / "config.yaml"
            path.write_text(yaml.safe_dump(settings))
            self._command += ["--config", str(path)]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Daemon:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._command, "run"], env=self._environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        return self

    def until(self, condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Wait for a condition; fail with the daemon's own words."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            assert self.process is not None
            with contextlib.suppress(httpx.TransportError):
                if condition():
                    return
            assert self.process.poll() is None, f"the daemon ended:\n{self.words()}"
            time.sleep(0.1)
        pytest.fail(f"waited {patience:.0f} s in vain for: {what}\n{self.words()}")

    def until_all(
        self, names: Collection[str], condition: Callable[[Page, str], object], what: str, patience: float = PATIENCE
    ) -> None:
        """Wait until a condition holds for each of the names on one page."""

        def hold() -> bool:
            page = self.page()
            return all(condition(page, name) for name in names)

        self.until(hold, what, patience)

    def until_said(self, words: str, times: int = 1) -> None:
        """Wait until the landing page says it so often: a reason may be there a moment after what it is the reason of."""
        self.until(lambda: self.get("/").text.count(words) >= times, f"the page to say {words!r}")

    def ready(self) -> Daemon:
        self.until(lambda: self.get("/-/ready").status_code == 200, "readiness")
        return self

    def serving(self) -> Daemon:
        """Wait for the first page; it needs no database."""
        self.until(lambda: self.get("/metrics").status_code == 200, "a page")
        return self

    def get(self, path: str, **options) -> httpx.Response:
        return _CLIENT.get(self.url + path, **options)

    def page(self) -> Page:
        """The metrics as they are now."""
        answer = self.get("/metrics", headers={"Accept": "text/plain"})
        assert answer.status_code == 200, answer.text
        return Page(answer.text)

    def samples(self) -> Samples:
        return self.page().samples

    def value(self, name: str, **labels: str) -> float | None:
        """See `Page.value`, of the page as it is now."""
        return self.page().value(name, **labels)

    def total(self, name: str, **labels: str) -> float:
        """See `Page.total`, of the page as it is now."""
        return self.page().total(name, **labels)

    def words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    def stop(self) -> float:
        """SIGTERM; the seconds until the end. The exit code must be 0."""
        assert self.process is not None
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        assert code == 0, self.words()
        return time.monotonic() - begun

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def until_gone(self, pid: int, patience: float = PATIENCE) -> None:
        """Wait for the end of a process that is not ours."""
        deadline = time.monotonic() + patience
        while alive(pid):
            assert time.monotonic() < deadline, f"process {pid} still runs after {patience:.0f} s"
            time.sleep(0.02)

    def once(self) -> None:
        """A snapshot in the terminal, with the same settings."""
        ran = subprocess.run(
            [*self._command, "once"], env=self._environ, capture_output=True, text=True, timeout=PATIENCE
        )
        assert ran.returncode == 0, ran.stderr

    def lose_probe(self) -> Page:
        """Kill the one probe process; a page that was scraped before there was another one."""
        pages: list[Page] = []

        def shown() -> bool:
            # Once more, where its successor was there before anybody had looked.
            for pid in self.children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            pages.append(self.page())
            return pages[-1].value("tde_exporter_probe_process_up", process="0") == 0

        self.until(shown, "the end of the probe process to show")
        return pages[-1]

    def children(self) -> list[int]:
        """Process ids of the probe processes."""
        assert self.process is not None
        path = Path(f"/proc/{self.process.pid}/task")
        found: list[int] = []
        for task in path.iterdir():
            with contextlib.suppress(OSError):
                found += [int(pid) for pid in (task / "children").read_text().split()]
        return found


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    made: list[Daemon] = []

    def make(settings: dict | None = None, environ: dict[str, str] | None = None) -> Daemon:
        directory = tmp_path / f"daemon-{len(made)}"
        directory.mkdir()
        made.append(Daemon(directory, settings, environ))
        return made[-1]

    yield make
    for each in made:
        each.kill()
