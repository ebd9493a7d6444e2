"""Durations and sizes as an operator writes them: `10s`, `512MiB`.

What is read here can be written again in the same words; a bare number is seconds or bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
DURATION_FORMS = "250ms, 10s, 5m, 1h or 2d"

_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(KiB|MiB|GiB|TiB)")
SIZE_FORMS = "512KiB, 64MiB, 2GiB or 1TiB"


def parse_duration(value: object) -> object:
    """Seconds from a number or from text such as `250ms`, `10s`, `5m`, `1h`, `2d`; raises ValueError."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if not match:
            raise ValueError(f"this is no duration; write it as {DURATION_FORMS}")
        return float(match[1]) * _SECONDS[match[2]]
    return value


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads as exactly this many seconds, such as `14d`."""
    for unit in ("d", "h", "m", "s"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    milliseconds = round(seconds * 1000, 6)
    return f"{milliseconds:g}ms" if seconds < 1 else f"{seconds:g}s"


def parse_size(value: object) -> object:
    """Bytes from a whole number or from text such as `512MiB`, `1.5GiB`; raises ValueError.

    Only powers of 1024: `MB` means one thing to a disk and another to a memory.
    """
    if isinstance(value, str):
        text = value.strip()
        if text.isascii() and text.isdigit():
            # From an environment variable, where everything is text.
            return int(text)
        match = _SIZE.fullmatch(text)
        size = float(match[1]) * _BYTES[match[2]] if match else 0.5
        if not size.is_integer():
            raise ValueError(f"this is no size; write whole bytes, or {SIZE_FORMS}")
        return int(size)
    return value


def format_size(size: int) -> str:
    """The shortest text that `parse_size` reads as exactly this many bytes, such as `16GiB`."""
    for unit, factor in reversed(_BYTES.items()):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


class Quantity(NamedTuple):
    """One kind of them: its name, the forms it is written in, and how it is read and written."""

    name: str
    forms: str
    parse: Callable[[object], object]
    format: Callable[[Any], str]


DURATION = Quantity("duration", DURATION_FORMS, parse_duration, format_duration)
SIZE = Quantity("size", SIZE_FORMS, parse_size, format_size)

Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, allow_inf_nan=False)]
"""Seconds."""
Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0, le=2**50)]
"""Bytes."""
