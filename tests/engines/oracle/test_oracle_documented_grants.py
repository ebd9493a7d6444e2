"""The page for DBAs names exactly the grants that the statements take."""

from __future__ import annotations

import re
from pathlib import Path

from exporter.engines.oracle.script import grants

PAGE = Path(__file__).resolve().parents[3] / "docs" / "engines" / "oracle.md"


def documented() -> dict[str, set[str]]:
    """By collector, as the table of the page has them."""
    section = PAGE.read_text().split("\n## Grants\n")[1].split("\n## ")[0]
    found: dict[str, set[str]] = {}
    collector = ""
    for first, second in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", section, re.MULTILINE):
        if named := re.match(r"`(\w+)`", first):
            collector = named[1]
        elif not first.startswith("the same"):
            continue
        found.setdefault(collector, set()).update(
            re.findall(r"`((?:READ|EXECUTE) ON SYS\.[^`]+|CREATE SESSION)`", second)
        )
    return found


def test_the_table_of_grants_is_that_of_the_statements():
    wanted = {collector: set(named) for collector, named in grants().items()}
    found = documented()
    found.pop("heartbeat")
    for collector, named in wanted.items():
        assert found[collector] == named, collector
    assert set(found) == set(wanted)


def test_the_heartbeat_is_the_one_table_that_is_written():
    text = PAGE.read_text()
    assert "`SELECT, INSERT, UPDATE` on the table `HEARTBEAT`" in text
