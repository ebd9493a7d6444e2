"""What the server says: the bodies of packets and messages, without any state."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tests.oracle_standin.datatypes import Column
from tests.oracle_standin.packets import SDU
from tests.oracle_standin.primitives import counted, sb, sized, ub

PROTOCOL = 1
DATA_TYPES = 2
FUNCTION = 3
ERROR = 4
ROW_HEADER = 6
ROW_DATA = 7
PARAMETER = 8
STATUS = 9
IO_VECTOR = 11
LOB_DATA = 14
WARNING = 15
DESCRIBE = 16
PIGGYBACK = 17

IN_TRANSACTION = 0x2
END_OF_FETCH = 1403

_CHARSET_UTF8 = 873
_CHARSET_UTF16 = 2000
_NATIVE_ENCRYPTION_REQUIRED = 0x10
_DIRECTIONS = {"out": 16, "in": 32}


def accept(protocol_version: int, *, native_encryption: bool = False) -> bytes:
    """Accepts a connection, without out-of-band breaks, fast authentication or marks at the end of responses."""
    flags = 0x41 | (_NATIVE_ENCRYPTION_REQUIRED if native_encryption else 0)
    body = struct.pack(">HHHHHHH", protocol_version, 1, SDU, 65535, 256, 0, 45)
    body += bytes([flags]) + bytes(9) + struct.pack(">I", SDU)
    return body + (bytes(5) + struct.pack(">I", 0) if protocol_version >= 318 else b"")


def refuse(code: int) -> bytes:
    """What the listener says to a service that it does not know (12514), and the like."""
    text = f"(DESCRIPTION=(ERR={code})(VSNNUM=0)(ERROR_STACK=(ERROR=(CODE={code})(EMFI=4))))".encode()
    return b"\x22\0" + struct.pack(">H", len(text)) + text


def protocol(field_version: int) -> bytes:
    """The server's capabilities; `field_version` decides which fields later messages have."""
    compiled = bytearray(47)
    compiled[4], compiled[7], compiled[15] = 0xEA, field_version, 0x29
    run_time = bytearray(11)
    run_time[0], run_time[6] = 2, 0x04
    fdo = bytearray(16)
    fdo[9:11] = struct.pack(">H", _CHARSET_UTF16)
    out = bytes([PROTOCOL, 6, 0]) + b"x86_64/Linux 2.4.xx\0" + struct.pack("<HBH", _CHARSET_UTF8, 1, 0)
    return out + struct.pack(">H", len(fdo)) + bytes(fdo) + counted(bytes(compiled)) + counted(bytes(run_time))


def data_types() -> bytes:
    """That the client's representations are all accepted."""
    return bytes([DATA_TYPES, 0, 0])


def parameters(pairs: Mapping[str, tuple[str, int]]) -> bytes:
    """Names, values and flags."""
    out = bytes([PARAMETER]) + ub(len(pairs))
    return out + b"".join(sized(name) + sized(value) + ub(flags) for name, (value, flags) in pairs.items())


def status(call_status: int = 0) -> bytes:
    """The end of an answer that has no rows."""
    return bytes([STATUS]) + ub(1 | call_status) + ub(0)


def warning(code: int, text: str) -> bytes:
    """A warning beside a login that succeeded."""
    raw = f"ORA-{code:05}: {text}\n".encode()
    return bytes([WARNING]) + ub(code) + ub(len(raw)) + ub(0) + counted(raw)


def end(
    field_version: int,
    *,
    code: int = 0,
    text: str = "",
    cursor: int = 0,
    rows: int = 0,
    position: int = 0,
    call_status: int = 0,
) -> bytes:
    """The end of an answer: an error, the end of a fetch (1403), or success with a number of rows."""
    out = bytes([ERROR]) + ub(1 | call_status) + ub(0) * 2 + ub(code & 0xFFFF) + ub(0) * 2 + ub(cursor) + sb(position)
    out += bytes(6) + ub(0) * 2 + b"\0" + ub(0) * 2  # the flags, and the id of a row
    out += ub(0) + b"\0\0" + ub(0) * 3  # the operating system's error, calls, iterations
    out += ub(0) * 3 + ub(code) + ub(rows)
    if field_version >= 14:
        out += ub(0) * 2
    return out + (counted(f"ORA-{code:05}: {text}\n".encode()) if code else b"")


def describe(columns: Sequence[Column], field_version: int) -> bytes:
    """The columns of a result."""
    out = bytes([DESCRIBE]) + counted(b"\x01") + ub(100) + ub(len(columns)) + (b"\x01" if columns else b"")
    out += b"".join(column.described(at, field_version) for at, column in enumerate(columns, 1))
    return out + ub(0) * 6


def row_header(requested: int) -> bytes:
    """Stands before the rows of an answer."""
    return bytes([ROW_HEADER, 1]) + ub(0) + ub(1) + ub(requested) + ub(0) * 3


def row(values: Sequence[bytes]) -> bytes:
    """One row of encoded values."""
    return bytes([ROW_DATA]) + b"".join(values)


def bind_directions(directions: Sequence[str]) -> bytes:
    """Which bind variables of a PL/SQL block come back: "in" or "out" for each."""
    out = bytes([IO_VECTOR, 0]) + ub(len(directions)) + ub(0) * 5
    return out + bytes(_DIRECTIONS[each] for each in directions)


def lob_data(data: bytes) -> bytes:
    """A part of a LOB."""
    return bytes([LOB_DATA]) + counted(data)


def lob_locator(locator: bytes, amount: int | None) -> bytes:
    """What ends the answer to an operation on a LOB; `amount` only where the client sent one."""
    return bytes([PARAMETER]) + locator + (sb(amount) if amount is not None else b"")
