"""Ten thousand runs, a fifth of which fail in every way there is: does anything grow?

Two parts. In the first, one process holds everything that a daemon consists of but its threads, and its clock goes at a
minute a run, so that the windows of a week are full when measuring begins: whatever still grows then is lost. In the
second, a daemon as operators run it probes many scripted targets and a MariaDB whose sessions are ended all the time.
Twenty minutes pass in each of its seconds, so that the windows of a week are full after ten minutes as well; memory, threads,
files, and sessions on the server must not grow from then on.

    python -m benchmarks.soak [--runs 10000] [--targets 50]
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import http.client
import itertools
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.figures import note
from exporter import logs
from exporter.app import PRUNE_SECONDS, SAVE_SECONDS, App
from exporter.config.schema import Settings, settings_type
from exporter.console import Progress, table
from exporter.domain.clock import FakeClock
from exporter.domain.errors import Reason
from exporter.engines import registry
from exporter.probing.messages import CANARY, CollectorDone, ToParent
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile
from tests.daemons import Daemon, Page, free_port
from tests.scaled import scaled
from tests.servers.mariadb import MariaDbServer
from tests.watched import POOL_MB, Watched

WEEK = 7 * 24 * 60 + 60
"""Minutes after which nothing older is remembered."""
SAMPLES = 5
FACTOR = 1200.0
"""Seconds that pass in one second of the daemon, so that the windows of a day are full within minutes."""
FULL = 1.05 * 7 * 86400.0 / FACTOR
"""Real seconds after which the windows of a week are full as well."""
SESSIONS = 3
"""What budgets.sessions allows on the MariaDB; two are used."""
_CALLS = 2 * SAMPLES
MEMORY = "memory (KiB)"
PAGE = os.sysconf("SC_PAGE_SIZE")


def faults(seed: int, often: int = 1) -> list[dict[str, Any]]:
    """Each reason, hangs, and what goes wrong beside queries; `often` 1 spoils a fifth of the runs."""
    rng = random.Random(seed)

    def fault(call: str, reason: Reason | None, every: int) -> dict[str, Any]:
        kind = {"kind": "hang"} if reason is None else {"kind": "error", "reason": reason.value}
        return {**kind, "call": call, "first": rng.randrange(1, every), "every": every}

    queries = [fault("run", reason, (1500 + 7 * number) // often) for number, reason in enumerate(Reason)]
    # None is followed by one of its kind at once: four in a row would bring about longer and longer rests.
    opens = (Reason.CONNECT, Reason.UNAVAILABLE, Reason.AUTH, Reason.TLS, Reason.TIMEOUT)
    others = (
        ("verify", Reason.VERIFICATION, 17),
        ("prepare", Reason.PERMISSION, 5),
        ("encryption_state", Reason.KEYSTORE, 13),
        ("activity", Reason.PERMISSION, 7),
        ("heartbeat", Reason.LOCK_TIMEOUT, 9),
        ("standbys", Reason.CONNECT, 29),
    )
    return [
        *queries,
        fault("run", None, 501 // often),
        *({**fault("open", reason, 23), "first": 2 + number} for number, reason in enumerate(opens)),
        *(fault(*other) for other in others),
    ]


def scripted(name: str, seed: int, often: int = 1, **intervals: str) -> dict[str, Any]:
    """A target that only says how long it took, and often fails."""
    return {
        "name": name,
        "engine": "fake",
        "seed": seed,
        "real_time": False,
        "operations": ["point_select"],
        "standbys": [{"name": "east"}],
        "faults": faults(seed, often),
        "intervals": intervals,
        "budgets": {"time_share_ratio": 1.0},
    }


def settings(*targets: dict[str, Any], timeout: str = "10ms", **more: Any) -> dict[str, Any]:
    few = {"point_select": {"samples": SAMPLES, "timeout": timeout}}
    return {"targets": list(targets), "operations": few, "probes": {"processes": 1}, **more}


@dataclass
class Readings:
    """What was read of one process, in the course of its runs."""

    runs: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, runs: float, **values: float) -> None:
        self.runs.append(runs)
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def slope(self, name: str, runs: float = 10_000) -> float:
        """By how much it grows in so many runs: the median of the slopes between any two readings (Theil-Sen)."""
        pairs = itertools.combinations(zip(self.runs, self.values[name], strict=True), 2)
        return runs * statistics.median((b - a) / (late - early) for (early, a), (late, b) in pairs if late > early)

    def rows(self, process: str) -> list[tuple[str, ...]]:
        return [
            (process, name, f"{seen[0]:,.0f}", f"{seen[-1]:,.0f}", f"{max(seen):,.0f}", f"{self.slope(name):+,.1f}")
            for name, seen in self.values.items()
        ]


def of_process(pid: int) -> dict[str, float]:
    """Memory in KiB, threads and files of a process."""
    folder = Path(f"/proc/{pid}")
    return {
        MEMORY: int((folder / "statm").read_text().split()[1]) * PAGE / 1024,
        "threads": len(list((folder / "task").iterdir())),
        "files": len(list((folder / "fd").iterdir())),
    }


# -- everything in one process ----------------------------------------------------------------------------


class Accelerated(App):
    """Probes its one target itself, and does by turns what the threads of a daemon do."""

    def __init__(self, settings: Settings, clock: FakeClock) -> None:
        super().__init__(settings, clock)
        self._fake = clock
        self.runs = self.failed = 0
        self._beat = 0
        (target,) = settings.targets
        self._interval = settings.intervals_of(target).canary
        self._rounds = Rounds(settings, target, Turnstile(), self._heard, clock, random.Random(1))
        self._due = {"save": 0.0, "prune": 0.0}
        self._up_changed(0, True)

    def _heard(self, message: ToParent) -> None:
        if isinstance(message, CollectorDone) and message.collector == CANARY:
            self.runs += 1
            self.failed += bool(message.words)
        self._deliver(0, message)

    def run_once(self) -> None:
        """One interval: each collector, what is to be written, a page."""
        self._rounds.canary()
        self._rounds.heartbeat()
        self._rounds.standby()
        self._rounds.activity()
        if self._beat % 30 == 0:
            self._rounds.encryption_state()
            self.renderer.render_once()
        self._beat += 1
        self._fake.advance(self._interval)
        now = self._fake.monotonic()
        if now >= self._due["save"]:
            self._due["save"] = now + SAVE_SECONDS
            self._save_blocks()
        if now >= self._due["prune"]:
            self._due["prune"] = now + PRUNE_SECONDS
            self.history.prune()
        self.chronicle.step()
        self._step_verdicts()

    def close(self) -> None:
        self._rounds.close()
        self.history.close()
        self._socket.close()


def accelerated(folder: Path, interval: float, warm: int, runs: int, every: int) -> tuple[Readings, float]:
    """Readings of this process after `warm` intervals, in the course of `runs` more; the share of runs that failed."""
    raw = settings(
        scripted("scripted", 1, canary=f"{interval:g}s", activity=f"{interval:g}s", standby=f"{interval:g}s"),
        state_directory=str(folder),
        web={"port": free_port()},
        history={"retention": "1d"},
    )
    app = Accelerated(settings_type(registry.target_types()).model_validate(raw), FakeClock())
    readings, progress = Readings(), Progress()
    try:
        for number in range(warm + runs + 1):
            if number >= warm and (number - warm) % every == 0:
                gc.collect()
                readings.add(number, **of_process(os.getpid()), blocks=sys.getallocatedblocks())
                progress(f"{number} of {warm + runs} intervals", number / (warm + runs))
            app.run_once()
        return readings, app.failed / app.runs
    finally:
        progress.done()
        app.close()


# -- a daemon ---------------------------------------------------------------------------------------------
class Sessions:
    """Ends the sessions of an account every now and then, and counts them all the while.

    A session that was ended is listed until its thread has noticed, which a busy server may put off; it is not counted.
    """

    def __init__(self, watched: Watched, pause: float = 2.0) -> None:
        self._watched, self._pause = watched, pause
        self.most = self.killed = self.now = 0
        self._ended: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(0.1):
            found = set(self._watched.session_ids())
            self.now = len(found - self._ended)
            self.most = max(self.most, self.now)
            if time.monotonic() >= due:
                self._ended |= found
                self.killed += self._watched.kill_sessions()
                due = time.monotonic() + self._pause

    def __enter__(self) -> Sessions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)


@dataclass
class Soaked:
    """What a daemon showed: its serving process, its probe process, the sessions on the server."""

    serving: Readings
    probing: Readings
    sessions: Readings
    runs: float
    failed: float  # for each run
    most_sessions: int
    killed_sessions: int
    longest_scrape: float
    stop: float


def scraped(port: int) -> str:
    """The page as a scraper gets it, by a client that takes less time than the answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20.0)) as connection:
        connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
        answer = connection.getresponse()
        text = answer.read().decode()
    assert answer.status == 200, text
    return text


