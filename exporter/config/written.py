"""The ways in which programs write one and the same secret: as it is, quoted, escaped, encoded.

A driver, a server or a library repeats what it was given in its own notation, and each of them is as good as the secret.
"""

from __future__ import annotations

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

SHORTEST = 4
"""Characters. Shorter values are not redacted: they would blot out half of every text."""
_SHORTEST_CORE = 8
"""Of an encoded secret: shorter ones are found in words that have nothing to do with it."""

ENCODED = re.compile(r"[A-Za-z0-9+/_=-]{8,}")
"""What may be base64 or hexadecimal digits."""


def forms(secret: str) -> set[str]:
    """The secret as programs quote and escape it; of one with several lines also each line, for what is indented."""
    once = {
        secret,
        repr(secret)[1:-1],
        repr(repr(secret)[1:-1])[1:-1],
        repr(secret.encode())[2:-1],
        ascii(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(secret)[1:-1])[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        # As SQL and shells write it.
        secret.replace("'", "''"),
        secret.replace('"', '""'),
        secret.replace("\\", "\\\\").replace("'", "\\'"),
        secret.replace("'", "'\"'\"'"),
        html.escape(secret),
        html.escape(secret, quote=False),
        html.escape(secret).replace("&#x27;", "&#39;"),
        # As who makes one line of it.
        " ".join(secret.split()),
        *(line.strip() for line in secret.splitlines()),
    }
    quoted = {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    lower = {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text) for text in quoted}
    return {text for text in once | quoted | lower if len(text) >= SHORTEST}


def cores(secret: str) -> set[str]:
    """What base64 and hexadecimal digits have in common wherever the secret stands in what is encoded, such as behind the
    name of a user."""
    raw = secret.encode()
    found = {raw.hex(), raw.hex().upper()}
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(bytes(before) + raw).decode().rstrip("=")
            # Letters that hold bits of what stands before and behind are not the secret's own.
            found.add(text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6])
    return {core for core in found if len(core) >= _SHORTEST_CORE}
