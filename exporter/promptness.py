"""What keeps a scrape from waiting for the other threads of the process that serves it."""

from __future__ import annotations

import gc
import sys

SWITCH_SECONDS = 0.0005
"""How long a thread at work keeps the interpreter from one that waits for it. A scrape waits for it several times; with the
usual 5 ms one took 0.79 s where other programs took the CPU from the thread that was rendering."""


def settle() -> None:
    """To be called once, when everything is built: threads change places quickly from now on, and what is there by now is
    looked at by no garbage collection, which nobody can interrupt."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
