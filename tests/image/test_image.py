"""The image on a real Docker Engine: locked down as far as it goes, healthy, and ended in time."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import exporter
from tests.daemons import free_port
from tests.image.engine import BASE, Engine
from tests.processes import until

STOPPED_WITHIN = 5.0
LARGEST = 130e6
"""Bytes that the image may be larger than the Python image below it."""


class Process(NamedTuple):
    """One of a container; `state` and `parent` as in /proc."""

    pid: int
    parent: int
    state: str
    command: bytes


class Container:
    """An exporter, started with all that its documentation recommends."""

    def __init__(self, engine: Engine, image: str, volume: str, *options: str, command: tuple[str, ...] = ()) -> None:
        self._engine, self.port = engine, free_port()
        self.name = engine.docker(
            *("run", "--detach", "--network=host", "--read-only", "--cap-drop=ALL", "--user=65532"),
            *("--security-opt=no-new-privileges", f"--volume={volume}:/var/lib/tde-exporter"),
            *("--health-interval=1s", "--health-start-period=1s", f"--env=TDE_EXPORTER_WEB__PORT={self.port}"),
            *(*options, image, *command),
        ).split()[-1]

    @property
    def state(self) -> dict[str, Any]:
        return dict(self._engine.inspect(self.name)["State"])

    @property
    def health(self) -> str:
        state = self.state
        assert state["Running"], self.log
        return str(state["Health"]["Status"])

    @property
    def log(self) -> str:
        return self._engine.docker("logs", self.name)

    def run(self, *command: str) -> str:
        return self._engine.docker("exec", self.name, *command)

    def page(self) -> dict[str, float]:
        """A value of each metric; nothing while nobody listens, or there are none yet."""
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10)
        except httpx.TransportError:
            assert self.state["Running"], self.log
            return {}
        if answer.status_code == 503:
            return {}
        families = text_string_to_metric_families(answer.raise_for_status().text)
        return {sample.name: sample.value for family in families for sample in family.samples}

    def processes(self) -> list[Process]:
        """All of the container, zombies too, by their numbers outside."""
        found = []
        space = Path(f"/proc/{self.state['Pid']}/ns/pid").readlink()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if (folder / "ns" / "pid").readlink() == space:
                    state, parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
                    found.append(Process(int(folder.name), int(parent), state, (folder / "cmdline").read_bytes()))
        return found

    def stop(self) -> float:
        begun = time.monotonic()
        self._engine.docker("stop", "--time=30", self.name)
        return time.monotonic() - begun


@pytest.fixture
def volume(engine: Engine) -> Iterator[str]:
    name = engine.docker("volume", "create").strip()
    yield name
    engine.remove(engine.docker("ps", "--all", "--quiet").split())
    engine.docker("volume", "rm", name)


def test_says_what_it_is_and_runs_as_nobody(engine: Engine, image: str) -> None:
    config = engine.inspect(image)["Config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["tde-exporter-first", "tde-exporter"]
    assert set(config["Volumes"]) == {"/var/lib/tde-exporter"}
    assert set(config["ExposedPorts"]) == {"10161/tcp"}
    assert config["Healthcheck"]["Test"] == ["CMD", "tde-exporter-healthy"]
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in config["Labels"].items()}
    assert labels["version"] == exporter.__version__
    assert labels["revision"] == "tried"
    assert labels["licenses"] == "Apache-2.0"


def test_is_small_holds_no_installer_and_owns_nothing_but_its_state(engine: Engine, image: str) -> None:
    assert engine.inspect(image)["Size"] - engine.inspect(BASE)["Size"] < LARGEST
    look = "find / -xdev -user 65532 -not -path '/proc/*'; find /opt/tde-exporter -name pip -o -path '*/numpy/*' -name tests"
    found = engine.docker("run", "--rm", "--network=host", "--user=0", "--entrypoint=sh", image, "-c", look)
    assert found.split() == ["/var/lib/tde-exporter"]


def test_locked_down_it_measures_and_its_state_survives(engine: Engine, image: str, volume: str) -> None:
    first = Container(engine, image, volume)
    until(lambda: first.health == "healthy", "the container is healthy", 60)
    until(lambda: first.page().get("tde_canary_runs_total"), "a canary ran", 60)
    assert first.page()["tde_target_up"] == 1.0
    assert first.log.count("can be read by everybody who reaches this address") == 1
    assert "twins of phonebook are complete" in first.log
    first.run("tde-exporter", "mark", "embedded", "a note that must survive")
    until(lambda: "a note that must survive" in first.run("tde-exporter", "events", "list"), "the note is kept", 20)

    assert first.stop() < STOPPED_WITHIN
    assert (first.state["ExitCode"], first.state["OOMKilled"]) == (0, False)
    engine.remove([first.name])

    second = Container(engine, image, volume)
    until(lambda: second.health == "healthy", "the second container is healthy", 60)
    until(lambda: second.page().get("tde_canary_runs_total"), "a canary ran again", 60)
    assert "a note that must survive" in second.run("tde-exporter", "events", "list")
    assert "building the encrypted twin" not in second.log
    assert second.stop() < STOPPED_WITHIN


def test_killed_without_a_warning_it_starts_again(engine: Engine, image: str, volume: str) -> None:
    container = Container(engine, image, volume)
    until(container.page, "metrics are served", 60)
    engine.docker("kill", container.name)
    engine.docker("start", container.name)
    until(lambda: container.health == "healthy", "healthy again", 60)
    assert container.stop() < STOPPED_WITHIN


def test_whoever_dies_without_a_parent_leaves_no_zombie(engine: Engine, image: str, volume: str) -> None:
    container = Container(engine, image, volume)
    until(lambda: container.page().get("tde_canary_runs_total"), "a canary ran", 60)
    (probe,) = [one for one in container.processes() if b"exporter.probing" in one.command]
    container.run("sh", "-c", "sleep 1000 & exec true")
    (orphan,) = [one for one in container.processes() if one.command.startswith(b"sleep")]
    assert orphan.parent == container.state["Pid"]
    for one in (probe, orphan):
        os.kill(one.pid, signal.SIGKILL)
    gone = {probe.pid, orphan.pid}
    until(lambda: not gone & {one.pid for one in container.processes()}, "both were reaped", 30)
    until(lambda: container.page().get("tde_target_up") == 1.0, "there is another probe process", 60)
    until(lambda: not [one for one in container.processes() if one.state == "Z"], "there is no zombie", 30)
    assert container.stop() < STOPPED_WITHIN
    assert container.state["ExitCode"] == 0


def test_bad_configuration_ends_it_with_one_line(engine: Engine, image: str, volume: str) -> None:
    container = Container(engine, image, volume, "--env=TDE_EXPORTER_CONFIG=/nowhere.yaml")
    until(lambda: not container.state["Running"], "the container ended", 60)
    assert container.state["ExitCode"] == 1
    (line,) = container.log.splitlines()
    assert line.startswith("tde-exporter: ")
    assert "/nowhere.yaml" in line
