"""What the exporter takes when it only does its work: the embedded default, nobody scrapes it, nobody looks at it.

CPU and memory of each process over some time, after the first snapshot.

    python benchmarks/at_rest.py [--seconds 60]
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from benchmarks.capacity import cpu_seconds, descendants, rss_bytes, scrape, wait_until_ready
from exporter.console import Progress, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        environ = {
            **os.environ,
            "TDE_EXPORTER_STATE_DIRECTORY": directory,
            "TDE_EXPORTER_WEB__PORT": str(port),
        }
        process = subprocess.Popen([sys.executable, "-m", "exporter", "run"], env=environ, stdout=subprocess.DEVNULL)
        try:
            wait_until_ready(f"http://127.0.0.1:{port}")
            print(table(("", "CPU", "memory"), watch(process.pid, arguments.seconds)))
            print(loads(scrape(f"http://127.0.0.1:{port}")))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def watch(pid: int, seconds: float) -> list[tuple[str, str, str]]:
    """A row for each process, and one for all."""
    # The snapshot is done, and what it left behind is cleared away.
    time.sleep(5.0)
    pids = {"serving process": pid} | {
        f"probe process {number}": child for number, child in enumerate(descendants(pid))
    }
    progress, before, begun = Progress(), {name: cpu_seconds(each) for name, each in pids.items()}, time.monotonic()
    while (elapsed := time.monotonic() - begun) < seconds:
        progress("at rest", elapsed / seconds)
        time.sleep(0.5)
    progress.done()
    shares = {name: (cpu_seconds(each) - before[name]) / elapsed for name, each in pids.items()}
    sizes = {name: rss_bytes(each) for name, each in pids.items()}
    rows = [(name, f"{shares[name]:.2%} of a core", f"{sizes[name] / 2**20:.0f} MiB") for name in pids]
    total = f"{sum(shares.values()):.2%} of a core"
    return [*rows, ("all", total, f"{sum(sizes.values()) / 2**20:.0f} MiB")]


def loads(page: bytes) -> str:
    """What the canaries themselves took, as the page tells it."""
    wanted = ("tde_canary_budget_used_ratio", "tde_exporter_page_render_seconds", "tde_exporter_series ")
    return "\n".join(line for line in page.decode().splitlines() if line.startswith(wanted))


if __name__ == "__main__":
    main()
