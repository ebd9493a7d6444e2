"""Logging in without harm: a secret that the server refused is not tried again and again.

Repeated failed logins lock accounts and block hosts. So all sessions of a target share one
`Credentials`, and a refused secret is tried again when it has changed, or after a rest. The rest is there because the
secret may be right: mended on the server, or spoilt on the way, which looks the same. It grows, for Oracle's default
profile locks an account at the tenth refusal, however long they take: these are seven within a year.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from exporter.config.secrets import SecretSource
from exporter.domain.clock import Clock, SystemClock
from exporter.domain.errors import (
    AccountBarred,
    AuthenticationFailed,
    ConnectFailed,
    DeadlineExceeded,
    SecretError,
    SecretOutOfReach,
)

REFUSED_SECONDS = 3600.0
"""How long a refused secret is not tried again at first; an account that is barred, whatever its secret, always."""
LONGER = 6.0
"""So many times as long each time after that."""
MOST_REFUSED = 16
"""Secrets that are remembered to have been refused."""
PATIENCE_SECONDS = 1.0
"""How long a login with a secret that worked before waits for another one to end."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Of one secret: in which words, how often in a row, and the monotonic second until which it rests."""

    words: str
    times: int
    until: float


class Credentials:
    """The secret of one login, read anew for each attempt and never kept; any number of threads.

    `source` None stands for logging in without a secret, which may be refused as well.
    """

    def __init__(self, source: SecretSource | None, clock: Clock | None = None) -> None:
        self._source, self._clock = source, clock or SystemClock()
        self._salt = secrets.token_bytes(16)
        self._state = threading.Lock()
        self._trying = threading.Lock()
        self._proven = b""
        self._refused: dict[bytes, _Refusal] = {}

    def follow(self, former: Credentials) -> None:
        """Know of refused secrets what others knew of the same login; before the first attempt."""
        with former._state:
            salt, refused = former._salt, dict(former._refused)
        with self._state:
            self._salt, self._refused = salt, refused

    @contextmanager
    def attempt(self, timeout: float = 30.0) -> Iterator[str]:
        """The secret as it is now, for one login inside the `with` block; empty where none is configured.

        What the block raises decides: AuthenticationFailed marks the secret as refused, an end without an
        error as right, any other error says nothing about it. Until it is known to be right, attempts take
        turns; afterwards they do so where it costs at most a second, so that a password that was changed
        on the server is tried once and not by every session at the same time.

        Raises AuthenticationFailed without an attempt when the secret cannot be read, or is one that was
        refused; ConnectFailed when there are no means to read it now; DeadlineExceeded when other attempts last longer than `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        mark = self._mark(self._read())
        self._refuse_again(mark)
        alone = self._trying.acquire(
            timeout=max(0.0, min(timeout, PATIENCE_SECONDS) if self._is_proven(mark) else timeout)
        )
        try:
            # It may have changed while we waited, or the attempt we waited for may have been refused.
            secret = self._read()
            mark = self._mark(secret)
            self._refuse_again(mark)
            if not alone and not self._is_proven(mark):
                raise DeadlineExceeded("another login to the same server has not ended in time")
            if time.monotonic() > deadline:
                raise DeadlineExceeded("other logins to the same server took too long")
            try:
                yield secret
            except AuthenticationFailed as error:
                self._remember_refused(mark, error)
                raise
            self._remember_proven(mark)
        finally:
            if alone:
                self._trying.release()

    def _read(self) -> str:
        if self._source is None:
            return ""
        try:
            return self._source.read()
        except SecretOutOfReach as error:
            # It was not refused, and will be read when there are open files again.
            raise ConnectFailed(str(error)) from None
        except SecretError as error:
            raise AuthenticationFailed(str(error)) from None

    def _mark(self, secret: str) -> bytes:
        """Tells secrets apart without keeping them; the salt makes it useless outside this process."""
        return hashlib.blake2b(secret.encode(), key=self._salt).digest()

    def _is_proven(self, mark: bytes) -> bool:
        with self._state:
            return mark == self._proven

    def _refuse_again(self, mark: bytes) -> None:
        with self._state:
            found = self._refused.get(mark)
            if found is not None and self._clock.monotonic() < found.until:
                # No countdown: words that change with each call fill a log.
                raise AuthenticationFailed(
                    f"{found.words}; tried again when the secret has changed, or after a rest of an hour, then of {LONGER:g}"
                )

    def _remember_refused(self, mark: bytes, error: AuthenticationFailed) -> None:
        barred = isinstance(error, AccountBarred)
        with self._state:
            before = self._refused.pop(mark, None)
            times = (before.times if before else 0) + (not barred)
            rest = REFUSED_SECONDS if barred else REFUSED_SECONDS * LONGER ** (times - 1)
            self._refused[mark] = _Refusal(str(error), times, self._clock.monotonic() + rest)
            if len(self._refused) > MOST_REFUSED:
                del self._refused[next(iter(self._refused))]
            if self._proven == mark:
                self._proven = b""

    def _remember_proven(self, mark: bytes) -> None:
        with self._state:
            self._proven = mark
            self._refused.pop(mark, None)
