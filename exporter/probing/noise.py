"""The null canary: what a timed section costs that asks no database for anything.

It times one small read from a device file, a system call that lets go of the interpreter's lock as every
driver call does. What it shows above a few microseconds is the exporter's own noise floor.
"""

from __future__ import annotations

import os
import time

from exporter.probing.turnstile import Turnstile


class NullCanary:
    """Takes turns like every short sample, so that it waits for nothing that they would not wait for."""

    def __init__(self, turnstile: Turnstile, samples: int = 10) -> None:
        self._turnstile, self._samples = turnstile, samples
        self._device = os.open("/dev/zero", os.O_RDONLY)

    def measure(self) -> tuple[float, ...]:
        """Seconds of each sample; contended ones are left out, as they are for real canaries."""
        taken = []
        for _ in range(self._samples):
            with self._turnstile.turn() as turn:
                begun = time.perf_counter_ns()
                os.pread(self._device, 512, 0)
                ended = time.perf_counter_ns()
            if not turn.contended:
                taken.append((ended - begun) * 1e-9)
        return tuple(taken)

    def close(self) -> None:
        os.close(self._device)
