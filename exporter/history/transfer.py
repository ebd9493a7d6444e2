"""The form in which histories travel from one exporter to another: JSON lines, packed with gzip.

::

    {"format": "tde-exporter history", "version": 1, "schema": 2, "exporter": …, "at": …, "targets": [name, …]}
    ["blocks", target, pair, operation, start, …]          a row; `KINDS` names the columns, blobs are base64
    {"rows": {"blocks": …}, "sha256": …}                   how many rows of each kind; of all bytes before this line

Rows are in the order of their targets, and of each target in the order that `departing` gives them. Both ways are
streams: memory does not grow with what is transferred. Nothing of a file is believed before its last line was read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from exporter.domain.errors import HistoryError
from exporter.history import rows
from exporter.history.schema import VERSION as SCHEMA

FORMAT, VERSION = "tde-exporter history", 1
LONGEST_LINE = 16 * 2**20
"""Bytes. A snapshot, the longest that there is, takes some ten thousand."""
MOST_TARGETS = 10_000

_LONGEST_WORDS = 400
_LATEST = 1e11
_PIECE = 2**18
_LEVEL = 3
"""Of gzip: sketches are compressed already, and what is left is names and base64."""
_MAGIC = b"\x1f"
_GZIP = 31  # zlib's word for a gzip header, with the largest window.

_SERIES = ("target", "pair", "operation", "start")
KINDS: dict[str, tuple[str, ...]] = {
    "hours": (*_SERIES, "measured", "in_bursts", *rows.COLUMNS),
    "blocks": (*_SERIES, *rows.COLUMNS),
    "snapshots": ("target", "started", "body"),
    "events": ("target", "id", "pair", "at", "not_before", "kind", "origin", "text", "taken"),
    "epochs": ("target", "pair", "epoch", "seen", "phase", "slot", "content"),
    "baselines": (
        *("target", "pair", "frozen", "since", "until", "epoch", "phase", "slot", "content", "event", "note"),
        "series",
    ),
    "states": ("target", "name", "pair", "operation", "version", "body"),
}
"""The columns of each kind of row. The `series` of a baseline are (operation, body) pairs."""
_BLOBS = ("units", "encrypted_sketch", "plain_sketch", "body")


class Row(NamedTuple):
    """A row of `kind`, with the values of `KINDS[kind]`; the first is its target."""

    kind: str
    values: tuple[Any, ...]

    @property
    def target(self) -> str:
        return str(self.values[0])


class Header(NamedTuple):
    """Who wrote an export and when (Unix time), and of which targets; sorted, each once."""

    exporter: str
    at: float
    targets: tuple[str, ...]


# -- writing -----------------------------------------------------------------------------------------------


def packed(header: Header, found: Iterable[Row]) -> Iterator[bytes]:
    """The pieces of a file with these rows."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    waiting = bytearray()
    for line in _lines(header, found):
        waiting += line
        if len(waiting) >= _PIECE:
            yield packer.compress(waiting)
            waiting.clear()
    yield packer.compress(waiting) + packer.flush()


def _lines(header: Header, found: Iterable[Row]) -> Iterator[bytes]:
    digest, counts = hashlib.sha256(), Counter[str]()

    def told(line: bytes) -> bytes:
        digest.update(line)
        return line

    yield told(
        _json(
            {
                "format": FORMAT,
                "version": VERSION,
                "schema": SCHEMA,
                "exporter": header.exporter,
                "at": header.at,
                "targets": list(header.targets),
            }
        )
    )
    for row in found:
        counts[row.kind] += 1
        yield told(line_of(row))
    yield _json({"rows": dict(counts), "sha256": digest.hexdigest()})


def line_of(row: Row) -> bytes:
    """A row as it is written."""
    return _json([row.kind, *map(_written, row.values)])


