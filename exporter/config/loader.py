"""YAML file, environment and defaults → validated `Settings`.

What the operator sees of mistakes is made here: all of them at once, one line each, with the place and the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from exporter.config import document, environment, shape
from exporter.config.document import Document
from exporter.config.problems import Context, kind_of, reword
from exporter.config.schema import Settings, TargetSettings, default_state_directory, settings_type
from exporter.config.secrets import sources
from exporter.domain.errors import ConfigError, ConfigErrors, SecretError

EMBEDDED = "embedded"
"""Name of the one target that there is without a configuration file."""
EMBEDDED_ENGINE = "sqlite"
"""Its engine: it needs no server."""

Model = TypeVar("Model", bound=BaseModel)
Located = tuple[shape.Path, ConfigError]


def load(
    path: Path | None,
    *,
    target_types: Mapping[str, type[TargetSettings]],
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of the file at `path`, or those of the embedded default for None, with the environment over them.

    `target_types` holds the settings class of each engine, `environ` stands in for the process environment. In the
    result every path is absolute, every target `resolved`, and every secret that is not of another shard's target could be
    read. Raises ConfigErrors with all problems found, and no other error.
    """
    environ = os.environ if environ is None else environ
    schema = settings_type(target_types)
    folder = Path.cwd()
    if path is None:
        found = Document({"targets": [{"name": EMBEDDED, "engine": EMBEDDED_ENGINE}]}, {}, "")
    else:
        found = document.read(path)
        folder = path.absolute().parent
    origins, problems = environment.overlay(found.data, environ, schema, frozenset(_secret_variables(found.data)))
    context = Context(schema, found, origins)
    problems += _no_state_directory(found.data, environ)
    wrong = [*_reserved(found.data, context), *_truths(found.data, (), context)]
    settings = None
    try:
        settings = schema(**found.data)
    except ValidationError as error:
        known = {path for path, _ in wrong}
        wrong += [(path, problem) for path, problem in reword(error, context) if path not in known]
    problems += [problem for _, problem in sorted(wrong, key=lambda located: found.line(located[0]) or 0)]
    if problems or settings is None:
        raise ConfigErrors(problems)
    return _finished(settings, folder, context, environ)


def _reserved(data: dict[str, Any], context: Context) -> Iterator[Located]:
    """Takes out keys such as `_env_file`, which pydantic-settings would take for its own."""
    for key in [key for key in data if key.startswith("_")]:
        del data[key]
        yield (key,), context.problem((key,), "unknown key", "Remove it; no key begins with an underscore")


def _finished(validated: Settings, folder: Path, context: Context, environ: Mapping[str, str]) -> Settings:
    """Absolute paths, resolved targets, readable secrets; as plain `Settings`, which can be sent to other processes."""
    try:
        anchored = _anchored(validated, folder)
    except RuntimeError:
        remedy = "Write the path without ~"
        raise ConfigErrors(
            [ConfigError("the home directory behind a ~ is not known", where=context.document.file, remedy=remedy)]
        ) from None
    targets = tuple(target.resolved(anchored.state_directory) for target in anchored.targets)
    problems = [*_shared_paths(targets, context), *_unreadable_secrets(anchored, context, environ)]
    if problems:
        raise ConfigErrors(problems)
    values = {name: getattr(anchored, name) for name in Settings.model_fields}
    return Settings.model_construct(validated.model_fields_set, **values | {"targets": targets})


def _secret_variables(data: Any) -> Iterator[str]:
    """Names that the file gives to variables of secrets; they may begin with our prefix without being settings."""
    if isinstance(data, dict):
        if isinstance(name := data.get("env"), str):
            yield name
        for value in data.values():
            yield from _secret_variables(value)
    elif isinstance(data, list):
        for value in data:
            yield from _secret_variables(value)


def _no_state_directory(data: dict[str, Any], environ: Mapping[str, str]) -> Iterator[ConfigError]:
    if "state_directory" not in data:
        try:
            data["state_directory"] = default_state_directory(environ)
        except RuntimeError:
            remedy = "Set it to an absolute path, or set the environment variable HOME"
            yield ConfigError("the user has no home directory", where="state_directory", remedy=remedy)


def _truths(value: Any, path: shape.Path, context: Context) -> Iterator[Located]:
    """Truth values where numbers belong: pydantic would take `true` for 1."""
    if isinstance(value, bool) and _annotation(path, context) in (int, float):
        yield path, context.problem(path, f"this must be a number, but this is {kind_of(value)}", "Write digits")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _truths(inner, (*path, key), context)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _truths(inner, (*path, position), context)


def _annotation(path: shape.Path, context: Context) -> Any:
    """The type at a path as the operator writes it: the engine, which chooses the model, has to be looked up."""
    located: list[str | int] = []
    for end, part in enumerate(path, 1):
        located.append(part)
        choices = shape.models(shape.place(tuple(located), context.root).annotation)
        here = context.document.value(path[:end])
        if len(choices) > 1 and isinstance(here, dict):
            located += [engine for model in choices for engine in shape.tag(model) if engine == here.get("engine")]
    return shape.core(shape.place(tuple(located), context.root).annotation)


def _anchored(model: Model, folder: Path) -> Model:
    """The model with every path in it absolute: `~` is the home directory, relative means from `folder`."""
    changed = {name: _anchored_value(getattr(model, name), folder) for name in type(model).model_fields}
    return model.model_copy(update=changed)


def _anchored_value(value: Any, folder: Path) -> Any:
    if isinstance(value, Path):
        return folder / value.expanduser()
    if isinstance(value, BaseModel):
        return _anchored(value, folder)
    if isinstance(value, tuple):
        return tuple(_anchored_value(item, folder) for item in value)
    if isinstance(value, dict):
        return {key: _anchored_value(item, folder) for key, item in value.items()}
    return value


def _shared_paths(targets: tuple[TargetSettings, ...], context: Context) -> Iterator[ConfigError]:
    owners: dict[Path, str] = {}
    for position, target in enumerate(targets):
        for claimed in target.claims:
            owner = owners.setdefault(Path(os.path.normpath(claimed)), target.name)
            if owner != target.name:
                words = f"this target would use the same directory as target '{owner}'"
                yield context.problem(("targets", position), words, "Give each its own")


def _unreadable_secrets(settings: Settings, context: Context, environ: Mapping[str, str]) -> Iterator[ConfigError]:
    shard = settings.own_shard
    for path, source in sources(settings):
        if path[0] == "targets" and not shard.has(settings.targets[int(path[1])].name):
            continue
        try:
            source.read(environ)
        except SecretError as error:
            yield SecretError(f"{error.where} {error.problem}", where=context.where(path), remedy=error.remedy)
