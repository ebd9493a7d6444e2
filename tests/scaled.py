"""The environment in which the time of an exporter runs faster; see `exporter.domain.time_scale`."""

from __future__ import annotations

import time

from exporter.domain.time_scale import CONSENT, CONSENT_VARIABLE, SCALE_VARIABLE


def scaled(factor: float) -> dict[str, str]:
    """From now on `factor` times as fast. Processes that share a history need the same environment."""
    return {SCALE_VARIABLE: f"{factor:g}@{time.time():.3f}", CONSENT_VARIABLE: CONSENT}
