"""A Docker Engine and the image built by it, once for all tests of this room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import exporter
from tests.image.engine import ROOT, Engine

IMAGE = "tde-exporter:tried"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this room takes minutes: an engine, a base image and builds stand before the first test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """With the stand-in for the official Python image loaded."""
    engine = Engine()
    try:
        engine.load_base()
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What images are built from, as it is now: an edit during the tests changes no build."""
    copied = tmp_path_factory.mktemp("sources")
    for name in (".dockerignore", "Dockerfile", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy2(ROOT / name, copied)
    for name in ("alerts", "dashboards", "deploy", "exporter", "requirements"):
        shutil.copytree(ROOT / name, copied / name)
    return copied


@pytest.fixture(scope="session")
def image(engine: Engine, sources: Path) -> str:
    """The name of the image, built as `make image` does."""
    labels = (f"--build-arg=VERSION={exporter.__version__}", "--build-arg=REVISION=tried")
    engine.build(IMAGE, *labels, context=sources)
    return IMAGE
