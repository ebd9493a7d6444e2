"""Points in time as people give them on a command line."""

from __future__ import annotations

import argparse
import math
from datetime import UTC, datetime

from exporter.config.quantities import DURATION_FORMS, parse_duration

FORMS = "2026-03-01T14:25, 2026-03-01T14:25:07+01:00 (without a zone: UTC), or how long ago: 10m, 2d"


def moment(text: str, now: float) -> float:
    """Unix time from ISO 8601 or from how long ago it was; raises ValueError."""
    try:
        return now - span(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"this is no point in time; write it as {FORMS}") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def span(text: str) -> float:
    """Seconds from text such as `24h`; raises ValueError."""
    found = parse_duration(text)
    if not isinstance(found, float) or not math.isfinite(found) or found < 0:
        raise ValueError(f"this is no duration; write it as {DURATION_FORMS}")
    return found


def span_argument(text: str) -> float:
    """For `argparse`."""
    try:
        return span(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
