"""Says in plain words what pydantic found, with the place where the operator finds it.

Values are never quoted, for one of them may be a secret in the wrong place; they are described by kind.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_core import ErrorDetails

from exporter.config import shape
from exporter.config.document import Document, named
from exporter.config.quantities import DURATION, SIZE, Quantity
from exporter.config.secrets import SecretSource
from exporter.domain.errors import ConfigError

_REFERENCE = "See docs/configuration.md"


def notation(path: shape.Path) -> str:
    """A path as an operator writes it: `targets[0].pairs[1].rows`. What does not look like a key is shown as `?`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if named(part) else "?")
    return text


@dataclass(frozen=True)
class Context:
    """What a message needs to know: the schema, what was read from where, and which variable set what."""

    root: type[BaseModel]
    document: Document
    origins: Mapping[shape.Path, str]

    def where(self, path: shape.Path) -> str:
        """File, line and path, or the variable."""
        if path in self.origins:
            return f"environment variable {self.origins[path]}"
        line = self.document.line(path)
        parts = [f"{self.document.file}:{line}" if line else self.document.file, notation(path)]
        return ": ".join(part for part in parts if part)

    def problem(self, path: shape.Path, words: str, remedy: str) -> ConfigError:
        """An error of the configuration at this path."""
        return ConfigError(words, where=self.where(path), remedy=remedy)

    def kind(self, path: shape.Path) -> str:
        """What stands at this path, described but not quoted."""
        try:
            value = self.document.value(path)
        except (LookupError, TypeError):
            return "nothing"
        return kind_of(value)