def soak(daemon: Daemon, watched: Watched, enough: float, every: float, warm: float, seconds: float = 0.0) -> Soaked:
    """Let a daemon run for `warm` seconds, and then for `enough` runs and so many `seconds`, in which it is read every so
    many seconds."""
    daemon.start().ready()
    (probe,) = daemon.children()
    assert daemon.process is not None
    serving, probing, held = Readings(), Readings(), Readings()
    longest, runs, begun, progress = 0.0, 0.0, time.monotonic(), Progress()
    with Sessions(watched) as sessions:
        while time.monotonic() - begun < warm + seconds or not serving.runs or runs - serving.runs[0] < enough:
            time.sleep(every)
            asked = time.monotonic()
            text = scraped(daemon.port)
            longest = max(longest, time.monotonic() - asked)
            page = Page(text)
            runs = page.total("tde_canary_runs_total") / _CALLS
            if time.monotonic() - begun >= warm:
                serving.add(runs, **of_process(daemon.process.pid))
                probing.add(runs, **of_process(probe))
                held.add(runs, sessions=sessions.now)
            progress(f"{runs:.0f} runs", 0.0)
        failed = page.total("tde_canary_run_failures_total") / runs
        assert daemon.children() == [probe], "the probe process is another one"
    progress.done()
    stop = daemon.stop()
    return Soaked(serving, probing, held, runs, failed, sessions.most, sessions.killed, longest, stop)


