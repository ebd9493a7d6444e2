"""Oracle's data types on the wire: how columns are described, and how values are encoded and decoded."""

from __future__ import annotations

import datetime
import enum
import struct
from dataclasses import dataclass
from decimal import Decimal

from tests.oracle_standin.primitives import ProtocolError, Reader, counted, sized, ub

Value = None | bool | int | float | Decimal | str | bytes | datetime.datetime | datetime.timedelta

_UTF8 = 873
_NO_SCALE = 0x81  # -127 as a byte: a NUMBER of no declared precision
_DAYS = 1 << 31
_LONGEST = 32767


class Kind(enum.IntEnum):
    """The types, by their number on the wire."""

    VARCHAR2 = 1
    NUMBER = 2
    LONG = 8
    DATE = 12
    RAW = 23
    LONG_RAW = 24
    CHAR = 96
    BINARY_DOUBLE = 101
    CLOB = 112
    BLOB = 113
    TIMESTAMP = 180
    TIMESTAMP_TZ = 181
    INTERVAL_DS = 183
    TIMESTAMP_LTZ = 231

    @property
    def is_text(self) -> bool:
        return self in (Kind.VARCHAR2, Kind.CHAR, Kind.LONG, Kind.CLOB)

    @property
    def is_lob(self) -> bool:
        return self in (Kind.CLOB, Kind.BLOB)


_SIZES = {
    Kind.NUMBER: 22,
    Kind.DATE: 7,
    Kind.TIMESTAMP: 11,
    Kind.TIMESTAMP_LTZ: 11,
    Kind.TIMESTAMP_TZ: 13,
    Kind.INTERVAL_DS: 11,
    Kind.BINARY_DOUBLE: 8,
    Kind.CLOB: 4000,
    Kind.BLOB: 4000,
}


@dataclass(frozen=True)
class Column:
    """A column of a result; `size` in bytes matters for text and RAW only."""

    name: str
    kind: Kind
    size: int = 0

    def described(self, position: int, field_version: int) -> bytes:
        """Its part of the message that describes a result; `position` counts from 1."""
        size = self.size or _SIZES.get(self.kind, _LONGEST)
        text = self.kind.is_text
        scale = _NO_SCALE if self.kind is Kind.NUMBER else 0
        out = bytes([self.kind, 0, 0, scale]) + ub(size) + ub(0) * 3 + ub(0)
        out += ub(_UTF8 if text else 0) + bytes([1 if text else 0]) + ub(size if text else 0)
        if field_version >= 8:
            out += ub(0)
        out += b"\x01\x00" + sized(self.name) + ub(0) * 2 + ub(position) + ub(0)
        if field_version >= 17:
            out += ub(0) * 2
        if field_version >= 20:
            out += ub(0)
        if field_version >= 24:
            out += ub(0) + b"\0\0"
        return out


def encode_number(value: int | float | Decimal) -> bytes:
    """A NUMBER: a byte with the exponent to the base of 100, then one byte for each two decimal digits."""
    number = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else int(value))
    if number == 0:
        return b"\x80"
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "no NUMBER is infinite"
    text = "".join(map(str, digits)) + "0" * (exponent % 2)
    exponent -= exponent % 2
    text = text.zfill(len(text) + len(text) % 2)
    pairs = [int(text[at : at + 2]) for at in range(0, len(text), 2)]
    while pairs[-1] == 0:
        pairs.pop()
        exponent += 2
    power = exponent // 2 + len(pairs) - 1
    while pairs[0] == 0:
        pairs.pop(0)
        power -= 1
    assert len(pairs) <= 20, f"{value} has too many digits for a NUMBER"
    if not sign:
        return bytes([power + 193, *(pair + 1 for pair in pairs)])
    body = [0xFF - (power + 193), *(101 - pair for pair in pairs)]
    return bytes(body + ([102] if len(pairs) < 20 else []))


def decode_number(raw: bytes) -> int | Decimal:
    """The value of a NUMBER, an int when it is one."""
    if raw == b"\x80":
        return 0
    positive = bool(raw[0] & 0x80)
    power = (raw[0] if positive else 0xFF - raw[0]) - 193
    body = raw[1:-1] if not positive and raw[-1] == 102 else raw[1:]
    digits = [digit for byte in body for digit in divmod(byte - 1 if positive else 101 - byte, 10)]
    number = Decimal((0 if positive else 1, tuple(digits), 2 * (power - len(body) + 1)))
    return int(number) if number == number.to_integral_value() else number


