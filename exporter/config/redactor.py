"""Takes secrets out of text, in whichever way a program has written them."""

from __future__ import annotations

import re
import threading

from exporter.config.written import ENCODED, SHORTEST, cores, forms

MASK = "***"


class Redactor:
    """Knows secrets, and puts `***` in their place. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secrets: set[str] = set()
        self._written: set[str] = set()
        self._cores: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def remember(self, secret: str) -> None:
        """Redact this value from now on, also the way drivers, URLs and JSON write it. Shorter than `SHORTEST` is no secret."""
        # Not looked up among the ways of writing: of a secret that is another one's JSON, the JSON is not known yet.
        if len(secret) < SHORTEST or secret in self._secrets:
            return
        written, encoded = forms(secret), cores(secret)
        with self._lock:
            self._secrets.add(secret)
            self._cores |= encoded
            if not written <= self._written:
                self._written |= written
                # The longest first, so that a secret that contains another one leaves no remainder.
                longest = sorted(self._written, key=len, reverse=True)
                self._pattern = re.compile("|".join(re.escape(value) for value in longest))

    def redact(self, text: str) -> str:
        """The text without any secret that was remembered."""
        if self._pattern is None:
            return text
        return ENCODED.sub(self._unless_encoded, self._pattern.sub(MASK, text))

    def _unless_encoded(self, found: re.Match[str]) -> str:
        token = found[0]
        return MASK if any(len(core) <= len(token) and core in token for core in self._cores) else token
