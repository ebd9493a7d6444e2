"""What the client says, parsed into values. Each function reads what follows the header of its message."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from tests.oracle_standin.datatypes import Value, read_bind
from tests.oracle_standin.messages import ROW_DATA
from tests.oracle_standin.primitives import ProtocolError, Reader

_LONGEST = 32767
_END_TO_END = ("client_identifier", "module", "action", "", "", "client_info", "", "", "dbop")  # "": never set
_CONNECT_DATA_AT = 66  # 74 in the packet, less its header


class Function:
    """Codes of functions."""

    REEXECUTE = 4
    FETCH = 5
    LOGOFF = 9
    COMMIT = 14
    ROLLBACK = 15
    REEXECUTE_AND_FETCH = 78
    EXECUTE = 94
    LOB = 96
    CLOSE_CURSORS = 105
    AUTH_TWO = 115
    AUTH_ONE = 118
    END_TO_END = 135
    PING = 147
    SET_SCHEMA = 152
    SESSION_STATE = 176


class Option:
    """Bits of the options of an execution."""

    PARSE = 0x1
    DEFINE = 0x10
    EXECUTE = 0x20
    FETCH = 0x40
    COMMIT = 0x100
    PLSQL_BIND = 0x400
    DESCRIBE = 0x20000


class LobOperation:
    """Codes of operations on LOBs."""

    LENGTH = 0x1
    READ = 0x2
    CHUNK_SIZE = 0x4000
    OPEN = 0x8000
    CLOSE = 0x10000
    IS_OPEN = 0x11000


def connect_data(body: bytes, next_packet: Callable[[], bytes]) -> dict[str, str]:
    """What a CONNECT packet asks for: SERVICE_NAME, SID, PROGRAM and so on, in upper case.

    Connect data that does not fit into the packet follows in a packet of its own, which `next_packet` gives.
    """
    length = struct.unpack(">H", body[16:18])[0]
    data = body[_CONNECT_DATA_AT : _CONNECT_DATA_AT + length]
    if len(data) < length:
        data = next_packet()[2:]
    return {name.upper(): value for name, value in re.findall(r"\((\w+)=([^()]*)\)", data.decode())}


def skip_data_types(reader: Reader) -> None:
    """The client's list of representations, which is long."""
    reader.skip_bytes(5)
    reader.counted()
    reader.counted()
    while reader.u16():
        reader.skip_bytes(6)


@dataclass(frozen=True)
class Authentication:
    """One of the two messages of a login; `mode` has a bit for each administrative privilege."""

    user: str
    mode: int
    pairs: dict[str, str]


def authentication(reader: Reader) -> Authentication:
    """Reads either message."""
    has_user = reader.byte()
    reader.number()
    mode = reader.number()
    reader.byte()
    count = reader.number()
    reader.skip_bytes(2)
    user = (reader.counted() or b"").decode() if has_user else ""
    pairs = {}
    for _ in range(count):
        name, value = reader.text(), reader.text()
        reader.number()
        pairs[name] = value
    return Authentication(user, mode, pairs)


@dataclass
class Execution:
    """A statement to be parsed, defined, executed or all of that."""

    options: int
    cursor: int
    rows: int
    sql: str | None
    is_query: bool
    kinds: list[int] = field(default_factory=list)
    """Types of the bind variables, or of the columns where the client defines what it wants."""
    binds: list[list[Value]] = field(default_factory=list)
    """A row of values for each execution."""


