"""Writes the example configuration and the reference page from the schema, so that neither can lag behind it.

Pure functions of the settings classes; nothing in their output depends on the machine or on the environment.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from exporter.config import environment, shape
from exporter.config.loader import EMBEDDED, EMBEDDED_ENGINE
from exporter.config.problems import quantity
from exporter.config.quantities import DURATION_FORMS, SIZE_FORMS, Quantity, format_duration
from exporter.config.schema import (
    ENV_PREFIX,
    NAME_PATTERN,
    Settings,
    TargetSettings,
    default_operation_settings,
    settings_type,
)
from exporter.config.secrets import SecretSource

WIDTH = 112

_HEAD = f"""\
# Configuration of tde-exporter. Generated from the schema.
#
# As it stands, this file says what tde-exporter does without a configuration file. Lines that begin with `#` and a
# word are switched off: remove the `#` to use them. Paths are relative to the folder of this file, durations are
# written as {DURATION_FORMS}, sizes as {SIZE_FORMS}.
# `tde-exporter check FILE` says whether a configuration is sound.
"""


def example_yaml(target_types: Mapping[str, type[TargetSettings]]) -> str:
    """`config.example.yaml`: every key with its description; what it switches on equals the embedded default."""
    schema = settings_type(target_types)
    lines: list[str] = []
    for name, field in schema.model_fields.items():
        lines += ["", *_comment(field.description, "")]
        if name == "targets":
            lines += ["targets:", *_targets(target_types)]
        else:
            lines += _entry(name, field, field.get_default(), "", off=False)
    return _HEAD + "\n".join(lines) + "\n"


def _targets(target_types: Mapping[str, type[TargetSettings]]) -> Iterator[str]:
    ordered = sorted(target_types, key=lambda engine: (engine != EMBEDDED_ENGINE, engine))
    for position, engine in enumerate(ordered):
        model = target_types[engine]
        yield from [""] if position else []
        yield from (*_comment(_doc(model), "  "), "  #")
        name = EMBEDDED if engine == EMBEDDED_ENGINE else engine
        yield from _list_item(_sample(model, name=name, engine=engine), "  ", off=engine != EMBEDDED_ENGINE)


def _list_item(value: BaseModel, indent: str, *, off: bool) -> Iterator[str]:
    """One entry of a list of sections: its first key, with the comment above it, begins at the dash."""
    started = False
    for line in _keys(value, f"{indent}  ", off=off):
        text = line.strip()
        if started:
            yield line
        elif text.startswith("# "):
            yield f"{indent}{text}"
        else:
            started = True
            yield _line(f"- {text.removeprefix('#')}", indent, off=off)


def _keys(value: BaseModel, indent: str, *, off: bool) -> Iterator[str]:
    if isinstance(value, SecretSource):
        yield from _comment(f"{_doc(SecretSource)} {SecretSource.model_fields['file'].description}", indent)
        yield _line(f"file: {value.file}", indent, off=off)
        return
    for name, field in type(value).model_fields.items():
        yield from _comment(field.description, indent)
        yield from _entry(field.alias or name, field, getattr(value, name), indent, off=off)


def _entry(name: str, field: FieldInfo, value: Any, indent: str, *, off: bool) -> Iterator[str]:
    """A key with its value and everything below it. What has no fixed default is switched off."""
    listed = shape.models(shape.item(field.annotation))
    if nested := shape.models(field.annotation):
        off = off or value is None
        yield _line(f"{name}:", indent, off=off)
        yield from _keys(_sample(nested[0]) if value is None else value, f"{indent}  ", off=off)
    elif listed:
        off = off or not value
        yield _line(f"{name}:", indent, off=off)
        for one in value or (_sample(listed[0]),):
            yield from _list_item(one, f"{indent}  ", off=off)
    elif shape.table(field.annotation):
        yield _line(f"{name}:", indent, off=off)
        for key, one in default_operation_settings().items():
            yield _line(f"{key}:", f"{indent}  ", off=off)
            yield from _keys(one, f"{indent}    ", off=off)
    else:
        machine = value is PydanticUndefined or value in (None, ()) or (field.examples and not field.is_required())
        shown = field.examples[0] if field.examples else value
        yield _line(f"{name}: {_scalar(shown, field)}", indent, off=bool(off or machine))


def _sample(model: type[BaseModel], **given: str) -> BaseModel:
    """An instance to show: what is required takes its example or first allowed value.

    So does a key that may be left out only where another one stands for it; it is marked with `NEEDED`.
    """
    if model is SecretSource:
        return SecretSource(file=Path("/run/secrets/password"))
    values: dict[str, Any] = {}
    for name, field in shape.keys(model).items():
        if field.is_required() or field.json_schema_extra == shape.NEEDED:
            nested = shape.models(field.annotation)
            choices = [*(field.examples or ()), *_choices(field.annotation), "example"]
            values[name] = _sample(nested[0]) if nested else choices[0]
    return model(**values | given)


def _line(text: str, indent: str, *, off: bool) -> str:
    return f"{indent}#{text}" if off else f"{indent}{text}"


def _comment(text: str | None, indent: str) -> list[str]:
    # A name such as `tde-exporter-1/3` stays whole, so that it can be copied and searched for.
    return textwrap.wrap(
        text or "", WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ", break_on_hyphens=False
    )


def _scalar(value: Any, field: FieldInfo) -> str:
    """A value as YAML on one line."""
    if isinstance(value, int | float) and (kind := quantity(shape.Place((), field, field.annotation))):
        return kind.format(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(str(item) for item in value) + "]"
    plain = value.value if isinstance(value, Enum) else str(value) if isinstance(value, Path) else value
    text: str = yaml.safe_dump(plain, default_flow_style=True, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")


_PAGE = """\
# Configuration

