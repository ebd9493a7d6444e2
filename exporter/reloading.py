"""Reloads of the configuration: who asks for one, and what becomes of it.

Whoever asks while one is under way gets the next one; all who ask meanwhile share it. So a storm of requests is as many
reloads as fit one after the other, with pauses in which the daemon does its work.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from exporter.config.schema import Settings
from exporter.config.secrets import redact, shown
from exporter.domain.clock import Clock
from exporter.domain.errors import TdeExporterError

LONGEST_PAUSE = 5.0

log = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """Whether the configuration was taken up, and that or why not in words, for the log and for whoever asked."""

    done: bool
    words: str


class Requests:
    """Who wants a reload. `signalled` may be called by a handler of a signal, the others by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Unlike all locks, this queue may be used by a handler that interrupts itself.
        self._asked: queue.SimpleQueue[Future[tuple[bool, str]] | bool] = queue.SimpleQueue()
        self._not_before = clock.monotonic()

    def signalled(self) -> None:
        """Somebody wants one, and no answer."""
        self._asked.put(True)

    def ask(self) -> Future[tuple[bool, str]]:
        """Somebody wants one, and its `Outcome`."""
        future: Future[tuple[bool, str]] = Future()
        self._asked.put(future)
        return future

    def wake(self) -> None:
        """End a `wait`."""
        self._asked.put(False)

    def wait(self, timeout: float, stop: threading.Event) -> Waiting | None:
        """Those for whom one reload is to be made now; None when nobody asked within `timeout` seconds, or `wake` did."""
        try:
            found = [self._asked.get(timeout=timeout)]
        except queue.Empty:
            return None
        if found[0] is not False:
            stop.wait(max(0.0, self._not_before - self._clock.monotonic()))
        while True:
            try:
                found.append(self._asked.get_nowait())
            except queue.Empty:
                break
        futures = [one for one in found if isinstance(one, Future)]
        if stop.is_set():
            Waiting(futures).answer(Outcome(False, "the exporter is being stopped"))
            return None
        return Waiting(futures) if any(found) else None

    def took(self, seconds: float) -> None:
        """One was made; the next one begins after half as long a pause."""
        self._not_before = self._clock.monotonic() + min(seconds / 2, LONGEST_PAUSE)


class Waiting:
    """Those who wait for one reload; there may be none."""

    def __init__(self, futures: list[Future[tuple[bool, str]]]) -> None:
        self._futures = futures

    def answer(self, outcome: Outcome) -> None:
        for future in self._futures:
            if future.set_running_or_notify_cancel():
                future.set_result(outcome)


def attempt(load: Callable[[], Settings], take_up: Callable[[Settings], str]) -> Outcome:
    """Read the configuration and take it up; `take_up` says in words what that changed. Raises nothing: whatever a file
    can bring about, the daemon goes on."""
    try:
        settings = load()
    except TdeExporterError as error:
        return _refused(redact(str(error)), shown(str(error)))
    except Exception:
        log.exception("the configuration cannot be read")
        return _refused("it cannot be read; the log says more")
    try:
        words = take_up(settings)
    except Exception:
        log.exception("the configuration was taken up in part")
        return Outcome(False, "the configuration was taken up in part; the log says more; restart the exporter")
    log.info("the configuration was taken up", extra={"changes": words})
    return Outcome(True, f"the configuration was taken up; {words}")


def _refused(words: str, answer: str = "") -> Outcome:
    log.error("the configuration stays as it was", extra={"problem": words})
    return Outcome(False, f"the configuration stays as it was:\n{answer or words}")
