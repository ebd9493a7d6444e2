"""Cursors of a session, and the LOBs that its client holds locators of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.oracle_standin import messages
from tests.oracle_standin.datatypes import Column, Kind, Value, encode
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.faults import Action
from tests.oracle_standin.primitives import counted, sb, ub
from tests.oracle_standin.requests import LobOperation, LobRequest

_LOCATOR = 40
_CHUNK = 8132
_OF_BLOB, _IS_UTF16 = 0x01, 0x80


@dataclass
class Cursor:
    """A statement that was parsed, and what it is giving now."""

    number: int
    sql: str = ""
    kinds: list[int] = field(default_factory=list)
    defines: list[int] = field(default_factory=list)
    plsql: bool = False
    outs: set[int] = field(default_factory=set)
    columns: Sequence[Column] | None = None
    rows: Iterator[Sequence[Value]] = field(default_factory=lambda: iter(()))
    sent: int = 0
    action: Action | None = None


class Cursors:
    """The open cursors, by their number."""

    def __init__(self) -> None:
        self._open: dict[int, Cursor] = {}
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._open)

    def get(self, number: int) -> Cursor:
        """The cursor of that number, or a new one for 0; raises ORA-01001."""
        if not number:
            cursor = Cursor(next(self._numbers))
            self._open[cursor.number] = cursor
            return cursor
        if number not in self._open:
            raise OraError(1001)
        return self._open[number]

    def close(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._open.pop(number, None)


class Lobs:
    """Contents of the LOBs whose locators the client was sent."""

    def __init__(self) -> None:
        self._contents: dict[bytes, str | bytes] = {}
        self._numbers = itertools.count(1)

    def cell(self, cursor: Cursor, place: int, value: Value) -> bytes:
        """A value of a row: a locator for a LOB, unless the client asked for its content."""
        assert cursor.columns is not None
        kind = cursor.columns[place].kind
        if not kind.is_lob:
            return encode(kind, value)
        if place < len(cursor.defines) and cursor.defines[place] in (Kind.LONG, Kind.LONG_RAW):
            raw = value.encode() if isinstance(value, str) else value
            assert raw is None or isinstance(raw, bytes)
            return counted(raw or b"") + sb(0) + ub(0)
        if value is None:
            return b"\0"
        assert isinstance(value, str | bytes)
        locator = self._locator(isinstance(value, str))
        self._contents[locator] = value
        return ub(_LOCATOR) + ub(len(value)) + ub(_CHUNK) + counted(locator)

    def _locator(self, is_text: bool) -> bytes:
        locator = bytearray(_LOCATOR)
        locator[1] = _LOCATOR - 2
        locator[4] = 0 if is_text else _OF_BLOB
        locator[6] = _IS_UTF16 if is_text else 0
        locator[16:24] = next(self._numbers).to_bytes(8, "big")
        return bytes(locator)

    def answer(self, request: LobRequest) -> bytes:
        """The answer to an operation, without its end; raises an error for one that is not known."""
        content = self._contents.get(request.locator)
        if content is None:
            raise OraError(22275, "invalid LOB locator specified")
        data, amount, flag = b"", request.amount, b""
        if request.operation == LobOperation.READ:
            part = content[request.offset - 1 : request.offset - 1 + (request.amount or 0)]
            amount = len(part)
            data = messages.lob_data(part.encode("utf-16-be") if isinstance(part, str) else part) if part else b""
        elif request.operation == LobOperation.LENGTH:
            amount = len(content)
        elif request.operation == LobOperation.CHUNK_SIZE:
            amount = _CHUNK
        elif request.operation == LobOperation.IS_OPEN:
            flag = b"\0"
        elif request.operation not in (LobOperation.OPEN, LobOperation.CLOSE):
            raise OraError(3120, f"LOB operation {request.operation:#x}")
        return data + messages.lob_locator(request.locator, amount) + flag
