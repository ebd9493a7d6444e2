"""Writes the texts that promtool finds into the unit tests of the alerts, after a change of words.

    python -m tests.alerts.texts PROMTOOL

Only annotations of alerts that fire as they are expected to are filled in: what fires at another time, or with other
labels, stays a failure. Look at the difference before you commit it: it is what people will read.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "alerts" / "tests"
_ORDER = ("summary", "description", "runbook_url", "dashboard_url")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}

Labels = dict[str, str]
Key = tuple[str, str, int]
"""Name of the test group, name of the alert, second."""


def seconds(duration: str) -> int:
    """Of a duration as Prometheus writes it, `1h30m`."""
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([dhms])", duration))


def _pairs(text: str) -> Labels:
    return {name: json.loads(value) for name, value in re.findall(r'(\w+)=("(?:\\.|[^"\\])*")', text)}


def found(output: str) -> dict[Key, list[tuple[Labels, Labels]]]:
    """Labels and annotations of what fires where a test failed, from the output of promtool 3."""
    answers = {}
    for name, alert, time, got in re.findall(
        r"name: ([^\n]*),\n\s+alertname: (\w+), time: (\w+),.*?got:\[(.*?)\n?\s*\]\n", output, re.DOTALL
    ):
        fired = re.findall(r"Labels:(\{.*?\})\n\s+Annotations:(\{.*?\}),?\n", got + "\n")
        answers[name, alert, seconds(time)] = [(_pairs(labels), _pairs(texts)) for labels, texts in fired]
    return answers


def _children(node: yaml.MappingNode) -> dict[str, Any]:
    return {key.value: (key, value) for key, value in node.value}


def _places(text: str) -> Iterator[tuple[Key, Labels, int, int, int]]:
    """Of every `exp_annotations`: its test, the alert's labels, first line, line after the last, and column."""
    document = yaml.compose(text)
    assert isinstance(document, yaml.MappingNode)
    for group in _children(document)["tests"][1].value:
        parts = _children(group)
        for test in parts["alert_rule_test"][1].value if "alert_rule_test" in parts else ():
            case = _children(test)
            alert = case["alertname"][1].value
            for expected in case["exp_alerts"][1].value:
                inside = _children(expected)
                labels = {name: value.value for name, (_, value) in _children(inside["exp_labels"][1]).items()}
                key, value = inside["exp_annotations"]
                last = max((end.end_mark.line for _, end in value.value), default=value.end_mark.line)
                place = parts["name"][1].value, alert, seconds(case["eval_time"][1].value)
                yield place, {"alertname": alert, **labels}, key.start_mark.line, last + 1, key.start_mark.column


def filled(text: str, output: str) -> str:
    """The file with the texts that promtool found."""
    lines, answers = text.splitlines(), found(output)
    for key, labels, first, after, column in sorted(_places(text), key=lambda place: -place[2]):
        texts = next((texts for got, texts in answers.get(key, ()) if got == labels), None)
        if texts is not None:
            indent = " " * column
            block = [f"{indent}exp_annotations:"]
            block += [f"{indent}  {name}: '{texts[name].replace(chr(39), 2 * chr(39))}'" for name in _ORDER]
            lines[first:after] = block
    return "\n".join(lines) + "\n"


def main() -> int:
    """Fills in all files; exit code 1 when promtool still finds something."""
    failed = 0
    for path in sorted(FOLDER.glob("*.yml")):
        command = [sys.argv[1], "test", "rules", str(path)]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            path.write_text(filled(path.read_text(), ran.stdout + ran.stderr))
            ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            print(path.name, ran.stdout, ran.stderr)
        failed += bool(ran.returncode)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
