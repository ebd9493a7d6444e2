"""Both ends of what the rules support, and the language of promtool's unit tests."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "alerts"
VERSIONS = {"oldest": ".cache/prometheus-oldest", "newest": ".cache/prometheus"}
_TOKEN = re.compile(r"(?P<first>-?[0-9.e]+|_|stale|NaN)(?P<step>[+-][0-9.e]+)?(?:x(?P<times>\d+))?")
Values = list[str]


def promtool(version: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool of the oldest or newest supported Prometheus."""
    path = ROOT / VERSIONS[version] / "usr" / "bin" / "promtool"
    if not path.exists():
        pytest.fail(f"{path} is missing: run ./check once, which fetches it", pytrace=False)
    return subprocess.run([path, *arguments], capture_output=True, text=True, timeout=100)


def rules(*names: str) -> list[dict[str, Any]]:
    """All rules of rendered files, in order."""
    return [
        rule
        for name in names
        for group in yaml.safe_load((RULES / name).read_text())["groups"]
        for rule in group["rules"]
    ]


def expanded(values: str) -> Values:
    """The samples of a series one by one: `1+2x2 _ stale` is 1 3 5 _ stale."""
    found: Values = []
    for token in values.split():
        match = _TOKEN.fullmatch(token)
        assert match is not None, token
        times = int(match["times"] or 0)
        if match["first"] in ("_", "stale", "NaN"):
            # Of what is missing there are as many as are written, of numbers one more.
            found += [match["first"]] * max(1, times)
        else:
            step = float(match["step"] or 0)
            found += [f"{float(match['first']) + place * step:.15g}" for place in range(times + 1)]
    return found


def seconds(duration: str) -> int:
    """Of a duration such as `1h30m`."""
    return sum(
        int(number) * {"d": 86400, "h": 3600, "m": 60, "s": 1}[unit]
        for number, unit in re.findall(r"(\d+)([dhms])", duration)
    )
