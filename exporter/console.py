"""What a person at a terminal sees: progress while something is built or measured, and plain tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO


class Progress:
    """One line that follows what is being done; on a terminal it rewrites itself, elsewhere it speaks rarely."""

    def __init__(self, stream: TextIO | None = None, every: float = 2.0) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._every, self._spoken = (0.1 if self._live else every), 0.0
        self._what = ""
        self._shown = False

    def __call__(self, what: str, share: float) -> None:
        """Say that `what` is done to `share` (0..1); cheap enough to be called often."""
        now = time.monotonic()
        if what == self._what and share < 1.0 and now - self._spoken < self._every:
            return
        if not self._live and what == self._what and share >= 1.0:
            return
        self._what, self._spoken = what, now
        line = f"{what} … {share:4.0%}" if share > 0.0 else f"{what} …"
        self._stream.write(f"\r\x1b[K{line}" if self._live else f"{line}\n")
        self._stream.flush()
        self._shown = True

    def done(self) -> None:
        """Leave the line clean for what comes next."""
        if self._live and self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._shown = False


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Aligned columns with two spaces between them; the first `left` columns are flush left, the others right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])