*Generated from the schema.* One YAML file; [`config.example.yaml`](../config.example.yaml) shows every key. Without a file,
one embedded encrypted database is measured. `tde-exporter check FILE` says whether a file is sound; every mistake in it is
one line with file, line, key and remedy.

- **Durations** are written as `250ms`, `10s`, `5m`, `1h` or `2d`, **sizes** as `512KiB`, `64MiB`, `2GiB`, `1TiB` or whole
  bytes. **Paths** in the file are relative to its folder.
- **Strict**: unknown keys, duplicate keys, tags and merge keys are refused. Only `true` and `false` are truth values.
- **Environment variables** override single values of the file: `{prefix}` and the keys in upper case, joined by two
  underscores. Items of lists, so all of `targets`, are set in the file only. A variable with this prefix that names no
  setting is refused, except `{prefix}CONFIG` (the path of the file), variables that a secret of the file names, and those
  that Kubernetes makes for its Services.
- **Secrets** never stand in the file. Where one is wanted, write a section with one of two keys: `file`, a file that holds
  the secret and nothing else, or `env`, the name of an environment variable. One line end at the end of the secret is
  dropped; everything else is kept, byte for byte.
"""


def markdown(target_types: Mapping[str, type[TargetSettings]]) -> str:
    """`docs/configuration.md`: a table for each section, and one for each engine."""
    schema = settings_type(target_types)
    parts = [_PAGE.format(prefix=ENV_PREFIX), "## Top level\n", _table(schema, schema, ())]
    for name, field in schema.model_fields.items():
        if name == "targets":
            continue
        if found := shape.table(field.annotation):
            parts += [f"## `{name}.<operation>`\n", field.description or "", ""]
            parts += [_table(shape.models(found[1])[0], schema, (name, "<operation>")), _operation_defaults()]
        elif nested := shape.models(field.annotation):
            parts += [f"## `{name}`\n", _doc(nested[0]), "", _table(nested[0], schema, (name,))]
    parts += ["## `targets[]`\n", _doc(TargetSettings), "", _table(TargetSettings, schema, None)]
    parts += _sections(TargetSettings, list(TargetSettings.model_fields), schema, lists_only=True)
    for engine in sorted(target_types):
        parts += _engine(engine, target_types[engine], schema)
    return "\n".join(parts).rstrip("\n") + "\n"


def _engine(engine: str, model: type[TargetSettings], schema: type[Settings]) -> Iterator[str]:
    own = [name for name in shape.keys(model) if _redefined(name, model)]
    yield from (f"## `targets[]` with `engine: {engine}`\n", _doc(model), "")
    operations = ", ".join(f"`{operation}`" for operation in model.default_operations)
    yield from (f"Default operations: {operations}.\n", _table(model, schema, None, own))
    yield from _sections(model, own, schema, engine=engine)


def _redefined(name: str, model: type[TargetSettings]) -> bool:
    """Whether an engine adds a key, or gives a common one another type, default or meaning."""
    common = shape.keys(TargetSettings).get(name)
    own = shape.keys(model)[name]
    return common is None or (own.annotation, own.default, own.description) != (
        common.annotation,
        common.default,
        common.description,
    )


def _sections(
    model: type[BaseModel], keys: list[str], schema: type[Settings], *, engine: str = "", lists_only: bool = False
) -> Iterator[str]:
    """A table for each section below these keys of a target. Sections that are no lists may be told elsewhere."""
    sections: dict[type[BaseModel], list[str]] = {}
    for key in keys:
        annotation = shape.keys(model)[key].annotation
        listed = shape.item(annotation)
        suffix = "" if listed is None else "[]"
        for nested in shape.models(listed) if listed is not None else () if lists_only else shape.models(annotation):
            sections.setdefault(nested, []).append(f"`targets[].{key}{suffix}`")
    for nested, names in sections.items():
        of_engine = f" ({engine})" if engine else ""
        yield from (f"### {' and '.join(names)}{of_engine}\n", _doc(nested), "", _table(nested, schema, None))


def _table(
    model: type[BaseModel], schema: type[Settings], path: shape.Path | None, names: list[str] | None = None
) -> str:
    """A table of keys; `path` leads to the section, None where no variable reaches."""
    heads = ["key", "type", "default", "meaning", *(["environment variable"] if path is not None else [])]
    rows = [heads, ["---"] * len(heads)]
    for name, field in shape.keys(model).items():
        if names is None or name in names:
            row = [f"`{name}`", _type(field), _default(field), (field.description or "")]
            if path is not None:
                row.append(_variable((*path, name), schema))
            rows.append(row)
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def _variable(path: shape.Path, schema: type[Settings]) -> str:
    name = environment.variable(path, schema)
    return f"`{name}`" if name else ""


def _type(field: FieldInfo) -> str:
    annotation = field.annotation
    listed = shape.item(annotation)
    if listed is not None:
        several = " / ".join(f"`{choice}`" for choice in _choices(listed))
        return "list of sections" if shape.models(listed) else f"list of {several or 'text'}"
    if shape.table(annotation) or shape.models(annotation):
        return "section"
    if choices := _choices(annotation):
        return " / ".join(f"`{choice}`" for choice in choices)
    place = shape.Place((), field, annotation)
    kind = quantity(place)
    words = kind.name if kind else _PLAIN.get(shape.core(annotation), "text")
    if any(getattr(marker, "pattern", None) == NAME_PATTERN for marker in shape.markers(annotation, field)):
        words = "name: lower-case letters, digits, `_.-`"
    return f"{words}{_bounds(place, kind)}"


_PLAIN: dict[Any, str] = {int: "whole number", float: "number", bool: "`true` / `false`", Path: "path", str: "text"}


def _bounds(place: shape.Place, kind: Quantity | None) -> str:
    found: dict[str, Any] = {}
    for marker in shape.markers(place.annotation, place.field):
        for name in ("gt", "ge", "lt", "le"):
            if (bound := getattr(marker, name, None)) is not None:
                # The field's own bounds come first; those of its type are wider.
                found.setdefault(name, kind.format(bound) if kind and bound else f"{bound}")
    if "ge" in found and "le" in found:
        return f", {found['ge']} to {found['le']}"
    if "ge" in found:
        found.pop("gt", None)
    words = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
    return "".join(f", {words[name]} {found[name]}" for name in words if name in found)


def _choices(annotation: Any) -> list[str]:
    found = shape.core(annotation)
    if get_origin(found) is Literal:
        return [str(choice) for choice in get_args(found)]
    if isinstance(found, type) and issubclass(found, Enum):
        return [str(choice.value) for choice in found]
    return []


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value = field.get_default()
    if value in (None, (), PydanticUndefined) or isinstance(value, (BaseModel, dict)):
        return ""
    if isinstance(value, tuple) and isinstance(value[0], BaseModel):
        return ", ".join(f"one named `{getattr(item, 'name', '')}`" for item in value)
    return f"`{_scalar(value, field)}`"


def _operation_defaults() -> str:
    rows = "".join(
        f"| `{operation}` | {settings.samples} | `{format_duration(settings.timeout)}` |\n"
        for operation, settings in default_operation_settings().items()
    )
    return f"What is not named keeps the default of the operation:\n\n| operation | samples | timeout |\n| --- | --- | --- |\n{rows}"


def _doc(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())