def daemon_settings(watched: Watched, targets: int, often: int = 1, factor: float = 1.0) -> dict[str, Any]:
    """Scripted targets and the server, with the shortest intervals, where `factor` seconds pass in one."""
    seconds = {"canary": 1, "encryption_state": 6, "activity": 2, "standby": 2, "heartbeat": 1}
    quick = {name: f"{each * factor:g}s" for name, each in seconds.items()}
    server = watched.target(budgets={"time_share_ratio": 1.0, "sessions": SESSIONS}, intervals=quick)
    every = [scripted(f"scripted-{number:02d}", number, often, **quick) for number in range(targets)]
    return settings(*every, server, timeout="2s")


HEADER = ("process", "what", "first", "last", "most", "growth in 10 000 runs")


def in_one(folder: Path, runs: int) -> Readings:
    """The first part, and its table."""
    load = os.getloadavg()[0]
    alone, share = accelerated(folder, 60.0, warm=WEEK, runs=runs, every=250)
    print(table(HEADER, alone.rows("all in one"), left=2))
    note(
        "soak, all in one process, a minute a run",
        load,
        **{"runs": round(alone.runs[-1] - alone.runs[0]), "of these failed": share},
        **{"memory growth in 10 000 runs (KiB)": alone.slope(MEMORY)},
        **{"growth of pieces of memory in 10 000 runs": alone.slope("blocks")},
    )
    return alone


def of_daemon(folder: Path, runs: int, targets: int, warm: float = FULL) -> Soaked:
    """The second part, and its table; read from `warm` seconds on."""
    load = os.getloadavg()[0]
    with MariaDbServer("11.8", buffer_pool_mb=POOL_MB) as server:
        watched = Watched(server, folder)
        made = watched.provision()
        assert made.returncode == 0, made.stderr
        daemon = Daemon(folder, daemon_settings(watched, targets, factor=FACTOR), scaled(FACTOR))
        try:
            found = soak(daemon, watched, runs, every=2.0, warm=warm)
        finally:
            daemon.kill()
    filling = "" if warm >= FULL else ", windows filling"
    rows = [*found.serving.rows("serving"), *found.probing.rows("probing"), *found.sessions.rows("MariaDB")]
    print(table(HEADER, rows, left=2))
    note(
        f"soak, a daemon with {targets} targets",
        load,
        **{"runs": round(found.runs), "failures for each of them": found.failed},
        **{f"memory growth in 10 000 runs, probing{filling} (KiB)": found.probing.slope(MEMORY)},
        **{f"memory growth in 10 000 runs, serving{filling} (KiB)": found.serving.slope(MEMORY)},
        **{"growth of threads": found.serving.slope("threads") + found.probing.slope("threads")},
        **{"growth of files": found.serving.slope("files") + found.probing.slope("files")},
        **{"sessions ended on the server": found.killed_sessions, "sessions, at most": found.most_sessions},
        **{"sessions above the cap": max(0, found.most_sessions - SESSIONS)},
        **{"longest scrape (s)": found.longest_scrape, "stop (s)": found.stop},
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--targets", type=int, default=50)
    arguments = parser.parse_args()
    logs.configure("error", "logfmt")
    with tempfile.TemporaryDirectory() as folder:
        in_one(Path(folder) / "one", arguments.runs)
        of_daemon(Path(folder), arguments.runs, arguments.targets)


if __name__ == "__main__":
    main()
