"""One exporter and the many scripted servers that it watches, and what both use; for `scale.py`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.capacity import descendants, rss_bytes
from benchmarks.provisioned import machine_cpu, prefer, process_cpu, write_config
from benchmarks.scripted import ROWS
from exporter.console import Progress
from tests.servers.room import free_port

SCRAPE_SECONDS = 5.0
PATIENCE = 900.0
"""Seconds until all targets are at work; a thousand take some minutes on two busy cores."""

_UP = re.compile(rb"^tde_target_up\{[^}]*\} 1\.0$", re.MULTILINE)
_MEASURED = re.compile(rb'^tde_exporter_collector_success\{collector="canary",', re.MULTILINE)
_SAMPLE = re.compile(r"^(tde_[a-z_]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_COUNTED = (
    "tde_exporter_runs_skipped_total", "tde_exporter_schedule_lateness_seconds_bucket", "tde_canary_runs_total",
    "tde_canary_contended_total", "tde_exporter_messages_dropped_total", "tde_exporter_series",
    "tde_exporter_series_refused_total", "tde_exporter_page_render_seconds", "tde_exporter_probe_process_starts_total",
    "tde_target_connection_errors_total", "tde_canary_run_failures_total",
)  # fmt: skip
_TAKEN_UP = re.compile(rb"^tde_exporter_config_last_reload_success_timestamp_seconds (\S+)$", re.MULTILINE)
_HEARD = "tde_exporter_collector_last_success_timestamp_seconds"
_LE = re.compile(r'le="([^"]+)"')
_WORD = re.compile(r'(?:reason|operation)="([^"]+)"')


class Counted:
    """What a page says of the exporter, summed over all targets: by name, and by name and `reason` or `operation`."""

    def __init__(self, page: str) -> None:
        self.values: dict[tuple[str, str], float] = {}
        self.lateness: dict[float, float] = {}
        self.at = 0.0
        """When the newest message arrived that the page knows of: it may have been rendered seconds ago."""
        for name, labels, value in _SAMPLE.findall(page):
            if name == _HEARD:
                self.at = max(self.at, float(value))
            if name not in _COUNTED:
                continue
            if found := _LE.search(labels):
                self.lateness[float(found[1])] = float(value)
                continue
            word = found[1] if (found := _WORD.search(labels)) else ""
            self.values[name, word] = self.values.get((name, word), 0.0) + float(value)

    def get(self, name: str, word: str | None = None) -> float:
        """A value, or the sum of all with that name."""
        return sum(value for (held, of), value in self.values.items() if held == name and word in (None, of))


@dataclass(frozen=True)
class Usage:
    """What the processes have used so far; CPU in seconds."""

    at: float
    serving: float
    probing: tuple[float, ...]
    servers: float
    bench: float
    busy: float
    total: float

    def cores_since(self, before: Usage) -> dict[str, float]:
        """Processors that each part kept busy since then, on average; `others` is everybody else on the machine."""
        span = self.at - before.at
        found = {
            "serving": self.serving - before.serving,
            "probing": sum(self.probing) - sum(before.probing),
            "servers": self.servers - before.servers,
            "bench": self.bench - before.bench,
        }
        found["others"] = max(0.0, self.busy - before.busy - sum(found.values()))
        return {name: seconds / span for name, seconds in found.items()}


@dataclass
class Window:
    """What was seen in a while; times in seconds, sizes in bytes."""

    seconds: float
    before: Counted
    after: Counted
    cores: dict[str, float]
    rss: dict[str, int]
    threads: dict[str, int]
    files: dict[str, int]
    scrapes: list[float] = field(default_factory=list)
    page_bytes: int = 0
    gzip_bytes: int = 0

    def rise(self, name: str, word: str | None = None) -> float:
        return self.after.get(name, word) - self.before.get(name, word)

    @property
    def told_seconds(self) -> float:
        """The time between what the two pages tell."""
        return self.after.at - self.before.at

    def lateness(self, share: float) -> float:
        """Upper bound of the bucket that holds this share of the jobs of the window."""
        counts = {le: count - self.before.lateness.get(le, 0.0) for le, count in self.after.lateness.items()}
        total = max(counts.values(), default=0.0)
        return min((le for le, count in counts.items() if total and count >= share * total), default=float("nan"))


def raise_file_limit() -> None:
    """As many open files as this process may have: servers of a thousand targets take three thousand."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Fleet:
    """An exporter that watches `targets` scripted servers. Made by `fleet`."""

    def __init__(self, folder: Path, ports: list[int], servers: subprocess.Popen[bytes], url: str, port: int) -> None:
        self.folder, self.ports, self.url, self._port = folder, ports, url, port
        self._servers = servers
        self.process: subprocess.Popen[bytes] | None = None
        self._asked = 0.0
        (folder / "secret").write_text("not looked at")

    def configure(self, **settings: Any) -> None:
        """Write the configuration; JSON is YAML."""
        password = {"file": str(self.folder / "secret")}
        target = {
            "engine": "mariadb",
            "password": password,
            "tls": {"mode": "disabled"},
            "pairs": [{"name": "main", "rows": ROWS}],
        }
        targets = [{**target, "name": f"db-{place:04d}", "port": port} for place, port in enumerate(self.ports)]
        # Sentences about grants that the scripted servers lack, a thousand times, are no news.
        write_config(self.folder, {"targets": targets, "log": {"level": "error"}, **settings})

    def start(self, preferred: bool) -> None:
        """Start the exporter; see `prefer`."""
        command = [sys.executable, "-m", "exporter", "-c", str(self.folder / "config.yaml"), "run"]
        environ = {
            **os.environ,
            "TDE_EXPORTER_STATE_DIRECTORY": str(self.folder / "state"),
            "TDE_EXPORTER_WEB__PORT": str(self._port),
        }
        self.process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
        if preferred:
            prefer(os.getpid(), self._servers.pid, self.process.pid)

    def reload(self) -> None:
        assert self.process is not None
        self._asked = time.time()
        self.process.send_signal(signal.SIGHUP)

    def scrape(self, packed: bool) -> bytes:
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Accept-Encoding": "gzip"} if packed else {})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def at_work(self) -> int:
        """How many targets the newest page calls up and measured once; 0 while there is none, or none since the reload."""
        with contextlib.suppress(OSError):
            page = self.scrape(packed=False)
            taken_up = _TAKEN_UP.search(page)
            if taken_up is None or float(taken_up[1]) < self._asked:
                return 0
            return min(len(_UP.findall(page)), len(_MEASURED.findall(page)))
        return 0

    def wait_until_at_work(self, progress: Progress, what: str) -> float:
        """Seconds until all targets have had their first tick; before it comes the dense measurement of a new target."""
        assert self.process is not None
        begun, up = time.monotonic(), -1
        while up < len(self.ports):
            if self.process.poll() is not None:
                raise SystemExit(f"the exporter ended with {self.process.returncode}")
            if time.monotonic() - begun > PATIENCE:
                raise SystemExit(f"only {up} of {len(self.ports)} targets were at work after {PATIENCE:.0f} s")
            time.sleep(1.0 if len(self.ports) < 500 else 3.0)
            up = self.at_work()
            progress(what, min(0.99, up / len(self.ports)))
        return time.monotonic() - begun

    def _newer_than(self, at: float) -> bytes:
        """A page that knows of later messages."""
        for _ in range(60):
            if Counted((page := self.scrape(packed=False)).decode()).at > at:
                return page
            time.sleep(1.0)
        raise SystemExit("the page has not changed for a minute")

    # -- what is used ----------------------------------------------------------------------------

    def pids(self) -> dict[str, int]:
        assert self.process is not None
        own = self.process.pid
        return {"serving": own} | {f"probing {place}": pid for place, pid in enumerate(descendants(own))}

    def usage(self) -> Usage:
        pids = self.pids()
        busy, total = machine_cpu()
        probing = tuple(process_cpu(pid) for name, pid in pids.items() if name != "serving")
        ours = time.process_time()
        return Usage(
            time.monotonic(), process_cpu(pids["serving"]), probing, process_cpu(self._servers.pid), ours, busy, total
        )

    def watch(self, seconds: float, progress: Progress, what: str) -> Window:
        """Look on for so long, and scrape as Prometheus does."""
        scrapes: list[float] = []
        sizes: list[int] = []
        stopping = threading.Event()

        def scraping() -> None:
            while not stopping.wait(min(SCRAPE_SECONDS, seconds / 4)):
                begun = time.monotonic()
                sizes.append(len(self.scrape(packed=True)))
                scrapes.append(time.monotonic() - begun)

        first = Counted(self.scrape(packed=False).decode())
        before = self.usage()
        scraper = threading.Thread(target=scraping, daemon=True)
        scraper.start()
        while (elapsed := time.monotonic() - before.at) < seconds:
            progress(what, elapsed / seconds)
            time.sleep(min(0.5, seconds - elapsed))
        after = self.usage()
        stopping.set()
        scraper.join(60)
        page = self._newer_than(first.at)
        pids = self.pids()
        return Window(
            seconds=after.at - before.at,
            before=first,
            after=Counted(page.decode()),
            cores=after.cores_since(before),
            rss={name: rss_bytes(pid) for name, pid in pids.items()},
            threads={name: _entries(pid, "task") for name, pid in pids.items()},
            files={name: _entries(pid, "fd") for name, pid in pids.items()},
            scrapes=sorted(scrapes),
            page_bytes=len(page),
            gzip_bytes=max(sizes, default=0),
        )


def _entries(pid: int, what: str) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/{what}").iterdir())


@contextlib.contextmanager
def fleet(targets: int, latency: float) -> Iterator[Fleet]:
    """Start scripted servers; the exporter is configured and started by whoever uses the fleet, and ended here."""
    raise_file_limit()
    command = [sys.executable, "-m", "benchmarks.scripted", "--servers", str(targets), "--latency", str(latency)]
    with tempfile.TemporaryDirectory() as directory:
        servers = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert servers.stdin is not None
        assert servers.stdout is not None
        made: Fleet | None = None
        try:
            ports = json.loads(servers.stdout.readline())["ports"]
            port = free_port()
            made = Fleet(Path(directory), ports, servers, f"http://127.0.0.1:{port}", port)
            yield made
        finally:
            if made is not None and made.process is not None:
                made.process.send_signal(signal.SIGTERM)
                made.process.wait(30)
            servers.stdin.close()
            said = servers.stdout.readline()
            servers.wait(10)
        if said and (unknown := json.loads(said)["unknown"]):
            raise SystemExit(f"the scripted servers were asked what is not in their script: {unknown[:3]}")