def execution(reader: Reader, field_version: int) -> Execution:
    """Reads an EXECUTE message, the largest of all."""
    options, cursor = reader.number(), reader.number()
    reader.byte()
    sql_length = reader.number()
    reader.byte()
    reader.number()
    reader.skip_bytes(2)
    reader.number()
    rows = reader.number()
    reader.number()
    reader.byte()
    bind_count = reader.number()
    reader.skip_bytes(6)
    define_count = reader.number()
    reader.number()
    reader.skip_bytes(3)
    reader.number()
    reader.byte()
    reader.skip_numbers(2)
    _skip_optional(reader, field_version)
    sql = (reader.counted() or b"").decode() if sql_length else None
    vector = [reader.number() for _ in range(13)]
    found = Execution(options, cursor, rows, sql, bool(vector[7]))
    sizes = []
    for _ in range(define_count or bind_count):
        kind, size = _metadata(reader, field_version)
        found.kinds.append(kind)
        sizes.append(size)
    if bind_count:
        long = [size > _LONGEST and not options & Option.PLSQL_BIND for size in sizes]
        executions = 1 if found.is_query else max(1, vector[1])
        found.binds = [_bind_row(reader, found.kinds, long) for _ in range(executions)]
    return found


def _skip_optional(reader: Reader, field_version: int) -> None:
    reader.byte()
    reader.number()
    reader.byte()
    if field_version >= 8:
        for _ in range(2):
            reader.byte()
            reader.number()
        reader.byte()
    if field_version >= 9:
        reader.byte()
        reader.number()


def _metadata(reader: Reader, field_version: int) -> tuple[int, int]:
    """Type and size of one bind variable or defined column."""
    kind = reader.byte()
    reader.skip_bytes(3)
    size = reader.number()
    reader.skip_numbers(2)
    reader.sized()
    reader.skip_numbers(2)
    reader.byte()
    reader.number()
    if field_version >= 8:
        reader.number()
    return kind, size


def _bind_row(reader: Reader, kinds: Sequence[int], long: Sequence[bool]) -> list[Value]:
    """Long values come last, whatever their place."""
    if reader.byte() != ROW_DATA:
        raise ProtocolError("bind variables without values")
    values: list[Value] = [None] * len(kinds)
    for turn in (False, True):
        for at, kind in enumerate(kinds):
            if long[at] is turn:
                values[at] = read_bind(kind, reader)
    return values


@dataclass(frozen=True)
class Again:
    """Another execution of a cursor; `options` as in `Execution`, as far as they are known here."""

    cursor: int
    rows: int
    options: int
    commit: bool


def again(reader: Reader) -> Again:
    """Reads a REEXECUTE message, up to its bind variables."""
    cursor, rows, options, more = (reader.number() for _ in range(4))
    return Again(cursor, rows, options, bool(more & 1))


def bind_rows(reader: Reader, kinds: Sequence[int], outs: Container[int], executions: int) -> list[list[Value]]:
    """The bind variables of a REEXECUTE message; those that only come back (places in `outs`) are not sent again."""
    sent = [kind for place, kind in enumerate(kinds) if place not in outs]
    rows = []
    for _ in range(executions):
        given = iter(_bind_row(reader, sent, [False] * len(sent)) if sent else ())
        rows.append([None if place in outs else next(given) for place in range(len(kinds))])
    return rows


@dataclass(frozen=True)
class LobRequest:
    """An operation on a LOB; offsets count from 1, in bytes or characters."""

    operation: int
    locator: bytes
    offset: int
    amount: int | None


def lob_request(reader: Reader) -> LobRequest:
    """Reads a LOB_OP message; those that write are not known here."""
    reader.byte()
    length = reader.number()
    reader.byte()
    reader.skip_numbers(3)
    reader.skip_bytes(3)
    operation = reader.number()
    reader.skip_bytes(2)
    offset = reader.number()
    reader.number()
    sends_amount = reader.byte()
    reader.skip_bytes(6)
    locator = reader.take(length)
    return LobRequest(operation, locator, offset, reader.number() if sends_amount else None)


def closed_cursors(reader: Reader) -> list[int]:
    """The cursors that the client has no more use for."""
    reader.byte()
    return [reader.number() for _ in range(reader.number())]


def end_to_end(reader: Reader) -> dict[str, str]:
    """What the client says about itself: client_identifier, module, action, client_info and dbop, as far as set."""
    reader.skip_bytes(2)
    reader.number()
    given = []
    for name in _END_TO_END:
        is_set, length = reader.byte(), reader.number()
        if is_set and name:
            given.append((name, length))
    return {name: (reader.counted() or b"").decode() if length else "" for name, length in given}
