"""Numbers and times as people read them. Unknown is a dash, never a zero."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from exporter.overhead.ratio import Ratio

UNKNOWN = "–"
_MINUS = "−"
_SPACE = "\u00a0"
"""No-break space, between a number and its unit."""
_THIN = "\u202f"
"""Narrow no-break space, between groups of three digits."""

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def duration(seconds: float | None) -> str:
    """A measured time with three significant digits: `3.42 µs`, `12.1 ms`, `1.20 s`."""
    if seconds is None or math.isnan(seconds):
        return UNKNOWN
    if math.isinf(seconds):
        return "timed out"
    for size, unit in _TIME_UNITS:
        # 0.9995 of a unit would be written as 1000 of the next smaller one.
        if abs(seconds) >= size * 0.9995 or (seconds and unit == "ns"):
            return f"{_three_digits(seconds / size)}{_SPACE}{unit}"
    return f"0{_SPACE}s"


def duration_with_interval(seconds: float, lower: float, upper: float) -> str:
    """A time and its interval, all in the unit of the time: `1.91 µs (1.82 … 2.01)`."""
    size, unit = next((entry for entry in _TIME_UNITS if abs(seconds) >= entry[0] * 0.9995), _TIME_UNITS[-1])
    middle, low, high = (_three_digits(value / size).replace("-", _MINUS) for value in (seconds, lower, upper))
    return f"{middle}{_SPACE}{unit} ({low} … {high})"


def age(seconds: float | None) -> str:
    """A span of time, roughly: `42 s`, `7 min`, `3 h 12 min`, `5 d 4 h`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}{_SPACE}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 60:
        return f"{minutes}{_SPACE}min"
    if hours < 24:
        return f"{hours}{_SPACE}h {minutes % 60}{_SPACE}min"
    return f"{days}{_SPACE}d {hours % 24}{_SPACE}h"


def clock(unix: float | None) -> str:
    """A point in time: `2026-03-01 14:25:07 UTC`."""
    if unix is None or not math.isfinite(unix):
        return UNKNOWN
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def overhead(ratio: float | None) -> str:
    """A ratio as what it adds: 1.38 is `+38 %`, 0.995 is `−0.5 %`, 3.2 is `+220 %`."""
    return UNKNOWN if ratio is None else f"{_signed(ratio)}{_SPACE}%"


def headline(ratio: Ratio) -> str:
    """The number to read first: the estimate, else the one bound that is known (`at least +20 %`)."""
    if ratio.estimate is not None:
        return overhead(ratio.estimate)
    if ratio.lower is not None:
        return f"at least {overhead(ratio.lower)}"
    return UNKNOWN if ratio.upper is None else f"at most {overhead(ratio.upper)}"


def interval(ratio: Ratio) -> str:
    """The interval behind the headline: `+35 … +41`, with `?` where an end is unknown."""
    low, high = (("?" if bound is None else _signed(bound)) for bound in (ratio.lower, ratio.upper))
    return f"{low} … {high}"


def with_interval(ratio: Ratio | None) -> str:
    """`+38 % (+35 … +41)`; without an interval it is no fact and stays unknown."""
    if ratio is None or not ratio.has_interval:
        return UNKNOWN
    return f"{headline(ratio)} ({interval(ratio)})"


def count(number: float | None) -> str:
    """A count with thin groups: `9 412`; fractions only below 10; little is not written as nothing (`under 0.1`)."""
    if number is None or not math.isfinite(number):
        return UNKNOWN
    if 0 < number < 0.05:
        return f"under{_SPACE}0.1"
    if number != int(number) and abs(number) < 10:
        return f"{number:.1f}"
    return f"{round(number):,}".replace(",", _THIN)


def through_cipher(decrypts: float | None, encrypts: float | None) -> str:
    """What passed the cipher in one sample: `1 306 decrypted`, `5 encrypted`, both, or `0`."""
    named = ((decrypts, "decrypted"), (encrypts, "encrypted"))
    parts = [f"{count(number)}{_SPACE}{what}" for number, what in named if number]
    if parts:
        return ", ".join(parts)
    return UNKNOWN if decrypts is None or encrypts is None else "0"


def _signed(ratio: float) -> str:
    if not math.isfinite(ratio):
        return "?"
    percent = (ratio - 1.0) * 100.0
    digits = f"{abs(percent):.1f}" if abs(percent) < 9.95 else f"{abs(percent):,.0f}".replace(",", _THIN)
    if float(digits.replace(_THIN, "")) == 0.0:
        return "0.0"
    return ("+" if percent > 0 else _MINUS) + digits


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:,.0f}".replace(",", _THIN)
