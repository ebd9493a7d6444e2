"""The example configuration and the reference page say what the schema says."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest
import yaml
from pydantic import BaseModel, Field

from exporter.config import reference, shape
from exporter.config.environment import leaves, variable
from exporter.config.loader import load
from exporter.config.schema import Duration, Settings, Strict, TargetSettings, settings_type
from exporter.config.secrets import SecretSource
from exporter.engines import registry

TYPES = registry.target_types()
ENVIRON = {"HOME": "/users/exporter"}


class Options(Strict):
    """Details of the connection."""

    timeout: Duration = 3.0
    """Deadline of a connect."""


class Server(TargetSettings):
    """A database behind the network."""

    engine: Literal["server"] = "server"
    host: str = Field(examples=["db.example.org"])
    """Name of the host."""
    password: SecretSource
    """Password of the user."""
    mode: Literal["x", "y"]
    """How it is asked."""
    options: Options | None = None
    """Details."""


@pytest.fixture(scope="session")
def generator(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_references", root / "tools" / "generate_references.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def switched_on(text: str) -> str:
    """The example with every switched-off key in use."""
    text = re.sub(r"^( *)#(?=[a-z_-])", r"\1", text, flags=re.MULTILINE)
    # Of two keys that say the same one can be used: for the size of a twin, for a place, for whom to trust.
    text = re.sub(r"^ *(bytes|dsn): .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^( *)ca: .*\n((?:\1#.*\n)*\1verify_name: )", r"\2", text, flags=re.MULTILINE)
    # And one has a meaning only with another value of its neighbour.
    return re.sub(r"^( *driver: )thin$", r"\1thick", text, flags=re.MULTILINE)


def with_secrets(text: str, folder: Path) -> str:
    """The same text with its secrets in a file that exists."""
    (folder / "password").write_text("x")
    return text.replace("/run/secrets/password", "password")


def test_the_committed_files_are_those_of_the_schema(generator: ModuleType) -> None:
    assert generator.stale() == []
    assert len(generator.REFERENCES) >= 2


def test_a_stale_file_is_noticed(generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    assert "config.example.yaml" in generator.stale()
    (tmp_path / "config.example.yaml").write_text(dict(generator.REFERENCES)["config.example.yaml"]())
    assert "config.example.yaml" not in generator.stale()


def test_the_example_is_the_embedded_default(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(reference.example_yaml(TYPES))

    assert load(path, target_types=TYPES, environ=ENVIRON) == load(None, target_types=TYPES, environ=ENVIRON)


def test_the_example_loads_with_everything_switched_on(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(with_secrets(switched_on(reference.example_yaml(TYPES)), tmp_path))

    found = load(path, target_types=TYPES, environ=ENVIRON)
    assert sorted(target.engine for target in found.targets) == sorted(TYPES)


def test_the_example_shows_every_key_with_its_description() -> None:
    text = reference.example_yaml(TYPES)
    prose = " ".join(line.strip().removeprefix("# ") for line in text.splitlines())
    for key, description in _keys(settings_type(TYPES)):
        if key == "env":  # of a secret, the example shows the file and names the variable beside it
            assert "`file`, or an environment variable `env`" in prose
            continue
        assert re.search(rf"^ *#?(?:- )?{key}:", text, re.MULTILINE), key
        assert " ".join(description.split()) in prose, key


def test_the_page_shows_every_key_and_every_variable() -> None:
    page = reference.markdown(TYPES)
    schema = settings_type(TYPES)
    for key, description in _keys(schema):
        assert f"| `{key}` | " in page
        assert description.replace("|", "\\|") in page
    for path in leaves(schema):
        name = str(variable(path, schema))
        assert f"`{name}`" in page or path[0] == "operations"
    assert "`TDE_EXPORTER_OPERATIONS__<OPERATION>__TIMEOUT`" in page


def test_every_key_has_a_description() -> None:
    assert [key for key, description in _keys(settings_type(TYPES)) if not description] == []


def test_nothing_depends_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    before = reference.example_yaml(TYPES), reference.markdown(TYPES)
    monkeypatch.setenv("STATE_DIRECTORY", "/elsewhere")
    monkeypatch.setattr("os.cpu_count", lambda: 77)

    assert (reference.example_yaml(TYPES), reference.markdown(TYPES)) == before
    assert all(str(Path.home()) not in text or str(Path.home()) == "/" for text in before)


def test_an_engine_with_a_secret_is_shown(tmp_path: Path) -> None:
    types: dict[str, type[TargetSettings]] = {**TYPES, "server": Server}
    text = reference.example_yaml(types)
    path = tmp_path / "config.yaml"
    path.write_text(with_secrets(switched_on(text), tmp_path))

    target = load(path, target_types=types, environ=ENVIRON).target("server")
    assert isinstance(target, Server)
    assert (target.host, target.mode, target.password.read()) == ("db.example.org", "x", "x")
    assert yaml.safe_load(text)["targets"][0]["engine"] == "sqlite"
    page = reference.markdown(types)
    assert "## `targets[]` with `engine: server`" in page
    assert "### `targets[].password` (server)" in page
    assert "| `timeout` | duration, more than 0 | `3s` | Deadline of a connect. |" in page


def _keys(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    for name, field in shape.keys(model).items():
        yield name, field.description or ""
        found = shape.table(field.annotation)
        inner = found[1] if found else shape.item(field.annotation) or field.annotation
        for nested in shape.models(inner):
            yield from _keys(nested)


def test_the_walk_of_this_test_reaches_the_depths() -> None:
    names = {key for key, _ in _keys(settings_type(TYPES))}
    assert {"rows", "kind", "retention", "samples", "encryption_state"} <= names
    assert set(Settings.model_fields) <= names
