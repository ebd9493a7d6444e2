"""From "would this ratio be rejected?" to an estimate with its interval: the inversion of a block t test.

A ratio is plausible as long as the t statistic of what each block has too much under it stays below the quantile.
Everything happens on log ratios, where scaling is a shift.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from exporter.overhead.ratio import Ratio, exponential
from exporter.overhead.student import student_quantile

CAP = 20.0
"""The search ends at this ratio and at its inverse; beyond it only "at least" is said."""

_REACH = math.log(CAP)
_HALVINGS = 24  # Of at most the search range: the last bracket is below 1e-6 wide.
_FIRST_STEP = 0.01
_GROWTH = 1.5


def invert(
    surplus: Callable[[float], float],
    statistic: Callable[[float], float],
    blocks: int,
    confidence: float,
    count: int,
) -> Ratio:
    """The ratio at which `surplus` changes its sign, and all that `statistic` does not reject; `count` is its n.

    Both are functions of the natural logarithm of a ratio and fall with it: what all `blocks` together have too
    much, and its t statistic (see `t_statistic`).
    """
    critical = student_quantile(0.5 + 0.5 * confidence, blocks - 1)
    still_more = _edge(lambda shift: surplus(shift) > 0)
    not_less = _edge(lambda shift: surplus(shift) >= 0)
    # Between the two edges the surplus is zero; the middle makes swapping the sides an inversion.
    estimate = exponential(0.5 * (still_more + not_less))
    lower = upper = None
    if still_more > -math.inf:
        start = min(still_more, _REACH)
        lower = exponential(_first(lambda shift: statistic(shift) >= critical, start, -1))
    if not_less < math.inf:
        start = max(not_less, -_REACH)
        upper = exponential(_first(lambda shift: statistic(shift) <= -critical, start, 1))
    return Ratio(estimate, lower, upper, count)


def t_statistic(values: Sequence[float]) -> float:
    """Of the mean of one value per block against zero; infinite when all are equal and not zero."""
    blocks, total = len(values), sum(values)
    scatter = blocks * sum(value * value for value in values) - total * total
    if scatter <= 0:
        return math.copysign(math.inf, total) if total else 0.0
    return float(total / math.sqrt(scatter / (blocks - 1)))


def _edge(holds: Callable[[float], bool]) -> float:
    """Where `holds` turns from true to false in the search range; -inf when it never holds, inf when always."""
    low, high = -_REACH, _REACH
    if not holds(low):
        return -math.inf
    if holds(high):
        return math.inf
    return _halve(holds, low, high)


def _first(rejects: Callable[[float], bool], start: float, direction: int) -> float:
    """The shift nearest to `start`, going in `direction`, that `rejects`; infinite when there is none in the range.

    The t statistic is not monotone: far away from the truth only one side is among the exceedances,
    their clusters in few blocks inflate the scatter, and nothing would be rejected any more. The sum
    of D is monotone, so what lies beyond a rejected ratio is even less plausible: walking outwards
    is right, and keeps the coverage at its nominal value.
    """
    inside, step = start, _FIRST_STEP
    while True:
        outside = start + direction * step
        if abs(outside) > _REACH:
            outside = direction * _REACH
        if rejects(outside):
            return _halve(lambda shift: not rejects(shift), inside, outside)
        if outside == direction * _REACH:
            return direction * math.inf
        inside, step = outside, step * _GROWTH


def _halve(holds: Callable[[float], bool], true_at: float, false_at: float) -> float:
    for _ in range(_HALVINGS):
        middle = 0.5 * (true_at + false_at)
        if holds(middle):
            true_at = middle
        else:
            false_at = middle
    return 0.5 * (true_at + false_at)
