"""A log-bucket sketch of durations: mergeable without loss, a few hundred bytes, error below 1.1 %.

Bucket i holds durations in (2**((i - 1) / 32), 2**(i / 32)] seconds: upper-inclusive like `le`, and
aligned with Prometheus' native histograms of schema 5. Timeouts (+inf) have a count of their own.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from exporter.overhead.percentiles import rank

BUCKETS_PER_DOUBLING = 32
_VERSION = 1
_HEADER = struct.Struct("<BI")  # Version, number of buckets.
_MOST = 1 << 48  # Of one bucket: a sample each millisecond for nine thousand years.
_MOST_BUCKETS = 2 * 1100 * BUCKETS_PER_DOUBLING  # All that a double can reach.


class LogSketch:
    """Counts of durations (seconds) by logarithmic bucket."""

    __slots__ = ("_buckets", "_infinite")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._infinite = 0

    def add(self, durations: NDArray[Any]) -> None:
        """Adds durations in seconds, any shape; +inf counts as a timeout.

        Raises ValueError, and adds nothing, when any of them is NaN, zero or negative: such a value
        is a fault of the measurement, and no bucket would tell the truth about it.
        """
        values = np.asarray(durations, dtype=np.float64).ravel()
        if not (values > 0).all():
            raise ValueError("a duration is a positive number or +inf")
        finite = values[np.isfinite(values)]
        places, counts = np.unique(np.ceil(np.log2(finite) * BUCKETS_PER_DOUBLING), return_counts=True)
        for place, count in zip(places.astype(np.int64).tolist(), counts.tolist(), strict=True):
            self._buckets[place] = self._buckets.get(place, 0) + count
        self._infinite += values.size - finite.size

    def merge(self, other: LogSketch) -> None:
        """Adds all of `other`, exactly as if its values had been added here."""
        for place, count in other._buckets.items():
            self._buckets[place] = self._buckets.get(place, 0) + count
        self._infinite += other._infinite

    def copy(self) -> LogSketch:
        twin = LogSketch()
        twin.merge(self)
        return twin

    @property
    def count(self) -> int:
        """How many durations were added, timeouts included."""
        return sum(self._buckets.values()) + self._infinite

    @property
    def infinite(self) -> int:
        """How many of them were timeouts."""
        return self._infinite

    def quantile(self, q: float) -> float | None:
        """The nearest-rank quantile (0 < q <= 1) in seconds, within 1.1 %; None when empty, may be +inf."""
        if not self.count:
            return None
        left = rank(100.0 * q, self.count)
        for place, count in sorted(self._buckets.items()):
            left -= count
            if left <= 0:
                # The geometric middle is off by at most 2**(1/64) either way.
                return float(2.0 ** ((place - 0.5) / BUCKETS_PER_DOUBLING))
        return float("inf")

    def expand(self) -> NDArray[np.float64]:
        """As many pseudo-samples (seconds, ascending) as were added, spread log-uniformly in each bucket.

        Deterministic. Bucket middles would pile samples up and cost rank methods their precision.
        """
        places, counts = self.arrays()
        starts = np.cumsum(counts) - counts
        within = np.arange(counts.sum()) - np.repeat(starts, counts)
        exponents = np.repeat(places, counts) - 1 + (within + 0.5) / np.repeat(counts, counts)
        return np.concatenate([np.exp2(exponents / BUCKETS_PER_DOUBLING), np.full(self._infinite, np.inf)])

    def to_bytes(self) -> bytes:
        """Compact, versioned, the same bytes for the same content."""
        places, counts = self.arrays()
        steps = np.diff(places, prepend=0)
        body = struct.pack("<Q", self._infinite) + steps.astype("<i4").tobytes() + counts.astype("<u8").tobytes()
        return _HEADER.pack(_VERSION, places.size) + zlib.compress(body)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse of `to_bytes`; raises ValueError when the bytes are not a sketch."""
        try:
            version, buckets = _HEADER.unpack_from(data)
            if version != _VERSION or buckets > _MOST_BUCKETS:
                raise ValueError(f"unknown version {version} of a sketch")
            size = 8 + 12 * buckets
            unpacker = zlib.decompressobj()
            body = unpacker.decompress(data[_HEADER.size :], size + 1)
        except (struct.error, zlib.error) as error:
            raise ValueError("damaged sketch") from error
        if len(body) != size or not unpacker.eof or unpacker.unused_data:
            raise ValueError("damaged sketch")
        infinite = struct.unpack_from("<Q", body)[0]
        steps = np.frombuffer(body, "<i4", buckets, 8).astype(np.int64)
        counts = np.frombuffer(body, "<u8", buckets, 8 + 4 * buckets)
        if (steps[1:] <= 0).any() or (counts == 0).any() or (counts > _MOST).any() or infinite > _MOST:
            raise ValueError("damaged sketch")
        sketch = cls()
        sketch._buckets = dict(zip(np.cumsum(steps).tolist(), counts.tolist(), strict=True))
        sketch._infinite = infinite
        return sketch

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogSketch):
            return NotImplemented
        return self._buckets == other._buckets and self._infinite == other._infinite

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LogSketch(count={self.count}, infinite={self._infinite}, buckets={len(self._buckets)})"

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(numbers of the buckets ascending, their counts), shape (buckets,) each; without the timeouts."""
        ordered = sorted(self._buckets.items())
        places = np.array([place for place, _ in ordered], dtype=np.int64)
        return places, np.array([count for _, count in ordered], dtype=np.int64)
