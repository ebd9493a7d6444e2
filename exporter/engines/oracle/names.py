"""Looking up names of hosts outside of the driver, which would do it on its loop's thread.

Where the answer comes in time, the driver gets it as quickly when it asks again. Where it does not, no connect is begun.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterable

from exporter.domain.errors import ConnectFailed, DeadlineExceeded


class _Lookup:
    """A name being resolved in a thread of its own, for nothing can interrupt the system's resolver."""

    def __init__(self, host: str) -> None:
        self.problem = ""
        self.done = threading.Event()
        threading.Thread(target=self._run, args=(host,), name="resolve", daemon=True).start()

    def _run(self, host: str) -> None:
        try:
            socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self.problem = (getattr(error, "strerror", None) or "no valid name").lower()
        finally:
            with _lookups_lock:
                _lookups.pop(host, None)
            self.done.set()


_lookups: dict[str, _Lookup] = {}
_lookups_lock = threading.Lock()


def look_up(hosts: Iterable[str], timeout: float) -> None:
    """Make sure that at least one of these names can be resolved now; numeric addresses are not looked up.

    A resolver that hangs keeps one thread for each name, however often it is asked. Raises ConnectFailed when no name can
    be resolved, DeadlineExceeded when one is not within `timeout` seconds: the driver would look that up as well.
    """
    wanted = [host for host in dict.fromkeys(hosts) if host]
    lookups = [_begun(host) for host in wanted if not _is_numeric(host)]
    for lookup in lookups:
        if not lookup.done.wait(timeout):
            raise DeadlineExceeded("the name was not resolved in time")
    problems = [lookup.problem for lookup in lookups if lookup.problem]
    if problems and len(problems) == len(wanted):
        raise ConnectFailed(f"the name cannot be resolved: {problems[0]}")


def _begun(host: str) -> _Lookup:
    with _lookups_lock:
        lookup = _lookups[host] = _lookups.get(host) or _Lookup(host)
        return lookup


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
