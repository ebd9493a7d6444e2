"""What keeps a scrape from waiting for the other threads of the process that serves it, and that process from growing."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys

SWITCH_SECONDS = 0.0005
"""How long a thread at work keeps the interpreter from one that waits for it. A scrape waits for it several times; with the
usual 5 ms one took 0.79 s where other programs took the CPU from the thread that was rendering."""
LARGE_BYTES = 128 * 1024
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h of glibc
ARENAS = 2


def settle() -> None:
    """To be called once, when everything is built: threads change places quickly from now on, and what is there by now is
    looked at by no garbage collection, which nobody can interrupt."""
    sys.setswitchinterval(SWITCH_SECONDS)
    give_large_pieces_back()
    gc.collect()
    gc.freeze()


def give_large_pieces_back() -> None:
    """Have the C library return large pieces of memory to the system as soon as they are free.

    By itself glibc comes to keep them, in a heap for each thread, whose holes are then filled by pieces of all sizes: a daemon
    with 50 targets, whose pages of half a megabyte come and go, took 12 MB more for it, and never the same twice.
    Other C libraries are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, LARGE_BYTES)
        library.mallopt(M_ARENA_MAX, ARENAS)
