"""How many targets one exporter carries, and whether it disturbs its own measurements.

Two exporters run one after the other on the same machine: one with a single idle target that nobody
scrapes (the noise floor alone), one with many scripted targets whose page is scraped every second. The
table compares them: lateness of the schedule, the null canary, memory, CPU and scrape time.

    python benchmarks/capacity.py [--targets 100] [--seconds 60]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from exporter.console import Progress, table

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Measured:
    """What one run showed."""

    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]
    cpu_share: dict[str, float]
    rss: dict[str, int]
    scrapes: list[float] = field(default_factory=list)
    page_bytes: int = 0

    def total(self, name: str) -> float:
        return sum(value for (sample, _), value in self.samples.items() if sample == name)

    def quantile(self, histogram: str, q: float) -> float:
        """The upper bound of the bucket that holds the quantile."""
        buckets: dict[float, float] = {}
        for (sample, labels), value in self.samples.items():
            if sample == f"{histogram}_bucket":
                le = float(dict(labels)["le"])
                buckets[le] = buckets.get(le, 0.0) + value
        total = max(buckets.values(), default=0.0)
        return min((le for le, count in buckets.items() if total and count >= q * total), default=float("nan"))


def settings(targets: int, canary: str) -> dict[str, object]:
    """Scripted targets with queries of about a millisecond; JSON is YAML."""
    return {
        "targets": [
            {"name": f"scripted-{number:04d}", "engine": "fake", "seed": number, "intervals": {"canary": canary}}
            for number in range(targets)
        ]
    }


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def scrape(url: str) -> bytes:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        return bytes(answer.read())


def run(targets: int, seconds: float, scraped: bool, canary: str, label: str) -> Measured:
    """Start an exporter, let it settle, watch it for `seconds`, and stop it."""
    with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        config = Path(directory) / "config.yaml"
        config.write_text(json.dumps(settings(targets, canary)))
        environ = {
            **os.environ,
            "TDE_EXPORTER_STATE_DIRECTORY": f"{directory}/state",
            "TDE_EXPORTER_WEB__PORT": str(port),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "exporter", "-c", str(config), "run"], env=environ, stdout=subprocess.DEVNULL
        )
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until_ready(url)
            return _watch(process.pid, url, seconds, scraped, label)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=5):
            return
        time.sleep(0.2)
    raise SystemExit("the exporter did not become ready within two minutes")


def _watch(pid: int, url: str, seconds: float, scraped: bool, label: str) -> Measured:
    pids = {"serving process": pid}
    pids |= {f"probe process {number}": child for number, child in enumerate(descendants(pid))}
    progress, scrapes, stopping = Progress(), [], threading.Event()

    def scraping() -> None:
        while not stopping.wait(1.0):
            begun = time.monotonic()
            scrape(url)
            scrapes.append(time.monotonic() - begun)

    before = {name: cpu_seconds(each) for name, each in pids.items()}
    begun = time.monotonic()
    scraper = threading.Thread(target=scraping)
    if scraped:
        scraper.start()
    while (elapsed := time.monotonic() - begun) < seconds:
        progress(f"measuring {label}", elapsed / seconds)
        time.sleep(0.5)
    stopping.set()
    if scraped:
        scraper.join()
    progress.done()
    elapsed = time.monotonic() - begun
    page = scrape(url)
    return Measured(
        samples={
            (sample.name, tuple(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(page.decode())
            for sample in family.samples
        },
        cpu_share={name: (cpu_seconds(each) - before[name]) / elapsed for name, each in pids.items()},
        rss={name: rss_bytes(each) for name, each in pids.items()},
        scrapes=sorted(scrapes),
        page_bytes=len(page),
    )


def milliseconds(seconds: float) -> str:
    return "–" if seconds != seconds else f"{seconds * 1e3:.3f} ms"


def report(alone: Measured, loaded: Measured, targets: int) -> str:
    noise, late = "tde_exporter_timer_noise_seconds", "tde_exporter_schedule_lateness_seconds"
    rows = [
        (
            f"null canary p{q * 100:g} (bucket)",
            milliseconds(alone.quantile(noise, q)),
            milliseconds(loaded.quantile(noise, q)),
        )
        for q in (0.5, 0.9, 0.99)
    ]
    rows += [
        (
            f"schedule lateness p{q * 100:g} (bucket)",
            milliseconds(alone.quantile(late, q)),
            milliseconds(loaded.quantile(late, q)),
        )
        for q in (0.5, 0.99, 1.0)
    ]
    rows.append(
        (
            "canary samples",
            f"{alone.total('tde_canary_runs_total'):.0f}",
            f"{loaded.total('tde_canary_runs_total'):.0f}",
        )
    )
    rows.append(
        (
            "contended ticks",
            f"{alone.total('tde_canary_contended_total'):.0f}",
            f"{loaded.total('tde_canary_contended_total'):.0f}",
        )
    )
    rows.append(
        (
            "runs skipped",
            f"{alone.total('tde_exporter_runs_skipped_total'):.0f}",
            f"{loaded.total('tde_exporter_runs_skipped_total'):.0f}",
        )
    )
    for name in loaded.cpu_share:
        rows.append((f"CPU, {name}", _share(alone, name), _share(loaded, name)))
        rows.append((f"memory, {name}", _mebibytes(alone, name), _mebibytes(loaded, name)))
    rows.append(
        (
            "series on the page",
            f"{alone.total('tde_exporter_series'):.0f}",
            f"{loaded.total('tde_exporter_series'):.0f}",
        )
    )
    rows.append(("page size", f"{alone.page_bytes / 1024:.0f} KiB", f"{loaded.page_bytes / 1024:.0f} KiB"))
    for q in (0.5, 0.99, 1.0):
        at = min(len(loaded.scrapes) - 1, int(q * len(loaded.scrapes)))
        rows.append((f"scrape time p{q * 100:g}", "not scraped", milliseconds(loaded.scrapes[at])))
    return table(("", "1 idle target", f"{targets} targets, scraped each second"), rows)


def _share(measured: Measured, name: str) -> str:
    return f"{measured.cpu_share[name]:.1%} of a core" if name in measured.cpu_share else "–"


def _mebibytes(measured: Measured, name: str) -> str:
    return f"{measured.rss[name] / 2**20:.0f} MiB" if name in measured.rss else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    alone = run(1, arguments.seconds, scraped=False, canary="1h", label="one idle target")
    loaded = run(arguments.targets, arguments.seconds, scraped=True, canary="10s", label=f"{arguments.targets} targets")
    print(report(alone, loaded, arguments.targets))


if __name__ == "__main__":
    main()
