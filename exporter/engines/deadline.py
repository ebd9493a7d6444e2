"""Hard deadlines for drivers that cannot keep one: a watchdog thread that cancels what lasts too long.

One daemon thread serves the whole process and looks at the clock every 50 ms. Arming and disarming a
guard is therefore only the setting of an attribute: no thread is woken and no timer is started, so a
timed section inside a limit is not disturbed. The price is that a cancellation may come 50 ms late.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Self

POLL_SECONDS = 0.05


class Guard:
    """Calls `cancel` from another thread while a limit that was set on it has expired.

    `cancel` must return at once, must be harmless when nothing is running, and may be called several
    times for one limit (the driver may be between two statements at the first call); what it raises is
    ignored. It is never called after the `with` block has been left. Used by one thread at a time::

        with guard.limit(2.0):
            connection.execute(...)
        if guard.fired: ...

    `fired` says, until the next limit, whether the last one expired: also when the work was finished
    late, but before it could be cancelled.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._deadline = math.inf
        self._cancelling = threading.Lock()
        self.fired = False
        _watchdog.watch(self)

    def limit(self, timeout: float) -> Self:
        """Starts a limit of `timeout` seconds from now; use it in a `with` statement."""
        self.fired = False
        self._deadline = time.monotonic() + timeout
        return self

    @property
    def expired(self) -> bool:
        """Whether the limit in force has expired; for loops that can stop by themselves."""
        return self.fired or time.monotonic() >= self._deadline

    @property
    def remaining(self) -> float:
        """Seconds until the limit in force expires, at least 0; infinite without a limit."""
        return max(0.0, self._deadline - time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        late = time.monotonic() >= self._deadline
        self._deadline = math.inf
        if late:
            self.fired = True
            # Waits for a cancellation under way, so that none hits what comes after this block.
            with self._cancelling:
                pass

    def cancel_if_expired(self) -> None:
        """The watchdog's part."""
        if time.monotonic() < self._deadline:
            return
        with self._cancelling:
            if time.monotonic() >= self._deadline:
                self.fired = True
                with contextlib.suppress(Exception):
                    self._cancel()


class _Watchdog:
    """The thread, started with the first guard."""

    def __init__(self) -> None:
        self._guards: weakref.WeakSet[Guard] = weakref.WeakSet()
        self._adding = threading.Lock()
        self._started = False

    def watch(self, guard: Guard) -> None:
        with self._adding:
            self._guards.add(guard)
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="deadline-watchdog", daemon=True).start()

    def _run(self) -> None:
        # Not `time.sleep`, which a preloaded clock (faketime) makes raise: without this thread no deadline holds.
        pause = threading.Event()
        while not pause.wait(POLL_SECONDS):
            self._look()

    def _look(self) -> None:
        # A function of its own: the variables of the sleeping thread would keep forgotten guards alive.
        with self._adding:
            guards = tuple(self._guards)
        for guard in guards:
            guard.cancel_if_expired()


_watchdog = _Watchdog()
