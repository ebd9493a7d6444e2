"""What a person at a terminal sees: progress while something is built or measured, and plain tables."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import TextIO

_ASCII = str.maketrans({"−": "-", "–": "-", "…": "...", "×": "x", "µ": "u", "\N{NO-BREAK SPACE}": " "})


def use_plain_letters() -> None:
    """Let standard output and error write what their encoding lacks in plain letters, instead of failing."""
    codecs.register_error("plain_letters", _plain_letters)
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="plain_letters")


def _plain_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "replace").decode("ascii"), error.end


def tell(text: str) -> None:
    """Print to a person who may have gone: then nothing more is said to anybody, and nothing fails."""
    try:
        print(text, flush=True)
    except OSError:
        forget(sys.stdout)


def forget(stream: TextIO) -> None:
    """Let whatever is still to be written there go nowhere: at the exit too, where a failure would be the exit code."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class Progress:
    """One line that follows what is being done; on a terminal it rewrites itself, elsewhere it speaks rarely."""

    def __init__(self, stream: TextIO | None = None, every: float = 2.0) -> None:
        # A closed standard error is None.
        self._stream: TextIO | None = stream or sys.stderr
        self._live = self._stream is not None and self._stream.isatty()
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
        self._write(f"\r\x1b[K{line}" if self._live else f"{line}\n")
        self._shown = True

    def done(self) -> None:
        """Leave the line clean for what comes next."""
        if self._live and self._shown:
            self._write("\r\x1b[K")
        self._shown = False

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody sees it; the work goes on.
            forget(self._stream)
            self._stream = None


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
