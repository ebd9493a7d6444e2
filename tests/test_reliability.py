"""The page of faults names tests that there are, and leaves no complaint out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
NAMED = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", PAGE)
NO_FAULTS = {"test_t11_channels.py"}
"""Complaints about what is shown, with nothing that fails."""


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text() if test else (ROOT / file).exists()


def test_each_row_names_its_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| fault ")]
    assert len(rows) == len(NAMED)
    assert [row for row in rows if "`tests/" not in row.split("|")[3]] == []


def test_no_complaint_is_left_out() -> None:
    files = {path.name for path in (ROOT / "tests" / "complaints").glob("test_*.py")}
    assert files - {Path(file).name for file, _ in NAMED} == NO_FAULTS
