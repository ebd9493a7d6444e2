"""The plan of the house holds: who may import whom, and how large a piece may grow."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60

_ENGINE_COMMON = (
    "domain",
    "config",
    "engines.base",
    "engines.beats",
    "engines.credentials",
    "engines.deadline",
    "engines.host",
    "engines.pace",
    "engines.registry",
)

ROOMS: dict[str, tuple[str, ...]] = {
    "domain": (),
    "overhead": ("domain",),
    "config": ("domain",),
    "engines.base": ("domain", "config"),
    "engines.beats": ("domain",),
    "engines.credentials": ("domain", "config"),
    "engines.deadline": ("domain",),
    "engines.host": ("domain",),
    "engines.pace": ("domain",),
    "engines.registry": ("domain", "config", "engines.base"),
    # A probe process sets up its own logging.
    "probing": ("domain", "config", "engines.base", "engines.registry", "logs"),
    "history": ("domain", "overhead", "config"),
    # Of probing only the words: its messages, and the table of operations.
    "exposition": ("domain", "config", "overhead", "history", "probing.messages", "probing.operations"),
    "web": ("domain", "config", "overhead", "history", "probing.messages", "probing.operations", "exposition"),
    "bundle": ("domain", "config", "exposition.catalogue"),
    "logs": ("domain", "config"),
}
"""What the modules of each room may import of ours, besides their own room.