def _written(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return [[_written(part) for part in one] for one in value] if isinstance(value, tuple) else value


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode() + b"\n"


# -- reading -----------------------------------------------------------------------------------------------


class Reading:
    """A file that is being read. `header` is known at once; `rows` may be asked for once, and raises HistoryError, naming
    file and line, unless everything up to the last byte is as it was written. Values are only checked for their form."""

    def __init__(self, name: str, pieces: Iterable[bytes]) -> None:
        self._name, self._line = name, 0
        self._digest, self._counts = hashlib.sha256(), Counter[str]()
        self._lines = self._unpacked(pieces)
        try:
            self.header = self._header(next(self._lines, None))
        except ValueError as error:
            raise self.refusal(str(error)) from None

    def rows(self) -> Iterator[Row]:
        """All rows, and nothing before the end can be relied upon."""
        ended = False
        for line in self._lines:
            if ended:
                raise self.refusal(_MORE)
            try:
                document = strict_json(line)
                if isinstance(document, dict):
                    self._end(document)
                    ended = True
                    continue
                row = _row(document)
            except ValueError as error:
                raise self.refusal(str(error)) from None
            self._counts[row.kind] += 1
            self._digest.update(line)
            yield row
        if not ended:
            raise self.refusal("its end is missing")

    def refusal(self, problem: str) -> HistoryError:
        """What is wrong at the line that was read last."""
        # It may repeat what the file holds, and is read at terminals.
        problem = "".join(character if character.isprintable() else "?" for character in problem[:_LONGEST_WORDS])
        sentence = problem if problem.endswith(".") or ". " in problem else f"{problem}. Export it again"
        where = f", line {self._line}" if self._line > 1 else ""
        return HistoryError(f"{self._name}{where}: {sentence}; nothing of this file was imported")

    def _unpacked(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        rest = b""
        for piece in self._inflated(pieces):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                self._line += 1
                yield line + b"\n"
            if len(rest) > LONGEST_LINE:
                self._line += 1
                raise self.refusal("this line is too long")
        if rest:
            self._line += 1
            raise self.refusal("its end is missing")

    def _inflated(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(_GZIP)
        begun = False
        for piece in filter(None, pieces):
            if not begun and piece[:1] != _MAGIC:
                raise self.refusal(_FOREIGN)
            begun = True
            if unpacker.eof:
                raise self.refusal(_MORE)
            data, more = piece, True
            while more and not unpacker.eof:
                try:
                    found = unpacker.decompress(data, _PIECE)
                except zlib.error:
                    raise self.refusal("it is damaged") from None
                # What was asked for in full may have more behind it, also where all of the input is used.
                data, more = unpacker.unconsumed_tail, len(found) == _PIECE or bool(unpacker.unconsumed_tail)
                yield found
            if unpacker.unused_data:
                raise self.refusal(_MORE)
        if not unpacker.eof:
            raise self.refusal("it is empty" if not begun else "its end is missing")

    def _header(self, line: bytes | None) -> Header:
        if line is None:
            raise ValueError("its end is missing")
        try:
            found = strict_json(line)
        except ValueError:
            raise ValueError(_FOREIGN) from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(_FOREIGN)
        for what, mine in (("version", VERSION), ("schema", SCHEMA)):
            theirs = found.get(what)
            if not isinstance(theirs, int) or theirs < 1:
                raise ValueError(_FOREIGN)
            if theirs > mine:
                raise ValueError(
                    f"written by a newer tde-exporter ({what} {theirs}, this one knows {mine}). "
                    "Upgrade this one, then import"
                )
        names, at, exporter = found.get("targets"), found.get("at"), found.get("exporter")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("its first line is damaged")
        if len(names) > MOST_TARGETS or names != sorted(set(names)):
            raise ValueError("its first line is damaged")
        if not isinstance(at, int | float) or not 0 <= at <= _LATEST or not isinstance(exporter, str):
            raise ValueError("its first line is damaged")
        self._digest.update(line)
        return Header(exporter, at, tuple(names))

    def _end(self, found: dict[str, Any]) -> None:
        if found.get("rows") != dict(self._counts) or found.get("sha256") != self._digest.hexdigest():
            raise ValueError("it is damaged: what it holds is not what was written")


_MORE = "something follows the end. One file holds one export; import several one by one"
_FOREIGN = "this is no export of a history. `tde-exporter history export --format transfer` writes one"


def strict_json(text: bytes) -> Any:
    """Raises ValueError, also for what JSON does not have, such as NaN, and for what is nested too deeply."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise ValueError("it is damaged: this is not JSON") from None


def _no_number(_: str) -> None:
    raise ValueError("not a number")


def _row(document: Any) -> Row:
    if not isinstance(document, list) or not document or not isinstance(document[0], str):
        raise ValueError("it is damaged: this is no row")
    kind, *values = document
    columns = KINDS.get(kind)
    if columns is None or len(values) != len(columns):
        raise ValueError("it is damaged: this is no row that this version knows")
    for place, column in enumerate(columns):
        if column in _BLOBS:
            values[place] = _blob(values[place])
        elif column == "series":
            values[place] = _pairs(values[place])
    return Row(kind, tuple(values))


def _pairs(value: Any) -> tuple[tuple[str, bytes], ...]:
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 2 for one in value):
        raise ValueError("it is damaged: these are no series")
    return tuple((operation, _blob(body)) for operation, body in value)


def _blob(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, binascii.Error, ValueError):
        raise ValueError("it is damaged: this is not base64") from None
