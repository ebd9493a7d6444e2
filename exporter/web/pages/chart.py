"""Ratios as small pictures: one scale for all rows, so that rows can be compared by eye."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from exporter.overhead.ratio import Ratio

WIDTH, HEIGHT = 104, 24
_MARGIN = 6.0


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic scale of ratios: twice as slow and twice as fast are equally far from no difference."""

    low: float
    high: float

    @classmethod
    def around(cls, ratios: Iterable[Ratio], threshold: float) -> Scale:
        """Holds no difference, the threshold and all known bounds, but never less than half or more than twice.

        What lies beyond is drawn as an arrow at the end, so that one outlier does not flatten the rest.
        """
        known = [bound for ratio in ratios for bound in (ratio.lower, ratio.estimate, ratio.upper) if bound is not None]
        return cls(max(0.5, min([0.93, *known])), min(2.0, max([threshold * 1.1, *known])))

    def x(self, ratio: float) -> float:
        """Where a ratio is drawn; what lies outside the scale is drawn at its end."""
        clamped = min(max(ratio, self.low), self.high)
        share = math.log(clamped / self.low) / math.log(self.high / self.low)
        return _MARGIN + share * (WIDTH - 2 * _MARGIN)


def picture(ratio: Ratio | None, scale: Scale, threshold: float) -> str:
    """The interval as an SVG without text (the numbers stand beside it); only the two lines where there is none.

    An end that is unknown reaches to the end of the picture.
    """
    parts = [
        f'<svg class="chart" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">',
        f'<line class="none" x1="{scale.x(1.0):.1f}" x2="{scale.x(1.0):.1f}" y1="2" y2="{HEIGHT - 2}"/>',
        f'<line class="limit" x1="{scale.x(threshold):.1f}" x2="{scale.x(threshold):.1f}" y1="2" y2="{HEIGHT - 2}"/>',
    ]
    if ratio is not None and (ratio.lower is not None or ratio.upper is not None):
        left = _MARGIN if ratio.lower is None else scale.x(ratio.lower)
        right = WIDTH - _MARGIN if ratio.upper is None else scale.x(ratio.upper)
        width = max(right - left, 1.0)
        parts.append(f'<rect x="{left:.1f}" y="{HEIGHT / 2 - 3:g}" width="{width:.1f}" height="6" rx="3"/>')
    if ratio is not None and ratio.estimate is not None:
        parts.append(_mark(ratio.estimate, scale))
    return "".join([*parts, "</svg>"])


def _mark(estimate: float, scale: Scale) -> str:
    """A dot, or an arrow at the end of the scale that the estimate lies beyond."""
    x, y = scale.x(estimate), HEIGHT / 2
    if scale.low <= estimate <= scale.high:
        return f'<circle cx="{x:.1f}" cy="{y:g}" r="4.5"/>'
    tip = _MARGIN if estimate > scale.high else -_MARGIN
    return f'<path d="M{x + tip:.1f} {y:g}L{x - tip / 2:.1f} {y - 6:g}V{y + 6:g}z"/>'