A module that is in no room is a part of the front door: it may use every room, and no room may use it.
"""

FRONT = ("app", "cli", "__main__")
"""The composition root and the entrances: only they may import each other."""

THIRD_PARTY: dict[str, tuple[str, ...]] = {
    "prometheus_client": ("exposition",),
    "apscheduler": ("probing.schedule",),
    "apsw": ("engines.sqlite",),
    "pymysql": ("engines._mysql_protocol",),
    "oracledb": ("engines.oracle",),
    "structlog": ("logs",),
    "uvicorn": ("web",),
    "starlette": ("web",),
    "bcrypt": ("web.security",),
    "sqlite3": ("history",),
}
"""Modules that only these places may import."""


def _within(module: str, place: str) -> bool:
    return module == place or module.startswith(f"{place}.")


def _rules_of(module: str) -> tuple[str, ...] | None:
    """What a module may import (its own room included), or None for everything."""
    if _within(module, "engines"):
        if module == "engines" or module in ROOMS:
            return (module, *ROOMS.get(module, ()))
        own = ".".join(module.split(".")[:2])
        return (own, *_ENGINE_COMMON, "engines._mysql_protocol")
    room = module.split(".")[0]
    if room in ROOMS:
        return (room, *ROOMS[room])
    assert room == module, f"exporter/{room}/ is a room that the plan does not know: add it to ROOMS"
    return None


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and absolute name of all that is imported, anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: relative import"
            base = node.module or ""
            # `from exporter.domain import model` imports a module, `from exporter.domain.model import Pair` a name in it.
            for alias in node.names:
                yield (
                    node.lineno,
                    f"{base}.{alias.name}" if base == "exporter" or _is_ours(f"{base}.{alias.name}") else base,
                )


def _is_ours(name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "exporter":
        return False
    path = ROOT.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def violations(module: str, source: str) -> list[str]:
    """Sentences about the forbidden imports of a module, named without `exporter.`."""
    allowed = _rules_of(module)
    found = []
    for line, name in _imports(ast.parse(source)):
        top = name.split(".")[0]
        if top == "exporter":
            ours = name.removeprefix("exporter").removeprefix(".")
            if ours in ("", "__version__") or module.startswith(f"{ours}."):
                continue
            permitted = module in FRONT or ours.split(".")[0] not in FRONT
            if not permitted or (allowed is not None and not any(_within(ours, place) for place in allowed)):
                found.append(f"{module}:{line} imports exporter.{ours}")
        elif not any(_within(module, place) for place in THIRD_PARTY.get(top, (module,))):
            found.append(f"{module}:{line} imports {top}")
    return found


def _modules() -> dict[str, Path]:
    package = ROOT / "exporter"
    named = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def test_every_module_imports_only_what_its_room_may() -> None:
    modules = _modules()
    assert len(modules) > 20
    found = [line for module, path in modules.items() for line in violations(module, path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("domain.model", "from exporter.config.schema import Settings"),
        ("domain.model", "from exporter import config"),
        ("overhead.ratio", "def late():\n    import exporter.history.store"),
        ("config.loader", "from exporter.engines.registry import names"),
        ("engines.base", "from exporter.engines.registry import make"),
        ("engines.sqlite.session", "from exporter.engines.fake.settings import Target"),
        ("engines.fake.engine", "from exporter.probing.lane import Lane"),
        ("engines.fake.engine", "import apsw"),
        ("engines.sqlite.session", "import sqlite3"),
        ("probing.lane", "from exporter.engines.sqlite.engine import Engine"),
        ("probing.lane", "from exporter.engines import sqlite"),
        ("probing.lane", "from apscheduler.triggers.interval import IntervalTrigger"),
        ("probing.lane", "from exporter.overhead.ratio import estimate"),
        ("history.store", "from exporter.probing.messages import Beat"),
        ("exposition.page", "from exporter.probing.lane import Lane"),
        ("exposition.page", "from exporter.web.server import serve"),
        ("web.server", "import prometheus_client"),
        ("web.server", "from exporter.app import App"),
        ("bundle.rules", "from exporter.exposition.page import render"),
        ("probing.lane", "import structlog"),
        ("app", "import uvicorn"),
        ("table", "from exporter.app import App"),
        ("probing.lane", "import exporter.table"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("overhead.ratio", "import math\nimport numpy as np\nfrom exporter.domain.model import Tick"),
        ("engines.sqlite.session", "import apsw\nfrom exporter.engines.sqlite.settings import Target"),
        ("probing.schedule", "from apscheduler.schedulers.background import BackgroundScheduler"),
        ("history.store", "import sqlite3\nfrom exporter.overhead import ratio"),
        ("exposition.page", "import prometheus_client\nfrom exporter.probing import messages"),
        ("web.server", "import uvicorn\nfrom exporter import __version__\nfrom exporter.exposition.page import Page"),
        ("app", "import exporter.web.server\nfrom exporter.probing.supervisor import Supervisor"),
        ("cli", "from exporter.app import App"),
        ("table", "from exporter.overhead import ratio"),
    ],
)
def test_an_allowed_import_is_not_found(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_an_unknown_room_must_be_planned() -> None:
    with pytest.raises(AssertionError, match="helpers"):
        violations("helpers.misc", "import exporter.domain.model")


def test_checking_a_configuration_loads_no_driver() -> None:
    program = (
        "import sys; from exporter.config.schema import settings_type; from exporter.engines import registry;"
        "settings_type(registry.target_types()); print(*sorted({'apsw', 'pymysql', 'oracledb'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.split() == []


def test_modules_and_functions_stay_small() -> None:
    large = []
    for module, path in _modules().items():
        source = path.read_text()
        if (lines := source.count("\n")) > MAX_MODULE_LINES:
            large.append(f"{module}: {lines} lines")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    large.append(f"{module}:{node.lineno} {node.name}: {length} lines")
    assert large == []


# Assembled, so that this file does not hold what it looks for.
_OF_ONE_MACHINE = re.compile("(?<![A-Za-z0-9_./~-])/(" + "|".join(["wo" + "rk", "ro" + "ot", "ho" + r"me/\w+"]) + ")/")


def _files() -> list[Path]:
    """All files of the checkout but those that `.gitignore` names; git itself may be missing where tests run."""
    ignored = {".git", *(line.strip("/\n") for line in (ROOT / ".gitignore").read_text().splitlines())}
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ignored and not name.endswith(".egg-info")]
        found += [Path(folder, name) for name in names if name not in ignored]
    return [path for path in found if path.is_file()]


def machine_paths(text: str) -> list[str]:
    """Absolute paths that exist on the machine of one developer only."""
    return [match.group() for match in _OF_ONE_MACHINE.finditer(text)]


def test_no_file_names_a_path_of_one_machine() -> None:
    files = _files()
    assert len(files) > 20
    assert not [path for path in files if ".venv" in path.parts]
    found = {
        str(path.relative_to(ROOT)): paths
        for path in files
        if (paths := machine_paths(path.read_bytes().decode(errors="replace")))
    }
    assert found == {}


def test_a_path_of_one_machine_is_found() -> None:
    assert machine_paths("see " + "/ro" + "ot/notes.md") == ["/ro" + "ot/"]
    assert machine_paths("see ${ro" + "ot}/x, a/ro" + "ot/b and https://example.org/wo" + "rk/") == []
