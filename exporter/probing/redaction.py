"""Takes secrets out of what leaves a probe process.

After a rotation only this process knows the new secret, so nobody downstream could. Drivers and servers repeat what
they were given, in places that nobody foresees; so every text of a message is redacted, whatever it says. Left alone
are the names that come from the configuration, by which messages are assigned: a password may be part of one.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from exporter.config.secrets import redact
from exporter.domain.model import Snapshot, Tick

NAMES = frozenset({"target", "collector", "pair", "standby", "epoch"})
"""Fields that hold a name from the configuration, or what was computed here; never a word of a driver."""

T = TypeVar("T")


def redacted(message: T) -> T:
    """The same message with `***` in place of every secret that this process has read."""
    found: T = _redacted(message)
    return found


def _redacted(value: Any) -> Any:
    if isinstance(value, Enum | Tick) or value is None:
        # A tick holds numbers, and very many of them.
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, tuple):
        return tuple(_redacted(item) for item in value)
    if isinstance(value, Snapshot):
        failures = tuple((pair, operation, redact(words)) for pair, operation, words in value.failures)
        return replace(value, failures=failures)
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in NAMES}
        clean = {name: found for name, text in held.items() if (found := _redacted(text)) != text}
        return replace(value, **clean) if clean else value
    return value
