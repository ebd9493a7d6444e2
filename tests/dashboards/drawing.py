"""The dashboards drawn from a made-up history: what `make render-dashboards` does.

    python -m tests.dashboards.drawing .cache/pictures [LOOK...]

Needs promtool and prometheus of `tools/get_prometheus.sh`; fetches Node.js, packages and a browser where they are missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.dashboards import synthetic
from tests.dashboards.served import serving

ROOT = Path(__file__).resolve().parents[2]

LOOKS = ("1600-dark", "1600-light", "1280-dark", "1280-light", "1600-dark-deuteranopia", "1280-light-deuteranopia")
"""Width of the page, theme, and how its reader sees colours."""

VALUES = ("tde-target:target=orders", "tde-target:operation=range_select", "tde-enablement:compare=2h")
"""What is chosen: a database that shows most, and its operation that is over budget."""

HOURS, STEP = 12.5, 60
"""More than the longest of the dashboards shows by itself; seconds between two scrapes."""


def make_history(folder: Path, promtool: Path, end: int) -> None:
    """Writes blocks of the made-up fleet's hours before `end` into `folder/data`."""
    text = folder / "history.om"
    synthetic.write(text, synthetic.World(end, HOURS, STEP))
    command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(command, check=True, capture_output=True)
    text.unlink()


def fetched(*command: str) -> str:
    """What a script of `tools/` fetched, as a path: it says so on its output, and on stderr what it does."""
    return subprocess.run(
        [ROOT / "tools" / command[0], *command[1:]], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def draw(url: str, end: int, out: Path, looks: Iterable[str], dashboards: Sequence[Path]) -> list[dict[str, Any]]:
    """Draws from the Prometheus at `url` into `out`; its report, a picture each: dashboard, look, errors, empty, cut, panels."""
    command = [
        str(Path(fetched("get_node.sh")) / "node"),
        str(ROOT / "tools" / "render-dashboards" / "render.mjs"),
        f"--packages={fetched('get_node_packages.sh', 'render-dashboards')}",
        f"--chromium={fetched('get_chromium.sh')}",
        f"--prometheus={url}",
        f"--to={end}",
        f"--scrape={STEP}",
        f"--out={out}",
        *(f"--look={look}" for look in looks),
        *(f"--value={value}" for value in VALUES),
        *map(str, dashboards),
    ]
    ran = subprocess.run(command, check=False)
    assert ran.returncode in (0, 1), f"render.mjs ended with {ran.returncode}"
    report: list[dict[str, Any]] = json.loads((out / "report.json").read_text())
    return report


def main() -> None:
    """The command."""
    out, looks = Path(sys.argv[1]).resolve(), sys.argv[2:] or LOOKS
    binaries = ROOT / ".cache" / "prometheus" / "usr" / "bin"
    # A whole hour: the same times of day stand below the graphs of every picture.
    end = int(time.time()) // 3600 * 3600
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_history(folder, binaries / "promtool", end)
        with serving(binaries / "prometheus", folder) as url:
            report = draw(url, end, out, looks, sorted((ROOT / "dashboards").glob("tde-*.json")))
    sys.exit(any(drawn["errors"] or drawn["empty"] for drawn in report))


if __name__ == "__main__":
    main()
