"""Reads the shape of the schema: which keys, sections, lists and tables stand where.

The environment, the error messages and the generated references all walk the schema; what pydantic's
annotations mean is decided here, once.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

Path = tuple[str | int, ...]
"""Keys and list positions that lead to a value."""

NEEDED: dict[str, JsonValue] = {"needed": True}
"""`json_schema_extra` of a key that has a default and is needed all the same, unless another key stands for it."""


class Place(NamedTuple):
    """Where a path leads: the path as the operator wrote it, its field and its annotation (None: unknown to the schema)."""

    path: Path
    field: FieldInfo | None
    annotation: Any


def core(annotation: Any) -> Any:
    """The annotation without `Annotated[…]` and without `| None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
            continue
        if get_origin(annotation) in (Union, types.UnionType):
            members = [member for member in get_args(annotation) if member is not type(None)]
            if len(members) == 1:
                annotation = members[0]
                continue
        return annotation


def models(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that a value may be: none for a plain value, several for a choice between sections."""
    found = core(annotation)
    if isinstance(found, type) and issubclass(found, BaseModel):
        return (found,)
    if get_origin(found) in (Union, types.UnionType):
        members = [models(member) for member in get_args(found)]
        return tuple(member[0] for member in members) if all(len(member) == 1 for member in members) else ()
    return ()


def item(annotation: Any) -> Any | None:
    """What a list holds; None when the value is no list."""
    found = core(annotation)
    return get_args(found)[0] if get_origin(found) in (tuple, list, frozenset) else None


def table(annotation: Any) -> tuple[Any, Any] | None:
    """Key and value of a table with free keys; None when the value is no table."""
    found = core(annotation)
    if get_origin(found) is not dict:
        return None
    key, value = get_args(found)
    return key, value


def markers(annotation: Any, field: FieldInfo | None = None) -> Iterator[Any]:
    """The validators and bounds attached to a field and to its annotation."""
    if field is not None:
        yield from field.metadata
    for member in (annotation, *get_args(annotation)):
        if get_origin(member) is Annotated:
            for marker in get_args(member)[1:]:
                yield from marker.metadata if isinstance(marker, FieldInfo) else (marker,)


def keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a section under the keys that the operator writes: an alias stands for a name that Python cannot use."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def tag(model: type[BaseModel]) -> tuple[str, ...]:
    """The values of key `engine` that choose this model."""
    field = model.model_fields.get("engine")
    annotation = core(field.annotation) if field else None
    return tuple(get_args(annotation)) if get_origin(annotation) is Literal else ()


def place(location: Path, root: type[BaseModel]) -> Place:
    """Follow a pydantic error location, which names the chosen model of a union where the operator writes nothing."""
    path: Path = ()
    field: FieldInfo | None = None
    annotation: Any = root
    for part in location:
        if part == "[key]":
            break
        choices = models(annotation)
        chosen = next((model for model in choices if part in tag(model)), None) if len(choices) > 1 else None
        if chosen is not None:
            annotation = chosen
            continue
        path = (*path, part)
        field, annotation = _step(annotation, part)
    return Place(path, field, annotation)


def _step(annotation: Any, part: str | int) -> tuple[FieldInfo | None, Any]:
    if isinstance(part, str):
        for model in models(annotation):
            if field := keys(model).get(part):
                return field, field.annotation
        if found := table(annotation):
            return None, found[1]
        return None, None
    return None, item(annotation)