def kind_of(value: object) -> str:
    """What a value from the file is, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, (list, tuple)) else "a section of keys"


def reword(error: ValidationError, context: Context) -> list[tuple[shape.Path, ConfigError]]:
    """One problem for each finding, with the path of what is wrong."""
    details = error.errors(include_input=False, include_url=False)
    located = [(_path(detail, context), detail) for detail in details]
    kept = [(path, detail) for path, detail in located if not _is_echo(path, detail, located)]
    return [(path, context.problem(path, *_words(path, detail, context))) for path, detail in kept]


def _path(detail: ErrorDetails, context: Context) -> shape.Path:
    at = detail.get("ctx", {}).get("at", ())
    path = shape.place(detail["loc"], context.root).path
    if detail["type"] == "union_tag_invalid":
        return (*path, "engine")
    if detail["type"] == "extra_forbidden" and SecretSource in _choices_above(detail["loc"], context):
        return path[:-1]  # the unknown key might be the secret
    return (*path, *at)


def _choices_above(location: tuple[str | int, ...], context: Context) -> tuple[type[BaseModel], ...]:
    """The models of the section in which a key stands."""
    return shape.models(shape.place(location[:-1], context.root).annotation)


def _is_echo(path: shape.Path, detail: ErrorDetails, all_of_them: list[tuple[shape.Path, ErrorDetails]]) -> bool:
    """A list whose items are all wrong is also called too short."""
    nested = (other for other, _ in all_of_them if len(other) > len(path) and other[: len(path)] == path)
    return detail["type"] == "too_short" and any(nested)


def _words(path: shape.Path, detail: ErrorDetails, context: Context) -> tuple[str, str]:
    kind, ctx = detail["type"], detail.get("ctx", {})
    found = shape.place(detail["loc"], context.root)
    if kind == "extra_forbidden":
        return _unknown_key(detail["loc"], context)
    if kind == "missing":
        description = (found.field.description or "").split(". ")[0].rstrip(".") if found.field else ""
        return "this key is missing", f"Add it: {description}" if description else "Add it"
    if kind == "union_tag_not_found":
        return "the key 'engine' is missing", f"Add it; known: {_engines(found.annotation)}"
    if kind == "union_tag_invalid":
        return _unknown_engine(str(ctx.get("tag", "")), _engines(found.annotation))
    if kind == "duplicate_name":
        return f"two {ctx['section']} are named '{ctx['name']}'", "Give each its own name"
    if kind == "inline_secret":
        return re.sub(r"\s+", " ", detail["msg"]), str(ctx["fix"])
    if kind == "value_error":
        return _own_words(str(ctx.get("error", "")))
    if kind == "too_short":
        return "at least one entry is needed", "Add one, or remove the key"
    if kind == "string_too_short":
        return "this must not be empty", "Give it a value, or remove the key"
    if kind in ("enum", "literal_error"):
        expected = str(ctx.get("expected", "")).replace("'", "")
        return f"this must be one of: {expected.replace(' or ', ', ')}", "Write one of them"
    if bound := _BOUNDS.get(kind):
        key, words = bound
        return f"this must be {words} {_amount(ctx[key], found)}", "Correct the value"
    if kind == "string_pattern_mismatch":
        return _pattern(found)
    return _wrong_type(kind, path, context)


_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def _amount(bound: Any, found: shape.Place) -> str:
    kind = quantity(found)
    if bound and kind:
        return kind.format(bound)
    return f"{bound}" if isinstance(bound, int) else f"{bound:g}"


def quantity(found: shape.Place) -> Quantity | None:
    """Whether a duration such as `10s` or a size such as `2GiB` stands there; None for anything else."""
    readers = [
        marker.func for marker in shape.markers(found.annotation, found.field) if isinstance(marker, BeforeValidator)
    ]
    return next((kind for kind in (DURATION, SIZE) if kind.parse in readers), None)


def _unknown_key(location: tuple[str | int, ...], context: Context) -> tuple[str, str]:
    key = str(location[-1])
    choices = _choices_above(location, context)
    keys = sorted({name for model in choices for name in shape.keys(model)})
    known = f"Known here: {', '.join(keys)}"
    if SecretSource in choices or not named(key):
        return "unknown key", known
    close = difflib.get_close_matches(key.lower().replace("-", "_"), keys, n=1, cutoff=0.6)
    if close:
        return f"unknown key '{key}'; did you mean '{close[0]}'?", "Correct it, or remove it"
    return f"unknown key '{key}'", known


def _engines(annotation: Any) -> str:
    return ", ".join(sorted(engine for model in shape.models(annotation) for engine in shape.tag(model)))


def _unknown_engine(tag: str, known: str) -> tuple[str, str]:
    close = difflib.get_close_matches(tag.lower(), known.split(", "), n=1)
    # What does not look like the name of an engine is not repeated: it might be anything.
    shown = f"unknown engine '{tag}'" if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,30}", tag) else "unknown engine"
    return f"{shown}; did you mean '{close[0]}'?" if close else shown, f"Known: {known}"


def _own_words(words: str) -> tuple[str, str]:
    """Errors raised by validators of this package; `problem; remedy` where there is a remedy."""
    problem, _, remedy = words.partition("; ")
    return problem or "this value is not valid", (remedy[:1].upper() + remedy[1:]) or _REFERENCE


def _pattern(found: shape.Place) -> tuple[str, str]:
    if found.path and found.path[-1] == "name":
        return (
            "a name begins with a lower-case letter or a digit, and holds only those and _ . - (at most 63 characters)",
            "Choose such a name",
        )
    return "this text has not the form that is wanted here", _REFERENCE


_TYPES = {
    "int": ("a whole number", "Write digits, without quotes or unit"),
    "float": ("a number", "Write digits, without quotes or unit"),
    "bool": ("true or false", "Write one of these words"),
    "string": ("text", "Put it in single quotes"),
    "path": ("a path", "Put it in single quotes"),
    "tuple": ("a list", "Write each entry on a line of its own that begins with '- '"),
    "list": ("a list", "Write each entry on a line of its own that begins with '- '"),
    "model": ("a section of keys", "Write its keys on lines of their own, indented"),
    "dict": ("a section of keys", "Write its keys on lines of their own, indented"),
    "finite": ("a finite number", "Write digits"),
}


def _wrong_type(kind: str, path: shape.Path, context: Context) -> tuple[str, str]:
    wanted, remedy = _TYPES.get(kind.split("_")[0], ("", ""))
    if not wanted:
        return "this value is not valid", _REFERENCE
    if wanted in ("a number", "a whole number") and (found := quantity(shape.place(path, context.root))):
        wanted, remedy = f"a {found.name}", f"Write it as {found.forms}"
    given = "" if path in context.origins else context.kind(path)
    if given == "nothing" and wanted == "a section of keys":
        return "this section is empty", "Write its keys below it, indented, or remove it"
    but = f", but this is {given}" if given and given != wanted else ""
    return f"this must be {wanted}{but}", remedy
