"""Environment variables over the file: `TDE_EXPORTER_WEB__PORT=9000` sets `web.port`.

They set single values. Items of lists have no stable name, so lists are set in the file only.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from exporter.config import shape
from exporter.config.schema import ENV_PREFIX
from exporter.domain.errors import ConfigError
from exporter.domain.time_scale import CONSENT_VARIABLE, SCALE_VARIABLE

READ_BY_OTHERS = frozenset({f"{ENV_PREFIX}CONFIG", SCALE_VARIABLE, CONSENT_VARIABLE})
"""Variables with our prefix that are no settings: the path of the file, and what makes a test of the program of it."""

# Kubernetes gives every container variables for each Service of the namespace. A Service named
# `tde-exporter`, or one whose name begins so, yields names with our prefix; they are none of our business.
_SERVICE_LINK = re.compile(
    r"(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_SERVICE_URL = re.compile(r"(?:tcp|udp|sctp)://\S+")


def variable(path: shape.Path, root: type[BaseModel]) -> str | None:
    """The variable that sets the value at this path; None where none can."""
    if not path or any(not isinstance(part, str) for part in path):
        return None
    annotation = shape.place(path, root).annotation
    if annotation is None or shape.models(annotation) or shape.table(annotation) or shape.item(annotation) is not None:
        return None
    return ENV_PREFIX + "__".join(str(part) for part in path).upper()


def overlay(
    data: dict[str, Any], environ: Mapping[str, str], root: type[BaseModel], foreign: frozenset[str]
) -> tuple[dict[shape.Path, str], list[ConfigError]]:
    """Write the variables into `data`; `foreign` names variables that belong to secrets of the file.

    Returns which variable set which path, and the problems: unknown names and lists.
    """
    origins: dict[shape.Path, str] = {}
    problems: list[ConfigError] = []
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name in READ_BY_OTHERS or name in foreign:
            continue
        if _is_service_link(name.removeprefix(ENV_PREFIX), environ[name]):
            continue
        path = tuple(name.removeprefix(ENV_PREFIX).lower().split("__"))
        if problem := _refusal(name, path, environ[name], root):
            problems.append(problem)
        elif _write(data, path, _value(environ[name], shape.place(path, root).annotation)):
            origins[path] = name
    return origins, problems


def _is_service_link(rest: str, value: str) -> bool:
    if _SERVICE_LINK.fullmatch(rest):
        return True
    return (rest == "PORT" or rest.endswith("_PORT")) and bool(_SERVICE_URL.fullmatch(value))


def _refusal(name: str, path: tuple[str, ...], value: str, root: type[BaseModel]) -> ConfigError | None:
    where = f"environment variable {name if name.isprintable() else ascii(name)[1:-1]}"
    for end in range(1, len(path) + 1):
        if shape.item(shape.place(path[:end], root).annotation) is not None:
            listed = ".".join(path[:end])
            problem = f"'{listed}' is a list, and the items of lists have no names that a variable could use"
            return ConfigError(
                problem, where=where, remedy=f"Unset it, and write '{listed}' into the configuration file"
            )
    found = shape.place(path, root)
    if shape.models(found.annotation) or shape.table(found.annotation):
        remedy = f"Name one of its keys, such as {_example(path, root)}"
        return ConfigError(f"'{'.'.join(path)}' is a section, not a value", where=where, remedy=remedy)
    known = sorted(filter(None, (variable(known, root) for known in leaves(root))))
    if found.annotation is None or name != variable(path, root) or name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        suggestion = f"; did you mean {close[0]}?" if close else ""
        remedy = "Correct the name, or unset it" if close else "Unset it; docs/configuration.md lists the known ones"
        return ConfigError(f"no setting has this name{suggestion}", where=where, remedy=remedy)
    if not value:
        return ConfigError("the value is empty", where=where, remedy="Give it a value, or unset it")
    return None


def leaves(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all values that a variable can set."""
    for name, field in shape.keys(model).items():
        yield from _leaves_of(field.annotation, (*path, name))


def _leaves_of(annotation: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if found := shape.table(annotation):
        for key in getattr(shape.core(found[0]), "__members__", {}).values():
            yield from _leaves_of(found[1], (*path, str(key)))
    elif nested := shape.models(annotation):
        yield from leaves(nested[0], path)
    elif shape.item(annotation) is None:
        yield path


def _example(path: tuple[str, ...], root: type[BaseModel]) -> str:
    return next(f"{variable(leaf, root)}" for leaf in leaves(root) if leaf[: len(path)] == path)


def _write(data: dict[str, Any], path: tuple[str, ...], value: Any) -> bool:
    """False where the file has something else than a section on the way; validation tells about that."""
    section: Any = data
    for part in path[:-1]:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            return False
    section[path[-1]] = value
    return True


def _value(text: str, annotation: Any) -> str:
    """Paths in variables are relative to the working directory, those in the file to the file's folder."""
    if shape.core(annotation) is Path and text.strip() and not text.startswith("~"):
        return os.path.abspath(text)  # noqa: PTH100 - Path.resolve would follow symbolic links
    return text
