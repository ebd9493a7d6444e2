"""Prometheus, Alertmanager and somebody who is called: real processes on loopback, all at the pace of the test.

    with Stack(folder, rules, routes, {"tde-exporter": [exporter.port]}, factor=240.0) as stack:
        stack.until(lambda: stack.receiver.episodes("TDETargetDown"), "the call")

`rules` are rule files by name; `routes` is a configuration of Alertmanager, such as the example that is shipped: its
waiting times are divided by `factor`, and every receiver that does anything becomes a webhook of the test. Who is called hears one *episode*
for each time that an alert begins, however often Alertmanager repeats it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
import yaml

from exporter.bundle.alerts.thresholds import duration
from exporter.config.quantities import parse_duration
from tests.alerts.alertmanager import Alertmanager, tool
from tests.servers.room import free_port

SCRAPE = "250ms"
_WAITS = ("group_wait", "group_interval", "repeat_interval")


@dataclass
class Episode:
    """One time that an alert was raised, as its receivers heard of it: from the first word to the word that it is over."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    receivers: set[str] = field(default_factory=set)
    resolved: bool = False

    @property
    def target(self) -> str:
        return self.labels.get("target", "")

    def __str__(self) -> str:
        end = "resolved" if self.resolved else "firing"
        return (
            f"{self.name} of {self.target or 'the exporter'} ({end}, {self.labels}): {self.annotations.get('summary')}"
        )


class Receiver:
    """What Alertmanager calls; `/NAME` is the address of the receiver of that name."""

    def __init__(self) -> None:
        self._episodes: list[Episode] = []
        self._open: dict[str, Episode] = {}
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.hear(self.path.strip("/"), json.loads(body)["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def hear(self, name: str, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Take one notification."""
        with self._lock:
            for alert in alerts:
                if alert["status"] == "resolved":
                    if episode := self._open.pop(alert["fingerprint"], None):
                        episode.resolved = True
                    continue
                if alert["fingerprint"] not in self._open:
                    episode = Episode(alert["labels"]["alertname"], dict(alert["labels"]), {})
                    self._open[alert["fingerprint"]] = episode
                    self._episodes.append(episode)
                episode = self._open[alert["fingerprint"]]
                # What the alert says follows the numbers while it lasts.
                episode.annotations = dict(alert["annotations"])
                episode.receivers.add(name)

    def episodes(self, name: str = "", **labels: str) -> list[Episode]:
        """In the order in which they were first heard of."""
        with self._lock:
            return [
                episode
                for episode in self._episodes
                if name in ("", episode.name) and set(labels.items()) <= set(episode.labels.items())
            ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10.0)


class Prometheus:
    """A Prometheus that scrapes the given ports of this machine and evaluates rules."""

    def __init__(self, folder: Path, rules: Mapping[str, str], jobs: Mapping[str, Sequence[int]], alertmanager: int):
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "prometheus.log"
        # Kept, for making one costs more than asking.
        self._client = httpx.Client(timeout=20.0, limits=httpx.Limits(max_keepalive_connections=0))
        self._ports = sum(map(len, jobs.values()))
        for name, text in rules.items():
            (folder / name).write_text(text)
        config = {
            "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": SCRAPE},
            "rule_files": [str(folder / name) for name in rules],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]},
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
                for job, ports in jobs.items()
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until it has scraped and evaluated."""
        command = [
            str(tool("prometheus")),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            # What it says before it has found Alertmanager, which takes it five seconds, it says again.
            "--rules.alert.resend-delay=2s",
            "--log.level=warn",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API."""
        answer = self._client.get(f"{self.url}/api/v1/{path}", params=parameters)
        answer.raise_for_status()
        return answer.json()["data"]

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The samples of an instant vector: `metric`, and `value` with time and value."""
        found: list[dict[str, Any]] = self.get("query", query=expr)["result"]
        return found

    def value(self, expr: str) -> float | None:
        """The one sample; None when there is none."""
        found = self.query(expr)
        assert len(found) <= 1, f"{expr} is not one sample"
        return float(found[0]["value"][1]) if found else None

    def broken_rules(self) -> list[str]:
        """Rules that could not be evaluated the last time, with what Prometheus says of them."""
        groups = self.get("rules")["groups"]
        return [
            f"{rule['name']}: {rule['lastError']}"
            for group in groups
            for rule in group["rules"]
            if rule.get("lastError")
        ]

    def ready(self) -> bool:
        """Whether it answers and has scraped every target."""
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(httpx.HTTPError):
            return len(self.query("up")) == self._ports
        return False

    def stop(self) -> None:
        """End it, whatever it does."""
        if self.process is not None and self.process.poll() is None:
            # Nobody needs its data any more.
            self.process.kill()
            self.process.wait(10.0)


def paced_routes(routes: Mapping[str, Any], factor: float, url: str) -> dict[str, Any]:
    """A configuration of Alertmanager with its waiting times divided, and all receivers that do anything at `url`."""

    def divided(value: Any) -> Any:
        if isinstance(value, list):
            return [divided(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {key: _divided(one, factor) if key in _WAITS else divided(one) for key, one in value.items()}

    found: dict[str, Any] = divided(dict(routes))
    found["receivers"] = [
        {"name": receiver["name"], "webhook_configs": [{"url": f"{url}/{receiver['name']}", "send_resolved": True}]}
        if len(receiver) > 1
        else receiver
        for receiver in routes["receivers"]
    ]
    return found


def _divided(text: str, factor: float) -> str:
    seconds = parse_duration(text)
    assert isinstance(seconds, float), f"{text} is no duration"
    return duration(max(0.001, seconds / factor))


class Stack:
    """All of them, started and stopped together."""

    def __init__(
        self,
        folder: Path,
        rules: Mapping[str, str],
        routes: Mapping[str, Any],
        jobs: Mapping[str, Sequence[int]],
        factor: float = 1.0,
    ) -> None:
        self.receiver = Receiver()
        config = folder / "alertmanager.yml"
        config.write_text(yaml.safe_dump(paced_routes(routes, factor, self.receiver.url)))
        (folder / "alertmanager").mkdir()
        self.alertmanager = Alertmanager(folder / "alertmanager", config)
        self.prometheus = Prometheus(folder, rules, jobs, self.alertmanager.port)

    def until(self, condition: Callable[[], object], what: str, patience: float = 150.0) -> None:
        """Wait for a condition; fail with what was heard meanwhile."""
        deadline = time.monotonic() + patience
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"waited {patience:.0f} s in vain for: {what}\n{self.story()}")
            time.sleep(0.05)

    def story(self) -> str:
        """All that was heard, and what is known to Prometheus but not heard."""
        told = ["heard:", *(str(episode) for episode in self.receiver.episodes())]
        with contextlib.suppress(httpx.HTTPError):
            known = self.prometheus.get("alerts")["alerts"]
            told += ["in Prometheus:", *(f"{one['state']}: {one['labels']}" for one in known)]
            told += ["broken:", *self.prometheus.broken_rules()]
        return "\n".join(told)

    def __enter__(self) -> Self:
        self._stack = contextlib.ExitStack()
        with self._stack:
            self._stack.enter_context(self.receiver)
            self._stack.enter_context(self.alertmanager)
            self._stack.callback(self.prometheus.stop)
            self.prometheus.start()
            self.until(self.prometheus.ready, "Prometheus to be ready")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
