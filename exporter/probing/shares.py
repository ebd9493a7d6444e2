"""How operations that together want more than there is share one budget fairly; pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence


def fair_shares(wants: Sequence[float], available: float) -> list[float]:
    """What each of `wants` gets of `available`: max-min fair, in the order of `wants`.

    Who wants no more than an equal part gets all of it; what such leave over is shared among the others in
    the same way. So nobody gets nothing, and a cheap operation is never thinned for the sake of a dear one.
    """
    shares = [0.0] * len(wants)
    left = available
    for served, place in enumerate(sorted(range(len(wants)), key=wants.__getitem__)):
        shares[place] = min(wants[place], left / (len(wants) - served))
        left -= shares[place]
    return shares


def fair_periods(costs: Sequence[float], interval: float, per_hour: float) -> list[float]:
    """Seconds from one tick to the next for each operation, so that all together keep to `per_hour`.

    `costs` says what one tick of each takes of the budget, `interval` is the shortest period. One tick of each is held
    back, for an hour may begin and end with a tick; but no more than half of the budget, or operations whose
    ticks are dear would never come to an agreement.
    """
    if interval <= 0 or per_hour <= 0:
        raise ValueError("an interval and a budget are positive")
    available = max(per_hour - sum(costs), per_hour / 2) / 3600.0
    wants = [cost / interval for cost in costs]
    shares = fair_shares(wants, available)
    return [interval if want <= share else interval * want / share for want, share in zip(wants, shares, strict=True)]
