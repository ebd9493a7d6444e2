"""What a test knows of a value that may be missing elsewhere."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def known(value: Value | None) -> Value:
    """The value, which must not be unknown."""
    assert value is not None
    return value
