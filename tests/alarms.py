"""An exporter at a faster pace, those who watch it, and what the person on call hears: for tests from end to end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from exporter.bundle.alerts import Thresholds, files
from tests.daemons import Daemon
from tests.processes import appliers
from tests.prometheus_stack import Episode, Stack
from tests.scaled import scaled

JOB = "tde-exporter"
WATCHDOG = "TDEWatchdog"
ROUTES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parents[1] / "alerts" / "alertmanager" / "tde-example.yml").read_text()
)
PATIENCE = 150.0
"""Seconds; about five times as long as anything takes that is waited for."""


def at_pace(factor: float, standby_lag_seconds: float = 60.0) -> Thresholds:
    """The alerts at that many times the usual pace. What a busy machine may be late with gets real time: half a minute at
    a factor of 240, as a minute of the usual pace is no more than the blink of an eye."""
    late = 7200.0
    return Thresholds(
        divisor=factor,
        # The host is this one, and busy with tests.
        host_cpu_ratio=1.0,
        canary_stale_after=late,
        collector_failing_for=late,
        target_down_for=late,
        keystore_unknown_for=late,
        standby_unknown_for=late,
        exporter_down_for=1800.0,
        standby_lag_seconds=standby_lag_seconds,
    )


_LEFT_OVER = re.compile(r"\{\{|\}\}|<no value>|NaN|Inf|%!|<error|error ")


class Story:
    """What is done to an exporter and its targets, and what is heard of it."""

    def __init__(self, exporter: Daemon, stack: Stack) -> None:
        self.exporter, self.stack = exporter, stack

    def heard(self, target: str = "") -> list[Episode]:
        """Of one target; without a name, of none: about the exporter."""
        return [
            episode
            for episode in self.stack.receiver.episodes()
            if episode.target == target and episode.name != WATCHDOG
        ]

    def raised(self, name: str, target: str = "", receiver: str = "") -> Episode:
        """Wait until an alert is heard of, by that receiver; it must be fit to be read."""

        def found() -> list[Episode]:
            return [one for one in self.heard(target) if one.name == name and receiver in ("", *one.receivers)]

        self.stack.until(found, f"{name} of {target or 'the exporter'}", PATIENCE)
        episode = found()[0]
        assert_readable(episode)
        return episode

    def over(self, episode: Episode) -> None:
        """Wait until its receivers were told that it is over."""
        self.stack.until(lambda: episode.resolved, f"the end of: {episode}", PATIENCE)

    def state(self, target: str, operation: str) -> str:
        """The word for what is known of the cost of an operation."""
        with contextlib.suppress(httpx.TransportError):
            for (name, labels), value in self.exporter.samples().items():
                wanted = {("target", target), ("operation", operation)}
                if name == "tde_overhead_state" and value == 1 and wanted <= labels:
                    return dict(labels)["state"]
        return ""

    def until_judged(self, target: str, operation: str) -> None:
        """Wait for the first verdict, which takes an hour; it is that all is well, or that the noise is too loud to tell."""
        words = "within_budget", "undecided"
        self.stack.until(
            lambda: self.state(target, operation) in words, f"a verdict on {operation} of {target}", PATIENCE
        )

    def assert_account(self, *expected: tuple[str, str], may: Collection[tuple[str, str]] = ()) -> None:
        """All that was ever heard are these alerts by name and target, each of them once, and nothing but the watchdog;
        what `may` be heard as well, no more than once either."""
        heard = [
            (episode.name, episode.target) for episode in self.stack.receiver.episodes() if episode.name != WATCHDOG
        ]
        assert sorted(set(heard) - set(may)) == sorted(expected), self.stack.story()
        assert len(heard) == len(set(heard)), self.stack.story()
        assert self.stack.prometheus.broken_rules() == []


def assert_readable(episode: Episode) -> None:
    """Whoever is called at night understands it: whole sentences, names and numbers in place of templates, links."""
    summary, description = episode.annotations["summary"], episode.annotations["description"]
    assert episode.target in summary
    assert not summary.endswith(".")
    assert description.endswith(".")
    assert len(description.split()) >= 20
    for text in episode.annotations.values():
        assert not _LEFT_OVER.search(text), text
    assert episode.annotations["runbook_url"].endswith(f"/{episode.name}.md")
    assert episode.target in episode.annotations["dashboard_url"]


@contextlib.contextmanager
def watched(folder: Path, settings: Mapping[str, Any], thresholds: Thresholds) -> Iterator[Story]:
    """An exporter whose first pass is done, at the pace of the thresholds' divisor, and its watchers."""
    exporter = Daemon(folder, dict(settings), scaled(thresholds.divisor))
    (folder / "watching").mkdir()
    try:
        # Before anybody looks: an exporter that has never been there is an alert of its own.
        exporter.start().ready()
        with Stack(folder / "watching", files(thresholds), ROUTES, {JOB: [exporter.port]}, thresholds.divisor) as stack:
            yield Story(exporter, stack)
    finally:
        exporter.kill()
        for pid in appliers(mark=str(folder)):
            # One that stands still does not notice that it is to end.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
