"""What the tests of deploy/ check with: Helm and the schemas that `./check` fetched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / ".cache" / "deploy-checks"
KUBERNETES = ("1.25", "1.37")
"""The oldest version that the chart is for, and the newest that there are schemas of."""


def _needs(path: Path) -> Path:
    if not path.exists():
        pytest.fail(f"{path.name} is missing: run ./check once, which fetches it", pytrace=False)
    return path


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm; nothing of the user's own configuration is used."""
    return subprocess.run(
        [str(_needs(CHECKS / "bin" / "helm")), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )


def checker(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of the programs that apply schemas: kubernetes_validate or check_jsonschema."""
    environ = {**os.environ, "PYTHONPATH": str(_needs(CHECKS / "python"))}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], env=environ, capture_output=True, text=True, check=False
    )


def documents(text: str) -> list[dict[str, Any]]:
    """The YAML documents of a text, empty ones left out."""
    return [found for found in yaml.safe_load_all(text) if found]