def _date(value: datetime.datetime) -> bytes:
    century, year = divmod(value.year, 100)
    return bytes(
        [century + 100, year + 100, value.month, value.day, value.hour + 1, value.minute + 1, value.second + 1]
    )


def _timestamp_tz(value: datetime.datetime) -> bytes:
    offset = value.utcoffset() or datetime.timedelta(0)
    utc = (value - offset).replace(tzinfo=None)
    minutes = int(offset.total_seconds()) // 60
    hours = int(minutes / 60)
    zone = bytes([hours + 20, minutes - hours * 60 + 60])
    return _date(utc) + struct.pack(">I", utc.microsecond * 1000) + zone


def _interval(value: datetime.timedelta) -> bytes:
    """All parts of a negative interval are negative."""
    sign = -1 if value < datetime.timedelta(0) else 1
    size = abs(value)
    hours, rest = divmod(size.seconds, 3600)
    parts = [sign * hours + 60, sign * (rest // 60) + 60, sign * (rest % 60) + 60]
    return struct.pack(">I", sign * size.days + _DAYS) + bytes(parts) + _nanoseconds(sign * size.microseconds)


def _nanoseconds(microseconds: int) -> bytes:
    return struct.pack(">I", microseconds * 1000 + _DAYS)


def _double(value: float) -> bytes:
    raw = struct.pack(">d", value)
    return bytes(byte ^ 0xFF for byte in raw) if raw[0] & 0x80 else bytes([raw[0] | 0x80]) + raw[1:]


def encode(kind: Kind, value: Value) -> bytes:
    """A value of a row, with its length; LOBs are written by the session, which keeps their contents."""
    if value is None or value in ("", b""):
        return b"\0"
    return counted(_body(kind, value))


def _body(kind: Kind, value: Value) -> bytes:
    if kind in (Kind.VARCHAR2, Kind.CHAR, Kind.LONG):
        return str(value).encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, datetime.timedelta):
        return _interval(value)
    if isinstance(value, datetime.datetime):
        if kind is Kind.DATE:
            return _date(value)
        if kind is Kind.TIMESTAMP_TZ:
            return _timestamp_tz(value)
        return _date(value) + (struct.pack(">I", value.microsecond * 1000) if value.microsecond else b"")
    if isinstance(value, int | float | Decimal):
        return _double(float(value)) if kind is Kind.BINARY_DOUBLE else encode_number(value)
    raise TypeError(f"{value!r} is no {kind.name}")


def decode(kind: int, raw: bytes | None) -> Value:
    """The value of a bind variable; None is NULL."""
    if raw is None:
        return None
    if kind in (Kind.VARCHAR2, Kind.CHAR, Kind.LONG):
        return raw.decode()
    if kind in (Kind.RAW, Kind.LONG_RAW):
        return raw
    if kind in (Kind.NUMBER, 3):
        return decode_number(raw)
    if kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ, Kind.TIMESTAMP_TZ):
        return _decode_date(raw)
    if kind == Kind.BINARY_DOUBLE:
        return _decode_double(raw)
    if kind == Kind.INTERVAL_DS:
        days, fraction = struct.unpack(">I", raw[:4])[0] - _DAYS, struct.unpack(">I", raw[7:11])[0] - _DAYS
        hours, minutes, seconds = (byte - 60 for byte in raw[4:7])
        return datetime.timedelta(days, seconds, fraction // 1000, minutes=minutes, hours=hours)
    raise ProtocolError(f"a bind variable of type {kind}")


def _decode_double(raw: bytes) -> float:
    plain = bytes([raw[0] & 0x7F]) + raw[1:] if raw[0] & 0x80 else bytes(byte ^ 0xFF for byte in raw)
    return float(struct.unpack(">d", plain)[0])


def _decode_date(raw: bytes) -> datetime.datetime:
    """Without a zone, as the client gave it."""
    year = (raw[0] - 100) * 100 + raw[1] - 100
    micro = struct.unpack(">I", raw[7:11])[0] // 1000 if len(raw) >= 11 else 0
    return datetime.datetime(year, raw[2], raw[3], raw[4] - 1, raw[5] - 1, raw[6] - 1, micro)  # noqa: DTZ001


def read_bind(kind: int, reader: Reader) -> Value:
    """The next bind variable of a row."""
    if kind in (Kind.CLOB, Kind.BLOB):
        raise ProtocolError("bind variables that are LOBs are not known here")
    return decode(kind, reader.counted())
