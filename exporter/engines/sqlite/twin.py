"""An open twin: a file of a pair with the connections over which it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import apsw

from exporter.engines.sqlite.files import Connections, Identity

_LARGEST_CACHE_BYTES = 256 * 2**20
_COLD_CACHE_KIBIBYTES = 2048


@dataclass(frozen=True, slots=True)
class OpenTwin:
    """A twin with its connections: `warm` keeps all its pages in memory, `cold` is made to forget them.

    All writing goes over `warm`: what another connection wrote would make it drop its cache.
    """

    path: Path
    identity: Identity
    encrypted: bool
    warm: apsw.Connection
    cold: apsw.Connection


def open_twin(connections: Connections, path: Path, found: Identity) -> OpenTwin:
    """Two connections to a twin. Raises what `Connections.open` raises."""
    warm, cipher = connections.open(path)
    try:
        warm.pragma("synchronous", "normal")
        size = min(_LARGEST_CACHE_BYTES, max(path.stat().st_size * 5 // 4, 2**20))
        warm.pragma("cache_size", -(size // 1024))
        cold = connections.connect(path, cipher)
    except BaseException:
        connections.close(warm)
        raise
    # A scan of a table that is larger than this cache finds nothing in it anyway, and memory is not
    # allocated and freed by the megabyte inside the timed section.
    cold.pragma("cache_size", -_COLD_CACHE_KIBIBYTES)
    return OpenTwin(path, found, cipher is not None, warm, cold)
