"""Reads one YAML document strictly, and remembers on which line everything stands.

Duplicate keys, tags, merge keys, keys that are not text and several documents are refused. Plain values follow
YAML 1.2: only `true` and `false` are truth values, so `no` and `on` are text, and `1:30` is no number.
Messages never quote the file, for the line in question may hold a secret.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from exporter.config import shape
from exporter.domain.errors import ConfigError, ConfigErrors

LARGEST = 1024 * 1024
"""Bytes of a configuration file."""
DEEPEST = 32
MOST_VALUES = 100_000
"""After aliases are followed: a few lines of YAML can otherwise stand for billions of values."""

_CORE = "tag:yaml.org,2002:"
_QUOTE = "Put text that holds special characters (such as : # & * ! % @ `) in single quotes"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe parser with the plain values of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


def _plain(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(_CORE + kind, re.compile(f"^(?:{pattern})$"), list(first))


_plain("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_plain("null", "~|null|Null|NULL|", "~nN")
_Loader.yaml_implicit_resolvers.setdefault("", []).append((_CORE + "null", re.compile("^$")))
_plain("int", r"[-+]?(?:0|[1-9][0-9_]*)|0x[0-9a-fA-F]+", "-+0123456789")
_plain("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+", "-+.0123456789")
_plain("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+.")


@dataclass
class Document:
    """What a file says: `data` is plain Python; `lines` gives the line (from 1) of every key and list item."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[shape.Path, int] = field(default_factory=dict)
    file: str = ""

    def line(self, path: shape.Path) -> int | None:
        """The line of the nearest thing on this path that stands in the file."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def value(self, path: shape.Path) -> Any:
        """What stands at this path; raises LookupError or TypeError when nothing does."""
        found: Any = self.data
        for part in path:
            found = found[part]
        return found


def shown(path: Path) -> str:
    """A file name on one line, whatever characters it holds."""
    text = str(path)
    return text if text.isprintable() else ascii(text)[1:-1]


def read(path: Path) -> Document:
    """The document in a file; raises ConfigErrors with all problems found."""
    where = shown(path)
    try:
        # O_NONBLOCK: opening a named pipe that nobody writes to would otherwise wait for ever, and a reload with it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            if stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
                raise _error(
                    where, "this is a pipe", "Name a file: it is read again when the exporter is told to reload"
                )
            content = stream.read(LARGEST + 1)
    except FileNotFoundError:
        raise _error(
            where, "the file does not exist", "Create it, or run without one for the embedded default"
        ) from None
    except IsADirectoryError:
        raise _error(where, "this is a directory", "Name the configuration file in it") from None
    except PermissionError:
        raise _error(where, "the file may not be read", "Give the user that runs the exporter the right") from None
    except (OSError, ValueError) as error:
        words = (error.strerror or "").lower() if isinstance(error, OSError) else "bad path"
        raise _error(where, f"the file cannot be read ({words})", "Correct the path") from None
    if len(content) > LARGEST:
        raise _error(where, f"the file is larger than {LARGEST} bytes", "Name the configuration file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _error(f"{where}:{line}", "this is not text in UTF-8", "Save the file as UTF-8") from None
    return parse(text, where)


def parse(text: str, where: str) -> Document:
    """The document in a text; `where` names the text in messages. Raises ConfigErrors."""
    loader = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        raise _syntax(error, text, where) from None
    except RecursionError:
        raise _error(where, "lists and sections are nested too deeply", "Write it flatter") from None
    finally:
        if loader is not None:
            loader.dispose()
    if root is None or (isinstance(root, ScalarNode) and root.tag == _CORE + "null"):
        raise _error(
            where, "the file is empty", "Begin with `targets:` as in config.example.yaml, or run without a file"
        )
    if not isinstance(root, MappingNode):
        what = "a list" if isinstance(root, SequenceNode) else "a single value"
        raise _error(f"{where}:{_line(root)}", f"the file holds {what}, not a section of keys", "Begin with `targets:`")
    reading = _Reading(where)
    document = Document(reading.section(root, ()), reading.lines, where)
    if reading.problems:
        raise ConfigErrors(reading.problems)
    return document


class _Reading:
    """Turns nodes into plain Python; collects lines and problems."""

    def __init__(self, where: str) -> None:
        self._where, self._values = where, 0
        self.lines: dict[shape.Path, int] = {}
        self.problems: list[ConfigError] = []

    def section(self, node: MappingNode, path: shape.Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key is None:
                continue
            if key in first:
                remedy = "Keep one of them"
                self._problem(key_node, f"the key{named(key)} stands here twice, first on line {first[key]}", remedy)
                continue
            first[key] = self.lines[(*path, key)] = _line(key_node)
            found[key] = self._value(value_node, (*path, key))
        return found

    def _key(self, node: Node) -> str | None:
        if isinstance(node, ScalarNode) and node.value == "<<" and node.style is None:
            self._problem(node, "merge keys (<<) are not supported", "Write the keys out")
        elif isinstance(node, ScalarNode) and node.tag == _CORE + "str":
            return str(node.value)
        else:
            self._problem(node, "a key must be text", "Put it in single quotes, or correct the indentation")
        return None

    def _value(self, node: Node, path: shape.Path) -> Any:
        self._values += 1
        if self._values > MOST_VALUES:
            raise _error(f"{self._where}:{_line(node)}", f"more than {MOST_VALUES} values", "Use fewer aliases")
        if len(path) > DEEPEST:
            raise _error(f"{self._where}:{_line(node)}", "lists and sections are nested too deeply", "Write it flatter")
        if isinstance(node, MappingNode) and node.tag == _CORE + "map":
            return self.section(node, path)
        if isinstance(node, SequenceNode) and node.tag == _CORE + "seq":
            for position, item in enumerate(node.value):
                self.lines[(*path, position)] = _line(item)
            return [self._value(item, (*path, position)) for position, item in enumerate(node.value)]
        if isinstance(node, ScalarNode) and node.tag in _SCALARS:
            try:
                return _SCALARS[node.tag](node.value)
            except (ValueError, KeyError):
                self._problem(node, "this number cannot be read", "Correct it, or put text in single quotes")
                return None
        self._problem(node, "tags (words that begin with !) are not supported", _QUOTE)
        return None

    def _problem(self, node: Node, problem: str, remedy: str) -> None:
        self.problems.append(ConfigError(problem, where=f"{self._where}:{_line(node)}", remedy=remedy))


def _integer(text: str) -> int:
    return int(text.replace("_", ""), 16 if "0x" in text else 10)


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: dict[str, Any] = {
    _CORE + "str": str,
    _CORE + "null": lambda text: None,
    _CORE + "bool": lambda text: {"true": True, "false": False}[text.lower()],
    _CORE + "int": _integer,
    _CORE + "float": _float,
}


def named(key: str) -> str:
    """The key in quotes, if it looks like a key; a secret in the wrong place must not be shown."""
    return f" '{key}'" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,30}", key) else ""


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _error(where: str, problem: str, remedy: str) -> ConfigErrors:
    return ConfigErrors([ConfigError(problem, where=where, remedy=remedy)])


_WORDS = (
    (r"'\t'", "a tab stands where only spaces may indent", "Indent with spaces"),
    ("undefined alias", "an alias (a word after *) has no anchor", _QUOTE),
    ("duplicate anchor", "an anchor (a word after &) is given twice", "Give each its own name"),
    ("found another document", "the file holds several documents", "Remove the lines that begin with ---"),
    ("found duplicate", "something is given twice", "Keep one of them"),
    ("mapping values are not allowed", "a colon stands where no key may begin", f"Correct the indentation. {_QUOTE}"),
    ("could not find expected ':'", "a key has no colon, or a line is indented wrongly", "Write `key: value`"),
    ("unexpected end of stream", "a quote is not closed", "Close it"),
    ("escape", "an escape after \\ is not known inside double quotes", "Use single quotes"),
    ("expected ',' or", "a bracket or brace is not closed", "Close it"),
    ("block end", "the indentation does not fit the lines above", "Indent the keys of one section alike"),
    ("cannot start any token", "a value begins with a special character", _QUOTE),
)


def _syntax(error: yaml.YAMLError, text: str, where: str) -> ConfigErrors:
    """PyYAML's message in our words: its own quotes the file."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, max(error.position, 0)) + 1
        return _error(f"{where}:{line}", "there is a character that YAML does not allow", "Is this a text file?")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = f"{getattr(error, 'problem', '')}"
    place = f"{where}:{mark.line + 1}" if mark else where
    for fragment, problem, remedy in _WORDS:
        if fragment in said:
            return _error(place, problem, remedy)
    return _error(place, "this is not valid YAML", f"Correct the indentation or the quotes. {_QUOTE}")
