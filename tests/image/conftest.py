"""A Docker Engine and the image built by it, once for all tests of this room."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import exporter
from tests.image.engine import BASE, ROOT, Engine, at_second_try
from tests.image.stack import SERVICES, Stack

IMAGE = "tde-exporter:tried"

DEBIAN = f"""\
FROM {BASE}
COPY usr /usr
RUN mkdir /prometheus /alertmanager && chown nobody /prometheus /alertmanager
USER nobody
ENTRYPOINT ["PROGRAM"]
"""
"""Stands for an image of the vendor: the same program, user and folders."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this room takes minutes: an engine, a base image and builds stand before the first test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """With the stand-in for the official Python image loaded."""
    # Asked to end, pytest would leave the engine running.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    engine = at_second_try(Engine)
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
    at_second_try(lambda: engine.build(IMAGE, *labels, context=sources))
    return IMAGE


@pytest.fixture(scope="session")
def stack(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"TDE_EXPORTER_IMAGE": image}
    packages = ROOT / ".cache" / "prometheus" / "usr"
    for service, program in (("prometheus", "prometheus"), ("alertmanager", "prometheus-alertmanager")):
        context = tmp_path_factory.mktemp(service)
        (context / "usr" / "bin").mkdir(parents=True)
        shutil.copy2(packages / "bin" / program, context / "usr" / "bin")
        (context / "Dockerfile").write_text(DEBIAN.replace("PROGRAM", program))
        shutil.copytree(packages / "share" / "prometheus", context / "usr" / "share" / "prometheus", symlinks=True)
        engine.build(f"debian-{service}", context=context)
        environ[f"{service.upper()}_IMAGE"] = f"debian-{service}"
    stack = Stack(engine, environ)
    try:
        stack.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout=120", *SERVICES)
        yield stack
    finally:
        print(stack.compose("logs", "--tail=20"))
        stack.compose("down", "--volumes")
