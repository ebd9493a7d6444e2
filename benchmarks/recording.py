"""An exporter that also writes down each single time it measured, for benchmarks that compare them.

It is the daemon itself, in all its processes; only the serving process keeps in memory what it is told, and writes it
down when it ends. The dense snapshot at the start is left out: it is not what such a benchmark is about.

    python -m benchmarks.recording -c CONFIG TARGET FILE
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from pathlib import Path
from typing import Any

from exporter import choice, logs
from exporter.app import App
from exporter.config.schema import Settings
from exporter.domain.clock import SystemClock
from exporter.domain.model import Operation, Tick, Variant
from exporter.probing.messages import Beat, TickDone, ToParent


class Recording(App):
    """Keeps the ticks of one target, and the null canary of the process that probes it."""

    def __init__(self, settings: Settings, target: str, stop: threading.Event) -> None:
        self._target, self._wall = target, SystemClock().wall
        self.ticks: list[dict[str, Any]] = []
        self.noise: list[tuple[float, tuple[float, ...]]] = []
        super().__init__(settings, SystemClock(), stop=stop)

    def _deliver(self, process: int, message: ToParent) -> None:
        super()._deliver(process, message)
        if isinstance(message, Beat) and self._target in self.supervisor.shares[process]:
            self.noise.append((self._wall(), message.noise))
        elif isinstance(message, TickDone) and message.tick.target == self._target:
            self.ticks.append(_noted(message.tick))

    def _wants_snapshot(self, target: str) -> bool:
        return False


def _noted(tick: Tick) -> dict[str, Any]:
    sides = {variant.value: tick.burst(variant).durations for variant in Variant}
    return {"started": tick.started, "operation": tick.operation.value, "dropped": tick.dropped, **sides}


def recorded(file: Path, operation: Operation, begun: float, ended: float) -> tuple[list[dict[str, Any]], list[float]]:
    """The ticks of an operation, and the times of the null canary, between two Unix times."""
    found = json.loads(file.read_text())
    ticks = [tick for tick in found["ticks"] if begun <= tick["started"] < ended and tick["operation"] == operation]
    noise = [seconds for at, values in found["noise"] if begun <= at < ended for seconds in values]
    return ticks, noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-c", "--config", required=True)
    parser.add_argument("target")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    settings = choice.settings(arguments)
    logs.configure(settings.log.level, settings.log.format)
    app = Recording(settings, arguments.target, stop)
    app.run()
    arguments.file.write_text(json.dumps({"ticks": app.ticks, "noise": app.noise}))


if __name__ == "__main__":
    main()
