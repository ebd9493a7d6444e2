"""Which rows a canary query reads, so that it finds them cold without anybody's cache being emptied.

Random rows of a table slowly become cached, and a cached page proves nothing of decryption. So every new key reads
the page that was read longest ago: all pages take turns before any comes again. Neighbours in time lie far apart (by
about the golden ratio of the table), so that the server sees nothing that it could read ahead of. A table larger than
what its server keeps of it is then found cold each time; one that fits into the cache stays there, and is blind.
"""

from __future__ import annotations

import math
import random
from collections import OrderedDict

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
REMEMBERED_KEYS = 256


class Rolling:
    """Positions 0 <= position < count, each once in a cycle; the start is random.

    A key that is new takes the next turn; one of the last 256 keys gets what it got before. So both twins read the
    same, whatever is done in between.
    """

    def __init__(self, count: int, rng: random.Random) -> None:
        self.count = max(1, count)
        self._step = coprime_step(self.count)
        self._start = rng.randrange(self.count)
        self._turns = 0
        self._given: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def at(self, key: int) -> tuple[int, int]:
        """The position for a key, and the number of the cycle that it belongs to."""
        if key not in self._given:
            cycle, turn = divmod(self._turns, self.count)
            self._given[key] = (self._start + turn * self._step) % self.count, cycle
            self._turns += 1
            if len(self._given) > REMEMBERED_KEYS:
                self._given.popitem(last=False)
        return self._given[key]


def coprime_step(count: int) -> int:
    """The number nearest to the golden share of `count` that has no divisor in common with it."""
    wanted = max(1, round(count * GOLDEN))
    return min(
        (step for step in range(max(1, wanted - 64), wanted + 65) if math.gcd(step, count) == 1),
        key=lambda step: abs(step - wanted),
    )


class RollingRows:
    """Single rows, one on each page before a page has its next turn; in the next cycle it gives its next row.

    `rows_per_page` may be an estimate: too small reads some pages twice in a cycle, too large leaves some out.
    """

    def __init__(self, rows: int, rows_per_page: float, rng: random.Random) -> None:
        self._rows = rows
        self._stride = max(1, min(rows, int(rows_per_page)))
        self._pages = Rolling(-(-rows // self._stride), rng)
        self._offset = rng.randrange(self._stride)

    def id(self, key: int) -> int:
        """The row to read, 1 <= id <= rows."""
        page, cycle = self._pages.at(key)
        first = page * self._stride
        width = min(self._stride, self._rows - first)
        return 1 + first + (self._offset + cycle) % width


class RollingSlices:
    """Stretches of `width` neighbours among the numbers from `first` on; together they cover all of them."""

    def __init__(self, first: int, count: int, width: int, rng: random.Random) -> None:
        self._first, self._count, self._width = first, count, max(1, min(width, count))
        self._slices = Rolling(-(-count // self._width), rng)

    def bounds(self, key: int) -> tuple[int, int]:
        """First and last number of the stretch, both included; always `width` numbers."""
        position, _ = self._slices.at(key)
        # The last one is moved back: every stretch is equally long, on both twins and at every turn.
        start = self._first + min(position * self._width, self._count - self._width)
        return start, start + self._width - 1
