"""Opening a file that somebody named in a configuration, whatever it turns out to be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """The file, open for reading. Raises what `open` raises, and never waits: opening a named pipe that nobody writes to would
    do so for ever. What kind of file it is, whoever reads it has to look at first."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
