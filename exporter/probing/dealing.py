"""Which probe process has which targets: at the start, and when others are configured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import NamedTuple

from exporter.config.schema import Settings, TargetSettings


class Share(NamedTuple):
    """The targets of one process, by name, and the company that they keep (`TargetSettings.company`)."""

    company: str
    targets: tuple[str, ...]


MOST_FOR_CORES, MOST_FOR_TARGETS, CROWD = 8, 16, 50
"""Processes that are started unasked: one for each core, and for many targets one for each crowd of them."""

NOTHING: Mapping[int, Share] = MappingProxyType({})


def processes_for(settings: Settings) -> int:
    """How many probe processes these settings want, apart from those that a company needs of its own."""
    if settings.probes.processes is not None:
        return settings.probes.processes
    return max(min(os.cpu_count() or 1, MOST_FOR_CORES), min(-(-len(settings.targets) // CROWD), MOST_FOR_TARGETS))


def deal(targets: Sequence[TargetSettings], processes: int, before: Mapping[int, Share] = NOTHING) -> dict[int, Share]:
    """The share of each process by its number; none is empty. At most `processes` for the targets that keep no company,
    and one more for each company.

    Targets stay in the process that has them in `before`; the others go where the fewest are.
    """
    company = {target.name: target.company for target in targets}
    names = {
        number: [name for name in share.targets if company.get(name) == share.company]
        for number, share in before.items()
    }
    names = {number: held for number, held in names.items() if held}
    companies = {number: before[number].company for number in names}
    placed = {name for held in names.values() for name in held}
    # Those without company first: so the numbers do not depend on where in the list the others stand.
    for target in sorted(targets, key=lambda target: bool(target.company)):
        if target.name in placed:
            continue
        mine = [number for number in names if companies[number] == target.company]
        if len(mine) < (1 if target.company else processes):
            number = next(number for number in count() if number not in names)
            names[number], companies[number] = [], target.company
        else:
            number = min(mine, key=lambda number: (len(names[number]), number))
        names[number].append(target.name)
    return {number: Share(companies[number], tuple(names[number])) for number in sorted(names)}
