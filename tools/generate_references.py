"""Writes the files that are generated from the code, or checks that they are what the code says.

    python tools/generate_references.py --write
    python tools/generate_references.py --check

Another generated file is one more line in `REFERENCES`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from exporter.bundle import alerts, dashboards
from exporter.config import reference
from exporter.engines import registry
from exporter.exposition import reference as metrics_reference
from exporter.probing import operations

ROOT = Path(__file__).resolve().parent.parent

REFERENCES: tuple[tuple[str, Callable[[], str]], ...] = (
    ("config.example.yaml", lambda: reference.example_yaml(registry.target_types())),
    ("docs/configuration.md", lambda: reference.markdown(registry.target_types())),
    ("docs/metrics.md", metrics_reference.markdown),
    (
        "docs/operations.md",
        lambda: operations.markdown({name: registry.engine_type(name).operations for name in registry.names()}),
    ),
    *((f"alerts/{path}", lambda path=path: alerts.files()[path]) for path in alerts.files()),
    *((f"dashboards/{path}", lambda path=path: dashboards.files()[path]) for path in dashboards.files()),
)
"""Path in the project, and what yields the content."""


def stale() -> list[str]:
    """The files that are missing or differ from what the code says."""
    return [path for path, content in REFERENCES if _content(ROOT / path) != content()]


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main() -> int:
    """Exit code 1 when --check finds a stale file."""
    parser = argparse.ArgumentParser(description="Write or check the generated files.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write the files that are stale")
    what.add_argument("--check", action="store_true", help="only say which files are stale")
    arguments = parser.parse_args()
    contents = dict(REFERENCES)
    found = stale()
    for path in found:
        if arguments.write:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(contents[path](), encoding="utf-8")
            print(f"{path}: written")
        else:
            print(f"{path}: stale; run python tools/generate_references.py --write", file=sys.stderr)
    return 1 if found and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
