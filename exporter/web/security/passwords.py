"""Checks passwords against bcrypt hashes without letting strangers take the processor.

A check takes tens of milliseconds by design. What was right a moment ago is remembered by a keyed digest, so that a
scrape costs nothing; of the rest a few wait at most, and one is checked at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import bcrypt

MOST_WAITING = 16
"""Checks that wait for their turn; whoever comes then is told to try again."""
MOST_REMEMBERED = 100
_LONGEST = 72
"""Bytes of a password that bcrypt looks at; what makes the hashes cuts off the rest as well."""
_NOBODY = "$2b$10$0slfrjQlw97//IqKyuCx/umpMjkvhxk95Q3lRsuM4U8vShlskzXTS"
"""A hash of random bytes. Unknown users are checked against it: how long an answer takes tells nobody who exists."""


class TooBusy(Exception):
    """More checks wait than may."""


class Passwords:
    """The users of one web configuration. `right` is for the loop of the server only."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = dict(hashes)
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._waiting = 0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="passwords")

    async def right(self, user: str, password: bytes) -> bool:
        """Whether that is the password of the user. Raises TooBusy."""
        hashed = self._hashes.get(user)
        digest = hmac.digest(
            self._key, len(user).to_bytes(4) + user.encode("utf-8", "surrogateescape") + password, hashlib.sha256
        )
        if digest in self._known:
            self._known.move_to_end(digest)
            return True
        if self._waiting >= MOST_WAITING:
            raise TooBusy
        self._waiting += 1
        try:
            against = (hashed or _NOBODY).encode()
            same = await asyncio.get_running_loop().run_in_executor(self._worker, _matches, password, against)
        finally:
            self._waiting -= 1
        if hashed is None or not same:
            return False
        self._known[digest] = None
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return True

    def close(self) -> None:
        """Give up what waits."""
        self._worker.shutdown(wait=False, cancel_futures=True)


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:_LONGEST], hashed)
    except ValueError:
        return False
