"""Epochs: what must not change inside one statistic, as one word.

It has two parts. The first is what verification found about the twins; a change of it shows by itself. The second is
the event after which the statistics began anew although the twins look the same: a new master key, an upgrade.
"""

from __future__ import annotations

_SEPARATOR = "/"


def joined(found: str, event: str) -> str:
    """The epoch of what is measured now. `event` is the id of the newest event that opened one, empty before any."""
    return f"{found}{_SEPARATOR}{event}" if event else found


def found_part(epoch: str) -> str:
    """What verification said."""
    return epoch.split(_SEPARATOR, 1)[0]
