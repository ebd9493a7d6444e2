"""Rules at the pace of a test: every duration is divided, nothing else differs, and no operator can ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from exporter.bundle.alerts import Thresholds, files
from exporter.bundle.alerts.thresholds import SETTINGS
from tests.command_line import CommandLine

FACTOR = 240.0
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"""(?<![\w:"])(?:\d+(?:ms|[smhd]))+\b""")
"""But not in the name of a recorded series, nor the label of a window: those are about what the exporter says."""
SHORTEST = 0.001


def seconds(text: str) -> float:
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhd])", text))


def rules(values: Thresholds) -> Iterator[tuple[str, dict]]:
    for text in files(values).values():
        for group in yaml.safe_load(text)["groups"]:
            yield group["name"], {"interval": group["interval"]}
            for rule in group["rules"]:
                yield rule.get("alert") or rule["record"], rule


@pytest.mark.parametrize("key", ["interval", "for", "keep_firing_for", "expr"])
def test_all_durations_of_a_rule_are_divided(key: str) -> None:
    found = 0
    for (name, slow), (same, fast) in zip(rules(Thresholds()), rules(Thresholds(divisor=FACTOR)), strict=True):
        assert name == same
        before, after = (DURATION.findall(rule.get(key, "")) for rule in (slow, fast))
        assert len(before) == len(after), name
        for usual, paced in zip(before, after, strict=True):
            assert seconds(paced) == pytest.approx(max(SHORTEST, seconds(usual) / FACTOR), abs=0.0006), name
            found += 1
    assert found > 5


def test_what_is_no_duration_is_the_same_at_any_pace() -> None:
    for (name, slow), (_, fast) in zip(rules(Thresholds()), rules(Thresholds(divisor=FACTOR)), strict=True):
        assert slow.get("labels") == fast.get("labels"), name
        texts = (DURATION.sub("", str(rule.get("annotations"))) for rule in (slow, fast))
        assert len(set(texts)) == 1, name


def test_an_operator_cannot_ask_for_it(tmp_path: Path) -> None:
    assert "divisor" not in SETTINGS
    done = CommandLine(tmp_path)("bundle", "alerts", "--out", str(tmp_path / "out"), "--set", "divisor=240")
    assert done.returncode == 1
    assert "there is no 'divisor' to set" in done.stderr
    assert not (tmp_path / "out").exists()
